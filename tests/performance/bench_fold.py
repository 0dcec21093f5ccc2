"""How long a fold takes per row. Not a test: run it by hand, `python tests/performance/bench_fold.py`."""

from __future__ import annotations

import random
import statistics
import time

from opmon.core.fold import fold
from opmon.core.model import (
    FULL_COUNTERS,
    PULSE_COUNTERS,
    Buckets,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    State,
    View,
)

BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, float("inf"))


def rows_of(number: int, engines: int) -> list[Row]:
    """An hour-like target: pulses each second, every thirtieth a full scrape, load that wanders between 0 and 6."""
    dice = random.Random(7)
    counters = dict.fromkeys((*PULSE_COUNTERS, *FULL_COUNTERS), 0.0)
    found = []
    for index in range(number):
        lane = Lane.FULL if index % 30 == 0 else Lane.PULSE
        running = max(0, min(6, round(3 + 3 * dice.uniform(-1, 1))))
        for name in counters:
            counters[name] += running
        names = counters if lane is Lane.FULL else PULSE_COUNTERS
        sample = SeriesSample(
            running,
            running // 4,
            0.2,
            {name: counters[name] for name in names},
            {"e2e_seconds": Buckets(BOUNDS, tuple(float(index) for _ in BOUNDS))} if lane is Lane.FULL else {},
        )
        series = {SeriesKey("model", str(engine)): sample for engine in range(engines)}
        at_ms = index * 1000 + dice.randrange(1000)
        found.append(Row(index * 1000, 1000, at_ms, lane, State.OBSERVED, 1, series))
    return found


def main() -> None:
    """Prints microseconds per row, the median of five runs."""
    for engines in (1, 2, 8):
        rows = rows_of(20_000, engines)
        times = []
        for _ in range(5):
            begin = time.process_time()
            fold(rows, 0, 20_000_000, (), View("t"))
            times.append((time.process_time() - begin) / len(rows) * 1e6)
        print(f"{engines} engines: {statistics.median(times):.2f} us per row (best {min(times):.2f})")


if __name__ == "__main__":
    main()
