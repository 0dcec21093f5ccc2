"""The live curve beside a sweep: whether the sweep describes the server, and where to look where it does not."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.answers import CurvePoint
from opmon.core.beside import LevelBeside
from opmon.core.cells import Cell
from opmon.core.recommend import recommend
from opmon.core.recommend.live_curve import beside, nearest_lengths
from opmon.core.recommend.look_first import Known, infer_content, look_first
from tests.core.drafters import ask, live, sweep_of


def cell(configuration: str = "old", level: float = 1, aggregate: float = 100.0, **known: Any) -> Cell:
    said = {"content": "code", "prompt_tokens": 512, "output_tokens": 256, "source_file": "made.csv", **known}
    return Cell(configuration, concurrency=level, aggregate=aggregate, **said)


def seen(level: int, speed: float, seconds: float = 600.0) -> CurvePoint:
    return CurvePoint(level, seconds, 0.9, speed, speed / level, None)


def only(curve: list[CurvePoint], *cells: Cell) -> LevelBeside:
    (one,) = beside(curve, cells)
    return one


def test_a_level_says_by_how_much_it_differs() -> None:
    found = beside(
        [seen(1, 110.0), seen(4, 200.0), seen(8, 700.0)], [cell(level=n, aggregate=100.0 * n) for n in (1, 4, 8)]
    )

    assert [("agrees (10 % faster live)", True), ("50 % slower live", False), ("agrees (12 % slower live)", True)] == [
        (one.words.split(":")[0], one.agrees) for one in found
    ]


def test_a_level_under_30_seconds_is_too_little_data_and_no_difference() -> None:
    short, never = only([seen(1, 300.0, 29.9)], cell()), only([], cell())

    assert (None, None, None) == (short.live_tokens_per_second, short.difference_ratio, short.agrees)
    assert "too little data: 29 s of pure pairs at this level, and 30 s are needed" == short.words
    assert "too little data: 0 s of pure pairs at this level, and 30 s are needed" == never.words


def test_prefill_is_taken_out_of_the_sweeps_aggregate() -> None:
    one = only([seen(1, 110.0)], cell(ttft=0.25, e2e=2.5))

    assert 100.0 == one.cell_aggregate_tokens_per_second
    assert pytest.approx(111.1, abs=0.1) == one.cell_decode_tokens_per_second
    assert "agrees (1 % slower live)" == one.words


def test_a_request_that_is_mostly_prefill_says_nothing_of_decode() -> None:
    one = only([seen(1, 300.0)], cell(ttft=6.0, tpot=0.02, output_tokens=101))

    assert (None, "prefill takes 75 % of a request in the cell, so it says little of decode") == (one.agrees, one.words)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"flags": ("ramp",)}, "the cell's aggregate is ramp and drain"),
        ({"failed_requests": 3}, "requests failed in the cell"),
    ],
)
def test_a_cell_that_is_no_evidence_is_not_compared(known: dict[str, Any], words: str) -> None:
    one = only([seen(1, 300.0)], cell(**known))

    assert (None, words) == (one.agrees, one.words)


def test_repeats_count_by_their_median() -> None:
    assert (
        100.0 == only([], *(cell(aggregate=speed) for speed in (90.0, 100.0, 160.0))).cell_aggregate_tokens_per_second
    )


def test_of_several_lengths_the_nearest_to_the_live_ones_are_compared() -> None:
    long, short = cell(prompt_tokens=8000), cell(prompt_tokens=500)

    assert [long] == nearest_lengths([short, long], 6000, None)


# --- where to look first ------------------------------------------------------------------------------------------


def axes(known: Known, *cells: Cell) -> list[str]:
    return [one.axis for one in look_first(known, cells, None)]


def test_lengths_come_first_the_farther_one_before_the_other() -> None:
    assert ["output_tokens", "prompt_tokens", "content", "configuration"] == axes(
        Known(1024, 2048, 2.0), cell(acceptance_length=3.0)
    )


def test_content_comes_first_where_lengths_agree() -> None:
    found = look_first(Known(512, 256, 2.1), [cell(acceptance_length=4.2)], 64)

    assert ["content", "configuration"] == [one.axis for one in found]
    assert 1.0 == found[0].octaves
    assert "2.10 tokens a step live and 4.20 in the cell" in found[0].words
    assert found[1].words.endswith("weights, version, options; its ceiling is 64")


def test_the_configuration_comes_first_where_all_else_is_known_and_agrees() -> None:
    (one,) = look_first(Known(512, 256, 3.0), [cell(acceptance_length=3.1)], None)

    assert "lengths and acceptance agree, so check that old is what runs: weights, version, options" == one.words


def test_what_is_not_known_is_said_before_the_configuration() -> None:
    assert ["prompt_tokens", "content", "configuration"] == axes(Known(None, 256, None), cell())


# --- within a recommendation --------------------------------------------------------------------------------------


def compared(curve: tuple[CurvePoint, ...], **said: Any) -> Any:
    cells = [cell(name, n, base * n) for name, base in (("old", 100.0), ("new", 150.0)) for n in (1, 2, 4)]
    point = replace(live(), curve=curve, prompt_tokens=1100, output_tokens=256, acceptance_length=2.0)
    answer = recommend(sweep_of(*cells), point, ask(content="code", prompt_tokens=900, **said))
    return answer.contents[0]


def test_a_sweep_that_does_not_describe_the_server_says_where_to_look() -> None:
    one = compared((seen(1, 60.0),), live_is="reference")

    assert "undecided" == one.verdict
    assert ["prompt_tokens", "content", "configuration"] == [axis.axis for axis in one.look_first]
    assert any(
        "at 1 the live server makes 60 tok/s and the sweep's reference 100; look first at the prompts: the prompt is 900"
        in reason
        for reason in one.reasons
    )


def test_a_difference_beside_the_cell_is_shown_and_caps_nothing() -> None:
    one = compared((seen(1, 100.0), seen(4, 250.0)), live_is="reference")

    assert [True, None, False] == [level.agrees for level in one.live_curve]
    assert one.look_first
    assert not any("does not describe" in reason for reason in one.reasons)


def test_both_configurations_are_shown_where_it_is_not_known_which_runs() -> None:
    one = compared((seen(1, 60.0),))

    assert [("new", -0.6), ("old", -0.4)] == [
        (level.configuration, round(level.difference_ratio, 3)) for level in one.live_curve if level.concurrency == 1
    ]
    assert () == one.look_first


# --- content from the acceptance length ---------------------------------------------------------------------------

DRAFTED = [cell("old", content="code", acceptance_length=4.6), cell("old", content="prose", acceptance_length=2.1)]


def test_a_live_acceptance_length_near_a_content_is_that_content() -> None:
    found = infer_content(2.15, DRAFTED, "old")

    assert found is not None
    assert ("prose", {"prose": 1.0}) == (found.nearest, found.shares)
    assert "inferred from 2.15 tokens a step, within old: prose (code 4.60, prose 2.10)" == found.words


@given(st.floats(0.1, 0.9))
def test_a_mix_of_two_contents_is_found_again(share: float) -> None:
    found = infer_content(1 / (share / 4.6 + (1 - share) / 2.1), DRAFTED, "old")

    assert found is not None
    assert found.shares is not None
    assert math.isclose(share, found.shares.get("code", 0.0), abs_tol=0.1)


def test_contents_that_are_drafted_alike_are_not_told_apart() -> None:
    found = infer_content(3.0, [cell(content=name, acceptance_length=a) for name, a in (("x", 3.0), ("y", 3.2))], "old")

    assert found is not None
    assert (None, None) == (found.nearest, found.shares)


def test_an_acceptance_length_that_no_mix_gives_is_no_content() -> None:
    found = infer_content(6.0, DRAFTED, "old")

    assert found is not None
    assert (None, None) == (found.nearest, found.shares)


def test_of_three_contents_no_mix_is_told() -> None:
    found = infer_content(3.0, [*DRAFTED, cell("old", content="sql", acceptance_length=7.0)], "old")

    assert found is not None
    assert ("prose", None) == (found.nearest, found.shares)


@pytest.mark.parametrize(("acceptance", "configuration"), [(None, "old"), (3.0, "new")])
def test_nothing_is_inferred_without_speculation_or_across_configurations(
    acceptance: float | None, configuration: str
) -> None:
    assert infer_content(acceptance, DRAFTED, configuration) is None


def test_an_inferred_content_changes_no_verdict() -> None:
    cells = [
        cell(name, n, base * n, content=content, acceptance_length=a)
        for name, base in (("old", 100.0), ("new", 150.0))
        for n in (1, 2, 4)
        for content, a in (("code", 4.6), ("prose", 2.1))
    ]
    point = replace(live(), prompt_tokens=512, output_tokens=256)
    plain = recommend(sweep_of(*cells), point, ask(live_is="reference"))
    inferring = recommend(sweep_of(*cells), replace(point, acceptance_length=2.1), ask(live_is="reference"))

    assert inferring.inferred_content is not None
    assert "prose" == inferring.inferred_content.nearest
    assert plain == replace(inferring, inferred_content=None)
