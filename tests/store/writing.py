"""A process that stores a history and rolls it up until it is killed: `python -m tests.store.writing PATH SEED`.

Contains no test. It says on stdout how many attempts are committed, a line each batch; then goes on from where the
database ends when it is started again, as the service does.
"""

from __future__ import annotations

import random
import sys
import time

from opmon.core.model import View
from opmon.core.states import Tracker
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.retention import Retention
from tests.store.history import RECORD, START_MS, attempts

HOURS = 2.0


def main(path: str, seed: int) -> None:
    """Feeds what is missing, in small batches, with roll-ups in between. Ends by itself when nothing is left."""
    dice = random.Random(time.monotonic_ns())
    with Database.open(path, read_only=False, create=True) as database:
        store = Store(database)
        if not store.targets():
            store.save_target(RECORD)
        rows = store.recent_rows("one")
        tracker = Tracker.restore(store.current_epoch("one"), rows, RECORD.stall_after_ms)
        stored = store.rows(View("one"), START_MS, START_MS + 10 * 3_600_000, context=False)
        last_ms = stored[-1].stratum_ms if stored else 0
        waiting = [attempt for attempt in attempts(seed, HOURS) if attempt.stratum_ms > last_ms]
        while waiting:
            batch = waiting[: dice.randrange(1, 40)]
            del waiting[: len(batch)]
            store.append("one", [tracker.advance(attempt) for attempt in batch])
            store.roll_up(batch[-1].stratum_ms)
            store.retain(batch[-1].stratum_ms, Retention())
            sys.stdout.write(f"{batch[-1].stratum_ms}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
