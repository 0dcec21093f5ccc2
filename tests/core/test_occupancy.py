from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.answers import LevelShare, Statistics
from opmon.core.occupancy import (
    Weighting,
    busy_ms,
    central_range,
    distribution,
    mean,
    quantile,
    statistics,
    weights,
)

WORKED = {0: 600_000, 1: 240_000, 2: 36_000, 4: 24_000}

occupancies = st.dictionaries(st.integers(0, 300), st.integers(0, 10_000_000), max_size=12)


def test_the_worked_example_by_time() -> None:
    found = statistics(WORKED, "time")

    assert (0, 2) == (found.p50, found.p95)
    assert math.isclose(0.4533, found.mean or 0, abs_tol=5e-5)


def test_the_worked_example_by_busy_time() -> None:
    found = statistics(WORKED, "busy")

    assert (1, 2) == (found.p50, found.p90)
    assert math.isclose(1.36, found.mean or 0)


def test_the_worked_example_by_request() -> None:
    found = statistics(WORKED, "request")

    assert [(1, 240_000), (2, 72_000), (4, 96_000)] == weights(WORKED, "request")
    assert (1, 4) == (found.p50, found.p90)
    assert math.isclose(1.882, found.mean or 0, abs_tol=5e-4)


def test_the_order_in_which_levels_were_met_does_not_matter() -> None:
    assert distribution(WORKED, 900_000) == distribution(dict(reversed(WORKED.items())), 900_000)


def test_a_quantile_at_its_exact_edge_is_the_lower_level() -> None:
    assert 1 == quantile({1: 950, 7: 50}, "busy", 950)
    assert 7 == quantile({1: 949, 7: 51}, "busy", 950)


def test_huge_totals_keep_the_edge_exact() -> None:
    year_ms = 366 * 86_400_000 * 400
    assert 1 == quantile({1: 19 * year_ms, 2: year_ms}, "time", 950)
    assert 2 == quantile({1: 19 * year_ms - 1, 2: year_ms}, "time", 950)


@pytest.mark.parametrize("weighting", list(Weighting))
def test_without_weight_there_is_no_answer(weighting: str) -> None:
    assert quantile({}, weighting, 500) is None
    assert mean({}, weighting) is None
    assert Statistics() == statistics({}, weighting)


def test_an_idle_window_has_time_statistics_and_no_busy_ones() -> None:
    assert 0 == quantile({0: 5000}, "time", 990)
    assert Statistics() == statistics({0: 5000}, "busy")
    assert Statistics() == statistics({0: 5000}, "request")


def test_levels_without_a_millisecond_are_not_shown_and_are_no_maximum() -> None:
    found = distribution({1: 1000, 9: 0}, 1000)

    assert (LevelShare(1, 1.0, 1.0),) == found.occupancy
    assert 1 == found.time.max


def test_shares_are_of_the_observed_time() -> None:
    assert [0.25] == [level.ratio for level in distribution({3: 1000}, 4000).occupancy]


def test_an_unknown_weighting_is_refused() -> None:
    with pytest.raises(ValueError, match="no weighting"):
        quantile({1: 1}, "median", 500)


def test_a_quantile_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1000"):
        quantile({1: 1}, "time", 1001)


def test_the_range_cuts_at_most_a_fortieth_at_each_end() -> None:
    assert (1, 4, 1.0) == central_range(WORKED)
    assert (2, 4, 0.95) == central_range({1: 25, 2: 500, 4: 450, 9: 25})
    assert (1, 9, 1.0) == central_range({1: 26, 2: 498, 4: 450, 9: 26})


def test_the_range_of_one_level_is_that_level() -> None:
    assert (3, 3, 1.0) == central_range({0: 9000, 3: 1})


def test_an_idle_occupancy_has_no_range() -> None:
    assert central_range({0: 100}) is None


@given(occupancies, st.sampled_from(list(Weighting)), st.integers(0, 1000))
def test_a_quantile_is_the_first_level_that_has_enough_below_it(
    occupancy: dict[int, int], weighting: Weighting, per_mille: int
) -> None:
    found = quantile(occupancy, weighting, per_mille)
    pairs = weights(occupancy, weighting)
    total = sum(weight for _, weight in pairs)

    def enough(level: int) -> bool:
        return 1000 * sum(weight for other, weight in pairs if other <= level) >= per_mille * total

    if found is None:
        assert [] == pairs
    else:
        assert enough(found)
        assert not any(enough(level) for level, _ in pairs if level < found)


@given(occupancies)
def test_quantiles_never_fall_and_never_pass_the_maximum(occupancy: dict[int, int]) -> None:
    for weighting in Weighting:
        found = statistics(occupancy, weighting)
        if found.p50 is not None and found.p90 is not None and found.p95 is not None and found.p99 is not None:
            assert found.p50 <= found.p90 <= found.p95 <= found.p99 <= (found.max or 0)


@given(occupancies)
def test_the_range_holds_at_least_95_percent_of_busy_time(occupancy: dict[int, int]) -> None:
    found = central_range(occupancy)

    if found is None:
        assert 0 == busy_ms(occupancy)
    else:
        low, high, share = found
        assert low <= high
        assert 0.95 <= share <= 1
