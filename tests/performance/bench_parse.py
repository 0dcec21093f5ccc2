"""Reading one exposition, side by side: prometheus_client's whole page against what opmon needs of it.

Run as `python tests/performance/bench_parse.py [FILE...]`. Prints CPU milliseconds a page (the best of several
rounds, so that neighbours on the machine matter little) and the ratio to the library within the same run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from opmon.core.engines import wanted_names
from opmon.core.exposition import Reader
from opmon.core.model import Lane
from opmon.core.snapshot import SnapshotReader, read_snapshot

PAGES = Path(__file__).parents[1] / "data" / "expositions"
ROUNDS, PAGES_A_ROUND = 9, 20


def cpu_ms(read: Callable[[], object]) -> float:
    """CPU milliseconds of one call, the best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(PAGES_A_ROUND):
            read()
        best = min(best, (time.process_time() - before) / PAGES_A_ROUND * 1000)
    return best


def methods(body: bytes) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is compared, the library first."""
    text = body.decode()
    yield "prometheus_client, whole page", lambda: list(text_string_to_metric_families(text))
    yield "snapshot of a full scrape, first page of a server", lambda: read_snapshot(body)
    snapshots = SnapshotReader()
    yield "snapshot of a full scrape, following pages", lambda: snapshots.read(body, lane=Lane.FULL)
    yield "snapshot of a pulse from a whole page", lambda: snapshots.read(body, lane=Lane.PULSE)
    reader = Reader(wanted_names("auto", Lane.PULSE))
    yield "of that, lines to samples", lambda: reader.read(body)
    wanted = wanted_names("auto", Lane.PULSE)
    pulse = b"\n".join(line for line in body.split(b"\n") if line.split(b"{")[0].split(b" ")[0].decode() in wanted)
    yield "snapshot of a filtered pulse", lambda: snapshots.read(pulse, lane=Lane.PULSE)


def main(paths: list[Path]) -> None:
    """Prints one table a file."""
    for path in paths:
        body = path.read_bytes()
        print(f"{path.name}: {len(body)} bytes, {len(body.splitlines())} lines")
        library = None
        for name, read in methods(body):
            spent = cpu_ms(read)
            library = library or spent
            print(f"  {spent:8.3f} ms {library / spent:7.1f}x  {name}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or sorted(PAGES.glob("*load*.prom")))
