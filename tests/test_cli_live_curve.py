"""How a terminal and an issue show the live curve beside the sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opmon.cli.recommend_text import render_recommendation
from opmon.core.answers import CurvePoint, Recommendation
from opmon.core.cells import Cell
from opmon.core.recommend import recommend
from tests.core.drafters import ask, live, sweep_of


def answer(*curve: CurvePoint) -> Recommendation:
    cells = [
        Cell(name, content=content, concurrency=n, aggregate=base * n, acceptance_length=length, source_file="made.csv")
        for name, base in (("old", 100.0), ("new", 150.0))
        for n in (1, 2, 4)
        for content, length in (("code", 4.6), ("prose", 2.1))
    ]
    point = replace(live(), curve=curve, acceptance_length=2.1)
    return recommend(sweep_of(*cells), point, ask(content="code", live_is="reference"))


SLOW = (CurvePoint(1, 600.0, 0.9, 60.0, 60.0, None), CurvePoint(2, 12.0, 0.9, 190.0, 95.0, None))


@pytest.mark.parametrize("markdown", [False, True])
def test_both_curves_stand_side_by_side_with_their_difference_and_where_to_look(markdown: bool) -> None:
    text = " ".join(render_recommendation(answer(*SLOW), markdown).replace("|", " ").split())

    assert "old 1 60.0 100.0 100.0 40 % slower live: the sweep does not describe this workload here" in text
    assert "old 2 - 200.0 200.0 too little data: 12 s of pure pairs at this level, and 30 s are needed" in text
    assert "the prompt length of the cell is not known" in text
    order = [
        text.rindex(words)
        for words in ("Where they differ, look", "2.10 tokens a step live and 4.60", "check that old")
    ]
    assert sorted(order) == order


def test_an_inferred_content_is_said_to_decide_nothing() -> None:
    text = " ".join(render_recommendation(answer()).split())

    assert "within old: prose (code 4.60, prose 2.10); a reading, which decides nothing" in text


def test_a_curve_of_which_nothing_was_seen_is_not_printed() -> None:
    assert "own decode beside the sweep" not in render_recommendation(answer())
