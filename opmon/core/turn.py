"""The whole turn: what a faster decode is worth to somebody who also waits for the first token.

Contains DEFINITIONS 6; where the times and the speed-up come from is decided elsewhere. All times are seconds.
"""

from __future__ import annotations

from opmon.core.answers import Turn
from opmon.errors import ConfigError

AFTER, BEFORE = "after", "before"
UNLIKELY_TO_BE_FELT_RATIO = 1.2
ASK_THE_CLIENT_RATIO = 0.8


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
    if measured == AFTER:
        before, after = ttft_seconds * ttft_ratio + decode_seconds * speedup_ratio, measured_turn
    else:
        before, after = measured_turn, ttft_seconds / ttft_ratio + decode_seconds / speedup_ratio
    return Turn(
        speedup_ratio=before / after,
        measured=measured,
        ttft_ratio=ttft_ratio,
        turn_before_seconds=before,
        turn_after_seconds=after,
        ttft_share_ratio=ttft_seconds / measured_turn,
    )


def _check(ttft: float, decode: float, speedup: float, measured: str, ttft_ratio: float) -> None:
    if measured not in (AFTER, BEFORE):
        message = f"measured must be `after` (on the candidate) or `before` (on the reference), not {measured!r}"
        raise ConfigError(message)
    for name, value in (("the TTFT", ttft), ("the decode time", decode)):
        if not 0 <= value < float("inf"):
            message = f"{name} must be a number of seconds, 0 or more, not {value}"
            raise ConfigError(message)
    for name, value in (("the speed-up", speedup), ("the TTFT ratio", ttft_ratio)):
        if not 0 < value < float("inf"):
            message = f"{name} must be a quotient above 0, not {value}"
            raise ConfigError(message)
    if ttft + decode <= 0:
        message = "a turn takes time: the TTFT and the decode time cannot both be 0"
        raise ConfigError(message)


def turn_with_ttft_part(
    ttft_seconds: float,
    decode_seconds: float,
    speedup_ratio: float,
    measured: str,
    ttft_ratio: float,
    server_part: float,
) -> float:
    """The speed-up where the TTFT ratio holds only for the server's part of the TTFT (`server_part`, 0 to 1)."""
    scaled = server_part * ttft_ratio + (1 - server_part) if measured == AFTER else None
    if scaled is None:
        scaled = 1 / (server_part / ttft_ratio + (1 - server_part))
    return turn(ttft_seconds, decode_seconds, speedup_ratio, measured, scaled).speedup_ratio


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
