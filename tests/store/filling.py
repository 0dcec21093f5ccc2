"""A process that hands a batch a tenth of a second to a writer: `python -m tests.store.filling PATH BATCHES`.

Contains no test. It says on stdout `trouble` when samples begin to wait, and at the end what became of them.
"""

from __future__ import annotations

import json
import random
import sys
import time
from functools import partial

from opmon.core.states import Tracker
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.writer import Writer
from tests.store.history import RECORD, attempts

ROWS = 20


def main(path: str, batches: int) -> None:
    """Ends when all was written, or half a minute after the last batch."""
    with Database.open(path, read_only=False, create=True) as database:
        store, writer = Store(database), Writer()
        store.save_target(RECORD)
        tracker, stream = Tracker.fresh(stall_after_ms=RECORD.stall_after_ms), iter(attempts(7, 40.0))
        told = False
        futures = []
        for _ in range(batches):
            steps = [tracker.advance(next(stream)) for _ in range(ROWS)]
            futures.append(writer.submit(partial(store.append, "one", steps), outlasts_faults=True))
            time.sleep(random.uniform(0.01, 0.03))
            if writer.trouble and not told:
                told = True
                sys.stdout.write(f"trouble: {writer.trouble}\n")
                sys.stdout.flush()
        writer.flush(30)
        ended = {"failed": writer.failed, "overflowed": writer.overflowed, "retries": writer.retries}
        stored = sum(future.result(0).stored for future in futures if future.done() and not future.exception())
        writer.close(5)
    sys.stdout.write(json.dumps({**ended, "stored": stored}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
