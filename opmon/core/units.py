"""Durations and instants as people write them, and back.

Contains no clock: whatever is relative is resolved by the caller.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from opmon.core.names import quoted
from opmon.errors import InvalidWindow

SHORTEST_WINDOW_MS = 1_000
# Longer than any duration or instant that can be meant; below it, no number is too large for a float.
_LONGEST_TEXT = 100
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[smhdw])")
_FORMAT = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def parse_duration(text: str) -> int:
    """`90s`, `15m`, `1h30m`, `7d`, `1w` in milliseconds. A bare number is seconds. Raises InvalidWindow."""
    stripped = text.strip()
    parts = _PART.findall(stripped) if len(stripped) <= _LONGEST_TEXT else []
    if len(stripped) <= _LONGEST_TEXT and _NUMBER.fullmatch(stripped):
        milliseconds = round(float(stripped) * 1000)
    elif parts and "".join(number + unit for number, unit in parts) == stripped:
        milliseconds = round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
    else:
        message = f"{quoted(text)} is no duration; write it like 90s, 15m, 6h or 7d"
        raise InvalidWindow(message)
    if milliseconds <= 0 or milliseconds > 100 * 366 * 86_400_000:
        message = f"{quoted(text)} is no usable duration: it must be longer than 0 and at most 100 years"
        raise InvalidWindow(message)
    return milliseconds


def parse_instant(text: str) -> int:
    """RFC 3339 or Unix seconds, in milliseconds since the epoch; without a zone it is UTC. Raises InvalidWindow."""
    stripped = text.strip()
    if len(stripped) <= _LONGEST_TEXT and _NUMBER.fullmatch(stripped.removeprefix("-")):
        milliseconds = round(float(stripped) * 1000)
    else:
        try:
            moment = datetime.fromisoformat(stripped)
            milliseconds = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            message = f"{quoted(text)} is no instant; write RFC 3339 (2026-11-29T17:00:00Z) or Unix seconds"
            raise InvalidWindow(message) from error
    if not 0 <= milliseconds < 1 << 53:
        message = f"{quoted(text)} lies outside the instants that can be kept"
        raise InvalidWindow(message)
    return milliseconds


def parse_window(window: str | None, start: str | None, end: str | None) -> tuple[int | None, int | None, int | None]:
    """A window's length, start and end as they were asked for, in milliseconds; None where a part was not given.

    Raises InvalidWindow where one cannot be read, where all three are given, and for less than a second: a sample
    stands for a part of a second at best. That a window ends after it starts is checked by who knows the present.
    """
    if window is not None and start is not None and end is not None:
        message = "give window, or start and end; all three at once contradict each other"
        raise InvalidWindow(message)
    window_ms = None if window is None else parse_duration(window)
    start_ms = None if start is None else parse_instant(start)
    end_ms = None if end is None else parse_instant(end)
    length_ms = end_ms - start_ms if start_ms is not None and end_ms is not None else window_ms
    if length_ms is not None and 0 < length_ms < SHORTEST_WINDOW_MS:
        message = f"a window of {format_duration(length_ms)} is too short; it has at least 1s"
        raise InvalidWindow(message)
    return window_ms, start_ms, end_ms


def format_instant(milliseconds: int) -> str:
    """RFC 3339 in UTC, with milliseconds only where there are any: `2026-11-29T17:00:00Z`. For any instant that
    parse_instant gives, beyond the year 9999 as Unix seconds."""
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, tz=UTC).replace(microsecond=milliseconds % 1000 * 1000)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds / 1000:.15g}"
    precision = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


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
