"""What every hand-made table has in common, whatever it is written in: names of columns, rows to cells, plausibility.

Contains no file format: CSV, Markdown and YAML bring names and texts here. Empty fields were not measured: they are
missing, never 0. What cannot be right is kept, flagged and told, and carries no verdict (`inconsistent_table`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opmon.core.cells import DECODE_ONLY_METHODS, INCONSISTENT_TABLE, Cell, is_end_to_end
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
from opmon.sweeps.reading import NoCell

SPEEDS = ("aggregate_tok_s", "per_stream_tok_s", "decode_tok_s")
REQUEST_RATE = "request_rate"
MOST_ROWS = 10_000
MOST_HEADER = 200
UNKNOWN_WORDS = ("", "-", "–", "—", "n/a", "na", "null", "none", "?", "~")
# What programs write where a computation had nothing to work on: missing too, but nobody said so on purpose.
_NO_NUMBER_WORDS = ("nan", "+nan", "-nan", ".nan")
_UNLIMITED_WORDS = ("inf", "infinity", "unlimited", ".inf", "∞")
FEWEST_OF_ALL_STREAMS, MOST_OF_ALL_STREAMS = 0.5, 1.25
"""Aggregate / (concurrency x per-stream): ramps pull it down, skewed requests push it up, and neither goes further."""
SAME_AT_ONE_RATIO = 0.15
LEAST_OF_ONE_STREAM = 0.8


@dataclass(frozen=True, slots=True)
class Header:
    """Which field of a row is which column, by its place; the rest is kept by its own name."""

    known: Mapping[int, str]
    extra: Mapping[int, str]

    @property
    def width(self) -> int:
        """How many fields a row has."""
        return len(self.known) + len(self.extra)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all rows of a file. `notes` are for a person and grow with the reading."""

    file_name: str
    configuration: str | None = None
    content: str | None = None
    decimal_comma: bool = False
    notes: list[str] = field(default_factory=list)


def read_header(fields: Sequence[str], file_name: str, row: int | None = None) -> Header:
    """The names of a table's columns. Raises SweepError for one that may mean several things, and for two that mean
    the same."""
    known: dict[int, str] = {}
    extra: dict[int, str] = {}
    for place, text in enumerate(fields):
        name = known_column(text, file_name, row)
        if name is None:
            extra[place] = escaped(text.strip().strip("\ufeff"))[:MOST_HEADER] or f"column {place + 1}"
        elif any(COLUMNS[name].field == COLUMNS[other].field for other in known.values()):
            raise SweepError(f"two columns mean {name}", file=file_name, row=row, field=text)
        else:
            known[place] = name
    return Header(known, extra)


def known_column(text: str, file_name: str, row: int | None = None) -> str | None:
    """The column that a name means; None for one that opmon does not know. Raises SweepError where it has to be asked."""
    name = known_name(text)
    if name is None and (question := AMBIGUOUS.get(plain_name(text))):
        raise SweepError(f"what does this column hold: {question}", file=file_name, row=row, field=text)
    return name


def check_columns(names: set[str], extra: set[str], setting: Setting, row: int | None = None) -> None:
    """Raises NoCell for a table without a concurrency or a speed, SweepError for one without a configuration. `extra`: the names of columns that are not known."""
    if "concurrency" not in names and REQUEST_RATE not in {plain_name(name) for name in extra}:
        message = "the table has no column `concurrency` (what the clients held in flight)"
        raise NoCell(message, file=setting.file_name, row=row)
    if not names & set(SPEEDS):
        message = f"the table has no speed: none of the columns {', '.join(SPEEDS)}"
        raise NoCell(message, file=setting.file_name, row=row)
    if "config" not in names and setting.configuration is None:
        message = "the table has no column `config`; add it, or say which configuration this is (--config)"
        raise SweepError(message, file=setting.file_name, row=row)


def read_fields(fields: Sequence[str], row: int, header: Header, setting: Setting) -> Cell:
    """The cell of a row of a table. Raises SweepError naming row and field."""
    if len(fields) != header.width:
        message = f"the row has {len(fields)} fields and the header {header.width}"
        raise SweepError(message, file=setting.file_name, row=row)
    known = {name: fields[place] for place, name in header.known.items()}
    extra = {name: fields[place] for place, name in header.extra.items()}
    return read_cell(known, extra, row, setting)


def read_cell(known: Mapping[str, str], extra: Mapping[str, str], row: int, setting: Setting) -> Cell:
    """The cell that texts by column name make. Raises SweepError naming row and field."""
    values: dict[str, Any] = {}
    for name, text in known.items():
        word = text.strip().lower()
        if word in _NO_NUMBER_WORDS:
            setting.notes.append(f"row {row}: {name} is {word}, taken as not measured")
        elif name == "concurrency" and word in _UNLIMITED_WORDS:
            values["concurrency_source"] = "unlimited"
        elif word not in UNKNOWN_WORDS:
            values[COLUMNS[name].field] = _value(text, row, name, setting)
    kept = {name: escaped(text.strip()) for name, text in extra.items() if text.strip()}
    return _plausible(_cell(values, kept, row, setting), setting)


def _value(text: str, row: int, name: str, setting: Setting) -> object:
    """What stands in a field, in the unit of its cell."""
    column = COLUMNS[name]
    try:
        value = (
            read_number(text, decimal_comma=setting.decimal_comma) if column.read is read_number else column.read(text)
        )
        refuse_too_much(text, value, column.most)
    except Unreadable as error:
        raise SweepError(str(error), file=setting.file_name, row=row, field=name) from error
    return value * column.factor if isinstance(value, float) and column.factor != 1 else value


def _cell(values: dict[str, Any], extra: dict[str, str], row: int, setting: Setting) -> Cell:
    values.setdefault("configuration", setting.configuration or "")
    values.setdefault("content", setting.content or "")
    if not values["configuration"]:
        message = "the row does not say which configuration it is"
        raise SweepError(message, file=setting.file_name, row=row, field="config")
    if values.get("concurrency") == 0:
        raise SweepError("a concurrency of 0 measures nothing", file=setting.file_name, row=row, field="concurrency")
    for speed in ("aggregate", "per_stream", "decode", "tpot", "ttft"):
        if values.get(speed) == 0:  # tools write 0 where every request failed or nothing was measured
            del values[speed]
            setting.notes.append(f"row {row}: {speed} is 0, taken as not measured")
    _place_per_stream(values, row, setting.notes)
    if "concurrency" in values:
        values.setdefault("load_mode", "closed")
    elif "concurrency_source" not in values:
        values["concurrency_source"] = "unknown"
        if any(plain_name(name) == REQUEST_RATE for name in extra):
            values.setdefault("load_mode", "open")
        note = "the concurrency is not known, so the cell is kept and compared with no other"
        setting.notes.append(f"row {row}: {note}")
    flags = ("failed_requests",) if values.get("failed_requests") else ()
    return Cell(**values, source_file=setting.file_name, source_row=row, flags=flags, extra=extra)


def _place_per_stream(values: dict[str, Any], row: int, notes: list[str]) -> None:
    """A per-stream column that is decode-only moves to the decode speed; aggregate / concurrency is nobody's speed."""
    method = values.get("per_stream_method")
    if method is None or "per_stream" not in values:
        return
    method = values["per_stream_method"] = method.lower().removeprefix("declared:")
    if method in DECODE_ONLY_METHODS:
        values.setdefault("decode", values.pop("per_stream"))
        values.pop("per_stream", None)
        notes.append(f"row {row}: the per-stream speed is decode-only and is kept as decode speed")
    elif method in ("agg_over_conc", "aggregate_over_concurrency"):
        del values["per_stream"]
        notes.append(f"row {row}: aggregate / concurrency is not a per-stream speed and is left out")


# --- whether two columns can both be right ------------------------------------------------------------------------


def _plausible(cell: Cell, setting: Setting) -> Cell:
    """The cell, flagged where its aggregate and its per-stream speed cannot both be. What is only odd is told."""
    speed = cell.per_stream
    if not cell.concurrency or not cell.aggregate or not speed or not is_end_to_end(cell):
        return cell
    place = f"row {cell.source_row}: "
    figures = f"aggregate {cell.aggregate:g}, per-stream {speed:g} at concurrency {cell.concurrency:g}"
    share = cell.aggregate / (cell.concurrency * speed)
    if not FEWEST_OF_ALL_STREAMS <= share <= MOST_OF_ALL_STREAMS:
        words = (
            f"so many streams would make {cell.concurrency * speed:g}; one of the two counts something else, and the"
            " cell is kept without a verdict"
        )
        setting.notes.append(f"{place}{figures}: {words}")
        return replace(cell, flags=(*cell.flags, INCONSISTENT_TABLE))
    if cell.concurrency == 1 and abs(cell.aggregate / speed - 1) > SAME_AT_ONE_RATIO:
        words = (
            "at 1 they are the same but for the pauses between requests; is one of them without the first token"
            " (decode_tok_s)?"
        )
        setting.notes.append(f"{place}{figures}: {words}")
    elif cell.aggregate < LEAST_OF_ONE_STREAM * speed:
        setting.notes.append(f"{place}{figures}: all streams together are slower than one of them; check both columns")
    return cell
