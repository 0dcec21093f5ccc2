from __future__ import annotations

import math

import pytest

from opmon.core.answers import CurvePoint
from opmon.core.curve import aggregate_at, live_curve
from opmon.core.fold import fold
from opmon.core.model import View
from opmon.core.sums import CurveLevel, Sums
from tests.core.stage import Stage, rows_of, watch


def sums_with(**levels: tuple[int, float]) -> Sums:
    """`n4=(elapsed_ms, tokens)`; every level was observed for 100 s."""
    found = Sums()
    for name, (elapsed_ms, tokens) in levels.items():
        level = int(name[1:])
        found.curve[level] = CurveLevel(elapsed_ms, tokens)
        found.running[level] = 100_000
    return found


def test_a_level_shows_its_aggregate_its_share_and_how_much_of_its_time_was_used() -> None:
    sums = sums_with(n4=(50_000, 8000.0))
    sums.curve[4].first_tokens, sums.curve[4].itl_seconds = 400.0, 190.0

    assert (CurvePoint(4, 50.0, 0.5, 160.0, 40.0, 40.0),) == live_curve(sums)


def test_decode_speed_is_not_known_without_an_itl_sum() -> None:
    assert [None] == [one.decode_tokens_per_second for one in live_curve(sums_with(n4=(50_000, 8000.0)))]


def test_a_level_under_30_seconds_is_not_drawn() -> None:
    assert [2] == [one.level for one in live_curve(sums_with(n1=(29_999, 1.0), n2=(30_000, 1.0)))]


def test_idleness_is_no_point() -> None:
    assert () == live_curve(sums_with(n0=(90_000, 0.0)))


def test_elapsed_time_a_hair_above_the_strata_is_all_of_them() -> None:
    assert [1.0] == [one.used_ratio for one in live_curve(sums_with(n1=(100_300, 1.0)))]


def test_the_curve_of_a_played_server_is_its_true_speed() -> None:
    stage = Stage()
    rows = rows_of(watch([*stage.play(60, 1), *stage.play(60, 4), *stage.play(60)]))
    curve = live_curve(fold(rows, 0, 180_000, (), View("t"))[1])

    assert [1, 4] == [one.level for one in curve]
    for one in curve:
        assert math.isclose(10.0 * one.level, one.aggregate_tokens_per_second, rel_tol=0.05)
        assert math.isclose(10.0, one.share_tokens_per_second, rel_tol=0.05)


@pytest.mark.parametrize(
    ("level", "expected"),
    [(4, 160.0), (8, 240.0), (math.sqrt(32), math.sqrt(160 * 240)), (2, None), (9, None), (12, None)],
)
def test_the_aggregate_is_drawn_or_between_near_neighbours_or_not_known(level: float, expected: float | None) -> None:
    curve = live_curve(sums_with(n4=(100_000, 16_000.0), n8=(100_000, 24_000.0), n32=(100_000, 30_000.0)))
    found = aggregate_at(curve, level)

    if expected is None:
        assert found is None
    else:
        assert math.isclose(expected, found or 0)
