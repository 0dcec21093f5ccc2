"""Rows to reports: the one door that every surface asks.

Contains nothing but the names that others use.
"""

from __future__ import annotations

from opmon.reports.asks import STEPS_MS, RecommendationAsk, WindowAsk
from opmon.reports.door import Reports, ReportSource
from opmon.reports.selection import select_targets
from opmon.reports.shapes import ceiling_answer

__all__ = [
    "STEPS_MS",
    "RecommendationAsk",
    "ReportSource",
    "Reports",
    "WindowAsk",
    "ceiling_answer",
    "select_targets",
]
