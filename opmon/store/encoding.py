"""How full samples and sums lie in blobs: compact, exact, and readable by later versions.

Contains no queries. A blob is MessagePack. Names are kept as their place in the tuples below, which only ever grow at
their end; a name that is not in them is kept as text. Whole numbers are kept as integers. The counts of buckets are
kept as steps from one to the next (mostly 0 or 1, one byte each) where all of them are whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import msgspec

from opmon.core.model import Buckets, SeriesSample
from opmon.core.sums import BucketIncrease, CurveLevel, Increase, Sums

# Append only: the places are in the database.
COUNTER_NAMES = (
    "generation_tokens",
    "prompt_tokens",
    "finished_requests",
    "preemptions",
    "itl_seconds_sum",
    "itl_seconds_count",
    "prefill_seconds_sum",
    "prefill_seconds_count",
    "ttft_seconds_sum",
    "ttft_seconds_count",
    "queue_seconds_sum",
    "queue_seconds_count",
    "decode_seconds_sum",
    "decode_seconds_count",
    "inference_seconds_sum",
    "inference_seconds_count",
    "e2e_seconds_sum",
    "e2e_seconds_count",
    "tpot_seconds_sum",
    "tpot_seconds_count",
    "prompt_length_sum",
    "prompt_length_count",
    "output_length_sum",
    "output_length_count",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "prefix_queries",
    "prefix_hits",
    "iterations",
)
# Append only, as above.
FAMILY_NAMES = (
    "ttft_seconds",
    "itl_seconds",
    "tpot_seconds",
    "e2e_seconds",
    "queue_seconds",
    "prefill_seconds",
    "decode_seconds",
    "prompt_length",
    "output_length",
)
_COUNTER_PLACES = {name: place for place, name in enumerate(COUNTER_NAMES)}
_FAMILY_PLACES = {name: place for place, name in enumerate(FAMILY_NAMES)}
_LARGEST_WHOLE = 1 << 53

Bounds = tuple[float, ...]
Number = int | float


class _Family(msgspec.Struct, array_like=True):
    """One bucketed family. `steps`: counts are differences from one to the next."""

    name: int | str
    bounds: int
    steps: bool
    counts: list[Number]


class _Full(msgspec.Struct, array_like=True):
    counters: dict[int | str, Number]
    families: list[_Family]


class SumsBlob(msgspec.Struct, array_like=True):
    """Sums without the milliseconds per state, which are columns. New fields go to the end, with a default."""

    running: dict[int, int]
    waiting: dict[int, int]
    in_system: dict[int, int]
    limited_ms: int
    prefill_wait_ms: int
    flat_wait_ms: dict[int, int]
    curve: dict[int, tuple[int, Number, Number, Number]]
    mixed_ms: int
    increases: list[tuple[int, dict[int | str, Number]]]
    families: list[_Family]
    uncovered_tokens: Number
    spanned_ms: int
    spanned_running_seconds: Number
    peak_minute_tokens_per_second: Number | None
    stalled_running: dict[int, int]


_encode = msgspec.msgpack.Encoder().encode
_decode_full = msgspec.msgpack.Decoder(_Full).decode
_decode_sums = msgspec.msgpack.Decoder(SumsBlob).decode


def encode_full(counters: Mapping[str, float], buckets: Mapping[str, Buckets], ids: Mapping[Bounds, int]) -> bytes:
    """Counters and buckets of one series; `ids` numbers the bounds."""
    named = {_place(_COUNTER_PLACES, name): _number(value) for name, value in counters.items()}
    return _encode(_Full(named, [_family(name, b.bounds, b.counts, ids) for name, b in buckets.items()]))


def decode_full(payload: bytes, sample: SeriesSample, bounds: Mapping[int, Bounds]) -> None:
    """Puts the counters and buckets of a payload into `sample`."""
    full = _decode_full(payload)
    for place, value in full.counters.items():
        sample.counters[_name(COUNTER_NAMES, place)] = float(value)
    for family in full.families:
        counts = tuple(_counts(family))
        sample.buckets[_name(FAMILY_NAMES, family.name)] = Buckets(bounds[family.bounds], counts)


def encode_sums(sums: Sums, ids: Mapping[Bounds, int]) -> bytes:
    """Everything of `sums` but the milliseconds per state; equal sums give equal bytes."""
    return _encode(
        SumsBlob(
            running=_sorted(sums.running),
            waiting=_sorted(sums.waiting),
            in_system=_sorted(sums.in_system),
            limited_ms=sums.limited_ms,
            prefill_wait_ms=sums.prefill_wait_ms,
            flat_wait_ms=_sorted(sums.flat_wait_ms),
            curve={level: _curve(pairs) for level, pairs in sorted(sums.curve.items())},
            mixed_ms=sums.mixed_ms,
            increases=_increases(sums.increases),
            families=[
                _family(name, one.bounds, one.counts, ids)
                for name, families in sorted(sums.buckets.items())
                for one in sorted(families, key=lambda family: family.bounds)
            ],
            uncovered_tokens=_number(sums.uncovered_tokens),
            spanned_ms=sums.spanned_ms,
            spanned_running_seconds=_number(sums.spanned_running_seconds),
            peak_minute_tokens_per_second=_optional(sums.peak_minute_tokens_per_second, _number),
            stalled_running=_sorted(sums.stalled_running),
        )
    )


def decode_sums(payload: bytes, states_ms: tuple[int, int, int, int], bounds: Mapping[int, Bounds]) -> Sums:
    """The sums of a blob and its columns (observed, stalled, invalid, down)."""
    wire = _decode_sums(payload)
    return Sums(
        observed_ms=states_ms[0],
        stalled_ms=states_ms[1],
        invalid_ms=states_ms[2],
        down_ms=states_ms[3],
        running=wire.running,
        waiting=wire.waiting,
        in_system=wire.in_system,
        limited_ms=wire.limited_ms,
        prefill_wait_ms=wire.prefill_wait_ms,
        flat_wait_ms=wire.flat_wait_ms,
        curve={
            level: CurveLevel(elapsed, float(output), float(first), float(itl))
            for level, (elapsed, output, first, itl) in wire.curve.items()
        },
        mixed_ms=wire.mixed_ms,
        increases={
            _name(COUNTER_NAMES, place): Increase(float(total), elapsed)
            for elapsed, totals in wire.increases
            for place, total in totals.items()
        },
        buckets=_families(wire.families, bounds),
        uncovered_tokens=float(wire.uncovered_tokens),
        spanned_ms=wire.spanned_ms,
        spanned_running_seconds=float(wire.spanned_running_seconds),
        peak_minute_tokens_per_second=_optional(wire.peak_minute_tokens_per_second, float),
        stalled_running=wire.stalled_running,
    )


def bounds_text(bounds: Bounds) -> str:
    """Bounds as JSON, infinity as Prometheus writes it."""
    return json.dumps(["+Inf" if math.isinf(bound) else bound for bound in bounds], separators=(",", ":"))


def read_bounds(text: str) -> Bounds:
    """The bounds of `bounds_text`."""
    return tuple(float(bound) for bound in json.loads(text))


def _place(places: Mapping[str, int], name: str) -> int | str:
    return places.get(name, name)


def _name(names: Sequence[str], place: int | str) -> str:
    return place if isinstance(place, str) else names[place]


def _number(value: float) -> Number:
    """An integer where that says the same in fewer bytes."""
    whole = abs(value) < _LARGEST_WHOLE and value == int(value)
    return int(value) if whole else value


def _optional(value: float | None, change: Callable[[float], Number]) -> Number | None:
    return None if value is None else change(value)


def _sorted(levels: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(levels.items()))


def _curve(pairs: CurveLevel) -> tuple[int, Number, Number, Number]:
    tokens = _number(pairs.output_tokens), _number(pairs.first_tokens)
    return pairs.elapsed_ms, *tokens, _number(pairs.itl_seconds)


def _increases(increases: Mapping[str, Increase]) -> list[tuple[int, dict[int | str, Number]]]:
    """Counters of one lane share their elapsed time: it is kept once for all of them."""
    groups: dict[int, dict[int | str, Number]] = {}
    for name, increase in sorted(increases.items()):
        groups.setdefault(increase.elapsed_ms, {})[_place(_COUNTER_PLACES, name)] = _number(increase.total)
    return sorted(groups.items())


def _family(name: str, bounds: Bounds, counts: Sequence[float], ids: Mapping[Bounds, int]) -> _Family:
    numbers = [_number(count) for count in counts]
    place = _place(_FAMILY_PLACES, name)
    if not all(isinstance(number, int) for number in numbers):
        return _Family(place, ids[bounds], steps=False, counts=numbers)
    steps = [number - before for number, before in zip(numbers, [0, *numbers], strict=False)]
    return _Family(place, ids[bounds], steps=True, counts=steps)


def _families(families: Sequence[_Family], bounds: Mapping[int, Bounds]) -> dict[str, list[BucketIncrease]]:
    read: dict[str, list[BucketIncrease]] = {}
    for family in families:
        increase = BucketIncrease(bounds[family.bounds], _counts(family))
        read.setdefault(_name(FAMILY_NAMES, family.name), []).append(increase)
    return read


def _counts(family: _Family) -> list[float]:
    """The counts of a family, cumulative again."""
    counts = accumulate(family.counts) if family.steps else family.counts
    return [float(count) for count in counts]
