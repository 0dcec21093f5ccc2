from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from opmon.core.model import Attempt, Epoch, Lane, SeriesKey, SeriesSample, Snapshot, State
from opmon.core.states import REMOVED_AFTER_STRATA, STEADY_ANSWERS, Relabel, Step, Tracker
from tests.core.stage import ONE, Stage, epochs_of, rows_of, watch

TWO = SeriesKey("model", "1")
OTHER = SeriesKey("other", "0")


def seconds_in(steps: list[Step]) -> dict[str, int]:
    """Seconds per state, as the database would hold them in the end."""
    return dict(Counter(str(row.state) for row in rows_of(steps)))


def causes(steps: list[Step]) -> list[str]:
    return [epoch.cause for epoch in epochs_of(steps)]


def final_ms(steps: list[Step], name: str | None = None) -> dict[int, int]:
    total: Counter[int] = Counter()
    for step in steps:
        total.update(step.final.get(name, {}))
    return dict(total)


# --- single attempts ------------------------------------------------------------------------------------------------


def test_an_answer_with_values_is_observed_and_begins_the_first_epoch() -> None:
    step = watch(Stage(start_ms=5000).play(1, running=2))[0]

    assert State.OBSERVED is step.row.state
    assert 1 == step.row.epoch
    assert step.new_epoch is not None
    assert (1, 5000, None, "start") == (
        step.new_epoch.number,
        step.new_epoch.start_ms,
        step.new_epoch.end_ms,
        step.new_epoch.cause,
    )
    assert 2 == step.row.series[ONE].running


def test_a_failed_attempt_is_down_with_its_kind_and_belongs_to_no_epoch_before_the_first_answer() -> None:
    step = watch(Stage().fail(1, kind="timeout"))[0]

    assert (State.DOWN, "timeout", 0, {}) == (step.row.state, step.row.kind, step.row.epoch, step.row.series)
    assert "as played" == step.detail
    assert step.new_epoch is None


def test_a_page_with_a_fault_is_invalid_with_its_kind() -> None:
    step = watch(Stage().spoil(1, fault="duplicate"))[0]

    assert (State.INVALID, "duplicate", {}) == (step.row.state, step.row.kind, step.row.series)


def slow(first_byte_ms: int | None, took_ms: int) -> Step:
    return watch([replace(Stage().play(1)[0], first_byte_ms=first_byte_ms, took_ms=took_ms)])[0]


def test_an_answer_that_begins_after_its_interval_is_late() -> None:
    assert (State.INVALID, "late") == (slow(1001, 1100).row.state, slow(1001, 1100).row.kind)
    assert State.OBSERVED is slow(1000, 1900).row.state


def test_where_the_first_byte_is_not_known_the_whole_duration_counts() -> None:
    assert "late" == slow(None, 1001).row.kind
    assert State.OBSERVED is slow(None, 1000).row.state


def test_a_page_without_a_running_gauge_is_invalid_and_never_idle() -> None:
    page = Snapshot("vllm", {ONE: SeriesSample(None, None, None, {"generation_tokens": 1.0})})
    attempt = replace(Stage().play(1)[0], snapshot=page)

    assert ["no_known_metrics"] == [step.row.kind for step in watch([attempt])]


def test_failures_within_an_epoch_keep_its_number() -> None:
    stage = Stage()
    steps = watch([*stage.play(3), *stage.fail(2), *stage.spoil(1), *stage.play(1)])

    assert [1] * 7 == [step.row.epoch for step in steps]
    assert ["start"] == causes(steps)


# --- stalls ---------------------------------------------------------------------------------------------------------


def test_a_frozen_gauge_is_stalled_from_the_sample_after_the_last_movement() -> None:
    stage = Stage()
    steps = watch([*stage.play(100, running=3), *stage.play(8 * 3600, running=106, waiting=15, moving=False)])
    rows = rows_of(steps)

    assert {"observed": 100, "stalled": 8 * 3600} == seconds_in(steps)
    assert 100_000 == next(row.stratum_ms for row in rows if row.state is State.STALLED)


def test_a_stall_is_told_once_and_dated_back() -> None:
    stage = Stage()
    steps = watch([*stage.play(10, running=1), *stage.play(300, running=1, moving=False)])
    told = [(step.row.stratum_ms, step.relabels) for step in steps if step.relabels]

    assert 1 == len(told)
    at_ms, relabels = told[0]
    assert (Relabel(10_000, at_ms, State.STALLED),) == relabels
    assert at_ms - 9_000 in (120_000, 121_000)


def test_standing_for_less_than_stall_after_is_load() -> None:
    stage = Stage()
    steps = watch([*stage.play(5, 1), *stage.play(118, 1, moving=False), *stage.play(5, 1)])

    assert {"observed": 128} == seconds_in(steps)


def test_an_idle_server_never_stalls() -> None:
    assert {"observed": 3600} == seconds_in(watch(Stage().play(3600, moving=False)))


def test_requests_that_wait_while_nothing_runs_and_nothing_moves_are_stalled() -> None:
    stage = Stage()

    assert {"observed": 5, "stalled": 200} == seconds_in(
        watch([*stage.play(5), *stage.play(200, running=0, waiting=4, moving=False)])
    )


def test_a_stall_ends_when_nothing_is_present() -> None:
    stage = Stage()
    steps = watch([*stage.play(5, 2), *stage.play(200, 2, moving=False), *stage.play(10)])

    assert {"observed": 15, "stalled": 200} == seconds_in(steps)


def test_a_stall_ends_before_the_sample_that_shows_movement() -> None:
    stage = Stage()
    steps = watch([*stage.play(6, 2), *stage.play(200, 2, moving=False), *stage.play(9, 2)])

    assert {"observed": 15, "stalled": 200} == seconds_in(steps)
    assert State.OBSERVED is rows_of(steps)[206].state


def test_a_long_prefill_is_load() -> None:
    stage = Stage()
    attempts = [*stage.play(5), *stage.play(300, 1, moving=False), *stage.finish_prefill(), *stage.play(20, 1)]
    steps = watch(attempts)

    assert {"observed": 326} == seconds_in(steps)
    assert [State.STALLED, State.OBSERVED] == [one.state for step in steps for one in step.relabels]


def test_frozen_gauges_that_end_with_a_quick_first_token_stay_stalled() -> None:
    stage = Stage()
    frozen = stage.play(300, 106, moving=False)
    steps = watch([*stage.play(5), *frozen, *stage.finish_prefill(ttft_seconds=0.3), *stage.play(20, 1)])

    assert {"observed": 26, "stalled": 300} == seconds_in(steps)


def test_a_long_prefill_of_one_token_is_load_too() -> None:
    stage = Stage()
    steps = watch([*stage.play(5), *stage.play(300, 1, moving=False), *stage.finish_prefill(running=0)])

    assert {"observed": 306} == seconds_in(steps)


def test_kv_usage_that_moves_is_progress() -> None:
    stage = Stage()
    attempts = [attempt for step in range(300) for attempt in stage.play(1, 1, moving=False, kv=0.1 + step / 1000)]

    assert {"observed": 300} == seconds_in(watch(attempts))


def test_without_any_progress_signal_nothing_is_called_stalled() -> None:
    bare = Snapshot("vllm", {ONE: SeriesSample(5, 0, 0.5)})
    attempts = [replace(one, snapshot=bare) for one in Stage().play(600, 5)]

    assert {"observed": 600} == seconds_in(watch(attempts))


def test_down_strata_within_a_stall_stay_down() -> None:
    stage = Stage()
    attempts = [*stage.play(5, 2), *stage.play(60, 2, moving=False), *stage.fail(30), *stage.play(90, 2, moving=False)]

    assert {"observed": 5, "stalled": 150, "down": 30} == seconds_in(watch(attempts))


def test_a_stall_seen_only_across_a_gap_is_found_at_once() -> None:
    stage = Stage()
    first = stage.play(5, 2)
    stage.now_ms += 600_000
    steps = watch([*first, *stage.play(3, 2, moving=False)])

    assert [State.OBSERVED] * 5 + [State.STALLED] * 3 == [row.state for row in rows_of(steps)]


def test_a_restart_ends_a_stall_and_does_not_make_it_load() -> None:
    stage = Stage()
    attempts = [*stage.play(5, 2), *stage.play(200, 2, moving=False)]
    stage.restart()
    steps = watch([*attempts, *stage.play(10, 2)])

    assert {"observed": 15, "stalled": 200} == seconds_in(steps)
    assert ["start", "restart"] == causes(steps)


def test_the_time_to_a_stall_is_what_was_asked() -> None:
    stage = Stage(interval_ms=5000)
    steps = watch([*stage.play(50, 2), *stage.play(100, 2, moving=False)], stall_after_ms=60_000)

    assert {"observed": 10, "stalled": 20} == seconds_in(steps)


# --- what becomes final ---------------------------------------------------------------------------------------------


def test_progress_makes_a_stratum_final_at_once() -> None:
    steps = watch(Stage().play(10, running=3))

    assert {3: 10_000} == final_ms(steps)
    assert {3: 1000} == steps[5].final[None]


def test_idle_strata_are_final_at_once() -> None:
    assert {0: 4000} == final_ms(watch(Stage().play(4)))


def test_standing_requests_are_withheld_until_they_move() -> None:
    stage = Stage()
    standing = [*stage.play(2, 1), *stage.play(50, 1, moving=False)]
    tracker = Tracker.fresh(stall_after_ms=120_000)

    assert {1: 2000} == final_ms(watch(standing, tracker))
    assert {1: 51_000} == final_ms(watch(stage.play(1, 1), tracker))


def test_stalled_strata_never_become_final() -> None:
    stage = Stage()
    steps = watch([*stage.play(2, 1), *stage.play(500, 106, moving=False), *stage.play(3)])

    assert {1: 2000, 0: 3000} == final_ms(steps)


def test_a_long_prefill_becomes_final_when_it_ends() -> None:
    stage = Stage()
    steps = watch([*stage.play(2), *stage.play(300, 1, moving=False), *stage.finish_prefill()])

    assert {0: 2000, 1: 301_000} == final_ms(steps)


def test_standing_requests_that_vanish_before_a_stall_were_load() -> None:
    stage = Stage()

    assert {1: 52_000, 0: 1000} == final_ms(
        watch([*stage.play(2, 1), *stage.play(50, 1, moving=False), *stage.play(1)])
    )


def test_a_restart_makes_what_stood_still_final_once_it_is_certain_that_it_was_one() -> None:
    stage = Stage()
    before = [*stage.play(2, 1), *stage.play(50, 1, moving=False)]
    stage.restart()
    steps = watch([*before, *stage.play(2 + STEADY_ANSWERS)])

    assert {1: 2000} == final_ms(steps[:-1])
    assert {1: 52_000, 0: 1000 * (2 + STEADY_ANSWERS)} == final_ms(steps)


def test_each_model_has_its_own_final_levels() -> None:
    steps = watch(Stage(engines=(ONE, TWO, OTHER)).play(2, running=2))

    assert {6: 2000} == final_ms(steps)
    assert {4: 2000} == final_ms(steps, "model")
    assert {2: 2000} == final_ms(steps, "other")


def test_failures_never_become_final() -> None:
    stage = Stage()

    assert {0: 1000} == final_ms(watch([*stage.play(1), *stage.fail(5), *stage.spoil(5)]))


# --- epochs ---------------------------------------------------------------------------------------------------------


def test_counters_that_fall_are_a_restart() -> None:
    stage = Stage()
    before = stage.play(10, 3)
    stage.restart(told=False)
    steps = watch([*before, *stage.play(5, 1)])

    assert ["start", "restart"] == causes(steps)
    assert [1] * 10 + [2] * 5 == [step.row.epoch for step in steps]
    assert "fell from" in steps[10].detail


def test_a_restart_in_a_long_gap_shows_by_the_process_start_although_counters_are_higher() -> None:
    stage = Stage()
    before = stage.play(10, 1)
    stage.process_start += 50
    stage.skip(600, running=8)

    assert ["start", "restart"] == causes(watch([*before, *stage.play(5, 1)]))


def test_created_instants_that_change_are_a_restart() -> None:
    stage = Stage(full_every=1)
    stage.identity["created model 0"] = "100.5"
    before = stage.play(3)
    stage.identity["created model 0"] = "200.5"

    assert ["start", "restart"] == causes(watch([*before, *stage.play(3)]))


def test_a_sum_that_falls_while_its_count_rises_is_no_restart() -> None:
    stage = Stage()
    before = stage.play(4, 1)
    for counters in stage.counters.values():
        counters["ttft_seconds_sum"] -= 1
        counters["ttft_seconds_count"] += 1

    assert ["start"] == causes(watch([*before, *stage.play(4, 1)]))


def test_a_sum_that_is_only_rounded_otherwise_is_no_restart() -> None:
    stage = Stage()
    before = stage.play(10, 3)
    for counters in stage.counters.values():
        counters["itl_seconds_sum"] *= 1 - 1e-15

    assert ["start"] == causes(watch([*before, *stage.play(4)]))


def test_a_sum_that_falls_alone_is_a_restart_when_a_second_page_shows_it() -> None:
    stage = Stage()
    before = stage.play(4, 1)
    for counters in stage.counters.values():
        counters["ttft_seconds_sum"] -= 1
    steps = watch([*before, *stage.play(4, 0)])

    assert ["start", "restart"] == causes(steps)
    assert [None] * 4 + ["negative"] + [None] * 3 == [step.row.kind for step in steps]


def cut(attempt: Attempt, **counters: float) -> Attempt:
    """The same answer, with other values of some counters."""
    assert attempt.snapshot is not None
    series = {
        key: replace(sample, counters={**sample.counters, **counters})
        for key, sample in attempt.snapshot.series.items()
    }
    return replace(attempt, snapshot=replace(attempt.snapshot, series=series))


@pytest.mark.parametrize(
    "counters", [{"generation_tokens": 12.0}, {"ttft_seconds_sum": 0.0, "ttft_seconds_count": 0.0}]
)
def test_a_counter_that_fell_on_one_page_alone_is_a_damaged_page(counters: dict[str, float]) -> None:
    stage = Stage(full_every=30)
    for family in stage.counters.values():
        for name in family:
            family[name] = 5000.0
    attempts = stage.play(100, 2)
    pages = [cut(one, **counters) if number % 10 == 9 else one for number, one in enumerate(attempts)]
    steps = watch(pages)

    assert ["start"] == causes(steps)
    assert {"observed": 90, "invalid": 10} == seconds_in(steps)
    assert "go on: a damaged page" in steps[9].detail


def test_a_fall_that_only_full_pages_show_is_believed_at_the_second_of_them() -> None:
    stage = Stage(full_every=10)
    before = stage.play(10, 1)
    for counters in stage.counters.values():
        counters["e2e_seconds_count"] = -1
    steps = watch([*before, *stage.play(20, 0)])

    assert ["start", "restart"] == causes(steps)
    assert [10, 20] == [
        place for place, step in enumerate(steps) if step.row.kind == "negative" or (place and step.new_epoch)
    ]


def test_a_counter_of_full_scrapes_is_compared_across_the_pulses_between() -> None:
    stage = Stage(full_every=10)
    before = stage.play(10)
    for counters in stage.counters.values():
        counters["e2e_seconds_count"] = counters["output_length_count"] = -1
    steps = watch([*before, *stage.play(10, 0)])

    assert ["start", "restart"] == causes(steps)
    assert steps[10].new_epoch is not None


@pytest.mark.parametrize(
    ("key", "cause"),
    [
        ("version", "version"),
        ("kv_blocks", "kv_blocks"),
        ("speculative_positions", "speculation"),
        ("something", "something"),
    ],
)
def test_a_change_of_identity_is_an_epoch_named_after_it(key: str, cause: str) -> None:
    stage = Stage(full_every=5)
    stage.identity[key] = "4"
    before = stage.play(10, 1)
    stage.identity[key] = "5"
    steps = watch([*before, *stage.play(10, 1)])

    assert ["start", cause] == causes(steps)
    assert f"{key} 4 became 5" == steps[10].detail


def test_a_restart_that_brings_a_new_version_names_both() -> None:
    stage = Stage(full_every=1)
    stage.identity["version"] = "0.31.0"
    before = stage.play(3, 1)
    stage.restart()
    stage.identity["version"] = "0.32.0"
    steps = watch([*before, *stage.play(3, 1)])

    assert ["start", "restart"] == causes(steps)
    assert "version 0.31.0 became 0.32.0" in steps[3].detail


def test_pulses_that_show_less_of_the_identity_are_no_change() -> None:
    stage = Stage(full_every=30)
    stage.pulse_identity = {"version": "1"}
    steps = watch(stage.play(100, 1))

    assert ["start"] == causes(steps)


def test_what_a_full_scrape_adds_to_the_identity_is_told_once() -> None:
    stage = Stage(full_every=4)
    stage.scrapes = 1
    steps = watch(stage.play(12, 1))
    learnt = [step.learnt_epoch for step in steps if step.learnt_epoch is not None]

    assert {} == epochs_of(steps)[0].identity
    assert [{"kv_blocks": "100"}] == [epoch.identity for epoch in learnt]
    assert [1] == [epoch.number for epoch in learnt]


# --- engines and models ---------------------------------------------------------------------------------------------


def test_an_absent_engine_makes_strata_invalid_and_is_then_removed() -> None:
    stage = Stage(engines=(ONE, TWO))
    before = stage.play(20, 2)
    stage.engines = (ONE,)
    steps = watch([*before, *stage.play(30, 2)])

    assert {"observed": 20 + 30 - REMOVED_AFTER_STRATA, "invalid": REMOVED_AFTER_STRATA} == seconds_in(steps)
    assert {"engine_absent"} == {row.kind for row in rows_of(steps) if row.state is State.INVALID}
    assert ["start", "engines"] == causes(steps)


def test_an_engine_that_comes_back_in_time_continues_its_epoch() -> None:
    stage = Stage(engines=(ONE, TWO))
    attempts = stage.play(20, 2)
    stage.engines = (TWO,)
    attempts += stage.play(9, 2)
    stage.engines = (ONE, TWO)
    steps = watch([*attempts, *stage.play(20, 2)])

    assert {"observed": 40, "invalid": 9} == seconds_in(steps)
    assert ["start"] == causes(steps)


def test_an_absent_engine_is_not_given_up_while_the_others_stand_still() -> None:
    stage = Stage(engines=(ONE, TWO))
    before = stage.play(20, 2)
    stage.engines = (ONE,)
    steps = watch([*before, *stage.play(100, 0)])

    assert {"observed": 20, "invalid": 100} == seconds_in(steps)


def test_an_engine_that_joins_counts_from_its_first_sample() -> None:
    stage = Stage(engines=(ONE,))
    before = stage.play(20, 2)
    stage.counters[TWO] = stage.zero()
    stage.engines = (ONE, TWO)
    steps = watch([*before, *stage.play(1, 2)])

    assert ["start", "engines"] == causes(steps)
    assert {ONE, TWO} == set(steps[20].row.series)
    assert State.OBSERVED is steps[20].row.state


def test_another_model_on_the_same_url_is_an_epoch_at_once() -> None:
    stage = Stage(engines=(ONE,))
    before = stage.play(20, 2)
    stage.counters = {OTHER: stage.zero()}
    stage.engines = (OTHER,)
    steps = watch([*before, *stage.play(5, 2)])

    assert ["start", "models"] == causes(steps)
    assert {"observed": 25} == seconds_in(steps)


def test_a_model_that_goes_away_is_named_as_such() -> None:
    stage = Stage(engines=(ONE, OTHER))
    before = stage.play(20, 2)
    stage.engines = (ONE,)

    assert ["start", "models"] == causes(watch([*before, *stage.play(20, 2)]))


def test_a_series_without_a_running_gauge_is_no_engine() -> None:
    stage = Stage(full_every=3)
    attempts = [
        replace(
            one,
            snapshot=replace(
                one.snapshot, series={**one.snapshot.series, OTHER: SeriesSample(None, None, None, {"drafts": 1.0})}
            ),
        )
        if one.lane is Lane.FULL and one.snapshot is not None
        else one
        for one in stage.play(20, 1)
    ]

    assert ["start"] == causes(watch(attempts))


# --- going on after a restart of opmon ------------------------------------------------------------------------------


def resumed(attempts: list[Attempt], cut: int, *, back: int = 400) -> list[Step]:
    """Watches up to `cut`, then goes on with another tracker that has only the database."""
    first = Tracker.fresh(stall_after_ms=120_000)
    steps = watch(attempts[:cut], first)
    second = Tracker.restore(first.epoch, rows_of(steps)[-back:], 120_000)
    return steps + watch(attempts[cut:], second)


def test_a_restored_tracker_continues_the_epoch() -> None:
    steps = resumed(Stage().play(100, 2), 50)

    assert ["start"] == causes(steps)
    assert [1] * 100 == [step.row.epoch for step in steps]


def test_a_restart_of_the_server_while_opmon_was_away_is_seen() -> None:
    stage = Stage()
    before = stage.play(50, 2)
    stage.restart(told=False)

    assert ["start", "restart"] == causes(resumed([*before, *stage.play(50, 1)], 50))


def test_the_identity_alone_is_enough_when_no_rows_are_left() -> None:
    stage = Stage()
    before = stage.play(50, 1)
    stage.process_start += 7
    stage.skip(3600, running=5)

    assert ["start", "restart"] == causes(resumed([*before, *stage.play(5, 1)], 50, back=0))


def test_without_rows_and_without_a_change_the_epoch_goes_on() -> None:
    assert ["start"] == causes(resumed(Stage().play(100, 1), 50, back=0))


@pytest.mark.parametrize("cut", [6, 60, 124, 126, 127, 200, 305, 306])
def test_an_interruption_of_opmon_changes_no_state(cut: int) -> None:
    stage = Stage()
    attempts = [*stage.play(5, 1), *stage.play(300, 3, moving=False), *stage.finish_prefill(), *stage.play(5, 2)]

    assert rows_of(watch(attempts)) == rows_of(resumed(attempts, cut))


@pytest.mark.parametrize("cut", [6, 60, 124, 126, 127, 200])
def test_a_stall_stays_one_across_an_interruption_of_opmon(cut: int) -> None:
    stage = Stage()
    attempts = [*stage.play(5, 1), *stage.play(300, 106, moving=False), *stage.play(5)]

    assert {"observed": 10, "stalled": 300} == seconds_in(resumed(attempts, cut))


def test_a_stalled_stretch_is_kept_even_if_its_begin_is_no_longer_there() -> None:
    stage = Stage()
    attempts = [*stage.play(5, 1), *stage.play(300, 106, moving=False), *stage.play(5)]

    assert {"observed": 10, "stalled": 300} == seconds_in(resumed(attempts, 250, back=1))


def test_what_was_withheld_before_the_interruption_becomes_final_after_it() -> None:
    stage = Stage()
    attempts = [*stage.play(2, 1), *stage.play(50, 1, moving=False), *stage.play(1, 1)]

    assert {1: 53_000} == final_ms(resumed(attempts, 30))


def test_expected_engines_are_known_after_the_interruption() -> None:
    stage = Stage(engines=(ONE, TWO))
    before = stage.play(20, 2)
    stage.engines = (ONE,)
    steps = resumed([*before, *stage.play(5, 2)], 20)

    assert [State.INVALID] * 5 == [step.row.state for step in steps[20:]]


def test_epoch_numbers_go_on_from_the_database() -> None:
    known = Epoch(41, 0, None, "start", process_start_seconds=1.0)
    stage = Stage()
    stage.process_start = 2.0

    assert [42] == [epoch.number for epoch in epochs_of(watch(stage.play(3), Tracker.restore(known, [], 120_000)))]


def test_without_an_epoch_the_first_answer_starts_one() -> None:
    assert ["start"] == causes(watch(Stage().play(3), Tracker.restore(None, [], 120_000)))


# --- steps of the wall clock ----------------------------------------------------------------------------------------


def step_clock(stage: Stage, tracker: Tracker, step_ms: int) -> None:
    """The wall clock steps while no time passes: no counter moves."""
    stage.now_ms += step_ms
    stage.last_at_ms += step_ms
    tracker.clock_stepped(step_ms)


def test_a_clock_that_was_set_back_begins_an_epoch_and_one_that_leapt_forward_does_not() -> None:
    stage = Stage(start_ms=7_200_000)
    tracker = Tracker.fresh(stall_after_ms=120_000)
    steps = [tracker.advance(attempt) for attempt in stage.play(5, 2)]
    step_clock(stage, tracker, 3_600_000)
    steps += [tracker.advance(attempt) for attempt in stage.play(5, 2)]
    assert ["start"] == causes(steps)
    step_clock(stage, tracker, -3_600_000)
    steps += [tracker.advance(attempt) for attempt in stage.play(5, 2)]

    assert ["start", "clock"] == causes(steps)
    assert [1] * 10 + [2] * 5 == [step.row.epoch for step in steps]
    assert "the clock was set back by 3600 s" == steps[10].detail


def test_requests_that_stand_across_a_step_are_not_said_to_have_stood_for_as_long() -> None:
    stage = Stage()
    tracker = Tracker.fresh(stall_after_ms=120_000)
    steps = [tracker.advance(attempt) for attempt in [*stage.play(5, 2), *stage.play(5, 2, moving=False)]]
    step_clock(stage, tracker, 3_600_000)
    steps += [tracker.advance(attempt) for attempt in [*stage.play(5, 2, moving=False), *stage.play(5, 2)]]

    assert {"observed": 20} == seconds_in(steps)
    assert {2: 20_000} == final_ms(steps)


def test_a_count_of_outputs_that_ticks_while_the_tokens_stand_is_no_progress() -> None:
    stage = Stage()
    before, frozen = stage.play(5, 2), stage.play(300, 106, moving=False)
    ticking = []
    for number, one in enumerate(frozen):
        assert one.snapshot is not None
        series = {
            key: replace(
                sample,
                counters={**sample.counters, "itl_seconds_count": sample.counters["itl_seconds_count"] + number},
            )
            for key, sample in one.snapshot.series.items()
        }
        ticking.append(replace(one, snapshot=replace(one.snapshot, series=series)))

    assert {"observed": 5, "stalled": 300} == seconds_in(watch([*before, *ticking]))


def test_an_engine_that_works_without_a_gauge_makes_the_sum_unusable_while_it_works() -> None:
    stage = Stage(engines=(SeriesKey("m", "0"), SeriesKey("m", "1")))
    steps = watch([without_gauge(one, "1") for one in [*stage.play(30, 2), *stage.play(20, 0)]])

    assert {"observed", "engine_absent"} == {step.row.kind or step.row.state.value for step in steps}
    assert {"engine_absent"} == {step.row.kind for step in steps[1:30]}
    assert {State.OBSERVED} == {step.row.state for step in steps[31:]}
    assert "engine 1" in steps[5].detail


def without_gauge(attempt: Attempt, engine_index: str) -> Attempt:
    """The same answer, with one engine that shows its counters and not its gauges."""
    assert attempt.snapshot is not None
    series = {
        key: replace(sample, running=None, waiting=None) if key.engine_index == engine_index else sample
        for key, sample in attempt.snapshot.series.items()
    }
    return replace(attempt, snapshot=replace(attempt.snapshot, series=series))
