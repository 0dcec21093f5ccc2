"""Increases of cumulative values between two scrapes of one epoch.

Contains no notion of restarts or of time: the caller pairs only samples whose counters may be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opmon.core.model import SeriesKey, SeriesSample
from opmon.core.sums import BucketIncrease

ROUNDING_SHARE = 1e-9


def counter_increases(
    earlier: Mapping[SeriesKey, SeriesSample], later: Mapping[SeriesKey, SeriesSample], names: Iterable[str]
) -> dict[str, float]:
    """Increase of each named counter, summed over the series that show it in both scrapes.

    A counter that no series shows in both is left out. So is a fall: within an epoch it is only ever the `_sum` of a
    family that took a negative observation, and a negative rate would be worse than a missing one.
    """
    rises: dict[str, float] = {}
    for key, sample in later.items():
        before = earlier.get(key)
        if before is None:
            continue
        old, new = before.counters, sample.counters
        for name in names:
            if name in new and name in old:
                rise = new[name] - old[name]
                if rise >= 0:
                    rises[name] = rises.get(name, 0.0) + rise
                elif not fell(old[name], new[name]):
                    rises.setdefault(name, 0.0)
    return rises


def fell(old: float, new: float) -> bool:
    """Whether a cumulative value fell by more than rounding: a page that adds up the sums of several processes may
    add them in another order the next time."""
    return old - new > ROUNDING_SHARE * abs(old)


def bucket_increases(
    earlier: Mapping[SeriesKey, SeriesSample], later: Mapping[SeriesKey, SeriesSample]
) -> list[tuple[str, BucketIncrease]]:
    """Increase of each bucketed family, series by series; a family whose bounds differ between the two is left out."""
    found: list[tuple[str, BucketIncrease]] = []
    for key, sample in later.items():
        before = earlier.get(key)
        if before is None:
            continue
        for name, new in sample.buckets.items():
            old = before.buckets.get(name)
            if old is None or old.bounds != new.bounds:
                continue
            rises = [b - a for a, b in zip(old.counts, new.counts, strict=True)]
            if min(rises, default=0.0) >= 0:
                found.append((name, BucketIncrease(new.bounds, rises)))
    return found
