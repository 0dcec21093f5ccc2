from __future__ import annotations

import math
import random
from collections.abc import Sequence

from opmon.core.fold import fold
from opmon.core.model import MINUTE_MS, Ceiling, Lane, Row, SeriesKey, SeriesSample, State, View
from opmon.core.sums import BucketIncrease, Increase, Sums
from tests.core.stage import INF, ONE, Stage, rows_of, watch

VIEW = View("t")
TWO = SeriesKey("model", "1")
OTHER = SeriesKey("other", "0")


def folded(rows: Sequence[Row], start_ms: int = 0, end_ms: int = 10**9, *ceilings: Ceiling, view: View = VIEW) -> Sums:
    """The sums of the only epoch in the window."""
    found = fold(rows, start_ms, end_ms, ceilings, view)
    assert 1 == len(found)
    return next(iter(found.values()))


def row(
    second: int, running: int | None, waiting: int | None = 0, *, state: State = State.OBSERVED, **more: float
) -> Row:
    """A row of one engine, scraped at the start of its stratum; keywords are counters."""
    series = {} if state in (State.DOWN, State.INVALID) else {ONE: SeriesSample(running, waiting, None, dict(more))}
    return Row(second * 1000, 1000, second * 1000, Lane.PULSE, state, 1, series)


# --- time at levels -------------------------------------------------------------------------------------------------


def test_a_sample_owns_its_stratum_wherever_its_instant_was() -> None:
    late = Row(5000, 1000, 5990, Lane.PULSE, State.OBSERVED, 1, {ONE: SeriesSample(7, 0)})

    assert {7: 1000} == folded([late]).running


def test_load_that_is_locked_to_the_clock_is_read_without_bias() -> None:
    """A burst in the first half second of each minute, scraped at a random instant of each second."""
    dice = random.Random(11)
    rows = []
    for second in range(20 * 3600):
        at_ms = second * 1000 + dice.randrange(1000)
        running = 8 if at_ms % MINUTE_MS < 500 else 0
        rows.append(Row(second * 1000, 1000, at_ms, Lane.PULSE, State.OBSERVED, 1, {ONE: SeriesSample(running, 0)}))
    sums = folded(rows)

    assert math.isclose(0.5 / 60, sums.running[8] / sums.observed_ms, rel_tol=0.05)


def test_strata_are_clipped_to_the_window_by_milliseconds() -> None:
    sums = folded([row(0, 1), row(1, 2), row(2, 3)], 300, 2100)

    assert {1: 700, 2: 1000, 3: 100} == sums.running
    assert 1800 == sums.observed_ms


def test_every_state_has_its_own_time() -> None:
    sums = folded(
        [row(0, 1), row(1, 0, state=State.DOWN), row(2, 0, state=State.INVALID), row(3, 9, state=State.STALLED)]
    )

    assert (1000, 1000, 1000, 1000) == (sums.observed_ms, sums.down_ms, sums.invalid_ms, sums.stalled_ms)
    assert ({1: 1000}, {9: 1000}) == (sums.running, sums.stalled_running)


def test_a_stratum_without_an_attempt_is_in_no_state() -> None:
    assert 2000 == folded([row(0, 1), row(9, 1)]).known_ms


def test_nothing_attempted_is_nothing_known() -> None:
    assert {} == fold([], 0, 1000, (), VIEW)
    assert {} == fold([row(5, 1)], 0, 5000, (), VIEW)
    assert {} == fold([row(5, 1)], 6000, 9000, (), VIEW)


def test_in_system_is_the_sum_in_one_scrape_and_not_of_the_distributions() -> None:
    sums = folded([row(0, 2, 0), row(1, 2, 5), row(2, 0, 1)])

    assert {2: 1000, 7: 1000, 1: 1000} == sums.in_system
    assert {0: 1000, 5: 1000, 1: 1000} == sums.waiting


def test_where_waiting_is_not_known_in_system_is_not_either() -> None:
    sums = folded([row(0, 2, None)])

    assert ({2: 1000}, {}, {}) == (sums.running, sums.waiting, sums.in_system)


def test_engines_of_one_scrape_are_added() -> None:
    rows = rows_of(watch(Stage(engines=(ONE, TWO, OTHER)).play(4, running=2, waiting=1)))

    assert {6: 4000} == folded(rows).running
    assert {9: 4000} == folded(rows).in_system
    assert {4: 4000} == folded(rows, view=View("t", "model")).running
    assert {2: 4000} == folded(rows, view=View("t", "model", "1")).running


def test_one_engine_without_waiting_makes_waiting_unknown() -> None:
    both = {ONE: SeriesSample(1, 3), TWO: SeriesSample(2, None)}

    assert {} == folded([Row(0, 1000, 0, Lane.PULSE, State.OBSERVED, 1, both)]).in_system


def test_a_series_without_running_is_in_no_level() -> None:
    both = {ONE: SeriesSample(1, 3), OTHER: SeriesSample(None, None, None, {"drafts": 1.0})}
    sums = folded([Row(0, 1000, 0, Lane.PULSE, State.OBSERVED, 1, both)])

    assert ({1: 1000}, {4: 1000}) == (sums.running, sums.in_system)


def test_a_view_that_a_scrape_does_not_show_was_not_observed() -> None:
    assert {} == fold([row(0, 1)], 0, 1000, (), View("t", "absent"))


def test_strata_never_count_twice_when_the_interval_changes() -> None:
    long = Row(0, 5000, 4000, Lane.PULSE, State.OBSERVED, 1, {ONE: SeriesSample(1, 0)})
    short = [
        Row(second * 1000, 1000, second * 1000, Lane.PULSE, State.OBSERVED, 1, {ONE: SeriesSample(2, 0)})
        for second in (4, 5)
    ]

    assert {1: 5000, 2: 1000} == folded([long, *short]).running


# --- pairs ----------------------------------------------------------------------------------------------------------


def test_a_rate_has_increase_and_elapsed_time_of_the_same_pairs() -> None:
    sums = folded(
        [row(0, 1, generation_tokens=100), row(1, 1, generation_tokens=110), row(2, 1, generation_tokens=125)]
    )

    assert Increase(25.0, 2000) == sums.increases["generation_tokens"]


def test_elapsed_time_runs_between_scrape_instants() -> None:
    rows = [row(0, 1, generation_tokens=0), row(1, 1, generation_tokens=5)]
    rows[0].at_ms, rows[1].at_ms = 990, 1010

    assert Increase(5.0, 20) == folded(rows).increases["generation_tokens"]


def test_a_pair_belongs_to_the_window_of_its_later_stratum() -> None:
    rows = [row(0, 1, generation_tokens=0), row(1, 1, generation_tokens=5), row(2, 1, generation_tokens=11)]

    assert Increase(5.0, 1000) == folded(rows, 0, 2000).increases["generation_tokens"]
    assert Increase(6.0, 1000) == folded(rows, 2000, 3000).increases["generation_tokens"]
    assert {} == folded(rows, 2500, 3000).increases


def test_a_pair_that_spans_an_unobserved_stratum_is_in_no_rate() -> None:
    for between in ([], [row(1, 0, state=State.DOWN)], [row(1, 0, state=State.INVALID)]):
        earlier = row(0, 1, generation_tokens=0, itl_seconds_sum=0.0, prefill_seconds_sum=0.0)
        later = row(2, 1, generation_tokens=8, itl_seconds_sum=1.5, prefill_seconds_sum=0.25)
        sums = folded([earlier, *between, later])

        assert {} == sums.increases
        assert (8.0, 2000, 1.75) == (sums.uncovered_tokens, sums.spanned_ms, sums.spanned_running_seconds)


def test_without_an_itl_sum_nothing_is_known_of_the_spanned_time() -> None:
    sums = folded([row(0, 1, generation_tokens=0), row(5, 1, generation_tokens=8)])

    assert (8.0, 0, 0.0) == (sums.uncovered_tokens, sums.spanned_ms, sums.spanned_running_seconds)


def test_stalled_pairs_count_with_their_elapsed_time() -> None:
    rows = [row(0, 1, generation_tokens=4), row(1, 1, state=State.STALLED, generation_tokens=4)]

    assert Increase(0.0, 1000) == folded(rows).increases["generation_tokens"]


def test_counters_never_join_across_epochs_and_the_first_value_is_in_no_rate() -> None:
    rows = [row(0, 1, generation_tokens=900), row(1, 1, generation_tokens=30), row(2, 1, generation_tokens=42)]
    rows[1].epoch = rows[2].epoch = 2
    found = fold(rows, 0, 3000, (), VIEW)

    assert {} == found[1].increases
    assert Increase(12.0, 1000) == found[2].increases["generation_tokens"]
    assert 30.0 == found[2].uncovered_tokens


def test_a_lifetime_total_at_the_first_sight_is_not_counted_at_all() -> None:
    assert 0.0 == folded([row(0, 1, generation_tokens=10**9)]).uncovered_tokens


def test_samples_that_go_back_in_time_are_no_pair() -> None:
    rows = [row(0, 1, generation_tokens=0), row(1, 1, generation_tokens=5)]
    rows[0].at_ms, rows[1].at_ms = 5000, 1000

    assert {} == folded(rows).increases


def test_strata_that_touch_are_contiguous_when_the_interval_changes() -> None:
    rows = [row(0, 1, generation_tokens=0), row(5, 1, generation_tokens=50)]
    rows[0].interval_ms = 5000

    assert Increase(50.0, 5000) == folded(rows).increases["generation_tokens"]


# --- what full scrapes carry ----------------------------------------------------------------------------------------


def test_full_counters_pair_from_full_scrape_to_full_scrape() -> None:
    rows = rows_of(watch(Stage(full_every=30).play(61, running=1)))
    sums = folded(rows)

    assert Increase(12.0, rows[60].at_ms - rows[0].at_ms) == sums.increases["e2e_seconds_count"]
    assert [BucketIncrease((0.3, 1.0, INF), [0.0, 12.0, 12.0])] == sums.buckets["e2e_seconds"]


def test_a_full_pair_over_one_lost_second_counts() -> None:
    stage = Stage(full_every=30)
    rows = rows_of(watch([*stage.play(10, 1), *stage.fail(1), *stage.play(20, 1)]))

    assert 0 < folded(rows).increases["e2e_seconds_count"].total


def test_a_full_pair_of_which_less_than_half_was_observed_does_not_count() -> None:
    for failed, counts in ((14, True), (16, False)):
        stage = Stage(full_every=30)
        rows = rows_of(watch([*stage.play(10, 1), *stage.fail(failed), *stage.play(21 - failed, 1)]))

        assert counts == ("e2e_seconds_count" in folded(rows).increases)


def test_full_scrapes_of_two_epochs_are_no_pair() -> None:
    stage = Stage(full_every=30)
    before = stage.play(15, 1)
    stage.restart()
    found = fold(rows_of(watch([*before, *stage.play(16, 1)])), 0, 31_000, (), VIEW)

    assert "e2e_seconds_count" not in found[2].increases


def test_a_full_pair_is_booked_where_its_later_stratum_begins() -> None:
    rows = rows_of(watch(Stage(full_every=30).play(61, running=1)))

    assert "e2e_seconds_count" not in folded(rows, 1000, 30_000).increases
    assert "e2e_seconds_count" in folded(rows, 30_000, 31_000).increases


# --- waiting --------------------------------------------------------------------------------------------------------


def queued(running: int, waiting: int, *ceilings: Ceiling, kv: float | None = None) -> tuple[int, int]:
    """(limited, prefill wait) of one stratum."""
    one = Row(0, 1000, 0, Lane.PULSE, State.OBSERVED, 1, {ONE: SeriesSample(running, waiting, kv)})
    sums = folded([one], 0, 1000, *ceilings)
    return sums.limited_ms, sums.prefill_wait_ms


def test_waiting_near_the_ceiling_is_limited() -> None:
    assert (1000, 0) == queued(61, 1, Ceiling(64, "set"))
    assert (0, 1000) == queued(60, 1, Ceiling(64, "set"))


def test_running_at_the_ceiling_with_nobody_waiting_is_not_limited() -> None:
    assert (0, 0) == queued(64, 0, Ceiling(64, "set"))


def test_waiting_with_a_full_cache_is_limited() -> None:
    assert (1000, 0) == queued(2, 1, kv=0.95)
    assert (0, 1000) == queued(2, 1, kv=0.94)


def test_waiting_after_a_preemption_is_limited() -> None:
    rows = [row(0, 2, 1, preemptions=3), row(1, 2, 1, preemptions=4), row(2, 2, 1, preemptions=4)]

    assert (1000, 2000) == (folded(rows).limited_ms, folded(rows).prefill_wait_ms)


def test_the_ceiling_is_that_of_its_time() -> None:
    early, late = Ceiling(2, "set", since_ms=1000), Ceiling(64, "set", since_ms=2000)
    rows = [row(second, 2, 1) for second in range(4)]

    assert (1000, 3000) == (
        folded(rows, 0, 4000, late, early).limited_ms,
        folded(rows, 0, 4000, late, early).prefill_wait_ms,
    )


def test_the_ceiling_of_a_target_is_the_limit_times_its_engines() -> None:
    rows = rows_of(watch(Stage(engines=(ONE, TWO)).play(1, running=3, waiting=1)))

    assert 1000 == folded(rows, 0, 1000, Ceiling(3, "set")).limited_ms
    assert 0 == folded(rows, 0, 1000, Ceiling(6, "set")).limited_ms


def test_a_flat_level_with_requests_waiting_is_kept_after_30_seconds_where_no_ceiling_is_known() -> None:
    rows = [row(second, 8, 3, prompt_tokens=5) for second in range(50)]

    assert {8: 20_000} == folded(rows).flat_wait_ms
    assert (0, 50_000) == (folded(rows).limited_ms, folded(rows).prefill_wait_ms)
    assert {} == folded(rows, 0, 50_000, Ceiling(64, "set")).flat_wait_ms


def test_prompt_tokens_that_rise_break_a_flat_stretch() -> None:
    rows = [row(second, 8, 3, prompt_tokens=second // 25) for second in range(50)]

    assert {} == folded(rows).flat_wait_ms


def test_a_lost_stratum_breaks_a_flat_stretch() -> None:
    rows = [row(second, 8, 3, prompt_tokens=5) for second in range(50) if second != 25]

    assert {} == folded(rows).flat_wait_ms


# --- the curve ------------------------------------------------------------------------------------------------------


def test_only_pairs_with_one_level_at_both_ends_are_pure() -> None:
    rows = [
        row(0, 2, generation_tokens=0),
        row(1, 2, generation_tokens=20),
        row(2, 3, generation_tokens=45),
        row(3, 3, generation_tokens=75),
    ]
    sums = folded(rows)

    assert {2: (1000, 20.0), 3: (1000, 30.0)} == {
        level: (pairs.elapsed_ms, pairs.output_tokens) for level, pairs in sums.curve.items()
    }
    assert 1000 == sums.mixed_ms


def test_a_pair_whose_itl_sum_tells_of_another_level_is_mixed() -> None:
    def pair(seconds: float) -> Sums:
        return folded(
            [
                row(0, 4, generation_tokens=0, itl_seconds_sum=0.0),
                row(1, 4, generation_tokens=9, itl_seconds_sum=seconds),
            ]
        )

    assert {4} == set(pair(3.7).curve)
    assert {} == pair(3.5).curve
    assert 1000 == pair(4.5).mixed_ms


def test_stalled_strata_are_no_speed() -> None:
    rows = [row(0, 2, generation_tokens=0), row(1, 2, state=State.STALLED, generation_tokens=0)]

    assert ({}, 0) == (folded(rows).curve, folded(rows).mixed_ms)


def test_a_played_server_shows_its_speed_at_each_level() -> None:
    stage = Stage()
    sums = folded(rows_of(watch([*stage.play(100, 3), *stage.play(100, 6)])))

    for level in (3, 6):
        pairs = sums.curve[level]
        assert math.isclose(10.0 * level, 1000 * pairs.output_tokens / pairs.elapsed_ms, rel_tol=0.05)
        assert math.isclose(level, 1000 * pairs.itl_seconds / pairs.elapsed_ms, rel_tol=0.05)


# --- the best minute ------------------------------------------------------------------------------------------------


def test_the_best_minute_is_a_whole_aligned_one() -> None:
    rows = [row(second, 1, generation_tokens=float(10 * second + 300 * max(0, second - 90))) for second in range(180)]

    assert 310.0 == folded(rows, 0, 180_000).peak_minute_tokens_per_second
    assert 155.0 == folded(rows, 0, 179_000).peak_minute_tokens_per_second
    assert 10.0 == folded(rows, 0, 119_000).peak_minute_tokens_per_second
    assert folded(rows, 1000, 119_000).peak_minute_tokens_per_second is None


def test_a_minute_covered_by_less_than_half_is_none() -> None:
    rows = [row(second, 1, generation_tokens=float(second)) for second in range(30)]

    assert folded(rows, 0, MINUTE_MS).peak_minute_tokens_per_second is None
    assert 1.0 == folded([*rows, row(30, 1, generation_tokens=30)], 0, MINUTE_MS).peak_minute_tokens_per_second


def test_a_rise_that_nobody_can_have_generated_is_in_no_rate() -> None:
    sums = folded([row(0, 2, generation_tokens=0), row(1, 2, generation_tokens=100), row(2, 2, generation_tokens=1e15)])

    assert Increase(100, 1000) == sums.increases["generation_tokens"]
    assert 1e15 - 100 == sums.uncovered_tokens
    assert sums.peak_minute_tokens_per_second is None
