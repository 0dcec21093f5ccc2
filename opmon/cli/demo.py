"""`opmon demo`: the service over a simulated server, with a day of its history replayed behind it.

The one place of the product that knows the simulator. Contains the wiring only; the history goes the production
path, attempt by attempt, at virtual instants.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from opmon.pipeline import Observation
    from opmon.service import Service
    from opmon.simulator.simulation import Simulation

DAY_MS = 86_400_000
HISTORY_INTERVAL_MS = 5_000
FULL_EVERY = 6
BATCH = 360
SWEEP = "example-drafters"
TARGET = "simulated-vllm"
# The history's epochs are numbered below those of the live watch, whose first one is 1.
EPOCHS_BEFORE = -1000


@click.command()
@click.option("--listen", metavar="HOST:PORT", help="Address of the page. [default: 127.0.0.1:8917]")
@click.option("--seed", default=1, show_default=True, help="Another seed is another day of traffic.")
def demo(*, listen: str | None, seed: int) -> None:
    """Watches a simulated vLLM, with a day of its history and an example sweep loaded: a look around without a server.

    Everything lies in a temporary store that is deleted at the end.
    """
    from opmon import log
    from opmon.clock import SystemClock
    from opmon.simulator import scenarios
    from opmon.simulator.server import Faults, SimulatedServer, running_in_thread
    from opmon.simulator.simulation import Simulation

    log.set_up("warning")
    now_ms = SystemClock().now_ms()
    start_ms = (now_ms - DAY_MS) // HISTORY_INTERVAL_MS * HISTORY_INTERVAL_MS
    click.echo("opmon demo: a simulated server works through its last day ...", err=True)
    live = Simulation(scenarios.demo_day(seed, start_ms=start_ms), start_ms=start_ms)
    live.advance_to(now_ms)
    past = Simulation(scenarios.demo_day(seed, start_ms=start_ms), start_ms=start_ms)
    with (
        tempfile.TemporaryDirectory(prefix="opmon-demo-") as folder,
        running_in_thread(SimulatedServer(live, faults=Faults(dev_mode=True))) as url,
    ):
        _serve(Path(folder), url, listen, _History(past, start_ms, now_ms))


def _serve(folder: Path, url: str, listen: str | None, history: _History) -> None:
    from opmon.cli.serve_command import run
    from opmon.config import load
    from opmon.service import Service

    settings = load(None, {"storage.url": str(folder / "demo.db"), "web.listen": listen}, _environment(url))
    service = Service(
        settings.model_copy(update={"targets": (settings.targets[0].model_copy(update={"name": TARGET}),)}),
        progress=lambda: history.progress,
        beside=(history.replay,),
    )
    run(service)


def _environment(url: str) -> dict[str, str]:
    """The demo takes nothing from the environment but where it may listen."""
    import os

    kept = {name: value for name, value in os.environ.items() if name in ("OPMON_LISTEN", "HOME", "OPMON_TOKEN_FILE")}
    return {**kept, "OPMON_TARGET": url}


@dataclass(slots=True)
class _History:
    """The day before the start, replayed beside the live watch."""

    past: Simulation
    start_ms: int
    end_ms: int
    progress: float | None = 0.0

    async def replay(self, service: Service) -> None:
        """Loads the example sweep, then feeds the day through observer and store, batch by batch."""
        from opmon.sweeps.detect import example_sweep_bytes, read_sweep

        imported = read_sweep(example_sweep_bytes(), f"{SWEEP}.csv")
        service.writer.submit(lambda: service.store.import_sweep(SWEEP, imported, service.clock.now_ms()))
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.to_thread(self._feed, service)
        self.progress = None

    def _feed(self, service: Service) -> None:
        """In a thread of its own: the event loop goes on scraping meanwhile."""
        batch: list[Observation] = []
        for observation in self._observations(service):
            batch.append(observation)
            if len(batch) >= BATCH:
                self._store(service, batch)
                batch = []
        self._store(service, batch)
        service.writer.submit(lambda: service.store.roll_up(service.clock.now_ms())).result()

    def _store(self, service: Service, batch: list[Observation]) -> None:
        service.writer.submit(lambda: service.store.append(TARGET, batch)).result()
        if batch:
            self.progress = (batch[-1].attempt.stratum_ms - self.start_ms) / (self.end_ms - self.start_ms)

    def _observations(self, service: Service) -> Iterator[Observation]:
        from opmon.core.model import Lane
        from opmon.pipeline import Observer, attempt_of_failure, attempt_of_page
        from opmon.simulator.simulation import Down
        from opmon.trigger import fire_ms

        observer = Observer(service.watches[TARGET].observer.record)
        # Strata up to the live watch's first one, which the two must not share.
        end_ms = self.end_ms // HISTORY_INTERVAL_MS * HISTORY_INTERVAL_MS
        for number, stratum_ms in enumerate(range(self.start_ms, end_ms, HISTORY_INTERVAL_MS)):
            at_ms = fire_ms(TARGET, stratum_ms, HISTORY_INTERVAL_MS)
            lane = Lane.PULSE if number % FULL_EVERY else Lane.FULL
            try:
                page = self.past.page(at_ms)
                attempt = attempt_of_page(page, at_ms=at_ms, took_ms=3, interval_ms=HISTORY_INTERVAL_MS, lane=lane)
            except Down:
                attempt = attempt_of_failure(
                    "refused", kind="connect", at_ms=at_ms, took_ms=1, interval_ms=HISTORY_INTERVAL_MS, lane=lane
                )
            yield _before_live(observer.observe(attempt))


def _before_live(observation: Observation) -> Observation:
    """The same observation with its epochs numbered before the live ones."""
    step = observation.step
    step.row.epoch += EPOCHS_BEFORE
    return replace(
        observation,
        step=replace(
            step,
            new_epoch=step.new_epoch and replace(step.new_epoch, number=step.new_epoch.number + EPOCHS_BEFORE),
            learnt_epoch=step.learnt_epoch
            and replace(step.learnt_epoch, number=step.learnt_epoch.number + EPOCHS_BEFORE),
        ),
    )
