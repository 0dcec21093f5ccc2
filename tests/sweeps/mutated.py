"""A good file with one thing wrong: what readers must refuse in words or read into sound cells, whatever it is."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document
from opmon.sweeps.document import Document

WRONG: tuple[Any, ...] = (
    None,
    "fast",
    "",
    -1,
    0,
    [],
    [[1, "x"], None],
    {},
    {"mean": {"mean": 1}},
    math.nan,
    math.inf,
    1e308,
    1e-320,
    10**400,
    True,
    "1,5",
    "\x1b[31m",
)
GONE = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything below a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in below:
        yield (*path, key)
        yield from places(one, (*path, key))


def mutations(value: Any, many: int, seed: int = 7) -> Iterator[Any]:
    """`many` copies, each with another thing deleted or wrong. Every key at the top is deleted once."""
    chance, every = random.Random(seed), list(places(value))
    for key in value if isinstance(value, dict) else range(len(value)):
        yield changed(value, (key,), GONE)
    for _ in range(many):
        yield changed(value, chance.choice(every), chance.choice((*WRONG, GONE)))


def changed(value: Any, path: tuple[Any, ...], wrong: Any) -> Any:
    """A copy with another thing at a path, or without it."""
    made = copy.deepcopy(value)
    around = made
    for key in path[:-1]:
        around = around[key]
    if wrong is GONE:
        del around[path[-1]]
    else:
        around[path[-1]] = wrong
    return made


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def outcome(data: bytes, file_name: str, others: dict[str, bytes] | None = None) -> tuple[str, tuple[Cell, ...]]:
    """The words of the refusal, or the cells."""
    try:
        document = Document.of_bytes(data, file_name, others)
        return "", read_document(document, configuration="one", content="one").cells
    except SweepError as error:
        return str(error), ()


def unsound(cells: tuple[Cell, ...]) -> list[tuple[str, Any]]:
    """The figures of cells that are no measurement: below 0, not finite, or more than anything is."""
    figures = [
        (field.name, getattr(cell, field.name))
        for cell in cells
        for field in fields(Cell)
        if isinstance(getattr(cell, field.name), int | float) and not isinstance(getattr(cell, field.name), bool)
    ]
    return [(name, value) for name, value in figures if not math.isfinite(value) or not 0 <= value <= 1e13]
