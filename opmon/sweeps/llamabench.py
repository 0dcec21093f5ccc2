"""Reads what llama.cpp's `llama-bench` writes, as JSON, JSON lines, CSV or its table: one sequence, without a server.

Contains the format. A row is a prompt alone (its speed stands in `extra`), tokens alone (a decode speed), or both one
behind the other (the only ones end to end). The tool compares settings within one file; each that varies is named.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import StringIO
from statistics import median
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell, name_from
from opmon.sweeps.speeds import known, quotient

_NS = 1e-9
_TOOL = re.compile(r"(?i)(?<![^/])llama[-_]?bench[-_.]?(?:b\d+[-_.])?")
_TEST = re.compile(r"(?:pp(?P<pp>\d{1,9}))?\+?(?:tg(?P<tg>\d{1,9}))?(?:\s*@\s*d(?P<depth>\d{1,9}))?", re.ASCII)
_SPEED = re.compile(r"\s*([\d.]+)\s*(?:±\s*[\d.]+)?\s*", re.ASCII)
_BUILD = re.compile(r"build:\s*([0-9a-f]{6,40})\s*\((\d{1,7})\)")
_NO_SETTING = re.compile(
    r"n_prompt|n_gen|n_depth|test_time|test|t/s|(?:avg|stddev|samples)_.*|model_(?:size|n_params|type)|size|params"
    r"|build_commit|cpu_info|gpu_info"
)
"""Columns that say what was measured or on what; every other one is a setting."""
_KEPT = ("backends", "backend", "n_gpu_layers", "ngl", "flash_attn", "fa", "type_k", "type_v", "build_commit")


@dataclass(frozen=True, slots=True)
class _Rows:
    values: list[Mapping[str, Any]]
    version: str | None = None


def _recognises(document: Document) -> bool:
    head = document.head
    if not document.is_json:
        return _csv_header(head) or _table_header(head) is not None
    if '"avg_ts"' not in head or '"n_gen"' not in head:
        return False
    first = next(_values(document), None)
    return isinstance(first, Mapping) and {"avg_ts", "n_gen"} <= first.keys()


def _csv_header(text: str) -> bool:
    return {"avg_ts", "n_gen", "n_prompt"} <= {one.strip('" ') for one in _first_line(text).split(",")}


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def _table_header(text: str) -> list[str] | None:
    """The columns of the tool's table; None where there is none. What a person has renamed is no longer its."""
    for line in text.splitlines():
        cells = _table_cells(line)
        if {"model", "size", "params", "test", "t/s"} <= set(cells):
            return cells
    return None


def _table_cells(line: str) -> list[str]:
    stripped = line.strip()
    if not stripped.startswith("|") or not stripped.endswith("|"):
        return []
    return [one.strip() for one in stripped.strip("|").split("|")]


def _values(document: Document) -> Iterator[Any]:
    for record in document.records:
        yield from record.value if isinstance(record.value, list) else [record.value]


def _read(document: Document, given: Given) -> Read:
    notes: list[str] = []
    rows = _rows(document)
    if not rows.values:
        raise Fields({}, document.file_name).fault("the file has no row of a test")
    varying = _varying(rows.values)
    cells = []
    for number, values in enumerate(rows.values, 1):
        fields = Fields(values, document.file_name, number if len(rows.values) > 1 else None, notes)
        cells.append(_cell(fields, given, varying, rows.version))
    if document.is_json and document.is_torn:
        notes.append("the last record is cut off and left out")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _rows(document: Document) -> _Rows:
    fields = Fields({}, document.file_name)
    if document.is_json:
        found = list(_values(document))
        for fields.row, one in enumerate(found, 1):
            if not isinstance(one, Mapping):
                raise fields.fault("this is no test: an object with the tool's figures is expected")
        return _Rows(found)
    return _csv_rows(document) if _csv_header(document.text) else _table_rows(document)


def _csv_rows(document: Document) -> _Rows:
    lines = csv.reader(StringIO(document.text), strict=True)
    found: list[Mapping[str, Any]] = []
    fields = Fields({}, document.file_name)
    header: list[str] = []
    while True:
        try:
            line = next(lines, None)
        except csv.Error as error:
            fields.row = len(found) + 1
            raise fields.fault(f"the row cannot be read: {error}") from error
        if line is None:
            return _Rows(found)
        if not header:
            header = [one.strip() for one in line]
        elif line:
            fields.row = len(found) + 1
            if len(line) != len(header):
                raise fields.fault(f"the row has {len(line)} fields and the header {len(header)}")
            found.append(dict(zip(header, line, strict=True)))


def _table_rows(document: Document) -> _Rows:
    """The table as the tool prints it: `pp512`, `tg128`, `pp512+tg128`, each with ` @ d4096` behind it."""
    found: list[Mapping[str, Any]] = []
    header: list[str] = []
    fields = Fields({}, document.file_name)
    for line in document.text.splitlines():
        cells = _table_cells(line)
        if not cells or set("".join(cells)) <= set("-: "):
            continue
        if "t/s" in cells and "test" in cells:
            header = cells
        elif header and len(cells) == len(header):
            fields.row = len(found) + 1
            found.append(_table_row(dict(zip(header, cells, strict=True)), fields))
    build = _BUILD.search(document.text)
    return _Rows(found, f"b{build[2]}" if build else None)


def _table_row(values: dict[str, Any], fields: Fields) -> dict[str, Any]:
    test, speed = _TEST.fullmatch(values["test"]), _SPEED.fullmatch(values["t/s"])
    if test is None or not (test["pp"] or test["tg"]):
        raise fields.fault(f"{values['test']!r} is no test, as pp512 or tg128 is", "test")
    if speed is None:
        raise fields.fault(f"{values['t/s']!r} is no speed", "t/s")
    lengths = {"n_prompt": test["pp"], "n_gen": test["tg"], "n_depth": test["depth"]}
    return {**values, "model_type": values["model"], "avg_ts": speed[1], **lengths}


def _varying(rows: list[Mapping[str, Any]]) -> list[str]:
    """The settings that are not the same in every row."""
    names = dict.fromkeys(name for row in rows for name in row if not _NO_SETTING.fullmatch(name))
    return [name for name in names if len({str(row.get(name)) for row in rows}) > 1]


def _cell(fields: Fields, given: Given, varying: list[str], version: str | None) -> Cell:
    prompt, output = fields.count("n_prompt") or 0, fields.count("n_gen") or 0
    depth, speed = fields.count("n_depth") or 0, fields.number("avg_ts")
    extra = _extra(fields)
    values: dict[str, Any] = {}
    if output and not prompt:
        values["decode"] = speed
    elif output:
        values = _end_to_end(fields, prompt, output, speed)
    elif speed:
        extra["prefill_tok_s"] = f"{speed:g}"
        values["flags"] = ("prefill_only",)
    differs = name_from(*(_setting(fields, name) for name in varying))
    said = replace(given, configuration=name_from(given.configuration, differs)) if given.configuration else given
    model = fields.word("model_filename")
    build = fields.word("build_number")
    named = guessed_name(_TOOL.sub("", fields.file_name)) or guessed_name(given.folder) or fields.word("model_type")
    return cell(
        fields,
        said,
        **values,
        guessed_configuration=name_from(named, differs),
        guessed_content=_test_name(prompt, output, depth),
        concurrency=1.0,
        load_mode="single",
        prompt_tokens=float(prompt + depth),
        output_tokens=float(output),
        measured_at=unix_seconds(fields, "test_time"),
        tool="llama-bench",
        tool_version=f"b{build}" if build else version,
        model=model.rsplit("/", 1)[-1] if model else fields.word("model_type"),
        hardware=fields.word("gpu_info") or fields.word("cpu_info"),
        api="none",
        streaming=False,
        **_TOKENS,
        cache_state="context in the cache" if depth else None,
        extra=extra,
    )


_TOKENS = {"token_source": "generated"}


def _end_to_end(fields: Fields, prompt: int, output: int, speed: float | None) -> dict[str, Any]:
    """Prompt and output one behind the other: the tool's speed counts both, a caller's only the output."""
    runs = [one for one in known(fields.numbers("samples_ns"), _NS) if one]
    seconds = median(runs) if runs else fields.number("avg_ns", factor=_NS) or quotient(prompt + output, speed)
    own = quotient(output, seconds)
    return {
        "per_stream": own,
        "per_stream_method": "rows" if runs else "mean_out_over_median_e2e",
        "aggregate": own,
        "e2e": seconds,
    }


def _setting(fields: Fields, name: str) -> str | None:
    word = fields.word(name)
    if name in ("model_filename", "model"):
        return word.rsplit("/", 1)[-1] if word else None
    return f"{name}={word}" if word else None


def _test_name(prompt: int, output: int, depth: int) -> str:
    parts = [f"pp{prompt}" if prompt else "", f"tg{output}" if output else ""]
    return "+".join(part for part in parts if part) + (f" @ d{depth}" if depth else "")


def _extra(fields: Fields) -> dict[str, str]:
    return {name: word for name in _KEPT if (word := fields.word(name))}


LLAMA_BENCH = Reader("llama-bench", 1, "llama-bench (JSON, JSON lines, CSV or its table)", _recognises, _read)
