"""Services that come one after the other over one database: a target that returns goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opmon.core.model import Epoch, Row, TargetRecord, View
from opmon.simulator import scenarios
from opmon.simulator.server import Faults, SimulatedServer, running_in_thread
from opmon.simulator.simulation import Simulation
from opmon.store import Store
from opmon.store.database import Database
from tests.needs import ROOT
from tests.processes import THIS_OPMON, free_port, process
from tests.store.test_going_on import run


@contextmanager
def server() -> Iterator[str]:
    """A simulated server that has just been started."""
    start_ms = time.time_ns() // 1_000_000 - 2_000
    simulation = Simulation(scenarios.phase_locked(level=4, period_ms=1000, on_ms=500, seconds=600), start_ms=start_ms)
    with running_in_thread(SimulatedServer(simulation, faults=Faults(dev_mode=True))) as url:
        yield url


def serve(url: str, name: str, folder: Path, database: Path, rows: int = 4) -> None:
    """`opmon serve` over a target under a name, until it has stored so many rows more."""
    configuration = folder / "opmon.yml"
    configuration.write_text(f"targets:\n  - name: {name}\n    url: {url}\n")
    listen = f"127.0.0.1:{free_port()}"
    command = [*THIS_OPMON, "serve", "--config", str(configuration), "--listen", listen, "--database", str(database)]
    with process(command, f"http://{listen}", folder, python_path=str(ROOT)) as opmon:
        opmon.wait_for("/-/ready")
        deadline = time.monotonic() + 30
        before = stored(database, name)
        while stored(database, name) < before + rows:
            assert time.monotonic() < deadline, "no rows within 30 s"
            time.sleep(0.2)
        # What a target shows that is watched no more is not among the metrics.
        assert f'target="{name}"' in opmon.wait_for("/metrics").decode()
        other = "b" if name == "a" else "a"
        assert f'target="{other}"' not in opmon.wait_for("/metrics").decode()
        assert 0 == opmon.stop()


def stored(database: Path, name: str) -> int:
    return len(kept(database, name)[2])


def kept(database: Path, name: str) -> tuple[TargetRecord | None, list[Epoch], list[Row]]:
    """Everything that is stored of a target."""
    with Database.open(str(database), read_only=True) as opened:
        store = Store(opened)
        record = store.find(name)
        if record is None:
            return None, [], []
        good = [row for row in store.rows(View(name), 0, 1 << 60, context=False) if row.series]
        return record, list(store.epochs(name, 0, 1 << 60)), good


@pytest.mark.timeout(150)
def test_a_target_that_was_dropped_and_returns_keeps_its_history_and_its_epochs(tmp_path: Path) -> None:
    database = tmp_path / "d.db"
    with server() as url:
        serve(url, "a", tmp_path, database)
    record, epochs, rows = kept(database, "a")
    assert record is not None
    assert [1] == [epoch.number for epoch in epochs]
    with server() as url:
        serve(url, "b", tmp_path, database)
    removed, same, _ = kept(database, "a")
    assert removed is not None
    assert removed.removed_ms is not None
    assert epochs == same
    for arguments in (("--target", "a"), ("--target", "b"), ()):
        assert 0 == run("report", "--database", database, *arguments).exit_code
    # Started again in the meantime: another process, so another epoch.
    with server() as url:
        serve(url, "a", tmp_path, database)
        again, grown, all_rows = kept(database, "a")
    assert again is not None
    assert (None, record.first_scrape_ms) == (again.removed_ms, again.first_scrape_ms)
    assert [1, 2] == [epoch.number for epoch in grown]
    assert epochs[0].start_ms == grown[0].start_ms
    assert epochs[0].identity == grown[0].identity
    assert rows == all_rows[: len(rows)]
    assert {2} == {row.epoch for row in all_rows[len(rows) :]}
