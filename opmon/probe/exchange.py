"""One request through one path: sends it, takes the time of each piece, reads what the pieces say.

Whatever goes wrong is the failure of the exchange, in words; nothing is raised but cancellation. Contains no rounds and
no figures.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from opmon.core.names import escaped
from opmon.core.probed import Exchange
from opmon.probe.events import Event, EventReader, TooLong
from opmon.probe.paths import Ask, Path

MOST_BYTES = 64 * 1024 * 1024
MOST_WORDS = 300
MOST_TOKENS = 1 << 53
DONE = "[DONE]"
TEXTS = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call")
REASONING = ("reasoning_content", "reasoning")


class Refused(Exception):
    """The exchange failed, in words. `status`: of the answer, 0 where there was none."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


@dataclass(slots=True)
class Reading:
    """What the pieces of one answer said so far; instants in seconds of one clock."""

    sent: float = 0.0
    first: float | None = None
    last: float | None = None
    pieces: int = 0
    is_finished: bool = False
    is_streamed: bool = True
    has_reasoning: bool = False
    usage: dict[str, Any] = field(default_factory=dict)

    def take(self, event: Event, at: float) -> None:
        """One event. Raises Refused for an error within the stream, and for what is no JSON."""
        if event.data.strip() == DONE:
            self.is_finished = True
            return
        try:
            chunk = json.loads(event.data)
        except (ValueError, RecursionError):
            raise Refused(f"the stream holds what is no JSON: {shortened(event.data)}") from None
        if not isinstance(chunk, dict):
            raise Refused(f"the stream holds what is no chunk: {shortened(event.data)}")
        if event.name == "error" or chunk.get("error") or chunk.get("object") == "error":
            raise Refused(f"an error within the stream: {told(chunk)}")
        self.usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else self.usage
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                self._choice(choice, at)

    def _choice(self, choice: dict[str, Any], at: float) -> None:
        delta = choice.get("delta", choice.get("message"))
        parts = delta if isinstance(delta, dict) else {"content": choice.get("text")}
        if any(parts.get(name) for name in TEXTS):
            self.first = at if self.first is None else self.first
            self.last, self.pieces = at, self.pieces + 1
            self.has_reasoning = self.has_reasoning or any(parts.get(name) for name in REASONING)
        if choice.get("finish_reason"):
            self.last, self.is_finished = at, True

    def exchange(self, ended: float) -> Exchange:
        """The exchange that was read to its end. Raises Refused for a stream that broke off."""
        if not self.is_finished:
            raise Refused(f"the stream ended early, after {self.pieces} pieces, without finish_reason and {DONE}")
        if self.first is None and not tokens_of(self.usage, "completion_tokens"):
            raise Refused("the answer holds no token")
        details = self.usage.get("prompt_tokens_details")
        last = self.last if self.last is not None else ended
        return Exchange(
            began=self.sent,
            ended=ended,
            ttft_seconds=self.first - self.sent if self.first is not None and self.is_streamed else None,
            last_seconds=last - self.sent,
            pieces=self.pieces,
            prompt_tokens=tokens_of(self.usage, "prompt_tokens"),
            output_tokens=tokens_of(self.usage, "completion_tokens"),
            cached_tokens=tokens_of(details, "cached_tokens") if isinstance(details, dict) else None,
            has_reasoning=self.has_reasoning,
        )


def tokens_of(usage: dict[str, Any], name: str) -> int | None:
    """A number of tokens; None for what is none."""
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_TOKENS else None


async def exchange(
    client: httpx.AsyncClient, path: Path, ask: Ask, timeout_seconds: float, *, with_usage: bool = True
) -> tuple[Exchange, int]:
    """The exchange, and the status of the answer (0 where there was none)."""
    reading = Reading(sent=time.perf_counter())
    try:
        async with asyncio.timeout(timeout_seconds):
            await _read(client, path, ask.body(path.model, with_usage=with_usage), reading)
        return reading.exchange(time.perf_counter()), 200
    except Refused as error:
        words, status = str(error), error.status
    except TimeoutError:
        words, status = f"no end of the answer within {timeout_seconds:g} s ({reading.pieces} pieces)", 0
    except TooLong as error:
        words, status = str(error), 0
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError) as error:
        words, status = failure_of(error, reading), 0
    return Exchange(reading.sent, time.perf_counter(), pieces=reading.pieces, failure=words), status


async def _read(client: httpx.AsyncClient, path: Path, body: dict[str, Any], reading: Reading) -> None:
    async def trace(name: str, _info: Any) -> None:
        # Connecting is over: from here on it is the path that takes the time.
        if name.endswith("send_request_headers.started"):
            reading.sent = time.perf_counter()

    headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
    if path.key is not None:
        headers["Authorization"] = f"Bearer {path.key}"
    async with client.stream("POST", path.url, json=body, headers=headers, extensions={"trace": trace}) as response:
        if response.status_code != 200:
            where = f" to {response.headers['location']}" if response.has_redirect_location else ""
            said = await bounded(response, 64 * 1024)
            raise Refused(f"HTTP {response.status_code}{shortened(where)}: {told_text(said)}", response.status_code)
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json":
            _take_whole(await bounded(response, MOST_BYTES), reading)
            return
        await _take_events(response, reading)


async def _take_events(response: httpx.Response, reading: Reading) -> None:
    events, size = EventReader(), 0
    async for piece in response.aiter_bytes():
        at = time.perf_counter()
        size += len(piece)
        if size > MOST_BYTES:
            raise Refused(f"the answer is longer than {MOST_BYTES} bytes")
        for event in events.feed(piece):
            reading.take(event, at)
    for event in events.close():
        reading.take(event, time.perf_counter())


def _take_whole(body: bytes, reading: Reading) -> None:
    """An answer that was not streamed: one JSON document."""
    reading.is_streamed = False
    reading.take(Event("", body.decode("utf-8", "replace")), time.perf_counter())


async def bounded(response: httpx.Response, most_bytes: int) -> bytes:
    """The body, as far as it goes."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > most_bytes:
            break
    return body[:most_bytes]


def failure_of(error: Exception, reading: Reading) -> str:
    """What the network said, in words."""
    words = shortened(str(error) or type(error).__name__)
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"cannot connect: {words}"
    if reading.pieces:
        return f"the stream broke off after {reading.pieces} pieces: {words}"
    return f"no answer: {words}"


def told_text(body: bytes) -> str:
    """What an answer says of its fault."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return shortened(text) or "no words"
    return told(found) if isinstance(found, dict) else shortened(text)


def told(fault: dict[str, Any]) -> str:
    """The message of an error in any of its usual forms."""
    inner = fault.get("error")
    place = inner if isinstance(inner, dict) else fault
    words = place.get("message") or place.get("detail") or (inner if isinstance(inner, str) else None)
    return shortened(words if isinstance(words, str) else json.dumps(fault))


def shortened(words: str) -> str:
    """One line that a terminal can show."""
    line = escaped(" ".join(words.split()))
    return line if len(line) <= MOST_WORDS else f"{line[: MOST_WORDS - 3]}..."
