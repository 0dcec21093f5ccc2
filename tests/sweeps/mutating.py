"""Good files with one leaf that is wrong, and what a reader may make of them: sound cells, or a refusal in words."""

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

ABSENT = object()
WRONG: tuple[Any, ...] = (
    ABSENT,
    None,
    "",
    "text",
    "1,5",
    "12",
    -1,
    0,
    1e308,
    10**400,
    math.nan,
    math.inf,
    [],
    [1, 2],
    {},
    True,
)


def mutations(good: Any, count: int, seed: int = 1) -> Iterator[Any]:
    """Copies of a JSON value with one random part replaced or left out."""
    rng = random.Random(seed)
    for _ in range(count):
        made = copy.deepcopy(good)
        around, key = rng.choice(list(_places(made)))
        wrong = rng.choice(WRONG)
        if wrong is ABSENT:
            del around[key]
        else:
            around[key] = copy.deepcopy(wrong)
        yield made


def outcomes(values: Iterator[Any], file_name: str, reader: str, beside: dict[str, bytes] | None = None) -> set[str]:
    """`read` and `refused`, whichever happened; whatever else is raised is raised here, and an unsound cell fails."""
    seen = set()
    for value in values:
        document = Document.of_bytes(json.dumps(value).encode(), file_name, beside)
        try:
            read = read_document(document, reader=reader, configuration="one")
        except SweepError:
            seen.add("refused")
            continue
        seen.add("read")
        for cell in read.cells:
            assert_sound(cell)
    return seen


def assert_sound(cell: Cell) -> None:
    """Every figure is finite and not negative, or missing."""
    for field in fields(cell):
        value = getattr(cell, field.name)
        if isinstance(value, float):
            assert math.isfinite(value), (field.name, value)
            assert value >= 0, (field.name, value)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in pairs:
        yield value, key
        yield from _places(part)
