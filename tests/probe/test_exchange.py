"""What one answer is read as: every form of stream that servers send, over a real socket."""

from __future__ import annotations

import httpx
import pytest

from opmon.core.probed import Exchange
from opmon.probe.exchange import exchange
from opmon.probe.paths import Ask, Path
from tests.probe.openai_server import Server, Way, chunk, serving

ASK = Ask("one two three")
ROLE = chunk({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
END = chunk({"choices": [{"delta": {}, "finish_reason": "stop"}]})
DONE = b"data: [DONE]\n\n"
USAGE = chunk({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


def text(words: str, name: str = "content") -> bytes:
    return chunk({"choices": [{"delta": {name: words}}]})


async def read(way: Way, ask: Ask = ASK, seconds: float = 5.0) -> Exchange:
    """The exchange with a server that answers in that way."""
    kind = "chat/completions" if ask.api == "chat" else "completions"
    with serving(Server({"direct": way})) as url:
        path = Path("direct", f"{url}/direct/v1/{kind}", f"{url}/direct/v1", "tiny")
        async with httpx.AsyncClient(trust_env=False) as client:
            found, _ = await exchange(client, path, ask, seconds)
    return found


async def scripted(*pieces: bytes, breaks: bool = False) -> Exchange:
    return await read(Way(script=pieces, breaks=breaks))


async def test_times_are_to_the_first_and_the_last_token_and_tokens_are_of_usage() -> None:
    found = await read(Way(ttft_seconds=0.1, token_seconds=0.02, tokens=11))
    assert ("", 11, 3, 11, 1) == (
        found.failure,
        found.pieces,
        found.prompt_tokens,
        found.output_tokens,
        found.cached_tokens,
    )
    assert found.ttft_seconds is not None
    assert found.last_seconds is not None
    assert 0.1 <= found.ttft_seconds < 0.25
    assert 0.3 <= found.last_seconds < 0.8
    assert found.decode == pytest.approx(10 / (found.last_seconds - found.ttft_seconds))
    assert found.per_stream == pytest.approx(11 / found.last_seconds)


async def test_completions_are_read_as_chat_is() -> None:
    found = await read(Way(), Ask("one two three", api="completions"))
    assert ("", 9, 3, 9) == (found.failure, found.pieces, found.prompt_tokens, found.output_tokens)


async def test_several_tokens_a_piece_count_as_usage_says() -> None:
    found = await read(Way(tokens=9, tokens_a_piece=3))
    assert (3, 9) == (found.pieces, found.output_tokens)


async def test_without_usage_tokens_are_not_known_and_not_counted_from_pieces() -> None:
    found = await read(Way(has_usage=False))
    assert ("", 9, None, None, None, None) == (
        found.failure,
        found.pieces,
        found.output_tokens,
        found.prompt_tokens,
        found.per_stream,
        found.decode,
    )
    assert None is not found.ttft_seconds


async def test_reasoning_is_the_first_token() -> None:
    found = await scripted(ROLE, text("hm", "reasoning_content"), text("hm", "reasoning"), text("so"), END, USAGE, DONE)
    assert (3, True) == (found.pieces, found.has_reasoning)


@pytest.mark.parametrize("pieces", [(ROLE, text("a"), END), (ROLE, text("a"), DONE), (text("a") + END + USAGE + DONE,)])
async def test_finish_reason_or_done_ends_an_answer(pieces: tuple[bytes, ...]) -> None:
    found = await scripted(*pieces)
    assert ("", 1) == (found.failure, found.pieces)


async def test_usage_in_the_last_choice_or_beside_each_counts_as_said_last() -> None:
    beside = chunk({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    last = chunk({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": 4}})
    assert 4 == (await scripted(beside, last, DONE)).output_tokens
    null = chunk({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None})
    assert 1 == (await scripted(beside, null, DONE)).output_tokens


@pytest.mark.parametrize("told", [-1, 1.5, "7", True, 1 << 60])
async def test_a_usage_that_cannot_be_is_not_known(told: object) -> None:
    usage = chunk({"choices": [], "usage": {"prompt_tokens": told, "completion_tokens": told}})
    found = await scripted(text("a"), END, usage, DONE)
    assert ("", None, None) == (found.failure, found.output_tokens, found.prompt_tokens)


async def test_comments_and_crlf_and_cut_pieces_change_nothing() -> None:
    stream = b": ping\r\n\r\n" + (ROLE + text("a") + text("b") + END + USAGE + DONE).replace(b"\n", b"\r\n")
    found = await scripted(*(stream[n : n + 7] for n in range(0, len(stream), 7)))
    assert ("", 2, 2) == (found.failure, found.pieces, found.output_tokens)


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ((ROLE, text("a"), chunk({"error": {"message": "out of memory", "code": 500}})), "an error within the stream: out of memory"),
        ((chunk({"object": "error", "message": "too long"}), DONE), "an error within the stream: too long"),
        ((b'event: error\ndata: {"detail": "gone"}\n\n',), "an error within the stream: gone"),
        ((chunk({"error": "plain\x1b[2J words"}),), r"an error within the stream: plain\x1b[2J words"),
        ((ROLE, text("a"), text("b")), "the stream ended early, after 2 pieces"),
        ((), "the stream ended early, after 0 pieces"),
        ((ROLE, END, DONE), "the answer holds no token"),
        ((b"data: {oops\n\n",), "the stream holds what is no JSON: {oops"),
        ((b"data: [1]\n\n",), "the stream holds what is no chunk: [1]"),
        ((b"data: " + b"[" * 100_000 + b"\n\n",), "the stream holds what is no JSON"),
        ((b"<html>busy</html>\n",), "the stream ended early, after 0 pieces"),
    ],
)  # fmt: skip
async def test_what_goes_wrong_within_a_stream_is_its_failure(pieces: tuple[bytes, ...], words: str) -> None:
    found = await scripted(*pieces)
    assert found.failure.startswith(words), found.failure
    assert (None, None) == (found.ttft_seconds, found.output_tokens)


async def test_a_connection_that_is_cut_is_a_failure_with_how_far_it_came() -> None:
    found = await scripted(ROLE, text("a"), text("b"), breaks=True)
    assert found.failure.startswith("the stream broke off after 2 pieces")


async def test_an_answer_in_one_document_has_no_ttft() -> None:
    found = await read(Way(is_streamed=False))
    assert ("", None, 9) == (found.failure, found.ttft_seconds, found.output_tokens)
    assert (found.last_seconds or 0) >= 0.02


async def test_a_status_is_told_with_the_servers_words_and_nothing_that_steers_a_terminal() -> None:
    assert r"HTTP 503: overloaded\x1b[31m" == (await read(Way(status=503))).failure


async def test_the_deadline_of_a_request_covers_all_of_it() -> None:
    found = await read(Way(ttft_seconds=0.05, token_seconds=0.1, tokens=50), seconds=0.3)
    assert found.failure.startswith("no end of the answer within 0.3 s (")


async def test_nobody_there_is_told() -> None:
    with serving(Server({})) as url:
        pass
    async with httpx.AsyncClient(trust_env=False) as client:
        found, status = await exchange(client, Path("direct", f"{url}/x", url, "tiny"), ASK, 5)
    assert (0, True) == (status, found.failure.startswith("cannot connect: "))


async def test_a_redirect_is_not_followed_for_the_key_would_go_along() -> None:
    found = await read(Way(status=307))
    assert found.failure.startswith("HTTP 307")
