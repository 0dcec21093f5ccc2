"""A window from roll-ups and raw rows is the fold of all raw rows, whatever happened and however it is cut."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core.model import FIVE_MINUTES_MS, HOUR_MS, Ceiling, View
from opmon.store import Store
from opmon.store.database import Database
from tests.store.history import CEILINGS, RECORD, START_MS, VIEWS, History, in_order, long_prefill, together


def play(store: Store, history: History, dice: random.Random, *, rolling: bool = True) -> None:
    """Appends a history in batches of any size, rolling up now and then, as a service does."""
    store.save_target(RECORD)
    place = 0
    while place < len(history.attempts):
        end = place + dice.choice((1, 7, 60, 300))
        store.append("one", history.steps(place, end))
        if rolling and dice.random() < 0.5:
            store.roll_up(history.end_ms, limit=dice.choice((None, 1, 5)))
        place = end


def some_windows(history: History, dice: random.Random, number: int) -> list[tuple[int, int]]:
    """Windows of every kind of alignment: milliseconds, strata, buckets, hours."""
    length = history.end_ms - START_MS
    found = []
    for _ in range(number):
        grid = dice.choice((1, 1000, 5000, FIVE_MINUTES_MS, HOUR_MS))
        edges = sorted(START_MS + dice.randrange(-2 * FIVE_MINUTES_MS, length + HOUR_MS) // grid * grid for _ in "ab")
        found.append((edges[0], edges[1]))
    return found


@given(seed=st.integers(0, 10**6))
@settings(max_examples=12)
def test_every_window_of_every_view_equals_the_fold_of_all_raw_rows(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    dice = random.Random(seed)
    history = History(seed, hours=dice.choice((0.3, 1.4, 2.6)))
    path = tmp_path_factory.mktemp("windows") / "opmon.db"
    with Database.open(str(path), read_only=False, create=True) as database:
        store = Store(database)
        play(store, history, dice)
        for start_ms, end_ms in some_windows(history, dice, 10):
            for view in dice.sample(VIEWS, 3):
                expected = history.fold(view, start_ms, end_ms)
                assert expected == in_order(store.window(view, start_ms, end_ms)), (view, start_ms, end_ms)


def test_a_window_may_start_and_end_at_any_millisecond_around_a_bucket(store: Store) -> None:
    history = History(5, hours=1.5)
    play(store, history, random.Random(5))
    store.roll_up(history.end_ms + HOUR_MS)
    bucket = START_MS + 6 * FIVE_MINUTES_MS
    for shift in (-5001, -5000, -4999, -1, 0, 1, 4999, 5000, 5001):
        for end_ms in (bucket + shift, bucket + FIVE_MINUTES_MS - shift, bucket + HOUR_MS + shift):
            expected = history.fold(VIEWS[0], bucket + shift - 1, end_ms)
            assert expected == in_order(store.window(VIEWS[0], bucket + shift - 1, end_ms)), (shift, end_ms)


def test_parts_of_a_window_add_up_to_it(store: Store) -> None:
    history = History(6, hours=2)
    play(store, history, random.Random(6))
    whole = store.window(VIEWS[0], START_MS, history.end_ms)
    cut = START_MS + 77 * 60_000
    parts = [store.window(VIEWS[0], START_MS, cut), store.window(VIEWS[0], cut, history.end_ms)]
    assert together(whole) == together({number: together(part) for number, part in enumerate(parts)})


def test_rolling_up_again_and_again_changes_nothing(store: Store) -> None:
    history = History(7, hours=2)
    play(store, history, random.Random(7), rolling=False)
    window = (START_MS, history.end_ms)
    before = in_order(store.window(VIEWS[0], *window))
    assert store.roll_up(history.end_ms + HOUR_MS) > 0
    assert 0 == store.roll_up(history.end_ms + HOUR_MS)
    rows = store.count_rows()["roll_ups"]
    with store.database.exclusive() as connection:
        connection.exec_driver_sql(
            "INSERT INTO dirty SELECT 1, bucket_ms FROM roll_ups WHERE tier_minutes = 5 GROUP BY 2"
        )
    assert store.roll_up(history.end_ms + HOUR_MS) > 0
    assert rows == store.count_rows()["roll_ups"]
    assert before == in_order(store.window(VIEWS[0], *window))


def test_a_long_prefill_becomes_load_again_in_buckets_that_were_rolled_up_as_stalled(store: Store) -> None:
    history = History(0, hours=0)
    history.attempts = long_prefill()
    last = len(history.attempts) - 1
    store.save_target(RECORD)
    store.append("one", history.steps(0, last))
    store.roll_up(history.end_ms)
    stalled = together(store.window(VIEWS[0], START_MS, history.end_ms)).stalled_ms
    assert stalled > 3 * FIVE_MINUTES_MS
    store.append("one", history.steps(last, last + 1))
    assert 0 == together(store.window(VIEWS[0], START_MS, history.end_ms)).stalled_ms
    assert store.roll_up(history.end_ms) >= 3
    expected = history.fold(VIEWS[0], START_MS, history.end_ms)
    assert expected == in_order(store.window(VIEWS[0], START_MS, history.end_ms))


def test_buckets_settle_only_when_a_stall_can_no_longer_be_dated_back_into_them(store: Store) -> None:
    history = History(8, hours=1)
    play(store, history, random.Random(8), rolling=False)
    first_end = min(history.rows) // FIVE_MINUTES_MS * FIVE_MINUTES_MS + FIVE_MINUTES_MS
    settles_ms = first_end + RECORD.stall_after_ms + 2 * RECORD.pulse_interval_ms
    assert 0 == store.roll_up(settles_ms - 1)
    assert 1 == store.roll_up(settles_ms)


def test_another_ceiling_is_applied_to_what_was_rolled_up_already(store: Store) -> None:
    history = History(9, hours=2)
    play(store, history, random.Random(9))
    store.roll_up(history.end_ms + HOUR_MS)
    ceilings = (*CEILINGS[:1], Ceiling(1, "configured", START_MS + 2_000_000))
    store.save_target(replace(RECORD, ceilings=ceilings))
    window = (START_MS, history.end_ms)
    expected = history.fold(VIEWS[0], *window, ceilings=ceilings)
    assert history.fold(VIEWS[0], *window) != expected
    assert expected == in_order(store.window(VIEWS[0], *window))
    store.roll_up(history.end_ms + HOUR_MS)
    assert expected == in_order(store.window(VIEWS[0], *window))


def test_a_ceiling_that_has_held_for_ever_marks_what_was_observed_and_no_more(store: Store) -> None:
    history = History(9, hours=1)
    play(store, history, random.Random(9))
    store.roll_up(history.end_ms + HOUR_MS)
    store.save_target(replace(RECORD, ceilings=(Ceiling(2, "server_info", 0),)))
    assert 0 < store.count_rows()["dirty"] <= 30


def test_history_that_is_filled_in_behind_the_present_is_rolled_up_as_if_it_had_come_in_order(store: Store) -> None:
    history = History(14, hours=2)
    store.save_target(RECORD)
    steps = history.steps(0, len(history.attempts))
    steps = [replace(step, row=history.rows[step.row.stratum_ms], relabels=()) for step in steps]
    store.append("one", steps[-1:])
    for place in range(0, len(steps), 200):
        store.roll_up(history.end_ms + HOUR_MS)
        store.append("one", steps[place : place + 200])
        end_ms = steps[min(place + 199, len(steps) - 1)].row.stratum_ms + 5_000
        for window in ((START_MS, end_ms), (START_MS + 1_000_001, end_ms - 1)):
            assert history.fold(VIEWS[0], *window) == in_order(store.window(VIEWS[0], *window))


def test_rows_that_arrive_late_correct_what_was_rolled_up_without_them(store: Store) -> None:
    history = History(10, hours=2)
    store.save_target(RECORD)
    known = history.steps(0, len(history.attempts))
    steps = [replace(step, row=history.rows[step.row.stratum_ms], relabels=()) for step in known]
    store.append("one", [step for number, step in enumerate(steps) if number % 3 != 1])
    store.roll_up(history.end_ms + HOUR_MS)
    store.append("one", steps[1::3])
    window = (START_MS, history.end_ms)
    expected = history.fold(VIEWS[0], *window)
    assert expected == in_order(store.window(VIEWS[0], *window))
    store.roll_up(history.end_ms + HOUR_MS)
    assert expected == in_order(store.window(VIEWS[0], *window))


def test_a_window_without_any_attempt_is_empty(store: Store) -> None:
    store.save_target(RECORD)
    assert {} == store.window(VIEWS[0], START_MS, START_MS + HOUR_MS)
    store.roll_up(START_MS + HOUR_MS)
    assert {} == store.window(VIEWS[0], START_MS, START_MS + HOUR_MS)


def test_a_view_that_nobody_has_seen_has_the_failures_of_its_target_only(store: Store) -> None:
    history = History(11, hours=2)
    play(store, history, random.Random(11))
    store.roll_up(history.end_ms + HOUR_MS)
    unknown, window = View("one", "nobody"), (START_MS, history.end_ms)
    total = together(store.window(unknown, *window))
    assert together(history.fold(unknown, *window)) == total
    assert total.down_ms > 0
    assert (0, {}) == (total.observed_ms, total.running)


@pytest.mark.parametrize("step_ms", [1_000, 30_000, 60_000, 420_000, 900_000, HOUR_MS])
def test_a_timeline_is_the_window_of_every_step(store: Store, step_ms: int) -> None:
    history = History(12, hours=2.5)
    play(store, history, random.Random(12))
    start_ms, end_ms = START_MS + 1_234_567, START_MS + (1_500_000 if step_ms == 1_000 else 8_000_000)
    points = store.timeline(VIEWS[1], start_ms, end_ms, step_ms)
    assert start_ms == points[0].start_ms
    assert end_ms == points[-1].start_ms + points[-1].step_ms
    for point in points[:: max(len(points) // 40, 1)]:
        expected = history.fold(VIEWS[1], point.start_ms, point.start_ms + point.step_ms)
        assert together(expected) == in_order({0: point.sums})[0]
    for before, after in pairwise(points):
        assert before.start_ms + before.step_ms == after.start_ms
        assert 0 == after.start_ms % step_ms


def test_the_store_says_the_same_after_it_was_closed_and_opened_again(path: Path) -> None:
    history = History(13, hours=2)
    with Database.open(str(path), read_only=False, create=True) as database:
        play(Store(database), history, random.Random(13))
    with Database.open(str(path), read_only=True) as database:
        window = (START_MS + 17, history.end_ms - 17)
        assert history.fold(VIEWS[0], *window) == in_order(Store(database).window(VIEWS[0], *window))
