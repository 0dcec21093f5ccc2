"""What every hand-made table has in common, whatever it is written in: names of columns, rows to cells, plausibility.

Contains no file format: CSV, Markdown and YAML bring names and texts here. Empty fields were not measured: they are
missing, never 0. What cannot be right is kept, flagged and told, and carries no verdict (`inconsistent_table`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opmon.core.cells import DECODE_ONLY_METHODS, Cell
from opmon.core.names import escaped, quoted
from opmon.errors import SweepError
from opmon.sweeps.columns import (
    AMBIGUOUS,
    COLUMNS,
    known_name,
    plain_name,
    refuse_beyond,
)
from opmon.sweeps.methods import AGGREGATE_OVER_CONCURRENCY, MEAN, known_method
from opmon.sweeps.numbers import PLAIN_STYLE, Style, Unreadable, read_count, read_number, read_share, style_of
from opmon.sweeps.reading import NoCell

SPEEDS = ("aggregate_tok_s", "per_stream_tok_s", "decode_tok_s")
NUMBERS: dict[Callable[[str], object], Callable[[str, Style], object]] = {
    read_number: read_number,
    read_count: read_count,
    read_share: read_share,
}
"""How a column of numbers is read in the style of its table."""
REQUEST_RATES = frozenset(
    ("request_rate", "rate", "qps", "rps", "req_s_target", "target_req_s", "target_qps", "target_rps", "target_rate")
)
MOST_ROWS = 10_000
MOST_HEADER = 200
UNKNOWN_WORDS = ("", "-", "–", "—", "n/a", "na", "null", "none", "?", "~")
# What programs write where a computation had nothing to work on: missing too, but nobody said so on purpose.
_NO_NUMBER_WORDS = ("nan", "+nan", "-nan", ".nan")
_UNLIMITED_WORDS = ("inf", "infinity", "unlimited", ".inf", "∞")
_REPEAT = re.compile(r"(run|rep|repeat)?[ _#-]*\d{1,3}", re.IGNORECASE | re.ASCII)


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
    style: Style = PLAIN_STYLE
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
    if "concurrency" not in names and not any(plain_name(name) in REQUEST_RATES for name in extra):
        message = "the table has no column `concurrency` (what the clients held in flight)"
        raise NoCell(message, file=setting.file_name, row=row)
    if not names & set(SPEEDS):
        message = f"the table has no speed: none of the columns {', '.join(SPEEDS)}"
        raise NoCell(message, file=setting.file_name, row=row)
    if "config" not in names and setting.configuration is None:
        message = "the table has no column `config`; add it, or say which configuration this is (--config)"
        raise SweepError(message, file=setting.file_name, row=row)


def style_of_rows(header: Header, rows: Iterable[Sequence[str]], *, takes_decimal_comma: bool = False) -> Style:
    """What the numbers in the known columns of a table show of its decimal mark."""
    places = [place for place, name in header.known.items() if is_number(name)]
    texts = (fields[place] for fields in rows for place in places if place < len(fields))
    return style_of(texts, takes_decimal_comma=takes_decimal_comma)


def is_number(name: str) -> bool:
    """Whether a known column holds numbers."""
    return COLUMNS[name].read in NUMBERS


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
    extra = dict(extra)
    for name, text in known.items():
        word = text.strip().lower()
        if name == "run" and _REPEAT.fullmatch(word):
            extra[name] = text
            setting.notes.append("the column run numbers repeats, and is taken for no session")
        elif word in _NO_NUMBER_WORDS:
            setting.notes.append(f"row {row}: {name} is {word}, taken as not measured")
        elif name == "concurrency" and word in _UNLIMITED_WORDS:
            values["concurrency_source"] = "unlimited"
        elif word not in UNKNOWN_WORDS:
            values[COLUMNS[name].field] = _value(text, row, name, setting)
    kept = {name: escaped(text.strip()) for name, text in extra.items() if text.strip()}
    return _cell(values, kept, row, setting)


def _value(text: str, row: int, name: str, setting: Setting) -> object:
    """What stands in a field, in the unit of its cell."""
    column = COLUMNS[name]
    try:
        read = NUMBERS.get(column.read)
        value = column.read(text) if read is None else read(text, setting.style)
        refuse_beyond(text, value, column)
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
    _place_per_stream(values, row, setting)
    _place_open_load(values, extra, row, setting)
    flags = _place_failures(values)
    if "concurrency" in values:
        values.setdefault("load_mode", "closed")
    elif "concurrency_source" not in values:
        values["concurrency_source"] = "unknown"
        note = "the concurrency is not known, so the cell is kept and compared with no other"
        setting.notes.append(f"row {row}: {note}")
    return Cell(**values, source_file=setting.file_name, source_row=row, flags=flags, extra=extra)


def _place_per_stream(values: dict[str, Any], row: int, setting: Setting) -> None:
    """A per-stream column that is decode-only moves to the decode speed; aggregate / concurrency is nobody's speed.
    Raises SweepError for a method that is not known."""
    if "per_stream_method" not in values:
        return
    try:
        method = values["per_stream_method"] = known_method(values["per_stream_method"])
    except Unreadable as error:
        raise SweepError(str(error), file=setting.file_name, row=row, field="per_stream_method") from error
    if "per_stream" not in values:
        return
    if method in DECODE_ONLY_METHODS:
        values.setdefault("decode", values.pop("per_stream"))
        values.pop("per_stream", None)
        setting.notes.append(f"row {row}: the per-stream speed is decode-only and is kept as decode speed")
    elif method == AGGREGATE_OVER_CONCURRENCY:
        del values["per_stream"]
        setting.notes.append(f"row {row}: aggregate / concurrency is not a per-stream speed and is left out")
    elif method == MEAN:
        setting.notes.append(f"row {row}: the per-stream speed is a mean over requests and no median")


def _place_open_load(values: dict[str, Any], extra: dict[str, str], row: int, setting: Setting) -> None:
    """A finite request rate paces the clients, and what is called concurrency is only its limit: no level. A row that
    says `load_mode` closed keeps its own. Raises SweepError for a rate that is no number."""
    unpaced = ("0", *UNKNOWN_WORDS, *_NO_NUMBER_WORDS, *_UNLIMITED_WORDS)
    rates = {name: text.strip().lower() for name, text in extra.items() if plain_name(name) in REQUEST_RATES}
    name, word = next(((name, word) for name, word in rates.items() if word not in unpaced), ("", ""))
    if not name or values.get("load_mode"):
        return
    try:
        rate = read_number(word, setting.style)
    except Unreadable as error:
        raise SweepError(f"{error}; write a rate or inf", file=setting.file_name, row=row, field=name) from error
    if not rate:
        return
    values["load_mode"] = "open"
    limit = values.pop("concurrency", None)
    if limit is None:
        return
    values["concurrency_source"] = "unknown"
    extra["max_concurrency"] = f"{limit:g}"
    words = (
        f"{quoted(name)} {rate:g} paces the requests, so {limit:g} is their limit and not what was in flight; if the rate"
        " was measured, call it requests_per_second"
    )
    setting.notes.append(f"row {row}: {words}")


def _place_failures(values: dict[str, Any]) -> tuple[str, ...]:
    """The flags of a row where requests failed. A share becomes a number where the number of requests is stated."""
    failed_share, success_share = values.pop("failure_share", None), values.pop("success_share", None)
    share = failed_share if failed_share is not None else None if success_share is None else 1 - success_share
    requests = values.get("completed_requests")
    if share == 0:
        values.setdefault("failed_requests", 0)
    elif share and requests:
        values.setdefault("failed_requests", max(1, round(share * requests)))
    return ("failed_requests",) if share or values.get("failed_requests") else ()
