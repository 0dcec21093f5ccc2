"""`opmon demo`: the service over a simulated server, with a day of its history replayed behind it.

The one place of the product that knows the simulator. Contains the wiring only; the history goes the production
path, attempt by attempt, at virtual instants.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.errors import ConfigError

if TYPE_CHECKING:
    from opmon.core.model import Attempt
    from opmon.service import Service
    from opmon.simulator.simulation import Simulation

DAY_MS = 86_400_000
HISTORY_INTERVAL_MS = 5_000
FULL_EVERY = 6
BATCH = 360
SWEEP = "example-drafters"
TARGET = "simulated-vllm"
TOOK_MS = 3


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
    _refuse_address(listen)
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


def _refuse_address(listen: str | None) -> None:
    """Raises ConfigError for an address that the demo cannot have, before it works through a day for nothing."""
    from opmon.config import check_secrets, load
    from opmon.serving import bind

    # Whether it may be reached without a token is asked below, in words that fit the demo.
    settings = load(None, {"web.listen": listen, "web.insecure": True}, _environment("http://127.0.0.1"))
    if not settings.web.is_loopback and settings.web.token_file is None:
        message = (
            f"{settings.web.listen} can be reached from other machines; the demo shows itself to this one"
            " (127.0.0.1:8917), or to who knows the token in the file that OPMON_TOKEN_FILE names"
        )
        raise ConfigError(message)
    check_secrets(settings)
    bind(settings).close()


def _serve(folder: Path, url: str, listen: str | None, history: _History) -> None:
    from opmon.cli.serve_command import run
    from opmon.config import load
    from opmon.service import Service

    settings = load(None, {"storage.url": str(folder / "demo.db"), "web.listen": listen}, _environment(url))
    target = settings.targets[0].model_copy(update={"name": TARGET})
    settings = settings.model_copy(update={"targets": (target,)})
    history.begin(settings.storage.url, target.url)
    run(Service(settings, progress=lambda: history.progress, beside=(history.replay,)))


def _environment(url: str) -> dict[str, str]:
    """The demo takes nothing from the environment but where it may listen."""
    kept = {name: value for name, value in os.environ.items() if name in ("OPMON_LISTEN", "HOME", "OPMON_TOKEN_FILE")}
    return {**kept, "OPMON_TARGET": url}


class _History:
    """The day before the start, replayed beside the live watch. `progress` is the share done, None at the end."""

    def __init__(self, past: Simulation, start_ms: int, end_ms: int) -> None:
        self.progress: float | None = 0.0
        self._past = past
        self._strata = range(start_ms, end_ms - end_ms % HISTORY_INTERVAL_MS, HISTORY_INTERVAL_MS)

    def begin(self, database_url: str, target_url: str) -> None:
        """Stores the day's first scrape and the example sweep before the service starts: it then goes on in the same
        epoch, since the simulated server has worked through the day without a restart."""
        from opmon.core.model import TargetRecord
        from opmon.core.snapshot import SnapshotReader
        from opmon.pipeline import Observer
        from opmon.store import Store
        from opmon.store.database import Database
        from opmon.sweeps.detect import example_sweep_bytes, read_sweep

        self._reader = SnapshotReader()
        self._observer = Observer(TargetRecord(TARGET, target_url, pulse_interval_ms=HISTORY_INTERVAL_MS))
        with Database.open(database_url, read_only=False, create=True) as database:
            store = Store(database)
            store.save_target(self._observer.record)
            first = self._observer.observe(self._attempt(0))
            store.append(TARGET, [first], self._observer.record)
            store.import_sweep(SWEEP, read_sweep(example_sweep_bytes(), f"{SWEEP}.csv"), self._strata.stop)

    async def replay(self, service: Service) -> None:
        """Feeds the rest of the day through observer and store, in a thread: the event loop goes on scraping."""
        await asyncio.to_thread(self._feed, service)

    def _feed(self, service: Service) -> None:
        for first in range(1, len(self._strata), BATCH):
            numbers = range(first, min(first + BATCH, len(self._strata)))
            batch = [self._observer.observe(self._attempt(number)) for number in numbers]
            service.writer.submit(partial(service.store.append, TARGET, batch)).result()
            # Rolled up as it comes, so that the page stays quick while the day fills up behind it.
            service.writer.submit(partial(service.store.roll_up, service.clock.now_ms())).result()
            self.progress = numbers.stop / len(self._strata)
        self.progress = None

    def _attempt(self, number: int) -> Attempt:
        """The attempt of the day's stratum `number`, at the instant at which the service would have made it."""
        from opmon.core.engines import PULSE_NAMES
        from opmon.core.model import Lane
        from opmon.pipeline import attempt_of_page
        from opmon.trigger import fire_ms

        at_ms = fire_ms(TARGET, self._strata[number], HISTORY_INTERVAL_MS)
        lane = Lane.PULSE if number % FULL_EVERY else Lane.FULL
        page = self._past.page(at_ms, PULSE_NAMES if lane is Lane.PULSE else None)
        return attempt_of_page(
            page, at_ms=at_ms, took_ms=TOOK_MS, interval_ms=HISTORY_INTERVAL_MS, lane=lane, reader=self._reader
        )
