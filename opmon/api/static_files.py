"""The page's styles and modules, read once into memory, with a digest over all of them.

Contains no serving: that is `opmon.api.static_route`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
VENDOR_CHART = "vendor/uplot/uPlot.esm.js"


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


def static_files(contents: dict[str, bytes]) -> StaticFiles:
    """The files with their digest."""
    digest = hashlib.sha256()
    for name, body in contents.items():
        digest.update(f"{name}\x00{len(body)}\x00".encode())
        digest.update(body)
    return StaticFiles(contents, digest.hexdigest()[:12])


@cache
def packaged_files() -> StaticFiles:
    """The files of the installed package."""
    return static_files(walk(files("opmon.ui").joinpath("static")))
