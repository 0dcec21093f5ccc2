"""Quotients of two figures that are no fair pair, and give a quoted ratio all the same.

Contains the search and the fields that differ; fair pairs are `opmon.core.pairs`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from opmon.core.cells import Cell, has_failures, is_usable
from opmon.core.pairs import FIELDS, compare_fields, distinct
from opmon.core.recommend.claimed import ClaimCell, ClaimField, ClaimQuotient
from opmon.core.recommend.columns import SPEEDS, Column
from opmon.core.recommend.quote import Quote, Rounded

MOST_QUOTIENTS = 3
MOST_FIGURES = 2_000
MOST_FOUND = 20_000
COARSEST_RATIO = 0.01
"""A quote of one digit (`3x`) would be met by chance everywhere; nearer than this counts as the same figure."""
FIELD_WORDS = {
    "prompt_tokens": "prompt length",
    "load_mode": "load",
    "per_stream_method": "way of taking the per-stream speed",
    "token_source": "way of counting tokens",
    "failed_requests": "failed requests",
}


@dataclass(frozen=True, slots=True)
class _Figure:
    cell: Cell
    column: Column
    value: float


def unfair_quotients(
    cells: Iterable[Cell], reference: str, candidate: str, quote: Quote
) -> tuple[tuple[ClaimQuotient, ...], int]:
    """The three quotients nearest to a fair pair (fewest fields differ) that give the quoted ratio, and how many do.

    The upper figure is one of the candidate or of the same configuration as the lower one; of very large sweeps an even
    part is searched.
    """
    compared = distinct(cell for cell in cells if cell.configuration in (reference, candidate))
    figures = [
        _Figure(cell, column, value)
        for cell in compared
        for column in SPEEDS
        if (value := column.figure(cell)) is not None and is_usable(value)
    ]
    kept = figures[:: max(len(figures) // MOST_FIGURES, 1)]
    found = [
        (upper, lower, fields)
        for upper, lower in _with_ratio(kept, quote)
        if not (upper.cell.configuration == reference and lower.cell.configuration == candidate)
        and (fields := _unfair_fields(upper, lower))
    ]
    nearest = nsmallest(MOST_QUOTIENTS, found, key=lambda one: (len(one[2]), _away(one[0], one[1], quote)))
    return tuple(_answer(*one) for one in nearest), len(found)


def _with_ratio(figures: Sequence[_Figure], quote: Quote) -> list[tuple[_Figure, _Figure]]:
    """(upper, lower) with the quoted quotient, and with the quoted figures where there are such."""
    off = min(quote.ratio.half_unit, COARSEST_RATIO * quote.ratio.value)
    least, most = quote.ratio.value - off * (1 + 1e-9), quote.ratio.value + off * (1 + 1e-9)
    over, under = (_holding(figures, side) for side in quote.figures or (None, None))
    by_value = sorted(over, key=lambda one: one.value)
    values = [one.value for one in by_value]
    found = []
    for lower in under:
        first, last = bisect_left(values, least * lower.value), bisect_right(values, most * lower.value)
        if quote.figures is not None:
            first, last = 0, len(values)
        found += [(upper, lower) for upper in by_value[first:last] if upper is not lower]
        if len(found) > MOST_FOUND:
            break
    return found


def _holding(figures: Sequence[_Figure], given: Rounded | None) -> list[_Figure]:
    return [one for one in figures if given is None or given.holds(one.value)]


def _away(upper: _Figure, lower: _Figure, quote: Quote) -> float:
    return abs(upper.value / lower.value - quote.ratio.value)


def _unfair_fields(upper: _Figure, lower: _Figure) -> tuple[str, ...]:
    """Why the two are no fair pair; empty for one that is."""
    found = []
    if upper.cell.configuration == lower.cell.configuration:
        found.append("configuration")
    if upper.column is not lower.column:
        found.append("column")
    if has_failures(upper.cell) or has_failures(lower.cell):
        found.append("failed_requests")
    return (*compare_fields(lower.cell, upper.cell)[0], *found)


def _answer(upper: _Figure, lower: _Figure, names: Sequence[str]) -> ClaimQuotient:
    fields = tuple(_field(name, upper, lower) for name in names)
    ratio = upper.value / lower.value
    return ClaimQuotient(
        candidate=_side(upper),
        reference=_side(lower),
        ratio=ratio,
        fields=fields,
        detail=f"{ratio:.2f} = {upper.value:g} / {lower.value:g} is no fair comparison: {_in_words(fields)}",
    )


def _side(one: _Figure) -> ClaimCell:
    cell = one.cell
    return ClaimCell(
        configuration=cell.configuration,
        content=cell.content,
        concurrency=cell.concurrency,
        prompt_tokens=cell.prompt_tokens,
        output_tokens=cell.output_tokens,
        column=one.column.name,
        value=one.value,
        source_row=cell.source_row,
    )


def _field(name: str, upper: _Figure, lower: _Figure) -> ClaimField:
    if name == "column":
        return ClaimField(name, upper.column.name, lower.column.name)
    if name == "configuration":
        return ClaimField(name, upper.cell.configuration, lower.cell.configuration)
    if name == "failed_requests":
        return ClaimField(name, _said(upper.cell.failed_requests), _said(lower.cell.failed_requests))
    get = FIELDS[name][0]
    return ClaimField(name, _said(get(upper.cell)), _said(get(lower.cell)))


def _said(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,g}" if isinstance(value, int | float) and value < 1e6 else str(value)


def _in_words(fields: Sequence[ClaimField]) -> str:
    """`different content (code / prose), concurrency (8 / 64)`."""
    alike = [one.candidate for one in fields if one.field == "configuration"]
    parts = [
        f"{FIELD_WORDS.get(one.field, one.field)} ({one.candidate or 'not stated'} / {one.reference or 'not stated'})"
        for one in fields
        if one.field != "configuration"
    ]
    words = [f"different {', '.join(parts)}"] if parts else []
    words += [f"both are of one configuration ({name})" for name in alike]
    return ", and ".join(words)
