"""The production path over a hostile target: scraper, observer, store and reports, with real sockets and a real file.

Contains no expectations. The strata are played: a stratum passes when its attempt is over, but deadlines are real.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from opmon.core.answers import ConcurrencySeries, OperatingPoint, Selector
from opmon.core.model import Epoch, Lane, Row, TargetRecord, View
from opmon.core.sums import Sums, add
from opmon.pipeline import Observation, Observer
from opmon.reports import Reports
from opmon.reports.asks import WindowAsk
from opmon.scrape.scraper import Scraper, ScrapeTarget
from opmon.store import Store
from tests.hostile.badserver import BadServer

START_MS = 1_800_000_000_000
INTERVAL_MS = 1000
FULL_EVERY = 30
MAX_BYTES = 2_000_000
BATCH = 10


class StratumClock:
    """The wall clock of the played strata, and the machine's monotonic clock for what takes real time."""

    def __init__(self) -> None:
        self.value_ms = START_MS

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


@dataclass
class Watched:
    """What is stored of a target, and the last record."""

    record: TargetRecord
    rows: list[Row]
    epochs: list[Epoch]
    sums: Sums
    point: OperatingPoint
    series: ConcurrencySeries
    details: list[str]

    @property
    def states(self) -> dict[str, int]:
        """Strata per state; those of failures under their kind."""
        return dict(Counter(row.kind or row.state.value for row in self.rows))

    @property
    def levels(self) -> dict[int, int]:
        """Observed strata per running level."""
        return {level: ms // INTERVAL_MS for level, ms in self.sums.running.items()}

    @property
    def causes(self) -> tuple[str, ...]:
        return tuple(epoch.cause for epoch in self.epochs)


async def watch(
    store: Store, server: BadServer, name: str, strata: int, *, timeout_ms: int = 1500, host: str = "127.0.0.1"
) -> Watched:
    """Scrapes a mode once a stratum, stores what was observed, and reads it back."""
    clock = StratumClock()
    url = server.url(name, host)
    scraper = Scraper(ScrapeTarget(name, url, timeout_ms=timeout_ms, max_bytes=MAX_BYTES), clock)
    observer = Observer(TargetRecord(name, url))
    store.save_target(observer.record)
    details: list[str] = []
    batch: list[Observation] = []
    try:
        for step in range(strata):
            server.step = step
            clock.value_ms = START_MS + step * INTERVAL_MS
            lane = Lane.PULSE if step % FULL_EVERY else Lane.FULL
            observation = observer.observe(await scraper.scrape(clock.value_ms, INTERVAL_MS, lane))
            batch.append(observation)
            if len(batch) == BATCH or step == strata - 1:
                store.append(name, batch, observer.record)
                batch = []
            details.append(observation.step.detail)
    finally:
        await scraper.aclose()
    return stored(store, name, strata, details)


def stored(store: Store, name: str, strata: int, details: list[str]) -> Watched:
    """What the database and a report say of the played strata."""
    view, end_ms = View(name), START_MS + strata * INTERVAL_MS
    sums = Sums()
    for one in store.window(view, START_MS, end_ms).values():
        add(sums, one)
    clock = StratumClock()
    clock.value_ms = end_ms + 10_000
    ask, reports = WindowAsk(start_ms=START_MS, end_ms=end_ms), Reports(store, clock)
    return Watched(
        store.target(name),
        store.rows(view, START_MS, end_ms, context=False),
        list(store.epochs(name, START_MS, end_ms)),
        sums,
        reports.operating_point(Selector(target=name), ask),
        reports.concurrency(Selector(target=name), ask, INTERVAL_MS),
        details,
    )
