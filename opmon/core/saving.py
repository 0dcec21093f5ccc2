"""A claimed saving: what bytes that a step no longer reads can be worth at most, and what a measurement made of it.

Contains DEFINITIONS 7 and the reading of its inputs with their units. Times are seconds, bytes are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from opmon.core.names import quoted
from opmon.core.turn import Limit
from opmon.errors import ConfigError

BANDWIDTH, CAPACITY = "bandwidth", "capacity"
KINDS = (BANDWIDTH, CAPACITY)
YES, NO = "yes", "no"
STEPS_DIFFER_RATIO = 0.10
_LONGEST_TEXT = 100

BYTES_LIMIT = Limit(1e3, 1e15, "bytes")
BANDWIDTH_LIMIT = Limit(1e6, 1e15, "bytes a second")
STEP_LIMIT = Limit(1e-6, 100, "seconds")
SHARE_LIMIT = Limit(0, 1, "times")
SPEED_LIMIT = Limit(1e-3, 1e9, "tokens a second")
ACCEPTANCE_LIMIT = Limit(1, 1e3, "tokens a step")

_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BINARY = {"ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30, "ti": 2.0**40}
_SIZES = {f"{prefix}b": factor for prefix, factor in (_PREFIXES | _BINARY).items()} | {"": 1.0, "bytes": 1.0}
_TIMES = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([^0-9\s].*)?")
_PER_SECOND = re.compile(r"\s*(?:/\s*s(?:ec|econd)?|ps)$", re.IGNORECASE)
_BITS = re.compile(r"[KMGT]i?b")


@dataclass(frozen=True, slots=True)
class Measurement:
    """What two measured speeds say: seconds of a step on both sides (acceptance length / speed), and the share of the
    figure that arrived, None where nothing was to be saved. `speedup_ratio` = `step_ratio` x `acceptance_ratio`."""

    step_before_seconds: float
    step_after_seconds: float
    saved_seconds: float
    realised_ratio: float | None
    speedup_ratio: float
    step_ratio: float
    acceptance_ratio: float


@dataclass(frozen=True, slots=True)
class Saving:
    """What a claimed saving is worth at most. `figure_seconds` = bytes / bandwidth; `saved_seconds` = the smaller of it
    and the stage's own time, times `share_ratio`. `limited_by`: `bandwidth`, `stage` or `fit`. What is None cannot be
    bounded, and `detail` says why."""

    saved_seconds: float | None
    speedup_bound_ratio: float | None
    kind: str
    detail: str
    limited_by: str | None
    figure_seconds: float
    step_seconds: float
    share_ratio: float
    acceptance_ratio: float
    speed_bound_tokens_per_second: float | None = None
    measured: Measurement | None = None


@dataclass(frozen=True, slots=True)
class SavingAsk:
    """The claim: bytes that a step no longer reads (or memory that is no longer filled, of kind `capacity`), bytes a
    second, seconds of a step and of the stage of it in which the bytes are read. `fits`: whether the weights fit into
    memory without the saving. Speeds of one stream and acceptance lengths are of before and after the change."""

    bytes: float
    bandwidth: float
    step_seconds: float
    share_ratio: float = 1.0
    fits: bool | None = None
    kind: str = BANDWIDTH
    stage_seconds: float | None = None
    speed_tokens_per_second: float | None = None
    speed_after_tokens_per_second: float | None = None
    acceptance_length: float | None = None
    acceptance_length_after: float | None = None


def saving(ask: SavingAsk) -> Saving:
    """The saving per step, the speed-up that it bounds, and, with both speeds, what became of it.

    Raises ConfigError for inputs that cannot be. Without a bound (a capacity saving that is not worth nothing, or one
    that would take the whole step) the figures are None, and the detail says why.
    """
    _check(ask)
    figure = ask.bytes / ask.bandwidth
    saved, limited_by, words = _saved(ask, figure)
    ratio = _acceptance_ratio(ask)
    left = None if saved is None else ask.step_seconds - saved
    bound = ratio * ask.step_seconds / left if left is not None and left > 0 else None
    if left is not None and left <= 0:
        words.append(
            "the saving would take the whole step, so nothing bounds the speed-up: check bandwidth and step time"
        )
    if ratio != 1:
        words.append(f"the acceptance length changes the speed by {ratio:.3f}x")
    measured = _measured(ask, figure)
    return Saving(
        saved_seconds=saved,
        speedup_bound_ratio=bound,
        kind=ask.kind,
        detail="; ".join([*words, *_doubts(ask, measured)]),
        limited_by=limited_by,
        figure_seconds=figure,
        step_seconds=ask.step_seconds,
        share_ratio=ask.share_ratio,
        acceptance_ratio=ratio,
        speed_bound_tokens_per_second=None
        if bound is None or ask.speed_tokens_per_second is None
        else bound * ask.speed_tokens_per_second,
        measured=measured,
    )


def _saved(ask: SavingAsk, figure: float) -> tuple[float | None, str | None, list[str]]:
    """(seconds saved a step, what limits them, the reasons)."""
    if ask.kind == CAPACITY:
        return _capacity(ask)
    stage = ask.step_seconds if ask.stage_seconds is None else ask.stage_seconds
    saved = ask.share_ratio * min(figure, stage)
    words = [f"{_ms(figure)} to read {ask.bytes / 1e9:.4g} GB at {ask.bandwidth / 1e9:.4g} GB/s"]
    if figure > stage:
        whole = "the whole step" if ask.stage_seconds is None else "the stage"
        words.append(f"{whole} takes {_ms(stage)}, and no more than that can be saved")
    words.append(
        "an upper bound: all of it is taken as realised"
        if ask.share_ratio == 1
        else f"{100 * ask.share_ratio:.3g} % of it is taken as realised"
    )
    if ask.fits:
        words.append("the weights fit without it, so the memory set free is worth nothing beside the reading")
    elif ask.fits is False:
        words.append(
            "the weights do not fit without it, so the step time must be one of a server that runs all the same"
        )
    return saved, "stage" if figure > stage else BANDWIDTH, words


def _capacity(ask: SavingAsk) -> tuple[float | None, str | None, list[str]]:
    """Memory that is no longer filled saves no time by itself."""
    if ask.fits:
        return 0.0, "fit", ["the weights already fit, and a saving of memory is worth nothing then"]
    if ask.fits is None:
        return (
            None,
            None,
            ["whether the weights fit without it decides what a saving of memory is worth: say so (fits)"],
        )
    return None, None, ["the weights do not fit without it: what it makes possible is not a matter of time a step"]


def _acceptance_ratio(ask: SavingAsk) -> float:
    if ask.acceptance_length is None or ask.acceptance_length_after is None:
        return 1.0
    return ask.acceptance_length_after / ask.acceptance_length


def _measured(ask: SavingAsk, figure: float) -> Measurement | None:
    """Step time = acceptance length / speed. Acceptance not said: taken as equal, from the step time that was given."""
    if ask.speed_tokens_per_second is None or ask.speed_after_tokens_per_second is None:
        return None
    length = ask.acceptance_length or ask.speed_tokens_per_second * ask.step_seconds
    before = length / ask.speed_tokens_per_second
    after = (ask.acceptance_length_after or length) / ask.speed_after_tokens_per_second
    stage = figure if ask.kind == BANDWIDTH else 0.0
    return Measurement(
        step_before_seconds=before,
        step_after_seconds=after,
        saved_seconds=before - after,
        realised_ratio=(before - after) / stage if stage else None,
        speedup_ratio=ask.speed_after_tokens_per_second / ask.speed_tokens_per_second,
        step_ratio=before / after,
        acceptance_ratio=_acceptance_ratio(ask),
    )


def _doubts(ask: SavingAsk, measured: Measurement | None) -> list[str]:
    """What does not go together in the inputs."""
    found: list[str] = []
    if measured is None:
        return found
    if ask.acceptance_length is None:
        found.append("the acceptance length was not given and is taken as equal before and after")
    elif abs(measured.step_before_seconds / ask.step_seconds - 1) > STEPS_DIFFER_RATIO:
        found.append(
            f"acceptance length / speed makes steps of {_ms(measured.step_before_seconds)}, not the given"
            f" {_ms(ask.step_seconds)}: the inputs are not of one run"
        )
    if measured.realised_ratio is not None and measured.realised_ratio > 1:
        found.append("more was saved than the bytes are worth: something else changed too, or an input is wrong")
    return found


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3f} ms"


def _check(ask: SavingAsk) -> None:
    """Raises ConfigError naming the first input that cannot be, and what to write."""
    if ask.kind not in KINDS:
        message = f"kind must be `bandwidth` (bytes no longer read) or `capacity` (memory set free), not {ask.kind!r}"
        raise ConfigError(message)
    for name, value, limit in (
        ("bytes", ask.bytes, BYTES_LIMIT),
        ("the bandwidth", ask.bandwidth, BANDWIDTH_LIMIT),
        ("the step time", ask.step_seconds, STEP_LIMIT),
        ("the share", ask.share_ratio, SHARE_LIMIT),
        ("the stage's time", ask.stage_seconds, STEP_LIMIT),
        ("the speed", ask.speed_tokens_per_second, SPEED_LIMIT),
        ("the speed after", ask.speed_after_tokens_per_second, SPEED_LIMIT),
        ("the acceptance length", ask.acceptance_length, ACCEPTANCE_LIMIT),
        ("the acceptance length after", ask.acceptance_length_after, ACCEPTANCE_LIMIT),
    ):
        if value is not None:
            limit.check(name, value)
    if ask.stage_seconds is not None and ask.stage_seconds > ask.step_seconds:
        message = f"a stage is a part of its step: {_ms(ask.stage_seconds)} is longer than {_ms(ask.step_seconds)}"
        raise ConfigError(message)
    if ask.speed_after_tokens_per_second is not None and ask.speed_tokens_per_second is None:
        raise ConfigError("a speed after the change says something beside the one before: give both speeds, or neither")
    if (ask.acceptance_length is None) != (ask.acceptance_length_after is None):
        raise ConfigError("acceptance lengths are compared: give the one before and the one after, or neither")


# --- inputs as people write them ----------------------------------------------------------------------------------


def parse_bytes(text: str, name: str = "bytes") -> float:
    """`2.7GB`, `2.5 GiB`, `2.7e9`: bytes; GB is 1e9 and GiB 2^30, a bare number bytes. Raises ConfigError."""
    return _size(text, name, "2.7GB", BYTES_LIMIT)


def parse_bandwidth(text: str, name: str = "the bandwidth") -> float:
    """`1133GB/s`, `1.133 TB/s`, `1133GBps`: bytes a second; a bare number is bytes a second. Raises ConfigError."""
    return _size(_PER_SECOND.sub("", text.strip()), name, "1133GB/s", BANDWIDTH_LIMIT, whole=text)


def parse_seconds(text: str, name: str = "the step time") -> float:
    """`17.6ms`, `17600us`, `0.0176`: seconds; a bare number is seconds. Raises ConfigError."""
    value = _number(text, name, "17.6ms", _TIMES, text)
    STEP_LIMIT.check(f"{name} ({quoted(text)}; 17.6 ms is written 17.6ms)", value)
    return value


def parse_share(text: str, name: str = "the share") -> float:
    """`0.37`, `37%`, `37 %`: a share of 1. Raises ConfigError."""
    value = _number(text, name, "0.37 or 37%", {"": 1.0, "%": 0.01}, text)
    SHARE_LIMIT.check(f"{name} ({quoted(text)}; 37 % is written 37% or 0.37)", value)
    return value


def _size(text: str, name: str, example: str, limit: Limit, whole: str | None = None) -> float:
    shown = whole if whole is not None else text
    unit = _split(text, name, example, shown)[1]
    if "bit" in unit.lower():
        message = f"{name} ({quoted(shown)}) is in bits; write bytes (an eighth), as {example}"
        raise ConfigError(message)
    if _BITS.fullmatch(unit):
        message = f"{name} ({quoted(shown)}): a small b means bits; write bytes, as {example}"
        raise ConfigError(message)
    value = _number(text, name, example, _SIZES, shown)
    limit.check(f"{name} ({quoted(shown)}; with its unit it is written like {example})", value)
    return value


def _split(text: str, name: str, example: str, shown: str) -> tuple[float, str]:
    """Number and unit."""
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _LONGEST_TEXT else None
    if match is None:
        message = f"{name}: {quoted(shown)} is no number with a unit; write it like {example}"
        raise ConfigError(message)
    return float(match[1]), (match[2] or "").strip()


def _number(text: str, name: str, example: str, units: Mapping[str, float], shown: str) -> float:
    number, unit = _split(text, name, example, shown)
    factor = units.get(unit.lower())
    if factor is None:
        known = ", ".join(one for one in units if one)
        message = (
            f"{name}: {quoted(shown)} has an unknown unit {quoted(unit)}; write it like {example} (known: {known})"
        )
        raise ConfigError(message)
    return number * factor
