"""What a fold must keep whatever happened to the server, held against plain loops over the same rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core.fold import fold
from opmon.core.model import MINUTE_MS, Attempt, Ceiling, Row, SeriesKey, State, View
from opmon.core.sums import Sums, add
from tests.core.stage import ONE, Stage, rows_of, watch, with_context

ENGINES = (ONE, SeriesKey("model", "1"), SeriesKey("other", "0"))
VIEWS = (View("t"), View("t", "model"), View("t", "model", "1"))
CEILINGS = ((), (Ceiling(4, "set", 200_000),), (Ceiling(4, "set"), Ceiling(6, "set", 400_000)))

lengths = st.integers(1, 45)
levels = st.integers(0, 4)


@st.composite
def stories(draw: st.DrawFn) -> list[Row]:
    """The rows of a server that works, waits, stands still, fails, restarts and is not watched, in any order."""
    interval_ms = draw(st.sampled_from([1000, 1000, 5000, 60_000]))
    stage = Stage(
        interval_ms=interval_ms,
        engines=ENGINES[: draw(st.integers(1, 3))],
        full_every=draw(st.sampled_from([1, 3, 30, 60])),
    )
    acts: dict[str, Callable[[float], list[Attempt]]] = {
        "work": lambda seconds: stage.play(seconds, draw(levels), draw(levels)),
        "stand": lambda seconds: stage.play(4 * seconds, draw(levels), draw(levels), moving=False),
        "prefill": lambda _: stage.finish_prefill(),
        "fail": stage.fail,
        "spoil": lambda seconds: stage.spoil(seconds, running=draw(levels)),
        "skip": lambda seconds: stage.skip(3 * seconds, running=draw(levels)),
        "restart": lambda _: stage.restart(),
    }
    attempts: list[Attempt] = []
    for act in draw(st.lists(st.sampled_from(["work", "work", *acts]), min_size=3, max_size=14)):
        attempts += acts[act](draw(lengths) * interval_ms / 1000)
    return rows_of(watch(attempts))


def cuts(draw: st.DrawFn, rows: list[Row]) -> tuple[int, int, int]:
    """Three instants in order, in the rows' time or a little outside."""
    last_ms = (rows[-1].stratum_ms + rows[-1].interval_ms if rows else 0) + 3000
    start, cut, end = sorted(draw(st.integers(0, last_ms)) for _ in range(3))
    return start, cut, end


@st.composite
def cut_stories(draw: st.DrawFn) -> tuple[list[Row], tuple[int, int, int]]:
    rows = draw(stories())
    return rows, cuts(draw, rows)


def same(one: Any, other: Any) -> bool:
    """Equal, with floats compared as sums are."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def plain(found: Mapping[int, Sums], *, peak: bool) -> dict[int, dict[str, Any]]:
    without = {} if peak else {"peak_minute_tokens_per_second": None}
    return {epoch: asdict(sums) | without for epoch, sums in found.items()}


def joined(*parts: Mapping[int, Sums]) -> dict[int, Sums]:
    total: dict[int, Sums] = {}
    for part in parts:
        for epoch, sums in part.items():
            add(total.setdefault(epoch, Sums()), sums)
    return total


@given(cut_stories(), st.sampled_from(VIEWS), st.sampled_from(CEILINGS), st.booleans())
@settings(max_examples=150)
def test_a_window_is_the_sum_of_its_parts_at_every_cut(
    story: tuple[list[Row], tuple[int, int, int]], view: View, ceilings: tuple[Ceiling, ...], on_the_minute: bool
) -> None:
    rows, (start, cut, end) = story
    if on_the_minute:
        cut = min(max(cut - cut % MINUTE_MS, start), end)
        on_the_minute = cut % MINUTE_MS == 0

    def window(begin: int, finish: int) -> dict[int, Sums]:
        return fold(with_context(rows, begin, finish), begin, finish, ceilings, view)

    whole = fold(rows, start, end, ceilings, view)

    assert same(plain(whole, peak=True), plain(window(start, end), peak=True))
    assert same(
        plain(whole, peak=on_the_minute), plain(joined(window(start, cut), window(cut, end)), peak=on_the_minute)
    )


def long_story(interval_ms: int, full_every: int) -> list[Row]:
    """Every act once, long enough for full scrapes that are far apart, flat queues and stalls."""
    stage = Stage(interval_ms=interval_ms, engines=ENGINES, full_every=full_every)
    unit = interval_ms / 1000
    attempts = [
        *stage.play(70 * unit, 2),
        *stage.fail(3 * unit),
        *stage.play(50 * unit, 1, 2),
        *stage.play(40 * unit, 2, 3, moving=False),
        *stage.spoil(2 * unit),
        *stage.play(20 * unit, 4, 1),
        *stage.play(130 * unit, 1, 1, moving=False),
        *stage.skip(45 * unit, running=3),
        *stage.play(30 * unit, 3),
    ]
    stage.restart()
    return rows_of(watch([*attempts, *stage.play(40 * unit, 2), *stage.fail(30 * unit), *stage.play(35 * unit, 1, 1)]))


@pytest.mark.parametrize(("interval_ms", "full_every"), [(1000, 30), (1000, 290), (5000, 6), (5000, 60), (60_000, 5)])
def test_a_long_day_can_be_cut_anywhere(interval_ms: int, full_every: int) -> None:
    rows = long_story(interval_ms, full_every)
    end = rows[-1].stratum_ms + interval_ms
    whole = plain(fold(rows, 0, end, CEILINGS[1], VIEWS[0]), peak=False)
    for cut in range(0, end, 7 * interval_ms + 137):
        parts = [fold(with_context(rows, a, b), a, b, CEILINGS[1], VIEWS[0]) for a, b in ((0, cut), (cut, end))]

        assert same(whole, plain(joined(*parts), peak=False)), cut


@given(cut_stories())
@settings(max_examples=75)
def test_time_at_levels_is_what_counting_milliseconds_gives(story: tuple[list[Row], tuple[int, int, int]]) -> None:
    rows, (start, _, end) = story
    expected: Counter[tuple[str, int]] = Counter()
    states: Counter[State] = Counter()
    for row in rows:
        owned = max(0, min(row.stratum_ms + row.interval_ms, end) - max(row.stratum_ms, start))
        states[row.state] += owned
        if row.state is State.OBSERVED:
            running = sum(sample.running or 0 for sample in row.series.values())
            waiting = sum(sample.waiting or 0 for sample in row.series.values())
            for kind, level in (("running", running), ("waiting", waiting), ("in_system", running + waiting)):
                expected[kind, level] += owned
    total = Sums()
    for one in fold(rows, start, end, (), View("t")).values():
        add(total, one)

    for kind in ("running", "waiting", "in_system"):
        found = {(kind, level): ms for level, ms in getattr(total, kind).items()}
        assert {key: ms for key, ms in expected.items() if key[0] == kind and ms} == found
    assert states[State.OBSERVED] == total.observed_ms
    assert states[State.STALLED] == total.stalled_ms
    assert states[State.DOWN] == total.down_ms
    assert states[State.INVALID] == total.invalid_ms


@given(stories())
@settings(max_examples=75)
def test_no_output_token_is_lost_or_counted_twice(rows: list[Row]) -> None:
    """Rates and uncovered tokens together are what the counters of each epoch rose by, and the first after a reset."""
    found = fold(rows, 0, 10**9, (), View("t"))
    good = [row for row in rows if row.series]
    last_of_epoch: dict[int, float] = {}
    for epoch in {row.epoch for row in good}:
        values = [
            sum(sample.counters["generation_tokens"] for sample in row.series.values())
            for row in good
            if row.epoch == epoch
        ]
        before = last_of_epoch.get(epoch - 1)
        expected = values[-1] - values[0] + (values[0] if before is not None and 0 < values[0] < before else 0)
        last_of_epoch[epoch] = values[-1]
        increase = found[epoch].increases.get("generation_tokens")
        assert expected == found[epoch].uncovered_tokens + (increase.total if increase else 0)


@given(stories())
@settings(max_examples=50)
def test_waiting_is_split_without_rest_and_flat_time_is_part_of_it(rows: list[Row]) -> None:
    for sums in fold(rows, 0, 10**9, (), View("t")).values():
        waiting = sum(ms for level, ms in sums.waiting.items() if level)
        assert waiting == sums.limited_ms + sums.prefill_wait_ms
        assert sum(sums.flat_wait_ms.values()) <= sums.prefill_wait_ms
