from __future__ import annotations

import pytest

from opmon.core.answers import Knee
from opmon.core.cells import Cell
from opmon.core.knee import aggregate_curve, choose_column, interpolate, knee, lower_knee


def test_a_curve_that_still_rises_has_its_knee_above_the_largest_cell() -> None:
    assert Knee(64, "above") == knee([(1, 10), (8, 80), (64, 600)])


def test_a_curve_that_is_flat_from_the_start_has_its_knee_at_most_there() -> None:
    assert Knee(2, "at_most") == knee([(2, 100), (4, 105), (8, 101)])


def test_the_first_crossing_counts_where_the_curve_falls_again() -> None:
    found = knee([(1, 10), (4, 100), (8, 60), (16, 80)])

    assert found is not None
    assert ("exact", True) == (found.bound, 3 < found.value < 4)


def test_one_cell_has_no_knee() -> None:
    assert knee([(1, 10)]) is None
    assert knee([]) is None


def test_cells_with_failures_are_no_part_of_the_curve_and_repeats_are_their_median() -> None:
    cells = [
        Cell("a", concurrency=1, aggregate=10.0),
        Cell("a", concurrency=1, aggregate=30.0),
        Cell("a", concurrency=1, aggregate=20.0),
        Cell("a", concurrency=8, aggregate=999.0, failed_requests=1),
        Cell("a", concurrency=None, aggregate=999.0),
        Cell("a", concurrency=8),
    ]

    assert [(1, 20.0)] == aggregate_curve(cells)


def test_of_a_pair_the_smaller_knee_counts_and_an_unreached_one_is_the_larger() -> None:
    assert Knee(29.4, "exact") == lower_knee(Knee(8, "above"), Knee(29.4, "exact"))
    assert Knee(6, "exact") == lower_knee(None, Knee(6, "exact"))
    assert lower_knee(None, None) is None


def test_interpolation_is_straight_in_log_log() -> None:
    assert 20.0 == pytest.approx(interpolate(2, (1, 10), (4, 40)))


@pytest.mark.parametrize(
    ("p50", "p90", "limited", "pair_knee", "largest", "expected"),
    [
        (1, 4, 0.0, Knee(6.29, "exact"), 64, "per_stream"),
        (1, 4, 0.049, Knee(6.29, "exact"), 64, "per_stream"),
        (1, 4, 0.05, Knee(6.29, "exact"), 64, "aggregate"),
        (7, 9, None, Knee(6.29, "exact"), 64, "aggregate"),
        (2, 9, None, Knee(6.29, "exact"), 64, "both"),
        (2, 9, None, Knee(64, "above"), 64, "per_stream"),
        (2, 90, None, Knee(64, "above"), 64, "both"),
        (90, 95, None, Knee(64, "above"), 64, "both"),
        (1, 1, None, Knee(1, "at_most"), 64, "aggregate"),
        (1, 2, None, Knee(8, "at_most"), 64, "both"),
        (1, 4, None, None, None, "per_stream"),
        (1, 5, None, None, None, "both"),
    ],
)
def test_the_column_follows_from_occupancy_and_knee(
    p50: int, p90: int, limited: float | None, pair_knee: Knee | None, largest: float | None, expected: str
) -> None:
    column, reason = choose_column(p50, p90, limited, pair_knee, largest)

    assert expected == column
    assert reason


def test_without_a_knee_the_rule_of_thumb_is_called_one() -> None:
    assert "rule of thumb" in choose_column(1, 4, None, None, None)[1]
