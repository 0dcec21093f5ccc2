"""Made-up histories of a server, with everything that can happen to it, and the rows that they must come to.

Contains no test. All counter values are whole multiples of 1/64, so that sums are exact in any order and a test may
compare them with `==`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opmon.core.fold import fold
from opmon.core.model import (
    BUCKET_FAMILIES,
    FULL_COUNTERS,
    PULSE_COUNTERS,
    Attempt,
    Buckets,
    Ceiling,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    Snapshot,
    State,
    TargetRecord,
    View,
)
from opmon.core.states import Relabel, Step, Tracker
from opmon.core.sums import Sums, add

START_MS = 1_699_999_200_000
"""A whole hour."""
ENGINES = (SeriesKey("alpha", "0"), SeriesKey("alpha", "1"), SeriesKey("beta", "0"))
INFINITY = float("inf")
BOUNDS = ((0.125, 0.5, 2.0, INFINITY), (0.25, 1.0, INFINITY))
CEILINGS = (Ceiling(3, "configured"), Ceiling(5, "server_info", START_MS + 5_000_000))
RECORD = TargetRecord("one", "http://one:8000/metrics", pulse_interval_ms=5_000, ceilings=CEILINGS)
VIEWS = (
    View("one"),
    View("one", "alpha"),
    View("one", "beta"),
    View("one", "alpha", "0"),
    View("one", "alpha", "1"),
    View("one", "beta", "0"),
    View("one", None, "0"),
)


@dataclass
class Played:
    """A server that is played by dice: what its next page would show."""

    dice: random.Random
    engines: tuple[SeriesKey, ...] = ENGINES[:1]
    started: float = 1.0
    bounds: tuple[float, ...] = BOUNDS[0]
    counters: dict[SeriesKey, dict[str, float]] = field(default_factory=dict)
    families: dict[SeriesKey, dict[str, list[float]]] = field(default_factory=dict)
    gauges: dict[SeriesKey, tuple[int, int]] = field(default_factory=dict)

    def work(self) -> None:
        """Load changes and counters move."""
        for key in self.engines:
            running = self.dice.choice((0, 0, 1, 1, 1, 2, 3))
            self.gauges[key] = (running, self.dice.choice((0, 0, 0, 1, 2)))
            self.move(key, {name: self.dice.randrange(200) / 64 for name in (*PULSE_COUNTERS, *FULL_COUNTERS)})

    def stand(self, running: int) -> None:
        """The gauges say that something runs, and nothing moves."""
        self.gauges = dict.fromkeys(self.engines, (running, 1))

    def first_token(self) -> None:
        """A long prefill comes to its end."""
        self.stand(1)
        self.move(self.engines[0], {"prompt_tokens": 100_000.0, "ttft_seconds_count": 1.0, "ttft_seconds_sum": 4_096.0})

    def restart(self) -> None:
        """Another process, other counters, perhaps other bounds."""
        self.started += 1.0
        self.counters.clear()
        self.families.clear()
        self.bounds = self.dice.choice(BOUNDS)

    def page(self, lane: Lane) -> Snapshot:
        """What a scrape shows."""
        return Snapshot("vllm", {key: self._sample(key, lane) for key in self.engines}, self.started)

    def move(self, key: SeriesKey, rises: Mapping[str, float]) -> None:
        counters = self.counters.setdefault(key, dict.fromkeys((*PULSE_COUNTERS, *FULL_COUNTERS), 0.0))
        for name, rise in rises.items():
            counters[name] += rise
        for name in BUCKET_FAMILIES:
            counts = self.families.setdefault(key, {}).setdefault(name, [0.0] * len(self.bounds))
            place = self.dice.randrange(len(counts))
            counts[place:] = [count + 1 for count in counts[place:]]

    def _sample(self, key: SeriesKey, lane: Lane) -> SeriesSample:
        running, waiting = self.gauges.get(key, (0, 0))
        counters = self.counters.get(key, {})
        if lane is Lane.PULSE:
            return SeriesSample(running, waiting, 0.25, {name: counters.get(name, 0.0) for name in PULSE_COUNTERS})
        buckets = {name: Buckets(self.bounds, tuple(counts)) for name, counts in self.families.get(key, {}).items()}
        return SeriesSample(running, waiting, 0.25, dict(counters), buckets)


def attempts(seed: int, hours: float, interval_ms: int = 5_000) -> Iterator[Attempt]:
    """Scrapes of a few hours in which calm load, failures, gaps, stalls, prefills, restarts and new engines alternate."""
    dice = random.Random(seed)
    server = Played(dice)
    now_ms, end_ms = START_MS + dice.randrange(100) * interval_ms, START_MS + round(hours * 3_600_000)
    while now_ms < end_ms:
        event = dice.choice(
            ("calm", "calm", "calm", "down", "gap", "invalid", "stall", "prefill", "restart", "engines")
        )
        length = dice.choice((1, 3, 20, 70, 200)) if event in ("calm", "down", "gap") else dice.choice((1, 30, 80))
        if event == "restart":
            server.restart()
        elif event == "engines":
            server.engines = ENGINES[: dice.randrange(1, 4)]
        for _ in range(length):
            if event != "gap":
                yield _attempt(server, event, now_ms, interval_ms)
            now_ms += interval_ms
        if event == "prefill":
            server.first_token()
            yield _scrape(server, now_ms, interval_ms)
            now_ms += interval_ms


def _attempt(server: Played, event: str, now_ms: int, interval_ms: int) -> Attempt:
    if event in ("stall", "prefill"):
        server.stand(2)
    else:
        server.work()
    attempt = _scrape(server, now_ms, interval_ms)
    if event == "down":
        return replace(attempt, snapshot=None, kind="timeout", detail="no answer")
    if event == "invalid" and attempt.snapshot is not None:
        return replace(attempt, snapshot=replace(attempt.snapshot, series={}, fault="not_finite"))
    return attempt


def _scrape(server: Played, now_ms: int, interval_ms: int) -> Attempt:
    lane = Lane.FULL if server.dice.random() < 0.2 else Lane.PULSE
    at_ms = now_ms + server.dice.randrange(interval_ms)
    return Attempt(now_ms, interval_ms, at_ms, 7, lane, server.page(lane), size_bytes=900)


class History:
    """The attempts of a seed as a tracker sees them, and the rows they come to, kept beside the store."""

    def __init__(self, seed: int, hours: float, interval_ms: int = 5_000) -> None:
        self.attempts = list(attempts(seed, hours, interval_ms))
        self.tracker = Tracker.fresh(stall_after_ms=RECORD.stall_after_ms)
        self.rows: dict[int, Row] = {}

    def steps(self, start: int, end: int) -> list[Step]:
        """Steps of the attempts from `start` to `end`, which also become rows of the reference."""
        found = [self.tracker.advance(attempt) for attempt in self.attempts[start:end]]
        for step in found:
            for relabel in step.relabels:
                self.relabel(relabel)
            self.rows[step.row.stratum_ms] = replace(step.row)
        return found

    def relabel(self, relabel: Relabel) -> None:
        """What the store must do with a relabelled stretch."""
        for stratum_ms, row in self.rows.items():
            good = row.state in (State.OBSERVED, State.STALLED)
            if relabel.start_ms <= stratum_ms < relabel.end_ms and good:
                row.state = relabel.state

    @property
    def end_ms(self) -> int:
        """The end of the last stratum so far."""
        return max((row.stratum_ms + row.interval_ms for row in self.rows.values()), default=START_MS)

    def fold(self, view: View, start_ms: int, end_ms: int, ceilings: Sequence[Ceiling] = CEILINGS) -> dict[int, Sums]:
        """The window by brute force: over every row there ever was."""
        rows = [self.rows[stratum_ms] for stratum_ms in sorted(self.rows)]
        return in_order(fold(rows, start_ms, end_ms, ceilings, view))


def in_order(per_epoch: Mapping[int, Sums]) -> dict[int, Sums]:
    """Sums that can be compared: bucket increases of one family have no order among themselves."""
    for sums in per_epoch.values():
        for families in sums.buckets.values():
            families.sort(key=lambda family: family.bounds)
    return dict(per_epoch)


def together(per_epoch: Mapping[int, Sums]) -> Sums:
    """All epochs in one."""
    total = Sums()
    for sums in per_epoch.values():
        add(total, sums)
    return in_order({0: total})[0]


def long_prefill() -> list[Attempt]:
    """An idle server, then one request that is read in for half an hour, and then its first token."""
    server = Played(random.Random(0))
    server.move(ENGINES[0], {})
    found = [_scrape(server, START_MS + number * 5_000, 5_000) for number in range(30)]
    server.stand(1)
    found += [_scrape(server, START_MS + number * 5_000, 5_000) for number in range(30, 400)]
    server.first_token()
    return [*found, _scrape(server, START_MS + 400 * 5_000, 5_000)]
