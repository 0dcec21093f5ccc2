"""Who may ask, and what a browser may do with the answer.

Host check against DNS rebinding, token, origin check for writes, limits on bodies, headers. Contains no login page and
no TLS: those belong to a proxy in front.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opmon.errors import ConfigError
from opmon.log import fields
from opmon.sweeps.detect import LARGEST_BYTES

logger = logging.getLogger("opmon.web")

# What a form may add to the file in it.
FORM_BYTES = 64 * 1024
UPLOAD_PATH = "/api/v1/sweeps"
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# Probes carry no token, and learn nothing but yes or no.
OPEN_PATHS = frozenset({"/-/healthy", "/-/ready", "/livez", "/readyz"})
HOST_REMEDY = "open it as localhost, or let the proxy in front send that name as Host"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# No `unsafe-inline` anywhere: what is not one of our own files neither runs nor styles.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# `same-origin` and not `no-referrer`: with the latter browsers send `Origin: null` with a form of our own page.
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """`token`: asked for as bearer, or as the password of HTTP Basic (what a browser can send); None asks for nothing.

    A callable gives the token that holds now, so that a changed one holds at once; where it gives None, nobody gets in.

    `check_host`: only names of this machine and `allowed_hosts` are answered (on a loopback address, where a page of
    another site could reach opmon by a name that it points at 127.0.0.1). A limit counts bytes of a request's body.
    """

    token: str | Callable[[], str | None] | None = None
    check_host: bool = True
    allowed_hosts: tuple[str, ...] = ()
    max_upload_bytes: int = LARGEST_BYTES + FORM_BYTES
    max_body_bytes: int = 64 * 1024


class TokenInForce:
    """The token as it stands in its file at each use. While it cannot be read, nobody gets in; that is logged once."""

    def __init__(self, read: Callable[[], str | None]) -> None:
        """`read` raises ConfigError where there is no token to be read."""
        self._read = read
        self._is_told = False

    def __call__(self) -> str | None:
        """The token, None for none."""
        try:
            token = self._read()
        except ConfigError as error:
            if not self._is_told:
                logger.error("nobody gets in: the token cannot be read", extra=fields(error=str(error)))  # noqa: TRY400  # a file is missing, which needs no traceback
            self._is_told = True
            return None
        if self._is_told:
            logger.info("the token can be read again")
        self._is_told = False
        return token


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    name: str
    detail: str
    challenge: bool = False

    def response(self) -> Response:
        """The refusal as a problem."""
        body = {
            "type": f"urn:opmon:problem:{self.name}",
            "title": "Refused",
            "status": self.status,
            "detail": self.detail,
        }
        answer = Response(
            msgspec.json.encode(body), self.status, {"Cache-Control": "no-store"}, "application/problem+json"
        )
        if self.challenge:
            answer.headers.append("WWW-Authenticate", 'Bearer realm="opmon"')
            answer.headers.append("WWW-Authenticate", 'Basic realm="opmon: any name, the token as password"')
        return answer


def host_name(host: str) -> str:
    """The name in a Host header, without port and brackets, in lower case; '' where it is no host."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def refuse_host(headers: Headers, settings: SecuritySettings) -> Refusal | None:
    """A name that is neither of this machine nor allowed."""
    name = host_name(headers.get("host", ""))
    allowed = {*LOOPBACK_HOSTS, *(host_name(one) for one in settings.allowed_hosts)}
    if not settings.check_host or name in allowed or name.endswith(".localhost"):
        return None
    return Refusal(421, "host", f"opmon listens on this machine only and is not called {name!r}; {HOST_REMEDY}")


def given_token(headers: Headers) -> bytes:
    """The token of a bearer, or the password of HTTP Basic, as sent; empty where neither can be read."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        # Headers are read as Latin-1: this gives back the bytes that were sent.
        return value.strip().encode("latin-1")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def refuse_token(path: str, headers: Headers, settings: SecuritySettings) -> Refusal | None:
    """No token, or another one. Compared in constant time."""
    if settings.token is None or path in OPEN_PATHS:
        return None
    token = settings.token if isinstance(settings.token, str) else settings.token()
    if token and hmac.compare_digest(given_token(headers), token.encode()):
        return None
    return Refusal(401, "token", "this opmon asks for its token: Authorization: Bearer <token>", challenge=True)


def refuse_origin(method: str, headers: Headers, settings: SecuritySettings) -> Refusal | None:
    """A write that a page of another site sends. What no browser sent has neither header and passes."""
    if method in SAFE_METHODS:
        return None
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        same = site in ("same-origin", "none")
    elif origin is not None:
        same = urlsplit(origin).netloc.lower() in {headers.get("host", "").lower(), *settings.allowed_hosts}
    else:
        same = True
    return None if same else Refusal(403, "origin", "a page of another site may not change anything here")


def body_limit(path: str, method: str, settings: SecuritySettings) -> int:
    """The most bytes that a body may have."""
    return settings.max_upload_bytes if (path, method) == (UPLOAD_PATH, "POST") else settings.max_body_bytes


def too_large(limit: int) -> Refusal:
    """The refusal of a body over the limit."""
    return Refusal(413, "too-large", f"the body is larger than the {limit} bytes that are accepted here")


def refuse_length(headers: Headers, limit: int) -> Refusal | None:
    """A declared length over the limit; what declares none is counted while it is read."""
    length = headers.get("content-length", "0")
    # Python reads no integer of thousands of digits.
    is_number = length.isdecimal() and len(length) <= 20
    return too_large(limit) if not is_number or int(length) > limit else None


def without_prefix(scope: Scope, prefix: str) -> Scope:
    """The scope as if a proxy had taken the prefix off; unchanged where one did."""
    path = scope["path"]
    if not prefix or not (path == prefix or path.startswith(prefix + "/")):
        return scope
    raw = scope.get("raw_path") or path.encode()
    return {**scope, "path": path[len(prefix) :] or "/", "raw_path": raw[len(prefix) :] or b"/"}


class Guard:
    """The outermost middleware: refuses what must not pass, and adds the headers to whatever leaves."""

    def __init__(self, app: ASGIApp, settings: SecuritySettings, path_prefix: str = "") -> None:
        self.app = app
        self.settings = settings
        self.prefix = path_prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = without_prefix(scope, self.prefix)
        limit = body_limit(scope["path"], scope["method"], self.settings)
        refusal = self._refusal(scope, limit)
        answer = refusal.response() if refusal else self.app
        await answer(scope, counted(receive, limit), with_headers(send))

    def _refusal(self, scope: Scope, limit: int) -> Refusal | None:
        headers = Headers(scope=scope)
        return (
            refuse_host(headers, self.settings)
            or refuse_token(scope["path"], headers, self.settings)
            or refuse_origin(scope["method"], headers, self.settings)
            or refuse_length(headers, limit)
        )


def counted(receive: Receive, limit: int) -> Receive:
    """`receive` that raises a 413 once more than `limit` bytes came; nothing beyond is kept."""
    seen = 0

    async def counting() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, too_large(limit).detail)
        return message

    return counting


def with_headers(send: Send) -> Send:
    """`send` that adds the security headers to the start of the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(SECURITY_HEADERS)
        await send(message)

    return sending
