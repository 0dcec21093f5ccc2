"""The one door: every surface asks here, so no two can disagree on a number.

Contains selection of windows, memoising and the joining of pure functions; no SQL, no HTTP, no formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.core.answers import Selector


@dataclass(frozen=True, slots=True)
class WindowAsk:
    """`window_ms` back from now, or `start_ms` to `end_ms` (either end may be left out)."""

    window_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecommendationAsk:
    """What /api/v1/recommendation and `opmon recommend` can say. `window` and `selector` as elsewhere."""

    sweep: str
    reference: str | None = None
    candidate: str | None = None
    content: str | None = None
    live_is: str | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    ttft_seconds: float | None = None
    decode_seconds: float | None = None
    measured: str | None = None
    ceiling: int | None = None
    selector: Selector = Selector()
    window: WindowAsk = WindowAsk()
