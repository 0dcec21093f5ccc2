"""Numbers as people write them: decimal point or comma, thousands separators, and which of them a table uses.

Contains the reading of one number in the style of its table; no column and no row. What could be two different numbers
is refused with what to write instead, never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from opmon.core.names import quoted


class Unreadable(ValueError):
    """A value that its column cannot hold; the text says what is expected."""


_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}(?P<mark>[.,])\d{3}", re.ASCII)
_COMMA_THOUSANDS = re.compile(r"[+-]?\d{1,3}((,\d{3})+\.\d+|(,\d{3}){2,})", re.ASCII)
_POINT_THOUSANDS = re.compile(r"[+-]?\d{1,3}((\.\d{3})+,\d+|(\.\d{3}){2,})", re.ASCII)
_COMMA_DECIMAL = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_POINT_DECIMAL = re.compile(r"[+-]?\d+\.\d+", re.ASCII)
_UNBROKEN = re.compile(r"[+-]?\d{1,3}([\u00a0\u202f\u2009]\d{3})+([.,]\d+)?", re.ASCII)
_SPACED = re.compile(r"[+-]?\d[\d.,]*(\s+\d[\d.,]*)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Style:
    """What the numbers of a table show of their marks. `takes_decimal_comma`: it separates its columns by `;`."""

    takes_decimal_comma: bool = False
    has_decimal_comma: bool = False
    has_decimal_point: bool = False

    @property
    def is_comma(self) -> bool:
        """Whether a comma is shown to be the decimal mark, and nothing shows the opposite."""
        return self.has_decimal_comma and not self.has_decimal_point

    @property
    def is_point(self) -> bool:
        """Whether a point is shown to be the decimal mark, and nothing shows the opposite."""
        return self.has_decimal_point and not self.has_decimal_comma


def style_of(texts: Iterable[str], *, takes_decimal_comma: bool = False) -> Style:
    """What numbers show of their table's marks: `12,5`, `0,412` and `1.234,5` a decimal comma, `12.5` and `1,234.5` a
    point. `137,412` shows nothing, as it may be either; `137.412` neither."""
    comma = point = grouped_points = False
    for text in texts:
        stripped = text.strip()
        if _POINT_THOUSANDS.fullmatch(stripped):
            comma = grouped_points = True
        elif _COMMA_THOUSANDS.fullmatch(stripped):
            point = True
        elif not _EITHER.fullmatch(stripped):
            comma = comma or bool(_COMMA_DECIMAL.fullmatch(stripped))
            point = point or bool(_POINT_DECIMAL.fullmatch(stripped))
    return Style(takes_decimal_comma or grouped_points, comma, point)


PLAIN_STYLE = Style()


def read_number(text: str, style: Style = PLAIN_STYLE) -> float:
    """A number of 0 or more. `1,234.5` has a thousands separator; `74,1` is read only where the table uses decimal
    commas. Raises Unreadable for what is none, and for what may be two different ones."""
    stripped = text.strip()
    if _UNBROKEN.fullmatch(stripped):
        stripped = re.sub(r"[\u00a0\u202f\u2009]", "", stripped)
    if _SPACED.fullmatch(stripped):
        message = f"{quoted(text)} may be two numbers, or one with a space in it; write one number without a space"
        raise Unreadable(message)
    stripped = _pointed(stripped, text, style)
    if not _PLAIN.fullmatch(stripped):
        message = f"{quoted(text)} is not a number"
        raise Unreadable(message)
    number = float(stripped)
    if number < 0 or not math.isfinite(number):
        message = f"{quoted(text)} is not a number of 0 or more"
        raise Unreadable(message)
    return number


def _pointed(number: str, text: str, style: Style) -> str:
    """The number with a decimal point and without separators. Raises Unreadable where that would be a guess."""
    if found := _EITHER.fullmatch(number):
        return _either(number, found["mark"], text, style)
    if _COMMA_THOUSANDS.fullmatch(number):
        return number.replace(",", "")
    if _POINT_THOUSANDS.fullmatch(number) and style.takes_decimal_comma:
        return number.replace(".", "").replace(",", ".")
    if _COMMA_DECIMAL.fullmatch(number):
        if style.takes_decimal_comma:
            return number.replace(",", ".")
        message = (
            f"{quoted(text)} may be a decimal comma or a thousands separator; write 74.1, or separate columns with `;`"
        )
        raise Unreadable(message)
    return number


def _either(number: str, mark: str, text: str, style: Style) -> str:
    """`137,412` and, where commas are decimal, `137.412`: what the rest of the table shows, else refused."""
    if mark == "." and not style.has_decimal_comma:
        return number
    if mark == "," and style.is_point:
        return number.replace(",", "")
    if mark == "," and style.is_comma and style.takes_decimal_comma:
        return number.replace(",", ".")
    whole, _, rest = number.partition(mark)
    message = (
        f"{quoted(text)} may be {whole}.{rest} or {whole}{rest}, and no other number of the table shows which; write"
        " one of the two"
    )
    raise Unreadable(message)


def read_count(text: str, style: Style = PLAIN_STYLE) -> int:
    """A whole number of 0 or more. `1,024` can only be a thousand and 24: with decimals it would not be whole."""
    stripped = text.strip()
    found = _EITHER.fullmatch(stripped)
    is_grouped = found and found["mark"] == "," and not (style.takes_decimal_comma and stripped.endswith("000"))
    number = float(stripped.replace(",", "")) if is_grouped else read_number(text, style)
    if number != int(number) or number < 0:
        message = f"{quoted(text)} is not a whole number of 0 or more"
        raise Unreadable(message)
    return int(number)


def read_share(text: str, style: Style = PLAIN_STYLE) -> float:
    """A share of 0 to 1: `20%`, `20` and `0.2` are one fifth. Raises Unreadable for more than 100 %."""
    stripped = text.strip()
    number = read_number(stripped.removesuffix("%"), style)
    share = number / 100 if stripped.endswith("%") or number > 1 else number
    if share > 1:
        message = f"{quoted(text)} is more than all; write a share such as 20% or 0.2"
        raise Unreadable(message)
    return share
