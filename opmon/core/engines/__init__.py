"""Every engine that opmon reads, as data: one module an engine, and what is worked out from all of their tables.

Another engine is another module with an `Engine`, its place in `ENGINES`, a page in the documents and a page of metrics
in the tests. Contains no parsing and no arithmetic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from opmon.core.engines.llama_cpp import LLAMA_CPP
from opmon.core.engines.lmdeploy import LMDEPLOY
from opmon.core.engines.sglang import SGLANG
from opmon.core.engines.strangers import FOREIGN_CONSTANTS, STRANGERS
from opmon.core.engines.table import Engine, Kind, Part, Signal
from opmon.core.engines.tgi import TGI
from opmon.core.engines.triton import TRITON
from opmon.core.engines.trtllm import TRTLLM
from opmon.core.engines.vllm import VLLM
from opmon.core.model import Lane
from opmon.errors import ConfigError

__all__ = [
    "AUTO",
    "BY_NAME",
    "ENGINES",
    "PROCESS_START",
    "PULSE_NAMES",
    "VLLM",
    "Engine",
    "Kind",
    "Located",
    "Planned",
    "candidates",
    "exposed_names",
    "may_filter",
    "plan_of",
    "running_of",
    "wanted_names",
]

PROCESS_START = "process_start_time_seconds"
AUTO = "auto"

# In this order a page is tried.
ENGINES: tuple[Engine, ...] = (VLLM, SGLANG, TRTLLM, LMDEPLOY, LLAMA_CPP, TGI, TRITON)
BY_NAME = {engine.name: engine for engine in ENGINES}


class Located(NamedTuple):
    """One part of a source under its exposed names: of the value itself, or of a histogram's sum, count and buckets."""

    name: str
    sum_name: str
    count_name: str
    bucket_name: str
    suffix: str
    label: str
    values: tuple[str, ...]


class Planned(NamedTuple):
    """A signal as it is looked for on a page: the exposed names of its sources in order of preference."""

    canonical: str
    kind: Kind
    sources: tuple[tuple[Located, ...], ...]
    voided_by: tuple[str, ...]
    optional: bool
    is_alias: bool


def candidates(engine: str) -> tuple[Engine, ...]:
    """The engines that a target's setting allows: all for `auto`. Raises ConfigError for a name not in the table."""
    if engine == AUTO:
        return ENGINES
    if engine not in BY_NAME:
        known = ", ".join((AUTO, *BY_NAME))
        message = f"engine {engine!r} is not known; allowed are: {known}"
        raise ConfigError(message)
    return (BY_NAME[engine],)


@lru_cache(maxsize=256)
def plan_of(engine: str, prefix: str, lane: Lane) -> tuple[Planned, ...]:
    """What a lane looks for on an engine's page under one prefix."""
    return tuple(_planned(signal, prefix) for signal in BY_NAME[engine].signals_of(lane))


def _planned(signal: Signal, prefix: str) -> Planned:
    suffix = "_count" if signal.kind is Kind.HISTOGRAM else ""
    return Planned(
        signal.canonical,
        signal.kind,
        tuple(tuple(_located(part, prefix, suffix) for part in source) for source in signal.sources),
        tuple(prefix + name for name in signal.voided_by),
        signal.optional,
        signal.is_alias,
    )


def _located(part: Part, prefix: str, suffix: str) -> Located:
    name = prefix + part.name
    return Located(
        name + suffix, name + "_sum", name + "_count", name + "_bucket", suffix, label=part.label, values=part.values
    )


def running_of(engine: str, prefix: str) -> tuple[tuple[Located, ...], ...]:
    """Where an engine's page says how many requests run; empty if it never does."""
    plan = plan_of(engine, prefix, Lane.PULSE)
    return next((planned.sources for planned in plan if planned.canonical == "running"), ())


def exposed_names(engine: Engine, prefix: str, lane: Lane) -> tuple[str, ...]:
    """Every name that a lane reads of an engine under one prefix, as the samples carry it, each once, in order."""
    names: list[str] = []
    for planned in plan_of(engine.name, prefix, lane):
        names += planned.voided_by
        for part in (part for source in planned.sources for part in source):
            if planned.kind is Kind.HISTOGRAM:
                names += [part.sum_name, part.count_name] + [part.bucket_name] * (lane is Lane.FULL)
            else:
                names.append(part.name)
    extra = [engine.sleep.part.name] if engine.sleep else []
    if lane is Lane.FULL:
        extra += [info.name for info in engine.infos]
        extra += [labelled.name for labelled in engine.counted]
        extra += [constant.part.name for constant in engine.constants]
        extra += [*engine.created, *(name for marked, _, _ in engine.marks for name in marked)]
    names += [prefix + name for name in extra]
    return (*dict.fromkeys(names), PROCESS_START)


@lru_cache(maxsize=64)
def wanted_names(engine: str, lane: Lane) -> frozenset[str]:
    """All names that a lane may use of a target, under every prefix and of every engine that its setting allows, and
    those that give away a page which is no engine's, or not one engine's alone."""
    own = {name for one in candidates(engine) for prefix in one.prefixes for name in exposed_names(one, prefix, lane)}
    foreign = {name for stranger in STRANGERS for name in stranger.names}
    running = {
        part.name
        for one in ENGINES
        for prefix in one.prefixes
        for source in running_of(one.name, prefix)
        for part in source
    }
    return frozenset(own | foreign | running | {constant.part.name for constant in FOREIGN_CONSTANTS})


# What the filtered pulse asks for. The filter compares names of samples, so `..._sum` alone may be asked for.
PULSE_NAMES: tuple[str, ...] = exposed_names(VLLM, VLLM.prefixes[0], Lane.PULSE)


def may_filter(engine: str) -> bool:
    """Whether a server of this engine may answer a filtered pulse; '' and `auto` (not known yet) may."""
    return engine not in BY_NAME or BY_NAME[engine].filters
