"""GET with a total deadline and a size limit, on one connection of its own, never leaving the target's origin.

httpx bounds a single read, not a request; here one deadline covers everything from connecting to the last byte.
Whatever goes wrong is a `ScrapeError` whose kind says what.
Contains no knowledge of metrics: the body is bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpcore
import httpx

import opmon
from opmon.clock import Clock
from opmon.config.addresses import refusal
from opmon.config.settings import Tls
from opmon.errors import ConfigError, ScrapeError
from opmon.scrape.network import Network, Transport
from opmon.scrape.secure import remedy, tls_context

MOST_BYTES = 16 * 1024 * 1024
MOST_REDIRECTS = 5
# Below the 5 s after which uvicorn closes an idle connection: a request must not meet a connection on its way out.
KEEP_ALIVE_SECONDS = 4.5
CLOSE_SECONDS = 1.0

ACCEPT_TEXT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
ACCEPT_JSON = "application/json"

_LAST_PORT = 65535
_AGE = re.compile(r"[0-9]{1,10}")
# Stale, not renewed, cut off from its origin: RFC 7234, 5.5.
_STALE = re.compile(r"(?:^|,)[ \t]*11[012][ \t]")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_INFLATED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = 47  # zlib's window bits for "whichever of the two headers is there"


@dataclass(frozen=True, slots=True)
class Fetched:
    """An answer with status 200. Times in milliseconds from the start of the request; `size_bytes` as it came in.

    `is_ended_by_close`: nothing but the end of the connection told that this was all. `age_seconds`: what a cache says
    of its copy, 0 where none stands between; `is_said_stale`: it says that the copy is too old, or could not be renewed.
    """

    url: str
    content_type: str | None
    body: bytes
    first_byte_ms: int
    took_ms: int
    size_bytes: int
    is_ended_by_close: bool = False
    age_seconds: int = 0
    is_said_stale: bool = False


class Fetcher:
    """Fetches from one origin, one request at a time. Close it with `aclose`.

    `authorization` is asked before each request for the header to send, None for none; it goes to this origin only.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        tls: Tls | None = None,
        authorization: Callable[[], str | None] = lambda: None,
        max_bytes: int = MOST_BYTES,
        network: Network | None = None,
    ) -> None:
        self._clock = clock
        self._network = network or Network()
        self._context = tls_context(tls)
        self._server_name = tls.server_name if tls else None
        self._authorization = authorization
        self._max_bytes = max_bytes
        self._transport = self._new_transport()
        self._requests: dict[tuple[str, str], httpx.Request] = {}
        self._is_warm = False
        self._doing = ""

    async def get(self, url: str, *, deadline_ms: int, accept: str = ACCEPT_TEXT) -> Fetched:
        """The body behind the URL, redirects within its origin followed. Raises ScrapeError for everything else."""
        started_ms = self._clock.monotonic_ms()
        try:
            async with asyncio.timeout(deadline_ms / 1000):
                return await self._follow(url, accept, started_ms)
        except TimeoutError as error:
            await self._start_afresh()
            raise ScrapeError("timeout", f"{self._doing} when {deadline_ms / 1000:g} s were over") from error

    async def aclose(self) -> None:
        """Closes the connection, without waiting long for the other side."""
        with contextlib.suppress(*_FAILURES):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._transport.aclose()

    def _new_transport(self) -> Transport:
        return Transport(self._context, self._network, keep_alive_seconds=KEEP_ALIVE_SECONDS)

    async def _start_afresh(self) -> None:
        """A request that was cut off leaves a connection in an unknown state: never use it again."""
        await self.aclose()
        self._transport = self._new_transport()
        self._is_warm = False

    async def _follow(self, url: str, accept: str, started_ms: int) -> Fetched:
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._send(self._prepared(url, accept))
            first_byte_ms = self._clock.monotonic_ms() - started_ms
            try:
                if response.status_code not in _REDIRECTS:
                    body, size_bytes = await self._read(response)
                    took_ms = self._clock.monotonic_ms() - started_ms
                    return _fetched(url, response, body, size_bytes, first_byte_ms=first_byte_ms, took_ms=took_ms)
                url = _redirected(response)
            finally:
                await response.aclose()
        raise ScrapeError("redirect", f"more than {MOST_REDIRECTS} redirects, the last to {url}")

    def _prepared(self, url: str, accept: str) -> httpx.Request:
        """The request, or ScrapeError. What else is raised may hold the secret, and is neither repeated nor a cause."""
        try:
            return self._request(url, accept)
        except ScrapeError:
            raise
        except Exception as error:  # noqa: BLE001 - told as a failed attempt, like every fault of a request
            raise ScrapeError("not_asked", f"the request cannot be made ({type(error).__name__})") from None

    def _request(self, url: str, accept: str) -> httpx.Request:
        """The request for the URL, built once: building costs a good part of what a small request costs."""
        request = self._requests.get((url, accept))
        if request is None:
            request = self._build(url, accept)
            self._requests[url, accept] = request
        authorization = self._current_authorization()
        if request.headers.get("authorization") != authorization:
            request.headers.pop("authorization", None)
            if authorization is not None:
                request.headers["authorization"] = authorization
        return request

    def _build(self, url: str, accept: str) -> httpx.Request:
        headers = {
            "accept": accept,
            # Compressing costs the watched server more than the few bytes are worth.
            "accept-encoding": "identity",
            "connection": "keep-alive",
            "user-agent": f"opmon/{opmon.__version__}",
        }
        extensions = {"sni_hostname": self._server_name} if self._server_name else {}
        try:
            request = httpx.Request("GET", url, headers=headers, extensions=extensions)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ScrapeError("not_asked", f"{url} is no usable address: {error}") from error
        place = request.url
        if place.scheme not in ("http", "https") or not place.host or not 0 < _port(place) <= _LAST_PORT:
            raise ScrapeError("not_asked", f"{url} is no usable address: it must be like http://127.0.0.1:8000/metrics")
        if words := refusal(request.url.host):
            raise ScrapeError("not_asked", words)
        return request

    def _current_authorization(self) -> str | None:
        try:
            authorization = self._authorization()
        except ConfigError as error:
            raise ScrapeError("not_asked", f"for want of the secret: {error}") from error
        if authorization is not None and not (authorization.isascii() and authorization.isprintable()):
            raise ScrapeError(
                "not_asked", "the secret of its `auth` cannot be sent: it has a character that no header can carry"
            )
        return authorization

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Sends the request and waits for the head of the answer.

        A kept connection may be closed by the server in the moment in which it is used again; that is no news of
        the target, so the request is repeated once on a new connection.
        """
        with _translated("connecting or waiting for the answer"):
            if self._is_warm:
                self._is_warm = False
                with contextlib.suppress(httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                    return await self._send_once(request)
            return await self._send_once(request)

    async def _send_once(self, request: httpx.Request) -> httpx.Response:
        self._doing = "still connecting or waiting for the answer"
        response = await self._transport.handle_async_request(request)
        self._is_warm = True
        return response

    async def _read(self, response: httpx.Response) -> tuple[bytes, int]:
        """The decoded body of an answer with status 200, and the number of bytes that came in."""
        if response.status_code != httpx.codes.OK:
            raise ScrapeError("http_status", _status_words(response))
        if int(response.headers.get("content-length") or 0) > self._max_bytes:
            raise self._too_large()
        chunks: list[bytes] = []
        size_bytes = 0
        with _translated("reading the answer", is_answering=True):
            async for chunk in response.aiter_raw():
                chunks.append(chunk)
                size_bytes += len(chunk)
                self._doing = f"still reading the answer ({size_bytes} bytes so far)"
                if size_bytes > self._max_bytes:
                    raise self._too_large()
        raw = b"".join(chunks)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        return (self._decoded(raw, encoding) if encoding not in ("", "identity") else raw), size_bytes

    def _decoded(self, raw: bytes, encoding: str) -> bytes:
        """Undoes the compression, never producing more than the limit however small the compressed bytes are."""
        if encoding not in _INFLATED:
            raise ScrapeError("encoding", f"the answer is encoded as {encoding!r}, which was not asked for")
        inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        try:
            body = inflater.decompress(raw, self._max_bytes + 1)
        except zlib.error as error:
            raise ScrapeError("encoding", f"the answer is broken {encoding}: {error}") from error
        if len(body) > self._max_bytes:
            raise self._too_large()
        if not inflater.eof or inflater.unused_data:
            raise ScrapeError("encoding", f"the {encoding} answer is cut off or has something behind its end")
        return body

    def _too_large(self) -> ScrapeError:
        return ScrapeError("too_large", f"the answer is larger than {self._max_bytes} bytes")


def _fetched(
    url: str, response: httpx.Response, body: bytes, size_bytes: int, *, first_byte_ms: int, took_ms: int
) -> Fetched:
    """What came, with what its head says of it."""
    headers = response.headers
    age = headers.get("age", "").strip()
    return Fetched(
        url,
        headers.get("content-type"),
        body,
        first_byte_ms,
        took_ms,
        size_bytes,
        is_ended_by_close="content-length" not in headers
        and "transfer-encoding" not in headers
        and headers.get("content-encoding", "identity").strip().lower() in ("", "identity"),
        age_seconds=int(age) if _AGE.fullmatch(age) else 0,
        is_said_stale=_STALE.search(headers.get("warning", "")) is not None,
    )


def _redirected(response: httpx.Response) -> str:
    """Where a redirect leads, if that is the same scheme, host and port; else ScrapeError."""
    location = response.headers.get("location", "")
    try:
        here = response.request.url
        there = here.join(location)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise ScrapeError("redirect", f"redirected to {location[:200]!r}, which is no address: {error}") from error
    if not location:
        raise ScrapeError("redirect", f"HTTP {response.status_code} without a place to go to")
    if words := refusal(there.host):
        raise ScrapeError("redirect", f"redirected to another origin: {words}")
    if (here.scheme, here.host, _port(here)) != (there.scheme, there.host, _port(there)):
        raise ScrapeError("redirect", f"redirected to {there.scheme}://{there.host}:{_port(there)}, another origin")
    return str(there.copy_with(username=None, password=None, fragment=None))


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _status_words(response: httpx.Response) -> str:
    words = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    refused = response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    return f"{words}: its `auth` is missing or wrong" if refused else words


_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    httpcore.ProxyError,
    httpx.HTTPError,
    httpx.StreamError,
    OSError,
    UnicodeError,
    ExceptionGroup,
)
# What httpcore and h11 say where the connection ends before the head, and before the end, of an answer.
_NO_ANSWER = "Server disconnected without sending a response"
_CUT_OFF = "peer closed connection without sending complete message body"


@contextlib.contextmanager
def _translated(doing: str, *, is_answering: bool = False) -> Iterator[None]:
    """Turns what httpcore and the system raise into ScrapeError. anyio wraps what it does not expect in a group.

    `is_answering`: the head of an answer was read, so that whatever ends the connection cuts the answer off.
    """
    try:
        yield
    except _FAILURES as error:
        kind, words = _kind_and_words(error, is_answering=is_answering)
        # What cannot be sent may be the secret: neither its words nor the exception itself may come into the log.
        raise ScrapeError(kind, f"{doing}: {words}") from (None if kind == "not_asked" else error)


def _kind_and_words(error: Exception, *, is_answering: bool) -> tuple[str, str]:
    """Which kind of failure an exception is, and what to tell of it."""
    groups = BaseExceptionGroup
    said = next(
        (str(link) for link in _links(error) if str(link) and not isinstance(link, groups)), type(error).__name__
    )
    if handshake := next((link for link in _links(error) if isinstance(link, ssl.SSLError)), None):
        return "tls", said + remedy(handshake)
    match error:
        case httpcore.LocalProtocolError() | httpcore.UnsupportedProtocol() | UnicodeError():
            return "not_asked", f"the request cannot be sent ({type(error).__name__})"
        case httpcore.RemoteProtocolError() if said.startswith(_NO_ANSWER):
            return "connect", "the server closed the connection without an answer"
        case httpcore.RemoteProtocolError() if not said.startswith(_CUT_OFF):
            return "protocol", f"the answer is no proper HTTP/1.1; is it the right port, and http or https? ({said})"
        case _ if is_answering:
            return "truncated", f"the answer is cut off: {said}"
        case _:
            return "connect", said


def _links(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that it came from; of a group the first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.exceptions[0] if isinstance(link, BaseExceptionGroup) else link.__cause__ or link.__context__
