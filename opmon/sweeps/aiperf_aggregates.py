"""AIPerf's aggregates over runs: of a sweep (a cell a combination), and of repeats of one run (`confidence`).

Contains means over runs, so one such file is as good as the runs where nothing else was kept. Where the runs themselves
stand beside it in the folder that is read, they are read, and the aggregate would count them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import concurrency_in, guessed_name, parts_of
from opmon.sweeps.perf_metrics import Metrics, nested
from opmon.sweeps.reading import Fields, Given, NoCell, Read, cell

_RUN = "profile_export_aiperf.json"
_FIRST_RUNS = ("run_0001", "trial_0001", "run_0000", "trial_0000")
_BESIDE = "every run of it stands in a folder beside it, and those are read"


def is_aggregate(value: Any) -> bool:
    """Whether a JSON value is an aggregate over runs of a sweep or over repeats."""
    if not isinstance(value, Mapping):
        return False
    if value.get("aggregation_type") == "sweep":
        return isinstance(value.get("per_combination_metrics"), list)
    metadata = value.get("metadata")
    is_repeats = isinstance(metadata, Mapping) and metadata.get("aggregation_type") == "confidence"
    return is_repeats and isinstance(value.get("metrics"), Mapping)


def read_aggregate(document: Document, given: Given) -> Read:
    """The cells of an aggregate. Raises NoCell where every run stands beside it."""
    notes: list[str] = []
    cells: list[Cell] = []
    for record in document.records:
        if not is_aggregate(record.value):
            continue
        top = Fields(record.value, document.file_name, None, notes)
        if top.at("aggregation_type") == "sweep":
            cells += _of_sweep(top, document, given)
        elif not _has_run(document, "..", ""):
            cells.append(_mean(top, given, {}, concurrency_in(document.file_name), "num_successful_runs"))
    if not cells:
        raise NoCell(_BESIDE, file=document.file_name)
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _of_sweep(top: Fields, document: Document, given: Given) -> list[Cell]:
    listed = top.at("per_combination_metrics")
    cells = []
    for number, one in enumerate(listed, start=1):
        row = Fields(one if isinstance(one, Mapping) else {}, document.file_name, number, top.notes)
        parameters = row.below("parameters")
        level = _parameter(parameters, "concurrency")
        folder = f"concurrency_{level:.0f}" if level is not None else "none"
        if _has_run(document, "..", folder) or _has_run(document, "../..", folder):
            continue
        extra = {str(key)[:60]: word for key in parameters.values if (word := parameters.word(key))}
        row = Fields({**row.values, "metadata": top.at("metadata")}, row.file_name, number, top.notes)
        cells.append(_mean(row, given, extra, level, "num_trials_per_value"))
    if not listed:
        raise top.fault("the sweep holds no combination: no run succeeded", "per_combination_metrics")
    return cells


def _has_run(document: Document, up: str, folder: str) -> bool:
    """Whether a run is in a folder beside the aggregate's, below the folder that is read (the file's name starts there)."""
    if len(parts_of(document.file_name)) <= len(parts_of(up)):
        return False
    ways = [folder] if folder else []
    for first in _FIRST_RUNS:
        ways += [f"{folder}/profile_runs/{first}", f"profile_runs/{first}/{folder}"]
    return any(document.beside(f"{up}/{way.strip('/')}/{_RUN}") is not None for way in ways)


def _parameter(parameters: Fields, last: str) -> float | None:
    """A parameter by the last part of its path (`phases.profiling.concurrency`)."""
    key = next((key for key in parameters.values if str(key).rpartition(".")[2] == last), None)
    return parameters.number(key) if key is not None else None


def _mean(row: Fields, given: Given, extra: dict[str, str], level: float | None, repeats: str) -> Cell:
    fields = Fields(nested(row.below("metrics").values), row.file_name, row.row, row.notes)
    metrics = Metrics(fields)
    extra["repeats"] = row.word("metadata", repeats) or "1"
    extra |= {
        f"aggregate_{side}": word
        for side in ("std", "ci_low", "ci_high")
        if (word := fields.word("output_token_throughput", side))
    }
    rate = _parameter(row.below("parameters"), "rate") or _parameter(row.below("parameters"), "request_rate")
    speed = metrics.end_to_end() or metrics.estimated()
    failed = metrics.figure("error_request_count")
    if failed is None and metrics.figure("request_error_rate") == 0:
        failed = 0
    completed = metrics.figure("request_count")
    values = {
        **metrics.common(),
        **speed.values,
        **_load(level, rate, fields),
        "itl": metrics.seconds("inter_chunk_latency", "p50"),
        "tool": "aiperf",
        "tool_version": row.word("aiperf_version"),
        "acceptance_length": metrics.acceptance_length(),
        "completed_requests": None if completed is None else round(completed),
        "failed_requests": None if failed is None else -int(-failed // 1),
        "duration_seconds": metrics.seconds("benchmark_duration"),
        "guessed_configuration": guessed_name(row.file_name),
    }
    return cell(fields, given, **values, extra={**extra, **speed.extra})


def _load(level: float | None, rate: float | None, fields: Fields) -> dict[str, Any]:
    if rate is not None:
        return {"concurrency_source": "unknown", "load_mode": "open"}
    if level is None:
        fields.note("the aggregate does not say the concurrency of its runs, so the cell has none")
        return {"concurrency_source": "unknown"}
    return {"concurrency": level, "load_mode": "closed"}
