"""Where more requests stop buying throughput, and hence which metric column answers the question.

Contains the knee of a configuration and the choice of the column (DEFINITIONS 4); no ratio and no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from opmon.core.answers import Knee
from opmon.core.cells import Cell, has_failures, is_usable

KNEE_RATIO = 0.8
STILL_RISING_SLOPE = 0.5
LIMITED_RATIO = 0.05
RULE_OF_THUMB_REQUESTS = 4

PER_STREAM, AGGREGATE, BOTH = "per_stream", "aggregate", "both"


def aggregate_curve(cells: Iterable[Cell]) -> list[tuple[float, float]]:
    """`(concurrency, aggregate tok/s)` by concurrency; repeats by their median, cells with failures, or without a usable figure, left out."""
    values: dict[float, list[float]] = {}
    for cell in cells:
        level, speed = cell.concurrency, cell.aggregate
        if level is None or speed is None or not is_usable(level) or not is_usable(speed) or has_failures(cell):
            continue
        values.setdefault(level, []).append(speed)
    return [(level, median(values[level])) for level in sorted(values)]


def knee(curve: Sequence[tuple[float, float]]) -> Knee | None:
    """The smallest concurrency at which the aggregate reaches 80 % of its largest measured value.

    Log-log between the cells, first crossing. The last segment still steeper than 0.5 in log-log: `above` the largest
    cell. Already there at the first cell: `at_most` it. One cell alone has no shape: None.
    """
    if len(curve) < 2:
        return None
    (level_before, speed_before), (level_last, speed_last) = curve[-2:]
    if math.log(speed_last / speed_before) / math.log(level_last / level_before) > STILL_RISING_SLOPE:
        return Knee(level_last, "above")
    enough = KNEE_RATIO * max(speed for _, speed in curve)
    if curve[0][1] >= enough:
        return Knee(curve[0][0], "at_most")
    for (left, low), (right, high) in pairwise(curve):
        if high >= enough:
            return Knee(interpolate(enough, (low, left), (high, right)), "exact")
    return None


def interpolate(x: float, left: tuple[float, float], right: tuple[float, float]) -> float:
    """The value at `x` on the straight line between two points in log-log; all must be above 0."""
    part = math.log(x / left[0]) / math.log(right[0] / left[0])
    return math.exp(math.log(left[1]) + part * math.log(right[1] / left[1]))


def lower_knee(*knees: Knee | None) -> Knee | None:
    """Of a pair the smaller; a knee that was not reached lies above every number of its own sweep."""
    known = [one for one in knees if one is not None]
    return min(known, key=lambda one: (one.bound == "above", one.value)) if known else None


def choose_column(
    p50: int, p90: int, limited_ratio: float | None, pair_knee: Knee | None, largest_level: float | None
) -> tuple[str, str]:
    """The column and the reason in words, from the in-system occupancy under request weights.

    `limited_ratio` is of busy time; unknown counts as 0. `largest_level`: the sweep's largest cell.
    """
    limited = limited_ratio or 0.0
    if limited >= LIMITED_RATIO:
        return AGGREGATE, f"requests were held back by a limit for {100 * limited:.0f} % of the busy time (5 % or more)"
    if pair_knee is None:
        return _without_knee(p90)
    if pair_knee.bound == "above":
        return _below_unreached_knee(p90, pair_knee, largest_level)
    return _beside_knee(p50, p90, pair_knee)


def _below_unreached_knee(p90: int, pair_knee: Knee, largest_level: float | None) -> tuple[str, str]:
    words = knee_in_words(pair_knee)
    if largest_level is not None and p90 > largest_level:
        return BOTH, f"the busiest requests meet {p90} at once, beyond the largest cell, and the knee is {words}"
    return PER_STREAM, f"90 % of requests meet {p90} or fewer at once; the knee is {words}"


def _beside_knee(p50: int, p90: int, pair_knee: Knee) -> tuple[str, str]:
    words = knee_in_words(pair_knee)
    if p50 >= pair_knee.value:
        return AGGREGATE, f"half of all requests meet {p50} or more at once, at or past the knee ({words})"
    if pair_knee.bound == "at_most":
        return BOTH, f"the knee is {words}, where nothing was measured, so it may lie on either side of your {p50}"
    if p90 < pair_knee.value:
        return PER_STREAM, f"90 % of requests meet {p90} or fewer at once, below the knee ({words})"
    return (
        BOTH,
        f"requests meet {p50} in the median and {p90} in the busiest tenth, on both sides of the knee ({words})",
    )


def _without_knee(p90: int) -> tuple[str, str]:
    if p90 <= RULE_OF_THUMB_REQUESTS:
        return PER_STREAM, f"no knee can be read from this sweep; rule of thumb: at most 4 at once (p90 {p90})"
    return (
        BOTH,
        f"no knee can be read from this sweep, and the rule of thumb (at most 4 at once) does not hold: p90 {p90}",
    )


def knee_in_words(one: Knee) -> str:
    """`29.4`, `at or below 1`, `above 64`."""
    return {"exact": "", "at_most": "at or below ", "above": "above "}[one.bound] + f"{one.value:.3g}"
