"""A good benchmark file with one thing wrong in it, many times: what a reader makes of that is figures or words.

Contains the mutations and the check; the files are the tests' own.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Given, Reader

WRONG: tuple[Any, ...] = (
    None, "", "words", "1,5", "12", True, -1, 0, 0.5, [], [1], {}, {"a": [None]}, math.nan, math.inf, 1e308, 10**400, -1e-9,
)  # fmt: skip
DELETED = object()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything below a value, branches too."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, one in inner:
        found += places(one, (*path, key))
    return found


def mutated(value: Any, random_source: random.Random) -> Any:
    """A copy in which one thing is deleted or wrong."""
    made = copy.deepcopy(value)
    *way, last = random_source.choice(places(made))
    around = made
    for key in way:
        around = around[key]
    wrong = random_source.choice((DELETED, *WRONG))
    if wrong is DELETED:
        del around[last]
    else:
        around[last] = wrong
    return made


def unsound(cell: Cell) -> list[str]:
    """The figures of a cell that are neither None nor finite and 0 or more."""
    found = []
    for one in fields(Cell):
        value = getattr(cell, one.name)
        if isinstance(value, float | int) and not isinstance(value, bool) and not (math.isfinite(value) and value >= 0):
            found.append(f"{one.name}={value}")
    return found


def faults_of(
    reader: Reader, value: Any, *, times: int = 400, write: Callable[[Any], str] = json.dumps, name: str = "it.json"
) -> list[str]:
    """What went wrong over many mutations: unsound figures. Anything raised that is no SweepError comes through."""
    random_source = random.Random(20261129)
    found: list[str] = []
    for _ in range(times):
        document = Document.of_bytes(write(mutated(value, random_source)).encode(), name)
        try:
            if reader.recognises(document):
                found += [fault for cell in reader.read(document, Given("one", "one")).cells for fault in unsound(cell)]
        except SweepError as error:
            found += [] if error.file == name else [f"an error without its file: {error}"]
    return found
