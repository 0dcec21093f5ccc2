"""What the store costs. Not a test: run it by hand, `python -m tests.performance.bench_store`.

It plays two hours of one server at a second each with realistic values, copies their roll-ups over thirty days, and
prints rows a second, bytes a day and milliseconds an answer.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opmon.core.model import (
    BUCKET_FAMILIES,
    FULL_COUNTERS,
    HOUR_MS,
    PULSE_COUNTERS,
    Buckets,
    Ceiling,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    State,
    TargetRecord,
    View,
)
from opmon.core.states import Step
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.retention import forecast_bytes

HOURS = 2
DAYS = 30
DAY_MS = 24 * HOUR_MS
START_MS = 1_699_920_000_000
KEY = SeriesKey("an-organization/A-Model-27B-Instruct", "0")
BOUNDS = (*(0.001 * 1.7**n for n in range(21)), float("inf"))
VIEW = View("one")


def steps(seconds: int) -> Iterator[Step]:
    """Load that wanders between 0 and 4, with sums that are no round numbers."""
    dice = random.Random(7)
    counters = dict.fromkeys((*PULSE_COUNTERS, *FULL_COUNTERS), 0.0)
    families = {name: [0.0] * len(BOUNDS) for name in BUCKET_FAMILIES}
    for second in range(seconds):
        running = dice.choice((0, 0, 1, 1, 2, 4))
        for name in counters:
            counters[name] += running * (dice.random() if name.endswith("_sum") else dice.randrange(60))
        for counts in families.values():
            place = dice.randrange(len(counts))
            counts[place:] = [count + running for count in counts[place:]]
        is_full = second % 30 == 0
        names = counters if is_full else PULSE_COUNTERS
        buckets = {name: Buckets(BOUNDS, tuple(counts)) for name, counts in families.items()} if is_full else {}
        usage = round(dice.random(), 4) if running else 0.0
        sample = SeriesSample(running, 0, usage, {name: counters[name] for name in names}, buckets)
        at_ms = START_MS + 1000 * second
        lane = Lane.FULL if is_full else Lane.PULSE
        yield Step(Row(at_ms, 1000, at_ms + dice.randrange(1000), lane, State.OBSERVED, 1, {KEY: sample}, None, 3))


def copy_over_days(store: Store) -> None:
    """The roll-ups of the first hour, for every hour of thirty days."""
    columns = "view, tier_minutes, bucket_ms, epoch, observed_ms, stalled_ms, invalid_ms, down_ms, as_view, sums"
    shifted = columns.replace("bucket_ms", "bucket_ms + {shift}")
    with store.database.exclusive() as connection:
        for hour in range(HOURS, DAYS * 24):
            connection.exec_driver_sql(
                f"INSERT INTO roll_ups ({columns}) SELECT {shifted.format(shift=hour * HOUR_MS)} FROM roll_ups "
                f"WHERE bucket_ms < {START_MS + HOUR_MS}"
            )
        connection.exec_driver_sql(f"UPDATE targets SET rolled_until_ms = {START_MS + DAYS * DAY_MS}")


def milliseconds(ask: Callable[[], object]) -> float:
    """The median of seven."""
    times = []
    for _ in range(7):
        begin = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begin) * 1000)
    return statistics.median(times)


def size(store: Store) -> int:
    """Bytes of the file, with everything in it."""
    with store.database.reading() as connection:
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int(connection.exec_driver_sql(pages).scalar_one())


def measure(store: Store) -> None:
    """Prints one figure a line."""
    store.save_target(TargetRecord("one", "http://one:8000/metrics", ceilings=(Ceiling(64, "configured"),)))
    empty, rows = size(store), list(steps(HOURS * 3600))
    begin = time.perf_counter()
    for step in rows[:1800]:
        store.append("one", [step])
    print(f"appended one by one: {1800 / (time.perf_counter() - begin):,.0f} rows/s")
    begin = time.perf_counter()
    for place in range(1800, len(rows), 60):
        store.append("one", rows[place : place + 60])
    print(f"appended 60 at once: {(len(rows) - 1800) / (time.perf_counter() - begin):,.0f} rows/s")
    print(f"raw, 1 s: {(size(store) - empty) * 24 / HOURS / 1e6:.1f} MB per target-day")
    end_ms = START_MS + HOURS * HOUR_MS
    print(f"raw window of {HOURS} h: {milliseconds(lambda: store.window(VIEW, START_MS, end_ms)):.0f} ms")
    begin = time.perf_counter()
    buckets = store.roll_up(end_ms + HOUR_MS)
    print(f"rolled up: {(time.perf_counter() - begin) / buckets * 1000:.1f} ms per bucket of 300 rows")
    before = size(store)
    copy_over_days(store)
    print(f"roll-ups, both tiers: {(size(store) - before) / DAYS / 1e6:.2f} MB per target-day")
    print(f"forecast for one target at the defaults: {forecast_bytes() / 1e6:.0f} MB")
    inside = (START_MS + 7 * DAY_MS + 61_234, START_MS + DAYS * DAY_MS - 1)
    whole = (START_MS, START_MS + DAYS * DAY_MS)
    print(f"window of {DAYS} days: {milliseconds(lambda: store.window(VIEW, *whole)):.0f} ms")
    print(f"window of 23 days, odd edges: {milliseconds(lambda: store.window(VIEW, *inside)):.0f} ms")
    week = (START_MS, START_MS + 7 * DAY_MS)
    print(f"timeline of 7 days by 30 min: {milliseconds(lambda: store.timeline(VIEW, *week, 1_800_000)):.0f} ms")
    print(f"timeline of 2 h by 10 s: {milliseconds(lambda: store.timeline(VIEW, START_MS, end_ms, 10_000)):.0f} ms")


def main() -> None:
    """Measures in a file of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="opmon-bench-") as folder,
        Database.open(str(Path(folder) / "opmon.db"), read_only=False, create=True) as database,
    ):
        measure(Store(database))


if __name__ == "__main__":
    main()
