"""The page at /metrics: the last evaluation, the histogram and opmon's own counters, in the form that was asked for.

Contains no HTTP: the API hands in the `Accept` header and sends what comes back. There is no global registry.
"""

from __future__ import annotations

import logging
import platform
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from opmon import __version__
from opmon.core.model import DOWN_KINDS, INVALID_KINDS, Lane
from opmon.exporter import families
from opmon.exporter.concurrency import ConcurrencyHistogram
from opmon.exporter.evaluation import Evaluation, recommendation_metrics, target_metrics
from opmon.exporter.families import Family, Series
from opmon.log import fields
from opmon.telemetry import OTHER, Count, Telemetry

logger = logging.getLogger("opmon.exporter")

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_OWN_COUNTERS: tuple[tuple[Count, Family], ...] = (
    (Count.TASK_RUNS, families.TASK_RUNS),
    (Count.TASK_FAILURES, families.TASK_FAILURES),
    (Count.TASK_MISSED, families.TASK_MISSED),
    (Count.STORE_COMMITS, families.STORE_COMMITS),
    (Count.STORE_FAILURES, families.STORE_FAILURES),
    (Count.STORE_ROWS, families.STORE_ROWS),
    (Count.STORE_DUPLICATES, families.STORE_DUPLICATES),
    (Count.STORE_OVERFLOW, families.STORE_OVERFLOW),
    (Count.STORE_LOST, families.STORE_LOST),
    (Count.HTTP_REQUESTS, families.HTTP_REQUESTS),
)
_KINDS = (*DOWN_KINDS, *INVALID_KINDS)


@dataclass(frozen=True, slots=True)
class Page:
    """A body and the `Content-Type` that it must be sent with."""

    body: bytes
    content_type: str


class Exporter:
    """Holds what /metrics shows. Safe to use from several threads.

    A target is shown from `watch` or its first evaluation on until `forget`, which works at once, even on an
    evaluation that was under way and still knows the target.
    """

    def __init__(self, telemetry: Telemetry, concurrency: ConcurrencyHistogram | None = None) -> None:
        self.concurrency = ConcurrencyHistogram() if concurrency is None else concurrency
        self._telemetry = telemetry
        self._evaluation = Evaluation()
        self._watched: set[str] = set()
        self._forgotten: set[str] = set()
        self._lock = threading.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Collector(self))

    def watch(self, target: str) -> None:
        """The target is watched from now on: its counters exist at 0, its gauges as NaN."""
        with self._lock:
            self._watched.add(target)
            self._forgotten.discard(target)

    def forget(self, target: str) -> None:
        """The target is no longer watched: all its series vanish."""
        with self._lock:
            self._watched.discard(target)
            self._forgotten.add(target)
        self.concurrency.forget(target)
        self._telemetry.forget_target(target)

    def set_evaluation(self, evaluation: Evaluation) -> None:
        """Replaces what the gauges show. A comparison that cannot be answered is logged once per reason."""
        with self._lock:
            before, self._evaluation = self._evaluation.failures, evaluation
            # Only an evaluation that was under way may still know them; names of pods would pile up here for ever.
            self._forgotten.intersection_update(evaluation.targets)

        for (comparison, target), why in evaluation.failures.items():
            if before.get((comparison, target)) != why:
                told = fields(comparison=comparison, target=target, error=why)
                logger.warning("a comparison cannot be worked out", extra=told)

    def render(self, accept: str | None = None) -> Page:
        """The page, as OpenMetrics if that is preferred and else as text 0.0.4."""
        if prefers_openmetrics(accept or ""):
            return Page(generate_openmetrics(self._registry), OPENMETRICS)  # type: ignore[no-untyped-call]
        return Page(generate_latest(self._registry), TEXT)

    def collect(self) -> Iterator[Metric]:
        """All families, those without series included."""
        with self._lock:
            evaluation = self._evaluation
            shown = frozenset((self._watched | set(evaluation.targets)) - self._forgotten)
        yield _one(families.BUILD_INFO, (__version__, platform.python_version()))
        yield _one(families.EVALUATED, (), _seconds(evaluation.at_ms))
        yield from target_metrics(evaluation, shown)
        yield from self._scrapes(shown)
        yield from self.concurrency.metrics(shown)
        yield from recommendation_metrics(evaluation, shown)
        yield from self._own()

    def _scrapes(self, shown: frozenset[str]) -> Iterator[Metric]:
        scrapes, failures, skipped = (
            Series(one) for one in (families.SCRAPES, families.SCRAPE_FAILURES, families.SKIPPED_LINES)
        )
        for target in sorted(shown):
            skipped.add((target,), self._telemetry.skipped_lines(target))
            by_lane, by_kind = self._telemetry.scrapes(target), self._telemetry.failures(target)
            for lane in Lane:
                scrapes.add((target, lane), by_lane.get(lane, 0))
                for kind in _KINDS:
                    failures.add((target, lane, kind), by_kind.get((lane, kind), 0))
                unknown = sum(times for (its_lane, kind), times in by_kind.items() if _is_other(its_lane, kind, lane))
                failures.add((target, lane, OTHER), unknown)
        yield from (scrapes.metric, failures.metric, skipped.metric)

    def _own(self) -> Iterator[Metric]:
        for count, family in _OWN_COUNTERS:
            series = Series(family)
            for labels, value in sorted(self._telemetry.counts(count).items()):
                series.add(labels, value)
            yield series.metric
        yield _one(families.STORE_QUEUE, (), self._telemetry.queue_length)
        yield _one(families.STORE_LAST_COMMIT, (), _seconds(self._telemetry.last_commit_ms))
        yield from self._configuration()

    def _configuration(self) -> Iterator[Metric]:
        targets, failures = Series(families.DISCOVERY_TARGETS), Series(families.DISCOVERY_FAILURES)
        for source, listed in sorted(self._telemetry.listed().items()):
            targets.add((source,), listed)
        for labels, times in sorted(self._telemetry.counts(Count.DISCOVERY_FAILURES).items()):
            failures.add(labels, times)
        yield from (targets.metric, failures.metric)
        yield _one(families.CONFIG_SUCCESSFUL, (), self._telemetry.is_reloaded)
        yield _one(families.CONFIG_TIME, (), _seconds(self._telemetry.reloaded_ms))


class _Collector:
    """What the library's registry asks; the registry must not see more of the exporter."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def collect(self) -> Iterator[Metric]:
        return self._exporter.collect()


def prefers_openmetrics(accept: str) -> bool:
    """Whether an `Accept` header likes OpenMetrics 1 at least as much as plain text.

    The library's own choice takes the first that it knows, whatever its weight, and fails on a version that is none.
    """
    openmetrics = text = 0.0
    for written in accept.split(","):
        media, _, rest = written.partition(";")
        parameters = dict(_parameter(part) for part in rest.split(";") if part.strip())
        weight = _weight(parameters.get("q", "1"))
        if media.strip().lower() == "application/openmetrics-text":
            if parameters.get("version", "1.0.0").split(".")[0] == "1":
                openmetrics = max(openmetrics, weight)
        elif media.strip().lower() in ("text/plain", "text/*"):
            text = max(text, weight)
    return openmetrics > 0 and openmetrics >= text


def _parameter(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _is_other(its_lane: str, kind: str, lane: Lane) -> bool:
    return its_lane == lane and kind not in _KINDS


def _one(family: Family, labels: tuple[str, ...], value: float | None = 1.0) -> Metric:
    series = Series(family)
    series.add(labels, value)
    return series.metric


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
