from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.recommend.ratios import classify, combine, threshold

positive = st.floats(0.05, 20)
weighted_ratios = st.lists(st.tuples(positive, st.floats(0.01, 1e6)), min_size=1, max_size=8)


def test_without_repeats_the_threshold_is_8_5_percent_and_assumed() -> None:
    found = threshold([100.0], [150.0])

    assert (0.085, "assumed") == (round(found.delta, 3), found.source)


def test_three_repeats_measure_the_noise() -> None:
    quiet = threshold([100.0, 100.1, 100.2], [150.0, 150.1, 150.2])
    noisy = threshold([80.0, 100.0, 125.0], [120.0, 150.0, 187.5])

    assert (0.05, "repeats") == (quiet.delta, quiet.source)
    assert math.isclose(2 * math.sqrt(2 * math.log(1.25) ** 2 / 3), noisy.delta)


def test_repeats_on_one_side_only_are_said() -> None:
    assert "repeats and assumed" == threshold([100.0, 101.0, 99.0], [150.0]).source


def test_two_repeats_are_too_few_to_measure_noise_and_still_lower_it() -> None:
    assert round(2 * math.sqrt(0.03**2 / 2 + 0.03**2), 6) == round(threshold([1.0, 1.0], [1.0]).delta, 6)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.09, 2.0, "switch"),
        (1.085, 2.0, "undecided"),
        (0.5, 0.92, "stay"),
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
    edge = min(abs(x - y) for x in (low, high) for y in (1 + delta, 1 / (1 + delta)))
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
