"""Medians, aggregates and ratios of a probe, from exchanges that are written down."""

from __future__ import annotations

import pytest

from opmon.core.probed import Exchange, PathAnswer, Tried, is_complete, path_answers


def one(began: float, ttft: float, last: float, output: int | None = 101, prompt: int | None = 10) -> Exchange:
    return Exchange(began, began + last, ttft, last, pieces=50, prompt_tokens=prompt, output_tokens=output)


FAILED = Exchange(0.0, 9.0, failure="HTTP 503: busy")


def tried(name: str, *rounds: tuple[Exchange, ...]) -> Tried:
    return Tried(name, f"http://{name}", "tiny", list(rounds))


def beside(direct: Tried, other: Tried) -> PathAnswer:
    return path_answers([direct, other])[1]


DIRECT = tried("direct", (one(0, 0.5, 2.5), one(0, 0.7, 2.7)), (one(10, 0.6, 2.6), one(10.5, 0.6, 2.6)))


def test_figures_are_medians_over_requests_and_the_aggregate_is_sum_over_sum_of_rounds() -> None:
    (found,) = path_answers([DIRECT])
    assert (4, 0, 101, 10) == (found.requests, found.failed_requests, found.output_tokens, found.prompt_tokens)
    assert found.ttft_seconds == pytest.approx(0.6)
    assert found.e2e_seconds == pytest.approx(2.6)
    assert found.decode_tokens_per_second == pytest.approx(50.0)
    assert found.per_stream_tokens_per_second == pytest.approx(101 / 2.6)
    assert found.aggregate_tokens_per_second == pytest.approx(404 / (2.7 + 3.1))


def test_a_round_with_a_failure_is_in_no_aggregate_and_the_good_requests_of_it_count() -> None:
    (found,) = path_answers([tried("direct", (one(0, 0.5, 2.5), FAILED), (one(10, 0.5, 2.5), one(10, 0.5, 2.5)))])
    assert (3, 1, ("HTTP 503: busy",)) == (found.requests, found.failed_requests, found.failures)
    assert found.aggregate_tokens_per_second == pytest.approx(202 / 2.5)


def test_reasons_are_counted_and_only_the_most_frequent_are_told() -> None:
    rounds = [(Exchange(0, 1, failure=words),) for words in ("a", "b", "b", "c", "d", "e")]
    (found,) = path_answers([tried("direct", *rounds)])
    assert ("b (2 times)", "a", "c", "and 2 other reasons") == found.failures


def test_ratios_are_path_over_direct_and_prepended_tokens_the_difference_of_usage() -> None:
    found = beside(DIRECT, tried("gateway", (one(0, 1.2, 5.2, prompt=410), one(0, 1.2, 5.2, prompt=410))))
    assert found.to_direct is not None
    assert found.to_direct.ttft_ratio == pytest.approx(2.0)
    assert found.to_direct.decode_ratio == pytest.approx(0.5)
    assert found.to_direct.per_stream_ratio == pytest.approx(0.5)
    assert 400 == found.prepended_tokens
    assert "gateway runs at 0.50 of direct: ask first how many tokens it prepends; by its own usage 400" == found.asks
    assert () == found.notes


def test_without_usage_nothing_is_invented() -> None:
    found = beside(DIRECT, tried("gateway", (one(0, 1.2, 5.2, output=None, prompt=None),)))
    assert (None, None, None, None, None) == (
        found.output_tokens,
        found.per_stream_tokens_per_second,
        found.aggregate_tokens_per_second,
        found.prepended_tokens,
        found.asks,
    )
    assert ("no usage in its answers: tokens are not known, and so no speed",) == found.notes
    assert found.ttft_seconds == pytest.approx(1.2)


def test_speeds_that_reach_into_each_other_are_said_to_be_perhaps_chance() -> None:
    near = tried("same", (one(0, 0.5, 2.6), one(0, 0.5, 3.4)))
    assert any("may be chance; more --requests tell" in note for note in beside(DIRECT, near).notes)
    equal = tried("same", (one(0, 0.5, 2.6), one(0, 0.5, 2.6)))
    assert () == beside(DIRECT, equal).notes


def test_outputs_of_another_length_are_said() -> None:
    found = beside(DIRECT, tried("gateway", (one(0, 0.5, 1.0, output=30),)))
    assert any("puts out 30 tokens, direct 101" in note for note in found.notes)


def test_tokens_without_text_have_no_ttft_and_are_told_apart_from_what_is_not_streamed() -> None:
    (silent,) = path_answers([tried("direct", (Exchange(0, 1, None, 1.0, 0, 5, 2),))])
    assert ("answers whose tokens have no text: their TTFT is not known",) == silent.notes
    (whole,) = path_answers([tried("direct", (Exchange(0, 1, None, 1.0, 1, 5, 2),))])
    assert ("answers that were not streamed: their TTFT is not known",) == whole.notes


def test_a_probe_is_whole_where_every_path_answered_everything() -> None:
    answers = path_answers([DIRECT, tried("gateway", (one(0, 1, 2),) * 4)])
    assert is_complete(answers, 4)
    assert not is_complete(answers, 5)
    assert not is_complete(path_answers([DIRECT, tried("gateway", (one(0, 1, 2),) * 4, (FAILED,))]), 4)
