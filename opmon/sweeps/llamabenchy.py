"""Reads what llama-benchy saves as JSON or CSV: batches of requests to a server, each waiting for the whole last one.

Contains the format. The tool's throughput runs from the first token on; an aggregate counts the wait for it in, so it is
computed back, and says so. The JSON holds every request, the CSV means alone.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from io import StringIO
from statistics import median
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell
from opmon.sweeps.speeds import Speed, estimated, known, measured, quotient

_MS = 0.001
ROWS_FOR_P95 = 20
AGGREGATE_FORMULA = "B n / (TTFT + B (n - 1) / tg_throughput), B requests of n tokens"
PER_STREAM_FORMULA = "median over requests of n / (TTFT + (n - 1) / tg_req_throughput), n as asked for"
_TOOL = re.compile(r"(?i)(?<![^/])llama[-_]?benchy[-_.]?")
_TEST = re.compile(
    r"(?P<ctx>ctx_)?(?P<kind>pp|tg)(?P<n>\d{1,9})?\s*(?:@\s*d(?P<depth>\d{1,9}))?\s*(?:\(c(?P<c>\d{1,6})\))?", re.ASCII
)
_CSV_COLUMNS = {"model", "test_name", "t_s_mean", "e2e_ttft_mean"}
_ONE_STREAM_RATIO = 0.01


def _recognises(document: Document) -> bool:
    head = document.head
    if not document.is_json:
        first = next((line for line in head.splitlines() if line.strip()), "")
        return {one.strip('" ') for one in first.split(",")} >= _CSV_COLUMNS
    if '"tg_throughput"' not in head:
        return False
    value = document.records[0].value
    rows = value.get("benchmarks") if isinstance(value, Mapping) else None
    return isinstance(rows, list) and bool(rows) and isinstance(rows[0], Mapping) and "tg_throughput" in rows[0]


def _read(document: Document, given: Given) -> Read:
    notes: list[str] = []
    cells = _json_cells(document, given, notes) if document.is_json else _csv_cells(document, given, notes)
    if not cells:
        raise Fields({}, document.file_name).fault("the file has no row with a speed of output")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _json_cells(document: Document, given: Given, notes: list[str]) -> list[Cell]:
    top = Fields({}, document.file_name, None, notes)
    if len(document.records) != 1 or not isinstance(document.records[0].value, Mapping):
        raise top.fault("this is no report: one object with `benchmarks` is expected")
    top.values = document.records[0].value
    rows = top.at("benchmarks")
    if not isinstance(rows, list):
        raise top.fault("this is no list of runs", "benchmarks")
    cells = []
    for number, value in enumerate(rows, 1):
        fields = Fields({}, document.file_name, number if len(rows) > 1 else None, notes)
        if not isinstance(value, Mapping):
            raise fields.fault("this is no run: an object with the tool's figures is expected")
        fields.values = value
        cells.append(_json_cell(fields, top, given))
    return cells


def _json_cell(fields: Fields, top: Fields, given: Given) -> Cell:
    ttfts = known(fields.numbers("e2e_ttft", "values"), _MS)
    speeds = known(fields.numbers("tg_req_throughput", "values"))
    waits = sorted(one for one in ttfts if one)
    ttft = median(waits) if waits else fields.number("e2e_ttft", "mean", factor=_MS)
    good = [one for one in speeds if one]
    decode = median(good) if good else fields.number("tg_req_throughput", "mean")
    n, context = fields.count("response_size"), fields.count("context_size") or 0
    is_context = fields.at("is_context_prefill_phase") is True
    asked = 0 if is_context else fields.count("prompt_size") or 0
    cached = bool(top.at("prefix_caching_enabled")) and context > 0 and not is_context
    return _made(
        fields,
        given,
        n,
        ttft,
        decode,
        speed=_row_speed(n, ttfts, speeds) or _mean_speed(n, ttft, decode),
        together=fields.number("tg_throughput", "mean"),
        concurrency=fields.number("concurrency"),
        prompt_tokens=float(context + asked),
        ttft_p95=waits[-(len(waits) // 20) - 1] if len(waits) >= ROWS_FOR_P95 else None,
        guessed_content=_content(asked, n, context, is_context=is_context),
        model=top.word("model"),
        tool_version=top.word("version"),
        measured_at=unix_seconds(top, "timestamp"),
        cache_state="context in the cache" if cached else None,
    )


def _row_speed(n: int | None, ttfts: list[float | None], speeds: list[float | None]) -> Speed | None:
    """Each request's own speed, where every one has both figures."""
    if not n or not ttfts or len(ttfts) != len(speeds):
        return None
    seconds = [first + (n - 1) / rest if first and rest else None for first, rest in zip(ttfts, speeds, strict=True)]
    found = measured([float(n)] * len(seconds), seconds)
    return Speed(found.p50, found.p95, "ttft_plus_tpot", PER_STREAM_FORMULA) if found.p50 else None


def _mean_speed(n: int | None, ttft: float | None, decode: float | None) -> Speed:
    return estimated(n, None, ttft, quotient(1.0, decode))


def _made(
    fields: Fields,
    given: Given,
    n: int | None,
    ttft: float | None,
    decode: float | None,
    *,
    speed: Speed,
    together: float | None,
    concurrency: float | None,
    **values: Any,
) -> Cell:
    """A cell; its aggregate counts the wait for the first token in."""
    aggregate = None
    if n and concurrency and ttft and together:
        aggregate = quotient(concurrency * n, ttft + concurrency * (n - 1) / together)
    extra = {**speed.extra, **({"aggregate_formula": AGGREGATE_FORMULA} if aggregate else {})}
    if together:
        extra["tg_throughput"] = f"{together:g}"
    parts = {**speed.values, **values}
    parts["derived"] = (*parts.get("derived", ()), *(("aggregate",) if aggregate else ()))
    return cell(
        fields,
        given,
        **parts,
        guessed_configuration=guessed_name(_TOOL.sub("", fields.file_name)) or values.get("model"),
        concurrency=concurrency,
        load_mode="lockstep",
        output_tokens=n,
        aggregate=aggregate,
        ttft=ttft,
        decode=decode,
        tool="llama-benchy",
        api="chat",
        streaming=True,
        **_TOKENS,
        flags=("aggregate_estimated", "lengths_requested_only"),
        extra=extra,
    )


_TOKENS = {"token_source": "requested"}


def _content(prompt: int, n: int | None, depth: int, *, is_context: bool) -> str:
    lengths = f"ctx tg{n or 0}" if is_context else f"pp{prompt} tg{n or 0}"
    return lengths + (f" @ d{depth}" if depth else "")


# --- the CSV: a row for the prompts and a row for the output ---------------------------------------------------------


def _csv_cells(document: Document, given: Given, notes: list[str]) -> list[Cell]:
    prompts: dict[tuple[str, ...], Fields] = {}
    cells = []
    for fields in _csv_rows(document, notes):
        test = _TEST.fullmatch((fields.word("test_name") or "").strip())
        if test is None:
            raise fields.fault(f"{fields.word('test_name')!r} is no test, as pp2048 or tg32 (c4) is", "test_name")
        key = tuple(str(one) for one in (fields.at("model"), test["ctx"], test["depth"], test["c"]))
        if test["kind"] == "pp":
            prompts[key] = fields
        else:
            cells.append(_csv_cell(fields, test, prompts.get(key), given))
    return cells


def _csv_rows(document: Document, notes: list[str]) -> list[Fields]:
    lines = csv.reader(StringIO(document.text), strict=True)
    found: list[Fields] = []
    header: list[str] = []
    while True:
        fields = Fields({}, document.file_name, len(found) + 1, notes)
        try:
            line = next(lines, None)
        except csv.Error as error:
            raise fields.fault(f"the row cannot be read: {error}") from error
        if line is None:
            return found
        if not header:
            header = [one.strip() for one in line]
        elif line:
            if len(line) != len(header):
                raise fields.fault(f"the row has {len(line)} fields and the header {len(header)}")
            fields.values = dict(zip(header, line, strict=True))
            found.append(fields)


def _csv_cell(fields: Fields, test: re.Match[str], prompt: Fields | None, given: Given) -> Cell:
    """Of the row of the output and the row of its prompts before it. Without `(cN)` a run had one stream, if its two
    speeds agree."""
    together = fields.number("t_s_mean")
    own = fields.number("t_s_req_mean")
    concurrency = float(test["c"]) if test["c"] else None
    if concurrency is None and together and (own is None or abs(together - own) <= _ONE_STREAM_RATIO * together):
        concurrency, own = 1.0, own or together
    before = _TEST.fullmatch((prompt.word("test_name") or "").strip()) if prompt else None
    depth, asked = int(test["depth"] or 0), int(before["n"] or 0) if before else 0
    n = int(test["n"]) if test["n"] else None
    ttft = prompt.number("e2e_ttft_mean", factor=_MS) if prompt else None
    return _made(
        fields,
        given,
        n,
        ttft,
        own,
        speed=_mean_speed(n, ttft, own),
        together=together,
        concurrency=concurrency,
        prompt_tokens=float(depth + asked),
        guessed_content=_content(asked, n, depth, is_context=bool(test["ctx"])),
        model=fields.word("model"),
    )


LLAMA_BENCHY = Reader("llama-benchy", 1, "llama-benchy (JSON or CSV)", _recognises, _read)
