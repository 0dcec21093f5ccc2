"""A speed-up as people quote it, and what else the quote says of itself.

Contains the reading; where in a sweep it comes from is `claim`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opmon.core.names import quoted
from opmon.core.recommend.columns import COLUMNS
from opmon.core.turn import RATIO_LIMIT, TOKENS_LIMIT, Limit
from opmon.errors import ConfigError

CONCURRENCY_LIMIT = Limit(1e-3, 1e6, "requests")
_LONGEST_TEXT = 100
_NUMBER = r"([0-9]+(?:\.([0-9]*))?|\.([0-9]+))"
_TIMES = re.compile(rf"{_NUMBER}\s*(?:x|×|-?fold|times)?(?:\s+(?:faster|speed-?up))?", re.IGNORECASE)
_PERCENT = re.compile(rf"([+-]?)\s*{_NUMBER}\s*%(?:\s*(faster|slower|speed-?up))?", re.IGNORECASE)
_QUOTIENT = re.compile(rf"{_NUMBER}\s*(?:/|÷|:|over)\s*{_NUMBER}")
EXAMPLES = "write it like 2.58, 2.58x, +158% or 708.4/274.7"


@dataclass(frozen=True, slots=True)
class Rounded:
    """A figure and how far the true one may be from it, as it was rounded."""

    value: float
    half_unit: float

    def holds(self, figure: float) -> bool:
        """Whether a figure rounds to this one."""
        return abs(figure - self.value) <= self.half_unit * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Quote:
    """The ratio, and the two figures of it where they were given: (candidate, reference)."""

    text: str
    ratio: Rounded
    figures: tuple[Rounded, Rounded] | None = None


@dataclass(frozen=True, slots=True)
class ClaimAsk:
    """The quoted speed-up as text, and what the quote says of itself; None: it does not say."""

    speedup: str
    content: str | None = None
    column: str | None = None
    concurrency: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None


def parse_quote(text: str) -> Quote:
    """`2.58`, `2.58x faster`, `+158%`, `158% faster`, `30% slower`, `708.4/274.7`. Raises ConfigError.

    A bare percentage is refused: 158 % can be 1.58 times as fast, or 158 % faster, which is 2.58.
    """
    stripped = text.strip()
    shown = quoted(text)
    if len(stripped) > _LONGEST_TEXT:
        raise ConfigError(f"the speed-up {shown} is too long to be one; {EXAMPLES}")
    if match := _QUOTIENT.fullmatch(stripped):
        first, second = _rounded(match.groups()[:3]), _rounded(match.groups()[3:])
        quote = Quote(stripped, _quotient(first, second, shown), (first, second))
    elif match := _TIMES.fullmatch(stripped):
        quote = Quote(stripped, _rounded(match.groups()))
    elif match := _PERCENT.fullmatch(stripped):
        quote = Quote(stripped, _percent(match, shown))
    else:
        raise ConfigError(f"{shown} is no speed-up; {EXAMPLES}")
    RATIO_LIMIT.check(f"the speed-up ({shown})", quote.ratio.value)
    return quote


def check_claim(ask: ClaimAsk) -> None:
    """Raises ConfigError for what a quote cannot say of itself."""
    if ask.column is not None and ask.column not in COLUMNS:
        message = f"column must be one of {', '.join(COLUMNS)}, not {quoted(ask.column)}"
        raise ConfigError(message)
    for name, value, limit in (
        ("the quoted concurrency", ask.concurrency, CONCURRENCY_LIMIT),
        ("the quoted prompt length", ask.prompt_tokens, TOKENS_LIMIT),
        ("the quoted output length", ask.output_tokens, TOKENS_LIMIT),
    ):
        if value is not None:
            limit.check(name, value)


def _rounded(groups: tuple[str | None, ...]) -> Rounded:
    whole, decimals, other = groups
    return Rounded(float(whole or 0), 0.5 * 10.0 ** -len(decimals or other or ""))


def _quotient(first: Rounded, second: Rounded, shown: str) -> Rounded:
    if first.value == 0 or second.value == 0:
        message = f"the speed-up {shown} divides by 0 or is 0; {EXAMPLES}"
        raise ConfigError(message)
    ratio = first.value / second.value
    return Rounded(ratio, ratio * (first.half_unit / first.value + second.half_unit / second.value))


def _percent(match: re.Match[str], shown: str) -> Rounded:
    sign, word = match[1], (match[5] or "").lower()
    figure = _rounded(match.groups()[1:4])
    if not sign and not word:
        message = (
            f"{shown} can be {figure.value / 100:g} or {1 + figure.value / 100:g} times as fast; write which, as"
            f" {1 + figure.value / 100:g}x or +{figure.value:g}%"
        )
        raise ConfigError(message)
    if sign and word == "slower":
        message = f"{shown} says faster and slower at once; {EXAMPLES}"
        raise ConfigError(message)
    change = -figure.value if sign == "-" or word == "slower" else figure.value
    return Rounded(1 + change / 100, figure.half_unit / 100)
