"""The live curve beside a sweep as the page draws it: two lines on logarithmic axes, and a row for each level.

Contains positions; the figures and their words come from the recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opmon.core.answers import Recommendation
from opmon.core.beside import LevelBeside, LookFirst

WIDTH, HEIGHT, EDGE = 320, 150, 8
LEFT, FOOT = 34, 20
"""Room for the figures on the axes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: `points` as SVG has them, and each of them as a dot."""

    name: str
    points: str
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class CurveView:
    """One configuration and content: rows by concurrency, the lines of live server and sweep, and what is written on the
    axes: (place, figure) of each level, and of the lowest and the highest speed."""

    content: str
    configuration: str
    rows: tuple[LevelBeside, ...]
    look_first: tuple[LookFirst, ...]
    lines: tuple[Line, ...]
    levels: tuple[tuple[float, float], ...] = ()
    speeds: tuple[tuple[float, float], ...] = ()


def curve_views(answer: Recommendation | None) -> list[CurveView]:
    """What was seen of the live curve, for each content and configuration; none where no level was seen at all."""
    views = []
    for one in answer.contents if answer else ():
        for configuration in dict.fromkeys(level.configuration for level in one.live_curve):
            rows = tuple(level for level in one.live_curve if level.configuration == configuration)
            if any(level.live_seconds for level in rows):
                views.append(CurveView(one.content, configuration, rows, one.look_first, *_drawn(rows)))
    return views


def _drawn(
    rows: Sequence[LevelBeside],
) -> tuple[tuple[Line, ...], tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
    """Lines, levels and speeds; nothing where nothing is known."""
    live = _known((row.concurrency, row.live_tokens_per_second) for row in rows)
    cells = _known((row.concurrency, row.cell_decode_tokens_per_second) for row in rows)
    everything = [*live, *cells]
    if not everything:
        return (), (), ()
    levels, speeds = ([point[axis] for point in everything] for axis in (0, 1))
    lines = tuple(_line(name, points, levels, speeds) for name, points in (("live", live), ("sweep", cells)) if points)
    return (
        lines,
        tuple((_x(level, levels), level) for level in sorted(set(levels))),
        tuple((_y(speed, speeds), speed) for speed in sorted({min(speeds), max(speeds)})),
    )


def _known(points: Iterable[tuple[float, float | None]]) -> list[tuple[float, float]]:
    return [(level, speed) for level, speed in points if speed is not None and speed > 0 and level > 0]


def _line(name: str, points: Sequence[tuple[float, float]], levels: Sequence[float], speeds: Sequence[float]) -> Line:
    dots = tuple((_x(level, levels), _y(speed, speeds)) for level, speed in points)
    return Line(name, " ".join(f"{x},{y}" for x, y in dots), dots)


def _x(level: float, levels: Sequence[float]) -> float:
    return round(LEFT + EDGE + (WIDTH - LEFT - 2 * EDGE) * _share(level, levels), 1)


def _y(speed: float, speeds: Sequence[float]) -> float:
    return round(HEIGHT - FOOT - EDGE - (HEIGHT - FOOT - 2 * EDGE) * _share(speed, speeds), 1)


def _share(value: float, among: Sequence[float]) -> float:
    """Where a value lies between the smallest and the largest, on a logarithmic axis; in the middle where all are one."""
    low, high = min(among), max(among)
    return math.log(value / low) / math.log(high / low) if high > low else 0.5
