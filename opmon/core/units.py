"""Durations and instants as people write them, and back.

Contains no clock: whatever is relative is resolved by the caller.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from opmon.errors import InvalidWindow

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_FORMAT = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> int:
    """`90s`, `15m`, `1h30m`, `7d` in milliseconds. A bare number is seconds. Raises InvalidWindow."""
    stripped = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        milliseconds = round(float(stripped) * 1000)
    else:
        parts = _PART.findall(stripped)
        if not parts or "".join(number + unit for number, unit in parts) != stripped:
            message = f"{text!r} is no duration; write it like 90s, 15m, 6h or 7d"
            raise InvalidWindow(message)
        milliseconds = round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
    if milliseconds <= 0 or milliseconds > 100 * 366 * 86_400_000:
        message = f"{text!r} is no usable duration: it must be longer than 0 and at most 100 years"
        raise InvalidWindow(message)
    return milliseconds


def parse_instant(text: str) -> int:
    """RFC 3339 or Unix seconds, in milliseconds since the epoch. Raises InvalidWindow."""
    stripped = text.strip()
    if re.fullmatch(r"-?\d+(\.\d+)?", stripped):
        milliseconds = round(float(stripped) * 1000)
    else:
        try:
            moment = datetime.fromisoformat(stripped)
        except ValueError as error:
            message = f"{text!r} is no instant; write RFC 3339 (2026-11-29T17:00:00Z) or Unix seconds"
            raise InvalidWindow(message) from error
        milliseconds = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if not 0 <= milliseconds < 1 << 53:
        message = f"{text!r} lies outside the instants that can be kept"
        raise InvalidWindow(message)
    return milliseconds


def format_duration(milliseconds: int) -> str:
    """The shortest exact form: `7d`, `1h30m`, `90s`; `0s` for 0."""
    if milliseconds == 0:
        return "0s"
    text, rest = "", milliseconds
    for unit, size in _FORMAT:
        if rest >= size:
            text += f"{rest // size}{unit}"
            rest %= size
    return text
