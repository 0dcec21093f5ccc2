"""A simulation observed at virtual instants: the production path without scheduler and sockets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from opmon.clock import ManualClock
from opmon.core.engines import PULSE_NAMES
from opmon.core.model import Attempt, Ceiling, Lane, TargetRecord
from opmon.pipeline import Observation, Observer, attempt_of_failure, attempt_of_page
from opmon.reports import Reports
from opmon.simulator.simulation import Down, Simulation
from opmon.store import Store
from opmon.store.database import Database
from opmon.trigger import fire_ms

NAME = "simulated"
BATCH = 300


@dataclass
class Observed:
    """A simulation that was watched from its start to its end, and what there is to ask."""

    reports: Reports
    store: Store
    start_ms: int
    end_ms: int


def scrape(simulation: Simulation, name: str, stratum_ms: int, interval_ms: int, lane: Lane) -> Attempt:
    """One attempt of the simulation in a stratum, at the instant at which the service would make it."""
    at_ms = fire_ms(name, stratum_ms, interval_ms)
    try:
        page = simulation.page(at_ms, None if lane is Lane.FULL else PULSE_NAMES)
    except Down:
        return attempt_of_failure(
            "connection refused", kind="connect", at_ms=at_ms, took_ms=1, interval_ms=interval_ms, lane=lane
        )
    return attempt_of_page(page, at_ms=at_ms, took_ms=2, interval_ms=interval_ms, lane=lane)


def watch(simulation: Simulation, store: Store, record: TargetRecord, *, start_ms: int, end_ms: int) -> None:
    """Watches the simulation over `[start_ms, end_ms)` through observer and store."""
    observer = Observer(record)
    interval_ms = record.pulse_interval_ms
    store.save_target(observer.record)
    batch: list[Observation] = []
    for stratum_ms in range(start_ms, end_ms, interval_ms):
        lane = Lane.PULSE if stratum_ms % max(30_000, interval_ms) else Lane.FULL
        batch.append(observer.observe(scrape(simulation, record.name, stratum_ms, interval_ms, lane)))
        if len(batch) >= BATCH:
            store.append(record.name, batch)
            store.roll_up(stratum_ms)
            batch = []
    store.append(record.name, batch)
    store.save_target(observer.record)


def observe(
    simulation: Simulation,
    folder: Path,
    *,
    start_ms: int,
    end_ms: int,
    interval_ms: int = 1000,
    ceiling: int | None = None,
) -> Observed:
    """Watches the simulation as the only target of a new store."""
    store = Store(Database.open(str(folder / "opmon.db"), read_only=False, create=True))
    ceilings = (Ceiling(ceiling, "configured"),) if ceiling else ()
    record = TargetRecord(NAME, "http://127.0.0.1:1", pulse_interval_ms=interval_ms, ceilings=ceilings)
    watch(simulation, store, record, start_ms=start_ms, end_ms=end_ms)
    return Observed(Reports(store, ManualClock(end_ms)), store, start_ms, end_ms)
