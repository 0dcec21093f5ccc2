from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opmon.core.saving import SavingAsk, parse_bandwidth, parse_bytes, parse_seconds, parse_share, saving
from opmon.errors import ConfigError

CLAIM = SavingAsk(bytes=2.7e9, bandwidth=1133e9, step_seconds=17.6e-3)
MEASURED = replace(
    CLAIM,
    speed_tokens_per_second=185.5,
    speed_after_tokens_per_second=193.3,
    acceptance_length=3.273,
    acceptance_length_after=3.296,
)


@pytest.mark.parametrize(("bandwidth", "milliseconds"), [(1133e9, 2.383), (1674e9, 1.613)])
def test_the_bytes_over_the_bandwidth_are_the_most_that_a_step_saves(bandwidth: float, milliseconds: float) -> None:
    answer = saving(replace(CLAIM, bandwidth=bandwidth))

    assert milliseconds == round(1000 * (answer.saved_seconds or 0), 3)
    assert ("bandwidth", "bandwidth") == (answer.kind, answer.limited_by)


def test_a_step_of_17_6_ms_at_185_5_tokens_a_second_bounds_at_214_6() -> None:
    answer = saving(replace(CLAIM, speed_tokens_per_second=185.5))

    assert 214.6 == round(answer.speed_bound_tokens_per_second or 0, 1)
    assert 1.157 == round(answer.speedup_bound_ratio or 0, 3)


def test_the_measurement_is_steps_times_acceptance() -> None:
    measured = saving(MEASURED).measured

    assert measured is not None
    assert [17.64, 17.05] == [round(1000 * s, 2) for s in (measured.step_before_seconds, measured.step_after_seconds)]
    assert 0.59 == round(1000 * measured.saved_seconds, 2)
    assert pytest.approx(193.3 / 185.5) == measured.speedup_ratio
    assert pytest.approx(measured.speedup_ratio) == measured.step_ratio * measured.acceptance_ratio
    assert 1.007 == round(measured.acceptance_ratio, 3)


@pytest.mark.parametrize(("bandwidth", "per_cent"), [(1674e9, 37), (1133e9, 25)])
def test_what_was_realised_is_37_per_cent_of_the_figure_at_the_corrected_bandwidth(
    bandwidth: float, per_cent: int
) -> None:
    measured = saving(replace(MEASURED, bandwidth=bandwidth)).measured

    assert measured is not None
    assert per_cent == round(100 * (measured.realised_ratio or 0))


def test_the_acceptance_length_multiplies_the_bound() -> None:
    plain, longer = saving(CLAIM), saving(MEASURED)

    assert pytest.approx((plain.speedup_bound_ratio or 0) * 3.296 / 3.273) == longer.speedup_bound_ratio


def test_the_realised_share_multiplies_the_saving() -> None:
    answer = saving(replace(CLAIM, bandwidth=1674e9, share_ratio=0.37))

    assert 0.597 == round(1000 * (answer.saved_seconds or 0), 3)
    assert 1.613 == round(1000 * answer.figure_seconds, 3)
    assert "37 % of it is taken as realised" in answer.detail


def test_no_more_is_saved_than_the_stage_takes() -> None:
    answer = saving(replace(CLAIM, stage_seconds=1.1e-3))

    assert 1.1e-3 == answer.saved_seconds
    assert "stage" == answer.limited_by


def test_a_saving_of_the_whole_step_has_no_bound_and_says_why() -> None:
    answer = saving(replace(CLAIM, bytes=54e9))

    assert (17.6e-3, None) == (answer.saved_seconds, answer.speedup_bound_ratio)
    assert "check bandwidth and step time" in answer.detail


def test_a_saving_of_memory_is_worth_nothing_where_the_weights_fit() -> None:
    answer = saving(replace(CLAIM, kind="capacity", fits=True))

    assert (0.0, 1.0, "fit") == (answer.saved_seconds, answer.speedup_bound_ratio, answer.limited_by)


@pytest.mark.parametrize(("fits", "words"), [(None, "say so (fits)"), (False, "not a matter of time a step")])
def test_a_saving_of_memory_that_is_needed_is_not_a_time(fits: bool | None, words: str) -> None:
    answer = saving(replace(CLAIM, kind="capacity", fits=fits))

    assert (None, None) == (answer.saved_seconds, answer.speedup_bound_ratio)
    assert words in answer.detail


def test_bytes_that_are_no_longer_read_count_where_the_weights_fit_too() -> None:
    fitting, unknown = saving(replace(CLAIM, fits=True)), saving(CLAIM)

    assert unknown.saved_seconds == fitting.saved_seconds
    assert "the memory set free is worth nothing" in fitting.detail


def test_inputs_of_two_runs_are_told() -> None:
    answer = saving(replace(MEASURED, step_seconds=10e-3))

    assert "the inputs are not of one run" in answer.detail


def test_without_acceptance_lengths_they_are_taken_as_equal() -> None:
    answer = saving(replace(CLAIM, speed_tokens_per_second=185.5, speed_after_tokens_per_second=193.3))

    assert answer.measured is not None
    assert pytest.approx(17.6e-3 * 185.5 / 193.3) == answer.measured.step_after_seconds
    assert "taken as equal" in answer.detail


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bytes": 2.7}, "bytes must be a number of bytes from 1000"),
        ({"bandwidth": 1133.0}, "the bandwidth must be"),
        ({"step_seconds": 0.0}, "the step time must be"),
        ({"step_seconds": float("nan")}, "the step time must be"),
        ({"share_ratio": 1.2}, "the share must be"),
        ({"kind": "speed"}, "kind must be `bandwidth`"),
        ({"stage_seconds": 0.02}, "a stage is a part of its step"),
        ({"speed_after_tokens_per_second": 193.3}, "give both speeds"),
        ({"acceptance_length": 3.2}, "give the one before and the one after"),
        ({"acceptance_length": 0.5, "acceptance_length_after": 3.0}, "the acceptance length must be"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        saving(replace(CLAIM, **changes))

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.7GB", 2.7e9),
        ("2.7 gb", 2.7e9),
        ("2700MB", 2.7e9),
        ("2.7e9", 2.7e9),
        ("2.5GiB", 2.5 * 2**30),
        ("1024 B", 1024),
    ],
)
def test_bytes_are_read_with_their_unit(text: str, expected: float) -> None:
    assert pytest.approx(expected) == parse_bytes(text)


@pytest.mark.parametrize("text", ["1133GB/s", "1133 GB/s", "1.133TB/s", "1133GBps", "1133gb/sec", "1133e9", "1133 GB"])
def test_bandwidths_are_read_with_their_unit(text: str) -> None:
    assert pytest.approx(1133e9) == parse_bandwidth(text)


@pytest.mark.parametrize("text", ["17.6ms", "17.6 ms", "0.0176", "0.0176s", "17600us", "17600 µs"])
def test_times_are_read_with_their_unit(text: str) -> None:
    assert pytest.approx(0.0176) == parse_seconds(text)


@pytest.mark.parametrize("text", ["0.37", "37%", "37 %"])
def test_shares_are_read_as_people_write_them(text: str) -> None:
    assert pytest.approx(0.37) == parse_share(text)


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (parse_bytes, "2.7", "with its unit it is written like 2.7GB"),
        (parse_bytes, "2,7GB", "unknown unit ',7GB'"),
        (parse_bytes, "2.7Gb", "a small b means bits"),
        (parse_bytes, "21.6 Gbit", "in bits"),
        (parse_bytes, "lots", "is no number with a unit"),
        (parse_bytes, "-2.7GB", "must be a number of bytes"),
        (parse_bytes, "", "is no number with a unit"),
        (parse_bytes, "1" * 200, "is no number with a unit"),
        (parse_bandwidth, "1133", "with its unit it is written like 1133GB/s"),
        (parse_bandwidth, "9 Gb/s", "a small b means bits"),
        (parse_bandwidth, "1133 GB/min", "unknown unit"),
        (parse_bandwidth, "1e999", "must be a number"),
        (parse_seconds, "17.6 h", "unknown unit 'h'"),
        (parse_seconds, "0", "17.6 ms is written 17.6ms"),
        (parse_share, "37", "37 % is written 37% or 0.37"),
        (parse_share, "nan", "is no number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_write(read: Any, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text)

    assert words in str(refused.value)
