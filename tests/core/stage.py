"""A played server for the tests of the core: load by the second, and the attempts that a scraper would have made.

It decodes 10 tokens a second for each running request, and its counters run exactly with the scrape instants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from opmon.core.fold import CONTEXT_MS
from opmon.core.model import (
    FULL_COUNTERS,
    PULSE_COUNTERS,
    Attempt,
    Buckets,
    Epoch,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    Snapshot,
    State,
)
from opmon.core.states import Step, Tracker

ONE = SeriesKey("model", "0")
TOKENS_PER_SECOND = 10.0
INF = float("inf")


class Stage:
    """Plays a server. Every method advances the time and returns the attempts of that time."""

    def __init__(
        self, *, interval_ms: int = 1000, start_ms: int = 0, engines: Sequence[SeriesKey] = (ONE,), full_every: int = 30
    ) -> None:
        self.interval_ms = interval_ms
        self.now_ms = start_ms
        self.engines = tuple(engines)
        self.full_every = full_every
        self.scrapes = 0
        self.process_start = 1.0
        self.identity: dict[str, str] = {"kv_blocks": "100"}
        self.pulse_identity: dict[str, str] = {}
        self.counters = {key: self.zero() for key in engines}
        self.last_at_ms = start_ms

    @staticmethod
    def zero() -> dict[str, float]:
        return dict.fromkeys((*PULSE_COUNTERS, *FULL_COUNTERS), 0.0)

    def play(
        self, seconds: float, running: int = 0, waiting: int = 0, *, moving: bool = True, kv: float | None = None
    ) -> list[Attempt]:
        """Load that is held on every engine. `moving=False`: the gauges stand, and no counter moves."""
        return [self._scrape(running, waiting, kv, moving=moving) for _ in self._strata(seconds)]

    def finish_prefill(
        self, running: int = 1, waiting: int = 0, *, tokens: int = 5000, ttft_seconds: float = 300.0
    ) -> list[Attempt]:
        """One stratum in which a prompt has been taken in and its first token came out, `ttft_seconds` after it came."""
        for counters in self.counters.values():
            counters["prompt_tokens"] += tokens
            counters["ttft_seconds_count"] += 1
            counters["ttft_seconds_sum"] += ttft_seconds
            counters["generation_tokens"] += 1
        return [self._scrape(running, waiting, None, moving=False) for _ in self._strata(self.interval_ms / 1000)]

    def fail(self, seconds: float, kind: str = "connect") -> list[Attempt]:
        return [self._attempt(None, kind=kind) for _ in self._strata(seconds)]

    def spoil(self, seconds: float, fault: str = "not_finite", running: int = 0) -> list[Attempt]:
        """Pages whose values cannot be used, while load goes on."""
        attempts = self.play(seconds, running)
        return [replace(one, snapshot=replace(one.snapshot, fault=fault)) for one in attempts if one.snapshot]

    def skip(self, seconds: float, running: int = 0) -> list[Attempt]:
        """No attempts, while load goes on."""
        self.play(seconds, running)
        return []

    def restart(self, *, told: bool = True) -> list[Attempt]:
        """The process is new: counters from 0, and no time has passed. `told`: its start instant shows it too."""
        self.counters = {key: self.zero() for key in self.engines}
        if told:
            self.process_start += 1000
        return []

    def _strata(self, seconds: float) -> Iterable[int]:
        return range(round(seconds * 1000) // self.interval_ms)

    def _scrape(self, running: int, waiting: int, kv: float | None, *, moving: bool) -> Attempt:
        at_ms = self._instant()
        if moving:
            for key in self.engines:
                self._run(self.counters[key], running, (at_ms - self.last_at_ms) / 1000)
        self.last_at_ms = at_ms
        lane = Lane.FULL if self.scrapes % self.full_every == 0 else Lane.PULSE
        return self._attempt(self._snapshot(lane, running, waiting, kv), lane=lane)

    def _run(self, counters: dict[str, float], running: int, seconds: float) -> None:
        counters["generation_tokens"] += round(running * seconds * TOKENS_PER_SECOND)
        counters["itl_seconds_sum"] += running * seconds
        counters["itl_seconds_count"] += running
        if running and self.scrapes % 5 == 0:
            for name in counters:
                if name.endswith("_count") or name in ("finished_requests", "drafts"):
                    counters[name] += 1
            counters["prompt_tokens"] += 100
            counters["prompt_length_sum"] += 100
            counters["e2e_seconds_sum"] += 0.5

    def _snapshot(self, lane: Lane, running: int, waiting: int, kv: float | None) -> Snapshot:
        series = {}
        for key in self.engines:
            counters = self.counters[key]
            if lane is Lane.FULL:
                count = counters["e2e_seconds_count"]
                buckets = {"e2e_seconds": Buckets((0.3, 1.0, INF), (0.0, count, count))}
                series[key] = SeriesSample(running, waiting, kv, dict(counters), buckets)
            else:
                series[key] = SeriesSample(running, waiting, kv, {name: counters[name] for name in PULSE_COUNTERS})
        identity = {**self.pulse_identity, **(self.identity if lane is Lane.FULL else {})}
        return Snapshot("vllm", series, self.process_start, identity)

    def _instant(self) -> int:
        return self.now_ms + (self.now_ms // self.interval_ms * 7919) % self.interval_ms

    def _attempt(self, snapshot: Snapshot | None, lane: Lane = Lane.PULSE, kind: str | None = None) -> Attempt:
        attempt = Attempt(
            self.now_ms, self.interval_ms, self._instant(), 3, lane, snapshot, kind, "as played", first_byte_ms=2
        )
        self.now_ms += self.interval_ms
        self.scrapes += 1
        return attempt


def watch(attempts: Iterable[Attempt], tracker: Tracker | None = None, stall_after_ms: int = 120_000) -> list[Step]:
    """What a tracker makes of the attempts."""
    follower = tracker or Tracker.fresh(stall_after_ms=stall_after_ms)
    return [follower.advance(attempt) for attempt in attempts]


def rows_of(steps: Iterable[Step]) -> list[Row]:
    """The rows as the database would hold them in the end, relabelled."""
    rows: list[Row] = []
    for step in steps:
        for relabel in step.relabels:
            for row in rows:
                if relabel.start_ms <= row.stratum_ms < relabel.end_ms and row.state in (State.OBSERVED, State.STALLED):
                    row.state = relabel.state
        rows.append(replace(step.row))
    return rows


def epochs_of(steps: Iterable[Step]) -> list[Epoch]:
    return [step.new_epoch for step in steps if step.new_epoch is not None]


def with_context(rows: Sequence[Row], start_ms: int, end_ms: int) -> list[Row]:
    """The rows that a store hands to a fold of `[start_ms, end_ms)`: the window, the context, the last good row."""
    first_ms = start_ms - CONTEXT_MS
    earlier = [row for row in rows if row.stratum_ms < first_ms and row.series]
    return earlier[-1:] + [row for row in rows if first_ms <= row.stratum_ms < end_ms]
