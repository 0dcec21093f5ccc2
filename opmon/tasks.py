"""What the service does again and again, as plain functions: evaluate for /metrics, roll up, keep within retention.

Contains no scheduling and no threads; the service decides when each runs and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opmon.config import Comparison
from opmon.core.answers import Recommendation, Selector, TargetStatus
from opmon.errors import OpmonError
from opmon.exporter import Evaluation, TargetEvaluation
from opmon.reports import RecommendationAsk, Reports, WindowAsk


def evaluate(reports: Reports, comparisons: Sequence[Comparison]) -> Evaluation:
    """Everything that /metrics shows, over the default window. A comparison that cannot be answered is left out."""
    statuses = reports.targets()
    return Evaluation(
        targets={
            status.name: TargetEvaluation(status, reports.operating_point(Selector(target=status.name), WindowAsk()))
            for status in statuses
        },
        recommendations=tuple(_recommendations(reports, comparisons, statuses)),
    )


def _recommendations(
    reports: Reports, comparisons: Sequence[Comparison], statuses: Sequence[TargetStatus]
) -> Iterator[tuple[str, Recommendation]]:
    for comparison in comparisons:
        for status in statuses:
            if comparison.targets and status.name not in comparison.targets:
                continue
            try:
                yield status.name, reports.recommendation(recommendation_ask(comparison, status.name))
            except OpmonError:
                # A sweep that is not imported yet, or a configuration that it lacks: no series is the honest answer.
                continue


def recommendation_ask(comparison: Comparison, target: str) -> RecommendationAsk:
    """The question that a configured comparison asks of one target."""
    return RecommendationAsk(
        sweep=comparison.sweep,
        reference=comparison.reference,
        candidate=comparison.candidate,
        content=comparison.content,
        live_is=comparison.live_is,
        selector=Selector(target=target),
    )
