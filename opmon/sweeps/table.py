"""Reads a hand-made table: CSV or TSV with a header, a row per cell.

Contains the reading of rows. A fault of the whole file is a SweepError that names the column; a fault of one value is
one that names row and field. Empty fields were not measured: they are missing, never 0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from opmon.core.cells import DECODE_ONLY_METHODS, Cell
from opmon.errors import SweepError
from opmon.sweeps.columns import AMBIGUOUS, COLUMNS, Unreadable, known_name, plain_name, read_number

READER, READER_VERSION = "table", 1
DELIMITERS = (",", ";", "\t")
_UNKNOWN_WORDS = ("", "-", "–", "n/a", "na", "nan", "null", "none", "?")
MOST_ROWS = 10_000
_UNLIMITED_WORDS = ("inf", "infinity", "unlimited")
_SPEEDS = ("aggregate_tok_s", "per_stream_tok_s", "decode_tok_s")


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of a table, and what has to be said about it."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    """Which field of a row is which column; the rest is kept by its own name."""

    known: dict[int, str]
    extra: dict[int, str]
    delimiter: str
    decimal_comma: bool


def looks_like_table(text: str) -> bool:
    """Whether the first line that is no comment is a header with a speed or a concurrency in it."""
    line = next(_lines(text), (0, ""))[1]
    return any(known_name(field) in (*_SPEEDS, "concurrency") for field in _fields(line, _delimiter(line)))


def read_table(text: str, file_name: str, *, configuration: str | None = None, content: str | None = None) -> Table:
    """Reads a table. `configuration` and `content` stand in where the table has no such column. Raises SweepError."""
    lines = list(_lines(text))
    if not lines:
        raise SweepError("the file has no header line", file=file_name)
    if len(lines) > MOST_ROWS + 1:
        message = (
            f"the file has {len(lines) - 1} rows, and a sweep has at most {MOST_ROWS}: one row is one measured cell;"
            " a table of single requests has to be summed up first"
        )
        raise SweepError(message, file=file_name)
    # A table that separates its columns by `;` may write decimal commas; one such number says that it does.
    decimal_comma = _delimiter(lines[0][1]) == ";" and any(re.search(r"\d,\d", line) for _, line in lines[1:])
    header = _read_header(lines[0][1], file_name, decimal_comma=decimal_comma)
    _check_header(header, file_name, configuration)
    notes: list[str] = []
    cells = [
        _read_row(fields, number, header, file_name, (configuration, content), notes)
        for number, fields in _rows(text, header.delimiter)
    ]
    if not cells:
        raise SweepError("the file has a header and no rows", file=file_name)
    if header.extra:
        notes.append(f"columns kept but not used: {', '.join(header.extra.values())}")
    return Table(tuple(cells), tuple(dict.fromkeys(notes)))


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor a comment, with their numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=header.count)


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header with the line they end in. Comments are blanked so that line numbers stay right."""
    blanked = "\n".join("" if line.lstrip().startswith("#") else line for line in text.splitlines())
    reader = csv.reader(StringIO(blanked), delimiter=delimiter)
    is_header = True
    for fields in reader:
        if not any(field.strip() for field in fields):
            continue
        if is_header:
            is_header = False
            continue
        yield reader.line_num, fields


def _read_header(line: str, file_name: str, *, decimal_comma: bool) -> _Header:
    known: dict[int, str] = {}
    extra: dict[int, str] = {}
    delimiter = _delimiter(line)
    for place, field in enumerate(_fields(line, delimiter)):
        name = known_name(field)
        if name is None:
            if plain_name(field) in AMBIGUOUS:
                raise SweepError(
                    f"what does this column hold: {AMBIGUOUS[plain_name(field)]}", file=file_name, field=field
                )
            extra[place] = field.strip().strip("\ufeff") or f"column {place + 1}"
        elif any(COLUMNS[name].field == COLUMNS[other].field for other in known.values()):
            raise SweepError(f"two columns mean {name}", file=file_name, field=field)
        else:
            known[place] = name
    return _Header(known, extra, delimiter, decimal_comma)


def _check_header(header: _Header, file_name: str, configuration: str | None) -> None:
    names = set(header.known.values())
    if "concurrency" not in names:
        raise SweepError("the table has no column `concurrency` (what the clients held in flight)", file=file_name)
    if not names & set(_SPEEDS):
        raise SweepError(f"the table has no speed: none of the columns {', '.join(_SPEEDS)}", file=file_name)
    if "config" not in names and configuration is None:
        message = "the table has no column `config`; add it, or say which configuration this is (--config)"
        raise SweepError(message, file=file_name)


def _read_row(
    fields: Sequence[str],
    number: int,
    header: _Header,
    file_name: str,
    defaults: tuple[str | None, str | None],
    notes: list[str],
) -> Cell:
    if len(fields) > len(header.known) + len(header.extra):
        message = f"the row has {len(fields)} fields and the header {len(header.known) + len(header.extra)}"
        raise SweepError(message, file=file_name, row=number)
    values: dict[str, Any] = {}
    for place, name in header.known.items():
        text = fields[place] if place < len(fields) else ""
        if text.strip().lower() in _UNKNOWN_WORDS:
            continue
        if name == "concurrency" and text.strip().lower() in _UNLIMITED_WORDS:
            values["concurrency_source"] = "unlimited"
            continue
        column = COLUMNS[name]
        try:
            value = (
                read_number(text, decimal_comma=header.decimal_comma)
                if column.read is read_number
                else column.read(text)
            )
        except Unreadable as error:
            raise SweepError(str(error), file=file_name, row=number, field=name) from error
        values[column.field] = value * column.factor if isinstance(value, float) and column.factor != 1 else value
    extra = {
        name: fields[place].strip()
        for place, name in header.extra.items()
        if place < len(fields) and fields[place].strip()
    }
    return _cell(values, extra, number, file_name, defaults, notes)


def _cell(
    values: dict[str, Any],
    extra: dict[str, str],
    number: int,
    file_name: str,
    defaults: tuple[str | None, str | None],
    notes: list[str],
) -> Cell:
    values.setdefault("configuration", defaults[0] or "")
    values.setdefault("content", defaults[1] or "")
    if not values["configuration"]:
        raise SweepError("the row does not say which configuration it is", file=file_name, row=number, field="config")
    if values.get("concurrency") == 0:
        raise SweepError("a concurrency of 0 measures nothing", file=file_name, row=number, field="concurrency")
    for speed in ("aggregate", "per_stream", "decode", "tpot", "ttft"):
        if values.get(speed) == 0:  # tools write 0 where every request failed or nothing was measured
            del values[speed]
            notes.append(f"row {number}: {speed} is 0, taken as not measured")
    _place_per_stream(values, number, notes)
    if "concurrency" in values:
        values.setdefault("load_mode", "closed")
    flags = ("failed_requests",) if values.get("failed_requests") else ()
    return Cell(**values, source_file=file_name, source_row=number, flags=flags, extra=extra)


def _place_per_stream(values: dict[str, Any], number: int, notes: list[str]) -> None:
    """A per-stream column that is decode-only moves to the decode speed; aggregate / concurrency is nobody's speed."""
    method = values.get("per_stream_method")
    if method is None or "per_stream" not in values:
        return
    method = values["per_stream_method"] = method.lower().removeprefix("declared:")
    if method in DECODE_ONLY_METHODS:
        values.setdefault("decode", values.pop("per_stream"))
        values.pop("per_stream", None)
        notes.append(f"row {number}: the per-stream speed is decode-only and is kept as decode speed")
    elif method in ("agg_over_conc", "aggregate_over_concurrency"):
        del values["per_stream"]
        notes.append(f"row {number}: aggregate / concurrency is not a per-stream speed and is left out")
