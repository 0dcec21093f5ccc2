"""Reads a run of genai-bench, of both schemas: one JSON file a load, with `experiment_metadata.json` beside it.

Contains the format. The command line in the metadata holds the API key; it is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.beside import json_beside
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell, name_from
from opmon.sweeps.speeds import estimated, known, measured

METADATA = "experiment_metadata.json"
_UNITS = {"s": 1.0, "ms": 0.001}
_OWN_NAME = re.compile(r"(?:^|/)[^/]*_(?:num_concurrency|batch_size|request_rate)_[\d.]+_time_[\d.]+s\.json(?:\.gz)?$")
"""What the tool calls a run: content, task, load and time. None of it is a configuration."""
_STARTED = re.compile(r"_?(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)$")
"""The end of the folder's name where the tool chose it: when the experiment began."""
_TOOL = re.compile(r"(?i)(?<![^/])genai-?bench[-_.]?")
_KEPT = ("server_engine", "server_version", "task", "api_backend", "experiment_folder_name")


def _recognises(document: Document) -> bool:
    if not document.is_json or '"aggregated_metrics"' not in document.head:
        return False
    value = document.records[0].value
    figures = value.get("aggregated_metrics") if isinstance(value, Mapping) else None
    return isinstance(figures, Mapping) and "stats" in figures and "mean_output_throughput_tokens_per_s" in figures


def _read(document: Document, given: Given) -> Read:
    notes: list[str] = []
    several = len(document.records) > 1
    cells = []
    for record in document.records:
        fields = Fields({}, document.file_name, record.number if several else None, notes)
        if not isinstance(record.value, Mapping):
            raise fields.fault("this is no run: an object with `aggregated_metrics` is expected")
        fields.values = record.value
        cells.append(_cell(fields, document, given))
    if document.is_torn:
        notes.append("the last record is cut off and left out")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, document: Document, given: Given) -> Cell:
    factor, run = _factor(fields), fields.below("aggregated_metrics")
    stats = run.below("stats")
    output = stats.number("num_output_tokens", "mean")
    ttft, tpot = (stats.number(name, "p50", factor=factor) for name in ("ttft", "tpot"))
    speed = measured(*_rows(fields, factor))
    if speed.p50 is None:
        speed = estimated(output, stats.number("e2e_latency", "p50", factor=factor), ttft, tpot)
    a_minute = run.number("requests_per_minute", factor=1 / 60)
    beside = json_beside(fields, document, METADATA)
    identity = _identity(beside, fields)
    extra = {**identity.pop("extra"), **speed.extra}
    if _is_open(run):
        extra["request_rate"] = run.word("request_rate") or run.word("num_concurrency") or ""
    return cell(
        fields,
        given,
        **identity,
        **_load(run),
        **speed.values,
        content=run.word("scenario"),
        prompt_tokens=stats.number("num_input_tokens", "mean"),
        output_tokens=output,
        aggregate=run.number("mean_output_throughput_tokens_per_s"),
        ttft=ttft,
        ttft_p95=stats.number("ttft", "p95", factor=factor),
        tpot=tpot,
        e2e=stats.number("e2e_latency", "mean", factor=factor),
        requests_per_second=run.number("requests_per_second") or a_minute,
        completed_requests=run.count("num_completed_requests"),
        failed_requests=run.count("num_error_requests"),
        duration_seconds=run.number("run_duration"),
        tool="genai-bench",
        streaming=True if ttft and tpot else None,
        extra={name: word for name, word in extra.items() if word},
    )


def _factor(fields: Fields) -> float:
    """Seconds of the file's unit of time; the old schema has none and means seconds."""
    unit = fields.at("_time_unit")
    if unit is None:
        return 1.0
    if not isinstance(unit, str) or unit not in _UNITS:
        raise fields.fault(f"the unit {unit!r} is neither s nor ms", "_time_unit")
    return _UNITS[unit]


def _rows(fields: Fields, factor: float) -> tuple[list[float | None], list[float | None]]:
    """Output tokens and elapsed seconds of the requests that succeeded."""
    rows = fields.at("individual_request_metrics")
    rows = rows if isinstance(rows, list) else []
    good = [one for one in rows if isinstance(one, Mapping) and one.get("error_code") is None]
    table = Fields({name: [one.get(name) for one in good] for name in ("num_output_tokens", "e2e_latency")}, "")
    return table.numbers("num_output_tokens"), known(table.numbers("e2e_latency"), factor)


def _is_open(run: Fields) -> bool:
    """Whether requests came at a rate: `num_concurrency` then holds its default, or the rate itself."""
    kind = run.at("iteration_type")
    return kind == "request_rate" or run.has("total_arrivals") or run.has("arrival_requests_per_second")


def _load(run: Fields) -> dict[str, Any]:
    if _is_open(run):
        return {"load_mode": "open", "concurrency_source": "unknown"}
    return {"load_mode": "closed", "concurrency": run.number("num_concurrency")}


def _identity(beside: Fields, fields: Fields) -> dict[str, Any]:
    """Who was measured, from the metadata and the folder; the run's own file does not say."""
    folder = (beside.word("experiment_folder_name") or "").rstrip("/").rsplit("/", 1)[-1]
    started = _STARTED.search(folder)
    count, card = beside.word("server_gpu_count"), beside.word("server_gpu_type")
    path = fields.file_name
    outer = path.rpartition("/")[0] if _OWN_NAME.search(path) else path
    named = _STARTED.sub("", folder) or (guessed_name(_TOOL.sub("", outer)) if outer else None)
    extra = {name: beside.word(name) for name in _KEPT}
    moment = Fields({"date": "{}-{}-{}T{}:{}:{}".format(*started.groups())} if started else {}, "", None, fields.notes)
    return {
        "guessed_configuration": named or name_from(*(beside.word(n) for n in ("model", "server_engine"))),
        "model": beside.word("model"),
        "hardware": name_from(f"{count}x" if count and count != "1" else None, card),
        "tool_version": beside.word("benchmark_version"),
        "token_source": "server_usage_or_tokenizer",
        "api": "chat" if beside.at("api_backend") in ("openai", "vllm", "sglang") else None,
        "temperature": beside.number("additional_request_params", "temperature"),
        "measured_at": unix_seconds(moment, "date"),
        "extra": extra,
    }


GENAI_BENCH = Reader("genai-bench", 1, "a run of genai-bench (JSON)", _recognises, _read)
