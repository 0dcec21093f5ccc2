"""A running service whose wall clock is set forward and back, while its monotonic clock goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opmon.core.model import Row, State, View
from opmon.simulator import scenarios
from opmon.simulator.server import SimulatedServer, running_in_thread
from opmon.simulator.simulation import Simulation
from opmon.store import Store
from opmon.store.database import Database
from tests.needs import NEEDS, ROOT
from tests.processes import THIS_OPMON, free_port, process, words_of

STRATUM_MS = 1000
STRETCH_SECONDS = 15
OVERLAP_SECONDS = 8
# What a step itself may cost: the library looks at its file each second, opmon at the clock each half second.
STEP_MS = 2_000
# A busy machine may start a scrape too late now and then.
BUSY_MACHINE = 3


class WallClock:
    """The wall clock of one process, set by a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.set(0)

    def set(self, ahead_seconds: int) -> None:
        """How far it is ahead of the machine's."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{ahead_seconds:+d}\n", encoding="ascii")
        new.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(NEEDS["faketime"].find()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # The age of files is not what is asked here.
            "NO_FAKE_STAT": "1",
        }


@pytest.fixture
def busy() -> Iterator[str]:
    """A simulated server that decodes all the time."""
    start_ms = time.time_ns() // 1_000_000 - 5_000
    simulation = Simulation(scenarios.phase_locked(level=4, period_ms=1000, on_ms=900, seconds=600), start_ms=start_ms)
    with running_in_thread(SimulatedServer(simulation)) as url:
        yield url


class Kept:
    """What the database holds in the end."""

    def __init__(self, folder: Path) -> None:
        with Database.open(f"sqlite:///{folder / 'opmon.db'}", read_only=True, create=False) as database:
            store = Store(database)
            (target,) = store.targets()
            view = View(target.name)
            self.rows: list[Row] = store.rows(view, 0, 1 << 60)
            self.epochs = sorted(store.epochs(target.name, 0, 1 << 60), key=lambda epoch: epoch.number)
            self.sums = store.window(view, self.rows[0].stratum_ms, self.rows[-1].stratum_ms + STRATUM_MS)

    def lost(self, start_ms: int, end_ms: int) -> int:
        """Strata wholly within these instants that have no row, or one that does not count."""
        good = {row.stratum_ms for row in self.rows if row.state is State.OBSERVED}
        first_ms, last_ms = -(-start_ms // STRATUM_MS) * STRATUM_MS, end_ms // STRATUM_MS * STRATUM_MS
        return len(set(range(first_ms, last_ms, STRATUM_MS)) - good)

    def token_rates(self) -> dict[int, float]:
        """Output tokens a second by the number of the epoch."""
        increases = {number: sums.increases["generation_tokens"] for number, sums in self.sums.items()}
        return {number: one.total / one.elapsed_ms * 1000 for number, one in increases.items()}


@pytest.mark.timeout(300)
@pytest.mark.needs("faketime")
def test_steps_forward_and_back_cost_only_the_strata_of_the_steps(busy: str, tmp_path: Path) -> None:
    clock, listen = WallClock(tmp_path), f"127.0.0.1:{free_port()}"
    command = [*THIS_OPMON, "serve", "--target", busy, "--listen", listen, "--database", str(tmp_path / "opmon.db")]
    stretches: list[tuple[int, int]] = []
    with process(command, f"http://{listen}", tmp_path, python_path=str(ROOT), more=clock.environment) as opmon:
        opmon.wait_for("/-/ready")
        for ahead_seconds in (0, 3600, 0, -OVERLAP_SECONDS):
            clock.set(ahead_seconds)
            began_ms = time.time_ns() // 1_000_000 + ahead_seconds * 1000
            time.sleep(STRETCH_SECONDS)
            stretches.append((began_ms, began_ms + STRETCH_SECONDS * 1000))
            assert opmon.get("/api/v1/operating-point?window=3h"), "a report failed"
        metrics = (opmon.get("/metrics") or b"").decode()
        assert opmon.stop() == 0
        words = words_of(opmon.url, tmp_path)

    assert 3 == words.count("the wall clock stepped"), words
    assert "Traceback" not in words
    assert "a task failed" not in words
    kept = Kept(tmp_path)
    assert ["start", "clock", "clock"] == [epoch.cause for epoch in kept.epochs]
    for start_ms, end_ms in stretches[:3]:
        assert kept.lost(start_ms + STEP_MS, end_ms) <= BUSY_MACHINE
    # The strata of the last step back were there already; each has its first row, and then it goes on.
    assert kept.lost(stretches[3][0], stretches[3][1]) <= BUSY_MACHINE + STEP_MS // STRATUM_MS
    missed = re.search(r'^opmon_task_missed_total\{task="scrape"\} (\S+)$', metrics, re.MULTILINE)
    assert missed
    assert float(missed[1]) <= 4 * BUSY_MACHINE
    rates = kept.token_rates()
    assert {1, 2, 3} == set(rates)
    assert all(rates[1] / 1.5 < rate < rates[1] * 1.5 for rate in rates.values()), rates
    assert all(one.total >= 0 for sums in kept.sums.values() for one in sums.increases.values())
