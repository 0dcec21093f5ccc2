from __future__ import annotations

import pytest

from opmon.core.answers import ContentAnswer, Recommendation
from opmon.core.cells import Cell, Sweep
from opmon.core.recommend import recommend
from tests.core.drafters import ask, live, sweep_of

AT_ONE_AND_FOUR = {1: 500, 4: 500}


def row(configuration: str, level: int, aggregate: float, **known: object) -> Cell:
    """A cell with one stream's share of the aggregate, so that nothing in it is odd."""
    said = {"per_stream": aggregate / level, "source_file": "made.csv", **known}
    return Cell(configuration, content="code", concurrency=level, aggregate=aggregate, **said)  # type: ignore[arg-type]


def seven_percent() -> tuple[Cell, ...]:
    return row("a", 1, 100.0), row("b", 1, 107.0), row("a", 4, 300.0), row("b", 4, 321.0)


def judged(*cells: Cell, occupancy: dict[int, int] | None = None) -> Recommendation:
    sweep: Sweep = sweep_of(*cells)
    return recommend(sweep, live(occupancy or AT_ONE_AND_FOUR), ask(content="code", live_is="reference"))


def codes(answer: Recommendation) -> set[str]:
    return {warning.code for warning in answer.warnings}


def only(answer: Recommendation) -> ContentAnswer:
    (one,) = answer.contents
    return one


def test_rows_pasted_twice_buy_no_certainty() -> None:
    once, twice = judged(*seven_percent()), judged(*seven_percent(), *seven_percent())

    assert ("no_difference", 0.085, "assumed") == (
        once.verdict,
        round(only(once).threshold_ratio, 3),
        only(once).threshold_source,
    )
    assert only(once) == only(twice)
    assert {"duplicate_rows"} == codes(twice) - codes(once)


def test_repeats_that_are_repeats_lower_the_threshold_and_are_no_duplicates() -> None:
    again = (row("a", 1, 100.1), row("b", 1, 107.1), row("a", 4, 300.1), row("b", 4, 321.1))
    answer = judged(*seven_percent(), *again)

    assert ("switch", 0.06) == (answer.verdict, round(only(answer).threshold_ratio, 3))
    assert "duplicate_rows" not in codes(answer)


@pytest.mark.parametrize("candidate", [140.0, 290.0, 90.0, 152.0])
def test_a_cell_whose_repeats_differ_by_more_than_the_ratio_decides_nothing(candidate: float) -> None:
    scattered = (row("a", 1, 100.0), row("a", 1, 200.0), row("b", 1, candidate))
    answer = judged(*scattered, occupancy={1: 1000})
    one = only(answer)

    assert "undecided" == answer.verdict
    assert "scatter" in codes(answer)
    assert (candidate / 200, candidate / 150, candidate / 100) == pytest.approx(
        (one.columns.aggregate.low, one.columns.aggregate.ratio_weighted, one.columns.aggregate.high)
    )
    assert [0.0, 0.0] == [one.columns.per_stream.evidence_ratio, one.columns.aggregate.evidence_ratio]
    assert any("measure again" in reason for reason in one.reasons)


def test_three_repeats_that_scatter_decide_nothing_either() -> None:
    many = [row("a", 1, speed) for speed in (100.0, 101.0, 220.0)] + [row("b", 1, speed) for speed in (150.0, 151.0)]

    assert "undecided" == judged(*many, occupancy={1: 1000}).verdict


def test_repeats_that_scatter_less_than_the_ratio_still_decide() -> None:
    clear = (row("a", 1, 100.0), row("a", 1, 110.0), row("b", 1, 400.0), row("b", 1, 401.0))
    answer = judged(*clear, occupancy={1: 1000})

    assert "switch" == answer.verdict
    assert "scatter" in codes(answer)


@pytest.mark.parametrize("other", [12.0, 120.0 / 3.1])
def test_columns_that_cannot_both_be_are_flagged_and_no_evidence(other: float) -> None:
    cells = (row("a", 1, 120.0, per_stream=other), row("b", 1, 360.0, per_stream=3 * other))
    answer = judged(*cells, occupancy={1: 1000})
    columns = only(answer).columns

    assert "undecided" == answer.verdict
    assert "columns_impossible" in codes(answer)
    assert [0.0, 0.0] == [columns.per_stream.evidence_ratio, columns.aggregate.evidence_ratio]
    assert [None, None] == [columns.per_stream.ratio_weighted, columns.aggregate.ratio_weighted]
    assert [3.0, 3.0] == pytest.approx([columns.per_stream.ratio_at_cell, columns.aggregate.ratio_at_cell])


def test_an_aggregate_that_medians_explain_is_possible() -> None:
    answer = judged(row("a", 1, 120.0, per_stream=60.0), row("b", 1, 360.0, per_stream=180.0), occupancy={1: 1000})

    assert ("switch", False) == (answer.verdict, "columns_impossible" in codes(answer))


def test_an_impossible_cell_elsewhere_leaves_the_others_their_evidence() -> None:
    cells = (*(row("a", n, 100.0 * n) for n in (1, 2)), *(row("b", n, 200.0 * n) for n in (1, 2)))
    odd = (row("a", 8, 800.0, per_stream=1.0), row("b", 8, 1600.0, per_stream=2.0))
    answer = judged(*cells, *odd, occupancy={1: 900, 8: 20})

    assert ("switch", True) == (answer.verdict, "columns_impossible" in codes(answer))
    assert 0.8 < only(answer).columns.per_stream.evidence_ratio < 1
