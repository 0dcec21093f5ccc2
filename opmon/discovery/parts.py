"""A source of several parts (files, names, namespaces): each keeps its last list while it cannot be read.

Contains no reading.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from opmon.discovery.listed import Entry
from opmon.errors import DiscoveryError


class Parts:
    """The last list of each part of one source. `last` may be set to what it was before a start."""

    def __init__(self) -> None:
        self.last: Mapping[str, tuple[Entry, ...]] = {}

    async def read(
        self, parts: Iterable[str], read_one: Callable[[str], Awaitable[tuple[Entry, ...]]]
    ) -> tuple[list[Entry], str]:
        """What all parts name, and in words why some could not be read: these name what they named before.

        Parts that are not asked for any more are forgotten.
        """
        failures: list[str] = []
        now: dict[str, tuple[Entry, ...]] = {}
        for part in parts:
            try:
                now[part] = await read_one(part)
            except DiscoveryError as error:
                failures.append(str(error))
                now[part] = self.last.get(part, ())
        self.last = now
        return [entry for entries in now.values() for entry in entries], "; ".join(failures)
