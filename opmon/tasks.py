"""What the service does again and again, as plain functions: evaluate for /metrics, roll up, keep within retention.

Contains no scheduling and no threads; the service decides when each runs and where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from opmon.config import Comparison
from opmon.core.answers import Selector, TargetStatus
from opmon.errors import OpmonError
from opmon.exporter import ComparisonEvaluation, Evaluation, TargetEvaluation
from opmon.reports import RecommendationAsk, Reports, WindowAsk


def evaluate(reports: Reports, comparisons: Sequence[Comparison], status: TargetStatus) -> Evaluation:
    """What /metrics shows of one target, over the default window. A comparison that cannot be answered says why."""
    point = reports.operating_point(Selector(target=status.name), WindowAsk())
    return Evaluation(
        targets={status.name: TargetEvaluation(status, point)},
        comparisons=tuple(_comparisons(reports, comparisons, status.name)),
    )


def joined(evaluations: Iterable[Evaluation]) -> Evaluation:
    """The evaluations of several targets as one."""
    targets: dict[str, TargetEvaluation] = {}
    comparisons: list[ComparisonEvaluation] = []
    for one in evaluations:
        targets.update(one.targets)
        comparisons += one.comparisons
    return Evaluation(targets=targets, comparisons=tuple(comparisons))


def _comparisons(reports: Reports, comparisons: Sequence[Comparison], target: str) -> Iterator[ComparisonEvaluation]:
    for comparison in comparisons:
        if comparison.targets and target not in comparison.targets:
            continue
        name = comparison.name or comparison.sweep
        try:
            answer = reports.recommendation(recommendation_ask(comparison, target))
        except OpmonError as error:
            # A sweep that is not imported yet, or a configuration that it lacks: no verdict is the honest answer.
            yield ComparisonEvaluation(name, target, failure=str(error))
        else:
            yield ComparisonEvaluation(name, target, answer)


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
