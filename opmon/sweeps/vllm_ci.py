"""What vLLM's CI sums up: `benchmark_results.json`, a row a test, and `benchmark_results.md` with the same rows.

Contains the columns, which are words for a person: `Median` and `P99` without a unit are times per output token. The
lengths among them are those that were asked for; what was measured follows from the throughputs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields, Given, NoCell, Read, cell
from opmon.sweeps.speeds import estimated, quotient
from opmon.sweeps.vllm_names import gpu_words, guessed_configuration
from opmon.sweeps.vllm_record import SERVE, TOKENS_OF
from opmon.sweeps.vllm_runs import values_in

NAME, AGGREGATE, TOTAL, REQUESTS = "Test name", "Output Tput (tok/s)", "Total Token Tput (tok/s)", "Tput (req/s)"
_LEVEL = "# of max concurrency."
_MS = 0.001
_TABLE = re.compile(rf"^\s*\|\s*{NAME}\s*\|[^\n]*(/s\)|latency)", re.MULTILINE)
_EXTRA = ("TP Size", "PP Size", "dtype", "qps", "Input Len", "Output Len", "Test name")
_OTHERS = {
    "Mean latency (ms)": "a batch of fixed size without a server (vllm bench latency)",
    "Tput (tok/s)": "an offline run without a server (vllm bench throughput), whose tokens are prompts too",
}


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) and NAME in value and any(key in value for key in (AGGREGATE, *_OTHERS))


def recognises_tests(document: Document) -> bool:
    """Whether a record of the file is a row of such a list."""
    if not document.is_json or f'"{NAME}"' not in document.head:
        return False
    return any(_is_row(value) for value in values_in(document))


def recognises_page(document: Document) -> bool:
    """Whether the text has a table that begins with a test's name."""
    return not document.is_json and _TABLE.search(document.head) is not None


def read_tests(document: Document, given: Given) -> Read:
    """Every serving test of the list as a cell. Raises SweepError."""
    return _read_rows(list(values_in(document)), document, given)


def read_page(document: Document, given: Given) -> Read:
    """Every serving test of the page as a cell, by the JSON in it, else by its tables. Raises SweepError."""
    return _read_rows(list(_embedded(document.text)) or list(_tables(document.text)), document, given)


def _read_rows(rows: list[Any], document: Document, given: Given) -> Read:
    """The rows of serving tests as cells; the others are told. Raises NoCell where there is no serving test."""
    notes, cells, left_out = list[str](), list[Cell](), dict[str, int]()
    for number, row in enumerate(rows, 1):
        fields = Fields({}, document.file_name, number if len(rows) > 1 else None, notes)
        if not isinstance(row, Mapping):
            raise fields.fault("this is no test: an object with columns is expected")
        fields.values = row
        other = next((words for column, words in _OTHERS.items() if column in row and AGGREGATE not in row), None)
        if other:
            left_out[other] = left_out.get(other, 0) + 1
        else:
            cells.append(_cell(fields, given))
    notes += [f"left out: {count} tests, each {words}" for words, count in left_out.items()]
    if not cells:
        why = "; ".join(left_out) or "it has no test"
        raise NoCell(f"no serving test is in it: {why}", file=document.file_name)
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, given: Given) -> Cell:
    requests, aggregate = fields.number(REQUESTS), fields.number(AGGREGATE)
    prompt, output, formulas = _lengths(fields, requests, aggregate)
    ttft, tpot = fields.number("Median TTFT (ms)", factor=_MS), fields.number("Median", factor=_MS)
    speed, e2e = estimated(output, None, ttft, tpot), _mean_e2e(fields, output)
    if e2e:
        formulas["e2e"] = "mean TTFT + (output tokens - 1) mean TPOT"
    test, gpu, model = fields.word(NAME), fields.word("GPU"), fields.word("Model")
    return cell(
        fields,
        given,
        guessed_configuration=guessed_configuration(f"{(test or '').replace('/', '-')}.json", model),
        content=fields.word("Dataset Name"),
        model=model,
        hardware=gpu_words(gpu) if gpu else None,
        tool=SERVE.tool,
        **_load(fields),
        prompt_tokens=prompt,
        output_tokens=output,
        aggregate=aggregate,
        requests_per_second=requests,
        per_stream=speed.p50,
        per_stream_method=speed.method,
        ttft=ttft,
        ttft_p95=fields.number("P95 TTFT (ms)", factor=_MS),
        tpot=tpot,
        itl=fields.number("Median ITL (ms)", factor=_MS),
        e2e=e2e,
        completed_requests=fields.count("# of req."),
        token_source=TOKENS_OF,
        streaming=True if fields.number("Median ITL (ms)") else None,
        derived=(*formulas, *(("per_stream",) if speed.formula else ())),
        extra={**_extra(fields), **speed.extra, **{f"{name}_formula": words for name, words in formulas.items()}},
        flags=() if "output_tokens" in formulas else ("lengths_requested_only",),
    )


def _lengths(
    fields: Fields, requests: float | None, aggregate: float | None
) -> tuple[float | None, float | None, dict[str, str]]:
    """Mean prompt and output tokens: as measured, by the throughputs; as asked for where those are missing."""
    total = fields.number(TOTAL)
    output = quotient(aggregate, requests)
    prompt = quotient(total - aggregate, requests) if total and aggregate and total > aggregate else None
    if output and prompt:
        words = {"prompt_tokens": "(total - output) tokens per second / requests per second"}
        return prompt, output, {**words, "output_tokens": "output tokens per second / requests per second"}
    return fields.number("Input Len"), fields.number("Output Len"), {}


def _mean_e2e(fields: Fields, output: float | None) -> float | None:
    first, gap = fields.number("Mean TTFT (ms)", factor=_MS), fields.number("Mean TPOT (ms)", factor=_MS)
    return first + (output - 1) * gap if first and gap is not None and output and output >= 1 else None


def _load(fields: Fields) -> dict[str, Any]:
    """Closed where nothing but the limit paces the clients; a test without a limit is unlimited or paced by its rate."""
    is_paced = fields.has("qps") and not fields.is_unlimited("qps")
    if is_paced:
        return {"load_mode": "open" if fields.number("qps") else None, "concurrency_source": "unknown"}
    limit = fields.number(_LEVEL)
    if limit is not None:
        return {"load_mode": "closed", "concurrency": limit}
    if fields.has("qps"):
        return {"load_mode": "unlimited", "concurrency_source": "unlimited"}
    return {"concurrency_source": "unknown"}


def _extra(fields: Fields) -> dict[str, str]:
    kept = {name: fields.word(name) for name in _EXTRA}
    rate = kept.pop("qps")
    return {name: word for name, word in {**kept, "request_rate": rate}.items() if word}


# --- the page -----------------------------------------------------------------------------------------------------


def _embedded(text: str) -> Iterator[dict[str, Any]]:
    """The rows of the JSON in the page: for each kind of test an object of columns, each an object of rows."""
    start = re.search(r'\{"(?:latency|throughput|serving)":', text)
    try:
        value = json.JSONDecoder().raw_decode(text, start.start())[0] if start else None
    except (ValueError, RecursionError):
        return
    for kind in ("serving", "latency", "throughput"):
        columns = value.get(kind) if isinstance(value, Mapping) else None
        if not isinstance(columns, Mapping):
            continue
        names = {name for column in columns.values() if isinstance(column, Mapping) for name in column}
        for name in sorted(names, key=lambda one: (len(one), one)):
            yield {title: column.get(name) for title, column in columns.items() if isinstance(column, Mapping)}


def _tables(text: str) -> Iterator[dict[str, Any]]:
    """The rows of the page's tables that begin with a test's name, for a page whose JSON was cut out."""
    header: list[str] = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.strip().strip("|").split("|")] if line.strip().startswith("|") else []
        if not parts:
            header = []
        elif parts[0] == NAME:
            header = parts
        elif header and len(parts) == len(header) and not set(parts[0]) <= set(":- "):
            yield dict(zip(header, parts, strict=True))
