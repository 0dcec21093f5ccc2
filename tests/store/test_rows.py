"""What is appended comes back as it was: rows, epochs, targets; and what is refused is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opmon.core.fold import CONTEXT_MS
from opmon.core.model import (
    Buckets,
    Ceiling,
    Epoch,
    Form,
    Health,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    State,
    TargetRecord,
    View,
)
from opmon.core.states import SEVERAL, Relabel, Step, Tracker
from opmon.errors import NotFound
from opmon.store import Store
from tests.store.history import RECORD, START_MS, VIEWS, History, long_prefill

ONE, TWO = SeriesKey("alpha", "0"), SeriesKey("beta", "")
INFINITY = float("inf")


def row(second: int, state: State = State.OBSERVED, *, lane: Lane = Lane.PULSE, running: int = 1) -> Row:
    stratum_ms = START_MS + 1000 * second
    series = {ONE: SeriesSample(running, 0, None, {"generation_tokens": 7.0})}
    return Row(stratum_ms, 1000, stratum_ms + 400, lane, state, 1, series if state is State.OBSERVED else {})


def all_rows(store: Store, view: View = VIEWS[0]) -> list[Row]:
    return store.rows(view, START_MS, START_MS + 10**9, context=False)


def test_every_field_of_a_row_comes_back(store: Store) -> None:
    store.save_target(RECORD)
    buckets = {
        "ttft_seconds": Buckets((0.5, INFINITY), (3.0, 4.0)),
        "of_tomorrow": Buckets((1.5, INFINITY), (0.25, 0.5)),
    }
    counters = {"generation_tokens": 12.0, "itl_seconds_sum": 0.1 + 0.2, "drafts": 5.0, "of_tomorrow": 2.5}
    full = Row(
        START_MS,
        5000,
        START_MS + 4999,
        Lane.FULL,
        State.OBSERVED,
        3,
        {ONE: SeriesSample(2, 1, 0.123, counters, buckets), TWO: SeriesSample(None, None, None, {}, {})},
        None,
        77,
    )
    failed = Row(START_MS + 5000, 5000, START_MS + 5003, Lane.PULSE, State.DOWN, 3, {}, "timeout", 4000)
    store.append("one", [Step(full), Step(failed)])
    assert [full, failed] == all_rows(store)


def test_a_counter_that_was_not_shown_stays_absent_and_is_not_zero(store: Store) -> None:
    store.save_target(RECORD)
    store.append("one", [Step(row(0))])
    assert {"generation_tokens": 7.0} == all_rows(store)[0].series[ONE].counters


def test_a_view_sees_its_own_series_only_and_every_attempt(store: Store) -> None:
    store.save_target(RECORD)
    both = row(0)
    both.series[TWO] = SeriesSample(5, 0)
    store.append("one", [Step(both), Step(row(1)), Step(row(2, State.DOWN))])
    assert [{TWO}, set(), set()] == [set(found.series) for found in all_rows(store, View("one", "beta"))]


def test_the_first_attempt_of_a_stratum_stays_and_a_second_one_is_counted(store: Store) -> None:
    store.save_target(RECORD)
    store.append("one", [Step(row(0)), Step(row(1))])
    outcome = store.append("one", [Step(row(1, running=9)), Step(row(0, State.DOWN)), Step(row(2)), Step(row(2))])
    assert (1, 3) == (outcome.stored, outcome.duplicates)
    assert [row(0), row(1), row(2)] == all_rows(store)
    assert (3, 3) == (store.appended_rows, store.duplicate_rows)


def test_relabelling_changes_good_rows_inside_the_stretch_only(store: Store) -> None:
    store.save_target(RECORD)
    store.append("one", [Step(row(second, State.DOWN if second == 3 else State.OBSERVED)) for second in range(7)])
    relabel = Relabel(START_MS + 2000, START_MS + 5000, State.STALLED)
    store.append("one", [Step(row(7), relabels=(relabel,))])
    expected = ["observed", "observed", "stalled", "down", "stalled", "observed", "observed", "observed"]
    assert expected == [found.state.value for found in all_rows(store)]


def test_a_batch_is_stored_wholly_or_not_at_all(store: Store) -> None:
    store.save_target(RECORD)
    number = store.commit_number()
    with pytest.raises(NotFound):
        store.append_all({"one": [Step(row(0))], "nobody": [Step(row(0))]})
    assert [] == all_rows(store)
    assert number == store.commit_number()


def test_the_context_is_the_time_before_and_the_last_good_row_of_each_series(store: Store) -> None:
    store.save_target(RECORD)
    lone = row(1)
    lone.series[TWO] = SeriesSample(5, 0)
    good = row(20)
    later = [row(second, State.DOWN) for second in range(100, 1000, 10)]
    store.append("one", [Step(each) for each in (row(0), lone, good, *later)])
    start_ms = START_MS + 1_000_000
    first = (start_ms - CONTEXT_MS - START_MS) // 1000
    expected = [lone, good, *(each for each in later if each.stratum_ms >= START_MS + 1000 * first)]
    assert expected == store.rows(VIEWS[0], start_ms, start_ms + 1)


def test_an_epoch_lasts_until_the_next_one_begins(store: Store) -> None:
    store.save_target(RECORD)
    assert store.current_epoch("one") is None
    first = Epoch(1, START_MS, None, "start", "", {"version": "1"}, 12.5)
    second = Epoch(2, START_MS + 5000, None, "restart", "the process started anew", {}, None)
    store.append("one", [Step(row(0), new_epoch=first), Step(row(5), new_epoch=second)])
    assert [replace(first, end_ms=START_MS + 5000), second] == list(store.epochs("one", START_MS, START_MS + 9000))
    assert [second] == list(store.epochs("one", START_MS + 5000, START_MS + 9000))
    assert [replace(first, end_ms=START_MS + 5000)] == list(store.epochs("one", START_MS, START_MS + 5000))
    assert second == store.current_epoch("one")


def test_what_is_learnt_of_an_epoch_later_replaces_what_was_known(store: Store) -> None:
    store.save_target(RECORD)
    first = Epoch(1, START_MS, None, "start")
    learnt = replace(first, identity={"kv_blocks": "77"}, process_start_seconds=3.0)
    store.append("one", [Step(row(0), new_epoch=first), Step(row(1), learnt_epoch=learnt)])
    assert learnt == store.current_epoch("one")


@pytest.mark.parametrize("cut", [1, 25, 40, 100, 250, 399])
def test_a_tracker_that_was_restored_goes_on_as_if_nothing_had_happened(store: Store, cut: int) -> None:
    history = History(0, hours=0)
    history.attempts = long_prefill()
    store.save_target(RECORD)
    store.append("one", history.steps(0, cut))
    expected = history.steps(cut, 401)
    restored = Tracker.restore(store.current_epoch("one"), store.recent_rows("one"), RECORD.stall_after_ms)
    found = [restored.advance(attempt) for attempt in history.attempts[cut:]]
    assert [(step.row, step.relabels, step.new_epoch) for step in expected] == [
        (step.row, step.relabels, step.new_epoch) for step in found
    ]


def test_what_is_relabelled_gets_the_kind_that_goes_with_its_state(store: Store) -> None:
    store.save_target(RECORD)
    store.append("one", [Step(row(0)), Step(row(1)), Step(row(2, State.DOWN))])
    back = Relabel(START_MS + 1000, START_MS + 3000, State.INVALID, SEVERAL)
    store.append("one", [Step(row(3), relabels=(back,))])
    rows = store.rows(VIEWS[0], START_MS, START_MS + 4000, context=False)

    states = [State.OBSERVED, State.INVALID, State.DOWN, State.OBSERVED]
    assert states == [each.state for each in rows]
    assert [None, SEVERAL, row(2, State.DOWN).kind, None] == [each.kind for each in rows]


def test_the_starts_of_earlier_processes_are_known_and_the_present_one_is_none_of_them(store: Store) -> None:
    store.save_target(RECORD)
    assert [] == store.earlier_starts("one")
    starts = (5.0, None, 7.0, 9.0)
    epochs = [Epoch(n, START_MS + 1000 * n, None, "restart", process_start_seconds=s) for n, s in enumerate(starts, 1)]
    store.append("one", [Step(row(epoch.number), new_epoch=epoch) for epoch in epochs])

    assert [5.0, 7.0] == store.earlier_starts("one")


def test_there_are_no_recent_rows_before_the_first_answer(store: Store) -> None:
    store.save_target(RECORD)
    store.append("one", [Step(row(0, State.DOWN))])
    assert [] == store.recent_rows("one")


def test_every_field_of_a_target_comes_back(store: Store) -> None:
    record = TargetRecord(
        name="all",
        url="http://all:8000/metrics",
        job="vllm",
        labels={"rack": "7"},
        engine="vllm",
        version="0.32.0",
        models=("alpha", "beta"),
        engine_indexes=("0", "1"),
        health=Health.UP,
        state=State.OBSERVED,
        kind="late",
        last_error="HTTP 500",
        last_scrape_ms=START_MS,
        last_took_ms=4,
        last_size_bytes=51_000,
        pulse_interval_ms=5_000,
        full_interval_ms=60_000,
        stall_after_ms=90_000,
        form=Form.FILTERED,
        missing=("ttft_seconds",),
        ceilings=(Ceiling(64, "configured", 5),),
        kv_cache_max_concurrency=28.7,
        first_scrape_ms=START_MS - 5,
        removed_ms=START_MS + 5,
    )
    store.save_target(record)
    assert record == store.target("all")
    store.save_target(replace(record, version=None, labels={}))
    assert replace(record, version=None, labels={}) == store.target("all")


def test_a_removed_target_is_no_longer_listed_and_keeps_what_was_observed(store: Store) -> None:
    store.save_target(RECORD)
    store.save_target(replace(RECORD, name="another"))
    store.append("one", [Step(row(0))])
    store.remove_target("one", START_MS)
    assert ["another"] == [target.name for target in store.targets()]
    assert START_MS == store.target("one").removed_ms
    assert [row(0)] == all_rows(store)


def test_an_unknown_target_is_refused_and_those_that_exist_are_named(store: Store) -> None:
    store.save_target(RECORD)
    with pytest.raises(NotFound, match="no target 'two'; there are: one"):
        store.target("two")
    with pytest.raises(NotFound):
        store.remove_target("two", START_MS)
    with pytest.raises(NotFound):
        store.window(View("two"), 0, 1)


def test_every_change_of_what_can_be_read_advances_the_commit_number_and_rolling_up_does_not(store: Store) -> None:
    numbers = [store.commit_number()]
    store.save_target(RECORD)
    numbers.append(store.commit_number())
    store.append("one", [Step(row(0))])
    numbers.append(store.commit_number())
    store.remove_target("one", START_MS)
    numbers.append(store.commit_number())
    assert numbers == sorted(set(numbers))
    assert 1 == store.roll_up(START_MS + 10**6)
    assert numbers[-1] == store.commit_number()


def test_a_record_is_saved_in_the_same_transaction_as_the_rows(store: Store) -> None:
    store.append("one", [Step(row(0))], RECORD)
    assert RECORD == store.target("one")
    assert [row(0)] == all_rows(store)
    assert 1 == store.commit_number()
