from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from opmon.core.answers import (
    CeilingAnswer,
    Check,
    EpochSpan,
    Latency,
    Lengths,
    OperatingPoint,
    PrefixCache,
    Queue,
    Selector,
    Speculation,
    Spread,
    Statistics,
    Window,
)
from opmon.core.checks import counted_mean_running
from opmon.core.fold import fold
from opmon.core.model import Attempt, Ceiling, View
from opmon.core.operating_point import operating_point
from opmon.core.sums import BucketIncrease, Increase, Sums
from tests.core.stage import INF, Stage, epochs_of, rows_of, watch

WORKED = {0: 600_000, 1: 240_000, 2: 36_000, 4: 24_000}


def point(
    sums: Sums, *, seconds: float | None = None, ceiling: int | None = 64, interval_ms: int = 1000
) -> OperatingPoint:
    length = sums.known_ms / 1000 if seconds is None else seconds
    return operating_point(
        {1: sums},
        window=Window(0.0, length, length, length),
        selector=Selector(target="t"),
        epochs=[EpochSpan(0.0, None, "start")],
        ceiling=CeilingAnswer(requests=ceiling, max_num_seqs=ceiling, source="set" if ceiling else None),
        pulse_interval_ms=interval_ms,
    )


def observed(running: dict[int, int], **more: object) -> Sums:
    sums = Sums(observed_ms=sum(running.values()), running=dict(running), in_system=dict(running))
    sums.waiting = {0: sums.observed_ms}
    return replace(sums, **more)  # type: ignore[arg-type]


def codes(found: OperatingPoint) -> list[str]:
    return [warning.code for warning in found.warnings]


def check(found: OperatingPoint, code: str) -> Check:
    return next(one for one in found.checks if one.code == code)


def played(attempts: list[Attempt], seconds: float, *ceilings: Ceiling, interval_ms: int = 1000) -> OperatingPoint:
    """The operating point of a played server, from the first second on."""
    steps = watch(attempts)
    spans = [EpochSpan(one.start_ms / 1000, None, one.cause, one.detail) for one in epochs_of(steps)]
    return operating_point(
        fold(rows_of(steps), 0, round(seconds * 1000), ceilings, View("t")),
        window=Window(0.0, seconds, seconds, seconds),
        selector=Selector(),
        epochs=spans,
        ceiling=CeilingAnswer(requests=ceilings[-1].max_num_seqs if ceilings else None),
        pulse_interval_ms=interval_ms,
    )


# --- the sentence ---------------------------------------------------------------------------------------------------


def test_the_sentence_reads_as_promised() -> None:
    running = {0: 100_000, 1: 60_000, 2: 30_000, 3: 2_000, 4: 5_600, 6: 2_400}

    assert (
        "1 to 4 requests at once for 97 % of the busy time (median 1, p95 4, max 6); "
        "the ceiling of 64 was never reached"
    ) == point(observed(running)).sentence


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        (WORKED, "1 to 4 requests at once for 100 % of the busy time (median 1, p95 4, max 4)"),
        ({1: 5000}, "1 request at once for 100 % of the busy time (median 1, p95 1, max 1)"),
        ({4: 5000}, "4 requests at once for 100 % of the busy time (median 4, p95 4, max 4)"),
        ({1: 9990, 7: 10}, "1 request at once for 99 % of the busy time (median 1, p95 1, max 7)"),
        ({1: 975, 2: 25}, "1 request at once for 97 % of the busy time (median 1, p95 1, max 2)"),
    ],
)
def test_range_and_number_are_worded(running: dict[int, int], expected: str) -> None:
    assert expected == point(observed(running)).sentence.partition(";")[0]


@pytest.mark.parametrize(
    ("ceiling", "expected"),
    [
        (4, "the ceiling of 4 was reached 8 % of the busy time"),
        (5, "the ceiling of 5 was never reached"),
        (1, "the ceiling of 1 was reached 100 % of the busy time"),
        (None, "its ceiling is not known"),
    ],
)
def test_the_ceiling_is_worded(ceiling: int | None, expected: str) -> None:
    assert expected == point(observed(WORKED), ceiling=ceiling).sentence.partition("; ")[2]


def test_a_ceiling_that_was_hardly_reached_was_reached() -> None:
    assert "was reached under 1 % of the busy time" in point(observed({1: 100_000, 64: 100})).sentence


def test_an_idle_window_says_so() -> None:
    found = point(observed({0: 900_000}))

    assert "Idle: no request was running in 15m of observed time" == found.sentence
    assert Statistics() == found.running.busy
    assert 0 == found.running.time.p99
    assert found.ceiling.reached_ratio is None


def test_nothing_observed_says_why_and_knows_no_figure() -> None:
    found = point(Sums(down_ms=600_000), seconds=900)

    assert "No data: nothing was observed in this window (10m down)" == found.sentence
    assert (Statistics(), ()) == (found.running.time, found.running.occupancy)
    assert (0.0, 600.0, 300.0) == (found.coverage.ratio, found.coverage.down_seconds, found.coverage.gap_seconds)
    assert all(value is None for value in asdict(found.throughput).values())
    assert all(value is None for value in asdict(found.queue).values())
    assert (None, None) == (found.speculation, found.prefix_cache)


def test_no_attempt_at_all_says_so() -> None:
    found = operating_point(
        {},
        window=Window(0.0, 60.0, 60.0, 60.0),
        selector=Selector(),
        epochs=[],
        ceiling=CeilingAnswer(),
        pulse_interval_ms=1000,
    )

    assert "No data: nothing was observed in this window (no scrape was made)" == found.sentence
    assert 60.0 == found.coverage.gap_seconds


def test_levels_that_are_not_known_are_not_called_idle() -> None:
    assert "not known" in point(Sums(observed_ms=5000)).sentence


# --- coverage -------------------------------------------------------------------------------------------------------


def test_the_five_states_add_up_to_the_window() -> None:
    sums = Sums(observed_ms=1000, down_ms=2000, invalid_ms=3000, stalled_ms=4000)
    covered = point(sums, seconds=60).coverage

    assert (1 / 60, 50.0) == (covered.ratio, covered.gap_seconds)
    assert math.isclose(
        60.0,
        covered.observed_seconds
        + covered.down_seconds
        + covered.invalid_seconds
        + covered.stalled_seconds
        + covered.gap_seconds,
    )


def test_low_coverage_is_a_warning() -> None:
    assert "coverage_low" in codes(point(observed({1: 53_000}), seconds=60))
    assert "coverage_low" not in codes(point(observed({1: 54_000}), seconds=60))


# --- rates ----------------------------------------------------------------------------------------------------------


def test_rates_are_increases_by_their_own_elapsed_time() -> None:
    increases = {"generation_tokens": Increase(900.0, 90_000), "finished_requests": Increase(9.0, 90_000)}
    found = point(observed({0: 60_000, 2: 30_000}, increases=increases)).throughput

    assert (10.0, 30.0, 0.1) == (
        found.output_tokens_per_second,
        found.busy_output_tokens_per_second,
        found.requests_per_second,
    )
    assert 0.0 == found.uncovered_tokens


def test_stalled_time_is_not_busy_and_does_not_dilute_the_busy_rate() -> None:
    sums = observed(
        {0: 30_000, 2: 30_000}, increases={"generation_tokens": Increase(300.0, 120_000)}, stalled_ms=60_000
    )

    assert 10.0 == point(sums).throughput.busy_output_tokens_per_second


def test_an_idle_window_has_no_busy_rate() -> None:
    found = point(observed({0: 60_000}, increases={"generation_tokens": Increase(0.0, 60_000)})).throughput

    assert (0.0, None) == (found.output_tokens_per_second, found.busy_output_tokens_per_second)


def test_decode_speed_leaves_out_first_tokens() -> None:
    increases = {
        "generation_tokens": Increase(1010.0, 60_000),
        "ttft_seconds_count": Increase(10.0, 60_000),
        "itl_seconds_sum": Increase(50.0, 60_000),
    }

    assert 20.0 == point(observed({1: 60_000}, increases=increases)).throughput.decode_tokens_per_second_per_stream


def test_decode_speed_is_not_known_without_an_itl_sum() -> None:
    increases = {"generation_tokens": Increase(1010.0, 60_000), "ttft_seconds_count": Increase(10.0, 60_000)}

    assert point(observed({1: 60_000}, increases=increases)).throughput.decode_tokens_per_second_per_stream is None


def test_lengths_latencies_speculation_and_cache_come_from_their_counters() -> None:
    totals = {
        "prompt_length_sum": 8000.0,
        "prompt_length_count": 4.0,
        "ttft_seconds_sum": 2.0,
        "ttft_seconds_count": 4.0,
        "drafts": 100.0,
        "draft_tokens": 400.0,
        "accepted_tokens": 230.0,
        "prefix_queries": 1000.0,
        "prefix_hits": 250.0,
        "preemptions": 0.0,
    }
    sums = observed({1: 60_000}, increases={name: Increase(total, 60_000) for name, total in totals.items()})
    sums.buckets = {"prompt_length": [BucketIncrease((1000.0, 2000.0, INF), [0, 2, 4])]}
    found = point(sums)

    assert Lengths(Spread(2000.0, 2000.0, 2000.0, ("p95",)), Spread()) == found.lengths
    assert Latency(ttft_seconds=Spread(0.5)) == found.latency
    assert Speculation(3.3, 0.575) == found.speculation
    assert PrefixCache(0.25) == found.prefix_cache
    assert 0.0 == found.queue.preemptions


def test_speculation_without_a_draft_is_there_but_has_no_figure() -> None:
    increases = {name: Increase(0.0, 1000) for name in ("drafts", "draft_tokens", "accepted_tokens")}

    assert Speculation(None, None) == point(observed({1: 1000}, increases=increases)).speculation


# --- the queue ------------------------------------------------------------------------------------------------------


def test_the_queue_is_told_as_shares_of_in_system_busy_time() -> None:
    sums = Sums(observed_ms=100_000, running={0: 20_000, 4: 80_000}, limited_ms=10_000, prefill_wait_ms=30_000)
    sums.waiting = {0: 60_000, 2: 40_000}
    sums.in_system = {0: 20_000, 4: 40_000, 6: 40_000}

    assert Queue(0.5, 0.125, 0.375, None) == point(sums).queue


def test_the_largest_level_stands_in_for_an_unknown_ceiling_where_it_was_held_flat() -> None:
    sums = Sums(observed_ms=100_000, running={4: 50_000, 8: 50_000}, in_system={9: 100_000}, waiting={1: 100_000})
    sums.prefill_wait_ms, sums.flat_wait_ms = 100_000, {4: 20_000, 8: 40_000}

    assert Queue(1.0, 0.4, 0.6, None) == point(sums, ceiling=None).queue


def test_where_waiting_is_not_known_the_queue_is_not() -> None:
    assert Queue() == point(Sums(observed_ms=1000, running={1: 1000})).queue


def test_a_server_at_its_ceiling_is_limited() -> None:
    found = played(Stage().play(120, running=8, waiting=12), 120, Ceiling(8, "set"))

    assert (1.0, 1.0, 0.0) == (
        found.queue.waiting_ratio,
        found.queue.limited_ratio,
        found.queue.prefill_wait_ratio,
    )
    assert 1.0 == found.ceiling.reached_ratio


# --- checks and warnings --------------------------------------------------------------------------------------------


def counted(seconds: float, running: dict[int, int], elapsed_ms: int = 600_000, **more: object) -> Sums:
    increases = {
        "itl_seconds_sum": Increase(seconds * 0.9, elapsed_ms),
        "prefill_seconds_sum": Increase(seconds * 0.1, elapsed_ms),
        "generation_tokens": Increase(5000.0, elapsed_ms),
    }
    return observed(running, increases=increases, **more)


def test_mean_running_by_the_counters_is_the_rise_of_itl_and_prefill_by_elapsed_time() -> None:
    found = counted_mean_running(counted(1200, {2: 600_000}))
    assert found is not None
    assert (2.0, 2.0) == pytest.approx((found.low, found.high))
    assert counted_mean_running(Sums()) is None


def test_two_ways_that_agree_say_so() -> None:
    found = check(point(counted(1200, {2: 600_000})), "mean_running")

    assert (True, 2.0) == (found.agrees, found.sampled)
    assert math.isclose(2.0, found.counted or 0)


def test_a_difference_over_a_quarter_is_a_warning_with_likely_causes() -> None:
    found = point(counted(1200, {0: 200_000, 2: 400_000}))

    assert check(found, "mean_running").agrees is False
    assert "mean_running" in codes(found)
    assert "likely causes" in check(found, "mean_running").detail


def test_a_gauge_left_behind_is_named_as_the_cause_of_a_high_sample() -> None:
    assert "left behind" in check(point(counted(600, {2: 600_000})), "mean_running").detail


def test_preemptions_are_named_where_they_explain_the_difference() -> None:
    sums = counted(1200, {1: 600_000})
    sums.increases["preemptions"] = Increase(18.0, 600_000)

    assert "18 preemptions" in check(point(sums), "mean_running").detail


@pytest.mark.parametrize(("interval_ms", "agrees"), [(1000, False), (5000, True)])
def test_small_differences_matter_less_at_longer_strata(interval_ms: int, agrees: bool) -> None:
    sums = counted(0.5 * 600, {0: 450_000, 1: 150_000})

    assert agrees is check(point(sums, interval_ms=interval_ms), "mean_running").agrees


def test_under_five_minutes_the_means_are_not_compared() -> None:
    found = check(point(counted(0.0, {2: 299_000}, elapsed_ms=299_000)), "mean_running")

    assert found.agrees is None
    assert "five minutes" in found.detail


def test_a_true_stall_whose_time_was_booked_at_its_end_agrees() -> None:
    sums = counted(600 + 1200, {1: 600_000}, elapsed_ms=1_200_000, stalled_ms=600_000, stalled_running={2: 600_000})

    assert check(point(sums), "mean_running").agrees is True


def test_tokens_while_every_sample_reads_zero_are_always_a_warning() -> None:
    sums = observed({0: 20_000}, increases={"generation_tokens": Increase(40.0, 20_000)})
    found = point(sums)

    assert "tokens_while_idle" in codes(found)
    assert check(found, "tokens_while_idle").agrees is False
    assert found.sentence.endswith("yet 40 output tokens were generated between the samples")


def test_without_counters_no_check_claims_to_agree() -> None:
    agrees = {one.code: one.agrees for one in point(observed({1: 600_000})).checks}
    assert {None} == {agrees[code] for code in ("mean_running", "step_batch", "tokens_while_idle", "alias_doubles")}


def test_missing_while_busy_makes_the_point_a_lower_bound() -> None:
    sums = observed({0: 300_000, 1: 300_000}, spanned_ms=60_000, spanned_running_seconds=480.0, uncovered_tokens=4800.0)
    found = point(sums, seconds=660)

    assert ["missing_while_busy", "uncovered_tokens"] == codes(found)
    assert found.sentence.endswith("; a lower bound: more was running while it was not observed")
    assert "8.00 requests ran on average over 60 s" in found.warnings[0].detail


def test_what_was_missed_before_the_window_is_not_told_of_the_window() -> None:
    spanned = {"spanned_ms": 187_000, "spanned_running_seconds": 1496.0, "uncovered_tokens": 4800.0}
    whole = point(observed({1: 10_000}, **spanned), seconds=10)
    assert [] == codes(whole)
    assert "lower bound" not in whole.sentence
    partly = {one.code: one.detail for one in point(observed({1: 7000}, **spanned), seconds=10).warnings}
    assert "8.00 requests ran on average over 3 s" in partly["missing_while_busy"]
    assert partly["uncovered_tokens"].startswith("77 output tokens")  # 4800 of 187 s, 3 s of them in the window


def test_missing_as_busy_as_ever_is_no_lower_bound() -> None:
    sums = observed({2: 600_000}, spanned_ms=60_000, spanned_running_seconds=150.0)

    assert "lower bound" not in point(sums, seconds=660).sentence


def test_one_lost_second_in_a_day_is_no_lower_bound() -> None:
    sums = observed({0: 43_200_000, 1: 43_200_000}, spanned_ms=2000, spanned_running_seconds=16.0)

    assert [] == codes(point(sums))


def test_a_few_tokens_outside_all_rates_are_no_warning() -> None:
    sums = observed({1: 600_000}, increases={"generation_tokens": Increase(990.0, 600_000)}, uncovered_tokens=9.0)

    assert [] == codes(point(sums))
    assert ["uncovered_tokens"] == codes(point(replace(sums, uncovered_tokens=10.0)))


def test_stalled_time_is_told() -> None:
    assert ["stalled"] == codes(point(observed({1: 990_000}, stalled_ms=10_000)))


def test_more_running_than_the_ceiling_allows_is_a_warning() -> None:
    assert ["over_ceiling"] == codes(point(observed({65: 1000})))
    assert [] == codes(point(observed({64: 1000})))


def test_buckets_with_several_bounds_are_a_warning() -> None:
    sums = observed({1: 1000})
    sums.buckets = {"e2e_seconds": [BucketIncrease((1.0, INF), [1, 1]), BucketIncrease((1.0, 2.0, INF), [1, 1, 1])]}

    assert ["bounds_changed"] == codes(point(sums))


def test_epochs_that_begin_in_the_window_are_a_warning_that_names_their_causes() -> None:
    stage = Stage(start_ms=0)
    before = stage.play(100, 1)
    stage.restart()
    found = played([*before, *stage.play(100, 3)], 200)

    assert ["epochs"] == codes(found)
    assert "spans 2 epochs of the server: restart at 1970-01-01T00:01:40Z" in found.warnings[0].detail
    assert {1: 100.0, 3: 100.0} == {one.level: one.seconds for one in found.running.occupancy}


def test_the_epoch_in_which_the_window_begins_is_no_warning() -> None:
    assert [] == codes(point(observed({1: 1000})))


# --- whole stories --------------------------------------------------------------------------------------------------


def test_a_steady_server_is_read_as_it_was() -> None:
    stage = Stage()
    found = played([*stage.play(300), *stage.play(600, 4), *stage.play(300)], 1200)
    agreement = check(found, "mean_running")

    assert (4, 4, 4.0) == (found.running.busy.p50, found.running.busy.p95, found.running.busy.mean)
    assert {0: 600.0, 4: 600.0} == {one.level: one.seconds for one in found.running.occupancy}
    assert math.isclose(agreement.sampled or 0, agreement.counted or 0, rel_tol=0.05)
    assert math.isclose(10.0, found.throughput.decode_tokens_per_second_per_stream or 0, rel_tol=0.1)
    assert math.isclose(40.0, found.throughput.busy_output_tokens_per_second or 0, rel_tol=0.1)
    assert 1.0 == found.coverage.ratio
    assert () == found.warnings


def test_a_night_with_a_frozen_gauge_is_not_load() -> None:
    stage = Stage()
    found = played([*stage.play(600, 2), *stage.play(7200, 106, 15, moving=False), *stage.play(600, 2)], 8400)

    assert (2, 2) == (found.running.busy.p50, found.running.time.max)
    assert 7200.0 == found.coverage.stalled_seconds


def test_a_down_minute_is_neither_load_nor_idleness() -> None:
    stage = Stage()
    found = played([*stage.play(300, 3), *stage.fail(60), *stage.play(240, 3)], 600)

    assert (60.0, 540.0) == (found.coverage.down_seconds, found.coverage.observed_seconds)
    assert [3] == [one.level for one in found.running.occupancy]
