"""What opmon counts of itself: tasks, scrapes, the store, requests. One object, made at the start and passed in.

Contains no names of metrics and no exposition (`opmon.exporter` has both). Safe to use from several threads; every
number of distinct labels is bounded, so that nothing from outside can make it grow.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from enum import StrEnum

Labels = tuple[str, ...]

TASKS = ("scrape", "learn", "discover", "flush", "evaluate", "roll_up", "retain")
MOST_LABELS = 200
LONGEST_LABEL = 200
OTHER = "other"


class Count(StrEnum):
    """What is counted; the labels of each are said at the method that counts it."""

    TASK_RUNS = "task_runs"
    TASK_FAILURES = "task_failures"
    TASK_MISSED = "task_missed"
    STORE_COMMITS = "store_commits"
    STORE_FAILURES = "store_failures"
    STORE_ROWS = "store_rows"
    STORE_DUPLICATES = "store_duplicates"
    STORE_OVERFLOW = "store_overflow"
    STORE_LOST = "store_lost"
    HTTP_REQUESTS = "http_requests"
    DISCOVERY_FAILURES = "discovery_failures"


class Telemetry:
    """Counters since the start of the process, and some figures as they are now."""

    def __init__(self, tasks: Iterable[str] = TASKS) -> None:
        """`tasks` have counters at 0 before they first run."""
        self._lock = threading.Lock()
        self._counts: dict[Count, dict[Labels, int]] = {count: {} for count in Count}
        self._scrapes: dict[str, dict[str, int]] = {}
        self._failures: dict[str, dict[tuple[str, str], int]] = {}
        self._skipped: dict[str, int] = {}
        self._queue_length: int | None = None
        self._last_commit_ms: int | None = None
        self._listed: dict[str, int] = {}
        self._is_reloaded: bool | None = None
        self._reloaded_ms: int | None = None
        for task in tasks:
            for count in (Count.TASK_RUNS, Count.TASK_FAILURES, Count.TASK_MISSED):
                self._counts[count][task,] = 0
        for count in Count:
            if count.startswith("store"):
                self._counts[count][()] = 0

    # --- counting ---------------------------------------------------------------------------------------------------

    def task_ran(self, task: str, *, failed: bool = False) -> None:
        """One run of a scheduled task has ended."""
        self._add(Count.TASK_RUNS, (task,), 1)
        if failed:
            self._add(Count.TASK_FAILURES, (task,), 1)

    def task_missed(self, task: str, times: int = 1) -> None:
        """Runs that should have been and were not: the process was busy, stopped, or an earlier run went on."""
        self._add(Count.TASK_MISSED, (task,), times)

    def scraped(self, target: str, lane: str, kind: str | None = None) -> None:
        """One attempt on a target; `kind` says why it failed or could not be used, None for a good one."""
        with self._lock:
            lanes = self._scrapes.setdefault(target, {})
            lanes[lane] = lanes.get(lane, 0) + 1
            if kind is not None:
                failures = self._failures.setdefault(target, {})
                failures[lane, kind] = failures.get((lane, kind), 0) + 1

    def lines_skipped(self, target: str, lines: int) -> None:
        """Lines of a target's whole page that are neither sample nor comment."""
        with self._lock:
            self._skipped[target] = self._skipped.get(target, 0) + lines

    def store_committed(self, rows: int, at_ms: int) -> None:
        """One transaction that wrote this many rows is on disk."""
        with self._lock:
            self._last_commit_ms = at_ms
        self._add(Count.STORE_COMMITS, (), 1)
        self._add(Count.STORE_ROWS, (), rows)

    def store_failed(self) -> None:
        """One transaction was given up: trying again could not help, or opmon ended before it did."""
        self._add(Count.STORE_FAILURES, (), 1)

    def store_lost(self, rows: int) -> None:
        """Rows that are in no database, for whatever reason."""
        self._add(Count.STORE_LOST, (), rows)

    def store_overflowed(self, rows: int = 1) -> None:
        """Rows that were dropped because the queue before the database was full."""
        self._add(Count.STORE_OVERFLOW, (), rows)

    def store_duplicates(self, rows: int = 1) -> None:
        """Rows that were there already, and changed nothing."""
        self._add(Count.STORE_DUPLICATES, (), rows)

    def store_queue(self, length: int) -> None:
        """How much waits before the database now."""
        with self._lock:
            self._queue_length = length

    def http_answered(self, route: str, status: int) -> None:
        """One request was answered. `route` is the route's pattern, never the path that was asked for."""
        self._add(Count.HTTP_REQUESTS, (route, str(status)), 1)

    def discovery_listed(self, source: str, targets: int) -> None:
        """How many targets a source of discovery names now. Its failures exist from then on, at 0."""
        with self._lock:
            self._listed[source] = targets
        self._add(Count.DISCOVERY_FAILURES, (source,), 0)

    def discovery_failed(self, source: str) -> None:
        """A source of discovery could not be read, wholly or in part."""
        self._add(Count.DISCOVERY_FAILURES, (source,), 1)

    def forget_source(self, source: str) -> None:
        """Drops what was counted of a source that is asked no more."""
        with self._lock:
            self._listed.pop(source, None)
            self._counts[Count.DISCOVERY_FAILURES].pop((source[:LONGEST_LABEL],), None)

    def configured(self, *, at_ms: int | None) -> None:
        """The configuration was read: taken up at that instant, or refused (None)."""
        with self._lock:
            self._is_reloaded = at_ms is not None
            self._reloaded_ms = self._reloaded_ms if at_ms is None else at_ms

    def forget_target(self, target: str) -> None:
        """Drops the counters of a target that is no longer watched."""
        with self._lock:
            self._scrapes.pop(target, None)
            self._failures.pop(target, None)
            self._skipped.pop(target, None)

    # --- reading ----------------------------------------------------------------------------------------------------

    def counts(self, count: Count) -> Mapping[Labels, int]:
        """A copy of one counter, by its labels."""
        with self._lock:
            return dict(self._counts[count])

    def scrapes(self, target: str) -> Mapping[str, int]:
        """A copy of a target's attempts, by lane."""
        with self._lock:
            return dict(self._scrapes.get(target, {}))

    def failures(self, target: str) -> Mapping[tuple[str, str], int]:
        """A copy of a target's failed attempts, by lane and kind."""
        with self._lock:
            return dict(self._failures.get(target, {}))

    def skipped_lines(self, target: str) -> int:
        """A target's lines that were no samples."""
        with self._lock:
            return self._skipped.get(target, 0)

    def listed(self) -> Mapping[str, int]:
        """A copy of how many targets each source of discovery names."""
        with self._lock:
            return dict(self._listed)

    @property
    def is_reloaded(self) -> bool | None:
        """Whether the configuration that was read last is in force; None before the first."""
        return self._is_reloaded

    @property
    def reloaded_ms(self) -> int | None:
        """When a configuration was last taken up; None before."""
        return self._reloaded_ms

    @property
    def queue_length(self) -> int | None:
        """What waits before the database; None before the first word of it."""
        return self._queue_length

    @property
    def last_commit_ms(self) -> int | None:
        """When something was last written to the database; None before."""
        return self._last_commit_ms

    def _add(self, count: Count, labels: Labels, amount: int) -> None:
        labels = tuple(label[:LONGEST_LABEL] for label in labels)
        with self._lock:
            values = self._counts[count]
            if labels not in values and len(values) >= MOST_LABELS:
                labels = (OTHER,) * len(labels)
            values[labels] = values.get(labels, 0) + amount
