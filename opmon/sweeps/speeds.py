"""The per-stream speed of a record, measured or estimated, with the name of its method and its formula.

Contains the order of preference: request rows, then estimates from medians. Aggregate / concurrency and 1 / ITL are in
no order: neither is anybody's speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from opmon.core.cells import LARGEST_FIGURE, SMALLEST_FIGURE

FASTEST = 1e6
"""Tokens per second of one request beyond which a row's time is no measurement."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens per second of one request, end to end. `p95`: the speed that 95 % of the requests reach or exceed."""

    p50: float | None = None
    p95: float | None = None
    method: str | None = None
    formula: str | None = None

    @property
    def values(self) -> dict[str, Any]:
        """It as fields of a cell."""
        found: dict[str, Any] = {"per_stream": self.p50, "per_stream_p95": self.p95, "per_stream_method": self.method}
        return {**found, "derived": ("per_stream",)} if self.formula else found

    @property
    def extra(self) -> dict[str, str]:
        """What stands beside them."""
        return {"per_stream_formula": self.formula} if self.formula else {}


NO_SPEED = Speed()


def quotient(amount: float | None, seconds: float | None) -> float | None:
    """An amount per second; None where either is missing or 0, or the two are no measurement together."""
    if not amount or not seconds:
        return None
    found = amount / seconds
    return found if found <= LARGEST_FIGURE else None


def known(figures: Sequence[float | None], factor: float = 1.0) -> list[float | None]:
    """The figures of rows, times `factor`; None for 0 and for what nothing measures."""
    return [one * factor if one and SMALLEST_FIGURE <= one * factor <= LARGEST_FIGURE else None for one in figures]


def measured(tokens: Sequence[float | None], seconds: Sequence[float | None]) -> Speed:
    """From a request's tokens and its elapsed seconds, a row each; NO_SPEED without a row that has both."""
    pairs = zip(tokens, seconds, strict=False)
    speeds = sorted(speed for n, t in pairs if n and t and 0 < (speed := n / t) <= FASTEST)
    if not speeds:
        return NO_SPEED
    return Speed(median(speeds), speeds[len(speeds) // 20], "rows")


def estimated(
    output_tokens: float | None, median_e2e: float | None, ttft: float | None = None, tpot: float | None = None
) -> Speed:
    """From the mean length and medians in seconds; NO_SPEED where they do not suffice."""
    if output_tokens and median_e2e and (speed := output_tokens / median_e2e) <= FASTEST:
        return Speed(speed, None, "mean_out_over_median_e2e", "mean output tokens / median elapsed time")
    if not output_tokens or output_tokens < 1 or not ttft or not tpot:
        return NO_SPEED
    speed = output_tokens / (ttft + (output_tokens - 1) * tpot)
    if speed > FASTEST:
        return NO_SPEED
    return Speed(speed, None, "ttft_plus_tpot", "n / (TTFT + (n - 1) TPOT), of medians and the mean length")
