"""Where the server would run after the switch: the occupancy that the same arrivals make on the candidate.

Contains "After the switch" of DEFINITIONS 5; assumes that arrivals depend only on how many are in the system.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from opmon.core.answers import Knee, Projection
from opmon.core.cells import bracket, nearest
from opmon.core.knee import AGGREGATE, interpolate
from opmon.core.occupancy import Weighting, quantile
from opmon.core.pairs import Pair, Side
from opmon.core.recommend.ratios import FIGURES, REFERENCE, is_scattered

# Occupancies are integers; shares are kept to a millionth.
_UNITS = 1_000_000
# A product of many ratios stays a number: beyond this logarithm a level has practically no time, or all of it.
_FINITE = 230.0


def project(
    running: Mapping[int, int], pairs: Sequence[Pair], pair_knee: Knee | None, live_is: str | None
) -> Projection:
    """Busy-weighted p50 and p95, idle share, end-to-end speed-up and the cell under the projected occupancy; else the
    reason why not."""
    reason = _refusal(running, pairs, pair_knee, live_is)
    if reason is not None:
        return Projection(null_reason=reason)
    projected = projected_occupancy(running, pairs)
    total = sum(projected.values())
    counted = {level: round(_UNITS * ms / total) for level, ms in projected.items()}
    median = quantile(counted, Weighting.REQUEST, 500)
    return Projection(
        p50=quantile(counted, Weighting.BUSY, 500),
        p95=quantile(counted, Weighting.BUSY, 950),
        idle_ratio=projected[0] / total,
        e2e_speedup_ratio=_e2e_speedup(running, projected, pairs),
        cell_concurrency=nearest(median, [pair.concurrency for pair in pairs]) if median else None,
    )


def projected_occupancy(running: Mapping[int, int], pairs: Sequence[Pair]) -> dict[int, float]:
    """`T'_n = T_n / prod_{k=1..n} r(k)`, `T'_0 = T_0`, not normalised. Beyond the known levels r stays as it was last."""
    projected, slope, ratio = {0: float(running.get(0, 0))}, 0.0, 1.0
    known_up_to = int(min(max(running, default=0), max((pair.concurrency for pair in pairs), default=0)))
    for level in range(1, known_up_to + 1):
        ratio = _ratio(level, pairs) or ratio
        slope += math.log(ratio)
        if running.get(level, 0) > 0:
            projected[level] = _divided(running[level], slope)
    for level, ms in running.items():
        if level > known_up_to and ms > 0:
            projected[level] = _divided(ms, slope + (level - known_up_to) * math.log(ratio))
    return projected


def _divided(ms: int, logarithm: float) -> float:
    """A time divided by a product of ratios, of which the logarithm is given; it stays a number above 0."""
    return ms * math.exp(-min(max(logarithm, -_FINITE), _FINITE))


def _refusal(
    running: Mapping[int, int], pairs: Sequence[Pair], pair_knee: Knee | None, live_is: str | None
) -> str | None:
    p95 = quantile(running, Weighting.BUSY, 950)
    if p95 is None:
        return "the server was never seen busy"
    if live_is != REFERENCE:
        return "a projection starts from the reference: say that the live server runs it"
    if running.get(0, 0) <= 0:
        return "the server was never seen idle, so arrivals cannot be told from the load"
    if pair_knee is None or (pair_knee.bound != "above" and p95 >= pair_knee.value) or pair_knee.bound == "at_most":
        return "the busy p95 does not lie safely below the knee, where queueing would change the answer"
    unknown = [level for level in range(1, p95 + 1) if not _is_known(level, pairs)]
    if unknown:
        return f"the aggregate ratio is not known up to the busy p95 ({p95}); it is missing or unsound at {unknown[0]}"
    return None


def _ends(level: int, pairs: Sequence[Pair]) -> list[Pair]:
    by_level = {pair.concurrency: pair for pair in pairs}
    around = bracket(level, sorted(by_level))
    return [by_level[end] for end in around] if around else []


def _is_known(level: int, pairs: Sequence[Pair]) -> bool:
    ends = _ends(level, pairs)
    return bool(ends) and not any(
        pair.is_ramp or pair.is_impossible or is_scattered(pair, AGGREGATE) or pair.ratio(FIGURES[AGGREGATE]) is None
        for pair in ends
    )


def _ratio(level: int, pairs: Sequence[Pair]) -> float | None:
    speeds = [_speed(level, pairs, is_candidate=side) for side in (False, True)]
    return speeds[1] / speeds[0] if speeds[0] is not None and speeds[1] is not None else None


def _speed(level: int, pairs: Sequence[Pair], *, is_candidate: bool) -> float | None:
    """A configuration's aggregate at a level, log-log between the cells; None outside."""

    def value(pair: Pair) -> float | None:
        side: Side = pair.candidate if is_candidate else pair.reference
        return side.value(FIGURES[AGGREGATE])

    ends = _ends(level, pairs)
    points = [(pair.concurrency, speed) for pair in ends if (speed := value(pair)) is not None]
    if len(points) < 2:
        return None
    return points[0][1] if ends[0] is ends[1] else interpolate(level, points[0], points[1])


def _e2e_speedup(running: Mapping[int, int], projected: Mapping[int, float], pairs: Sequence[Pair]) -> float | None:
    """`(sum n T / sum T A_old) / (sum n T' / sum T' A_new)`: requests in flight per token made, before and after."""
    before, after = (
        _requests_per_token(occupancy, pairs, is_candidate=side)
        for occupancy, side in ((running, False), (projected, True))
    )
    return before / after if before is not None and after is not None else None


def _requests_per_token(occupancy: Mapping[int, float], pairs: Sequence[Pair], *, is_candidate: bool) -> float | None:
    requests = tokens = 0.0
    for level, weight in occupancy.items():
        speed = _speed(level, pairs, is_candidate=is_candidate) if level else None
        if speed is not None:
            requests += level * weight
            tokens += weight * speed
    return requests / tokens if tokens else None
