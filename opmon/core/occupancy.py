"""Statistics of an occupancy: milliseconds at each level of concurrency, under three weightings.

Contains no sampling and no states: what the milliseconds are of is the caller's matter. Quantiles are exact, by
integers; without any weight there is no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from opmon.core.answers import Distribution, LevelShare, Statistics


class Weighting(StrEnum):
    """What a level n counts: its time, its time if n >= 1, or n times its time (what a request meets)."""

    TIME = "time"
    BUSY = "busy"
    REQUEST = "request"


def weights(occupancy: Mapping[int, int], weighting: str) -> list[tuple[int, int]]:
    """`(level, weight)` in order of level, levels without weight left out."""
    if weighting == Weighting.TIME:
        pairs = [(level, ms) for level, ms in occupancy.items() if ms > 0]
    elif weighting == Weighting.BUSY:
        pairs = [(level, ms) for level, ms in occupancy.items() if level >= 1 and ms > 0]
    elif weighting == Weighting.REQUEST:
        pairs = [(level, level * ms) for level, ms in occupancy.items() if level >= 1 and ms > 0]
    else:
        message = f"{weighting!r} is no weighting; there are time, busy and request"
        raise ValueError(message)
    return sorted(pairs)


def quantile(occupancy: Mapping[int, int], weighting: str, per_mille: int) -> int | None:
    """The smallest level with `1000 x cumulative >= per_mille x total`, in integers; None without weight.

    `per_mille` 500 is the median. 0 gives the smallest level that has weight.
    """
    return _quantile_of(weights(occupancy, weighting), per_mille)


def mean(occupancy: Mapping[int, int], weighting: str) -> float | None:
    """The weighted mean level; None without weight."""
    pairs = weights(occupancy, weighting)
    total = sum(weight for _, weight in pairs)
    return sum(level * weight for level, weight in pairs) / total if total else None


def statistics(occupancy: Mapping[int, int], weighting: str) -> Statistics:
    """Mean, quantiles and maximum under one weighting; all None without weight."""
    pairs = weights(occupancy, weighting)
    if not pairs:
        return Statistics()
    total = sum(weight for _, weight in pairs)
    return Statistics(
        mean=sum(level * weight for level, weight in pairs) / total,
        p50=_quantile_of(pairs, 500),
        p90=_quantile_of(pairs, 900),
        p95=_quantile_of(pairs, 950),
        p99=_quantile_of(pairs, 990),
        max=pairs[-1][0],
    )


def distribution(occupancy: Mapping[int, int], observed_ms: int) -> Distribution:
    """The occupancy in seconds and shares, with its statistics. A share is of `observed_ms`, the time observed.

    Empty without any millisecond: nothing is known then, which is not the same as idle.
    """
    levels = tuple(
        LevelShare(level, ms / 1000, ms / observed_ms if observed_ms else 0.0)
        for level, ms in weights(occupancy, Weighting.TIME)
    )
    return Distribution(
        occupancy=levels,
        time=statistics(occupancy, Weighting.TIME),
        busy=statistics(occupancy, Weighting.BUSY),
        request=statistics(occupancy, Weighting.REQUEST),
    )


def busy_ms(occupancy: Mapping[int, int]) -> int:
    """Milliseconds at level 1 and above."""
    return sum(ms for level, ms in occupancy.items() if level >= 1)


def central_range(occupancy: Mapping[int, int], cut_per_mille: int = 25) -> tuple[int, int, float] | None:
    """Smallest and largest busy level after cutting at most `cut_per_mille` of busy time at each end, and the share
    of busy time between them; None without busy time."""
    pairs = weights(occupancy, Weighting.BUSY)
    total = sum(ms for _, ms in pairs)
    if not total:
        return None
    low = _first_kept(pairs, total, cut_per_mille)
    high = _first_kept(pairs[::-1], total, cut_per_mille)
    return low, high, sum(ms for level, ms in pairs if low <= level <= high) / total


def _first_kept(pairs: list[tuple[int, int]], total: int, cut_per_mille: int) -> int:
    """The first level that does not fit into the cut, going through `pairs` in their order."""
    cut = 0
    for level, ms in pairs:
        cut += ms
        if 1000 * cut > cut_per_mille * total:
            return level
    return pairs[-1][0]


def _quantile_of(pairs: list[tuple[int, int]], per_mille: int) -> int | None:
    if not 0 <= per_mille <= 1000:
        message = f"a quantile lies between 0 and 1000 per mille, not at {per_mille}"
        raise ValueError(message)
    needed = per_mille * sum(weight for _, weight in pairs)
    cumulative = 0
    for level, weight in pairs:
        cumulative += weight
        if 1000 * cumulative >= needed:
            return level
    return None
