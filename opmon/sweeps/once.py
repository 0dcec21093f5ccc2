"""Runs that several files of a folder say: each counts once, by the file that says most of it.

Contains when two cells are one run. Tools sum up their own results (`summary.json`, a CSV, a page), and a folder holds all
of it; a repeat is another run, and differs in every figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from opmon.core.cells import Cell, SweepImport

SAME_WITHIN_RATIO = 1e-4
FEWEST_FIGURES = 3
_FIGURES = ("aggregate", "requests_per_second", "ttft", "ttft_p95", "tpot", "e2e", "duration_seconds", "per_stream")
_EQUAL = ("configuration", "content", "model", "concurrency", "load_mode", "measured_at")

_PROVENANCE = ("source_file", "source_row")


def counted_once(imports: Sequence[SweepImport]) -> tuple[list[SweepImport], list[str]]:
    """The imports without the cells that another file says at least as fully, and words for each file that lost some.
    An import without a cell left is left out. Within one file nothing is taken for the same."""
    kept: dict[tuple[object, ...], list[tuple[int, Cell]]] = {}
    lost: dict[tuple[int, int], int] = {}
    for place, one in enumerate(imports):
        for cell in one.cells:
            group = kept.setdefault(_group(cell), [])
            at = next(
                (at for at, (other, mine) in enumerate(group) if other != place and is_same_run(mine, cell)), None
            )
            if at is None:
                group.append((place, cell))
                continue
            winner, loser = (group[at], (place, cell))
            if _fullness(cell) > _fullness(group[at][1]):
                winner, loser = loser, winner
            group[at] = winner
            lost[loser[0], winner[0]] = lost.get((loser[0], winner[0]), 0) + 1
    staying = {(place, id(cell)) for group in kept.values() for place, cell in group}
    left = [
        replace(one, cells=cells)
        for place, one in enumerate(imports)
        if (cells := tuple(cell for cell in one.cells if (place, id(cell)) in staying))
    ]
    return left, [_words(imports, loser, lost) for loser in sorted({loser for loser, _ in lost})]


def _words(imports: Sequence[SweepImport], loser: int, lost: Mapping[tuple[int, int], int]) -> str:
    counts = {winner: count for (one, winner), count in lost.items() if one == loser}
    first = imports[min(counts)].file_name
    others = f" and {len(counts) - 1} more file{'s' if len(counts) > 2 else ''}" if len(counts) > 1 else ""
    return (
        f"{imports[loser].file_name}: {sum(counts.values())} of its cells stand in {first}{others} too, and count once"
    )


def is_same_run(one: Cell, other: Cell) -> bool:
    """Whether two cells are one measurement: what both state is equal, and so is every figure that both have, of which
    there are at least three."""
    if one.tool is None or other.tool is None:
        return False
    for name in _EQUAL:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine not in (None, "") and theirs not in (None, "") and mine != theirs:
            return False
    pairs = [(getattr(one, name), getattr(other, name)) for name in _FIGURES if not _is_estimate(name, one, other)]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    return len(known) >= FEWEST_FIGURES and all(
        math.isclose(mine, theirs, rel_tol=SAME_WITHIN_RATIO) for mine, theirs in known
    )


def _is_estimate(name: str, one: Cell, other: Cell) -> bool:
    """Whether either side computed the figure: files that say less estimate it in other ways."""
    return name in one.derived or name in other.derived


def _group(cell: Cell) -> tuple[object, ...]:
    """Cells that may be the same are in one group, so that not each is compared with each."""
    return (cell.configuration, cell.concurrency, f"{cell.aggregate:.3g}" if cell.aggregate else None)


def _fullness(cell: Cell) -> int:
    """How much a cell says: its figures that were measured, and its fields."""
    names = (field.name for field in fields(cell) if field.name not in _PROVENANCE)
    said = sum(getattr(cell, name) not in (None, "", ()) for name in names)
    return said - len(cell.derived)
