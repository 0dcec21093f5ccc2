"""The speed-up of a person's whole turn at the cell that applies, and where its speed-up was taken from.

Contains the order of sources of DEFINITIONS 6; the formula itself is `opmon.core.turn`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from opmon.core.answers import WholeTurn
from opmon.core.cells import Cell, octaves
from opmon.core.knee import AGGREGATE, PER_STREAM
from opmon.core.pairs import Pair
from opmon.core.recommend.ask import Times
from opmon.core.recommend.ratios import DECODE, DECODE_LESS_TTFT, FIGURES, Weighted, level_ratios, weighted
from opmon.core.recommend.verdicts import Number
from opmon.core.turn import turn_with_ttft_part

SOURCE_DETAIL = {
    "end_to_end": "the cell matches prompt and output length, so its end-to-end ratio is the whole turn",
    "decode_speed": "decode-speed ratio over the live levels",
    "end_to_end_minus_ttft": "end-to-end ratio at the cell with the TTFT taken off",
    "per_stream_contains_ttft": "per-stream ratio at the cell; it contains the TTFT, so a gain is a lower bound",
    "aggregate_proxy": "proxy: the aggregate ratio at the cell stands in for the per-stream ratio",
}


@dataclass(frozen=True, slots=True)
class _Speedup:
    middle: float
    low: float
    high: float
    source: str
    evidence_ratio: float


@dataclass(frozen=True, slots=True)
class TurnCase:
    """What a whole turn is computed from: the pairs of a content, the cell, weights, lengths and the threshold."""

    pairs: Sequence[Pair]
    cell: Pair
    weights: Mapping[int, float]
    prompt_tokens: float | None
    output_tokens: float | None
    delta: float


def whole_turn(case: TurnCase, times: Times, live_is: str) -> tuple[WholeTurn, Number] | None:
    """The whole turn and the number that is judged; None where no speed-up of any source is known."""
    speedup = _matching_cell(case, live_is)
    if speedup is not None:
        ratios, detail = (speedup.middle, speedup.low, speedup.high), SOURCE_DETAIL[speedup.source]
    else:
        speedup = _first_available(case, live_is)
        if speedup is None:
            return None
        ttft_ratio, part, ttft_detail = _ttft_ratio(case, times)
        middle, low, high = (
            turn_with_ttft_part(times.ttft_seconds, times.decode_seconds, s, times.measured, ttft_ratio, part)
            for s in (speedup.middle, speedup.low, speedup.high)
        )
        ratios, detail = (middle, low, high), f"{SOURCE_DETAIL[speedup.source]}; {ttft_detail}"
    answer = WholeTurn(
        speedup_ratio=ratios[0],
        low=ratios[1],
        high=ratios[2],
        ttft_seconds=times.ttft_seconds,
        decode_seconds=times.decode_seconds,
        measured=times.measured,
        speedup_source=speedup.source,
        times_source=times.source,
        detail=detail,
    )
    proxy = speedup.middle if speedup.source == "aggregate_proxy" else None
    return answer, Number("turn", ratios[1], ratios[2], ratios[0], speedup.evidence_ratio, case.delta, proxy)


def is_within_octave(cell: float | None, live: float | None) -> bool:
    """Both known and at most one doubling apart."""
    return bool(cell) and bool(live) and octaves(cell or 1.0, live or 1.0) <= 1


def _over_levels(case: TurnCase, column: str, live_is: str) -> Weighted | None:
    return weighted(level_ratios(case.pairs, column, case.weights, case.delta), case.weights, live_is)


def _matching_cell(case: TurnCase, live_is: str) -> _Speedup | None:
    is_match = is_within_octave(case.cell.prompt_tokens, case.prompt_tokens) and is_within_octave(
        case.cell.output_tokens, case.output_tokens
    )
    return _at_cell(case, PER_STREAM, "end_to_end", live_is) if is_match else None


def _first_available(case: TurnCase, live_is: str) -> _Speedup | None:
    decode = _over_levels(case, DECODE, live_is)
    if decode is not None and decode.middle is not None:
        return _Speedup(decode.middle, decode.low, decode.high, "decode_speed", decode.evidence_ratio)
    for column, source in ((DECODE_LESS_TTFT, "end_to_end_minus_ttft"), (PER_STREAM, "per_stream_contains_ttft")):
        if (speedup := _at_cell(case, column, source, live_is)) is not None:
            return speedup
    ratio = case.cell.ratio(FIGURES[AGGREGATE])
    if ratio is None or case.cell.is_ramp or case.cell.is_impossible:
        return None
    return _Speedup(ratio, ratio, ratio, "aggregate_proxy", 0.0)


def _at_cell(case: TurnCase, column: str, source: str, live_is: str) -> _Speedup | None:
    """The ratio at the cell, not weighted, between the low and the high of its column."""
    ratio, over = case.cell.ratio(FIGURES[column]), _over_levels(case, column, live_is)
    if ratio is None or over is None:
        return None
    return _Speedup(ratio, min(over.low, ratio), max(over.high, ratio), source, over.evidence_ratio)


def _ttft_ratio(case: TurnCase, times: Times) -> tuple[float, float, str]:
    """(TTFT ratio, the server's part of the TTFT, how it was come by): only from a pair of about this prompt length."""

    def ttft(cell: Cell) -> float | None:
        return cell.ttft

    getter: Callable[[Cell], float | None] = ttft
    slowness = case.cell.ratio(getter)
    if slowness is None:
        return 1.0, 1.0, "TTFT taken as unchanged: it was not measured for both at this cell"
    if not is_within_octave(case.cell.prompt_tokens, case.prompt_tokens):
        return 1.0, 1.0, "TTFT taken as unchanged: no pair lies within an octave of the prompt length"
    if times.server_part_ratio is None:
        return 1.0, 1.0, "TTFT taken as unchanged: the server's part of it is not known"
    return 1 / slowness, times.server_part_ratio, f"TTFT ratio {1 / slowness:.2f} at this cell"
