"""The counters against the samples: each check agrees where it should, and names causes and a remedy where not."""

from __future__ import annotations

import math

import pytest

from opmon.core.answers import Check
from opmon.core.checks import Beside, checks, counted_step_batch, expected_step_batch
from opmon.core.sums import CurveLevel, Increase, Sums

TEN_MINUTES_MS = 600_000


def sums_of(running: dict[int, int], *, outputs: float, steps: float, prefill_seconds: float = 0.0) -> Sums:
    """Ten minutes with so many outputs after the first ones, in so many steps."""
    sums = Sums(observed_ms=sum(running.values()), running=dict(running))
    seconds = sum(level * ms for level, ms in running.items()) / 1000
    values = {
        "itl_seconds_count": outputs,
        "itl_seconds_sum": seconds - prefill_seconds,
        "prefill_seconds_sum": prefill_seconds,
        "iterations": steps,
    }
    sums.increases = {name: Increase(value, TEN_MINUTES_MS) for name, value in values.items()}
    return sums


def check(sums: Sums, code: str, **beside: object) -> Check:
    asked = Beside(1000, **beside)  # type: ignore[arg-type]
    return next(one for one in checks(sums, asked) if one.code == code)


def test_every_check_is_in_every_report() -> None:
    codes = ["mean_running", "step_batch", "tokens_while_idle", "over_ceiling", "alias_doubles"]
    assert codes == [one.code for one in checks(Sums(), Beside(1000))]


def test_the_step_weighted_batch_is_outputs_per_iteration() -> None:
    assert 2.5 == counted_step_batch(sums_of({2: TEN_MINUTES_MS}, outputs=25_000, steps=10_000))


def test_counters_of_different_scrapes_are_compared_by_their_own_elapsed_time() -> None:
    sums = sums_of({2: TEN_MINUTES_MS}, outputs=25_000, steps=5_000)
    sums.increases["iterations"].elapsed_ms = TEN_MINUTES_MS // 2
    assert 2.5 == counted_step_batch(sums)


def test_a_handful_of_steps_is_no_mean() -> None:
    assert counted_step_batch(sums_of({1: TEN_MINUTES_MS}, outputs=99, steps=99)) is None


def test_without_known_speeds_the_busy_mean_is_expected() -> None:
    assert 3.0 == expected_step_batch(sums_of({0: 300_000, 2: 150_000, 4: 150_000}, outputs=1, steps=1))


def test_with_known_speeds_the_longer_steps_of_large_batches_count_less() -> None:
    sums = sums_of({1: 300_000, 8: 300_000}, outputs=1, steps=1)
    # 100 steps a second at 1, 25 at 8.
    sums.curve = {1: CurveLevel(100_000, 10_000.0, 0.0, 0.0), 8: CurveLevel(100_000, 20_000.0, 0.0, 0.0)}
    assert math.isclose((100 * 1 + 25 * 8) / 125, expected_step_batch(sums) or 0)


def test_the_share_of_prefill_is_not_expected_in_decode_steps() -> None:
    sums = sums_of({2: TEN_MINUTES_MS}, outputs=1, steps=1, prefill_seconds=300.0)
    assert 1.5 == expected_step_batch(sums)


def test_a_batch_as_large_as_the_samples_agrees() -> None:
    assert check(sums_of({2: TEN_MINUTES_MS}, outputs=20_000, steps=10_000), "step_batch").agrees is True


def test_a_batch_larger_than_any_sample_is_a_gauge_that_leaves_something_out() -> None:
    found = check(sums_of({1: TEN_MINUTES_MS}, outputs=40_000, steps=10_000), "step_batch")
    assert found.agrees is False
    assert "leaves out an engine" in found.detail
    assert "compare the engines" in found.detail


def test_steps_that_are_counted_once_per_api_server_are_no_disagreement() -> None:
    found = check(sums_of({4: TEN_MINUTES_MS}, outputs=40_000, steps=20_000), "step_batch")
    assert found.agrees is None
    assert "API servers" in found.detail


def test_engines_that_share_the_load_are_expected_to_have_smaller_batches() -> None:
    sums = sums_of({8: TEN_MINUTES_MS}, outputs=40_000, steps=10_000)
    assert check(sums, "step_batch", engines=2).agrees is True
    assert check(sums, "step_batch", engines=1).agrees is None


@pytest.mark.parametrize(("between_zeros", "agrees"), [(9_500.0, False), (5_000.0, True)])
def test_output_between_samples_that_read_0_is_a_gauge_that_is_mostly_dead(between_zeros: float, agrees: bool) -> None:
    sums = sums_of({0: TEN_MINUTES_MS - 3_000, 1: 3_000}, outputs=1, steps=1)
    sums.increases["generation_tokens"] = Increase(10_000.0, TEN_MINUTES_MS)
    sums.curve = {0: CurveLevel(TEN_MINUTES_MS - 5_000, between_zeros, 0.0, 0.0)}
    found = check(sums, "tokens_while_idle")
    assert agrees is found.agrees
    assert agrees is ("dead most of the time" not in found.detail)


def test_more_running_than_the_ceiling_allows_names_what_to_correct() -> None:
    found = check(Sums(observed_ms=1000, running={9: 1000}), "over_ceiling", ceiling=8)
    assert (False, 9, 8) == (found.agrees, found.sampled, found.counted)
    assert "correct max_num_seqs" in found.detail


@pytest.mark.parametrize(("ceiling", "agrees"), [(8, True), (None, None)])
def test_a_ceiling_that_holds_agrees_and_one_that_is_not_known_is_not_checked(
    ceiling: int | None, agrees: bool | None
) -> None:
    assert agrees is check(Sums(observed_ms=1000, running={8: 1000}), "over_ceiling", ceiling=ceiling).agrees


def test_two_names_of_one_signal_that_disagree_are_told_with_their_values() -> None:
    doubles = "vllm:kv_cache_usage_perc is 0.5, vllm:gpu_cache_usage_perc is 0.25"
    found = check(Sums(), "alias_doubles", alias_doubles=doubles)
    assert found.agrees is False
    assert doubles in found.detail
    assert "watch the server itself" in found.detail


@pytest.mark.parametrize(("doubles", "agrees"), [("", True), (None, None)])
def test_without_doubles_the_check_agrees_once_a_page_was_read(doubles: str | None, agrees: bool | None) -> None:
    assert agrees is check(Sums(), "alias_doubles", alias_doubles=doubles).agrees


def test_every_check_that_fails_says_what_to_do() -> None:
    sums = sums_of({1: TEN_MINUTES_MS}, outputs=40_000, steps=10_000)
    sums.increases["itl_seconds_sum"] = Increase(6000.0, TEN_MINUTES_MS)
    failed = [one for one in checks(sums, Beside(1000, ceiling=0, alias_doubles="a is 1, b is 2")) if not one.agrees]
    assert ["mean_running", "step_batch", "over_ceiling", "alias_doubles"] == [
        one.code for one in failed if one.agrees is False
    ]
    for one in failed:
        if one.agrees is False:
            assert "likely cause" in one.detail
            assert ";" in one.detail.partition("likely cause")[2], one.detail


def without_prefill(seconds: float, running: dict[int, int], **more: float) -> Sums:
    """Ten minutes of a server that does not count the time in prefill, as SGLang and old versions of vLLM."""
    values = {"itl_seconds_sum": seconds, **more}
    sums = Sums(observed_ms=sum(running.values()), running=running)
    sums.increases = {name: Increase(value, TEN_MINUTES_MS) for name, value in values.items()}
    return sums


@pytest.mark.parametrize(
    ("running", "agrees", "counted"),
    [
        (4, True, 4.0),  # all of the first token's time was prefill
        (2, True, 2.0),  # none of it
        (3, True, 3.0),
        (6, False, 4.0),
        (1, False, 2.0),
    ],
)
def test_prefill_that_is_not_counted_lies_between_none_and_the_time_to_the_first_token(
    running: int, agrees: bool, counted: float
) -> None:
    sums = without_prefill(1200, {running: TEN_MINUTES_MS}, ttft_seconds_sum=1500, queue_seconds_sum=300)
    found = check(sums, "mean_running")
    assert (agrees, running, counted) == (found.agrees, found.sampled, found.counted)
    assert "2.00 to 4.00 by counters" in found.detail


@pytest.mark.parametrize(("running", "agrees"), [(2, True), (5, None), (1, False)])
def test_without_any_bound_on_prefill_more_by_samples_is_not_judged(running: int, agrees: bool | None) -> None:
    found = check(without_prefill(1200, {running: TEN_MINUTES_MS}), "mean_running")
    assert (agrees, 2.0) == (found.agrees, found.counted)
    assert "without the time in prefill" in found.detail
