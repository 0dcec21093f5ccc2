"""ETag and 304: an answer that did not change is neither computed nor sent again.

Contains no computing of answers.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
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


class Shared:
    """Bodies by tag, made one at a time.

    Making a page takes the processor, not waiting: two at once only make each other late, and who asks for the same
    page meanwhile gets the one that was just made.
    """

    def __init__(self, entries: int = 16) -> None:
        self._entries = entries
        self._bodies: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def body(self, tag: str, make: Callable[[], bytes]) -> bytes:
        """The body of that tag, made if it is not there."""
        with self._lock:
            if tag not in self._bodies:
                self._bodies[tag] = make()
                while len(self._bodies) > self._entries:
                    self._bodies.popitem(last=False)
            return self._bodies[tag]


def conditional_by_content(request: Request, answer: Response) -> Response:
    """The answer, or 304 where the caller has just that: for lists, which are quickly made and which commits of samples
    do not change."""
    tag = entity_tag(request, hashlib.sha256(bytes(answer.body)).hexdigest())
    return conditional(request, tag, lambda: answer)


def conditional(request: Request, tag: str, build: Callable[[], Response]) -> Response:
    """304 where the caller has it already, else the answer with its tag."""
    headers = {"ETag": tag, "Cache-Control": REVALIDATE}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    answer = build()
    answer.headers.update(headers)
    return answer
