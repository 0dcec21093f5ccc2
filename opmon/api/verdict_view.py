"""The verdict as the page draws it: a headline, and for each number judged a strip around 1.

Contains words and positions on a logarithmic axis; ratios, intervals and thresholds come from the recommendation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opmon.api.wording import COLUMNS, TIMES, number, percent
from opmon.core.answers import ColumnAnswer, ContentAnswer, Recommendation
from opmon.core.recommend.ratios import edge_of
from opmon.core.recommend.verdicts import FEWEST_EVIDENCE_RATIO

# The axis of a strip: from 1/4 to 4 times.
OCTAVES = 2.0
SYMBOLS = {
    "switch": "\N{RIGHTWARDS ARROW}",
    "stay": "\N{DOWNWARDS ARROW TO BAR}",
    "no_difference": "=",
    "undecided": "?",
}
READINGS = {
    "ceiling": "reading the sweep at the ceiling",
    "peak": "reading it at the highest level seen",
    "best_cell": "reading the best cell of the sweep",
}


@dataclass(frozen=True, slots=True)
class Strip:
    """A ratio with its interval. Positions are shares of the axis, cut at its ends; None is not known."""

    label: str
    ratio: float | None
    low: float | None
    high: float | None
    middle_at: float | None
    low_at: float | None
    high_at: float | None
    threshold: tuple[float, float]
    judged: bool
    note: str = ""


def place(ratio: float) -> float:
    """Where a ratio stands on the axis, 0 to 1."""
    if ratio <= 0:
        return 0.0
    return min(max((math.log2(ratio) + OCTAVES) / (2 * OCTAVES), 0.0), 1.0)


def strip(
    label: str,
    values: tuple[float | None, float | None, float | None],
    threshold: float,
    *,
    judged: bool,
    note: str = "",
) -> Strip:
    """A strip of (middle, low, high)."""
    middle_at, low_at, high_at = (None if value is None else place(value) for value in values)
    around_one = (place(1 / edge_of(threshold)), place(edge_of(threshold)))
    return Strip(label, *values, middle_at, low_at, high_at, around_one, judged, note)


def column_strips(name: str, column: ColumnAnswer, answer: ContentAnswer) -> list[Strip]:
    """One strip, or two where it is not known which configuration the live server runs."""
    judged = answer.column in (name, "both") and not (name == "per_stream" and answer.whole_turn)
    label = COLUMNS[name]
    note = "stood in by the aggregate ratio" if column.proxy else ""
    known = (column.ratio_weighted, column.low, column.high)
    both = column.by_live_is
    if both is None:
        return [strip(label, known, answer.threshold_ratio, judged=judged, note=note)]
    return [
        strip(
            f"{label}, if the live server runs the {side}",
            (one.ratio_weighted, one.low, one.high),
            answer.threshold_ratio,
            judged=judged,
            note=note,
        )
        for side, one in (("reference", both.reference), ("candidate", both.candidate))
    ]


def strips(answer: ContentAnswer) -> list[Strip]:
    """All numbers of a content, the judged ones first."""
    found = [
        *column_strips("per_stream", answer.columns.per_stream, answer),
        *column_strips("aggregate", answer.columns.aggregate, answer),
    ]
    turn = answer.whole_turn
    if turn is not None:
        values = (turn.speedup_ratio, turn.low, turn.high)
        judged = answer.column in ("per_stream", "both")
        found.append(strip("the whole turn", values, answer.threshold_ratio, judged=judged))
    return sorted((one for one in found if one.ratio is not None), key=lambda one: not one.judged)


def judged_column(answer: ContentAnswer) -> ColumnAnswer:
    """The column that the verdict rests on; of `both` the per-stream one."""
    return answer.columns.aggregate if answer.column == "aggregate" else answer.columns.per_stream


def because(answer: ContentAnswer) -> str:
    """Why, in one line for the first screen; all reasons stand further down.

    An undecided verdict names what stands in the way, in the order in which it can be mended by measuring.
    """
    column = judged_column(answer)
    if answer.verdict == "undecided":
        if column.proxy or column.evidence_ratio < FEWEST_EVIDENCE_RATIO:
            return (
                f"{COLUMNS.get(answer.column, answer.column)}: only {percent(column.evidence_ratio)} of it is measured"
            )
        if answer.mismatches:
            one = answer.mismatches[0]
            return f"{one.axis.replace('_', ' ')}: the cell has {known(one.cell)}, the server {known(one.live)}"
    return answer.reasons[0] if answer.reasons else ""


def known(value: float | str | None) -> str:
    """A number or a word of a mismatch."""
    return value if isinstance(value, str) else number(value)


def headline(answer: Recommendation) -> str:
    """The verdict in three words or so."""
    return {
        "switch": f"Switch to {answer.candidate}",
        "stay": f"Stay with {answer.reference}",
        "no_difference": "No difference that matters",
        "undecided": "Not decided yet",
    }.get(answer.verdict, answer.verdict.replace("_", " ").capitalize())


def reading_words(reading: str) -> str:
    """Another reading of the same sweep, in words."""
    return READINGS.get(reading, reading.replace("_", " "))


def interval_words(one: Strip) -> str:
    """`1.42x (1.31 to 1.55)`."""
    if one.ratio is None:
        return "not known"
    middle = f"{one.ratio:.2f}{TIMES}"
    if one.low is None or one.high is None or math.isclose(one.low, one.high, rel_tol=5e-3):
        return middle
    return f"{middle} ({one.low:.2f} to {one.high:.2f})"
