"""Several files as one sweep: each run counts once, and what none of them says counts as equal among them.

Contains no reading and no paths. Whoever gives files together says that they belong together, as the rows of one file do:
tools write a file a run, and few of them state the hardware.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from opmon.core.cells import Cell, SweepImport
from opmon.sweeps.once import counted_once, is_same_run


def gathered(imports: Sequence[SweepImport], known: Sequence[SweepImport] = ()) -> tuple[list[SweepImport], list[str]]:
    """The imports that are to be kept, and what was left out, in words.

    `known`: what the sweep holds already. A file that is in it stays as it is; runs that it holds are left out of the
    others. Cells of tables by hand are never taken for a tool's run.
    """
    once, told = counted_once(imports)
    there = {one.sha256 for one in known}
    held = [cell for one in known for cell in one.cells]
    kept = []
    for one in once:
        left = one.cells if one.sha256 in there else tuple(cell for cell in one.cells if not _is_among(cell, held))
        if len(left) < len(one.cells):
            told.append(f"{one.file_name}: {len(one.cells) - len(left)} of its runs are in the sweep already")
        if left:
            kept.append(replace(one, cells=left))
    return together(kept), told


def _is_among(cell: Cell, held: Sequence[Cell]) -> bool:
    return any(is_same_run(cell, other) for other in held)


def together(imports: Sequence[SweepImport]) -> list[SweepImport]:
    """The imports with their cells marked as given together; one alone is as it was."""
    if len(imports) < 2:
        return list(imports)
    hashes = "".join(sorted({one.sha256 for one in imports}))
    mark = hashlib.sha256(hashes.encode()).hexdigest()[:16]
    return [replace(one, cells=tuple(_marked(cell, mark) for cell in one.cells)) for one in imports]


def _marked(cell: Cell, mark: str) -> Cell:
    return replace(cell, given_together=mark)
