"""Reads hand-made tables out of Markdown: pipe tables with any text around them, as in a README or an issue.

Contains finding the tables and their fields; what a row means is `rows`. A table that is no sweep is passed over, and
told; one that is one but cannot be read is a SweepError that names line and column.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from opmon.core.cells import Cell
from opmon.core.names import MOST_CHARACTERS, escaped, quoted
from opmon.errors import SweepError
from opmon.sweeps.columns import AMBIGUOUS, known_name, plain_name
from opmon.sweeps.document import Document
from opmon.sweeps.headings import Named, Path, Untold, named_by
from opmon.sweeps.plausible import settled
from opmon.sweeps.reading import Given, Read, Reader
from opmon.sweeps.rows import SPEEDS, Header, Setting, check_columns, read_fields, read_header, style_of_rows
from opmon.sweeps.table import refuse_too_many

MOST_LOOKED_AT = 4 * 1024 * 1024
MOST_TABLES = 1_000
LONGEST_HEADING = 500
LEVEL_OF_BOLD = 7
LONGEST_LINE = 20_000
_ALIGNMENT = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_BOLD_HEADING = re.compile(r"(\*\*|__)(.+?)\1:?$")
_QUOTE = re.compile(r"^\s*(>\s?)*")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_PIPE = re.compile(r"(?<!\\)\|")
_MARKS = re.compile(r"[*`]+|(?<!\w)__|__(?!\w)")


@dataclass(frozen=True, slots=True)
class _Table:
    """A pipe table: its header's line, the headings above it from the outermost, and its rows with their lines."""

    line: int
    headings: Path
    header: list[str]
    rows: list[tuple[int, list[str]]]

    @property
    def is_sweep(self) -> bool:
        """Whether it says a concurrency and something that may be a speed, known or to be asked about."""
        known = {known_name(field) for field in self.header}
        has_speed = bool(known & set(SPEEDS)) or any(plain_name(field) in AMBIGUOUS for field in self.header)
        return has_speed and "concurrency" in known


def read_markdown(text: str, file_name: str, given: Given) -> Read:
    """The cells of all tables that are sweeps. Raises SweepError where there is none, and for a fault in one.

    Tables without a column `config` take configuration and content from the headings above them, where these tell the
    tables apart; else from what was given.
    """
    tables = list(_tables(text))
    sweeps = [table for table in tables if table.is_sweep]
    if not sweeps:
        message = "no table in it has a column `concurrency` and a speed (aggregate_tok_s, per_stream_tok_s, ...)"
        raise SweepError(message, file=file_name)
    refuse_too_many(sum(len(table.rows) for table in sweeps), file_name)
    setting = Setting(file_name, given.configuration, given.content)
    skipped = [str(table.line) for table in tables if not table.is_sweep]
    if skipped:
        setting.notes.append(f"tables without a concurrency and a speed, passed over: in line {', '.join(skipped)}")
    settings = _settings(sweeps, setting)
    cells = [cell for table, own in zip(sweeps, settings, strict=True) for cell in _cells(table, own)]
    if not cells:
        raise SweepError("the table has a header and no rows", file=file_name)
    return Read(settled(cells, setting.notes), tuple(dict.fromkeys(setting.notes)))


def _settings(sweeps: list[_Table], setting: Setting) -> list[Setting]:
    """The setting of each table, with what the headings above it name. Raises SweepError where that cannot be told."""
    bare = [table for table in sweeps if "config" not in {known_name(field) for field in table.header}]
    if setting.configuration is not None or len(bare) < 2:
        return [setting] * len(sweeps)
    try:
        names = dict(zip([table.line for table in bare], named_by([table.headings for table in bare]), strict=True))
    except Untold as error:
        message = (
            "the headings above the tables may name configurations or contents, and it cannot be told which; add a"
            " column `config`"
        )
        raise SweepError(message, file=setting.file_name, row=bare[0].line) from error
    return [_named(table, names.get(table.line, Named()), setting) for table in sweeps]


def _named(table: _Table, named: Named, setting: Setting) -> Setting:
    """The setting with what the headings name. Raises SweepError where a heading stands against a column `content`."""
    if named.configuration is None:
        return setting
    setting.notes.append(f"line {table.line}: the configuration {named.configuration!r} is a heading above the table")
    if named.content is None:
        return replace(setting, configuration=named.configuration)
    if "content" in {known_name(field) for field in table.header}:
        message = f"the heading {quoted(named.content)} and the column `content` both tell what was asked; add a column `config`"
        raise SweepError(message, file=setting.file_name, row=table.line)
    setting.notes.append(f"line {table.line}: the content {named.content!r} is a heading above the table")
    return replace(setting, configuration=named.configuration, content=named.content)


def _cells(table: _Table, setting: Setting) -> Iterator[Cell]:
    header = read_header(table.header, setting.file_name, table.line)
    check_columns(set(header.known.values()), set(header.extra.values()), setting, table.line)
    if header.extra:
        setting.notes.append(f"columns kept but not used: {', '.join(header.extra.values())}")
    setting = replace(setting, style=style_of_rows(header, (fields for _, fields in table.rows)))
    for line, fields in table.rows:
        yield read_fields(_filled(fields, header), line, header, setting)


def _filled(fields: list[str], header: Header) -> list[str]:
    """A row may leave out what it does not fill at its end."""
    return fields + [""] * (header.width - len(fields))


# --- finding tables -----------------------------------------------------------------------------------------------


def _tables(text: str) -> Iterator[_Table]:
    """Every pipe table: a header, a line of dashes with as many columns, and rows until a line without a pipe."""
    lines = [_QUOTE.sub("", line) if len(line) <= LONGEST_LINE else "" for line in re.split(r"\r\n|\r|\n", text)]
    headings: list[tuple[int, str]] = []
    number, found = 0, 0
    while number < len(lines) - 1:
        _put_heading(headings, lines[number])
        fields = _fields(lines[number])
        if not _is_alignment(lines[number + 1], len(fields)) or "|" not in lines[number]:
            number += 1
            continue
        first, number, rows = number + 1, number + 2, []
        while number < len(lines) and "|" in lines[number]:
            row = _fields(lines[number])
            if any(row) and not _is_alignment(lines[number], len(row)):
                rows.append((number + 1, row))
            number += 1
        found += 1
        if found > MOST_TABLES:
            return
        yield _Table(first, tuple(text for _, text in headings), fields, rows)


def _is_alignment(line: str, columns: int) -> bool:
    stripped = line.strip()
    return "-" in stripped and bool(_ALIGNMENT.fullmatch(stripped)) and len(_fields(stripped)) == columns


def _fields(line: str) -> list[str]:
    stripped = line.strip()
    inner = stripped.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [_text(field) for field in _PIPE.split(inner)]


def _text(field: str) -> str:
    """A field without what makes it bold, code or a link."""
    plain = _LINK.sub(r"\1", field.replace("\\|", "|"))
    plain = re.sub(r"<br\s*/?>", " ", plain, flags=re.IGNORECASE)
    return html.unescape(_MARKS.sub("", plain)).strip()


def _put_heading(headings: list[tuple[int, str]], line: str) -> None:
    """Puts a heading in place of those of its own level and below; a line in bold is below all others."""
    if len(line) > LONGEST_HEADING:
        return
    found = _HEADING.match(line) or _BOLD_HEADING.match(line.strip())
    text = escaped(_text(found[2]))[:MOST_CHARACTERS].strip(" :") if found else ""
    if not found or not text:
        return
    level = len(found[1]) if found[1].startswith("#") else LEVEL_OF_BOLD
    while headings and headings[-1][0] >= level:
        headings.pop()
    headings.append((level, text))


def _recognises(document: Document) -> bool:
    if document.is_json or "|" not in document.head:
        return False
    text = document.head
    if document.size_bytes <= MOST_LOOKED_AT and not document.is_packed:
        try:
            text = document.text
        except SweepError:
            return False
    return any(table.is_sweep for table in _tables(text))


def _read(document: Document, given: Given) -> Read:
    return read_markdown(document.text, document.file_name, given)


MARKDOWN = Reader(
    "markdown",
    1,
    "Markdown with tables (columns config, content, concurrency, aggregate_tok_s, per_stream_tok_s, ...)",
    _recognises,
    _read,
    is_by_hand=True,
)
