"""What a full queue drops: it is counted by rows, and the epoch that began meanwhile is not among it."""

from __future__ import annotations

import asyncio
import threading

from opmon.clock import AnchoredClock
from opmon.config import Settings, Target
from opmon.core.model import View
from opmon.exporter import Exporter
from opmon.schedule import Schedule
from opmon.store import Store
from opmon.store.writer import Writer
from opmon.telemetry import Count, Telemetry
from opmon.watched import roster_of
from opmon.watching import Watching
from tests.store.test_services import server


def total(telemetry: Telemetry, count: Count) -> int:
    return sum(telemetry.counts(count).values())


async def watch_while_the_queue_is_full(url: str, store: Store, telemetry: Telemetry) -> int:
    """Watches from the first scrape on while nothing can be written; how many scrapes were dropped at least."""
    clock, writer, gate = AnchoredClock(), Writer(capacity=1), threading.Event()
    schedule = Schedule(clock, telemetry)
    watching = Watching(store, writer, Exporter(telemetry), telemetry, clock, schedule)
    await watching.follow(roster_of(Settings(targets=(Target(name="one", url=url),))).plans)
    writer.submit(gate.wait)
    schedule.start()
    for second in range(30):
        await asyncio.sleep(1)
        await watching.flush()
        if second >= 3 and total(telemetry, Count.STORE_LOST):
            break
    dropped = total(telemetry, Count.STORE_LOST)
    gate.set()
    await asyncio.to_thread(writer.flush, 10)
    await watching.flush()
    await asyncio.to_thread(writer.flush, 10)
    schedule.stop()
    await watching.aclose()
    assert await asyncio.to_thread(writer.close)
    return dropped


def test_rows_that_a_full_queue_drops_are_counted_but_the_begin_of_an_epoch_is_kept(store: Store) -> None:
    telemetry = Telemetry()
    with server() as url:
        dropped = asyncio.run(watch_while_the_queue_is_full(url, store, telemetry))
    assert dropped > 0
    assert dropped == total(telemetry, Count.STORE_LOST) == total(telemetry, Count.STORE_OVERFLOW)
    assert 0 == total(telemetry, Count.STORE_FAILURES)
    rows = store.rows(View("one"), 0, 1 << 60, context=False)
    assert len(rows) == total(telemetry, Count.STORE_ROWS)
    epochs = store.epochs("one", 0, 1 << 60)
    assert [(1, rows[0].stratum_ms)] == [(epoch.number, epoch.start_ms) for epoch in epochs]
    assert {1} == {row.epoch for row in rows}
    attempted = telemetry.scrapes("one")
    assert sum(attempted.values()) == len(rows) + dropped
