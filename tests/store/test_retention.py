"""What is old goes, in batches; what is still needed stays; what can be answered stays exact."""

from __future__ import annotations

import random

from opmon.core.model import (
    BUCKET_FAMILIES,
    FIVE_MINUTES_MS,
    FULL_COUNTERS,
    HOUR_MS,
    PULSE_COUNTERS,
    Buckets,
    Lane,
    Row,
    SeriesSample,
    State,
    View,
)
from opmon.core.states import Step
from opmon.store import Store
from opmon.store.retention import Retention, forecast_bytes
from tests.store.history import ENGINES, INFINITY, RECORD, START_MS, VIEWS, History, in_order, together
from tests.store.test_rows import row

KEEP = Retention(raw_ms=HOUR_MS, five_minutes_ms=3 * HOUR_MS, hourly_ms=400 * 24 * HOUR_MS)


def aged(store: Store, *, hours: float = 6) -> History:
    history = History(31, hours)
    store.save_target(RECORD)
    store.append("one", history.steps(0, len(history.attempts)))
    store.roll_up(history.end_ms + HOUR_MS)
    return history


def test_old_windows_widen_to_the_buckets_that_are_left_and_stay_exact(store: Store) -> None:
    history = aged(store)
    assert store.retain(history.end_ms, KEEP) > 0
    dice = random.Random(31)
    for _ in range(30):
        view = dice.choice(VIEWS[:-1])
        edges = sorted(START_MS + dice.randrange(history.end_ms - START_MS) for _ in "ab")
        start_ms, end_ms = store.window_bounds(view, *edges)
        assert start_ms <= edges[0] <= edges[1] <= end_ms
        assert history.fold(view, start_ms, end_ms) == in_order(store.window(view, *edges))


def test_edges_widen_no_further_than_they_must(store: Store) -> None:
    history = aged(store)
    store.retain(history.end_ms, KEEP)
    odd = START_MS + HOUR_MS + 7 * FIVE_MINUTES_MS + 1
    assert (START_MS + HOUR_MS, START_MS + 2 * HOUR_MS) == store.window_bounds(VIEWS[0], odd, odd + 1)
    odd += 3 * HOUR_MS - FIVE_MINUTES_MS
    assert (odd - 1, odd - 1 + FIVE_MINUTES_MS) == store.window_bounds(VIEWS[0], odd, odd + 1)
    young = history.end_ms - 1000
    assert (young, young + 1) == store.window_bounds(VIEWS[0], young, young + 1)
    assert [HOUR_MS, FIVE_MINUTES_MS, 1] == [store.finest_step_ms(VIEWS[0], at) for at in (START_MS, odd, young)]


def test_selections_without_roll_ups_begin_where_raw_rows_do(store: Store) -> None:
    history = aged(store)
    store.retain(history.end_ms, KEEP)
    view = View("one", None, "0")
    start_ms, end_ms = store.window_bounds(view, START_MS, history.end_ms)
    assert history.end_ms - HOUR_MS - FIVE_MINUTES_MS <= start_ms <= history.end_ms - HOUR_MS
    assert history.fold(view, start_ms, end_ms) == in_order(store.window(view, START_MS, history.end_ms))


def test_a_timeline_over_deleted_raw_rows_still_adds_up_to_its_window(store: Store) -> None:
    history = aged(store)
    store.retain(history.end_ms, KEEP)
    for step_ms in (HOUR_MS, 2 * HOUR_MS, 60_000):
        points = store.timeline(VIEWS[0], START_MS, history.end_ms, step_ms)
        total = together(dict(enumerate(point.sums for point in points)))
        expected = together(history.fold(VIEWS[0], START_MS, history.end_ms))
        total.peak_minute_tokens_per_second = expected.peak_minute_tokens_per_second
        assert expected == total


def test_raw_rows_that_are_not_rolled_up_are_never_deleted(store: Store) -> None:
    history = History(32, hours=2)
    store.save_target(RECORD)
    store.append("one", history.steps(0, len(history.attempts)))
    assert 0 == store.retain(history.end_ms + 1000 * HOUR_MS, KEEP)
    store.roll_up(START_MS + HOUR_MS)
    store.retain(history.end_ms + 1000 * HOUR_MS, KEEP)
    window = (START_MS, history.end_ms)
    assert history.fold(VIEWS[0], *window) == in_order(store.window(VIEWS[0], *window))


def test_what_a_dirty_bucket_is_computed_from_is_never_deleted(store: Store) -> None:
    history = aged(store, hours=3)
    with store.database.exclusive() as connection:
        connection.exec_driver_sql(f"INSERT INTO dirty VALUES (1, {START_MS + 2 * HOUR_MS})")
    store.retain(history.end_ms + 1000 * HOUR_MS, KEEP)
    store.roll_up(history.end_ms + 1000 * HOUR_MS)
    window = (START_MS, history.end_ms)
    assert history.fold(VIEWS[0], *window) == in_order(store.window(VIEWS[0], *window))


def test_rolling_up_goes_on_exactly_after_raw_rows_were_deleted(store: Store) -> None:
    history = History(33, hours=5)
    store.save_target(RECORD)
    place = 0
    while place < len(history.attempts):
        store.append("one", history.steps(place, place + 100))
        store.roll_up(history.end_ms)
        store.retain(history.end_ms, KEEP)
        place += 100
    window = (START_MS, START_MS + 4 * HOUR_MS + FIVE_MINUTES_MS)
    for view in VIEWS[:-1]:
        assert history.fold(view, *window) == in_order(store.window(view, *window))


def test_rows_from_behind_the_raw_retention_are_refused_and_counted(store: Store) -> None:
    history = aged(store)
    store.retain(history.end_ms, KEEP)
    outcome = store.append("one", [Step(row(1)), Step(row(10**6))])
    assert (1, 0, 1) == (outcome.stored, outcome.duplicates, outcome.too_old)
    assert 1 == store.too_old_rows


def test_every_tier_goes_when_it_is_old_enough(store: Store) -> None:
    history = aged(store)
    store.retain(history.end_ms + 500 * 24 * HOUR_MS, KEEP)
    rows = store.count_rows()
    assert 0 == rows["roll_ups"]
    assert rows["attempts"] < 100
    assert {} == store.window(VIEWS[0], START_MS, START_MS + HOUR_MS)


def test_retention_deletes_in_batches_and_tells_how_much(store: Store) -> None:
    history = aged(store)
    before = sum(store.count_rows()[name] for name in ("attempts", "samples", "full_samples", "roll_ups"))
    deleted = store.retain(history.end_ms, KEEP)
    after = sum(store.count_rows()[name] for name in ("attempts", "samples", "full_samples", "roll_ups"))
    assert before - after == deleted == store.deleted_rows
    assert 0 == store.retain(history.end_ms, KEEP)


def test_the_forecast_is_near_to_what_a_server_really_takes(store: Store) -> None:
    store.save_target(RECORD)
    counters = dict.fromkeys((*PULSE_COUNTERS, *FULL_COUNTERS), 1_000_000.0)
    bounds = (*(0.001 * 2**n for n in range(16)), INFINITY)
    counts = [0.0] * len(bounds)
    steps = []
    for second in range(7200):
        lane = Lane.FULL if second % 30 == 0 else Lane.PULSE
        for name in counters:
            counters[name] += 0.7 if name.endswith("_sum") else 30.0
        counts = [count + place for place, count in enumerate(counts)]
        names = counters if lane is Lane.FULL else PULSE_COUNTERS
        buckets = {name: Buckets(bounds, tuple(counts)) for name in BUCKET_FAMILIES} if lane is Lane.FULL else {}
        sample = SeriesSample(second % 5, 0, 0.31 * second, {name: counters[name] for name in names}, buckets)
        at_ms = START_MS + 1000 * second
        steps.append(Step(Row(at_ms, 1000, at_ms + second % 1000, lane, State.OBSERVED, 1, {ENGINES[0]: sample})))
    store.append("one", steps)
    store.roll_up(START_MS + 3 * HOUR_MS)
    with store.database.reading() as connection:
        pages = connection.exec_driver_sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        size = pages.scalar_one()
    keep = Retention(raw_ms=2 * HOUR_MS, five_minutes_ms=2 * HOUR_MS, hourly_ms=2 * HOUR_MS)
    forecast = forecast_bytes(pulse_interval_ms=1_000, full_interval_ms=30_000, retention=keep)
    assert 0.75 * size < forecast < 1.25 * size
