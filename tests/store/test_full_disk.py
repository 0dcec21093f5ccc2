"""A disk that is full for a while: samples wait for it, upkeep does not, and nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from opmon.core.model import View
from opmon.core.states import Step
from opmon.errors import StoreError
from opmon.store import Store
from opmon.store.database import Database, is_disk_fault
from opmon.store.writer import Writer
from tests.needs import ROOT
from tests.store.filling import ROWS
from tests.store.history import RECORD, START_MS
from tests.store.test_rows import row

BATCHES = 150
DISK_BYTES = 3 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 3 MB; only root may mount one, and not everywhere."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("a disk that can be filled: there is no `mount`")
    if mounted.returncode:
        pytest.skip(f"a disk that can be filled: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """Takes all the room that is left."""
    ballast = place / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    return ballast


def test_samples_wait_for_a_full_disk_and_are_all_written_once_there_is_room(disk: Path) -> None:
    path = disk / "opmon.db"
    with Database.open(str(path), read_only=False, create=True) as database:
        store, writer = Store(database), Writer()
        store.save_target(RECORD)
        ballast = fill(disk)
        batches = [[Step(row(second)) for second in range(first, first + 50)] for first in range(0, 3000, 50)]
        written = [writer.submit(partial(store.append, "one", batch), outlasts_faults=True) for batch in batches]
        assert not writer.flush(1.5)
        assert "disk is full" in writer.trouble
        assert (0, 0) == (writer.failed, writer.overflowed)
        ballast.unlink()
        assert [50] * len(batches) == [one.result(30).stored for one in written]
        assert "" == writer.trouble
        assert writer.close()
        rows = store.rows(View("one"), START_MS - 10_000, START_MS + 100_000_000, context=False)
        assert 3000 == len(rows)


def test_what_somebody_waits_for_says_at_once_that_the_disk_is_full(disk: Path) -> None:
    path = disk / "opmon.db"
    with Database.open(str(path), read_only=False, create=True) as database:
        store, writer = Store(database), Writer()
        store.save_target(RECORD)
        ballast = fill(disk)
        many = [Step(row(second)) for second in range(3000)]
        with pytest.raises(StoreError, match=r"opmon\.db: database or disk is full") as caught:
            writer.submit(partial(store.append, "one", many)).result(10)
        assert is_disk_fault(caught.value)
        ballast.unlink()
        assert 3000 == writer.submit(partial(store.append, "one", many)).result(10).stored
        assert writer.close()


def test_a_disk_that_stays_full_fills_the_queue_and_the_rest_is_refused_and_counted(disk: Path) -> None:
    with Database.open(str(disk / "opmon.db"), read_only=False, create=True) as database:
        store, writer = Store(database), Writer(capacity=60)
        store.save_target(RECORD)
        fill(disk)
        batches = [[Step(row(second)) for second in range(first, first + 500)] for first in range(0, 50_000, 500)]
        submitted = [writer.submit(partial(store.append, "one", batch), outlasts_faults=True) for batch in batches]
        assert not writer.flush(1)
        assert 40 - writer.done <= writer.overflowed <= 40
        with pytest.raises(StoreError, match="60 writes wait already"):
            submitted[-1].result(0)
        assert not writer.close(0.1)
        refused = [one for one in submitted if one.exception(20) is not None]
        assert len(batches) - writer.done == len(refused)
        with pytest.raises(StoreError, match="not written, for the database could not be until opmon ended"):
            submitted[writer.done].result(0)


def test_a_limit_on_the_size_of_files_is_waited_for_and_lifted_nothing_is_lost(path: Path) -> None:
    """What a disk that is full is to a process, without a disk of its own: needs no rights."""
    prlimit = ("prlimit", "--pid")
    if not any(os.access(Path(folder) / "prlimit", os.X_OK) for folder in os.environ["PATH"].split(os.pathsep)):
        pytest.skip("a limit on the size of files: there is no `prlimit`")
    Database.open(str(path), read_only=False, create=True).close()
    # Python ignores SIGXFSZ, so a write beyond the limit fails instead of killing the process.
    command = [sys.executable, "-m", "tests.store.filling", str(path), str(BATCHES)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writing:
        assert writing.stdout is not None
        subprocess.run([*prlimit, str(writing.pid), f"--fsize={path.stat().st_size + 300_000}:unlimited"], check=True)
        first = writing.stdout.readline()
        assert first.startswith("trouble: "), first
        assert "full" in first or "I/O" in first
        lift = [*prlimit, str(writing.pid), "--fsize=unlimited:unlimited"]
        threading.Timer(1.0, subprocess.run, (lift,)).start()
        ended = json.loads(writing.communicate(timeout=90)[0])
    assert (0, 0, BATCHES * ROWS) == (ended["failed"], ended["overflowed"], ended["stored"])
    assert ended["retries"] > 0
    with Database.open(str(path), read_only=True) as database:
        store = Store(database)
        rows = store.rows(View("one"), 0, 1 << 60, context=False)
        assert BATCHES * ROWS == len(rows)
        assert [] == store.faults()
