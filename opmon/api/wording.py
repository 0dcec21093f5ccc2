"""Numbers, instants and verdicts as people read them: the filters of the templates.

Contains no computing: what is shown is what the answer holds, rounded. Not known is an em dash with words beside it,
never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

UNKNOWN = "\N{EM DASH}"
NARROW = "\N{NARROW NO-BREAK SPACE}"
SPACE = "\N{NO-BREAK SPACE}"
TIMES = "\N{MULTIPLICATION SIGN}"

VERDICTS = {
    "switch": "Switch",
    "stay": "Stay",
    "no_difference": "No difference",
    "undecided": "Undecided",
    "not_comparable": "Not comparable",
}
COLUMNS = {"per_stream": "per-stream speed", "aggregate": "aggregate throughput", "both": "both columns"}
STATES = {
    "observed": "observed",
    "stalled": "stalled",
    "invalid": "invalid",
    "down": "down",
    "gap": "not watched",
}
WEIGHTINGS = {"time": "of the clock", "busy": "of busy time", "request": "as requests meet it"}


def significant(value: float, digits: int = 3) -> str:
    """`digits` significant digits, thousands grouped, no exponent, no idle zeros."""
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{min(places, 6)}f}".replace(",", NARROW)
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: float | None, digits: int = 3) -> str:
    """A plain figure."""
    return UNKNOWN if value is None or not math.isfinite(value) else significant(value, digits)


def percent(ratio: float | None) -> str:
    """A share; one that is neither none nor all never reads as 0 % or 100 %."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    if 0 < ratio < 0.0005:
        return f"<0.1{SPACE}%"
    share = 100 * ratio
    if 99.95 <= share < 100:
        return f">99.9{SPACE}%"
    return f"{share:.1f}{SPACE}%" if share < 99.95 and round(share, 1) % 1 else f"{share:.0f}{SPACE}%"


def times(ratio: float | None) -> str:
    """A quotient: 1.42x with the sign for times."""
    if ratio is None or not math.isfinite(ratio):
        return UNKNOWN
    return f"{ratio:.2f}{TIMES}" if ratio < 10 else f"{significant(ratio)}{TIMES}"


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 1:
        return f"{significant(seconds * 1000)}{SPACE}ms" if seconds else f"0{SPACE}s"
    if seconds < 60:
        return f"{significant(seconds)}{SPACE}s"
    rest, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if rest >= size:
            parts.append(f"{rest // size}{SPACE}{unit}")
            rest %= size
    return " ".join(parts[:2])


def size(count: int | None) -> str:
    """Bytes."""
    if count is None:
        return UNKNOWN
    return f"{count}{SPACE}B" if count < 1000 else f"{significant(count / 1000)}{SPACE}kB"


def moment(instant: float) -> datetime:
    """The instant in UTC."""
    return datetime.fromtimestamp(instant, UTC)


def iso(instant: float) -> str:
    """For machines, as in the attribute `datetime`."""
    return moment(instant).isoformat(timespec="seconds").replace("+00:00", "Z")


def instant_text(instant: float | None) -> str:
    """For people, in UTC; the page's script shows it in the reader's zone."""
    return UNKNOWN if instant is None else moment(instant).strftime("%Y-%m-%d %H:%M:%S UTC")


def level(value: float | None) -> str:
    """A concurrency."""
    return UNKNOWN if value is None else f"{value:g}"


def words(text: str) -> str:
    """An identifier as words."""
    return text.replace("_", " ")


FILTERS: dict[str, Callable[..., str]] = {
    "number": number,
    "percent": percent,
    "times": times,
    "duration": duration,
    "size": size,
    "iso": iso,
    "instant": instant_text,
    "level": level,
    "words": words,
}
