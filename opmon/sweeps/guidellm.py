"""Reads GuideLLM's reports, versions 0.2 to 0.8: JSON (also packed), YAML, and the CSV where no JSON stands beside it.

Contains what its fields mean: the aggregate is output tokens of all requests over the measured seconds (its own
`output_tokens_per_second` is a distribution whose mean is up to 3.5 % higher before 0.7), the time between tokens is
without the first one, and `max_concurrency` is a ceiling. The shape of the CSV is `guidellm_csv`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.guidellm_csv import csv_report, looks_like_csv
from opmon.sweeps.naming import guessed_name, stem_of, unix_seconds
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell, name_from
from opmon.sweeps.speeds import Speed, estimated, measured, quotient
from opmon.sweeps.yaml_values import parse, plain

_CONFIGURATION_LABELS = ("config", "configuration", "name", "label")
_CONTENT_LABELS = ("content", "workload", "dataset")


def _recognises(document: Document) -> bool:
    head = document.head
    if document.is_json:
        return '"benchmarks"' in head and any(_is_report(record.value) for record in document.records)
    return looks_like_csv(head) or _looks_like_yaml(head)


def _looks_like_yaml(head: str) -> bool:
    has_list = any(line.rstrip() == "benchmarks:" for line in head.splitlines())
    return has_list and ("generative" in head or "guidellm" in head)


def _is_report(value: Any) -> bool:
    benchmarks = value.get("benchmarks") if isinstance(value, Mapping) else None
    return isinstance(benchmarks, list) and any(_is_benchmark(one) for one in benchmarks)


def _is_benchmark(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("metrics"), Mapping):
        return False
    return any(isinstance(value.get(key), Mapping) for key in ("config", "args", "scheduler_state", "run_stats"))


def _read(document: Document, given: Given) -> Read:
    notes: list[str] = []
    benchmarks = [(report, one) for report in _reports(document, notes) for one in report["benchmarks"]]
    if not benchmarks:
        raise SweepError("there is no benchmark in the report: none was finished", file=document.file_name)
    cells = []
    for row, (report, one) in enumerate(benchmarks, start=1):
        fields = Fields(one if isinstance(one, Mapping) else {}, document.file_name, row, notes)
        if not _is_benchmark(one):
            raise fields.fault("this benchmark has no `metrics`; give the report as GuideLLM wrote it", "metrics")
        cells.append(_cell(Fields(report, document.file_name, row, notes), fields, given))
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _reports(document: Document, notes: list[str]) -> list[Mapping[str, Any]]:
    """The reports in the file. Raises NoCell where the same report stands beside it as JSON."""
    if document.is_json:
        if document.is_torn:
            notes.append("the last record is cut off and left out")
        return [record.value for record in document.records if _is_report(record.value)]
    stem = stem_of(document.file_name)
    for name in (f"{stem}.json", f"{stem}.json.gz"):
        other = document.beside(name)
        if other is not None and other.is_json:
            raise NoCell(f"the same report stands in {name} beside it, which is read", file=document.file_name)
    if looks_like_csv(document.head):
        return [csv_report(document.text, document.file_name)]
    values = [plain(node, document.file_name) for node in parse(document.text, document.file_name)]
    found = [value for value in values if _is_report(value)]
    if not found:
        raise SweepError("this YAML has no `benchmarks` with `metrics`; give the JSON", file=document.file_name)
    return found


def _cell(report: Fields, one: Fields, given: Given) -> Cell:
    totals = (
        one.below("metrics", "request_totals") if one.has("metrics", "request_totals") else one.below("request_totals")
    )
    completed = totals.count("successful")
    labels = report.below("config", "metadata", "labels")
    extra = _extra(one, totals)
    values = {
        **_load(one, extra),
        **_speeds(one, completed, extra),
        **_identity(report, one),
        "configuration": _first(labels, _CONFIGURATION_LABELS),
        "content": _first(labels, _CONTENT_LABELS),
        "guessed_configuration": guessed_name(one.file_name) or name_from(_model(report, one)),
        "guessed_content": _content(report, one),
        "prompt_tokens": _stat(one, "prompt_token_count", "mean"),
        "output_tokens": _stat(one, "output_token_count", "mean"),
        "ttft": _stat(one, "time_to_first_token_ms", "median", factor=0.001),
        "ttft_p95": _stat(one, "time_to_first_token_ms", "percentiles", "p95", factor=0.001),
        "completed_requests": completed,
        "failed_requests": totals.count("errored"),
        "duration_seconds": _duration(one),
        "acceptance_length": _acceptance(one),
    }
    for key in labels.values:
        if key not in (*_CONFIGURATION_LABELS, *_CONTENT_LABELS) and (word := labels.word(key)):
            extra[str(key)[:60]] = word
    return cell(one, given, **values, extra=extra)


def _stat(one: Fields, metric: str, *path: str, group: str = "successful", factor: float = 1.0) -> float | None:
    return one.number("metrics", metric, group, *path, factor=factor)


def _duration(one: Fields) -> float | None:
    duration = one.number("duration")
    if duration is not None:
        return duration
    start, end = one.number("start_time"), one.number("end_time")
    return end - start if start is not None and end is not None and end > start else None


def _extra(one: Fields, totals: Fields) -> dict[str, str]:
    extra = {}
    incomplete = totals.count("incomplete")
    if incomplete:
        extra["incomplete_requests"] = str(incomplete)
    measured = _stat(one, "request_concurrency", "mean", group="total")
    if measured is not None:
        extra["request_concurrency_mean"] = f"{measured:.6g}"
    return extra


def _load(one: Fields, extra: dict[str, str]) -> dict[str, Any]:
    """What the clients did. A throughput run is unlimited: its `max_concurrency` is a ceiling."""
    strategy = one.below("config", "strategy") if one.has("config", "strategy") else one.below("args", "strategy")
    kind = (strategy.word("type_") or strategy.word("kind") or strategy.word("type") or "").lower()
    for key in ("rate", "max_concurrency", "rampup_duration"):
        if (word := strategy.word(key)) and word != "0.0" and (key, kind) != ("max_concurrency", "concurrent"):
            extra["request_rate" if key == "rate" else key] = word
    if kind == "synchronous":
        return {"concurrency": 1.0, "load_mode": "closed"}
    if kind == "concurrent":
        streams = strategy.number("streams")
        if streams is None:
            raise one.fault("this run does not say how many streams it had", "strategy.streams")
        return {"concurrency": streams, "load_mode": "closed"}
    if kind == "throughput":
        return {"concurrency_source": "unlimited", "load_mode": "unlimited"}
    if kind in ("constant", "poisson", "async"):
        return {"concurrency_source": "unknown", "load_mode": "open"}
    one.note(f"the load strategy {kind or 'of this run'!r} is not known, so the cell has no concurrency")
    return {"concurrency_source": "unknown", "load_mode": kind or None}


def _speeds(one: Fields, completed: int | None, extra: dict[str, str]) -> dict[str, Any]:
    latency = _stat(one, "request_latency", "median")
    mean_tokens = _stat(one, "output_token_count", "mean")
    tpot = _stat(one, "inter_token_latency_ms", "median", factor=0.001)
    per_chunk = _stat(one, "output_tokens_per_iteration", "mean")
    duration = _duration(one)
    rate = quotient(completed, duration)
    if rate and "incomplete_requests" in extra:
        # A run that ends by the clock holds unfinished requests in flight that this rate knows nothing of.
        extra["requests_per_second"] = f"{rate:.6g}"
        rate = None
    found: dict[str, Any] = {
        "aggregate": _aggregate(one, duration),
        "tpot": tpot,
        "itl": tpot * per_chunk if tpot and per_chunk else None,
        "e2e": _stat(one, "request_latency", "mean"),
        "requests_per_second": rate,
    }
    speed, listed = _of_rows(one)
    if listed and completed is not None and listed < completed:
        one.note(f"the report holds {listed} of {completed} requests, so the per-stream speed is not taken from them")
        found["flags"] = ("sampled_rows",)
        speed = None
    if speed is None:
        speed = estimated(mean_tokens, latency)
        extra |= speed.extra
    return {**found, **speed.values}


def _aggregate(one: Fields, duration: float | None) -> float | None:
    """Output tokens of all requests, unfinished ones too, over the measured seconds. With a warm-up or a cool-down the
    requests that count are longer than the seconds that do, so the tool's own rate stands."""
    rate = next(
        (
            found
            for group in ("total", "successful")
            if (found := _stat(one, "output_tokens_per_second", "mean", group=group))
        ),
        None,
    )
    trimmed = any(
        one.number(*path)
        for path in (
            ("warmup_duration",),
            ("cooldown_duration",),
            ("args", "warmup_duration"),
            ("args", "cooldown_duration"),
        )
    )
    tokens = _stat(one, "output_token_count", "total_sum", group="total")
    if trimmed and rate:
        return rate
    return quotient(tokens, duration) or rate


def _of_rows(one: Fields) -> tuple[Speed | None, int]:
    """The speed of the successful requests that the report lists, and how many it lists. No speed where one of them
    lacks its tokens or its time."""
    rows = _successful(one)
    tokens = [row.number("output_tokens") for row in rows]
    seconds = [row.number("request_latency") for row in rows]
    is_whole = bool(rows) and all(tokens) and all(seconds)
    return measured(tokens, seconds) if is_whole else None, len(rows)


def _successful(one: Fields) -> list[Fields]:
    listed = one.at("requests", "successful")
    found = listed if isinstance(listed, list) else []
    return [Fields(row if isinstance(row, Mapping) else {}, one.file_name, one.row, one.notes) for row in found]


def _acceptance(one: Fields) -> float | None:
    """Tokens per step over all requests for which the server told its steps; None where it told none."""
    steps = accepted = 0.0
    for row in _successful(one):
        told = row.below("response_metrics", "speculative_decoding")
        row_steps, row_accepted = told.number("num_spec_steps"), told.number("num_accepted_draft_tokens")
        if row_steps and row_accepted is not None:
            steps, accepted = steps + row_steps, accepted + row_accepted
    return 1 + accepted / steps if steps else None


def _identity(report: Fields, one: Fields) -> dict[str, Any]:
    backend = one.below("config", "backend")
    if not backend.values:
        backend = report.below("config", "spec", "backend")
    formatted = (
        backend.word("request_format")
        or report.word("args", "request_format")
        or report.word("args", "data_request_formatter")
        or _request_type(one)
        or ""
    ).lower()
    stream = backend.at("stream")
    counted = one.at("config", "prefer_response_metrics")
    return {
        "tool": "guidellm",
        "tool_version": report.word("metadata", "guidellm_version"),
        "model": _model(report, one),
        "api": "chat" if "chat" in formatted else "completions" if "completions" in formatted else formatted or None,
        "streaming": stream if isinstance(stream, bool) else None,
        "token_source": "server_usage" if counted is True else None,
        "temperature": backend.below("extras", "body").number("temperature"),
        "measured_at": unix_seconds(one, "start_time"),
    }


def _request_type(one: Fields) -> str | None:
    return next((row.word("request_type") for row in _successful(one)), None)


def _model(report: Fields, one: Fields) -> str | None:
    return (
        one.word("config", "backend", "model")
        or one.word("worker", "backend_model")
        or report.word("config", "spec", "backend", "model")
        or report.word("args", "model")
    )


def _content(report: Fields, one: Fields) -> str | None:
    """What the prompts were, as far as settings tell."""
    data = (
        report.at("config", "spec", "data") or one.at("config", "requests", "data") or one.at("request_loader", "data")
    )
    data = data or report.at("args", "data")
    if isinstance(data, str) and data.startswith("["):
        data = _literal(data)
    if isinstance(data, list):
        data = data[0] if data else None
    if isinstance(data, Mapping):
        source = Fields(data, one.file_name)
        named = next((word for key in ("source", "dataset", "path", "name") if (word := source.word(key))), None)
        lengths = [source.word("prompt_tokens"), source.word("output_tokens")]
        return named or name_from(source.word("kind"), "/".join(word for word in lengths if word))
    return Fields({"data": data}, one.file_name).word("data")


def _literal(text: str) -> Any:
    """A list as Python writes it; the text itself where it is none."""
    try:
        return ast.literal_eval(text) if len(text) <= 10_000 else text
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _first(fields: Fields, keys: tuple[str, ...]) -> str | None:
    return next((word for key in keys if (word := fields.word(key))), None)


GUIDELLM = Reader(
    "guidellm",
    1,
    "a GuideLLM report (benchmarks.json, also .json.gz, .yaml or .csv)",
    _recognises,
    _read,
)
