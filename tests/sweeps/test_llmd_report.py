"""llm-d Benchmark Reports: units are honoured, mislabelled ones left out, loads are what the report says."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from opmon.core.cells import SweepImport, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document, read_sweep
from opmon.sweeps.document import Document
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutating import mutations, outcomes


def statistic(units: str, middle: float, mean: float | None = None) -> dict[str, Any]:
    return {"units": units, "mean": mean or middle, "p50": middle, "p95": 2 * middle, "max": 3 * middle}


REPORT: dict[str, Any] = {
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {
                    "total": 80,
                    "failures": 0,
                    "input_length": statistic("count", 210),
                    "output_length": statistic("count", 60),
                },
                "latency": {
                    "time_to_first_token": statistic("ms", 32.0),
                    "normalized_time_per_output_token": statistic("ms/token", 5.0),
                    "time_per_output_token": statistic("s/token", 0.0045),
                    "request_latency": statistic("s", 0.3),
                },
                "throughput": {
                    "output_token_rate": {"units": "tokens/s", "mean": 780.0},
                    "request_rate": {"units": "queries/s", "mean": 13.0},
                },
            }
        }
    },
    "run": {
        "eid": "exp",
        "time": {"start": "2026-11-29T10:00:00Z", "end": "2026-11-29T10:01:02Z", "duration": "PT1M2.5S"},
    },
    "scenario": {
        "load": {
            "native": {"config": {"data": {"type": "shared_prefix"}, "server": {"api_key": "s3cret"}}},
            "standardized": {"tool": "inference-perf", "tool_version": "0.7.0", "concurrency": 4, "stage": 1},
        },
        "stack": [
            {
                "standardized": {
                    "kind": "inference_engine",
                    "model": {"name": "org/tiny"},
                    "accelerator": {"model": "H100", "count": 8},
                }
            },
            {"standardized": {"kind": "generic", "tool": "router"}},
        ],
    },
    "version": "0.2.1",
}
OLD: dict[str, Any] = {
    "version": "0.1",
    "scenario": {
        "host": {"accelerator": [{"model": "H100"}, {"model": "H100"}]},
        "model": {"name": "org/tiny", "quantization": "fp8"},
        "load": {"name": "vllm-benchmark"},
    },
    "metrics": {
        "time": {"duration": 16.5, "start": 1749570583.5},
        "requests": {"total": 32, "failures": 2, "output_length": statistic("count", 32)},
        "latency": {"time_to_first_token": statistic("s", 0.2), "request_latency": statistic("s", 2.0)},
        "throughput": {"output_tokens_per_sec": 60.0, "requests_per_sec": 1.9},
    },
}


def read(report: Any, *, as_yaml: bool = True) -> SweepImport:
    text = yaml.safe_dump(report) if as_yaml else json.dumps(report)
    return read_sweep(text.encode(), "spec4.yaml" if as_yaml else "spec4.json")


def with_part(value: Any, *path: str) -> dict[str, Any]:
    made = copy.deepcopy(REPORT)
    around: Any = made
    for key in path[:-1]:
        around = around[key]
    around[path[-1]] = value
    return made


@pytest.mark.parametrize("as_yaml", [True, False])
def test_a_report_is_a_cell_in_yaml_and_in_json(*, as_yaml: bool) -> None:
    one = read(REPORT, as_yaml=as_yaml)
    (cell,) = one.cells

    assert "llm-d" == one.reader
    assert ("spec4", "shared_prefix", 4, "closed", 210, 60, 780, 13, 80, 0, 62.5, 1795946400.0) == (
        cell.configuration,
        cell.content,
        cell.concurrency,
        cell.load_mode,
        cell.prompt_tokens,
        cell.output_tokens,
        cell.aggregate,
        cell.requests_per_second,
        cell.completed_requests,
        cell.failed_requests,
        cell.duration_seconds,
        cell.measured_at,
    )
    assert (200, "inv_median_ntpot", 0.032, 0.064, 0.0045, 0.3) == (
        per_stream_speed(cell),
        cell.per_stream_method,
        cell.ttft,
        cell.ttft_p95,
        cell.tpot,
        cell.e2e,
    )
    assert ("org/tiny", "H100", "inference-perf", "0.7.0") == (cell.model, cell.hardware, cell.tool, cell.tool_version)
    assert "s3cret" not in str(cell)


def test_the_first_version_is_read_by_its_own_names() -> None:
    (cell,) = read(OLD).cells

    assert ("org/tiny", "H100", "vllm-benchmark", 30, 2, 60, 16.5, 1749570583.5) == (
        cell.model,
        cell.hardware,
        cell.tool,
        cell.completed_requests,
        cell.failed_requests,
        cell.aggregate,
        cell.duration_seconds,
        cell.measured_at,
    )
    assert (16, "mean_out_over_median_e2e", None) == (per_stream_speed(cell), cell.per_stream_method, cell.concurrency)


def test_seconds_that_are_called_milliseconds_are_left_out_and_told() -> None:
    old = copy.deepcopy(OLD)
    for latency in old["metrics"]["latency"].values():
        latency["units"] = "ms"
    one = read(old)
    (cell,) = one.cells

    assert (None, None, None, 60) == (cell.ttft, cell.e2e, per_stream_speed(cell), cell.aggregate)
    assert any("their units are mislabelled" in note for note in one.notes)


def test_a_unit_that_is_not_known_leaves_its_figure_out() -> None:
    place = ("results", "request_performance", "aggregate", "latency", "time_to_first_token")
    one = read(with_part(statistic("fortnights", 3), *place))

    assert one.cells[0].ttft is None
    assert any("'fortnights'" in note for note in one.notes)


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ({"concurrency": 16}, ("closed", 16)),
        ({"concurrency": float("inf")}, ("unlimited", None)),
        ({"concurrency": float("inf"), "rate_qps": 10}, ("open", None)),
        ({"concurrency": 16, "rate_qps": 10}, ("open", None)),
        ({"concurrency": 16, "rate_qps": float("inf")}, ("closed", 16)),
        ({}, (None, None)),
    ],
)
def test_the_load_is_what_the_report_says(load: dict[str, Any], expected: tuple[str | None, float | None]) -> None:
    (cell,) = read(with_part(load, "scenario", "load", "standardized")).cells

    assert expected == (cell.load_mode, cell.concurrency)


def test_several_reports_in_one_file_are_told_apart_by_their_number() -> None:
    text = yaml.safe_dump_all([REPORT, with_part({"concurrency": 8}, "scenario", "load", "standardized")])
    cells = read_sweep(text.encode(), "both.yaml").cells

    assert [(4, 1), (8, 2)] == [(cell.concurrency, cell.source_row) for cell in cells]


def test_a_stage_of_inference_perf_is_read_from_its_own_file() -> None:
    name, text = "inference-perf.partial.stage_2.yaml", yaml.safe_dump(REPORT).encode()
    alone = read_document(Document.of_bytes(text, name))

    assert 1 == len(alone.cells)
    with pytest.raises(NoCell, match=r"stands in stage_2_lifecycle_metrics.json beside it"):
        read_document(Document.of_bytes(text, name, {"stage_2_lifecycle_metrics.json": b"{}"}))


def test_a_damaged_report_is_refused_with_its_line() -> None:
    with pytest.raises(SweepError, match=r"line \d+"):
        read_sweep((yaml.safe_dump(REPORT) + "  : [").encode(), "spec4.yaml")


@pytest.mark.parametrize("good", [REPORT, OLD], ids=["0.2.1", "0.1"])
def test_any_wrong_part_is_read_as_missing_or_refused(good: dict[str, Any]) -> None:
    assert {"read", "refused"} == outcomes(mutations(good, 500), "a.json", "llm-d")
