"""GuideLLM's CSV (0.4 and newer) in the shape of its JSON report, as far as it tells.

Contains the three header rows (group, metric, statistic) and the list of percentiles in one field. What the CSV leaves
out (single requests, unfinished requests' tokens) stays absent.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Mapping
from io import StringIO
from typing import Any

from opmon.errors import SweepError

GIVE_JSON = "give the JSON that GuideLLM wrote beside it (benchmarks.json)"
_PERCENTILES = ("min", "p001", "p01", "p05", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_METRICS = {
    ("Request Latency", "Successful Sec"): "request_latency",
    ("Time to First Token", "Successful ms"): "time_to_first_token_ms",
    ("Inter Token Latency", "Successful ms"): "inter_token_latency_ms",
    ("Server Throughput", "Successful Concurrency"): "request_concurrency",
    ("Token Metrics", "Successful Input Tokens"): "prompt_token_count",
    ("Token Metrics", "Successful Output Tokens"): "output_token_count",
    ("Token Throughput", "Successful Output Tokens/Sec"): "output_tokens_per_second",
    ("Token Streaming", "Successful Output Tokens/Iter"): "output_tokens_per_iteration",
}
_TOTALS = {"Successful": "successful", "Incomplete": "incomplete", "Errored": "errored", "Total": "total"}


def looks_like_csv(head: str) -> bool:
    """Whether the text begins with the groups of GuideLLM's columns."""
    first = head.lstrip("\ufeff \r\n").split("\n", 1)[0]
    return first.startswith(("Run Info,Run Info,", '"Run Info","Run Info",'))


def csv_report(text: str, file_name: str) -> dict[str, Any]:
    """The report that the rows tell. Raises SweepError where the file is no such CSV, with the advice to give the JSON."""
    rows = _rows(text, file_name)
    if len(rows) < 4:
        raise SweepError(f"GuideLLM's CSV has three header rows and a row a benchmark; {GIVE_JSON}", file=file_name)
    if len({len(row) for row in rows}) != 1:
        raise SweepError(f"the rows of this GuideLLM CSV are of different lengths; {GIVE_JSON}", file=file_name)
    header = list(zip(*rows[:3], strict=True))
    found = [dict(zip(header, row, strict=True)) for row in rows[3:]]
    first = found[0]
    return {
        "metadata": _object(first.get(("Runtime Info", "Metadata", ""))),
        "config": _object(first.get(("Runtime Info", "Arguments", ""))),
        "args": _object(first.get(("Runtime Info", "Arguments", ""))),
        "benchmarks": [_benchmark(row, file_name, number) for number, row in enumerate(found, start=1)],
    }


def _rows(text: str, file_name: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(StringIO(text.lstrip("\ufeff")), strict=True) if row]
    except csv.Error as error:
        raise SweepError(f"the CSV cannot be read ({error}); {GIVE_JSON}", file=file_name) from error


def _benchmark(row: Mapping[tuple[str, ...], str], file_name: str, number: int) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "request_totals": {name: row.get(("Request Counts", column, "")) for column, name in _TOTALS.items()}
    }
    for (group, column), name in _METRICS.items():
        metrics[name] = {"successful": _distribution(row, group, column)}
    return {
        "config": {
            "strategy": _strategy(row, file_name, number),
            "backend": _object(row.get(("Run Info", "Backend", ""))),
            "requests": _object(row.get(("Run Info", "Requests", ""))),
        },
        "metrics": metrics,
        "duration": row.get(("Timings", "Duration", "Sec")),
        "warmup_duration": row.get(("Timings", "Warmup", "Sec")),
        "cooldown_duration": row.get(("Timings", "Cooldown", "Sec")),
        "start_time": row.get(("Timings", "Measure Start Time", "")),
    }


def _distribution(row: Mapping[tuple[str, ...], str], group: str, column: str) -> dict[str, Any]:
    percentiles = row.get((group, column, "Percentiles"), "")
    try:
        figures = ast.literal_eval(percentiles) if len(percentiles) <= 10_000 else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        figures = None
    named = isinstance(figures, list) and len(figures) == len(_PERCENTILES)
    return {
        "mean": row.get((group, column, "Mean")),
        "median": row.get((group, column, "Median")),
        "percentiles": dict(zip(_PERCENTILES, figures or (), strict=True)) if named else {},
    }


def _strategy(row: Mapping[tuple[str, ...], str], file_name: str, number: int) -> dict[str, Any]:
    """`concurrent@4`, or `concurrent` with the streams in the profile. Raises SweepError where the load is not told."""
    kind, _, level = row.get(("Benchmark", "Strategy", ""), "").partition("@")
    if kind in ("synchronous", "throughput"):
        return {"type_": kind}
    profile = _object(row.get(("Run Info", "Profile", "")))
    if kind == "concurrent":
        streams = profile.get("streams")
        index = row.get(("Run Info", "Run Index", ""), "")
        if level:
            return {"type_": kind, "streams": level}
        if isinstance(streams, list) and index.isdigit() and int(index) < len(streams):
            return {"type_": kind, "streams": streams[int(index)]}
        raise SweepError(f"this CSV does not say how many streams a run had; {GIVE_JSON}", file=file_name, row=number)
    return {"type_": kind, "rate": level or None}


def _object(text: str | None) -> dict[str, Any]:
    """A field that holds JSON; empty where it holds none."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
