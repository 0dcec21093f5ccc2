"""What the same table would have said, read at another cell: the ceiling, the peak, the best-looking one.

Contains the wrong readings on purpose; the right one is the content's own answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from opmon.core.answers import OtherReading
from opmon.core.cells import nearest
from opmon.core.knee import AGGREGATE, PER_STREAM
from opmon.core.pairs import Pair
from opmon.core.recommend.ratios import FIGURES, classify


def other_readings(
    pairs: Sequence[Pair], ceiling: int | None, live_peak: int | None, delta: float
) -> tuple[OtherReading, ...]:
    """The aggregate at the cell nearest to the ceiling (unknown: the largest cell) and at the one nearest to the live
    peak, and the best ratio of any column; readings without a ratio are left out."""
    by_level = {pair.concurrency: pair for pair in pairs}
    if not by_level:
        return ()
    levels = sorted(by_level)
    readings = [_reading("ceiling", by_level[nearest(ceiling, levels) if ceiling else levels[-1]], AGGREGATE, delta)]
    if live_peak:
        readings.append(_reading("peak", by_level[nearest(live_peak, levels)], AGGREGATE, delta))
    everywhere = [_reading("best_cell", pair, column, delta) for pair in pairs for column in (AGGREGATE, PER_STREAM)]
    best = max((one for one in everywhere if one is not None), key=lambda one: one.ratio, default=None)
    return tuple(one for one in (*readings, best) if one is not None)


def _reading(name: str, pair: Pair, column: str, delta: float) -> OtherReading | None:
    ratio = pair.ratio(FIGURES[column])
    return None if ratio is None else OtherReading(name, pair.concurrency, column, ratio, classify(ratio, ratio, delta))
