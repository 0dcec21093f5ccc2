from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.cells import (
    Cell,
    bracket,
    decode_speed,
    decode_speed_less_ttft,
    has_failures,
    is_impossible,
    is_per_stream_derived,
    is_ramp,
    measured_concurrency,
    nearest,
    octaves,
    per_stream_speed,
    shares,
)

LEVELS = [1.0, 8.0, 32.0, 64.0]


def cell(**known: Any) -> Cell:
    return Cell("a", **known)


def test_per_stream_is_derived_from_ttft_and_tpot_where_it_was_not_measured() -> None:
    one = cell(ttft=0.5, tpot=0.01, output_tokens=101)

    assert math.isclose(101 / 1.5, per_stream_speed(one) or 0)
    assert is_per_stream_derived(one)


def test_per_stream_is_never_aggregate_over_concurrency() -> None:
    assert per_stream_speed(cell(aggregate=700.0, concurrency=8)) is None


def test_a_decode_only_figure_is_decode_speed_and_not_per_stream() -> None:
    one = cell(per_stream=120.0, per_stream_method="decode_only")

    assert (None, 120.0) == (per_stream_speed(one), decode_speed(one))


def test_the_ttft_can_be_taken_off_a_whole_request() -> None:
    one = cell(per_stream=101 / 1.5, ttft=0.5, output_tokens=101)

    assert math.isclose(100, decode_speed_less_ttft(one) or 0)


def test_a_ttft_longer_than_the_request_gives_no_decode_speed() -> None:
    assert decode_speed_less_ttft(cell(per_stream=100.0, ttft=2.0, output_tokens=101)) is None


def test_measured_concurrency_is_requests_times_e2e_before_anything_else() -> None:
    one = cell(concurrency=8, requests_per_second=2.0, e2e=3.0, aggregate=100.0, per_stream=100.0)

    assert 6.0 == measured_concurrency(one)
    assert is_ramp(one)


def test_measured_concurrency_is_unknown_from_a_decode_only_column() -> None:
    one = cell(concurrency=8, aggregate=100.0, per_stream=100.0, per_stream_method="decode_only")

    assert measured_concurrency(one) is None
    assert not is_ramp(one)


@pytest.mark.parametrize(("aggregate", "expected"), [(719.0, True), (721.0, False)])
def test_under_90_percent_of_nominal_is_ramp(aggregate: float, expected: bool) -> None:
    assert expected == is_ramp(cell(concurrency=8, aggregate=aggregate, per_stream=100.0))


def test_failures_are_held_against_a_cell_only_where_they_are_recorded() -> None:
    found = [has_failures(one) for one in (cell(), cell(failed_requests=0), cell(failed_requests=1))]

    assert [False, False, True] == found


@pytest.mark.parametrize(("level", "expected"), [(1, 1), (2, 1), (4, 8), (3, 8), (16, 8), (100, 64)])
def test_the_nearest_cell_is_nearest_in_octaves_and_ties_go_to_the_lower(level: int, expected: float) -> None:
    assert expected == nearest(level, LEVELS)


@pytest.mark.parametrize(
    ("level", "expected"), [(1, (1, 1)), (2, (1, 8)), (33, (32, 64)), (65, None), (0.5, None), (64, (64, 64))]
)
def test_the_bracket_is_the_measured_levels_around(level: float, expected: tuple[float, float] | None) -> None:
    assert expected == bracket(level, LEVELS)


@given(st.dictionaries(st.integers(1, 200), st.floats(0.001, 1e6), min_size=1, max_size=20))
def test_shares_sum_to_one(weights: dict[int, float]) -> None:
    found = shares(weights, LEVELS)

    assert found is not None
    assert math.isclose(1, found.at + found.between + found.outside, abs_tol=1e-9)


def test_shares_of_nothing_are_unknown() -> None:
    assert shares({}, LEVELS) is None


def test_shares_tell_at_between_and_outside() -> None:
    found = shares({1: 1.0, 2: 2.0, 100: 5.0}, LEVELS)

    assert found is not None
    assert (0.125, 0.25, 0.625) == (found.at, found.between, found.outside)


@given(st.floats(0.1, 1e5), st.floats(0.1, 1e5))
def test_octaves_are_the_same_in_both_directions(one: float, other: float) -> None:
    assert math.isclose(octaves(one, other), octaves(other, one), abs_tol=1e-9)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"aggregate": 120.0, "per_stream": 12.0}, True),
        ({"aggregate": 120.0, "per_stream": 41.0}, False),
        ({"aggregate": 12.0, "per_stream": 120.0}, False),
        ({"aggregate": 120.0, "per_stream": 12.0, "per_stream_method": "decode_only"}, True),
        ({"requests_per_second": 2.0, "e2e": 5.0}, True),
        ({"requests_per_second": 0.2, "e2e": 5.0}, False),
        ({"aggregate": 120.0}, False),
    ],
)
def test_three_times_more_in_flight_than_the_clients_hold_is_impossible(
    known: dict[str, Any], expected: object
) -> None:
    assert expected == is_impossible(Cell("old", concurrency=1, **known))
    assert not is_impossible(Cell("old", concurrency=10, **known))


def test_a_request_that_took_no_time_has_no_speed() -> None:
    assert per_stream_speed(Cell("old", ttft=0.0, tpot=0.01, output_tokens=1)) is None


@pytest.mark.parametrize(("one", "other"), [(1e-320, 8112.0), (1e308, 1e-10), (5e-324, 1.7e308)])
def test_a_distance_in_octaves_is_finite_for_every_two_numbers(one: float, other: float) -> None:
    assert 1000 < octaves(one, other) < 2200
    assert math.isclose(octaves(one, other), octaves(other, one), rel_tol=1e-6)
