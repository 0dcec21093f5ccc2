"""Reads a hand-made table: CSV or TSV with a header, a row per cell.

Contains the reading of lines and fields; what a row means is `rows`. A fault of the whole file is a SweepError that
names the column; a fault of one value is one that names row and field.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from io import StringIO

from opmon.errors import SweepError
from opmon.sweeps.columns import known_name
from opmon.sweeps.document import Document
from opmon.sweeps.plausible import settled
from opmon.sweeps.reading import Given, Read, Reader
from opmon.sweeps.rows import MOST_ROWS, SPEEDS, Setting, check_columns, read_fields, read_header, style_of_rows

DELIMITERS = (",", ";", "\t")
_CSV_WORDS = {"unexpected end of data": 'a quote (") is opened and never closed'}


def looks_like_table(text: str) -> bool:
    """Whether the first line that is no comment is a header with a speed or a concurrency in it."""
    line = next(_numbered(text), (0, ""))[1]
    try:
        fields = next(csv.reader([line], delimiter=_delimiter(line)), [])
    except csv.Error:
        return False
    return any(known_name(field) in (*SPEEDS, "concurrency") for field in fields)


def read_table(text: str, file_name: str, *, configuration: str | None = None, content: str | None = None) -> Read:
    """Reads a table. `configuration` and `content` stand in where the table has no such column. Raises SweepError."""
    lines = list(_numbered(text))
    if not lines:
        raise SweepError("the file has no header line", file=file_name)
    refuse_too_many(len(lines) - 1, file_name)
    delimiter = _delimiter(lines[0][1])
    rows = _rows(text, delimiter, file_name)
    header = read_header(next(rows, (0, []))[1], file_name)
    body = list(rows)
    # A table that separates its columns by `;` may write decimal commas.
    style = style_of_rows(header, (fields for _, fields in body), takes_decimal_comma=delimiter == ";")
    setting = Setting(file_name, configuration, content, style)
    check_columns(set(header.known.values()), set(header.extra.values()), setting)
    cells = [read_fields(fields, number, header, setting) for number, fields in body]
    if not cells:
        raise SweepError("the file has a header and no rows", file=file_name)
    if header.extra:
        setting.notes.append(f"columns kept but not used: {', '.join(header.extra.values())}")
    return Read(settled(cells, setting.notes), tuple(dict.fromkeys(setting.notes)))


def refuse_too_many(rows: int, file_name: str) -> None:
    """Raises SweepError for more rows than a sweep has cells."""
    if rows > MOST_ROWS:
        message = (
            f"the file has {rows} rows, and a sweep has at most {MOST_ROWS}: one row is one measured cell; a table of"
            " single requests has to be summed up first"
        )
        raise SweepError(message, file=file_name)


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
