"""What the service does again and again, as plain functions: evaluate for /metrics, roll up, keep within retention.

Contains no scheduling and no threads; the service decides when each runs and where.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opmon.config import Comparison
from opmon.core.answers import Selector, TargetStatus
from opmon.errors import OpmonError
from opmon.exporter import ComparisonEvaluation, Evaluation, TargetEvaluation
from opmon.reports import RecommendationAsk, Reports, WindowAsk


def evaluate(reports: Reports, comparisons: Sequence[Comparison]) -> Evaluation:
    """Everything that /metrics shows, over the default window. A comparison that cannot be answered says why."""
    statuses = reports.targets()
    return Evaluation(
        targets={
            status.name: TargetEvaluation(status, reports.operating_point(Selector(target=status.name), WindowAsk()))
            for status in statuses
        },
        comparisons=tuple(_comparisons(reports, comparisons, statuses)),
    )


def _comparisons(
    reports: Reports, comparisons: Sequence[Comparison], statuses: Sequence[TargetStatus]
) -> Iterator[ComparisonEvaluation]:
    for comparison in comparisons:
        name = comparison.name or comparison.sweep
        for status in statuses:
            if comparison.targets and status.name not in comparison.targets:
                continue
            try:
                answer = reports.recommendation(recommendation_ask(comparison, status.name))
            except OpmonError as error:
                # A sweep that is not imported yet, or a configuration that it lacks: no verdict is the honest answer.
                yield ComparisonEvaluation(name, status.name, failure=str(error))
            else:
                yield ComparisonEvaluation(name, status.name, answer)


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
