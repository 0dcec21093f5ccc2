"""A benchmark's cells: what one row of a sweep says, whatever tool wrote it.

Contains the values, what follows from one cell alone (speeds derived from others, measured concurrency), and where a
level lies among measured ones. Reading files is `opmon.sweeps`; which cells may be compared is `opmon.core.pairs`;
judging is `opmon.core.recommend`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

RAMP_BELOW_RATIO = 0.9
IMPOSSIBLE_ABOVE_RATIO = 3.0
"""Medians and skewed requests explain a measured concurrency somewhat above the nominal one, never three times it."""
SMALLEST_FIGURE, LARGEST_FIGURE = 1e-9, 1e12
"""Beyond these a speed is no measurement, and quotients of speeds need not be finite."""
TOGETHER_WITHIN_MS = 86_400_000
INCONSISTENT_TABLE = "inconsistent_table"
"""The flag of a hand-made row whose columns cannot both be right."""
DECODE_ONLY_METHODS = ("decode_only", "decode", "tpot", "itl")


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. Every figure may be missing (None); speeds are tokens per second, times seconds.

    `concurrency` is what the clients held in flight, None if unlimited or unknown; `concurrency_source` says how it
    is known (`declared`, ...). `per_stream` is end to end; `decode` is without the TTFT. `derived` names fields that
    were computed from others (with the formula in `extra`), `flags` what a verdict must know of (`failed_requests`,
    `ramp`, ...). `given_together` is set by the sweep (`Sweep.cells`), no file says it. `extra` keeps what else the file
    said, by its own names.
    """

    configuration: str
    content: str = ""
    concurrency: float | None = None
    concurrency_source: str = "declared"
    load_mode: str | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    aggregate: float | None = None
    per_stream: float | None = None
    per_stream_p50: float | None = None
    per_stream_p95: float | None = None
    decode: float | None = None
    ttft: float | None = None
    ttft_p95: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    requests_per_second: float | None = None
    acceptance_length: float | None = None
    completed_requests: int | None = None
    failed_requests: int | None = None
    duration_seconds: float | None = None
    measured_at: float | None = None
    session: str | None = None
    tool: str | None = None
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    api: str | None = None
    streaming: bool | None = None
    per_stream_method: str | None = None
    token_source: str | None = None
    temperature: float | None = None
    cache_state: str | None = None
    source_file: str = ""
    source_row: int | None = None
    given_together: str | None = None
    derived: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepImport:
    """One file that was read into a sweep. `original` is the file itself, None if it was too large to keep."""

    file_name: str
    sha256: str
    reader: str
    reader_version: int
    size_bytes: int
    cells: tuple[Cell, ...]
    imported_ms: int = 0
    notes: tuple[str, ...] = ()
    original: bytes | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A named set of imports. Cells of all imports, in file order; configurations in order of first appearance."""

    name: str
    imports: tuple[SweepImport, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order of their files and rows.

        Files that were added within a day of each other are given together, as the rows of one file are: tools write a
        file a run, and few of them state the hardware. `given_together` is equal for their cells.
        """
        if len(self.imports) < 2:
            return tuple(cell for one in self.imports for cell in one.cells)
        marks = self._marks()
        return tuple(
            replace(cell, given_together=mark)
            for one, mark in zip(self.imports, marks, strict=True)
            for cell in one.cells
        )

    def _marks(self) -> list[str]:
        """Which imports were given together: for each the instant of the first one of them."""
        first_ms, marks = None, {}
        for place, one in sorted(enumerate(self.imports), key=lambda pair: pair[1].imported_ms):
            if first_ms is None or one.imported_ms - first_ms > TOGETHER_WITHIN_MS:
                first_ms = one.imported_ms
            marks[place] = str(first_ms)
        return [marks[place] for place in range(len(self.imports))]

    @property
    def configurations(self) -> tuple[str, ...]:
        """Configuration names in order of first appearance."""
        return tuple(dict.fromkeys(cell.configuration for one in self.imports for cell in one.cells))

    @property
    def contents(self) -> tuple[str, ...]:
        """Contents in order of first appearance."""
        return tuple(dict.fromkeys(cell.content for one in self.imports for cell in one.cells))


# --- what follows from one cell alone -----------------------------------------------------------------------------


def is_end_to_end(cell: Cell) -> bool:
    """Whether the per-stream speed counts a request's whole elapsed time. Not stated: the column's meaning says yes."""
    return cell.per_stream_method not in DECODE_ONLY_METHODS


def per_stream_speed(cell: Cell) -> float | None:
    """End-to-end tokens per second of one request, in the median; None without it.

    Derived where it was not measured: `n / (TTFT + (n - 1) TPOT)` (DEFINITIONS 3). Never aggregate / concurrency and
    never 1 / ITL: both are wrong by more than most differences that anybody looks for.
    """
    if cell.per_stream is not None:
        return cell.per_stream if is_end_to_end(cell) else None
    if cell.per_stream_p50 is not None and is_end_to_end(cell):
        return cell.per_stream_p50
    if cell.ttft is None or not cell.tpot or cell.output_tokens is None or cell.output_tokens < 1:
        return None
    seconds = cell.ttft + (cell.output_tokens - 1) * cell.tpot
    return cell.output_tokens / seconds if seconds > 0 else None


def is_per_stream_derived(cell: Cell) -> bool:
    """Whether the per-stream speed comes from TTFT and TPOT, here or already in the file."""
    if "per_stream" in cell.derived:
        return True
    return per_stream_speed(cell) is not None and cell.per_stream is None and cell.per_stream_p50 is None


def decode_speed(cell: Cell) -> float | None:
    """Tokens per second after the first one (1 / TPOT); None without it. A decode-only per-stream figure is this."""
    if cell.decode is not None:
        return cell.decode
    if cell.tpot:
        return 1 / cell.tpot
    return cell.per_stream if not is_end_to_end(cell) else None


def decode_speed_less_ttft(cell: Cell) -> float | None:
    """`(n - 1) / (n / per-stream - TTFT)`: the decode speed that is left when the TTFT is taken off a whole request."""
    speed = per_stream_speed(cell)
    if not speed or cell.ttft is None or cell.output_tokens is None or cell.output_tokens <= 1:
        return None
    decoding = cell.output_tokens / speed - cell.ttft
    return (cell.output_tokens - 1) / decoding if decoding > 0 else None


def measured_concurrency(cell: Cell) -> float | None:
    """Requests that were in flight on average: requests/s x mean e2e (Little's law), else aggregate / per-stream.

    None where neither is recorded, which changes nothing.
    """
    if cell.requests_per_second is not None and cell.e2e is not None:
        return cell.requests_per_second * cell.e2e
    speed = cell.per_stream if cell.per_stream is not None else cell.per_stream_p50
    if cell.aggregate is not None and speed and is_end_to_end(cell):
        return cell.aggregate / speed
    return None


def is_impossible(cell: Cell) -> bool:
    """Whether the columns say that far more requests were in flight than the clients held: one of them is wrong.

    120 tokens per second of all requests with 12 of each are ten requests; at concurrency 1 there is one. Which of the
    columns is wrong cannot be told, so neither is evidence. A hand-made table is held to more (`INCONSISTENT_TABLE`).
    """
    if INCONSISTENT_TABLE in cell.flags:
        return True
    if not cell.concurrency:
        return False
    speed = per_stream_speed(cell) or cell.per_stream
    in_flight = [
        cell.requests_per_second * cell.e2e if cell.requests_per_second is not None and cell.e2e is not None else None,
        cell.aggregate / speed if cell.aggregate is not None and speed else None,
    ]
    return any(one is not None and one > IMPOSSIBLE_ABOVE_RATIO * cell.concurrency for one in in_flight)


def is_ramp(cell: Cell) -> bool:
    """Whether the cell's aggregate is ramp and drain: measured concurrency under 90 % of the nominal one."""
    if "ramp" in cell.flags:
        return True
    measured = measured_concurrency(cell)
    return measured is not None and cell.concurrency is not None and measured < RAMP_BELOW_RATIO * cell.concurrency


def has_failures(cell: Cell) -> bool:
    """Whether requests failed. Not recorded is not the same as none, but it cannot be held against a cell."""
    return bool(cell.failed_requests) or cell.completed_requests == 0 or "failed_requests" in cell.flags


def is_usable(figure: float | None) -> bool:
    """Whether a speed can be divided by: known, above 0, finite, and of a size that something measured may have."""
    return figure is not None and SMALLEST_FIGURE <= figure <= LARGEST_FIGURE


# --- where a level lies among measured ones -----------------------------------------------------------------------


def octaves(value: float, other: float) -> float:
    """Distance on a logarithmic axis, in doublings; both must be above 0."""
    quotient = value / other
    if 0 < quotient < math.inf:
        return abs(math.log2(quotient))
    return abs(math.log2(value) - math.log2(other))


def nearest(level: float, measured: Sequence[float]) -> float:
    """The measured level nearest to `level` in octaves; ties go to the lower. `measured` must not be empty."""
    return min(measured, key=lambda one: (round(octaves(one, level), 9), one))


def bracket(level: float, measured: Sequence[float]) -> tuple[float, float] | None:
    """The two measured levels around `level`, or (level, level) where it is measured; None outside. Sorted input."""
    place = bisect_left(measured, level)
    if place < len(measured) and measured[place] == level:
        return level, level
    if place in (0, len(measured)):
        return None
    return measured[place - 1], measured[place]


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of weight at, between and outside measured levels; they sum to 1."""

    at: float
    between: float
    outside: float


def shares(weights: Mapping[int, float], measured: Sequence[float]) -> Shares | None:
    """How much of the weight lies at, between and outside the measured levels. None without weight."""
    total = sum(weights.values())
    if total <= 0:
        return None
    at = between = 0.0
    for level, weight in weights.items():
        around = bracket(level, measured)
        if around is None:
            continue
        if around[0] == around[1]:
            at += weight
        else:
            between += weight
    return Shares(at / total, between / total, max(0.0, (total - at - between) / total))
