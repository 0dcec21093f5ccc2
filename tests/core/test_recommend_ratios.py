from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.cells import Cell
from opmon.core.pairs import Pair, Side
from opmon.core.recommend.ratios import ASSUMED_THRESHOLD, classify, combine, edge_of, threshold, threshold_of

positive = st.floats(0.05, 20)
weighted_ratios = st.lists(st.tuples(positive, st.floats(0.01, 1e6)), min_size=1, max_size=8)


def test_without_repeats_the_threshold_is_8_5_percent_and_assumed() -> None:
    found = threshold([100.0], [150.0])

    assert (0.085, "assumed") == (round(found.delta, 3), found.source)


def test_repeats_find_the_noise_large_and_never_small() -> None:
    quiet = threshold([100.0, 100.1, 100.2], [150.0, 150.1, 150.2])
    noisy = threshold([80.0, 100.0, 125.0], [120.0, 150.0, 187.5])
    median_of_three = math.pi / (4 + math.pi)

    assert ("repeats", "repeats") == (quiet.source, noisy.source)
    assert math.isclose(2 * math.sqrt(2 * 0.03**2 * median_of_three), quiet.delta)
    assert math.isclose(2 * math.sqrt(2 * math.log(1.25) ** 2 * median_of_three), noisy.delta)


def test_five_quiet_repeats_find_5_percent_and_no_number_of_them_less() -> None:
    assert [0.05, 0.05] == [threshold([100.0] * n, [100.0] * n).delta for n in (5, 50)]


def pair(level: float, reference: list[float], candidate: list[float]) -> Pair:
    sides = [
        Side(tuple(Cell(name, concurrency=level, aggregate=speed) for speed in speeds))
        for name, speeds in (("old", reference), ("new", candidate))
    ]
    return Pair("code", level, sides[0], sides[1], is_ramp=False)


def test_a_threshold_over_levels_is_that_of_the_levels_by_their_weight() -> None:
    pairs = [pair(1, [100.0] * 3, [100.0] * 3), pair(8, [700.0], [700.0])]
    three, one = threshold([1.0] * 3, [1.0] * 3).delta, threshold([1.0], [1.0]).delta

    found = threshold_of(pairs, "aggregate", {1: 30.0, 6: 10.0})
    near_the_first = threshold_of(pairs, "aggregate", {2: 5.0})

    assert math.isclose(0.75 * three + 0.25 * one, found.delta)
    assert math.isclose(three, near_the_first.delta)
    assert ("repeats and assumed", "repeats") == (found.source, near_the_first.source)


def test_noise_where_no_request_runs_is_no_noise() -> None:
    pairs = [pair(1, [100.0], [100.0]), pair(64, [500.0, 900.0], [500.0, 900.0])]

    assert pytest.approx(0.085, abs=0.0005) == threshold_of(pairs, "aggregate", {1: 1.0}).delta
    assert threshold_of(pairs, "aggregate", {64: 1.0}).delta > 1
    assert ASSUMED_THRESHOLD == threshold_of(pairs, "per_stream", {64: 1.0})


def test_repeats_on_one_side_only_are_said() -> None:
    assert "repeats and assumed" == threshold([100.0, 101.0, 99.0], [150.0]).source


def test_two_repeats_are_too_few_to_measure_noise_and_still_lower_it() -> None:
    assert round(2 * math.sqrt(0.03**2 / 2 + 0.03**2), 6) == round(threshold([1.0, 1.0], [1.0]).delta, 6)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.09, 2.0, "switch"),
        (1.088, 2.0, "undecided"),
        (0.5, 0.918, "stay"),
        (0.5, 0.92, "undecided"),
        (0.5, 0.93, "undecided"),
        (0.93, 1.08, "no_difference"),
        (0.9, 1.2, "undecided"),
        (0.93, 1.2, "undecided"),
    ],
)
def test_the_class_of_an_interval(low: float, high: float, expected: str) -> None:
    assert expected == classify(low, high, 0.085)


@given(weighted_ratios)
def test_the_harmonic_mean_is_never_above_the_arithmetic(pairs: list[tuple[float, float]]) -> None:
    ratios, weights = zip(*pairs, strict=True)

    assert combine(ratios, weights, "reference") <= combine(ratios, weights, "candidate") * (1 + 1e-9)


@given(weighted_ratios)
def test_the_way_back_is_the_inverse_of_the_way_there(pairs: list[tuple[float, float]]) -> None:
    ratios, weights = zip(*pairs, strict=True)
    inverse = [1 / ratio for ratio in ratios]

    assert math.isclose(combine(ratios, weights, "reference"), 1 / combine(inverse, weights, "candidate"), rel_tol=1e-9)


@given(positive, positive, st.floats(0.05, 0.5))
def test_swapping_the_sides_swaps_switch_and_stay(one: float, other: float, delta: float) -> None:
    low, high = sorted((one, other))
    swapped = {"switch": "stay", "stay": "switch"}
    edge = min(abs(x - y) for x in (low, high) for y in (edge_of(delta), 1 / edge_of(delta)))
    if edge > 1e-9:  # on the limit itself rounding decides
        found = classify(low, high, delta)
        assert swapped.get(found, found) == classify(1 / high, 1 / low, delta)


def test_two_repeats_far_apart_raise_the_threshold_by_what_they_show() -> None:
    found = threshold([100.0, 200.0], [150.0])

    assert math.isclose(2 * math.sqrt(math.log(2) ** 2 / 2 + 0.03**2), found.delta)
    assert "repeats and assumed" == found.source


@given(positive, positive, positive)
def test_two_repeats_never_lower_the_threshold_below_what_lies_between_them(
    one: float, two: float, other: float
) -> None:
    assert threshold([one, two], [other]).delta >= abs(math.log(one / two))


def test_the_limit_of_noise_is_a_distance_of_logarithms_but_for_the_least() -> None:
    assert [1.05, pytest.approx(1.0886, abs=5e-5)] == [edge_of(delta) for delta in (0.05, ASSUMED_THRESHOLD.delta)]
