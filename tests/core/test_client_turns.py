"""What a client costs beside asking directly, from sums of reported turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opmon.core.answers import Selector, Window
from opmon.core.client_turns import (
    ClientAnswer,
    ClientTurn,
    TurnSums,
    TurnTimes,
    check_turn,
    client_turns,
    microseconds,
    prompt_class,
    turn_times,
)
from opmon.errors import ConfigError

WINDOW = Window(0.0, 100.0, 100.0, 100.0)
TURN = ClientTurn("gpu", "qwen", "editor", 2.0, 8.0, 500, 8_112, 20, 5_000)


def sums(
    client: str, ttft: float, decode: float, *, output: int = 500, prompt: int, typed: int | None = None
) -> TurnSums:
    """Two equal turns."""
    is_whole = decode == 0 and output > 1
    return TurnSums(
        "gpu",
        "qwen",
        client,
        turns=2,
        ttft_us=2 * microseconds(ttft),
        decode_us=2 * microseconds(decode),
        output_tokens=2 * output,
        prompt_tokens=2 * prompt,
        typed_turns=0 if typed is None else 2,
        typed_tokens=2 * (typed or 0),
        typed_prompt_tokens=0 if typed is None else 2 * prompt,
        whole_turns=2 if is_whole else 0,
        split_ttft_us=0 if is_whole else 2 * microseconds(ttft),
        first_ms=1_000,
        last_ms=9_000,
    )


def of(client: str, *parts: TurnSums) -> ClientAnswer:
    """The answer for one client."""
    answer = client_turns(parts, WINDOW, Selector())
    return next(one for one in answer.clients if one.client == client)


EDITOR = sums("editor", 6.0, 14.0, prompt=8_112, typed=20)
DIRECT_FULL = sums("direct", 5.0, 5.0, prompt=8_100)
DIRECT_TYPED = sums("direct", 0.1, 4.9, prompt=45)


def test_prefix_cost_times_client_tax_is_the_client_beside_asking_directly() -> None:
    found = of("editor", EDITOR, DIRECT_FULL, DIRECT_TYPED)
    assert (25.0, 0.5, 0.5, 0.25) == (
        found.tokens_per_second,
        found.prefix_cost_ratio,
        found.client_tax_ratio,
        found.direct_ratio,
    )
    assert (4, ()) == (found.direct_turns, found.details)


def test_under_four_fifths_it_asks_for_the_prepended_tokens_and_says_them_where_they_are_known() -> None:
    found = of("editor", EDITOR, DIRECT_FULL, DIRECT_TYPED)
    assert 8_092 == found.prepended_tokens
    assert found.asks is not None
    assert "at 0.25 of the speed" in found.asks
    assert "how many tokens the client prepends" in found.asks
    assert "8,092 of the 8,112 prompt tokens" in found.asks


def test_a_client_that_is_not_slower_is_asked_nothing() -> None:
    found = of("editor", sums("editor", 0.1, 5.0, prompt=60, typed=20), DIRECT_TYPED)
    assert found.direct_ratio == pytest.approx(0.98, abs=0.01)
    assert (1.0, 2, None) == (found.prefix_cost_ratio, found.direct_turns, found.asks)


def test_without_typed_tokens_shorter_direct_turns_stand_for_the_typed_text_and_that_is_said() -> None:
    found = of("editor", sums("editor", 6.0, 14.0, prompt=8_112), DIRECT_FULL, DIRECT_TYPED)
    assert (0.5, 0.5, 0.25) == (found.prefix_cost_ratio, found.client_tax_ratio, found.direct_ratio)
    assert None is found.prepended_tokens
    assert "does not report typed_tokens" in (found.asks or "")
    assert any("are taken as the typed text" in words for words in found.details)


def test_without_direct_turns_of_a_length_its_ratio_is_not_known_and_the_words_say_which() -> None:
    full_only = of("editor", EDITOR, DIRECT_FULL)
    assert (None, 0.5, None, None) == (
        full_only.prefix_cost_ratio,
        full_only.client_tax_ratio,
        full_only.direct_ratio,
        full_only.asks,
    )
    assert ["no direct turn has about the typed text (20 tokens): the prefix cost is not known"] == [*full_only.details]
    typed_only = of("editor", EDITOR, DIRECT_TYPED)
    assert (None, None, 0.25) == (typed_only.prefix_cost_ratio, typed_only.client_tax_ratio, typed_only.direct_ratio)
    assert None is not typed_only.asks
    alone = of("editor", EDITOR)
    assert (None, None, None, 0, ()) == (
        alone.prefix_cost_ratio,
        alone.client_tax_ratio,
        alone.direct_ratio,
        alone.direct_turns,
        alone.details,
    )


def test_direct_turns_of_another_model_are_no_comparison() -> None:
    llama = TurnSums("gpu", "llama", "direct", 2, 10, 10, 10, 16_000)
    found = of("editor", EDITOR, llama)
    assert (None, 0) == (found.client_tax_ratio, found.direct_turns)


def test_outputs_an_octave_apart_are_said_beside_the_ratio() -> None:
    found = of("editor", EDITOR, sums("direct", 5.0, 1.0, output=100, prompt=8_112))
    assert any("put out 100 tokens, the client's 500" in words for words in found.details)


def test_a_direct_client_is_compared_with_nothing() -> None:
    found = of("direct", EDITOR, DIRECT_FULL, DIRECT_TYPED)
    assert (4, None, None) == (found.turns, found.client_tax_ratio, found.asks)


def test_times_are_sums_over_sums_without_direct_turns_and_answers_in_one_piece() -> None:
    assert TurnTimes(6.0, 14.0, 2) == turn_times([EDITOR, DIRECT_FULL])
    mixed = [EDITOR, sums("phone", 2.0, 6.0, prompt=100), sums("batch", 30.0, 0.0, prompt=100)]
    assert TurnTimes(4.0, 10.0, 4) == turn_times(mixed)
    assert None is turn_times([DIRECT_FULL])
    assert None is turn_times([sums("batch", 30.0, 0.0, prompt=100)])


def test_answers_in_one_piece_are_told() -> None:
    found = of("batch", sums("batch", 30.0, 0.0, prompt=100))
    assert "2 of 2 answers came in one piece" in found.details[0]


def test_prompts_of_about_one_length_share_a_class() -> None:
    assert [0, 8, 104, 104, 105] == [prompt_class(n) for n in (1, 2, 8_192, 8_900, 8_950)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ttft_seconds": -0.1}, "ttft_seconds must be a number of seconds from 0 to 86400"),
        ({"ttft_seconds": float("nan")}, "ttft_seconds must be"),
        ({"decode_seconds": 1e9}, "decode_seconds must be"),
        ({"output_tokens": 0}, "output_tokens must be a number of tokens from 1"),
        ({"prompt_tokens": 10**9}, "prompt_tokens must be"),
        ({"typed_tokens": 8_113}, "is more than prompt_tokens"),
        ({"typed_tokens": -1}, "typed_tokens must be"),
        ({"ttft_seconds": 0.0, "decode_seconds": 1e-7}, "are both 0"),
        ({"client": ""}, "client: a name has"),
        ({"model": "a\x1b"}, "model: .*cannot be printed"),
        ({"target": "x" * 201}, "target: .*at most 200"),
    ],
)
def test_a_turn_that_cannot_have_been_is_refused_by_its_field(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_turn(replace(TURN, **changes))


def test_a_turn_at_its_limits_is_taken() -> None:
    check_turn(TURN)
    check_turn(ClientTurn("t", "m", "c", 0.0, 86_400.0, 1, 1, 0))
