"""Rows of scrapes to sums: the one place where samples become occupancy, increases and shares.

Contains no quantile, mean or rate, no clock and no storage. What it must keep: for any cut `c` between two instants,
`fold(a, b)` equals `fold(a, c)` plus `fold(c, b)`, given the rows of `CONTEXT_MS` before each start. (The best whole
minute needs a cut on a whole minute.)

The rules, in the order of the code:

1. A sample owns exactly its stratum, clipped to the window, whatever its instant was.
2. Two consecutive good scrapes (observed or stalled) of one epoch are a pair. A pair belongs wholly to the window that
   holds the start of its later stratum. Its elapsed time is that between the two scrape instants.
3. A pair that spans a stratum which is gap, down or invalid is in no rate: its tokens are `uncovered_tokens`.
4. What only full scrapes carry is paired between consecutive full scrapes, and counts if at least half of the time
   between was observed. Lengths and latency means are ratios of two increases of the *same* pair, so that a lost
   second between does no harm; a pair over an outage would speak of a time that is not in the occupancy.
5. Waiting is split by its reason: limited, or waiting for prefill budget. See `_Folding.book_waiting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opmon.core.increase import bucket_increases, counter_increases
from opmon.core.model import (
    FIVE_MINUTES_MS,
    FULL_COUNTERS,
    MINUTE_MS,
    PULSE_COUNTERS,
    Ceiling,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    State,
    View,
)
from opmon.core.sums import CurveLevel, Increase, Sums, add_buckets

FLAT_MS = 30_000
"""So long must running stand still, with requests waiting, before it is taken for a limit."""

LONGEST_FULL_PAIR_MS = FIVE_MINUTES_MS
"""Full scrapes further apart than this are no pair: a fold must not need to look back without end."""

CONTEXT_MS = LONGEST_FULL_PAIR_MS + FLAT_MS
"""How much before the start of a window its fold needs: all rows of that time, and the last good row before it
(the last observed or stalled row that has a series of the view)."""

NEAR_CEILING = 0.95
FULL_CACHE = 0.95
PURE_PAIR_TOLERANCE = 0.1

Series = Mapping[SeriesKey, SeriesSample]


MOST_TOKENS_PER_SECOND = 10_000_000
"""A rise beyond this was not generated: a hundred times what the largest single deployment is said to make."""


class _Good(NamedTuple):
    """A good scrape as the next one needs it."""

    row: Row
    series: Series
    end_ms: int
    running: int | None
    waiting: int | None


class _Pair(NamedTuple):
    """Two consecutive good scrapes of one epoch, with the increases of the pulse counters."""

    earlier: _Good
    elapsed_ms: int
    contiguous: bool
    rises: dict[str, float]


def fold(rows: Sequence[Row], start_ms: int, end_ms: int, ceilings: Sequence[Ceiling], view: View) -> dict[int, Sums]:
    """Sums of the window `[start_ms, end_ms)` per epoch number; empty where nothing was attempted.

    `rows` are in order of their strata; those before `start_ms` are context. `ceilings` hold from their `since_ms`
    on. Rows without any series of the view add nothing but the failures of the target: nothing is known of the view.
    """
    folding = _Folding(start_ms, end_ms, ceilings, view)
    for row in rows:
        if row.stratum_ms >= end_ms:
            break
        folding.take(row)
    folding.close_minute()
    return folding.sums


def fold_steps(
    rows: Sequence[Row], steps: Sequence[tuple[int, int]], ceilings: Sequence[Ceiling], view: View
) -> list[dict[int, Sums]]:
    """`fold` of each of several windows `(start, end)` that follow one another, in one pass over the rows.

    No stratum may straddle the border of two steps (`fold` them one by one where that happens); the first may begin
    and the last may end anywhere. `rows` as for a fold of the first to the last.
    """
    if not steps:
        return []
    folding = _Folding(*steps[0], ceilings, view)
    found = [folding.sums]
    for row in rows:
        while row.stratum_ms >= folding.end_ms and len(found) < len(steps):
            found.append(folding.next_window(*steps[len(found)]))
        if row.stratum_ms >= folding.end_ms:
            break
        folding.take(row)
    folding.close_minute()
    return found + [{} for _ in steps[len(found) :]]


class _Folding:
    """The state of one pass over the rows."""

    def __init__(self, start_ms: int, end_ms: int, ceilings: Sequence[Ceiling], view: View) -> None:
        self.start_ms = start_ms
        self.end_ms = end_ms
        self.ceilings = sorted(ceilings, key=lambda ceiling: ceiling.since_ms)
        self.view = view
        self.whole_target = view.model_name is None and view.engine_index is None
        self.sums: dict[int, Sums] = {}
        self.owned_until_ms = 0
        self.last: _Good | None = None
        self.last_full: _Good | None = None
        self.good_since_full_ms = 0
        self.flat_since_ms: int | None = None
        self.minute: tuple[int, int] | None = None
        self.minute_tokens = 0.0
        self.minute_elapsed_ms = 0

    def next_window(self, start_ms: int, end_ms: int) -> dict[int, Sums]:
        """Goes on in another window; its sums."""
        self.close_minute()
        self.start_ms, self.end_ms, self.sums = start_ms, end_ms, {}
        return self.sums

    def take(self, row: Row) -> None:
        """One row, in order."""
        begin = max(self.owned_until_ms, row.stratum_ms)
        finish = row.stratum_ms + row.interval_ms
        self.owned_until_ms = max(self.owned_until_ms, finish)
        owned = min(finish, self.end_ms) - max(begin, self.start_ms)
        if row.state is State.OBSERVED or row.state is State.STALLED:
            series = self.visible(row)
            if series:
                self.take_good(_Good(row, series, finish, *_gauges(series)), owned, finish - begin)
        elif owned > 0:
            sums = self.of_epoch(row.epoch)
            if row.state is State.DOWN:
                sums.down_ms += owned
            elif row.state is State.INVALID:
                sums.invalid_ms += owned

    def take_good(self, good: _Good, owned: int, whole: int) -> None:
        """A good row: its pair, its time at its levels, its reason of waiting, its full pair."""
        inside = good.row.stratum_ms >= self.start_ms
        pair = self.pair_with(good, inside=inside)
        if inside:
            self.book_pair(good, pair)
        flat = self.held_flat(good, pair)
        if owned > 0:
            self.book_time(good, owned)
            if good.waiting and good.running is not None and good.row.state is State.OBSERVED:
                self.book_waiting(good, pair, owned, flat=flat)
        self.good_since_full_ms += max(whole, 0)
        if good.row.lane is Lane.FULL:
            self.take_full(good, inside=inside)
        self.last = good

    def visible(self, row: Row) -> Series:
        """The series of the row that belong to the view."""
        if self.whole_target:
            return row.series
        return {key: sample for key, sample in row.series.items() if self.view.includes(key)}

    def of_epoch(self, epoch: int) -> Sums:
        """The sums of an epoch, made when first needed."""
        sums = self.sums.get(epoch)
        if sums is None:
            sums = self.sums[epoch] = Sums()
        return sums

    def pair_with(self, good: _Good, *, inside: bool) -> _Pair | None:
        """The pair that ends with this row. Its increases are left out where nobody will ask for them."""
        earlier = self.last
        if earlier is None or earlier.row.epoch != good.row.epoch:
            return None
        elapsed = good.row.at_ms - earlier.row.at_ms
        if elapsed <= 0:
            return None
        needed = inside or good.waiting
        rises = counter_increases(earlier.series, good.series, PULSE_COUNTERS) if needed else {}
        return _Pair(earlier, elapsed, good.row.stratum_ms <= earlier.end_ms, rises)

    def book_time(self, good: _Good, owned: int) -> None:
        """The stratum's milliseconds, at its state and its levels."""
        sums = self.of_epoch(good.row.epoch)
        running, waiting = good.running, good.waiting
        if good.row.state is State.STALLED:
            sums.stalled_ms += owned
            if running is not None:
                sums.stalled_running[running] = sums.stalled_running.get(running, 0) + owned
            return
        sums.observed_ms += owned
        if running is not None:
            sums.running[running] = sums.running.get(running, 0) + owned
        if waiting is not None:
            sums.waiting[waiting] = sums.waiting.get(waiting, 0) + owned
        if running is not None and waiting is not None:
            present = running + waiting
            sums.in_system[present] = sums.in_system.get(present, 0) + owned

    def book_pair(self, good: _Good, pair: _Pair | None) -> None:
        """The increases of a pair whose later stratum begins in the window."""
        if pair is None:
            self.book_reset(good)
        elif pair.rises.get("generation_tokens", 0.0) > MOST_TOKENS_PER_SECOND * pair.elapsed_ms / 1000:
            # Another server's counter, or a broken one: nothing of this pair is a rate.
            self.of_epoch(good.row.epoch).uncovered_tokens += pair.rises["generation_tokens"]
        elif pair.contiguous:
            sums = self.of_epoch(good.row.epoch)
            for name, rise in pair.rises.items():
                _add_increase(sums, name, rise, pair.elapsed_ms)
            self.book_minute(good.row, pair)
            self.book_curve(sums, good, pair)
        else:
            self.book_spanning(self.of_epoch(good.row.epoch), pair)

    def book_reset(self, good: _Good) -> None:
        """The first value after a reset is part of what was generated, but of no rate."""
        if self.last is None or self.last.row.epoch == good.row.epoch:
            return
        for key, sample in good.series.items():
            before = self.last.series.get(key)
            tokens = sample.counters.get("generation_tokens")
            if before is not None and tokens and tokens < before.counters.get("generation_tokens", 0.0):
                self.of_epoch(good.row.epoch).uncovered_tokens += tokens

    @staticmethod
    def book_spanning(sums: Sums, pair: _Pair) -> None:
        """A pair over unobserved strata: what the counters say of the time that nobody saw."""
        sums.uncovered_tokens += pair.rises.get("generation_tokens", 0.0)
        integral = pair.rises.get("itl_seconds_sum")
        if integral is not None:
            sums.spanned_ms += pair.elapsed_ms
            sums.spanned_running_seconds += integral + pair.rises.get("prefill_seconds_sum", 0.0)

    def book_curve(self, sums: Sums, good: _Good, pair: _Pair) -> None:
        """A pure pair shows the speed at one level; all others are mixed."""
        tokens = pair.rises.get("generation_tokens")
        level, before = good.running, pair.earlier
        if tokens is None or level is None or before.running is None:
            return
        if good.row.state is not State.OBSERVED or before.row.state is not State.OBSERVED:
            return
        itl = pair.rises.get("itl_seconds_sum")
        pure = level == before.running and (
            itl is None or abs(1000 * itl / pair.elapsed_ms - level) <= PURE_PAIR_TOLERANCE * max(level, 1)
        )
        if not pure:
            sums.mixed_ms += pair.elapsed_ms
            return
        mine = sums.curve.get(level)
        if mine is None:
            mine = sums.curve[level] = CurveLevel()
        mine.elapsed_ms += pair.elapsed_ms
        mine.output_tokens += tokens
        mine.first_tokens += pair.rises.get("ttft_seconds_count", 0.0)
        mine.itl_seconds += itl or 0.0

    def held_flat(self, good: _Good, pair: _Pair | None) -> bool:
        """Whether running had stood still for `FLAT_MS` before this stratum, requests waiting, no prompt taken in.

        Forward only: the first strata of a flat stretch are not booked afterwards, so a cut needs no look-ahead.
        """
        if not good.waiting or good.running is None or good.row.state is not State.OBSERVED:
            self.flat_since_ms = None
            return False
        goes_on = (
            self.flat_since_ms is not None
            and pair is not None
            and pair.contiguous
            and pair.earlier.running == good.running
            and pair.rises.get("prompt_tokens") == 0
        )
        if not goes_on or self.flat_since_ms is None:
            self.flat_since_ms = good.row.stratum_ms
        return good.row.stratum_ms - self.flat_since_ms >= FLAT_MS

    def book_waiting(self, good: _Good, pair: _Pair | None, owned: int, *, flat: bool) -> None:
        """Splits time with requests waiting: limited (by the ceiling, the cache, or seen by a preemption), or not.

        Where the ceiling is not known, a running level that stands still may be one: kept per level as
        `flat_wait_ms`, a part of `prefill_wait_ms` until somebody knows the window's largest level.
        """
        sums = self.of_epoch(good.row.epoch)
        engines = sum(sample.running is not None for sample in good.series.values())
        ceiling = self.ceiling_at(good.row.stratum_ms)
        running = good.running or 0
        limited = (
            (ceiling is not None and running >= NEAR_CEILING * ceiling * engines)
            or any((sample.kv_usage_ratio or 0.0) >= FULL_CACHE for sample in good.series.values())
            or (pair is not None and pair.contiguous and pair.rises.get("preemptions", 0.0) > 0)
        )
        if limited:
            sums.limited_ms += owned
            return
        sums.prefill_wait_ms += owned
        if flat and ceiling is None:
            sums.flat_wait_ms[running] = sums.flat_wait_ms.get(running, 0) + owned

    def ceiling_at(self, at_ms: int) -> int | None:
        """The per-engine limit that holds at an instant, None where it is not known."""
        known = None
        for ceiling in self.ceilings:
            if ceiling.since_ms > at_ms:
                break
            known = ceiling.max_num_seqs
        return known

    def take_full(self, good: _Good, *, inside: bool) -> None:
        """Pairs a full scrape with the one before it (rule 4)."""
        earlier, good_ms = self.last_full, self.good_since_full_ms
        self.last_full, self.good_since_full_ms = good, 0
        if not inside or earlier is None or earlier.row.epoch != good.row.epoch:
            return
        strata_ms = good.row.stratum_ms - earlier.row.stratum_ms
        elapsed = good.row.at_ms - earlier.row.at_ms
        if elapsed <= 0 or strata_ms > LONGEST_FULL_PAIR_MS or 2 * good_ms < strata_ms:
            return
        sums = self.of_epoch(good.row.epoch)
        for name, rise in counter_increases(earlier.series, good.series, FULL_COUNTERS).items():
            _add_increase(sums, name, rise, elapsed)
        for name, family in bucket_increases(earlier.series, good.series):
            add_buckets(sums, name, family.bounds, family.counts)

    def book_minute(self, row: Row, pair: _Pair) -> None:
        """Output tokens per aligned minute of one epoch, for the best of them."""
        minute = (row.epoch, row.stratum_ms - row.stratum_ms % MINUTE_MS)
        if minute != self.minute:
            self.close_minute()
            self.minute = minute
        tokens = pair.rises.get("generation_tokens")
        if tokens is not None:
            self.minute_tokens += tokens
            self.minute_elapsed_ms += pair.elapsed_ms

    def close_minute(self) -> None:
        """Ends a minute: it counts if it lies wholly in the window and half of it is covered by pairs."""
        if self.minute is not None:
            epoch, begin = self.minute
            whole = begin >= self.start_ms and begin + MINUTE_MS <= self.end_ms
            if whole and 2 * self.minute_elapsed_ms >= MINUTE_MS:
                sums = self.of_epoch(epoch)
                rate = 1000 * self.minute_tokens / self.minute_elapsed_ms
                best = sums.peak_minute_tokens_per_second
                sums.peak_minute_tokens_per_second = rate if best is None else max(best, rate)
        self.minute, self.minute_tokens, self.minute_elapsed_ms = None, 0.0, 0


def _gauges(series: Series) -> tuple[int | None, int | None]:
    """Running and waiting over the series, in one scrape.

    A series without `running` is in no level. Waiting is unknown if one that runs does not show it.
    """
    running: int | None = None
    waiting: int | None = 0
    for sample in series.values():
        if sample.running is not None:
            running = sample.running if running is None else running + sample.running
            if sample.waiting is None:
                waiting = None
            elif waiting is not None:
                waiting += sample.waiting
    return running, waiting if running is not None else None


def _add_increase(sums: Sums, name: str, rise: float, elapsed_ms: int) -> None:
    total = sums.increases.get(name)
    if total is None:
        total = sums.increases[name] = Increase()
    total.total += rise
    total.elapsed_ms += elapsed_ms
