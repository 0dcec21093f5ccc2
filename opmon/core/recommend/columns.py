"""The metric columns that a quoted speed-up may be read from.

Contains the figures and which way they count; the columns that a verdict judges are in `ratios`.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.core.cells import Cell, decode_speed, per_stream_speed
from opmon.core.knee import AGGREGATE, PER_STREAM
from opmon.core.pairs import Pair
from opmon.core.recommend.ratios import DECODE, Figure, Threshold, aggregate_speed, threshold

TOTAL = "total"
# Prompt and output tokens together, by the names that tools and tables give it.
TOTAL_NAMES = (
    "total_token_throughput",
    "total_throughput",
    "total_tokens_per_second",
    "total_tok_s",
    "total_token_throughput_tok_s",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A metric column. `is_time`: less is faster, so its speed-up is reference / candidate."""

    name: str
    figure: Figure
    words: str
    unit: str = "tok/s"
    is_time: bool = False

    def ratio(self, pair: Pair) -> float | None:
        """How much faster the candidate is in this column; None unless both sides have it."""
        ratio = pair.ratio(self.figure)
        return 1 / ratio if ratio is not None and self.is_time else ratio

    def threshold(self, pair: Pair) -> Threshold:
        """The noise of this column, from the repeats of a pair."""
        return threshold(pair.reference.values(self.figure), pair.candidate.values(self.figure))


def total_speed(cell: Cell) -> float | None:
    """Prompt and output tokens per second of wall-clock time, where the file has such a column; None else."""
    for name in TOTAL_NAMES:
        try:
            return float(cell.extra[name])
        except (KeyError, ValueError):
            continue
    return None


def _requests(cell: Cell) -> float | None:
    return cell.requests_per_second


def _ttft(cell: Cell) -> float | None:
    return cell.ttft


def _ttft_p95(cell: Cell) -> float | None:
    return cell.ttft_p95


def _e2e(cell: Cell) -> float | None:
    return cell.e2e


COLUMNS: dict[str, Column] = {
    one.name: one
    for one in (
        Column(AGGREGATE, aggregate_speed, "aggregate throughput"),
        Column(PER_STREAM, per_stream_speed, "per-stream speed"),
        Column(DECODE, decode_speed, "decode speed"),
        Column(TOTAL, total_speed, "total throughput (prompt and output tokens)"),
        Column("requests", _requests, "requests per second", "requests/s"),
        Column("ttft", _ttft, "time to first token", "s", is_time=True),
        Column("ttft_p95", _ttft_p95, "time to first token (p95)", "s", is_time=True),
        Column("e2e", _e2e, "duration of a request", "s", is_time=True),
    )
}
SPEEDS = tuple(one for one in COLUMNS.values() if one.unit == "tok/s")
