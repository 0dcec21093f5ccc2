"""Reads an occupancy that somebody made by hand or exported: a CSV `level,seconds`.

Contains the reading only. Faults are a ConfigError that names file, row and field.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from opmon.core.names import quoted
from opmon.errors import ConfigError
from opmon.sweeps.columns import plain_name
from opmon.sweeps.numbers import Unreadable, read_count, read_number

HIGHEST_LEVEL = 1_000_000
LARGEST_BYTES = 32 * 1024 * 1024
LONGEST_SECONDS = 100 * 366 * 86_400


def read_occupancy(data: bytes, file_name: str) -> dict[int, int]:
    """Milliseconds at each level, level 0 (idle) included where it is given. Raises ConfigError."""
    if len(data) > LARGEST_BYTES:
        raise ConfigError(f"{file_name}: is larger than the {LARGEST_BYTES:,} bytes that are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file_name}: is no UTF-8 text (byte {error.start})") from error
    rows = list(_rows(text, file_name))
    if not rows:
        raise ConfigError(f"{file_name}: is empty; expected a CSV with the columns level,seconds")
    names = [plain_name(field) for field in rows[0][1]]
    for needed in ("level", "seconds"):
        if names.count(needed) != 1:
            raise ConfigError(
                f"{file_name}: expected one column {needed!r} in the header, found {quoted(', '.join(names))}"
            )
    occupancy: dict[int, int] = {}
    for number, fields in rows[1:]:
        level, milliseconds = _row(fields, names, f"{file_name}, row {number}")
        if level in occupancy:
            raise ConfigError(f"{file_name}, row {number}: level {level} is given twice")
        occupancy[level] = milliseconds
    if not sum(occupancy.values()):
        raise ConfigError(f"{file_name}: has no time in it: the seconds of all levels are 0")
    return occupancy


def _rows(text: str, file_name: str) -> Iterator[tuple[int, list[str]]]:
    """Header and rows with their lines; blank lines and comments are left out."""
    lines = [line if not line.lstrip().startswith("#") else "" for line in text.splitlines()]
    header = next((line for line in lines if line.strip()), "")
    reader = csv.reader(StringIO("\n".join(lines)), delimiter=max((",", ";", "\t"), key=header.count), strict=True)
    try:
        yield from ((reader.line_num, fields) for fields in reader if any(field.strip() for field in fields))
    except csv.Error as error:
        raise ConfigError(f"{file_name}, row {reader.line_num}: cannot be read as CSV: {error}") from error


def _row(fields: list[str], names: list[str], place: str) -> tuple[int, int]:
    if len(fields) != len(names):
        raise ConfigError(f"{place}: has {len(fields)} fields, the header {len(names)}")
    by_name = dict(zip(names, fields, strict=True))
    try:
        level = read_count(by_name["level"])
    except Unreadable as error:
        raise ConfigError(f"{place}, field 'level': {error}") from error
    if level > HIGHEST_LEVEL:
        raise ConfigError(f"{place}, field 'level': {level:g} is more than any server runs at once")
    try:
        seconds = read_number(by_name["seconds"])
    except Unreadable as error:
        raise ConfigError(f"{place}, field 'seconds': {error}") from error
    if seconds > LONGEST_SECONDS:
        raise ConfigError(f"{place}, field 'seconds': {seconds:g} is more than 100 years")
    return level, round(seconds * 1000)
