"""Which cells make a configuration's aggregate curve, beside the pair whose verdict it serves.

Contains the choice of cells; knee and column are `opmon.core.knee`.
"""

from __future__ import annotations

from collections.abc import Sequence

from opmon.core.cells import Cell
from opmon.core.knee import aggregate_curve
from opmon.core.pairs import FIELDS, Pair, Side, distinct, is_same_length

# What may differ between two cells of one curve: the level itself, and what says nothing of the aggregate.
_FREE = ("concurrency", "prompt_tokens", "per_stream_method")


def curve_of(
    cells: Sequence[Cell], pairs: Sequence[Pair], cell: Pair, *, is_candidate: bool
) -> list[tuple[float, float]]:
    """`(concurrency, aggregate tok/s)` of one side, at about the prompt length of the cell.

    Where a level has a fair pair, the pair's own cells; elsewhere those that could have stood beside the cell, so a run
    on other hardware moves no knee. What only one of them states is no contradiction: levels may come from several files.
    """
    side = _side(cell, is_candidate=is_candidate)
    paired = {
        pair.concurrency: _side(pair, is_candidate=is_candidate).cells
        for pair in pairs
        if is_same_length(pair.prompt_tokens, cell.prompt_tokens)
    }
    others = distinct(
        one
        for one in cells
        if one.configuration == side.first.configuration and one.concurrency not in paired
        if is_same_length(one.prompt_tokens, cell.prompt_tokens) and _is_beside(side.first, one)
    )
    return aggregate_curve([*(one for level in paired.values() for one in level), *others])


def _side(pair: Pair, *, is_candidate: bool) -> Side:
    return pair.candidate if is_candidate else pair.reference


def _is_beside(cell: Cell, other: Cell) -> bool:
    """Whether nothing that both state, and that forbids a comparison, differs."""
    if cell.content != other.content:
        return False
    return all(
        agree(cell, other)
        for name, (get, agree) in FIELDS.items()
        if name not in _FREE and get(cell) is not None and get(other) is not None
    )
