"""Requests that stand still: when a stretch without progress is a stall, and which samples have become final.

Contains no epochs and no failures: it is shown the good scrapes of one epoch, in order. A stall shows only after
`stall_after`, so it is dated back, and a sample is final only once something moved or nothing was present.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from opmon.core.model import Row, SeriesKey, SeriesSample, State
from opmon.core.sums import add_levels

PROGRESS_COUNTERS = ("generation_tokens", "prompt_tokens", "finished_requests", "itl_seconds_count", "iterations")

Levels = dict[str | None, dict[int, int]]
"""Milliseconds per running level, for the whole target (None) and for each model by its name."""


@dataclass(frozen=True, slots=True)
class Relabel:
    """The good rows (observed or stalled, never others) whose stratum begins in `[start_ms, end_ms)` get `state`, and the
    kind that goes with it."""

    start_ms: int
    end_ms: int
    state: State
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of one good scrape, what it changes about earlier ones, and what became final by it."""

    state: State
    relabels: tuple[Relabel, ...] = ()
    final: Levels = field(default_factory=dict)


class Standing:
    """Follows the good scrapes of one epoch.

    `anchor_ms` is the instant since which nothing moved while requests were present; `start_ms` the stratum of the
    first sample after it, None while no sample stands.
    """

    def __init__(self, stall_after_ms: int) -> None:
        self.stall_after_ms = stall_after_ms
        self.last: dict[SeriesKey, SeriesSample] = {}
        self.anchor_ms: int | None = None
        self.start_ms: int | None = None
        self.stalled = False
        self.pending: Levels = {}

    def take(self, row: Row) -> Judgement:
        """Judges the next good scrape. `row.state` is not read."""
        moved = bool(self.last) and progressed(self.last, row.series)
        stood_seconds = 0.0 if self.anchor_ms is None else (row.at_ms - self.anchor_ms) / 1000
        first_token = ended_prefill(self.last, row.series, stood_seconds)
        self.last = row.series
        if moved or not _present(row.series):
            return self._end_stretch(row, first_token=first_token)
        if self.start_ms is None:
            self.start_ms = row.stratum_ms
        if self.anchor_ms is None:
            self.anchor_ms = row.at_ms
        add_final(self.pending, levels_of(row))
        if self.stalled:
            return Judgement(State.STALLED)
        if row.at_ms - self.anchor_ms < self.stall_after_ms:
            return Judgement(State.OBSERVED)
        self.stalled = True
        back = Relabel(self.start_ms, row.stratum_ms, State.STALLED)
        return Judgement(State.STALLED, (back,) if back.start_ms < back.end_ms else ())

    def restore(self, row: Row) -> None:
        """Takes a stored good scrape. What was labelled stalled stays in a stalled stretch."""
        self.take(row)
        if row.state is State.STALLED and not self.stalled:
            self.stalled = True
            self.start_ms = row.stratum_ms if self.start_ms is None else self.start_ms
            self.anchor_ms = row.at_ms if self.anchor_ms is None else self.anchor_ms

    def close(self) -> Levels:
        """Ends the epoch: what stood still for less than `stall_after` was load, and is final now."""
        final: Levels = {} if self.stalled else self.pending
        self.last, self.pending = {}, {}
        self.anchor_ms, self.start_ms, self.stalled = None, None, False
        return final

    def _end_stretch(self, row: Row, *, first_token: bool) -> Judgement:
        """Something moved, or nothing is present. A stall that ends with a first token was a long prefill: load."""
        relabels: tuple[Relabel, ...] = ()
        final: Levels = {}
        if not self.stalled:
            final = self.pending
        elif first_token and self.start_ms is not None:
            final = self.pending
            relabels = (Relabel(self.start_ms, row.stratum_ms, State.OBSERVED),)
        add_final(final, levels_of(row))
        self.pending, self.stalled, self.start_ms = {}, False, None
        self.anchor_ms = row.at_ms if _present(row.series) else None
        return Judgement(State.OBSERVED, relabels, final)


def progressed(earlier: Mapping[SeriesKey, SeriesSample], later: Mapping[SeriesKey, SeriesSample]) -> bool:
    """Whether anything moved between two scrapes. True as well where no counter is there to tell: standing still is
    a finding, and needs evidence."""
    told = False
    for key, sample in later.items():
        before = earlier.get(key)
        if before is None:
            continue
        shown = sample.counters.keys() & before.counters.keys()
        for name in PROGRESS_COUNTERS:
            # Each output brings at least one token: a count of outputs that rises while the tokens stand is no output.
            if name in shown and not (name == "itl_seconds_count" and "generation_tokens" in shown):
                told = True
                if sample.counters[name] != before.counters[name]:
                    return True
        usage = (before.kv_usage_ratio, sample.kv_usage_ratio)
        if None not in usage and usage[0] != usage[1]:
            return True
    return not told


def ended_prefill(
    earlier: Mapping[SeriesKey, SeriesSample], later: Mapping[SeriesKey, SeriesSample], stood_seconds: float
) -> bool:
    """Whether a prefill that went on while nothing moved came to its end: prompt tokens and the number of first tokens
    both rose, and the first tokens had been waited for through at least half of the stretch (the rise of the TTFT sum;
    not asked where it is not exposed). The next request after frozen gauges brings a first token too, but a quick one.
    """
    if not (_rise("prompt_tokens", earlier, later) and _rise("ttft_seconds_count", earlier, later)):
        return False
    waited_seconds = _rise("ttft_seconds_sum", earlier, later)
    return waited_seconds is None or waited_seconds >= stood_seconds / 2


def levels_of(row: Row) -> Levels:
    """The stratum's milliseconds at the running level of the target and of each model; unknown ones are left out."""
    running: dict[str | None, int] = {}
    for key, sample in row.series.items():
        if sample.running is not None:
            running[None] = running.get(None, 0) + sample.running
            running[key.model_name] = running.get(key.model_name, 0) + sample.running
    return {name: {level: row.interval_ms} for name, level in running.items()}


def _present(series: Mapping[SeriesKey, SeriesSample]) -> bool:
    return any(sample.running or sample.waiting for sample in series.values())


def _rise(
    name: str, earlier: Mapping[SeriesKey, SeriesSample], later: Mapping[SeriesKey, SeriesSample]
) -> float | None:
    """By how much a counter rose, summed over the series that show it in both; None where none does."""
    rises = [
        sample.counters[name] - earlier[key].counters[name]
        for key, sample in later.items()
        if key in earlier and name in sample.counters and name in earlier[key].counters
    ]
    return sum(rises) if rises else None


def add_final(into: Levels, more: Levels) -> Levels:
    """Adds `more` to `into`, in place, and returns it."""
    for name, levels in more.items():
        add_levels(into.setdefault(name, {}), levels)
    return into
