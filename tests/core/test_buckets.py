from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.answers import Spread
from opmon.core.buckets import BucketQuantile, one_family, quantile, spread
from opmon.core.sums import BucketIncrease

INF = math.inf
BOUNDS = (1.0, 2.0, 4.0, INF)


def value(q: float, counts: tuple[float, ...], bounds: tuple[float, ...] = BOUNDS) -> float | None:
    found = quantile(bounds, counts, q)
    return found.value if found else None


def test_a_quantile_is_linear_within_its_bucket() -> None:
    assert 1.5 == value(0.5, (0, 10, 10, 10))
    assert 3.0 == value(0.75, (0, 5, 10, 10))


def test_the_first_bucket_begins_at_zero() -> None:
    assert 0.25 == value(0.25, (10, 10, 10, 10))


def test_a_first_bound_of_zero_or_less_is_the_answer_itself() -> None:
    assert -1.0 == value(0.5, (10, 10), (-1.0, INF))
    assert 0.0 == value(0.5, (10, 10), (0.0, INF))


def test_beyond_the_largest_bound_the_answer_says_above_it() -> None:
    assert BucketQuantile(4.0, above=True) == quantile(BOUNDS, (0, 0, 0, 7), 0.5)


def test_a_quantile_at_the_edge_of_a_bucket_is_its_bound() -> None:
    assert BucketQuantile(2.0) == quantile(BOUNDS, (0, 5, 10, 10), 0.5)


@pytest.mark.parametrize(
    ("bounds", "counts"),
    [(BOUNDS, (0, 0, 0, 0)), ((1.0, 2.0), (1, 2)), ((INF,), (5,)), ((), ())],
    ids=["no observation", "no +Inf bucket", "only +Inf", "nothing"],
)
def test_where_prometheus_says_nan_there_is_no_answer(bounds: tuple[float, ...], counts: tuple[float, ...]) -> None:
    assert quantile(bounds, counts, 0.5) is None


def test_counts_that_fall_are_lifted_to_the_bucket_before() -> None:
    assert value(0.9, (4, 10, 10, 10)) == value(0.9, (4, 10, 8, 10))


def test_a_quantile_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile(BOUNDS, (1, 1, 1, 1), 1.01)


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_never_fall(parts: list[int], one: float, other: float) -> None:
    counts = tuple(float(sum(parts[: index + 1])) for index in range(4))
    low, high = value(min(one, other), counts), value(max(one, other), counts)

    if low is None or high is None:
        assert 0 == counts[-1]
    else:
        assert low <= high + 1e-9
        assert 0 <= high <= 4


def test_the_mean_is_sum_by_count_and_the_rest_from_buckets() -> None:
    assert Spread(1.25, 1.5, 1.95) == spread(12.5, 10, [BucketIncrease(BOUNDS, [0, 10, 10, 10])])


def test_quantiles_in_the_last_bucket_are_named() -> None:
    assert Spread(None, 1.0, 4.0, ("p95",)) == spread(None, None, [BucketIncrease(BOUNDS, [5, 5, 5, 10])])


def test_without_observations_nothing_is_known() -> None:
    assert Spread() == spread(None, None, [])
    assert Spread() == spread(0.0, 0, [BucketIncrease(BOUNDS, [0, 0, 0, 0])])


def test_families_with_other_bounds_add_at_the_bounds_that_both_have() -> None:
    old = BucketIncrease((1.0, 2.0, 4.0, INF), [1, 2, 3, 4])
    new = BucketIncrease((1.0, 2.0, 4.0, 8.0, INF), [10, 20, 30, 40, 50])

    assert BucketIncrease((1.0, 2.0, 4.0, INF), [11, 22, 33, 54]) == one_family([old, new])


def test_families_that_share_too_few_bounds_leave_the_word_to_the_larger() -> None:
    few = BucketIncrease((1.0, 2.0, 4.0, INF), [1, 2, 3, 4])
    many = BucketIncrease((10.0, 20.0, 40.0, INF), [10, 20, 30, 40])

    assert many == one_family([few, many])
