"""Targets from files in Prometheus' format, JSON or YAML.

Contains no watching of folders: a file is read again when its time or size changed since it was last looked at.
"""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import yaml

from opmon.config import FileSource
from opmon.config.files import MOST_YAML_BYTES, read_regular
from opmon.discovery.apart import Apart
from opmon.discovery.listed import Entry, Listed, entries_of, listed
from opmon.discovery.parts import Parts
from opmon.errors import DiscoveryError

MOST_JSON_BYTES = 16 * 1024 * 1024

# The C loader is five times quicker where there is one. Both build plain values alone.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Time of the last change, size, number of the file: one of them differs whenever a file is another.
_Mark = tuple[int, int, int]


class Files:
    """One `file_sd`. A path without * must be there; a pattern may match nothing."""

    def __init__(self, settings: FileSource) -> None:
        self.settings = settings
        self.parts = Parts()
        self._apart = Apart()
        self._known: dict[str, tuple[_Mark, tuple[Entry, ...]]] = {}

    async def read(self) -> Listed:
        """What the files name now. A file that cannot be read names what it did before."""
        paths = await self._apart.run(", ".join(self.settings.files), self._paths)
        entries, failure = await self.parts.read(paths, lambda path: self._apart.run(path, lambda: self._entries(path)))
        self._known = {path: kept for path, kept in self._known.items() if path in paths}
        return listed(entries, self.settings.defaults, failure)

    async def aclose(self) -> None:
        """Nothing is held open."""

    def _paths(self) -> list[str]:
        found: dict[str, None] = {}
        for pattern in self.settings.files:
            folder, name = Path(pattern).parent, Path(pattern).name
            if not glob.has_magic(name):
                found[pattern] = None
                continue
            found |= dict.fromkeys(sorted(str(path) for path in folder.glob(name) if path.is_file()))
        return list(found)

    def _entries(self, path: str) -> tuple[Entry, ...]:
        """The entries of a file, read only if it changed."""
        try:
            stat = Path(path).stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if path in self._known and self._known[path][0] == mark:
                return self._known[path][1]
            most_bytes = MOST_JSON_BYTES if _is_json(path) else MOST_YAML_BYTES
            content = read_regular(path, most_bytes)
        except OSError as error:
            raise DiscoveryError(f"{path}: cannot be read: {error.strerror}") from error
        if len(content) > most_bytes:
            remedy = (
                "" if _is_json(path) else f"; write it as JSON, which may have {MOST_JSON_BYTES}, or as several files"
            )
            raise DiscoveryError(f"{path}: is larger than {most_bytes} bytes{remedy}")
        entries = entries_of(_parsed(content, path), path)
        self._known[path] = (mark, entries)
        return entries


def _parsed(content: bytes, path: str) -> Any:
    """The values in a file. Raises DiscoveryError."""
    kind = "JSON" if _is_json(path) else "YAML"
    try:
        return json.loads(content) if _is_json(path) else yaml.load(content, Loader=_LOADER)  # noqa: S506  # a safe one
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        words = " ".join(str(error).split())[:200]
        raise DiscoveryError(f"{path}: is no {kind}: {words}") from error


def _is_json(path: str) -> bool:
    return path.endswith(".json")
