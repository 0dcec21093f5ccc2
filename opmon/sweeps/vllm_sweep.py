"""The `summary.csv` of `vllm bench sweep`: a row a run, the same records as its `run=N.json` and `summary.json`.

Contains how a table of records became text, so that a run gives the same cell from each of the three. Lists stand in it
as Python writes them; they are read as numbers, never evaluated.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import chain
from typing import Any

from opmon.errors import SweepError
from opmon.sweeps.document import GAP_SUMS, GAPS, LARGEST_TEXT_BYTES, Document
from opmon.sweeps.reading import Given, Read
from opmon.sweeps.streaming import gap_sum
from opmon.sweeps.vllm_names import RUN_NUMBER
from opmon.sweeps.vllm_record import record_cell
from opmon.sweeps.vllm_runs import read_records

_NEEDED = frozenset((RUN_NUMBER, "output_throughput", "request_throughput", "duration"))
_LISTS = frozenset(("latencies", "output_lens", "ttfts", GAPS))
_NO_JSON_NUMBER = re.compile(r"\b(?:nan|inf|None)\b")
MOST_ROWS = 10_000


def recognises_summary(document: Document) -> bool:
    """Whether the first line is the header of such a table."""
    if document.is_json or RUN_NUMBER not in document.head:
        return False
    return set(next(csv.reader([document.head.split("\n", 1)[0].strip("\r")]), [])) >= _NEEDED


def read_summary(document: Document, given: Given) -> Read:
    """Every row as a cell. Raises SweepError."""
    return read_records(list(_records(document)), document, given, record_cell)


def _records(document: Document) -> Iterator[Any]:
    """Each row as the record that it was made of; what is empty was null."""
    rows = _rows(document)
    header = next(rows, [])
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if number > MOST_ROWS:
            raise SweepError(f"the table has more than the {MOST_ROWS:,} runs that are read", file=document.file_name)
        if len(row) != len(header):
            message = f"the row has {len(row)} fields and the header {len(header)}"
            raise SweepError(message, file=document.file_name, row=number)
        yield dict(chain.from_iterable(_field(name, text.strip()) for name, text in zip(header, row, strict=True)))


def _rows(document: Document) -> Iterator[list[str]]:
    """The rows of the file. A run's latencies are one field, which may be longer than tables' fields are."""
    allowed = csv.field_size_limit(LARGEST_TEXT_BYTES)
    try:
        yield from list(csv.reader(StringIO(document.text), strict=True))
    except csv.Error as error:
        raise SweepError(f"a row cannot be read: {error}", file=document.file_name) from error
    finally:
        csv.field_size_limit(allowed)


def _field(name: str, text: str) -> list[tuple[str, Any]]:
    if not name or text == "":  # the first column is the table's own index
        return [(name, None)] if name else []
    if name not in _LISTS:
        return [(name, text)]
    try:
        values = json.loads(_NO_JSON_NUMBER.sub("null", text))
    except (ValueError, RecursionError):
        return []
    if name == GAPS:
        return [(GAP_SUMS, [gap_sum(one) if isinstance(one, list) else None for one in values])] if values else []
    return [(name, values)]
