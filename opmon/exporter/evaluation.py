"""What was last worked out for /metrics, and the gauges that show it.

Contains no working out: reading /metrics never computes a window.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.metrics_core import Metric

from opmon.core.answers import ContentAnswer, Distribution, OperatingPoint, Recommendation, TargetStatus
from opmon.core.model import Health, State
from opmon.exporter import families
from opmon.exporter.families import Family, Series

VERDICTS = ("switch", "stay", "no_difference", "undecided", "not_comparable", "no_data")
WEIGHTINGS = ("time", "busy", "request")
STATISTICS = ("mean", "p50", "p90", "p95", "p99", "max")
# Contents come from imported files; a file may name each of its rows differently.
MOST_CONTENTS = 50


@dataclass(frozen=True, slots=True)
class TargetEvaluation:
    """A target's health, and its operating point over the window (None: not known)."""

    status: TargetStatus
    operating_point: OperatingPoint | None = None


@dataclass(frozen=True, slots=True)
class ComparisonEvaluation:
    """What a configured comparison says of a target; without an answer `failure` says why."""

    comparison: str
    target: str
    answer: Recommendation | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that the gauges show."""

    targets: Mapping[str, TargetEvaluation] = field(default_factory=dict)
    comparisons: Sequence[ComparisonEvaluation] = ()
    at_ms: int | None = None

    @property
    def failures(self) -> dict[tuple[str, str], str]:
        """Why comparisons have no answer, by comparison and target."""
        return {(one.comparison, one.target): one.failure for one in self.comparisons if one.answer is None}


def target_metrics(evaluation: Evaluation, shown: frozenset[str]) -> Iterator[Metric]:
    """The families of targets. A shown target that was not evaluated yet has its gauges as NaN."""
    each = {name: evaluation.targets.get(name) for name in sorted(shown)}
    up, state, info, last = _series(
        families.TARGET_UP, families.TARGET_STATE, families.TARGET_INFO, families.LAST_SCRAPE
    )
    for name, one in each.items():
        status = None if one is None else one.status
        up.add((name,), _up(status))
        for possible in State:
            state.add((name, possible.value), None if status is None else float(status.state == possible))
        last.add((name,), None if status is None else status.last_scrape)
        if status is not None and status.engine:
            info.add((name, status.engine, status.version))
    yield from (up.metric, state.metric, info.metric, last.metric)
    yield from _operating_points({name: one.operating_point if one else None for name, one in each.items()})


def recommendation_metrics(evaluation: Evaluation, shown: frozenset[str]) -> Iterator[Metric]:
    """The families of comparisons, for the shown targets."""
    cell, speedup, turn, verdict, evaluated = _series(
        families.RECOMMENDED_CELL,
        families.SPEEDUP,
        families.WHOLE_TURN,
        families.VERDICT,
        families.COMPARISON_EVALUATED,
    )
    for one in evaluation.comparisons:
        if one.target not in shown:
            continue
        evaluated.add((one.target, one.comparison), float(one.answer is not None))
        if one.answer is None:
            continue
        answer, name = one.answer, one.comparison
        compared = (one.target, answer.sweep, answer.reference, answer.candidate)
        for content in answer.contents[:MOST_CONTENTS]:
            labels = (*compared, content.content, name)
            _add_content(cell, speedup, labels, content)
            whole_turn = content.whole_turn
            turn.add(labels, None if whole_turn is None else whole_turn.speedup_ratio)
            _add_verdict(verdict, labels, content.verdict)
        # All contents together: an empty content. Where the sweep has no contents, its only answer has that place.
        _add_verdict(verdict, (*compared, "", name), answer.verdict)
        if answer.combined is not None:
            speedup.add((*compared, "", name, answer.combined.column), answer.combined.ratio_weighted)
    yield from (cell.metric, speedup.metric, turn.metric, verdict.metric, evaluated.metric)


def _operating_points(points: Mapping[str, OperatingPoint | None]) -> Iterator[Metric]:
    statistics, ceiling, coverage, waiting, limited = _series(
        families.OPERATING_POINT, families.CEILING, families.COVERAGE, families.WAITING, families.LIMITED
    )
    for name, point in points.items():
        _add_statistics(statistics, (name, "running"), None if point is None else point.running)
        _add_statistics(statistics, (name, "in_system"), None if point is None else point.in_system)
        ceiling.add((name,), None if point is None else point.ceiling.requests)
        coverage.add((name,), None if point is None else point.coverage.ratio)
        waiting.add((name,), None if point is None else point.queue.waiting_ratio)
        limited.add((name,), None if point is None else point.queue.limited_ratio)
    yield from (statistics.metric, ceiling.metric, coverage.metric, waiting.metric, limited.metric)


def _add_statistics(series: Series, labels: tuple[str, str], distribution: Distribution | None) -> None:
    of_all = Distribution() if distribution is None else distribution
    for weighting in WEIGHTINGS:
        statistics = getattr(of_all, weighting)
        for statistic in STATISTICS:
            series.add((*labels, weighting, statistic), getattr(statistics, statistic))


def _add_content(cell: Series, speedup: Series, labels: tuple[str, ...], content: ContentAnswer) -> None:
    target, sweep, name = labels[0], labels[1], labels[-1]
    if content.cell is not None and content.cell.concurrency is not None:
        cell.add((target, sweep, content.content, f"{content.cell.concurrency:g}", content.column, name))
    for column in ("per_stream", "aggregate"):
        answer = getattr(content.columns, column)
        # A stand-in is marked as such everywhere else; a number alone cannot be.
        speedup.add((*labels, column), None if answer.proxy else answer.ratio_weighted)


def _add_verdict(series: Series, labels: tuple[str, ...], verdict: str) -> None:
    for possible in VERDICTS:
        series.add((*labels, possible), float(possible == verdict))


def _up(status: TargetStatus | None) -> float | None:
    if status is None or status.health == Health.UNKNOWN:
        return None
    return float(status.health == Health.UP)


def _series(*declared: Family) -> tuple[Series, ...]:
    return tuple(Series(family) for family in declared)
