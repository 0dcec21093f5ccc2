"""Reads results of Hugging Face's inference-benchmarker (also known as TGI's benchmarker).

Contains this format only. A result with constant users is a closed loop at that concurrency; one at a constant rate is
open, and on no level. The warm-up among the results is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell

NAME_KEYS = ("configuration", "config", "label", "name", "version")
WARMUP = "warmup"
_MS = 1e-3


def _is_result(value: Any) -> bool:
    return isinstance(value, Mapping) and "executor_type" in value and "token_throughput_secs" in value


def _recognises(document: Document) -> bool:
    if not document.is_json or "token_throughput_secs" not in document.head:
        return False
    value = document.records[0].value if document.records else None
    results = value.get("results") if isinstance(value, Mapping) else None
    return isinstance(results, list) and any(map(_is_result, results))


def _read(document: Document, given: Given) -> Read:
    cells, notes = [], list[str]()
    for record in document.records:
        report = Fields(record.value if isinstance(record.value, Mapping) else {}, document.file_name, None, notes)
        results = report.at("results")
        if not isinstance(results, list):
            raise report.fault("must be a list", "results")
        for number, result in enumerate(results, 1):
            fields = Fields(result if isinstance(result, Mapping) else {}, document.file_name, number, notes)
            if not _is_result(result):
                raise fields.fault("this is no result: it has no executor_type and token_throughput_secs", "results")
            if fields.word("id") != WARMUP:
                cells.append(_cell(fields, report, given))
    if not cells:
        raise NoCell("the file holds a warm-up and no measurement", file=document.file_name)
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, report: Fields, given: Given) -> Cell:
    done = fields.count("successful_requests")
    output_tokens = _each(fields.number("total_tokens"), done)
    e2e_median = fields.number("e2e_latency_ms", "p50", factor=_MS)
    speed = output_tokens / e2e_median if output_tokens and e2e_median else None
    return cell(
        fields,
        given,
        **_load(fields),
        configuration=_stated_name(report),
        guessed_configuration=guessed_name(fields.file_name),
        content=report.word("config", "profile"),
        prompt_tokens=_each(fields.number("total_tokens_sent"), done),
        output_tokens=output_tokens,
        aggregate=fields.number("token_throughput_secs"),
        per_stream=speed,
        per_stream_method="mean_out_over_median_e2e" if speed else None,
        derived=("per_stream",) if speed else (),
        ttft=fields.number("time_to_first_token_ms", "p50", factor=_MS),
        ttft_p95=_p95(fields),
        e2e=fields.number("e2e_latency_ms", "avg", factor=_MS),
        requests_per_second=fields.number("request_rate"),
        completed_requests=done,
        failed_requests=fields.count("failed_requests"),
        duration_seconds=fields.number("duration_ms", factor=_MS),
        measured_at=unix_seconds(report, "start_time"),
        tool="inference-benchmarker",
        model=report.word("config", "model_name"),
        streaming=True,
        token_source="client",  # noqa: S106 who counted, no secret
        extra=_extra(fields, report, has_speed=speed is not None),
    )


def _load(fields: Fields) -> dict[str, Any]:
    """The load of one result. Its `max_vus` is a ceiling where requests arrive at a rate."""
    kind = (fields.word("executor_type") or "").replace("_", "").lower()
    users = fields.number("config", "max_vus")
    if "arrival" in kind or "rate" in kind:
        return {"load_mode": "open", "concurrency_source": "unknown"}
    return {"load_mode": "closed", "concurrency": users}


def _p95(fields: Fields) -> float | None:
    """The first versions wrote their percentiles flat."""
    nested = fields.number("time_to_first_token_ms", "p95", factor=_MS)
    return fields.number("time_to_first_token_ms_p95", factor=_MS) if nested is None else nested


def _stated_name(report: Fields) -> str | None:
    """The configuration, where the extra metadata of the run names it."""
    return next((name for key in NAME_KEYS if (name := report.word("config", "meta", key))), None)


def _each(total: float | None, requests: int | None) -> float | None:
    return total / requests if total is not None and requests else None


def _extra(fields: Fields, report: Fields, *, has_speed: bool) -> dict[str, str]:
    meta = report.below("config", "meta").values
    words = {
        "per_stream_formula": "mean output tokens / median e2e" if has_speed else None,
        "result": fields.word("id"),
        "request_rate": fields.word("config", "rate"),
        "tokenizer": report.word("config", "tokenizer"),
        "run_id": report.word("config", "run_id"),
        **{f"meta.{name}"[:100]: report.word("config", "meta", name) for name in list(meta)[:20]},
    }
    return {name: word for name, word in words.items() if word}


HF_BENCHMARKER = Reader(
    "inference-benchmarker",
    1,
    "JSON of Hugging Face's inference-benchmarker (text-generation-inference)",
    _recognises,
    _read,
)
