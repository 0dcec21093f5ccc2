"""What all sources name now: the last list of each, kept while the source fails, also over a start.

Contains no schedule. It says in the log when a source begins to fail, fails otherwise, or is well again; not each time.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from opmon.clock import Clock
from opmon.config import Target
from opmon.discovery.listed import Listed
from opmon.discovery.remembered import Memory, NoMemory, from_text, to_text
from opmon.discovery.sources import Source
from opmon.errors import DiscoveryError
from opmon.log import fields
from opmon.telemetry import Telemetry

logger = logging.getLogger("opmon.discovery")


@dataclass(frozen=True, slots=True)
class Status:
    """How a source is. `listed_ms`: when it was last read in full, None for never. `failure`, empty when it is well."""

    source: str
    targets: tuple[Target, ...] = ()
    left_out: tuple[str, ...] = ()
    failure: str = ""
    listed_ms: int | None = None


class Lists:
    """The sources, and how each is. Use it from one event loop."""

    def __init__(self, telemetry: Telemetry, clock: Clock, memory: Memory | None = None) -> None:
        """`memory` keeps the lists until the next start; without it they end with the process."""
        self._telemetry = telemetry
        self._clock = clock
        self._memory = memory or NoMemory()
        self._kept: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        self._status: dict[str, Status] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources that are asked."""
        return tuple(self._sources.values())

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How each source is, in their order."""
        return tuple(self._status.values())

    def targets(self) -> tuple[Target, ...]:
        """What all sources name, in their order; names may repeat."""
        return tuple(target for status in self._status.values() for target in status.targets)

    async def recall(self) -> None:
        """Takes what the memory holds; to be called once, before the first sources are adopted."""
        self._kept = dict(await asyncio.to_thread(self._memory.recall))

    async def adopt(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """Takes these sources instead of those it had; gives those that must be asked now.

        A source whose settings are the same stays as it is. One of a known name with other settings keeps the list of
        the one before until it has its own.
        """
        before = self._sources
        kept = {name for source in sources if (old := before.get(name := _name(source))) and _same(old, source)}
        self._sources = {_name(one): before[_name(one)] if _name(one) in kept else one for one in sources}
        self._status = {name: self._status.get(name, Status(name)) for name in self._sources}
        for name in before.keys() - self._sources.keys():
            self._telemetry.forget_source(name)
        for source in sources:
            self._go_on(source, before.get(_name(source)))
        for name in self._kept.keys() - self._sources.keys():
            self._keep(name, "")
        in_use = set(map(id, self._sources.values()))
        await _close(one for one in (*before.values(), *sources) if id(one) not in in_use)
        return tuple(source for name, source in self._sources.items() if name not in kept)

    async def refresh(self, source: Source) -> None:
        """Asks one source. A failure leaves its last list, is counted, and is told once."""
        name = _name(source)
        async with self._locks.setdefault(name, asyncio.Lock()):
            try:
                listed, text = await source.read(), to_text(source.settings, source.parts.last)
            except DiscoveryError as error:
                before = self._status.get(name, Status(name))
                listed, text = Listed(before.targets, before.left_out, str(error)), self._kept.get(name, "")
            if self._sources.get(name) is source:
                self._take(name, listed)
                self._keep(name, text)

    async def aclose(self) -> None:
        """Closes all sources."""
        await _close(self._sources.values())

    def _take(self, name: str, listed: Listed) -> None:
        before = self._status[name]
        now = replace(before, targets=listed.targets, left_out=listed.left_out, failure=listed.failure)
        if now.failure:
            self._telemetry.discovery_failed(name)
        else:
            now = replace(now, listed_ms=self._clock.now_ms())
        self._telemetry.discovery_listed(name, len(now.targets))
        self._status[name] = now
        _tell(before, now)

    def _go_on(self, source: Source, before: Source | None) -> None:
        """Gives a new source what it was listed with before: in this process, or before the start."""
        if before is None:
            source.parts.last = from_text(source.settings, self._kept.get(_name(source), ""))
        elif type(before) is type(source):
            source.parts.last = before.parts.last

    def _keep(self, name: str, text: str) -> None:
        """Keeps a list where it is another one than the one that is kept; an empty text removes that."""
        if self._kept.get(name, "") != text:
            self._memory.keep(name, text)
            self._kept[name] = text


def _tell(before: Status, now: Status) -> None:
    """One line per change."""
    if now.failure and _gist(now.failure) != _gist(before.failure):
        logger.warning(
            "a source of targets fails and keeps its last list",
            extra=fields(source=now.source, targets=len(now.targets), detail=now.failure),
        )
    if before.failure and not now.failure:
        logger.info("a source of targets is well again", extra=fields(source=now.source, targets=len(now.targets)))
    for words in sorted(set(now.left_out) - set(before.left_out)):
        logger.warning("a discovered target is left out", extra=fields(source=now.source, detail=words))


def _gist(words: str) -> str:
    """Words without their numbers: the same failure after another time, or with other sizes, is no change."""
    return re.sub(r"\d+", "", words)


def _name(source: Source) -> str:
    return str(source.settings.name)


def _same(one: Source, other: Source) -> bool:
    return one.settings == other.settings


async def _close(sources: Iterable[Source]) -> None:
    await asyncio.gather(*(source.aclose() for source in sources), return_exceptions=True)
