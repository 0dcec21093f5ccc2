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
from opmon.core.units import format_instant
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


@dataclass(frozen=True, slots=True)
class Resolved:
    """A window `[start_ms, end_ms)` and how long the one was that was asked for. `reaches_now`: later strata are still
    to come, so it will be longer when it is asked for again."""

    start_ms: int
    end_ms: int
    requested_ms: int
    reaches_now: bool


def resolve_window(
    ask: WindowAsk, now_ms: int, default_ms: int, first_ms: int | None, seen_ms: int | None = None
) -> Resolved:
    """The window that is asked for, clipped to what there is of it. Raises InvalidWindow.

    It begins with `first_ms`, the first scrape, at the earliest, and does not reach into the future: time to come is
    not "not watched". Nor does it reach into the last `COMMIT_LAG_MS`, except as far as strata are in the database
    already (`seen_ms`).
    """
    asked_ms = _asked_end(ask)
    known_ms = min(max(now_ms - COMMIT_LAG_MS, seen_ms or 0), now_ms)
    end_ms = _grid_end(ask, now_ms, default_ms, first_ms) if asked_ms is None else min(asked_ms, known_ms)
    window_ms = ask.window_ms or default_ms
    start_ms = ask.start_ms if ask.start_ms is not None else (end_ms if asked_ms is None else asked_ms) - window_ms
    _refuse_no_length(start_ms, asked_ms, end_ms, now_ms)
    clipped_ms = start_ms if first_ms is None else min(max(start_ms, first_ms), end_ms)
    requested_ms = (end_ms if asked_ms is None else asked_ms) - start_ms
    return Resolved(clipped_ms, end_ms, requested_ms, asked_ms is None or asked_ms > known_ms)


def _asked_end(ask: WindowAsk) -> int | None:
    """The end as it was asked for; None where it is the present."""
    if ask.end_ms is not None:
        return ask.end_ms
    if ask.start_ms is not None and ask.window_ms is not None:
        return ask.start_ms + ask.window_ms
    return None


def _grid_end(ask: WindowAsk, now_ms: int, default_ms: int, first_ms: int | None) -> int:
    """The end of a window up to the present. The grid follows what there is to see of it, not what was asked: in the
    first hour there is a first sentence after seconds, not after the next full minute."""
    span_ms = (ask.window_ms or default_ms) if ask.start_ms is None else now_ms - ask.start_ms
    if first_ms is not None:
        span_ms = min(span_ms, now_ms - first_ms)
    grid_ms = FINE_GRID_MS if span_ms <= FINE_GRID_UP_TO_MS else COARSE_GRID_MS
    return (now_ms - COMMIT_LAG_MS) // grid_ms * grid_ms


def _refuse_no_length(start_ms: int, asked_ms: int | None, end_ms: int, now_ms: int) -> None:
    if asked_ms is not None and start_ms >= asked_ms:
        message = f"the window ends ({format_instant(asked_ms)}) before it starts ({format_instant(start_ms)})"
        if start_ms == asked_ms:
            message = f"the window is empty: it starts and ends at {format_instant(start_ms)}"
        raise InvalidWindow(message)
    if start_ms >= now_ms:
        message = f"the window begins in the future ({format_instant(start_ms)}); it is {format_instant(now_ms)} now"
        raise InvalidWindow(message)
    if start_ms >= end_ms:
        start, known = format_instant(start_ms), format_instant(end_ms)
        message = f"the window begins ({start}) later than what is known so far ({known})"
        raise InvalidWindow(message)


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
