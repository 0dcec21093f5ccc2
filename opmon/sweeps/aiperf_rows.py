"""AIPerf's `profile_export.jsonl`: a record a request, in the units that each metric names.

Contains the choice of rows (the profiling phase, without warm-up) and a cell of them, for a run whose summary is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.aiperf_settings import Settings
from opmon.sweeps.beside import json_beside
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.perf_metrics import Metrics
from opmon.sweeps.reading import Fields, Given, Read, cell
from opmon.sweeps.request_rows import known, mean_of, quantile_of
from opmon.sweeps.speeds import Speed, measured, quotient

ROWS = "profile_export.jsonl"


def is_row(value: Any) -> bool:
    """Whether a JSON value is the record of one request."""
    metadata = value.get("metadata") if isinstance(value, Mapping) else None
    return isinstance(metadata, Mapping) and ("benchmark_phase" in metadata or "request_start_ns" in metadata)


def profiled(document: Document, notes: list[str]) -> tuple[list[Fields], int]:
    """The successful requests of the profiling phase, and how many failed in it."""
    good, failed = [], 0
    for record in document.records:
        row = Fields(
            record.value if isinstance(record.value, Mapping) else {}, document.file_name, record.number, notes
        )
        phase = row.word("metadata", "phase_kind") or row.word("metadata", "benchmark_phase") or "profiling"
        if phase.lower() != "profiling" or row.at("metadata", "context_overflow_skip") is True:
            continue
        if row.has("error") or row.at("metadata", "was_cancelled") is True or not row.has("metrics"):
            failed += 1
        else:
            good.append(row)
    return good, failed


def speed_of(good: Sequence[Fields]) -> Speed:
    """End-to-end speeds of requests."""
    return measured(_values(good, "output_sequence_length"), _times(good, "request_latency"))


def cell_of_rows(document: Document, given: Given) -> Read:
    """A cell of the rows alone. The run's settings may stand beside them (run_config.json)."""
    notes = ["the last record is cut off and left out"] if document.is_torn else []
    good, failed = profiled(document, notes)
    fields = Fields({}, document.file_name, None, notes)
    beside = json_beside(fields, document, "run_config.json")
    settings = Settings(beside.below("cfg"), beside)
    extra = settings.extra()
    values = {
        **settings.load(document.file_name, extra),
        **settings.identity(),
        "guessed_configuration": guessed_name(document.file_name) or settings.model(),
        **_figures(good),
        **speed_of(good).values,
        "completed_requests": len(good),
        "failed_requests": failed,
    }
    made: Cell = cell(fields, given, **values, extra=extra)
    return Read((made,), tuple(dict.fromkeys(notes)))


def _figures(good: Sequence[Fields]) -> dict[str, Any]:
    begun = [row.number("metadata", "request_start_ns", factor=1e-9) for row in good]
    ended = [row.number("metadata", "request_end_ns", factor=1e-9) for row in good]
    tokens = _values(good, "output_sequence_length")
    duration = None
    if good and all(begun) and all(ended) and max(known(ended)) > min(known(begun)):
        duration = max(known(ended)) - min(known(begun))
    firsts, gaps = _times(good, "time_to_first_token"), _times(good, "inter_token_latency")
    steps = known(_values(good, "spec_decode_steps"))
    accepted = known(_values(good, "spec_decode_accepted_draft_tokens"))
    is_told = len(steps) == len(accepted) > 0 and sum(steps) > 0
    return {
        "aggregate": quotient(sum(known(tokens)), duration) if None not in tokens else None,
        "prompt_tokens": mean_of(_values(good, "input_sequence_length")),
        "output_tokens": mean_of(tokens),
        "ttft": quantile_of(firsts, 0.5),
        "ttft_p95": quantile_of(firsts, 0.95),
        "tpot": quantile_of(gaps, 0.5),
        "e2e": mean_of(_times(good, "request_latency")),
        "requests_per_second": quotient(len(good), duration),
        "duration_seconds": duration,
        "measured_at": min(known(begun), default=None),
        "acceptance_length": 1 + sum(accepted) / sum(steps) if is_told else None,
    }


def _values(good: Sequence[Fields], metric: str) -> list[float | None]:
    return [row.number("metrics", metric, "value") for row in good]


def _times(good: Sequence[Fields], metric: str) -> list[float | None]:
    return [Metrics(row.below("metrics")).seconds(metric, "value") for row in good]
