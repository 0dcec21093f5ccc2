"""Hugging Face's inference-benchmarker: constant users are closed loops, arrival rates are open, the warm-up is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import SweepImport, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from tests.sweeps.mutating import mutations, outcomes


def spread(middle: float) -> dict[str, float]:
    return {"p50": middle, "p60": middle, "p95": 2 * middle, "p99": 3 * middle, "avg": 1.1 * middle}


def result(name: str, kind: str, users: int, rate: float | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "executor_type": kind,
        "config": {"max_vus": users, "duration": {"secs": 60, "nanos": 0}, "rate": rate},
        "total_requests": 101,
        "total_tokens": 20_000,
        "token_throughput_secs": 333.3,
        "duration_ms": 60_006,
        "time_to_first_token_ms": spread(40.0),
        "inter_token_latency_ms": spread(9.0),
        "failed_requests": 1,
        "successful_requests": 100,
        "request_rate": 1.6665,
        "total_tokens_sent": 50_000,
        "e2e_latency_ms": spread(2_000.0),
    }


REPORT: dict[str, Any] = {
    "config": {
        "max_vus": 128,
        "benchmark_kind": "Sweep",
        "tokenizer": "org/tiny",
        "model_name": "org/tiny",
        "profile": "chat",
        "prompt_options": {"num_tokens": 500},
        "meta": {"engine": "TGI", "tp": 2},
        "run_id": "tiny-1",
    },
    "results": [
        result("warmup", "ConstantVUs", 1),
        result("throughput", "ConstantVUs", 8),
        result("constant@1.67req/s", "ConstantArrivalRate", 128, 1.67),
    ],
    "start_time": "2026-11-29T10:00:00+00:00",
    "end_time": "2026-11-29T10:05:00+00:00",
    "system": {"cpu": ["one"], "hostname": "here"},
}


def read(report: Any) -> SweepImport:
    return read_sweep(json.dumps(report).encode(), "old-plain.json")


def test_a_result_with_constant_users_is_a_closed_loop() -> None:
    one = read(REPORT)
    cell = one.cells[0]

    assert ("inference-benchmarker", 2) == (one.reader, len(one.cells))
    assert ("old-plain", "chat", 8, "closed", 500, 200, 333.3, 100, 1, 2) == (
        cell.configuration,
        cell.content,
        cell.concurrency,
        cell.load_mode,
        cell.prompt_tokens,
        cell.output_tokens,
        cell.aggregate,
        cell.completed_requests,
        cell.failed_requests,
        cell.source_row,
    )
    assert (100, "mean_out_over_median_e2e", ("per_stream",)) == (
        per_stream_speed(cell),
        cell.per_stream_method,
        cell.derived,
    )
    assert (0.04, 0.08, 2.2, 1795946400.0) == (cell.ttft, cell.ttft_p95, round(cell.e2e or 0, 6), cell.measured_at)
    assert "failed_requests" in cell.flags
    assert "2" == cell.extra["meta.tp"]


def test_a_result_at_a_rate_is_on_no_level_whatever_its_ceiling_of_users() -> None:
    cell = read(REPORT).cells[1]

    assert (None, "open", "1.67") == (cell.concurrency, cell.load_mode, cell.extra["request_rate"])


def test_the_metadata_of_the_run_may_name_the_configuration() -> None:
    report = {**REPORT, "config": {**REPORT["config"], "meta": {"label": "spec4"}}}

    assert "spec4" == read(report).cells[0].configuration


def test_a_file_with_a_warm_up_alone_is_refused_in_words() -> None:
    with pytest.raises(SweepError, match="a warm-up and no measurement"):
        read({**REPORT, "results": REPORT["results"][:1]})


def test_the_first_versions_without_whole_requests_are_read() -> None:
    old = {**REPORT["results"][1], "time_to_first_token_ms_p95": 80}
    for name in ("e2e_latency_ms", "time_to_first_token_ms", "inter_token_latency_ms"):
        del old[name]
    cell = read({**REPORT, "results": [old]}).cells[0]

    assert (333.3, None, None, 0.08) == (cell.aggregate, cell.per_stream, cell.ttft, cell.ttft_p95)


def test_any_wrong_part_is_read_as_missing_or_refused() -> None:
    assert {"read", "refused"} == outcomes(mutations(REPORT, 400), "a.json", "inference-benchmarker")
