"""The live curve: how fast the server was at each running level, from pure pairs alone.

Contains no choice of pairs (that is `fold`) and no comparison with a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opmon.core.answers import CurvePoint
from opmon.core.sums import CurveLevel, Sums

SHORTEST_MS = 30_000
"""A level is not drawn under this much time in pure pairs."""


def live_curve(sums: Sums, shortest_ms: int = SHORTEST_MS) -> tuple[CurvePoint, ...]:
    """One point per running level from 1 on with at least 30 s (`shortest_ms`) of pure pairs, in order of level.

    The aggregate is output tokens over the elapsed seconds of the same pairs: pure decode at that level. The decode
    speed is (output - first tokens) over the rise of the ITL sum, None where that is not exposed.
    """
    return tuple(
        _point(level, pairs, sums.running.get(level, 0))
        for level, pairs in sorted(sums.curve.items())
        if level >= 1 and pairs.elapsed_ms >= max(shortest_ms, 1)
    )


def aggregate_at(curve: Sequence[CurvePoint], level: float) -> float | None:
    """The live aggregate (tokens per second) at a level: a drawn one, or log-log between two neighbours that are at
    most an octave apart. None elsewhere: nothing is extended beyond what was seen."""
    exact = next((point for point in curve if point.level == level), None)
    if exact is not None:
        return exact.aggregate_tokens_per_second
    below = max((point for point in curve if point.level < level), key=lambda point: point.level, default=None)
    above = min((point for point in curve if point.level > level), key=lambda point: point.level, default=None)
    if below is None or above is None or above.level > 2 * below.level:
        return None
    low, high = below.aggregate_tokens_per_second, above.aggregate_tokens_per_second
    if low <= 0 or high <= 0:
        return None
    share = math.log(level / below.level) / math.log(above.level / below.level)
    return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))


def _point(level: int, pairs: CurveLevel, level_ms: int) -> CurvePoint:
    aggregate = 1000 * pairs.output_tokens / pairs.elapsed_ms
    return CurvePoint(
        level=level,
        seconds=pairs.elapsed_ms / 1000,
        # Elapsed time runs between scrape instants, a level's time in strata: the quotient may pass 1 by a hair.
        used_ratio=min(1.0, pairs.elapsed_ms / level_ms) if level_ms else 1.0,
        aggregate_tokens_per_second=aggregate,
        share_tokens_per_second=aggregate / level,
        decode_tokens_per_second=(
            (pairs.output_tokens - pairs.first_tokens) / pairs.itl_seconds if pairs.itl_seconds > 0 else None
        ),
    )
