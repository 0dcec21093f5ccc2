"""What opmon tells Prometheus: declared families, the last evaluation, and the page at /metrics.

Contains nothing but the names that others use.
"""

from __future__ import annotations

from opmon.exporter.concurrency import ConcurrencyHistogram
from opmon.exporter.evaluation import ComparisonEvaluation, Evaluation, TargetEvaluation
from opmon.exporter.families import Family, metrics_table
from opmon.exporter.page import Exporter, Page, prefers_openmetrics

__all__ = [
    "ComparisonEvaluation",
    "ConcurrencyHistogram",
    "Evaluation",
    "Exporter",
    "Family",
    "Page",
    "TargetEvaluation",
    "metrics_table",
    "prefers_openmetrics",
]
