"""A small server that speaks as an OpenAI-compatible one does, with a timing that is known, and faults to order.

Contains no test. One path prefix is one way to it: `/direct/v1/chat/completions`, `/gateway/v1/...`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


@dataclass
class Way:
    """How one path answers. `prepends`: tokens before the prompt. `script`: pieces sent as they are, with no timing.
    `breaks`: the connection is cut at the end of the script. `refuses`: a field of the body that it does not know."""

    ttft_seconds: float = 0.02
    token_seconds: float = 0.005
    tokens: int = 9
    tokens_a_piece: int = 1
    prepends: int = 0
    has_usage: bool = True
    is_streamed: bool = True
    reasoning: int = 0
    script: Sequence[bytes] | None = None
    breaks: bool = False
    refuses: str = ""
    status: int = 200
    fails_from: int | None = None
    hangs_from: int | None = None


@dataclass
class Server:
    """Ways by name, and what was asked of them in order."""

    ways: dict[str, Way]
    models: Sequence[str] = ("tiny",)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: dict[str, str | None] = field(default_factory=dict)
    most_at_once: int = 0
    _now: int = 0

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/{way}/v1/models", self._models),
                Route("/{way}/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/{way}/v1/completions", self._complete, methods=["POST"]),
            ]
        )

    def order(self) -> str:
        """The first letters of the paths that were asked, in order."""
        return "".join(name[0] for name, _ in self.asked)

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _complete(self, request: Request) -> Response:
        name, body = request.path_params["way"], await request.json()
        way = self.ways[name]
        number = sum(one == name for one, _ in self.asked)
        self.asked.append((name, body))
        self.keys[name] = request.headers.get("authorization")
        if way.hangs_from is not None and number >= way.hangs_from:
            await asyncio.sleep(30)
        if way.refuses in body and way.refuses:
            return JSONResponse({"error": {"message": f"unknown field {way.refuses}"}}, 400)
        if way.status != 200 or (way.fails_from is not None and number >= way.fails_from):
            failed = way.status if way.status != 200 else 503
            return JSONResponse({"error": {"message": "overloaded\x1b[31m", "code": failed}}, failed)
        if not way.is_streamed:
            await asyncio.sleep(way.ttft_seconds)
            return JSONResponse({"choices": [self._choice("a b", body, whole=True)], "usage": self._usage(way, body)})
        return StreamingResponse(self._stream(way, body), media_type="text/event-stream")

    async def _stream(self, way: Way, body: dict[str, Any]) -> AsyncIterator[bytes]:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            if way.script is not None:
                for piece in way.script:
                    yield piece
                    await asyncio.sleep(0.001)
                if way.breaks:
                    message = "the connection is cut on purpose"
                    raise ConnectionResetError(message)
                return
            async for piece in self._pieces(way, body):
                yield piece
        finally:
            self._now -= 1

    async def _pieces(self, way: Way, body: dict[str, Any]) -> AsyncIterator[bytes]:
        yield chunk({"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        await asyncio.sleep(way.ttft_seconds)
        for done in range(0, way.tokens, way.tokens_a_piece):
            if done:
                await asyncio.sleep(way.token_seconds * way.tokens_a_piece)
            yield chunk({"choices": [self._choice("x ", body, reasoning=done < way.reasoning)]})
        yield chunk({"choices": [{"delta": {}, "finish_reason": "length"}]})
        if way.has_usage and body.get("stream_options", {}).get("include_usage"):
            yield chunk({"choices": [], "usage": self._usage(way, body)})
        yield b"data: [DONE]\n\n"

    def _choice(
        self, text: str, body: dict[str, Any], *, whole: bool = False, reasoning: bool = False
    ) -> dict[str, Any]:
        if "messages" not in body:
            return {"text": text, **({"finish_reason": "stop"} if whole else {})}
        delta = {"reasoning_content" if reasoning else "content": text}
        return {"message": delta, "finish_reason": "stop"} if whole else {"delta": delta}

    def _usage(self, way: Way, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][0]["content"] if "messages" in body else body["prompt"]
        counted = len(prompt.split()) + way.prepends
        return {
            "prompt_tokens": counted,
            "completion_tokens": way.tokens,
            "total_tokens": counted + way.tokens,
            "prompt_tokens_details": {"cached_tokens": counted // 2},
        }


def chunk(body: dict[str, Any]) -> bytes:
    """A piece of a stream."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


@contextmanager
def serving(server: Server) -> Iterator[str]:
    """The server on a socket of this machine; gives its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    web = _Web(uvicorn.Config(server.app, log_level="critical", access_log=False, lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(web.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        web.should_exit = web.force_exit = True
        thread.join(10)
        listener.close()


class _Web(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
