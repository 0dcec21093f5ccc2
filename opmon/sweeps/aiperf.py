"""Reads AIPerf's exports: `profile_export_aiperf.json` of every schema, `profile_export.jsonl`, aggregates over runs.

Contains which file of a run wins: the summary JSON. Rows, CSV and aggregates beside it are the same run and give no cell.
"Per user" is decode-only in this tool; end to end is `e2e_output_token_throughput` (0.9 and newer). Settings, rows and
aggregates have modules of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.aiperf_aggregates import is_aggregate, read_aggregate
from opmon.sweeps.aiperf_rows import ROWS, cell_of_rows, is_row, profiled, speed_of
from opmon.sweeps.aiperf_settings import Settings
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.perf_metrics import Metrics, has_metrics, value_beside
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell
from opmon.sweeps.speeds import Speed

SUMMARY = "profile_export_aiperf.json"
_HINTS = (
    '"aiperf_version"',
    '"request_throughput"',
    '"request_latency"',
    '"error_request_count"',
    '"aggregation_type"',
    '"request_start_ns"',
    '"benchmark_phase"',
)


def _recognises(document: Document) -> bool:
    if not document.is_json:
        return _is_csv(document.head)
    if not any(hint in document.head for hint in _HINTS):
        return False
    value = document.records[0].value if document.records else None
    return is_run(value) or is_row(value) or is_aggregate(value)


def is_run(value: Any) -> bool:
    """Whether a JSON value is AIPerf's summary of one run, and not genai-perf's, which has the same metrics: its version
    stands in it, or (0.3 and older) what only AIPerf writes."""
    if not isinstance(value, Mapping):
        return False
    config = value.get("input_config")
    settings: Mapping[str, Any] = config if isinstance(config, Mapping) else {}
    is_measured = has_metrics(value) or isinstance(value.get("error_request_count"), Mapping)
    if "aiperf_version" in value:
        return is_measured or bool(settings)
    marks = ("schema_version", "was_cancelled", "error_summary")
    return is_measured and (any(key in value for key in marks) or "loadgen" in settings)


def _is_csv(head: str) -> bool:
    """The CSV of a run, or of a sweep (`concurrency, request_latency_mean, ..._cv`)."""
    columns = head.lstrip("\ufeff \r\n").split("\n", 1)[0].strip().replace('"', "").split(",")
    means = {name.removesuffix("_mean") for name in columns if name.endswith("_mean")}
    return columns[:3] == ["Metric", "avg", "min"] or any(f"{name}_cv" in columns for name in means)


def _read(document: Document, given: Given) -> Read:
    if not document.is_json:
        message = (
            "AIPerf's and genai-perf's CSV is rounded and leaves out the settings; give the JSON that stands beside it"
        )
        names = "profile_export_aiperf.json, profile_export_aiperf_sweep.json or profile_export_genai_perf.json"
        raise NoCell(f"{message} ({names})", file=document.file_name)
    first = document.records[0].value if document.records else None
    if is_aggregate(first):
        return read_aggregate(document, given)
    if is_row(first):
        if is_run(value_beside(document, SUMMARY)):
            raise NoCell(f"the same run stands in {SUMMARY} beside it, which is read", file=document.file_name)
        return cell_of_rows(document, given)
    runs = [record for record in document.records if is_run(record.value)]
    if not runs:
        raise SweepError(f"this is none of AIPerf's results; give {SUMMARY}", file=document.file_name)
    notes = ["the last record is cut off and left out"] if document.is_torn else []
    cells = [
        _run(Fields(one.value, document.file_name, one.number if len(runs) > 1 else None, notes), document, given)
        for one in runs
    ]
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _run(fields: Fields, document: Document, given: Given) -> Cell:
    metrics, settings = Metrics(fields), Settings(fields.below("input_config"), fields.below("run_info"))
    speed = _per_stream(metrics, document)
    extra = {**settings.extra(), **_told(fields), **speed.extra}
    completed, failed = _counts(metrics)
    values = {
        **metrics.common(),
        **speed.values,
        **settings.load(document.file_name, extra),
        **settings.identity(),
        "guessed_configuration": guessed_name(document.file_name) or settings.model(),
        "itl": metrics.seconds("inter_chunk_latency", "p50"),
        "tool_version": fields.word("aiperf_version"),
        "acceptance_length": metrics.acceptance_length(),
        "completed_requests": completed,
        "failed_requests": failed,
        "duration_seconds": metrics.seconds("benchmark_duration"),
        "measured_at": unix_seconds(fields, "start_time"),
    }
    if fields.at("was_cancelled") is True or fields.at("is_complete") is False:
        values["flags"] = ("incomplete_run",)
        fields.note("the run was cancelled or did not finish")
    return cell(fields, given, **values, extra=extra)


def _told(fields: Fields) -> dict[str, str]:
    found = {
        "benchmark_id": fields.word("benchmark_id"),
        "sweep_id": fields.word("run_info", "sweep_id"),
        "trial": fields.word("run_info", "trial"),
        "schema_version": fields.word("schema_version"),
        "effective_concurrency": fields.word("effective_concurrency", "avg"),
    }
    return {key: word for key, word in found.items() if word}


def _counts(metrics: Metrics) -> tuple[int | None, int | None]:
    """Successful and failed requests. Failures are None where the file has nothing to count them by."""
    fields = metrics.fields
    completed, failed = metrics.count("request_count"), metrics.count("error_request_count")
    if failed is None:
        whole = metrics.count("completed_request_count")
        if completed is not None and whole is not None and whole >= completed:
            failed = whole - completed
        elif metrics.figure("request_error_rate") == 0:
            failed = 0
    summary = fields.at("error_summary")
    if failed is None and isinstance(summary, list):
        kinds = [Fields(one, fields.file_name, fields.row, fields.notes) for one in summary if isinstance(one, Mapping)]
        failed = sum(kind.count("count") or 0 for kind in kinds)
    return (0 if completed is None and failed else completed), failed


def _per_stream(metrics: Metrics, document: Document) -> Speed:
    """The tool's median; without one the rows beside, if they are of all requests; else an estimate."""
    speed = metrics.end_to_end()
    if speed is not None:
        return speed
    counted = metrics.count("request_count")
    if counted and is_row(value_beside(document, ROWS)):
        rows = document.beside(ROWS)
        good = profiled(rows, [])[0] if rows is not None else []
        if len(good) == counted:
            return speed_of(good)
    return metrics.estimated()


AIPERF = Reader(
    "aiperf",
    1,
    "AIPerf's profile_export_aiperf.json, profile_export.jsonl or profile_export_aiperf_sweep.json",
    _recognises,
    _read,
)
