"""The whole turn: what a faster decode is worth to somebody who also waits for the first token.

Contains DEFINITIONS 6; where the times and the speed-up come from is decided elsewhere. All times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.core.answers import Turn
from opmon.errors import ConfigError

AFTER, BEFORE = "after", "before"
UNLIKELY_TO_BE_FELT_RATIO = 1.2
ASK_THE_CLIENT_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure may be, ends included. Every answer from figures within their limits is finite."""

    smallest: float
    largest: float
    unit: str

    def check(self, name: str, value: float) -> None:
        """Raises ConfigError naming the figure, what is allowed, and what it is; nothing compares with nan."""
        if not self.smallest <= value <= self.largest:
            ends = (f"{end:f}".rstrip("0").rstrip(".") for end in (self.smallest, self.largest))
            message = f"{name} must be a number of {self.unit} from {' to '.join(ends)}, not {value}"
            raise ConfigError(message)

    def holds(self, value: float | None) -> bool:
        """Whether a figure that nobody typed may be used; unknown: no."""
        return value is not None and self.smallest <= value <= self.largest


TTFT_LIMIT = Limit(0, 1e6, "seconds")
"""A first token may come at once; decoding takes time, or nothing could be faster."""
DECODE_LIMIT = Limit(1e-6, 1e6, "seconds")
RATIO_LIMIT = Limit(1e-6, 1e6, "times")
TOKENS_LIMIT = Limit(1e-6, 1e9, "tokens")
CEILING_LIMIT = Limit(1, 1e6, "requests")


def turn(
    ttft_seconds: float,
    decode_seconds: float,
    speedup_ratio: float,
    measured: str = AFTER,
    ttft_ratio: float = 1.0,
) -> Turn:
    """The speed-up of a whole turn (TTFT plus decoding), of which only the decoding gets `speedup_ratio` faster.

    `measured`: the times were taken on the candidate (`after`) or on the reference (`before`). `ttft_ratio`: how much
    faster the first token comes, 1 where that is not known. Raises ConfigError for times or ratios that cannot be.
    """
    _check(ttft_seconds, decode_seconds, speedup_ratio, measured, ttft_ratio)
    measured_turn = ttft_seconds + decode_seconds
    before, after = _before_and_after(ttft_seconds, decode_seconds, speedup_ratio, measured, ttft_ratio)
    return Turn(
        speedup_ratio=before / after,
        measured=measured,
        ttft_ratio=ttft_ratio,
        turn_before_seconds=before,
        turn_after_seconds=after,
        ttft_share_ratio=ttft_seconds / measured_turn,
    )


def _before_and_after(
    ttft: float, decode: float, speedup_ratio: float, measured: str, ttft_ratio: float
) -> tuple[float, float]:
    """The length of a turn in seconds before and after the change."""
    if measured == AFTER:
        return ttft * ttft_ratio + decode * speedup_ratio, ttft + decode
    return ttft + decode, ttft / ttft_ratio + decode / speedup_ratio


def _check(ttft: float, decode: float, speedup: float, measured: str, ttft_ratio: float) -> None:
    if measured not in (AFTER, BEFORE):
        message = f"measured must be `after` (on the candidate) or `before` (on the reference), not {measured!r}"
        raise ConfigError(message)
    check_times(ttft, decode)
    RATIO_LIMIT.check("the speed-up", speedup)
    RATIO_LIMIT.check("the TTFT ratio", ttft_ratio)


def check_times(ttft_seconds: float, decode_seconds: float) -> None:
    """Raises ConfigError for the times of a turn that cannot be."""
    TTFT_LIMIT.check("the TTFT", ttft_seconds)
    DECODE_LIMIT.check("the decode time", decode_seconds)


def turn_with_ttft_part(
    ttft_seconds: float,
    decode_seconds: float,
    speedup_ratio: float,
    measured: str,
    ttft_ratio: float,
    server_part: float,
) -> float:
    """The speed-up where the TTFT ratio holds only for the server's part of the TTFT (`server_part`, 0 to 1).

    Times and ratios are computed ones, within their limits, or the ends of an interval, which may lie beyond.
    """
    scaled = server_part * ttft_ratio + (1 - server_part) if measured == AFTER else None
    if scaled is None:
        scaled = 1 / (server_part / ttft_ratio + (1 - server_part))
    before, after = _before_and_after(ttft_seconds, decode_seconds, speedup_ratio, measured, scaled)
    return before / after


def is_unlikely_to_be_felt(speedup_ratio: float) -> bool:
    """Under 1.2, in either direction, a person does not notice a turn's length."""
    return 1 / UNLIKELY_TO_BE_FELT_RATIO < speedup_ratio < UNLIKELY_TO_BE_FELT_RATIO


def prefix_cost(direct_full_prompt: float | None, direct_typed: float | None) -> float | None:
    """Speed with the client's full prompt / speed with the typed text, both direct to the server; None if unknown."""
    return direct_full_prompt / direct_typed if direct_full_prompt is not None and direct_typed else None


def client_tax(through_client: float | None, direct_full_prompt: float | None) -> float | None:
    """Speed through the client / direct with the same full prompt; None if unknown."""
    return through_client / direct_full_prompt if through_client is not None and direct_full_prompt else None


def asks_for_prepended_tokens(prefix: float | None, tax: float | None) -> bool:
    """Whether to ask first how many tokens the client prepends: the product of both is under 0.8."""
    return prefix is not None and tax is not None and prefix * tax < ASK_THE_CLIENT_RATIO
