from __future__ import annotations

from typing import Any

import pytest

from opmon.core.cells import Cell
from opmon.core.recommend import choose_configurations, recommend
from opmon.errors import SweepError
from tests.core.drafters import ask, example, live, sweep_of


def first(**said: Any) -> str:
    """What an answer about the example sweep says first."""
    return example(**said).reasons[0]


def test_contents_that_miss_the_same_thing_are_named_in_one_sentence_with_what_to_measure() -> None:
    expected = (
        "undecided for code and prose: the prompt is 8,112 tokens and the cells have 33; measure concurrency 1 at your"
        " length"
    )

    assert expected == first(prompt_tokens=8112)


def test_contents_that_miss_different_things_are_named_each() -> None:
    cells = [
        Cell(
            configuration,
            content=content,
            concurrency=1,
            prompt_tokens=tokens,
            per_stream=100.0,
            aggregate=100.0,
            source_file="f",
        )
        for content, tokens in (("code", 33), ("prose", 500))
        for configuration in ("old", "new")
    ]
    answer = recommend(sweep_of(*cells), live({1: 1}), ask(prompt_tokens=8112))

    assert ["undecided", "undecided"] == [one.verdict for one in answer.contents]
    assert (
        "undecided for code: the prompt is 8,112 tokens and the cells have 33; measure concurrency 1 at your length; for"
        " prose: the prompt is 8,112 tokens and the cells have 500; measure concurrency 1 at your length"
    ) == answer.reasons[0]


@pytest.mark.parametrize("content", ["prose", "code=0.3,prose=0.7"])
def test_a_proxy_is_answered_with_what_was_not_measured(content: str) -> None:
    expected = "undecided for prose: the per-stream speed was not measured at concurrency 1; measure it there for both"

    assert first(content=content).startswith(expected)


def test_contents_that_differ_are_told_so_first() -> None:
    assert first().startswith("content_unknown")


def test_contents_that_decide_alike_say_so_by_name() -> None:
    cells = [
        Cell(configuration, content=content, concurrency=1, per_stream=speed, aggregate=speed, source_file="f")
        for content in ("code", "prose")
        for configuration, speed in (("old", 100.0), ("new", 150.0))
    ]
    answer = recommend(sweep_of(*cells), live({1: 1000}), ask(live_is="reference"))

    assert ("switch", "switch for code and prose alike") == (answer.verdict, answer.reasons[0])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("poem", "content 'poem' is not in the sweep, which has 'code', 'prose'; measure it, or ask for one of these"),
        ("prse", "content 'prse' is not in the sweep, which has 'code', 'prose'; did you mean 'prose'?"),
    ],
)
def test_a_content_that_is_not_in_the_sweep_is_said_first(said: str, expected: str) -> None:
    answer = example(content=said, prompt_tokens=8112)

    assert ("undecided", expected) == (answer.verdict, answer.reasons[0])


def test_a_part_of_a_mix_that_is_not_in_the_sweep_is_said_first() -> None:
    found = first(content="code=0.5,poem=0.5")

    assert found.startswith("50 % of the output tokens have no fair pair: content 'poem' is not in the sweep")


@pytest.mark.parametrize(("said", "own"), [("CODE", "code"), ("Code=0.3,PROSE=0.7", "code=0.3,prose=0.7")])
def test_a_content_is_found_in_upper_and_lower_case(said: str, own: str) -> None:
    assert example(content=own) == example(content=said)


def test_contents_that_differ_in_case_only_are_not_mistaken_for_each_other() -> None:
    cells = [
        Cell(configuration, content=content, concurrency=1, per_stream=speed, aggregate=speed, source_file="f")
        for content, speed in (("code", 100.0), ("Code", 300.0))
        for configuration in ("old", "new")
    ]
    sweep = sweep_of(*cells)
    answers = [recommend(sweep, live({1: 1}), ask(content=said)) for said in ("code", "Code", "CODE")]

    assert [["code"], ["Code"], ["code", "Code"]] == [[one.content for one in answer.contents] for answer in answers]
    assert "'CODE' is not in the sweep" in answers[2].reasons[0]


@pytest.mark.parametrize("named", [(None, None), ("only", None), (None, "only"), ("only", "only")])
def test_a_sweep_of_one_configuration_is_told_that_it_needs_a_second(named: tuple[str | None, str | None]) -> None:
    sweep = sweep_of(Cell("only", content="code", concurrency=1, aggregate=1.0))

    with pytest.raises(SweepError, match=r"one configuration \('only'\).*measure a second configuration"):
        choose_configurations(sweep, *named)


def test_an_interval_across_the_noise_names_the_level_that_blurs_it() -> None:
    cells = [
        Cell(
            configuration, content="code", concurrency=level, per_stream=speed, aggregate=speed * level, source_file="f"
        )
        for configuration, level, speed in (("old", 1, 100.0), ("new", 1, 110.0), ("old", 8, 90.0), ("new", 8, 70.0))
    ]
    answer = recommend(sweep_of(*cells), live({1: 500, 4: 300}), ask(content="code", live_is="reference"))

    assert answer.reasons[0].startswith("undecided for code: the per-stream speed lies between ")
    assert answer.reasons[0].endswith("across the noise limit; measure concurrency 4")
