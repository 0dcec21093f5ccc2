"""The distribution as the page draws it: one row a level, a bar for each weighting, marks for ceiling and sweep.

Contains the choice of rows and their widths; the shares come from the answer, the weights from `opmon.core.occupancy`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from opmon.core.answers import Distribution, OperatingPoint, Statistics
from opmon.core.occupancy import weights

# Up to this level every row is one level; above, rows are ranges that grow with the level.
EXACT_UP_TO = 24
WEIGHTINGS = ("time", "busy", "request")


@dataclass(frozen=True, slots=True)
class Bar:
    """A share of a weighting, and how long its bar is (1 = the longest of the column)."""

    ratio: float
    length: float


@dataclass(frozen=True, slots=True)
class LevelRow:
    """`first` to `last` at once. `skipped`: the row stands for levels that never occurred and carry no mark."""

    first: int
    last: int
    seconds: float
    bars: tuple[Bar, ...]
    is_ceiling: bool = False
    measured: tuple[float, ...] = ()
    is_cell: bool = False
    skipped: bool = False

    @property
    def label(self) -> str:
        """The level, or the range."""
        return str(self.first) if self.first == self.last else f"{self.first}\N{EN DASH}{self.last}"


@dataclass(frozen=True, slots=True)
class LevelView:
    """The table of levels; `statistics` per weighting, in the order of the bars."""

    of: str
    rows: tuple[LevelRow, ...]
    statistics: tuple[tuple[str, Statistics], ...]

    @property
    def empty(self) -> bool:
        """Whether nothing was observed at all."""
        return not any(row.seconds for row in self.rows)


def range_ends() -> Iterator[int]:
    """Where rows end when there are many levels: 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, ... two to a doubling."""
    yield from (0, 1, 2, 3)
    for power in count(2):
        yield from (1 << power, 3 << (power - 1))


def ranges_up_to(highest: int) -> list[tuple[int, int]]:
    """Rows for the levels 0 to `highest`: single levels, or growing ranges where there are many."""
    if highest <= EXACT_UP_TO:
        return [(n, n) for n in range(highest + 1)]
    ranges, first = [], 0
    for last in range_ends():
        ranges.append((first, last))
        if last >= highest:
            return ranges
        first = last + 1
    return ranges


def shares(distribution: Distribution, weighting: str) -> dict[int, float]:
    """Level -> share of the weighting."""
    pairs = weights({one.level: round(one.seconds * 1000) for one in distribution.occupancy}, weighting)
    total = sum(weight for _, weight in pairs)
    return {level: weight / total for level, weight in pairs}


@dataclass(frozen=True, slots=True)
class Marks:
    """What stands on the axis besides the distribution: the ceiling, the levels of a sweep, the cell that applies."""

    ceiling: int | None = None
    measured: tuple[float, ...] = ()
    cells: tuple[float, ...] = ()

    @property
    def levels(self) -> set[int]:
        """The levels that need a row although nothing ran there."""
        return {math.ceil(one) for one in self.measured} | ({self.ceiling} if self.ceiling else set())


def rows_of(distribution: Distribution, marks: Marks) -> tuple[LevelRow, ...]:
    """The rows in order of level: what occurred, what is marked, and one row for each stretch that has neither."""
    seconds = {one.level: one.seconds for one in distribution.occupancy}
    ranges = ranges_up_to(max(seconds, default=0))
    beyond = ranges[-1][1]
    ranges += [(level, level) for level in sorted(marks.levels) if level > beyond]
    per_weighting = [shares(distribution, weighting) for weighting in WEIGHTINGS]
    binned = [[sum(r for n, r in one.items() if low <= n <= high) for low, high in ranges] for one in per_weighting]
    longest = [max(column, default=0.0) or 1.0 for column in binned]
    rows: list[LevelRow] = []
    for index, (low, high) in enumerate(ranges):
        if rows and low > rows[-1].last + 1:
            rows.append(LevelRow(rows[-1].last + 1, low - 1, 0.0, (), skipped=True))
        rows.append(
            LevelRow(
                low,
                high,
                sum(s for n, s in seconds.items() if low <= n <= high),
                tuple(Bar(column[index], column[index] / top) for column, top in zip(binned, longest, strict=True)),
                is_ceiling=marks.ceiling is not None and low <= marks.ceiling <= high,
                measured=tuple(one for one in marks.measured if low <= math.ceil(one) <= high),
                is_cell=any(low <= math.ceil(one) <= high for one in marks.cells),
            )
        )
    return tuple(rows)


def level_view(point: OperatingPoint, of: str, marks: Marks) -> LevelView:
    """The table of one of the three distributions. The ceiling is a limit of running, so it is marked there only."""
    distribution: Distribution = {
        "running": point.running,
        "in_system": point.in_system,
        "waiting": point.waiting,
    }[of]
    shown = marks if of == "running" else replace(marks, ceiling=None)
    shown = shown if of != "waiting" else Marks()
    return LevelView(
        of,
        rows_of(distribution, shown),
        tuple((name, getattr(distribution, name)) for name in WEIGHTINGS),
    )
