"""The page's styles and modules, read once into memory and served from there.

Contains no file access while serving: an address is looked up in a table, so no path can leave it. The address carries
a digest of all files (`/static/<digest>/...`), so a browser may keep them for good and still never mixes two versions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
VENDOR_CHART = "vendor/uplot/uPlot.esm.js"
FOR_GOOD = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files by their path below `static`, and the digest that stands in their addresses."""

    contents: dict[str, bytes]
    digest: str

    @property
    def has_chart_library(self) -> bool:
        """Whether the library of the interactive timeline was brought in when the package was built."""
        return VENDOR_CHART in self.contents


def walk(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    """The files that have a media type, with their contents."""
    found: dict[str, bytes] = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found |= walk(entry, f"{prefix}{entry.name}/")
        elif media_type(entry.name):
            found[prefix + entry.name] = entry.read_bytes()
    return found


def media_type(name: str) -> str | None:
    """By ending; None is not served."""
    return next((kind for ending, kind in MEDIA_TYPES.items() if name.endswith(ending)), None)


@cache
def static_files() -> StaticFiles:
    """The files of the installed package."""
    contents = walk(files("opmon.ui").joinpath("static"))
    digest = hashlib.sha256()
    for name, body in contents.items():
        digest.update(f"{name}\x00{len(body)}\x00".encode())
        digest.update(body)
    return StaticFiles(contents, digest.hexdigest()[:12])


def serve(request: Request) -> Response:
    """A file; one of another version is served too, but not kept."""
    name, known = request.path_params["name"], static_files()
    kind = media_type(name)
    if kind is None or name not in known.contents:
        raise HTTPException(404)
    caching = FOR_GOOD if request.path_params["digest"] == known.digest else "no-store"
    return Response(known.contents[name], headers={"Cache-Control": caching, "Content-Type": kind})


ROUTE = Route("/static/{digest}/{name:path}", serve, include_in_schema=False)
