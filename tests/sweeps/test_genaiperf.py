"""genai-perf's exports: what its metrics mean, what the client's file beside adds, and what bad files become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import Cell, decode_speed
from opmon.sweeps.detect import read_document, reader_of
from opmon.sweeps.document import Document
from opmon.sweeps.genaiperf import GENAI_PERF
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutations import faults_of

SUMMARY, CLIENT = "profile_export_genai_perf.json", "profile_export.json"
SECOND = 1_000_000_000


def summary(**more: Any) -> Any:
    """A run of ten requests of 100 tokens in 2 s each at concurrency 4."""

    def metric(avg: float, unit: str, **figures: float) -> dict[str, Any]:
        return {"unit": unit, "avg": avg, **figures}

    return {
        "request_throughput": metric(2.0, "requests/sec"),
        "request_latency": metric(2000, "ms", p50=2000),
        "request_count": metric(10, "count"),
        "time_to_first_token": metric(50, "ms", p50=40, p95=90),
        "inter_token_latency": metric(20, "ms", p50=19.8),
        "output_token_throughput": metric(200, "tokens/sec"),
        "output_token_throughput_per_user": metric(50, "tokens/sec/user", p50=50.5),
        "output_sequence_length": metric(100, "tokens", min=100, max=100),
        "input_sequence_length": metric(550, "tokens"),
        "input_config": {
            "model_names": ["m"],
            "endpoint": {"type": "chat", "streaming": True},
            "perf_analyzer": {"stimulus": {"concurrency": 4}},
        },
        **more,
    }


def client(seconds: list[float], mode: str = "concurrency", value: float = 4) -> Any:
    """The client's file: requests begun at once that took these seconds, the first answer after 50 ms."""
    requests = [
        {
            "timestamp": 1_800_000_000 * SECOND,
            "request_inputs": {"payload": "{}"},
            "response_timestamps": [
                1_800_000_000 * SECOND + SECOND // 20,
                1_800_000_000 * SECOND + round(took * SECOND),
            ],
            "response_outputs": [{"response": "data: {}"}],
        }
        for took in seconds
    ]
    return {
        "service_kind": "openai",
        "endpoint": "v1/chat/completions",
        "experiments": [{"experiment": {"mode": mode, "value": value}, "requests": requests}],
    }


def read(value: Any, name: str = SUMMARY, beside: Any = None) -> Cell:
    others = {CLIENT: json.dumps(beside).encode()} if beside is not None else {}
    document = Document.of_bytes(json.dumps(value).encode(), name, others)
    return read_document(document, configuration="one").cells[0]


def test_a_summary_becomes_a_cell_whose_per_user_speed_is_decode_only() -> None:
    cell = read(summary())
    assert ("genai-perf", 4, "closed", "m", "chat", True) == (
        cell.tool, cell.concurrency, cell.load_mode, cell.model, cell.api, cell.streaming,
    )  # fmt: skip
    assert (200, 50.5, 0.04, 0.09, 2.0, 5.0) == (
        cell.aggregate, decode_speed(cell), cell.ttft, cell.ttft_p95, cell.e2e, cell.duration_seconds,
    )  # fmt: skip
    assert (50, "mean_out_over_median_e2e", ("per_stream",)) == (cell.per_stream, cell.per_stream_method, cell.derived)
    assert (550, 100, 10, None) == (
        cell.prompt_tokens, cell.output_tokens, cell.completed_requests, cell.failed_requests,
    )  # fmt: skip


def test_with_outputs_of_one_length_the_latencies_beside_give_the_speed_exactly() -> None:
    cell = read(summary(), beside=client([1.0] * 3 + [2.0, 4.0]))
    assert (100, "const_out_latency_rows", ()) == (cell.per_stream, cell.per_stream_method, cell.derived)
    assert 25 == cell.per_stream_p95
    varied = summary(output_sequence_length={"unit": "tokens", "avg": 100, "min": 20, "max": 180})
    assert "mean_out_over_median_e2e" == read(varied, beside=client([1.0] * 5)).per_stream_method


def test_the_old_tools_own_speed_of_a_request_is_end_to_end() -> None:
    own = {"unit": "tokens/sec", "avg": 49, "p50": 48.5}
    cell = read(summary(output_token_throughput_per_request=own))
    assert (48.5, "tool_p50") == (cell.per_stream, cell.per_stream_method)


@pytest.mark.parametrize(
    ("config", "name", "expected"),
    [
        ({"concurrency": 8, "request_rate": None}, SUMMARY, (8, "closed", "declared")),
        ({"perf_analyzer": {"stimulus": {"request_rate": 2.5}}}, SUMMARY, (None, "open", "unknown")),
        ({}, f"m-openai-chat-concurrency16/{SUMMARY}", (16, "closed", "path")),
        ({}, SUMMARY, (None, None, "unknown")),
    ],
)
def test_the_load_is_in_the_settings_of_either_family_or_the_folders_name(
    config: dict[str, Any], name: str, expected: tuple[Any, ...]
) -> None:
    cell = read(summary(input_config=config), name)
    assert expected == (cell.concurrency, cell.load_mode, cell.concurrency_source)


def test_the_clients_file_alone_has_times_and_no_speed() -> None:
    cell = read(client([1.0, 2.0, 3.0]), CLIENT)
    assert (4, 0.05, 2.0, 3, 1.0) == (
        cell.concurrency, cell.ttft, cell.e2e, cell.completed_requests, cell.requests_per_second,
    )  # fmt: skip
    assert (None, None) == (cell.aggregate, cell.per_stream)


def test_the_clients_file_beside_its_summary_gives_no_cell() -> None:
    others = {SUMMARY: json.dumps(summary()).encode()}
    document = Document.of_bytes(json.dumps(client([1.0])).encode(), CLIENT, others)
    with pytest.raises(NoCell, match=r"profile_export_genai_perf\.json"):
        read_document(document, configuration="one")


def test_aiperfs_summary_is_not_taken_for_genai_perfs() -> None:
    value = {**summary(), "schema_version": "1.4", "aiperf_version": "0.13.0"}
    found = reader_of(Document.of_bytes(json.dumps(value).encode(), "it.json"))
    assert found is not None
    assert "aiperf" == found.name


def test_whatever_is_wrong_in_a_file_becomes_words_or_sound_figures() -> None:
    assert [] == faults_of(GENAI_PERF, summary(), times=600)
    assert [] == faults_of(GENAI_PERF, client([1.0, 2.0]), times=600)
