"""ETag and 304: an answer that did not change is neither computed nor sent again.

Contains no computing of answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from opmon import __version__

# Kept by the browser, but asked for again each time: a number from yesterday must never look like one of now.
REVALIDATE = "private, no-cache"


def entity_tag(request: Request, *parts: str) -> str:
    """A weak tag of address, parts and opmon's version. Weak, because the same answer may be sent compressed."""
    text = "\x00".join((__version__, request.url.path, request.url.query, *parts))
    return f'W/"{hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]}"'


def is_known(request: Request, tag: str) -> bool:
    """Whether the caller already has what `tag` names (weak comparison, lists and `*` as RFC 9110 says)."""
    asked = [part.strip() for part in request.headers.get("if-none-match", "").split(",")]
    return "*" in asked or tag.removeprefix("W/") in {one.removeprefix("W/") for one in asked}


def conditional(request: Request, tag: str, build: Callable[[], Response]) -> Response:
    """304 where the caller has it already, else the answer with its tag."""
    headers = {"ETag": tag, "Cache-Control": REVALIDATE}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    answer = build()
    answer.headers.update(headers)
    return answer
