"""Connections to addresses that may be asked: names are resolved here, and each address is judged before it is used.

A check of the name alone would not do: a name may stand for any address, and for another one the next time it is asked.
The address that was judged is the one that is connected to.
Contains no HTTP beyond handing a request to httpcore, and no limits: deadline and size are the fetcher's.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address

import httpcore
import httpx

from opmon.config.addresses import refusal
from opmon.errors import ScrapeError

# How long a connection is waited for before the next address of the name is tried beside it (RFC 8305).
HEAD_START_SECONDS = 0.25

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
Connecting = Callable[[str], Awaitable[httpcore.AsyncNetworkStream]]


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a name in the system's order; an address is itself. Raises httpcore.ConnectError."""
    try:
        return (str(ip_address(host)),)
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise httpcore.ConnectError(f"{host} cannot be resolved: {words}") from error
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


class Network(httpcore.AsyncNetworkBackend):
    """Connects to the addresses of a name that may be asked. `resolve` and `below` are others in tests."""

    def __init__(self, resolve: Resolve = resolved, below: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._resolve = resolve
        self._below = below or httpcore.AnyIOBackend()
        self._last: httpcore.AsyncNetworkStream | None = None

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[typing.Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A connection to the first address that answers. Raises ScrapeError where none of them may be asked."""
        addresses = allowed(host, await self._resolve(host.strip("[]"), port))

        async def connect(address: str) -> httpcore.AsyncNetworkStream:
            return await self._below.connect_tcp(address, port, timeout, local_address, socket_options)

        self._last = await first_connected(addresses, connect)
        return self._last

    async def aclose(self) -> None:
        """Closes the last connection, if it is open still: httpcore forgets one whose TLS handshake is cut off."""
        if self._last is not None:
            await self._last.aclose()


def allowed(host: str, addresses: Sequence[str]) -> Sequence[str]:
    """Those of a host's addresses that may be asked: a machine's name often stands for a link-local one as well.

    Raises ScrapeError where none is left.
    """
    kept, refused = [], ""
    for address in addresses:
        words = refusal(address)
        refused = refused or words
        if not words:
            kept.append(address)
    if not kept:
        stands_for = "" if host.strip("[]") in addresses else f"{host} stands for nothing else: "
        raise ScrapeError("not_asked", f"{stands_for}{refused or 'no address'}")
    return kept


async def first_connected(addresses: Sequence[str], connect: Connecting) -> httpcore.AsyncNetworkStream:
    """The first connection that stands. The next address is tried once one has failed, or when it takes long; the
    connections that come too late are closed. Raises what the last failure was."""
    waiting, running = list(addresses), set[asyncio.Future[httpcore.AsyncNetworkStream]]()
    late: set[asyncio.Future[httpcore.AsyncNetworkStream]] = set()
    try:
        while True:
            if waiting:
                running.add(asyncio.ensure_future(connect(waiting.pop(0))))
            head_start = HEAD_START_SECONDS if waiting else None
            done, running = await asyncio.wait(running, timeout=head_start, return_when=asyncio.FIRST_COMPLETED)
            stands = next((one for one in done if one.exception() is None), None)
            if stands is not None:
                late = done - {stands}
                return stands.result()
            if done and not waiting and not running:
                return done.pop().result()  # raises
    finally:
        await _close(running | late)


async def _close(connections: Iterable[asyncio.Future[httpcore.AsyncNetworkStream]]) -> None:
    connections = tuple(connections)
    for one in connections:
        one.cancel()
    for stream in await asyncio.gather(*connections, return_exceptions=True):
        if isinstance(stream, httpcore.AsyncNetworkStream):
            with contextlib.suppress(Exception):
                await stream.aclose()


class Transport(httpx.AsyncBaseTransport):
    """One connection by a given network, a request at a time; raises what httpcore raises."""

    def __init__(self, context: ssl.SSLContext, network: Network, *, keep_alive_seconds: float) -> None:
        self._network = network
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=1,
            max_keepalive_connections=1,
            keepalive_expiry=keep_alive_seconds,
            network_backend=network,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request without a body; the answer's body is still to be read."""
        url = request.url
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            extensions=request.extensions,
        )
        answer = await self._pool.handle_async_request(asked)
        stream = _Body(typing.cast("AsyncIterator[bytes]", answer.stream), answer.aclose)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=stream, extensions=answer.extensions, request=request
        )

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._pool.aclose()
        await self._network.aclose()


class _Body(httpx.AsyncByteStream):
    """What comes in of an answer."""

    def __init__(self, parts: typing.AsyncIterable[bytes], close: Callable[[], Awaitable[None]]) -> None:
        self._parts = parts
        self._close = close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._parts:
            yield part

    async def aclose(self) -> None:
        await self._close()
