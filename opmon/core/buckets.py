"""Quantiles and means of bucketed families, from increases over a window.

Contains no bounds of its own: they come with the increases, as the page showed them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opmon.core.answers import Spread
from opmon.core.sums import BucketIncrease


@dataclass(frozen=True, slots=True)
class BucketQuantile:
    """A quantile; `above` says that it lies in the +Inf bucket, and `value` is then the largest finite bound."""

    value: float
    above: bool = False


def quantile(bounds: Sequence[float], counts: Sequence[float], q: float) -> BucketQuantile | None:
    """The `q` quantile (0 to 1) of cumulative buckets, by Prometheus' `histogram_quantile`.

    Its special cases: None (there NaN) for fewer than two buckets, a last bound that is not +Inf, or no
    observation. Counts that fall from one bucket to the next are lifted to the one before. In the last bucket the
    answer is the bound below it. In the first it is interpolated from 0, unless its bound is 0 or less: then that
    bound. Else linear within the bucket.
    """
    if not 0 <= q <= 1:
        message = f"a quantile lies between 0 and 1, not at {q}"
        raise ValueError(message)
    if len(bounds) < 2 or not math.isinf(bounds[-1]):
        return None
    cumulative = _monotonic(counts)
    if not cumulative[-1] > 0:
        return None
    rank = q * cumulative[-1]
    index = next(i for i, count in enumerate(cumulative) if count >= rank)
    if index == len(bounds) - 1:
        return BucketQuantile(bounds[-2], above=True)
    if index == 0 and bounds[0] <= 0:
        return BucketQuantile(bounds[0])
    lower, below = (bounds[index - 1], cumulative[index - 1]) if index else (0.0, 0.0)
    inside = cumulative[index] - below
    share = (rank - below) / inside if inside > 0 else 1.0
    return BucketQuantile(lower + (bounds[index] - lower) * share)


def one_family(increases: Sequence[BucketIncrease]) -> BucketIncrease | None:
    """One family out of several with different bounds; None without any.

    Cumulative counts add at every bound that all have. Where these are at least half of the bounds of each, that
    sum is the answer, over all observations. Else the family with most observations answers alone.
    """
    families = [family for family in increases if family.counts]
    if len(families) <= 1:
        return families[0] if families else None
    shared = set(families[0].bounds).intersection(*(family.bounds for family in families[1:]))
    if 2 * len(shared) < max(len(family.bounds) for family in families) or math.inf not in shared:
        return max(families, key=lambda family: family.counts[-1])
    bounds = tuple(sorted(shared))
    counts = [sum(family.counts[family.bounds.index(bound)] for family in families) for bound in bounds]
    return BucketIncrease(bounds, counts)


def spread(total: float | None, count: float | None, increases: Sequence[BucketIncrease]) -> Spread:
    """Mean, p50 and p95 of a family. Each is None where its part is not known or nothing was counted."""
    family = one_family(increases)
    found = {name: quantile(family.bounds, family.counts, q) for name, q in _QUANTILES} if family else {}
    p50, p95 = found.get("p50"), found.get("p95")
    return Spread(
        mean=total / count if total is not None and count else None,
        p50=p50.value if p50 else None,
        p95=p95.value if p95 else None,
        above=tuple(name for name, answer in found.items() if answer and answer.above),
    )


_QUANTILES = (("p50", 0.5), ("p95", 0.95))


def _monotonic(counts: Sequence[float]) -> list[float]:
    lifted: list[float] = []
    for count in counts:
        lifted.append(max(count, lifted[-1]) if lifted else count)
    return lifted
