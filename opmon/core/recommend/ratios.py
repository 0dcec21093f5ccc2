"""Candidate / reference over the occupied levels, with its doubt: intervals, combination, threshold, class.

Contains "Ratio with its doubt" of DEFINITIONS 5 and nothing of contents, whole turns or reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

from opmon.core.cells import (
    Cell,
    bracket,
    decode_speed,
    decode_speed_less_ttft,
    per_stream_speed,
)
from opmon.core.knee import AGGREGATE, PER_STREAM, interpolate
from opmon.core.pairs import Pair, Side

SMALLEST_THRESHOLD = 0.05
ASSUMED_SD = 0.03
FEWEST_REPEATS = 3
ROUNDING = 1e-9

REFERENCE, CANDIDATE = "reference", "candidate"
SWITCH, STAY, NO_DIFFERENCE, UNDECIDED = "switch", "stay", "no_difference", "undecided"

Figure = Callable[[Cell], float | None]


def aggregate_speed(cell: Cell) -> float | None:
    """Output tokens of all requests per second of wall-clock time."""
    return cell.aggregate


DECODE, DECODE_LESS_TTFT = "decode", "decode_less_ttft"
FIGURES: dict[str, Figure] = {
    PER_STREAM: per_stream_speed,
    AGGREGATE: aggregate_speed,
    DECODE: decode_speed,
    DECODE_LESS_TTFT: decode_speed_less_ttft,
}
# The columns whose ratios bound what was not measured.
MEASURED_COLUMNS = (PER_STREAM, AGGREGATE, DECODE)


@dataclass(frozen=True, slots=True)
class LevelRatio:
    """The ratio at one level. `middle` is None where it is not known; `is_evidence`: known from sound cells."""

    level: int
    low: float
    high: float
    middle: float | None
    is_evidence: bool


@dataclass(frozen=True, slots=True)
class Weighted:
    """The ratio over all levels. `middle`: over the known levels only; `evidence_ratio`: their share of the weight."""

    low: float
    high: float
    middle: float | None
    evidence_ratio: float


@dataclass(frozen=True, slots=True)
class Threshold:
    """`delta`: a ratio within [1 / (1 + delta), 1 + delta] is no difference. `source`: repeats, assumed or both."""

    delta: float
    source: str


ASSUMED_THRESHOLD = Threshold(2 * math.sqrt(2 * ASSUMED_SD**2), "assumed")


def threshold(reference: Sequence[float], candidate: Sequence[float]) -> Threshold:
    """`max(5 %, 2 sqrt(s_r^2 / m_r + s_c^2 / m_c))`, s from three repeats or more, else 3 % assumed (then 8.5 %).

    Two repeats are too few to find the noise small, but enough to find it large: the larger of 3 % and how far they lie
    apart.
    """
    variances, sources = [], []
    for values in (reference, candidate):
        logs = [math.log(value) for value in values]
        apart = max(logs) - min(logs) if logs else 0.0
        deviation = stdev(logs) if len(logs) >= FEWEST_REPEATS else max(ASSUMED_SD, apart)
        is_measured = len(logs) >= FEWEST_REPEATS or apart > ASSUMED_SD
        variances.append(deviation**2 / max(len(values), 1))
        sources.append("repeats" if is_measured else "assumed")
    source = sources[0] if len(set(sources)) == 1 else "repeats and assumed"
    return Threshold(max(SMALLEST_THRESHOLD, 2 * math.sqrt(sum(variances))), source)


def threshold_of(pair: Pair, column: str) -> Threshold:
    """The threshold from the repeats of a pair in one column."""
    figure = FIGURES[column]
    return threshold(pair.reference.values(figure), pair.candidate.values(figure))


def classify(low: float, high: float, delta: float) -> str:
    """`switch`, `stay`, `no_difference` or `undecided` for an interval of the ratio."""
    if low > 1 + delta:
        return SWITCH
    if high < 1 / (1 + delta):
        return STAY
    if low >= 1 / (1 + delta) and high <= 1 + delta:
        return NO_DIFFERENCE
    return UNDECIDED


def spread(pairs: Iterable[Pair]) -> tuple[float, float] | None:
    """Lowest and highest ratio of a content in any column; None if there is none."""
    ratios = [
        ratio for pair in pairs for column in MEASURED_COLUMNS if (ratio := pair.ratio(FIGURES[column])) is not None
    ]
    return (min(ratios), max(ratios)) if ratios else None


def level_ratios(pairs: Sequence[Pair], column: str, levels: Iterable[int], delta: float) -> list[LevelRatio]:
    """The interval of the ratio at each level; `pairs` by concurrency. Empty if no ratio of any column is known."""
    bounds = spread(pairs)
    if bounds is None:
        return []
    unknown = (bounds[0] / (1 + delta), bounds[1] * (1 + delta))
    by_level = {pair.concurrency: pair for pair in pairs}
    return [_at(level, column, by_level, unknown) for level in sorted(levels)]


def _at(level: int, column: str, by_level: Mapping[float, Pair], unknown: tuple[float, float]) -> LevelRatio:
    around = bracket(level, sorted(by_level))
    ends = [by_level[end] for end in around] if around else []
    ratios = [pair.ratio(FIGURES[column]) for pair in ends]
    if not ends or ratios[0] is None or ratios[1] is None or any(pair.is_impossible for pair in ends):
        return LevelRatio(level, *unknown, middle=None, is_evidence=False)
    left, right = ratios[0], ratios[1]
    middle = (
        left if ends[0] is ends[1] else interpolate(level, (ends[0].concurrency, left), (ends[1].concurrency, right))
    )
    is_sound = not any((column == AGGREGATE and pair.is_ramp) or is_scattered(pair, column) for pair in ends)
    bounds = [_bounds(pair, column, ratio) for pair, ratio in zip(ends, (left, right), strict=True)]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return LevelRatio(level, low, high, middle, is_sound)


def is_scattered(pair: Pair, column: str) -> bool:
    """Whether repeats of one side differ by more than the ratio of the two sides, and by more than the assumed noise:
    which repeat one reads then decides what the ratio says."""
    ratio = pair.ratio(FIGURES[column])
    if ratio is None:
        return False
    return pair.scatter(FIGURES[column]) > max(ratio, 1 / ratio, 1 + ASSUMED_THRESHOLD.delta)


def _bounds(pair: Pair, column: str, ratio: float) -> tuple[float, float]:
    """The measured ratio; where the repeats scatter, every ratio that two of them make."""
    if not is_scattered(pair, column):
        return ratio, ratio
    reference, candidate = (side.values(FIGURES[column]) for side in (pair.reference, pair.candidate))
    return min(candidate) / max(reference), max(candidate) / min(reference)


def combine(ratios: Sequence[float], weights: Sequence[float], live_is: str) -> float:
    """Harmonic where the weights were observed on the reference, arithmetic where on the candidate.

    The time that the same work takes on the other configuration is w r on the way back and w / r on the way there.
    """
    total = sum(weights)
    if live_is == CANDIDATE:
        return sum(w * r for w, r in zip(weights, ratios, strict=True)) / total
    return total / sum(w / r for w, r in zip(weights, ratios, strict=True))


def within(middle: float, low: float, high: float) -> float:
    """The middle of an interval that contains it but for rounding. An interval that does not is a fault of ours: a
    middle of other parts than the interval's is shown as it is, so that a check finds it."""
    is_rounding = low * (1 - ROUNDING) <= middle <= high * (1 + ROUNDING)
    return min(max(middle, low), high) if is_rounding else middle


def weighted(ratios: Sequence[LevelRatio], weights: Mapping[int, float], live_is: str) -> Weighted | None:
    """Lows, highs and known middles over the levels that have weight; None without ratios or weight."""
    present = [(one, weights[one.level]) for one in ratios if weights.get(one.level, 0) > 0]
    if not present:
        return None
    all_weights = [weight for _, weight in present]
    known = [(one.middle, weight) for one, weight in present if one.middle is not None]
    middle = combine([r for r, _ in known], [w for _, w in known], live_is) if known else None
    low = combine([one.low for one, _ in present], all_weights, live_is)
    high = combine([one.high for one, _ in present], all_weights, live_is)
    return Weighted(
        low=low,
        high=high,
        middle=None if middle is None else within(middle, low, high),
        evidence_ratio=sum(weight for one, weight in present if one.is_evidence) / sum(all_weights),
    )


def side_speed(side: Side, column: str) -> float | None:
    """A column's value on one side of a pair (tokens per second, median of repeats)."""
    return side.value(FIGURES[column])
