"""What a killed process leaves behind: everything that it had committed, once."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from opmon.core.model import HOUR_MS, State
from opmon.store import Store
from opmon.store.database import Database
from tests.needs import ROOT
from tests.store.history import START_MS, VIEWS, History, in_order
from tests.store.writing import HOURS

SEED = 21
KILLS = 24


def start(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.writing", str(path), str(SEED)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def committed_before_the_kill(path: Path, batches: int) -> int:
    """Lets a writer commit some batches, kills it in the middle of the next, and gives the last stratum it reported.
    0: it had ended by itself."""
    with start(path) as process:
        assert process.stdout is not None
        last = 0
        for _ in range(batches):
            line = process.stdout.readline()
            if not line:
                return last
            last = int(line)
        process.kill()
    return last


def test_killing_the_writer_loses_nothing_that_was_committed_and_doubles_nothing(path: Path) -> None:
    dice = random.Random(SEED)
    for _ in range(KILLS):
        last_ms = committed_before_the_kill(path, dice.randrange(1, 9))
        with Database.open(str(path), read_only=True) as database:
            store = Store(database)
            rows = store.rows(VIEWS[0], START_MS, START_MS + 10 * HOUR_MS, context=False)
            assert rows[-1].stratum_ms >= last_ms
            history = History(SEED, HOURS)
            history.steps(0, len(rows))
            assert list(history.rows) == [row.stratum_ms for row in rows]
            for view in (dice.choice(VIEWS), VIEWS[0]):
                window = (START_MS + dice.randrange(HOUR_MS), history.end_ms - dice.randrange(1000))
                assert history.fold(view, *window) == in_order(store.window(view, *window))
    with start(path) as process:
        process.communicate(timeout=60)
    assert 0 == process.returncode
    with Database.open(str(path), read_only=True) as database:
        history = History(SEED, HOURS)
        history.steps(0, len(history.attempts))
        assert any(row.state is State.STALLED for row in history.rows.values())
        window = (START_MS, history.end_ms)
        assert history.fold(VIEWS[0], *window) == in_order(Store(database).window(VIEWS[0], *window))
