"""The live curve beside a sweep as the page draws it: two lines on logarithmic axes, and a row for each level.

Contains positions; the figures and their words come from the recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opmon.core.answers import Recommendation
from opmon.core.beside import LevelBeside, LookFirst

WIDTH, HEIGHT, EDGE = 320, 140, 8


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: `points` as SVG has them, and each of them as a dot."""

    name: str
    points: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class CurveView:
    """One configuration and content: rows by concurrency, and the lines of live server and sweep."""

    content: str
    configuration: str
    rows: tuple[LevelBeside, ...]
    look_first: tuple[LookFirst, ...]
    lines: tuple[Line, ...]


def curve_views(answer: Recommendation | None) -> list[CurveView]:
    """What was seen of the live curve, for each content and configuration; none where no level was seen at all."""
    views = []
    for one in answer.contents if answer else ():
        for configuration in dict.fromkeys(level.configuration for level in one.live_curve):
            rows = tuple(level for level in one.live_curve if level.configuration == configuration)
            if any(level.live_seconds for level in rows):
                views.append(CurveView(one.content, configuration, rows, one.look_first, _lines(rows)))
    return views


def _lines(rows: Sequence[LevelBeside]) -> tuple[Line, ...]:
    live = [(row.concurrency, row.live_tokens_per_second) for row in rows]
    cells = [(row.concurrency, row.cell_decode_tokens_per_second) for row in rows]
    drawn = [_known(live), _known(cells)]
    everything = [point for points in drawn for point in points]
    if not everything:
        return ()
    return tuple(
        _line(name, points, everything) for name, points in zip(("live", "sweep"), drawn, strict=True) if points
    )


def _known(points: Iterable[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return [(level, speed) for level, speed in points if speed is not None and speed > 0 and level > 0]


def _line(name: str, points: Sequence[tuple[float, float]], everything: Sequence[tuple[float, float]]) -> Line:
    levels, speeds = zip(*everything, strict=True)
    dots = tuple(
        (
            round(EDGE + (WIDTH - 2 * EDGE) * _share(level, levels), 1),
            round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * _share(speed, speeds), 1),
        )
        for level, speed in points
    )
    return Line(name, " ".join(f"{x},{y}" for x, y in dots), dots)


def _share(value: float, among: Sequence[float]) -> float:
    """Where a value lies between the smallest and the largest, on a logarithmic axis; in the middle where all are one."""
    low, high = min(among), max(among)
    return math.log(value / low) / math.log(high / low) if high > low else 0.5
