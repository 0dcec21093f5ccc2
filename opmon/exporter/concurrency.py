"""The exported histogram of concurrency: milliseconds by bucket, since the process started.

Contains no quantile. One observation is one observed millisecond, so counts are whole numbers, as OpenMetrics wants;
the sum is level times milliseconds.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from opmon.exporter.families import CONCURRENCY, LONGEST_LABEL, MODEL_CONCURRENCY, Family

# 0, 1, 2, 3, 4, 6, 8, 12, ..., 4096: powers of two and the points between.
BOUNDS = (0, 1, 2, *(value for power in range(1, 12) for value in (3 * 2 ** (power - 1), 4 * 2 ** (power - 1))))
_LE = (*(f"{bound}.0" for bound in BOUNDS), "+Inf")
# Names of models come from the page of a server, which may invent as many as it likes.
MOST_MODELS = 50
OTHER_MODELS = "other"


@dataclass(slots=True)
class _Levels:
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    sum: int = 0

    def add(self, levels: Mapping[int, int]) -> None:
        for level, milliseconds in levels.items():
            self.counts[bisect_left(BOUNDS, level)] += milliseconds
            self.sum += level * milliseconds

    def cumulative(self) -> list[tuple[str, float]]:
        running, buckets = 0, []
        for le, count in zip(_LE, self.counts, strict=True):
            running += count
            buckets.append((le, float(running)))
        return buckets


class ConcurrencyHistogram:
    """Milliseconds per level of each target and each of its models. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._targets: dict[str, _Levels] = {}
        self._models: dict[str, dict[str, _Levels]] = {}

    def add(self, target: str, model: str | None, levels: Mapping[int, int]) -> None:
        """Adds milliseconds by level that became final; `model` None is the whole target."""
        with self._lock:
            if model is None:
                self._targets.setdefault(target, _Levels()).add(levels)
                return
            models = self._models.setdefault(target, {})
            name = model[:LONGEST_LABEL]
            if name not in models and len(models) >= MOST_MODELS:
                name = OTHER_MODELS
            models.setdefault(name, _Levels()).add(levels)

    def forget(self, target: str) -> None:
        """Drops a target that is no longer watched."""
        with self._lock:
            self._targets.pop(target, None)
            self._models.pop(target, None)

    def metrics(self, targets: frozenset[str]) -> tuple[Metric, Metric]:
        """Both families for these targets; one without observations has all its buckets at 0."""
        whole, by_model = _family(CONCURRENCY), _family(MODEL_CONCURRENCY)
        with self._lock:
            for target in sorted(targets):
                levels = self._targets.get(target, _Levels())
                whole.add_metric((target,), levels.cumulative(), float(levels.sum))
                for model, of_model in sorted(self._models.get(target, {}).items()):
                    by_model.add_metric((target, model), of_model.cumulative(), float(of_model.sum))
        return whole, by_model


def _family(family: Family) -> HistogramMetricFamily:
    return HistogramMetricFamily(family.name, family.description, labels=family.labels)
