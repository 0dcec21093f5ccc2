"""LLMPerf's results: what its names mean, what single responses add, and what bad files become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import Cell, measured_concurrency
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document, read_sweep
from opmon.sweeps.document import Document
from opmon.sweeps.llmperf import LLMPERF
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutations import faults_of

SUMMARY, RESPONSES = "m_550_150_summary.json", "m_550_150_individual_responses.json"


def summary(**more: Any) -> Any:
    """Sixty requests a minute of 150 tokens in 3 s each, four at once."""
    return {
        "version": "2023-08-31",
        "name": "org-m_550_150_summary",
        "model": "org/m",
        "mean_input_tokens": 550,
        "mean_output_tokens": 150,
        "num_concurrent_requests": 4,
        "results_inter_token_latency_s_quantiles_p50": 0.02,
        "results_ttft_s_quantiles_p50": 0.2,
        "results_ttft_s_quantiles_p95": 0.4,
        "results_end_to_end_latency_s_mean": 3.0,
        "results_end_to_end_latency_s_quantiles_p50": 3.0,
        "results_request_output_throughput_token_per_s_quantiles_p50": 51.0,
        "results_number_input_tokens_mean": "550",
        "results_number_output_tokens_mean": 150.0,
        "results_num_requests_started": 22,
        "results_number_errors": 2,
        "results_mean_output_throughput_token_per_s": 150.0,
        "results_num_completed_requests": 20,
        "results_num_completed_requests_per_min": 60.0,
        "timestamp": 1_703_136_129,
        **more,
    }


def responses(speeds: list[float]) -> Any:
    return [
        {
            "error_code": None,
            "error_msg": "",
            "inter_token_latency_s": 0.02,
            "ttft_s": 0.25,
            "end_to_end_latency_s": 3.0,
            "request_output_throughput_token_per_s": speed,
            "number_output_tokens": 150,
            "number_input_tokens": 550,
        }
        for speed in speeds
    ]


def read(value: Any, name: str = SUMMARY, **others: Any) -> Cell:
    beside = {f"m_550_150_{key}.json": json.dumps(one).encode() for key, one in others.items()}
    return read_document(Document.of_bytes(json.dumps(value).encode(), name, beside)).cells[0]


def test_a_summary_becomes_a_cell_with_the_tools_own_end_to_end_speed() -> None:
    cell = read(summary())
    assert ("org-m", "sonnet 550/150", "org/m", "llmperf", "2023-08-31") == (
        cell.configuration, cell.content, cell.model, cell.tool, cell.tool_version,
    )  # fmt: skip
    assert (4, "closed", 150, 51, "tool_p50") == (
        cell.concurrency, cell.load_mode, cell.aggregate, cell.per_stream, cell.per_stream_method,
    )  # fmt: skip
    assert (0.2, 0.4, 550, 150, 20, 2, 20.0) == (
        cell.ttft, cell.ttft_p95, cell.prompt_tokens, cell.output_tokens, cell.completed_requests, cell.failed_requests,
        cell.duration_seconds,
    )  # fmt: skip
    assert 1_703_136_129 == cell.measured_at
    assert 3.0 == measured_concurrency(cell)


def test_its_inter_token_latency_has_the_first_token_in_it_and_is_no_tpot() -> None:
    cell = read(summary())
    assert (None, None) == (cell.tpot, cell.decode)


def test_what_a_person_gave_as_metadata_names_the_configuration_and_is_kept() -> None:
    cell = read(summary(config="new", workload="chat", framework="vllm"))
    assert ("new", "chat", "vllm") == (cell.configuration, cell.content, cell.extra["framework"])


def test_the_responses_beside_say_what_95_percent_reach() -> None:
    cell = read(summary(), individual_responses=responses([30.0, *[51.0] * 19]))
    assert (51, 51, "tool_p50") == (cell.per_stream, cell.per_stream_p95, cell.per_stream_method)
    fewer = read(summary(), individual_responses=responses([30.0] * 3))
    assert None is fewer.per_stream_p95


def test_responses_alone_give_speeds_and_no_aggregate() -> None:
    listed = responses([40.0, 50.0, 60.0, 1.0])
    listed[-1]["error_code"] = 503
    cell = read(listed, "concurrency_4/m_individual_responses.json")
    assert (50, 40, "rows", None) == (cell.per_stream, cell.per_stream_p95, cell.per_stream_method, cell.aggregate)
    assert (4, "path", 3, 1) == (
        cell.concurrency, cell.concurrency_source, cell.completed_requests, cell.failed_requests,
    )  # fmt: skip
    assert (0.25, 0.25, 3.0) == (cell.ttft, cell.ttft_p95, cell.e2e)


def test_responses_beside_their_summary_give_no_cell() -> None:
    with pytest.raises(NoCell, match=r"m_550_150_summary\.json"):
        read(responses([50.0]), RESPONSES, summary=summary())


def test_without_the_tools_median_the_speed_is_an_estimate() -> None:
    value = summary()
    del value["results_request_output_throughput_token_per_s_quantiles_p50"]
    cell = read(value)
    assert (50, "mean_out_over_median_e2e", ("per_stream",)) == (cell.per_stream, cell.per_stream_method, cell.derived)


def test_a_run_in_which_all_failed_measured_nothing() -> None:
    cell = read(summary(results_num_completed_requests=0, results_number_errors=22))
    assert (None, None, 22) == (cell.aggregate, cell.per_stream, cell.failed_requests)
    assert "no_success" in cell.flags


def test_a_field_that_is_no_number_is_named() -> None:
    with pytest.raises(SweepError, match=r"field 'results_ttft_s_quantiles_p50': '0,2' is not a number"):
        read(summary(results_ttft_s_quantiles_p50="0,2"))


def test_appended_summaries_are_cells_of_their_own_and_a_torn_one_is_told() -> None:
    text = json.dumps(summary())
    got = read_sweep(f"\ufeff{text}\r\n{text}\r\n{text[:30]}".encode(), SUMMARY)
    assert [1, 2] == [cell.source_row for cell in got.cells]
    assert "the last record is cut off and left out" in got.notes


def test_whatever_is_wrong_in_a_file_becomes_words_or_sound_figures() -> None:
    assert [] == faults_of(LLMPERF, summary(), times=600)
    assert [] == faults_of(LLMPERF, responses([40.0, 50.0]), times=400)
