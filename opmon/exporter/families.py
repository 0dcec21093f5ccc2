"""The metrics of opmon, declared once: name, type, labels, meaning. Documents and tests read the same table.

Contains no values. Names are promises: later versions add, they never remove or retype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

LONGEST_LABEL = 200


@dataclass(frozen=True, slots=True)
class Family:
    """A metric as it is named in the text format. `kind` is `gauge`, `counter`, `info` or `histogram`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    description: str


# `comparison` came later and tells two comparisons of one sweep apart.
_COMPARISON = ("target", "sweep", "reference", "candidate", "content", "comparison")

BUILD_INFO = Family("opmon_build_info", "info", ("version", "python_version"), "The version of opmon; always 1.")
EVALUATED = Family(
    "opmon_last_evaluation_timestamp_seconds",
    "gauge",
    (),
    "When the gauges below were last worked out, in Unix seconds.",
)
TARGET_UP = Family(
    "opmon_target_up",
    "gauge",
    ("target",),
    "1 if the last attempt on the target was answered, 0 if not, NaN before the first.",
)
TARGET_STATE = Family(
    "opmon_target_state",
    "gauge",
    ("target", "state"),
    "1 for the state of the last stratum of time (observed, stalled, invalid, down or gap), 0 for the others.",
)
TARGET_INFO = Family(
    "opmon_target_info", "info", ("target", "engine", "version"), "The software that the target runs; always 1."
)
LAST_SCRAPE = Family(
    "opmon_target_last_scrape_timestamp_seconds",
    "gauge",
    ("target",),
    "When the target was last attempted, in Unix seconds.",
)
SCRAPES = Family(
    "opmon_target_scrapes_total", "counter", ("target", "lane"), "Attempts on the target, by lane (pulse or full)."
)
SCRAPE_FAILURES = Family(
    "opmon_target_scrape_failures_total",
    "counter",
    ("target", "lane", "kind"),
    "Attempts that were not answered, or whose answer could not be used, by the kind of fault.",
)
SKIPPED_LINES = Family(
    "opmon_target_skipped_lines_total",
    "counter",
    ("target",),
    "Lines of the target's whole page that were neither sample nor comment, and were left out.",
)
CONCURRENCY = Family(
    "opmon_concurrency",
    "histogram",
    ("target",),
    "Requests that the engine runs at once. One observation is one observed millisecond, added once it is certain"
    " that the time was not stalled.",
)
MODEL_CONCURRENCY = Family(
    "opmon_model_concurrency",
    "histogram",
    ("target", "model_name"),
    "Requests of one model that the engine runs at once. One observation is one observed millisecond.",
)
OPERATING_POINT = Family(
    "opmon_operating_point_requests",
    "gauge",
    ("target", "of", "weighting", "statistic"),
    "The exact statistics of requests at once over the window: of running or in_system (running + waiting), weighted"
    " by time, busy time or request.",
)
CEILING = Family(
    "opmon_concurrency_ceiling_requests",
    "gauge",
    ("target",),
    "The most requests that the target can run at once: the limit per engine times the engines.",
)
COVERAGE = Family("opmon_coverage_ratio", "gauge", ("target",), "The share of the window that was observed.")
WAITING = Family(
    "opmon_queue_waiting_ratio", "gauge", ("target",), "The share of busy time in which requests were waiting."
)
LIMITED = Family(
    "opmon_limited_ratio",
    "gauge",
    ("target",),
    "The share of busy time in which requests were waiting because the ceiling or the KV cache was full.",
)
RECOMMENDED_CELL = Family(
    "opmon_recommended_cell_info",
    "info",
    ("target", "sweep", "content", "concurrency", "column", "comparison"),
    "The cell of the sweep, and the column, that apply where the target really runs; always 1.",
)
SPEEDUP = Family(
    "opmon_speedup_ratio",
    "gauge",
    (*_COMPARISON, "column"),
    "Candidate over reference, weighted over the levels where the target runs. NaN where the column was not measured."
    " An empty content is all contents together.",
)
WHOLE_TURN = Family(
    "opmon_whole_turn_speedup_ratio",
    "gauge",
    _COMPARISON,
    "Candidate over reference for the whole turn, the wait for the first token included.",
)
VERDICT = Family(
    "opmon_verdict",
    "gauge",
    (*_COMPARISON, "verdict"),
    "1 for the verdict on the comparison, 0 for the others. An empty content is all contents together.",
)
COMPARISON_EVALUATED = Family(
    "opmon_comparison_evaluated",
    "gauge",
    ("target", "comparison"),
    "1 if the comparison could be worked out, 0 if not: its sweep or a configuration is not there. The log says why.",
)
TASK_RUNS = Family("opmon_task_runs_total", "counter", ("task",), "Runs of a scheduled task.")
TASK_FAILURES = Family("opmon_task_failures_total", "counter", ("task",), "Runs of a scheduled task that failed.")
TASK_MISSED = Family(
    "opmon_task_missed_total",
    "counter",
    ("task",),
    "Runs of a scheduled task that should have been and were not; of the task scrape, strata without an attempt.",
)
STORE_COMMITS = Family("opmon_store_commits_total", "counter", (), "Transactions that were written to the database.")
STORE_FAILURES = Family(
    "opmon_store_failures_total",
    "counter",
    (),
    "Transactions with samples that were given up: trying again could not help, or opmon ended before it did.",
)
STORE_ROWS = Family("opmon_store_rows_total", "counter", (), "Rows that were written to the database.")
STORE_DUPLICATES = Family(
    "opmon_store_duplicates_total", "counter", (), "Rows that were in the database already, and changed nothing."
)
STORE_OVERFLOW = Family(
    "opmon_store_overflow_total", "counter", (), "Rows that were dropped because the queue to the database was full."
)
STORE_LOST = Family(
    "opmon_store_lost_rows_total",
    "counter",
    (),
    "Rows that are in no database, because their transaction was given up or the queue was full.",
)
STORE_QUEUE = Family("opmon_store_queue_length", "gauge", (), "What waits to be written to the database.")
STORE_LAST_COMMIT = Family(
    "opmon_store_last_commit_timestamp_seconds",
    "gauge",
    (),
    "When something was last written to the database, in Unix seconds.",
)
HTTP_REQUESTS = Family(
    "opmon_http_requests_total", "counter", ("route", "code"), "Requests that opmon answered, by route and status."
)
DISCOVERY_TARGETS = Family("opmon_discovery_targets", "gauge", ("source",), "Targets that a source of discovery names.")
DISCOVERY_FAILURES = Family(
    "opmon_discovery_failures_total",
    "counter",
    ("source",),
    "Times that a source of discovery could not be read, wholly or in part; it then keeps its last list.",
)
CONFIG_SUCCESSFUL = Family(
    "opmon_config_last_reload_successful",
    "gauge",
    (),
    "1 if the configuration that was read last is in force, 0 if it was refused and the one before stays.",
)
CONFIG_TIME = Family(
    "opmon_config_last_reload_success_timestamp_seconds",
    "gauge",
    (),
    "When a configuration was last taken up, in Unix seconds.",
)

FAMILIES: tuple[Family, ...] = (
    BUILD_INFO,
    EVALUATED,
    TARGET_UP,
    TARGET_STATE,
    TARGET_INFO,
    LAST_SCRAPE,
    SCRAPES,
    SCRAPE_FAILURES,
    SKIPPED_LINES,
    CONCURRENCY,
    MODEL_CONCURRENCY,
    OPERATING_POINT,
    CEILING,
    COVERAGE,
    WAITING,
    LIMITED,
    RECOMMENDED_CELL,
    SPEEDUP,
    WHOLE_TURN,
    VERDICT,
    COMPARISON_EVALUATED,
    TASK_RUNS,
    TASK_FAILURES,
    TASK_MISSED,
    STORE_COMMITS,
    STORE_FAILURES,
    STORE_ROWS,
    STORE_DUPLICATES,
    STORE_OVERFLOW,
    STORE_LOST,
    STORE_QUEUE,
    STORE_LAST_COMMIT,
    HTTP_REQUESTS,
    DISCOVERY_TARGETS,
    DISCOVERY_FAILURES,
    CONFIG_SUCCESSFUL,
    CONFIG_TIME,
)


def metrics_table() -> tuple[Family, ...]:
    """Every metric, in the order of the page: for docs/metrics.md and its test."""
    return FAMILIES


class Series:
    """One family being filled. A second value for the same labels is left out: a page with both would be refused."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._seen: set[tuple[str, ...]] = set()
        self._counter = CounterMetricFamily(family.name, family.description, labels=family.labels)
        self._gauge = GaugeMetricFamily(family.name, family.description, labels=family.labels)
        self._info = InfoMetricFamily(family.name.removesuffix("_info"), family.description, labels=())

    def add(self, labels: Sequence[str | None], value: float | None = 1.0) -> None:
        """One series. A value that is not known is NaN; a label that is not known is empty."""
        cut = tuple((label or "")[:LONGEST_LABEL] for label in labels)
        if cut in self._seen:
            return
        self._seen.add(cut)
        if self._family.kind == "info":
            self._info.add_metric((), dict(zip(self._family.labels, cut, strict=True)))
        elif self._family.kind == "counter":
            self._counter.add_metric(cut, value or 0)
        else:
            self._gauge.add_metric(cut, math.nan if value is None else value)

    @property
    def metric(self) -> Metric:
        """The family with its series, as the library writes it."""
        if self._family.kind == "info":
            return self._info
        return self._counter if self._family.kind == "counter" else self._gauge
