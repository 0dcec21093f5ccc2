"""InferenceX: its client, the rows of its CI, and its agentic benchmark. The figures are made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import Cell, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

CLIENT: dict[str, Any] = json.loads(
    """
    {"date": "20260213-141321", "model_id": "org/Name-FP8", "tokenizer_id": "org/Name-FP8", "num_prompts": 40,
     "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4, "duration": 32.0, "completed": 40,
     "good_completed": null, "total_input_tokens": 40960, "total_output_tokens": 5120, "request_throughput": 1.25,
     "request_goodput": null, "input_throughput": 1280.0, "output_throughput": 160.0, "median_ttft": 0.25,
     "p99_ttft": 0.6, "median_e2el": 3.2, "p99_e2el": 3.7, "median_tpot": 0.021, "p99_tpot": 0.026}
    """
)
ROW: dict[str, Any] = json.loads(
    """
    {"hw": "h200", "conc": 16, "image": "vllm/vllm:v0.12", "model": "org/Name-FP8", "infmax_model_prefix": "name",
     "framework": "vllm", "precision": "fp8", "spec_decoding": "mtp", "disagg": false, "isl": 1024, "osl": 1024,
     "is_multinode": false, "tp": 8, "ep": 1, "dp_attention": "false", "tput_per_gpu": 250.0,
     "output_tput_per_gpu": 120.0, "input_tput_per_gpu": 130.0, "mean_ttft": 0.4, "median_ttft": 0.3, "p99_ttft": 1.2,
     "std_ttft": 0.2, "mean_tpot": 0.017, "median_tpot": 0.016, "p99_tpot": 0.03, "std_tpot": 0.002,
     "mean_intvty": 58.8, "median_intvty": 62.5, "p99_intvty": 33.3, "std_intvty": 500.0, "median_itl": 0.015,
     "mean_e2el": 17.5, "median_e2el": 16.9}
    """
)
AGENTIC: dict[str, Any] = json.loads(
    """
    {"hw": "b200", "conc": 8, "image": "x", "model": "org/Name", "framework": "vllm", "precision": "fp4",
     "spec_decoding": "none", "disagg": false, "scenario_type": "agentic-coding", "tp": 4, "ep": 1,
     "dp_attention": "false", "num_requests_total": 130, "num_requests_successful": 120,
     "request_accounting": {"records_total": 130, "records_warmup_dropped": 8, "records_error_dropped": 2},
     "request_metrics": {
       "qps": {"mean": 0.41},
       "latency": {"ttft": {"mean": 1.0, "p50": 0.8, "p95": 3.0}, "e2el": {"mean": 16.0, "p50": 10.0},
                   "itl": {"p50": 0.02}, "tpot": {"p50": 0.02}, "intvty": {"p50": 50.0},
                   "e2e_norm_intvty": {"p50": 42.0, "p90": 20.0}},
       "tokens": {"input": {"mean": 60000.0}, "output_actual": {"mean": 600.0, "p50": 400.0}},
       "throughput": {"output": {"tokens_per_second": 240.0}, "total": {"tokens_per_second": 24240.0}, "input": {"tokens_per_second": 24000.0},
                      "duration_seconds": 300.0, "per_gpu": {"output_tput_tps": 60.0}}}}
    """
)


def read(value: Any, name: str = "agg.json", **given: str) -> tuple[Cell, ...]:
    return read_sweep(json.dumps(value).encode(), name, **given).cells


def test_the_client_writes_seconds() -> None:
    (cell,) = read(CLIENT, "glm-isl1024-conc4.json")
    assert (0.25, 0.021, 160.0, 4.0) == (cell.ttft, cell.tpot, cell.aggregate, cell.concurrency)
    assert (1024.0, 128.0, 0) == (cell.prompt_tokens, cell.output_tokens, cell.failed_requests)
    assert (40.0, "mean_out_over_median_e2e") == (cell.per_stream, cell.per_stream_method)
    assert ("glm", "random", "inferencex") == (cell.configuration, cell.content, cell.tool)


def test_a_row_has_output_tokens_per_gpu_times_its_gpus() -> None:
    (cell,) = read(ROW)
    assert (960.0, "output_tput_per_gpu x 8 GPUs") == (cell.aggregate, cell.extra["aggregate_formula"])
    assert (16.0, "closed", 1024.0) == (cell.concurrency, cell.load_mode, cell.prompt_tokens)
    assert "lengths_requested_only" in cell.flags


def test_interactivity_is_no_speed_of_a_request() -> None:
    (cell,) = read(ROW)
    assert pytest.approx(1024 / (0.3 + 1023 * 0.016)) == per_stream_speed(cell)
    assert ("ttft_plus_tpot", ("aggregate", "per_stream")) == (cell.per_stream_method, cell.derived)


def test_a_row_names_everything_that_two_servers_may_differ_in() -> None:
    assert "h200 vllm fp8 mtp tp8" == read(ROW)[0].configuration
    other = {**ROW, "spec_decoding": "none", "tp": 4, "ep": 4, "dp_attention": "true"}
    assert "h200 vllm fp8 tp4 ep4 dp-attention" == read(other)[0].configuration


def test_with_disaggregation_output_is_per_gpu_that_decodes() -> None:
    (cell,) = read({**ROW, "disagg": True, "num_prefill_gpu": 4, "num_decode_gpu": 12})
    assert (1440.0, "h200 vllm fp8 mtp 4+12 GPUs") == (cell.aggregate, cell.configuration)


def test_total_tokens_per_gpu_are_never_an_aggregate_of_output() -> None:
    row = {key: value for key, value in ROW.items() if key != "output_tput_per_gpu"}
    imported = read_sweep(json.dumps(row).encode(), "agg.json")
    assert [None] == [cell.aggregate for cell in imported.cells]
    assert any("tput_per_gpu counts prompts too" in note for note in imported.notes)


def test_a_list_of_rows_has_a_cell_each_with_its_number() -> None:
    assert [(1, 16.0), (2, 32.0)] == [(c.source_row, c.concurrency) for c in read([ROW, {**ROW, "conc": 32}])]


def test_a_row_that_is_none_is_refused_by_its_number() -> None:
    with pytest.raises(SweepError, match=r"agg\.json, row 2: this is no result of InferenceX"):
        read([ROW, {"conc": 1}])


def test_an_agents_sessions_are_a_load_of_their_own_with_the_tools_own_median() -> None:
    (cell,) = read(AGENTIC)
    assert (8.0, "closed_sessions", "agentic-coding") == (cell.concurrency, cell.load_mode, cell.content)
    assert (42.0, "tool_p50", ("aggregate",)) == (cell.per_stream, cell.per_stream_method, cell.derived)
    assert (240.0, 0.8, 3.0, 0.02) == (cell.aggregate, cell.ttft, cell.ttft_p95, cell.tpot)
    assert (120, 2, 0.4) == (cell.completed_requests, cell.failed_requests, cell.requests_per_second)


def test_an_agents_output_rate_is_what_prompts_leave_of_all_tokens_or_that_of_all_gpus() -> None:
    assert "total - input tokens per second" == read(AGENTIC)[0].extra["aggregate_formula"]
    made = json.loads(json.dumps(AGENTIC))
    del made["request_metrics"]["throughput"]["input"]
    (cell,) = read(made)
    assert (240.0, "output_tput_tps per GPU x 4 GPUs") == (cell.aggregate, cell.extra["aggregate_formula"])
    (cell,) = read({**made, "num_prefill_gpu": 4, "num_decode_gpu": 2})
    assert 360.0 == cell.aggregate


def test_an_agents_speed_without_the_tools_median_is_estimated_from_medians() -> None:
    made = json.loads(json.dumps(AGENTIC))
    del made["request_metrics"]["latency"]["e2e_norm_intvty"]
    (cell,) = read(made)
    assert pytest.approx(400 / (0.8 + 399 * 0.02)) == cell.per_stream
    assert "n / (TTFT + (n - 1) TPOT), all medians" == cell.extra["per_stream_formula"]


@pytest.mark.parametrize("value", [CLIENT, ROW, AGENTIC, [ROW, AGENTIC]], ids=["client", "row", "agentic", "list"])
def test_a_spoilt_value_is_refused_or_gives_figures_that_can_be(value: Any) -> None:
    outcomes = [outcome(as_json(one), "new.json") for one in mutations(value, 400)]
    assert [] == [fault for _, cells in outcomes for fault in unsound(cells)]
    assert {True, False} == {bool(words) for words, _ in outcomes}
