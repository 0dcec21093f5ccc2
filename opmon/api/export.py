"""Answers as CSV tables.

Contains no selection: what a table holds is what the JSON holds. A text that a spreadsheet would run as a formula is
neutralised with a leading apostrophe.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from opmon.core.answers import OperatingPoint, Recommendation, SweepAnswer
from opmon.core.recommend.claimed import Claim

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
Row = dict[str, Any]


def flat(value: Any, prefix: str = "") -> Row:
    """A dataclass as one row: nested fields joined with `_`, sequences of plain values with `; `."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = [(f.name, getattr(value, f.name)) for f in fields(value)]
    elif isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        return {prefix: "; ".join(str(one) for one in value)}
    else:
        return {prefix: value}
    row: Row = {}
    for name, part in parts:
        row |= flat(part, f"{prefix}_{name}" if prefix else str(name))
    return row


def cell(value: Any) -> str:
    """One field: nothing for what is not known, and no formula."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA_STARTS) else value
    return repr(value) if isinstance(value, float) else str(value)


def as_csv(rows: Iterable[Row]) -> str:
    """Rows with a header of all their names, in order of appearance; lines end as RFC 4180 says."""
    kept = list(rows)
    names = list(dict.fromkeys(name for row in kept for name in row))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([cell(name) for name in names])
    writer.writerows([cell(row.get(name)) for name in names] for row in kept)
    return out.getvalue()


def operating_point_rows(point: OperatingPoint) -> list[Row]:
    """One row a level of each of the three distributions."""
    distributions = {"running": point.running, "in_system": point.in_system, "waiting": point.waiting}
    return [{"of": name} | flat(share) for name, one in distributions.items() for share in one.occupancy]


def recommendation_rows(answer: Recommendation) -> list[Row]:
    """One row a content and column."""
    return [
        {
            "sweep": answer.sweep,
            "content": content.content,
            "verdict": content.verdict,
            "column": name,
            "applies": content.column in (name, "both"),
            "concurrency": content.cell.concurrency if content.cell else None,
            "reference_configuration": answer.reference,
            "candidate_configuration": answer.candidate,
        }
        | flat(column)
        for content in answer.contents
        for name, column in (("per_stream", content.columns.per_stream), ("aggregate", content.columns.aggregate))
    ]


def claim_rows(answer: Claim) -> list[Row]:
    """One row a place that gives the quoted ratio; where none does, the nearest ones."""
    head = {"sweep": answer.sweep, "speedup_ratio": answer.speedup_ratio, "found": answer.found}
    return [head | flat(place) for place in answer.places or answer.nearest] or [head]


def sweep_rows(sweep: SweepAnswer) -> list[Row]:
    """One row a cell."""
    return [{"sweep": sweep.name} | flat(one) for one in sweep.cells]
