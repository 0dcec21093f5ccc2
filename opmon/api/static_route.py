"""Serves the page's styles and modules.

Contains no file access: an address is looked up in a table, so no path can leave it. The address carries a digest of
all files (`/static/<digest>/...`), so a browser may keep them for good and still never mixes two versions.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opmon.api.door import parts_of
from opmon.api.static_files import media_type

FOR_GOOD = "public, max-age=31536000, immutable"


def serve(request: Request) -> Response:
    """A file; one of another version is served too, but not kept."""
    name, known = request.path_params["name"], parts_of(request).files
    kind = media_type(name)
    if kind is None or name not in known.contents:
        raise HTTPException(404)
    caching = FOR_GOOD if request.path_params["digest"] == known.digest else "no-store"
    return Response(known.contents[name], headers={"Cache-Control": caching, "Content-Type": kind})


ROUTE = Route("/static/{digest}/{name:path}", serve, include_in_schema=False)
