"""Several files as one sweep: each run counts once, also beside what the sweep holds already.

Contains no reading and no paths.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from opmon.core.cells import Cell, SweepImport
from opmon.sweeps.once import SAME_WITHIN_RATIO, counted_once, is_same_run


def gathered(imports: Sequence[SweepImport], known: Sequence[SweepImport] = ()) -> tuple[list[SweepImport], list[str]]:
    """The imports that are to be kept, and what was left out, in words.

    `known`: what the sweep holds already. A file that is in it stays as it is; runs that it holds are left out of the
    others. Cells of tables by hand are never taken for a tool's run.
    """
    once, told = counted_once(imports)
    there = {one.sha256 for one in known}
    held = _Held(cell for one in known for cell in one.cells)
    kept = []
    for one in once:
        left = one.cells if one.sha256 in there else tuple(cell for cell in one.cells if cell not in held)
        if len(left) < len(one.cells):
            told.append(f"{one.file_name}: {len(one.cells) - len(left)} of its runs are in the sweep already")
        if left:
            kept.append(replace(one, cells=left))
    return kept, told


class _Held:
    """Cells that a sweep holds, by configuration and aggregate: not each new one is compared with each of them."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._cells: dict[str, list[tuple[float, Cell]]] = {}
        for cell in cells:
            if cell.aggregate is not None:
                self._cells.setdefault(cell.configuration, []).append((cell.aggregate, cell))
        for pairs in self._cells.values():
            pairs.sort(key=_aggregate)

    def __contains__(self, cell: Cell) -> bool:
        """Whether one of them is the same run."""
        pairs = self._cells.get(cell.configuration, [])
        if cell.aggregate is None:
            return False
        first = bisect_left(pairs, cell.aggregate * (1 - 2 * SAME_WITHIN_RATIO), key=_aggregate)
        last = bisect_right(pairs, cell.aggregate * (1 + 2 * SAME_WITHIN_RATIO), key=_aggregate)
        return any(is_same_run(cell, other) for _, other in pairs[first:last])


def _aggregate(pair: tuple[float, Cell]) -> float:
    return pair[0]
