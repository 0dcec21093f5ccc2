"""Candidate / reference over the occupied levels, with its doubt: intervals, combination, threshold, class.

Contains "Ratio with its doubt" of DEFINITIONS 5 and nothing of contents, whole turns or reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opmon.core.cells import (
    Cell,
    bracket,
    decode_speed,
    decode_speed_less_ttft,
    nearest,
    per_stream_speed,
)
from opmon.core.knee import AGGREGATE, PER_STREAM, interpolate
from opmon.core.pairs import Pair, Side

SMALLEST_THRESHOLD = 0.05
ASSUMED_SD = 0.03
FEWEST_REPEATS = 3
ROUNDING = 1e-9
# The median of m values of a normal distribution varies by about pi / (2 m + pi - 2) of what one does; their mean, which
# nobody reads, by 1 / m. The median of two is their mean.
_MEDIAN_VARIANCE = math.pi

BOTH_READINGS = REFERENCE, CANDIDATE = "reference", "candidate"
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
    """`delta`: a ratio within it of 1 is no difference (`edge_of`). `source`: repeats, assumed or both."""

    delta: float
    source: str


ASSUMED_THRESHOLD = Threshold(2 * math.sqrt(2 * ASSUMED_SD**2), "assumed")


def threshold(reference: Sequence[float], candidate: Sequence[float]) -> Threshold:
    """The threshold from the repeats of one pair: `max(5 %, 2 sqrt(v_r + v_c))`, v the variance of each side's median.

    Without repeats s is 3 % assumed (then 8.5 %). Repeats may say that the noise is larger, never that it is smaller: a
    deviation of three values is half of what it should be every fifth time, and then noise passes for a difference.
    They lower the threshold by their number alone. Two are too few for a deviation: then how far they lie apart.
    """
    noises = [_noise(reference), _noise(candidate)]
    return _threshold([(1.0, math.hypot(*(sd for sd, _ in noises)))], {is_known for _, is_known in noises})


def threshold_of(pairs: Sequence[Pair], column: str, weights: Mapping[int, float]) -> Threshold:
    """The threshold of a ratio over all levels: each level has the noise of the pair nearest to it, and all noises are
    taken as one in time (a server that is slow on a day is slow at every level), so deviations add by weight.

    Pairs without the column have no say; 8.5 % assumed where none has it.
    """
    figure = FIGURES[column]
    noises = {}
    for pair in pairs:
        sides = [pair.reference.values(figure), pair.candidate.values(figure)]
        if all(sides):
            noises[pair.concurrency] = [_noise(side) for side in sides]
    total = sum(weights.values())
    if not noises or total <= 0:
        return ASSUMED_THRESHOLD
    shares = dict.fromkeys(noises, 0.0)
    measured = sorted(noises)
    for level, weight in sorted(weights.items()):
        shares[nearest(level, measured)] += weight / total
    deviations = [(share, math.hypot(*(sd for sd, _ in noises[level]))) for level, share in shares.items() if share > 0]
    return _threshold(deviations, {is_known for level in noises if shares[level] > 0 for _, is_known in noises[level]})


def _threshold(deviations: Iterable[tuple[float, float]], known: set[bool]) -> Threshold:
    """From (share, deviation of the ratio's logarithm), and whether repeats say something of the sides' noise."""
    source = "repeats and assumed" if len(known) > 1 else ("repeats" if True in known else "assumed")
    return Threshold(max(SMALLEST_THRESHOLD, 2 * sum(share * sd for share, sd in deviations)), source)


def _noise(values: Sequence[float]) -> tuple[float, bool]:
    """The deviation of the logarithm of the repeats' median, and whether repeats had a say in it."""
    number, logs = max(len(values), 1), [math.log(value) for value in values]
    if number < FEWEST_REPEATS:
        apart = max(logs) - min(logs) if logs else 0.0
        return max(ASSUMED_SD, apart) / math.sqrt(number), apart > ASSUMED_SD
    middle = math.fsum(logs) / number  # fsum: the order of rows says nothing, not even in the last digit
    deviation = math.sqrt(math.fsum((one - middle) ** 2 for one in logs) / (number - 1))
    return max(ASSUMED_SD, deviation) * math.sqrt(_MEDIAN_VARIANCE / (2 * number + _MEDIAN_VARIANCE - 2)), True


def classify(low: float, high: float, delta: float) -> str:
    """`switch`, `stay`, `no_difference` or `undecided` for an interval of the ratio."""
    edge = edge_of(delta)
    if low > edge:
        return SWITCH
    if high < 1 / edge:
        return STAY
    if low >= 1 / edge and high <= edge:
        return NO_DIFFERENCE
    return UNDECIDED


def edge_of(delta: float) -> float:
    """The ratio up to which a difference is noise. A threshold made of deviations is a distance of logarithms, so it is
    `exp(delta)`: with `1 + delta` two equal configurations at one level would differ in 5.5 % of all sweeps. The least
    threshold is a share, and stays `1 + delta`."""
    return math.exp(delta) if delta > SMALLEST_THRESHOLD else 1 + delta


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


def side_of(pair: Pair, live_is: str) -> Side:
    """The side of a pair that the live server runs."""
    return pair.candidate if live_is == CANDIDATE else pair.reference


def side_speed(side: Side, column: str) -> float | None:
    """A column's value on one side of a pair (tokens per second, median of repeats)."""
    return side.value(FIGURES[column])
