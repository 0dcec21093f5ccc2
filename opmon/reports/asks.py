"""What can be asked: windows and recommendations, and how a relative window becomes an exact one.

Contains no source and no clock: the present instant arrives as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opmon.core.answers import Selector
from opmon.core.cells import Sweep
from opmon.core.model import MINUTE_MS, TargetRecord
from opmon.core.recommend import Ask
from opmon.errors import InvalidWindow

COMMIT_LAG_MS = 3_000
"""Samples reach the database within this time of their stratum's end; a relative window does not reach past it, or its
last seconds would look like a gap."""
FINE_GRID_MS, COARSE_GRID_MS, FINE_GRID_UP_TO_MS = 5_000, MINUTE_MS, 3_600_000
STEPS_MS = tuple(
    1000 * seconds
    for seconds in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
)


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


def resolve_window(ask: WindowAsk, now_ms: int, default_ms: int, first_ms: int | None) -> tuple[int, int]:
    """The window that is asked for, `[start_ms, end_ms)`. Raises InvalidWindow. The grid follows what there is to see of it, not what was asked: in the first
    hour there is a first sentence after seconds, not after the next full minute."""
    window_ms = ask.window_ms or default_ms
    if ask.end_ms is not None:
        end_ms = ask.end_ms
    elif ask.start_ms is not None and ask.window_ms is not None:
        end_ms = ask.start_ms + window_ms
    else:
        span_ms = window_ms if ask.start_ms is None else now_ms - ask.start_ms
        if first_ms is not None:
            span_ms = min(span_ms, now_ms - first_ms)
        grid_ms = FINE_GRID_MS if span_ms <= FINE_GRID_UP_TO_MS else COARSE_GRID_MS
        end_ms = (now_ms - COMMIT_LAG_MS) // grid_ms * grid_ms
    start_ms = ask.start_ms if ask.start_ms is not None else end_ms - window_ms
    if start_ms >= end_ms:
        message = f"the window ends ({end_ms / 1000:g}) before it starts ({start_ms / 1000:g})"
        raise InvalidWindow(message)
    return start_ms, end_ms


def declared_mix(targets: Sequence[TargetRecord], sweep: Sweep) -> str | None:
    """The content mix that is configured for the chosen targets, where they agree and the sweep has its contents."""
    mixes = {tuple(sorted(target.content_mix.items())) for target in targets}
    mix = mixes.pop() if len(mixes) == 1 else ()
    if not mix or not {content for content, _ in mix} <= set(sweep.contents):
        return None
    return ",".join(f"{content}={share!r}" for content, share in mix)


def core_ask(ask: RecommendationAsk, mix: str | None) -> Ask:
    """The part of the ask that is about the sweep; `mix` holds where no content is asked for."""
    return Ask(
        reference=ask.reference,
        candidate=ask.candidate,
        content=ask.content or mix,
        live_is=ask.live_is,
        prompt_tokens=ask.prompt_tokens,
        output_tokens=ask.output_tokens,
        ttft_seconds=ask.ttft_seconds,
        decode_seconds=ask.decode_seconds,
        measured=ask.measured,
        ceiling=ask.ceiling,
    )
