"""Real servers on loopback: one that answers byte for byte as a test says, and one built as vLLM builds its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, make_asgi_app
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client sent: path with query, headers in lower case, and how many requests came before it."""

    path: str
    headers: dict[str, str]
    number: int


Respond = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Loopback:
    """A server that answers as told, and what it was asked."""

    port: int
    scheme: str = "http"
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        """The paths asked for, without their query."""
        return [request.path.partition("?")[0] for request in self.requests]


@contextlib.asynccontextmanager
async def serving(respond: Respond, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Loopback]:
    """A server whose every answer is written by `respond`; keep-alive unless `respond` closes the writer."""
    loopback = Loopback(0, "https" if tls else "http")
    open_writers: set[asyncio.StreamWriter] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loopback.connections += 1
        open_writers.add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                fields = (line.partition(":") for line in head[1:] if line)
                headers = {name.lower(): value.strip() for name, _, value in fields}
                request = Request(head[0].split(" ")[1], headers, len(loopback.requests))
                loopback.requests.append(request)
                await respond(request, writer)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0, ssl=tls)
    loopback.port = server.sockets[0].getsockname()[1]
    try:
        yield loopback
    finally:
        server.close()
        for writer in open_writers:
            writer.close()
        for writer in open_writers:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


def send(writer: asyncio.StreamWriter, body: str | bytes = b"", status: str = "200 OK", **headers: str) -> None:
    """Writes one answer. Header names have underscores for dashes; `Content-Length` is right unless given."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content_type": TEXT, "content_length": str(len(data)), **headers}
    lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items() if value]
    writer.write(f"HTTP/1.1 {status}\r\n{''.join(lines)}\r\n".encode("latin-1") + data)


def always(body: str | bytes, status: str = "200 OK", **headers: str) -> Respond:
    """The same answer to every request."""

    async def respond(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, body, status, **headers)

    return respond


class VllmLike:
    """The metrics of a vLLM, mounted as vLLM mounts them: a route for `/metrics` that knows no filter, and the
    Python client's app, which does, for everything below it."""

    def __init__(self, running: float = 3, *, start: float | None = 1.0) -> None:
        self.registry = CollectorRegistry()
        labels = {"engine": "0", "model_name": "m"}
        names = list(labels)

        def gauge(name: str, value: float) -> None:
            Gauge(name, name, names, registry=self.registry).labels(**labels).set(value)

        gauge("vllm:num_requests_running", running)
        gauge("vllm:num_requests_waiting", 0)
        gauge("vllm:kv_cache_usage_perc", 0.25)
        for name in ("generation_tokens", "prompt_tokens", "num_preemptions"):
            Counter(f"vllm:{name}", name, names, registry=self.registry).labels(**labels).inc(10)
        finished = Counter("vllm:request_success", "n", [*names, "finished_reason"], registry=self.registry)
        for reason in ("stop", "length"):
            finished.labels(**labels, finished_reason=reason).inc(2)
        for name in ("inter_token_latency", "request_prefill_time", "time_to_first_token", "e2e_request_latency"):
            Histogram(f"vllm:{name}_seconds", name, names, registry=self.registry).labels(**labels).observe(0.5)
        if start is not None:
            Gauge("process_start_time_seconds", "start", registry=self.registry).set(start)
        self.version = "0.32.0"
        self.paths: list[str] = []
        self.answers_filter_with: bytes | None = None

    def app(self) -> Starlette:
        metrics = make_asgi_app(self.registry)

        async def mounted(scope, receive, deliver):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            self.paths.append("/metrics/")
            if self.answers_filter_with is not None:
                await Response(self.answers_filter_with, media_type="text/plain")(scope, receive, deliver)
            else:
                await metrics(scope, receive, deliver)

        async def whole(_: StarletteRequest) -> Response:
            self.paths.append("/metrics")
            return Response(generate_latest(self.registry), media_type="text/plain; version=1.0.0")

        async def version(_: StarletteRequest) -> Response:
            return JSONResponse({"version": self.version})

        routes = [Route("/version", version), Route("/metrics", whole), Mount("/metrics", mounted)]
        return Starlette(routes=routes)


@contextlib.contextmanager
def uvicorn_serving(app: Starlette) -> Iterator[str]:
    """The app on a loopback port, by a uvicorn in a thread; gives its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listener.close()
