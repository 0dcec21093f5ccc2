"""Several files as one sweep: each run counts once, also beside what the sweep holds already.

Contains no reading and no paths.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from opmon.core.cells import Cell, SweepImport
from opmon.errors import SweepError
from opmon.sweeps.once import SAME_WITHIN_RATIO, counted_once, is_same_run

OTHER_ABOVE_RATIO = 0.1


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
    return _noted(kept, known), told


def beside(one: SweepImport, known: Sequence[SweepImport], name: str) -> SweepImport:
    """A file that is added to a sweep, with notes of what it adds to what is there. Raises SweepError as
    `refuse_renaming` does."""
    refuse_renaming([one], known, name)
    return _noted([one], known)[0]


def differing(imports: Sequence[SweepImport], known: Sequence[SweepImport]) -> list[str]:
    """Words for each configuration to which the imports add other figures at what the sweep holds already: they count
    as repeats, and are another configuration where the names were guessed alike."""
    there = {one.sha256 for one in known}
    held: dict[tuple[object, ...], list[float]] = {}
    for cell in (cell for one in known for cell in one.cells if cell.aggregate):
        held.setdefault(_where(cell), []).append(cell.aggregate or 0)
    levels: dict[str, set[float]] = {}
    for cell in (cell for one in imports if one.sha256 not in there for cell in one.cells):
        others = held.get(_where(cell), [])
        if cell.concurrency and cell.aggregate and others:
            speed = cell.aggregate
            if min(abs(speed - other) / other for other in others) > OTHER_ABOVE_RATIO:
                levels.setdefault(cell.configuration, set()).add(cell.concurrency)
    return [
        f"{name!r} is in the sweep already with other figures at concurrency {_listed(found)} (more than"
        f" {OTHER_ABOVE_RATIO:.0%} apart): they count as repeats; if these are another configuration, delete the sweep and"
        " import each with a name (--config)"
        for name, found in levels.items()
    ]


def _noted(imports: list[SweepImport], known: Sequence[SweepImport]) -> list[SweepImport]:
    """The imports, the first that is new with the words of `differing`: they are of all together."""
    there = {one.sha256 for one in known}
    first = next((place for place, one in enumerate(imports) if one.sha256 not in there), None)
    words = differing(imports, known)
    if first is None or not words:
        return imports
    noted = replace(imports[first], notes=(*imports[first].notes, *words))
    return [*imports[:first], noted, *imports[first + 1 :]]


def refuse_renaming(imports: Sequence[SweepImport], known: Sequence[SweepImport], name: str) -> None:
    """Raises SweepError for a file that the sweep holds under other names than are given for it now: what is there stays as
    it is, and whoever gave the names would expect otherwise. Names that are only guessed now are none. `name`: the
    sweep's."""
    held = {one.sha256: one for one in known}
    for one in imports:
        there = held.get(one.sha256)
        if there is None or not any(_is_renamed(one, there, place) for place in ("configuration", "content")):
            continue
        called = ", ".join(dict.fromkeys(" ".join(filter(None, _names(cell))) for cell in there.cells))
        message = (
            f"the file is in sweep {name!r} already, as {called}, and keeps these names: to give it others, delete the sweep"
            " and import its files again, or import this one into another sweep"
        )
        raise SweepError(message, file=one.file_name)


def _is_renamed(one: SweepImport, there: SweepImport, place: str) -> bool:
    new = {getattr(cell, place) for cell in one.cells} - {""}
    is_guessed = any(note.startswith(f"the {place} ") and " is guessed from " in note for note in one.notes)
    return bool(new) and not is_guessed and not {getattr(cell, place) for cell in there.cells} <= new


def _names(cell: Cell) -> tuple[str, str]:
    return cell.configuration, cell.content


def _where(cell: Cell) -> tuple[object, ...]:
    return cell.configuration, cell.content, cell.concurrency, _about(cell.prompt_tokens), _about(cell.output_tokens)


def _about(tokens: float | None) -> str | None:
    """A length to two digits: tools state means, which differ a little from run to run."""
    return None if tokens is None else f"{tokens:.2g}"


def _listed(levels: set[float]) -> str:
    return ", ".join(f"{level:g}" for level in sorted(levels))


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
