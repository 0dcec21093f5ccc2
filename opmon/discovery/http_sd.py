"""Targets from a server that answers with Prometheus' JSON, and how any list is fetched.

Contains no transport of its own: deadline, size, redirects and TLS are those of a scrape.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from opmon.clock import Clock
from opmon.config import HttpSource
from opmon.discovery.listed import Entry, Listed, entries_of, listed
from opmon.discovery.parts import Parts
from opmon.errors import DiscoveryError, ScrapeError
from opmon.scrape.fetch import ACCEPT_JSON, Fetcher

DEADLINE_MS = 10_000
_ONLY_PART = "list"


class Http:
    """One `http_sd`."""

    def __init__(self, settings: HttpSource, clock: Clock) -> None:
        self.settings = settings
        self.parts = Parts()
        self._fetcher = Fetcher(clock, tls=settings.tls, authorization=settings.auth.header)

    async def read(self) -> Listed:
        """What the server names now. While it cannot be asked, it names what it did before."""
        entries, failure = await self.parts.read((_ONLY_PART,), self._entries)
        return listed(entries, self.settings.defaults, failure)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._fetcher.aclose()

    async def _entries(self, _part: str) -> tuple[Entry, ...]:
        url = self.settings.url
        return entries_of(await fetched_json(self._fetcher, url), without_query(url))


async def fetched_json(fetcher: Fetcher, url: str) -> Any:
    """The values that a URL answers with. Raises DiscoveryError, without the query: it may hold a secret."""
    place = without_query(url)
    try:
        fetched = await fetcher.get(url, deadline_ms=DEADLINE_MS, accept=ACCEPT_JSON)
    except ScrapeError as error:
        raise DiscoveryError(f"{place}: {error.detail}") from error
    try:
        return await asyncio.to_thread(json.loads, fetched.body)
    except (ValueError, RecursionError) as error:
        raise DiscoveryError(f"{place}: the answer is no JSON: {error}") from error


def without_query(url: str) -> str:
    """A URL as it may be shown."""
    return url.partition("?")[0]
