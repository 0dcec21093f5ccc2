"""What a stretch of time amounts to, as sums only, and how two stretches add.

Contains no quantile, mean or rate: those are taken from sums when somebody asks, never stored. `Sums` is at once
the content of a roll-up and the answer for a window; addition is exact and has no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Increase:
    """A counter's increase over its pairs, with the elapsed time of those pairs."""

    total: float = 0.0
    elapsed_ms: int = 0


@dataclass(slots=True)
class CurveLevel:
    """Pure pairs at one running level: elapsed time, output tokens, and the rise of the ITL sum (request-seconds)."""

    elapsed_ms: int = 0
    output_tokens: float = 0.0
    first_tokens: float = 0.0
    itl_seconds: float = 0.0


@dataclass(slots=True)
class BucketIncrease:
    """Increases of cumulative buckets with the bounds they were read with; the last bound is +Inf."""

    bounds: tuple[float, ...]
    counts: list[float]


@dataclass(slots=True)
class Sums:
    """Sums over a stretch of one view and one epoch (or, added up, of several).

    `*_ms` per state: clipped to the stretch; `gap` is what is missing to its length. The occupancies map a level to
    milliseconds observed at it; `running` and `in_system` cover the observed time for which the gauges are known.
    `limited_ms` and `prefill_wait_ms` split the observed time with waiting > 0 (the ceiling known);
    `flat_wait_ms` maps a running level to the time it had been held flat for 30 s or more with requests waiting and
    no prompt token, and stands in for `limited_ms` where the ceiling is unknown.
    `uncovered_tokens`: output tokens of pairs that span gap, down or invalid. `spanned_ms` and
    `spanned_running_seconds`: the elapsed time of such pairs within one epoch, and the running integral that the
    counters booked over it. `peak_minute_tokens_per_second`: best whole aligned minute; None without one.
    """

    observed_ms: int = 0
    stalled_ms: int = 0
    invalid_ms: int = 0
    down_ms: int = 0
    running: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    in_system: dict[int, int] = field(default_factory=dict)
    limited_ms: int = 0
    prefill_wait_ms: int = 0
    flat_wait_ms: dict[int, int] = field(default_factory=dict)
    curve: dict[int, CurveLevel] = field(default_factory=dict)
    mixed_ms: int = 0
    increases: dict[str, Increase] = field(default_factory=dict)
    buckets: dict[str, list[BucketIncrease]] = field(default_factory=dict)
    uncovered_tokens: float = 0.0
    spanned_ms: int = 0
    spanned_running_seconds: float = 0.0
    peak_minute_tokens_per_second: float | None = None
    stalled_running: dict[int, int] = field(default_factory=dict)

    @property
    def known_ms(self) -> int:
        """Milliseconds that have a state other than `gap`."""
        return self.observed_ms + self.stalled_ms + self.invalid_ms + self.down_ms


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """One step of a timeline: its start, its length and its sums."""

    start_ms: int
    step_ms: int
    sums: Sums


def add_levels(into: dict[int, int], more: Mapping[int, int]) -> None:
    """Adds milliseconds level by level."""
    for level, milliseconds in more.items():
        into[level] = into.get(level, 0) + milliseconds


def add(into: Sums, more: Sums) -> Sums:
    """Adds `more` to `into`, in place, and returns it. Bucket increases with other bounds are kept apart."""
    into.observed_ms += more.observed_ms
    into.stalled_ms += more.stalled_ms
    into.invalid_ms += more.invalid_ms
    into.down_ms += more.down_ms
    into.limited_ms += more.limited_ms
    into.prefill_wait_ms += more.prefill_wait_ms
    into.mixed_ms += more.mixed_ms
    into.uncovered_tokens += more.uncovered_tokens
    into.spanned_ms += more.spanned_ms
    into.spanned_running_seconds += more.spanned_running_seconds
    add_levels(into.running, more.running)
    add_levels(into.waiting, more.waiting)
    add_levels(into.in_system, more.in_system)
    add_levels(into.flat_wait_ms, more.flat_wait_ms)
    add_levels(into.stalled_running, more.stalled_running)
    for level, pairs in more.curve.items():
        mine = into.curve.setdefault(level, CurveLevel())
        mine.elapsed_ms += pairs.elapsed_ms
        mine.output_tokens += pairs.output_tokens
        mine.first_tokens += pairs.first_tokens
        mine.itl_seconds += pairs.itl_seconds
    for name, increase in more.increases.items():
        total = into.increases.setdefault(name, Increase())
        total.total += increase.total
        total.elapsed_ms += increase.elapsed_ms
    for name, families in more.buckets.items():
        for family in families:
            add_buckets(into, name, family.bounds, family.counts)
    peaks = [p for p in (into.peak_minute_tokens_per_second, more.peak_minute_tokens_per_second) if p is not None]
    into.peak_minute_tokens_per_second = max(peaks) if peaks else None
    return into


def add_buckets(into: Sums, name: str, bounds: tuple[float, ...], counts: list[float]) -> None:
    """Adds bucket increases of one family to the entry that has the same bounds, or makes one."""
    families = into.buckets.setdefault(name, [])
    for family in families:
        if family.bounds == bounds:
            family.counts = [a + b for a, b in zip(family.counts, counts, strict=True)]
            return
    families.append(BucketIncrease(bounds, list(counts)))
