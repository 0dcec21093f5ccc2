"""The names under which engines expose what opmon needs, as data: one `Engine` per software.

Names differ between versions; the alternatives of a signal carry the same data, so the first one present on a page is
taken and they are never added. Another engine is another `Engine` in `ENGINES`, without code.
Contains no parsing and no arithmetic. Names are matched exactly: a family's `..._created` sibling is a gauge that holds
a date and must never be read as the counter, and `vllm:iteration_tokens_total` is a histogram in spite of its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from opmon.core.model import Lane
from opmon.errors import ConfigError

PROCESS_START = "process_start_time_seconds"
AUTO = "auto"


class Kind(StrEnum):
    """How a signal is exposed and how its series become one value per engine of a model.

    `level`: a gauge of requests, a whole number; summed over further labels. `ratio`: a gauge; the largest holds.
    `counter`: summed. `histogram`: `_sum`, `_count` (and `_bucket` in the full lane), summed.
    """

    LEVEL = "level"
    RATIO = "ratio"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Signal:
    """A canonical signal and the exposed names that carry it, without prefix, in order of preference.

    `pulse`: it is part of every scrape. `optional`: its absence is a configuration, not a gap in what is known.
    `voided_by`: names whose presence says that this signal means something else on that page.
    """

    canonical: str
    kind: Kind
    names: tuple[str, ...]
    pulse: bool = False
    optional: bool = False
    voided_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Info:
    """A gauge whose labels carry the news: our key -> its label, for what makes an identity and for mere facts."""

    name: str
    identity: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A name of which one label matters, and the key under which a snapshot reports it."""

    name: str
    label: str
    key: str


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's exposition.

    `prefixes`: alternatives; only under the first do the process metrics of the page belong to the engine.
    `process_labels`: labels that tell apart processes which report the same gauge; the largest value holds.
    `counted`: the number of distinct values of a label goes into the identity. `states`: the label value whose
    sample is 1 is a fact. `length_families`: (canonical family, fact): its largest finite bound is at most the
    limit of that length. `swapped`: canonical signals that a version exposes under each other's names.
    """

    name: str
    prefixes: tuple[str, ...]
    model_label: str
    index_label: str
    signals: tuple[Signal, ...]
    process_labels: frozenset[str] = frozenset()
    infos: tuple[Info, ...] = ()
    created: tuple[str, ...] = ()
    counted: tuple[Labelled, ...] = ()
    states: tuple[Labelled, ...] = ()
    length_families: tuple[tuple[str, str], ...] = ()
    swapped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def signals_of(self, lane: Lane) -> tuple[Signal, ...]:
        """The signals that a lane reads: a pulse only its few, a full scrape all."""
        return self.signals if lane is Lane.FULL else tuple(signal for signal in self.signals if signal.pulse)


VLLM = Engine(
    name="vllm",
    # Ray re-exports with its own prefix: a colon until vLLM 0.10.2, an underscore from 0.11.0.
    prefixes=("vllm:", "ray_vllm:", "ray_vllm_"),
    model_label="model_name",
    index_label="engine",  # from 0.8.3
    # 0.9.2 to 0.11.0 show kv_cache_usage_perc once per API server process, all but one of them 0.
    process_labels=frozenset({"pid"}),
    signals=(
        Signal("running", Kind.LEVEL, ("num_requests_running",), pulse=True),
        Signal("waiting", Kind.LEVEL, ("num_requests_waiting",), pulse=True),
        # A share of 1 in spite of "perc". 0.9.2 to 0.10.x show both names.
        Signal("kv_usage_ratio", Kind.RATIO, ("kv_cache_usage_perc", "gpu_cache_usage_perc"), pulse=True),
        Signal("generation_tokens", Kind.COUNTER, ("generation_tokens_total",), pulse=True),
        Signal("prompt_tokens", Kind.COUNTER, ("prompt_tokens_total",), pulse=True),
        Signal("finished_requests", Kind.COUNTER, ("request_success_total",), pulse=True),
        Signal("preemptions", Kind.COUNTER, ("num_preemptions_total",), pulse=True),
        # Before 0.10.2 the old name alone, until 0.11.x both with the same data.
        Signal(
            "itl_seconds",
            Kind.HISTOGRAM,
            ("inter_token_latency_seconds", "time_per_output_token_seconds"),
            pulse=True,
        ),
        Signal("prefill_seconds", Kind.HISTOGRAM, ("request_prefill_time_seconds",), pulse=True),
        Signal("ttft_seconds", Kind.HISTOGRAM, ("time_to_first_token_seconds",), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, ("request_queue_time_seconds",)),
        Signal("decode_seconds", Kind.HISTOGRAM, ("request_decode_time_seconds",)),
        Signal("inference_seconds", Kind.HISTOGRAM, ("request_inference_time_seconds",)),
        Signal("e2e_seconds", Kind.HISTOGRAM, ("e2e_request_latency_seconds",)),
        Signal("tpot_seconds", Kind.HISTOGRAM, ("request_time_per_output_token_seconds",)),
        Signal("prompt_length", Kind.HISTOGRAM, ("request_prompt_tokens",)),
        Signal("output_length", Kind.HISTOGRAM, ("request_generation_tokens",)),
        # The old engine (with `emitted` tokens) adds running totals to its counters: they grow as a square.
        Signal(
            "drafts",
            Kind.COUNTER,
            ("spec_decode_num_drafts_total",),
            optional=True,
            voided_by=("spec_decode_num_emitted_tokens_total",),
        ),
        Signal(
            "draft_tokens",
            Kind.COUNTER,
            ("spec_decode_num_draft_tokens_total",),
            optional=True,
            voided_by=("spec_decode_num_emitted_tokens_total",),
        ),
        Signal(
            "accepted_tokens",
            Kind.COUNTER,
            ("spec_decode_num_accepted_tokens_total",),
            optional=True,
            voided_by=("spec_decode_num_emitted_tokens_total",),
        ),
        # Blocks until 0.8.5, tokens since; their quotient is the same. 0.9.2 to 0.10.x show both names.
        Signal(
            "prefix_queries",
            Kind.COUNTER,
            ("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
            optional=True,
        ),
        Signal(
            "prefix_hits",
            Kind.COUNTER,
            ("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
            optional=True,
        ),
        Signal("iterations", Kind.COUNTER, ("iteration_tokens_total_count",)),
    ),
    infos=(
        Info(
            "cache_config_info",
            identity={"kv_blocks": "num_gpu_blocks"},
            facts={
                "kv_cache_max_concurrency": "kv_cache_max_concurrency",
                "kv_cache_size_tokens": "kv_cache_size_tokens",
                "kv_block_size": "block_size",
            },
        ),
    ),
    created=("generation_tokens_created",),
    counted=(Labelled("spec_decode_num_accepted_tokens_per_pos_total", "position", "speculative_positions"),),
    states=(Labelled("engine_sleep_state", "sleep_state", "sleep_state"),),
    length_families=(("prompt_length", "max_model_len_at_least"),),
    swapped={"0.6.4": {"prefill_seconds": "decode_seconds", "decode_seconds": "prefill_seconds"}},
)

ENGINES: tuple[Engine, ...] = (VLLM,)


def candidates(engine: str) -> tuple[Engine, ...]:
    """The engines that a target's setting allows: all for `auto`. Raises ConfigError for a name not in the table."""
    if engine == AUTO:
        return ENGINES
    found = tuple(one for one in ENGINES if one.name == engine)
    if not found:
        known = ", ".join((AUTO, *(one.name for one in ENGINES)))
        message = f"engine {engine!r} is not known; allowed are: {known}"
        raise ConfigError(message)
    return found


def exposed_names(engine: Engine, prefix: str, lane: Lane) -> tuple[str, ...]:
    """Every name that a lane reads of an engine under one prefix, as the samples carry it, each once, in order."""
    suffixes = ("_sum", "_count", "_bucket") if lane is Lane.FULL else ("_sum", "_count")
    names: list[str] = []
    for signal in engine.signals_of(lane):
        names += signal.voided_by
        for name in signal.names:
            names += [name + suffix for suffix in suffixes] if signal.kind is Kind.HISTOGRAM else [name]
    if lane is Lane.FULL:
        names += [one.name for one in engine.infos]
        names += [one.name for one in (*engine.counted, *engine.states)]
        names += engine.created
    return (*dict.fromkeys(prefix + name for name in names), PROCESS_START)


@lru_cache(maxsize=64)
def wanted_names(engine: str, lane: Lane) -> frozenset[str]:
    """All names that a lane may use of a target, under every prefix and of every engine that its setting allows."""
    return frozenset(
        name for one in candidates(engine) for prefix in one.prefixes for name in exposed_names(one, prefix, lane)
    )


# What the filtered pulse asks for. The filter compares names of samples, so `..._sum` alone may be asked for.
PULSE_NAMES: tuple[str, ...] = exposed_names(VLLM, VLLM.prefixes[0], Lane.PULSE)
