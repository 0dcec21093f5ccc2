"""The simulated server on a socket: the routes of a real vLLM that a monitor asks, in real time, with faults to order.

`/metrics` answers the whole page and ignores a filter, `/metrics/` honours `name[]`, as a real server does. While the
scenario is down every route answers 503: an open socket cannot refuse a connection. Contains no authentication and
listens on loopback unless told otherwise: it is a toy for the demo and the tests.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from opmon.simulator.page import CONTENT_TYPE
from opmon.simulator.simulation import Down, Simulation


class Filter(StrEnum):
    """What `/metrics/` does with `name[]`: as vLLM does; as a router does; as several API servers do; no such route."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    EMPTY = "empty"
    ABSENT = "absent"


@dataclass(slots=True)
class Faults:
    """What goes wrong on purpose; may be changed while the server runs.

    `delay_seconds` passes before each answer (and before its values are read). `status` and `body` replace the answer
    of the metrics routes. `dev_mode` is no fault: it opens `/server_info`.
    """

    down: bool = False
    delay_seconds: float = 0.0
    status: int | None = None
    body: bytes | None = None
    content_type: str = CONTENT_TYPE
    filter: Filter = Filter.HONOURED
    dev_mode: bool = False


class SimulatedServer:
    """A simulation in real time. `now_ms` tells the Unix time in milliseconds; a clock that steps back is held."""

    def __init__(
        self, simulation: Simulation, *, faults: Faults | None = None, now_ms: Callable[[], int] | None = None
    ) -> None:
        self.simulation = simulation
        self.faults = faults if faults is not None else Faults()
        self.requests = 0
        self._now_ms = now_ms if now_ms is not None else _system_ms
        self.app = Starlette(
            routes=[
                Route("/metrics", self._answer(self._whole)),
                Route("/metrics/", self._answer(self._filtered)),
                Route("/version", self._answer(self._version)),
                Route("/v1/models", self._answer(self._models)),
                Route("/health", self._answer(self._health)),
                Route("/server_info", self._answer(self._server_info)),
            ]
        )
        self.app.router.redirect_slashes = False

    def _answer(self, route: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """Every route alike: first the delay, then whether anybody is there, then the answer."""

        async def answer(request: Request) -> Response:
            self.requests += 1
            if self.faults.delay_seconds > 0:
                await asyncio.sleep(self.faults.delay_seconds)
            self.simulation.advance_to(max(self.simulation.now_ms, self._now_ms()))
            if self.faults.down or self.simulation.is_down():
                return Response("Service Unavailable", 503)
            return route(request)

        return answer

    def _whole(self, _request: Request) -> Response:
        return self._page(None)

    def _filtered(self, request: Request) -> Response:
        names = request.query_params.getlist("name[]")
        match self.faults.filter:
            case Filter.ABSENT:
                return JSONResponse({"detail": "Not Found"}, 404)
            case Filter.EMPTY if names:
                return Response(b"", media_type=CONTENT_TYPE)
            case Filter.IGNORED:
                return self._page(None)
        return self._page(names or None)

    def _page(self, names: list[str] | None) -> Response:
        faults = self.faults
        if faults.body is not None or faults.status is not None:
            return Response(faults.body or b"", faults.status or 200, media_type=faults.content_type)
        try:
            body = self.simulation.page(self.simulation.now_ms, names)
        except Down:
            return Response("Service Unavailable", 503)
        return Response(body, media_type=CONTENT_TYPE)

    def _version(self, _request: Request) -> Response:
        return JSONResponse({"version": self.simulation.scenario.version})

    def _models(self, _request: Request) -> Response:
        created = self.simulation.process_start_ms // 1000
        lengths = {config.model_name: config.max_model_len for config in self.simulation.scenario.engines}
        data = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": name,
                "parent": None,
                "max_model_len": length,
            }
            for name, length in lengths.items()
        ]
        return JSONResponse({"object": "list", "data": data})

    def _health(self, _request: Request) -> Response:
        return Response(b"")

    def _server_info(self, request: Request) -> Response:
        """The configuration, as vLLM tells it in its development mode only."""
        if not self.faults.dev_mode:
            return JSONResponse({"detail": "Not Found"}, 404)
        config = self.simulation.scenario.engines[0]
        told = {
            "model_config": {"model": config.model_name, "max_model_len": config.max_model_len},
            "cache_config": {"block_size": config.block_size, "num_gpu_blocks": config.kv_blocks},
            "scheduler_config": {
                "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens,
            },
            "parallel_config": {"data_parallel_size": len(self.simulation.scenario.engines)},
        }
        if request.query_params.get("config_format", "text") == "json":
            return JSONResponse({"vllm_config": told})
        return JSONResponse({"vllm_config": ", ".join(f"{key}={value}" for key, value in asdict(config).items())})


@asynccontextmanager
async def running(server: SimulatedServer, *, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serves in the running event loop; gives the address without a path. Port 0: any free one."""
    listener = socket.create_server((host, port))
    bound_host, bound_port = listener.getsockname()[:2]
    web = _Web(uvicorn.Config(server.app, log_level="error", access_log=False, lifespan="off", server_header=True))
    task = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        while not web.started:
            if task.done():
                task.result()
                break
            await asyncio.sleep(0.005)
        yield f"http://{bound_host}:{bound_port}"
    finally:
        web.should_exit = True
        web.force_exit = True
        await task
        listener.close()


@contextmanager
def running_in_thread(server: SimulatedServer, *, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """The same for callers without an event loop."""
    ready, done = threading.Event(), threading.Event()
    address: list[str] = []

    async def serve() -> None:
        async with running(server, host=host, port=port) as url:
            address.append(url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="simulator", daemon=True)
    thread.start()
    try:
        if not ready.wait(10):
            message = "the simulated server did not start within 10 s"
            raise RuntimeError(message)
        yield address[0]
    finally:
        done.set()
        thread.join(10)


class _Web(uvicorn.Server):
    """uvicorn without its signal handlers: whoever embeds it keeps their own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _system_ms() -> int:
    return time.time_ns() // 1_000_000
