"""The one sentence: where a server really runs, in words that can be read out.

Contains no figures of its own: it words the running occupancy, the ceiling and the coverage.
"""

from __future__ import annotations

import math

from opmon.core.answers import CeilingAnswer, Coverage
from opmon.core.occupancy import Weighting, central_range, statistics
from opmon.core.sums import Sums
from opmon.core.units import format_duration

_ROUNDING = 1e-9
"""Shares are quotients: 29 of 100 must not read as 28 %."""


def sentence(sums: Sums, coverage: Coverage, ceiling: CeilingAnswer, *, lower_bound: bool) -> str:
    """The range of running levels (at most 2.5 % of busy time cut at each end), busy median, p95 and maximum, and how
    often the ceiling was reached. Says so where nothing was observed, nothing ran, or the truth lies higher."""
    if not sums.observed_ms:
        return _nothing_observed(coverage)
    if not sums.running:
        return "The concurrency is not known: nothing that was observed says how many requests run"
    text = _running(sums, ceiling)
    return f"{text}; a lower bound: more was running while it was not observed" if lower_bound else text


def not_yet(watched_ms: int, within_ms: int) -> str:
    """What is said of a target whose first scrapes are in no window yet."""
    return (
        f"No data yet: watched for {watched_ms // 1000} s so far; the first figures come within {within_ms // 1000} s"
    )


def percent(ratio: float) -> str:
    """A share in whole percent, rounded down: it claims no more than was so, and never nothing where there was some."""
    whole = math.floor(100 * ratio + _ROUNDING)
    return "under 1 %" if whole == 0 and ratio > 0 else f"{whole} %"


def _running(sums: Sums, ceiling: CeilingAnswer) -> str:
    span = central_range(sums.running)
    if span is None:
        return f"Idle: no request was running in {_duration(sums.observed_ms)} of observed time{_unseen(sums)}"
    low, high, share = span
    busy = statistics(sums.running, Weighting.BUSY)
    levels = f"{low}" if low == high else f"{low} to {high}"
    noun = "request" if high == 1 else "requests"
    return (
        f"{levels} {noun} at once for {percent(share)} of the busy time "
        f"(median {busy.p50}, p95 {busy.p95}, max {busy.max}); {_ceiling(ceiling)}"
    )


def _unseen(sums: Sums) -> str:
    """What an idle reading must not hide: tokens that came out between the samples."""
    tokens = sums.increases.get("generation_tokens")
    return (
        f", yet {tokens.total:.0f} output tokens were generated between the samples" if tokens and tokens.total else ""
    )


def _ceiling(ceiling: CeilingAnswer) -> str:
    if ceiling.requests is None:
        return "its ceiling is not known"
    if not ceiling.reached_ratio:
        return f"the ceiling of {ceiling.requests} was never reached"
    return f"the ceiling of {ceiling.requests} was reached {percent(ceiling.reached_ratio)} of the busy time"


def _nothing_observed(coverage: Coverage) -> str:
    """Why there is nothing to say: the largest part of the window that is no observation."""
    parts = {
        "down": coverage.down_seconds,
        "answered without usable values": coverage.invalid_seconds,
        "stalled": coverage.stalled_seconds,
    }
    known = [f"{_duration(round(1000 * seconds))} {name}" for name, seconds in parts.items() if seconds > 0]
    reason = ", ".join(known) if known else "no scrape was made"
    return f"No data: nothing was observed in this window ({reason})"


def _duration(milliseconds: int) -> str:
    """Rounded to what a reader takes in: seconds under an hour, minutes above."""
    step = 1000 if milliseconds < 3_600_000 else 60_000
    return format_duration(max(step, round(milliseconds / step) * step)) if milliseconds else "0s"
