"""How fast one request was in a run of `vllm bench serve`: from its rows, else the best estimate that the file allows.

Contains what the tool writes of single requests, and since which version. Speeds themselves are `opmon.sweeps.speeds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from opmon.sweeps.document import GAP_SUMS
from opmon.sweeps.reading import Fields
from opmon.sweeps.request_rows import quantile_of
from opmon.sweeps.speeds import FASTEST, NO_SPEED, Speed, estimated, measured

P95 = 0.95
_WHOLE_WITHIN = 1e-9


@dataclass(frozen=True, slots=True)
class Rows:
    """What the file says of single requests that succeeded. `latencies`: their elapsed seconds, known without the
    lengths too; the other lists are empty then."""

    tokens: Sequence[float] = ()
    seconds: Sequence[float] = ()
    ttfts: Sequence[float] = ()
    latencies: Sequence[float] = ()

    @property
    def ttft_p95(self) -> float | None:
        """Seconds; None without rows."""
        return quantile_of(self.ttfts, P95)


def rows_of(fields: Fields) -> Rows:
    """The requests of a record that succeeded (`--save-detailed`; only their latencies in a plain record of 0.30 and
    later). Failed ones are 0 in every list, or have an error beside them."""
    latencies = [one for one in fields.numbers("latencies") if one]
    tokens = fields.numbers("output_lens")
    seconds = _elapsed(fields, len(tokens)) if tokens else []
    if not seconds:
        return Rows(latencies=latencies)
    firsts = fields.numbers("ttfts")
    firsts = firsts if len(firsts) == len(tokens) else [None] * len(tokens)
    good = [
        row
        for row, bad in zip(zip(tokens, seconds, firsts, strict=True), _errors(fields, len(tokens)), strict=True)
        if not bad
    ]
    silent = sum(n == 0 and bool(t) for n, t, _ in good)
    if silent:
        fields.note(f"{silent} requests ended without a token and without an error; they are in no speed")
    return Rows(
        tokens=[n for n, t, _ in good if n and t],
        seconds=[t for n, t, _ in good if n and t],
        ttfts=[first for n, _, first in good if n and first],
        latencies=latencies,
    )


def speed_of(
    rows: Rows, output_tokens: float | None, ttft: float | None, tpot: float | None, e2e: float | None
) -> Speed:
    """The speed of one request by the first way that works: its row, its latency where all outputs may have one length,
    medians. `output_tokens`: the mean; `ttft`, `tpot`, `e2e`: medians in seconds."""
    if rows.tokens:
        return measured(rows.tokens, rows.seconds)
    if output_tokens and rows.latencies:
        return _of_latencies(rows.latencies, output_tokens)
    if output_tokens == 1 and ttft and not e2e:
        e2e = ttft
    return estimated(output_tokens, e2e, ttft, tpot)


def _of_latencies(latencies: Sequence[float], tokens: float) -> Speed:
    if abs(tokens - round(tokens)) > _WHOLE_WITHIN:  # no mean of equal lengths
        return estimated(tokens, median(latencies))
    speed = measured([tokens] * len(latencies), latencies)
    if speed.p50 is None or speed.p50 > FASTEST:
        return NO_SPEED
    formula = "median over requests of mean output tokens / latency: exact where all outputs are of one length"
    return Speed(speed.p50, speed.p95, "const_out_latency_rows", formula)


def _elapsed(fields: Fields, count: int) -> list[float | None]:
    """Seconds of every request: as recorded (0.30 and later), else to the first token and all the gaps after it."""
    recorded = fields.numbers("latencies")
    if len(recorded) == count and any(recorded):
        return recorded
    first, gaps = fields.numbers("ttfts"), fields.numbers(GAP_SUMS)
    if len(first) == len(gaps) == count:
        return [None if t is None or rest is None else t + rest for t, rest in zip(first, gaps, strict=True)]
    fields.note("the lists of single requests differ in length, so no speed is taken from them")
    return []


def _errors(fields: Fields, count: int) -> list[bool]:
    errors = fields.at("errors")
    return [bool(one) for one in errors] if isinstance(errors, list) and len(errors) == count else [False] * count
