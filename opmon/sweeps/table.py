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
from opmon.core.names import escaped
from opmon.errors import SweepError
from opmon.sweeps.columns import (
    AMBIGUOUS,
    COLUMNS,
    Unreadable,
    known_name,
    plain_name,
    read_number,
    refuse_too_much,
)
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Given, Read, Reader

DELIMITERS = (",", ";", "\t")
_UNKNOWN_WORDS = ("", "-", "–", "n/a", "na", "null", "none", "?")
# What programs write where a computation had nothing to work on: missing too, but nobody said so on purpose.
_NO_NUMBER_WORDS = ("nan", "+nan", "-nan")
MOST_ROWS = 10_000
MOST_HEADER = 200
_UNLIMITED_WORDS = ("inf", "infinity", "unlimited")
_CSV_WORDS = {"unexpected end of data": 'a quote (") is opened and never closed'}
_SPEEDS = ("aggregate_tok_s", "per_stream_tok_s", "decode_tok_s")


@dataclass(frozen=True, slots=True)
class _Header:
    """Which field of a row is which column; the rest is kept by its own name."""

    known: dict[int, str]
    extra: dict[int, str]
    delimiter: str
    decimal_comma: bool


def looks_like_table(text: str) -> bool:
    """Whether the first line that is no comment is a header with a speed or a concurrency in it."""
    line = next(_numbered(text), (0, ""))[1]
    try:
        fields = next(csv.reader([line], delimiter=_delimiter(line)), [])
    except csv.Error:
        return False
    return any(known_name(field) in (*_SPEEDS, "concurrency") for field in fields)


def read_table(text: str, file_name: str, *, configuration: str | None = None, content: str | None = None) -> Read:
    """Reads a table. `configuration` and `content` stand in where the table has no such column. Raises SweepError."""
    lines = list(_numbered(text))
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
    rows = _rows(text, _delimiter(lines[0][1]), file_name)
    header = _read_header(next(rows, (0, []))[1], file_name, _delimiter(lines[0][1]), decimal_comma=decimal_comma)
    _check_header(header, file_name, configuration)
    notes: list[str] = []
    cells = [_read_row(fields, number, header, file_name, (configuration, content), notes) for number, fields in rows]
    if not cells:
        raise SweepError("the file has a header and no rows", file=file_name)
    if header.extra:
        notes.append(f"columns kept but not used: {', '.join(header.extra.values())}")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _lines(text: str) -> list[str]:
    """The lines as every program sees them. `str.splitlines` would end them at form feeds and separators too, which
    then could not be refused in a name."""
    return re.split(r"\r\n|\r|\n", text)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines that are neither empty nor a comment, with their numbers."""
    for number, line in enumerate(_lines(text), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _delimiter(header: str) -> str:
    return max(DELIMITERS, key=header.count)


def _rows(text: str, delimiter: str, file_name: str) -> Iterator[tuple[int, list[str]]]:
    """Header and rows, each with the line that it begins in. Comments are blanked so that line numbers stay right.

    Raises SweepError for a quote that is never closed: what follows it would be taken for one field.
    """
    blanked = "\n".join("" if line.lstrip().startswith("#") else line for line in _lines(text))
    reader = csv.reader(StringIO(blanked), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = f"the row cannot be read: {_CSV_WORDS.get(str(error), str(error))}"
            raise SweepError(message, file=file_name, row=number) from error
        if any(field.strip() for field in fields):
            yield number, fields


def _read_header(fields: Sequence[str], file_name: str, delimiter: str, *, decimal_comma: bool) -> _Header:
    known: dict[int, str] = {}
    extra: dict[int, str] = {}
    for place, field in enumerate(fields):
        name = known_name(field)
        if name is None:
            if plain_name(field) in AMBIGUOUS:
                raise SweepError(
                    f"what does this column hold: {AMBIGUOUS[plain_name(field)]}", file=file_name, field=field
                )
            extra[place] = escaped(field.strip().strip("\ufeff"))[:MOST_HEADER] or f"column {place + 1}"
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
    width = len(header.known) + len(header.extra)
    if len(fields) != width:
        message = f"the row has {len(fields)} fields and the header {width}"
        raise SweepError(message, file=file_name, row=number)
    values: dict[str, Any] = {}
    for place, name in header.known.items():
        word = fields[place].strip().lower()
        if word in _NO_NUMBER_WORDS:
            notes.append(f"row {number}: {name} is {word}, taken as not measured")
        elif name == "concurrency" and word in _UNLIMITED_WORDS:
            values["concurrency_source"] = "unlimited"
        elif word not in _UNKNOWN_WORDS:
            values[COLUMNS[name].field] = _value(fields[place], number, name, header, file_name)
    extra = {name: escaped(fields[place].strip()) for place, name in header.extra.items() if fields[place].strip()}
    return _cell(values, extra, number, file_name, defaults, notes)


def _value(text: str, number: int, name: str, header: _Header, file_name: str) -> object:
    """What stands in a field, in the unit of its cell."""
    column = COLUMNS[name]
    try:
        value = (
            read_number(text, decimal_comma=header.decimal_comma) if column.read is read_number else column.read(text)
        )
        refuse_too_much(text, value, column.most)
    except Unreadable as error:
        raise SweepError(str(error), file=file_name, row=number, field=name) from error
    return value * column.factor if isinstance(value, float) and column.factor != 1 else value


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
    elif "concurrency_source" not in values:
        values["concurrency_source"] = "unknown"
        notes.append(f"row {number}: the concurrency is not known, so the cell is kept and compared with no other")
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


def _recognises(document: Document) -> bool:
    return not document.is_json and looks_like_table(document.head)


def _read(document: Document, given: Given) -> Read:
    return read_table(document.text, document.file_name, configuration=given.configuration, content=given.content)


TABLE = Reader(
    "table",
    1,
    "a CSV or TSV table with a header (columns config, content, concurrency, aggregate_tok_s, per_stream_tok_s, ...)",
    _recognises,
    _read,
    is_by_hand=True,
)
