"""Figures of single requests of a run, where a tool keeps them: means and quantiles of what is there.

Contains arithmetic on lists and no format. Speeds of requests are `opmon.sweeps.speeds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean


def known(figures: Sequence[float | None]) -> list[float]:
    """The figures that are there, smallest first."""
    return sorted(one for one in figures if one is not None)


def mean_of(figures: Sequence[float | None]) -> float | None:
    """The mean of the figures that are there; None without any."""
    there = known(figures)
    return fmean(there) if there else None


def quantile_of(figures: Sequence[float | None], ratio: float) -> float | None:
    """A quantile of single requests' figures, between neighbours as numpy does; None without any."""
    there = known(figures)
    if not there:
        return None
    place = ratio * (len(there) - 1)
    low = int(place)
    high = min(low + 1, len(there) - 1)
    return there[low] + (there[high] - there[low]) * (place - low)
