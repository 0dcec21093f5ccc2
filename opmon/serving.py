"""The web server as a part of the service: its socket, its signals, and the counting of what it answers.

Contains no route; the application arrives as an argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opmon.config import Settings
from opmon.errors import ConfigError
from opmon.telemetry import OTHER, Telemetry

SHUTDOWN_SECONDS = 3
BACKLOG = 2048


def web_server(app: ASGIApp) -> Web:
    """A server for the application that waits SHUTDOWN_SECONDS for open requests at its end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        server_header=False,
        proxy_headers=False,
    )
    return Web(config)


def counted(app: ASGIApp, telemetry: Telemetry) -> ASGIApp:
    """The application, with each answer counted by the pattern of its route; what no route took is `other`."""

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                telemetry.http_answered(getattr(scope.get("route"), "path", OTHER), message["status"])
            await send(message)

        await app(scope, receive, sending)

    return counting


class Web(uvicorn.Server):
    """The web server as a part of the service: a signal ends it, and then the rest of the service ends in its order.

    uvicorn's own way raises the signal again once it has stopped, which would kill the process before the last
    samples are on disk.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for one in signals:
            loop.add_signal_handler(one, self._end)
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)

    def _end(self) -> None:
        # A second signal does not wait for open requests.
        self.force_exit = self.should_exit
        self.should_exit = True


def bind(settings: Settings) -> socket.socket:
    """The listening socket, bound before anything else starts, so that a taken port is told at once."""
    web = settings.web
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((web.host, web.port))
        # With SO_REUSEADDR two processes can bind one port as long as neither listens.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        message = f"web.listen: cannot listen on {web.listen}: {error.strerror}; choose another with --listen"
        raise ConfigError(message) from error
    listener.set_inheritable(True)
    return listener


def url_of(listener: socket.socket, prefix: str) -> str:
    """The address to open in a browser."""
    host, port = listener.getsockname()[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - shown, not bound
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{prefix}/"
