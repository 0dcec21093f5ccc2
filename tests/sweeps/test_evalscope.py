"""evalscope perf: keys of all versions by their words and units, medians from the file beside, never from means."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from opmon.core.cells import SweepImport, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document
from opmon.sweeps.document import Document
from tests.sweeps.mutating import mutations, outcomes

SUMMARY: dict[str, Any] = {
    "Test Duration (s)": 40.0,
    "Concurrency": 4,
    "Request Rate (req/s)": -1,
    "Total Requests": 20,
    "Success Requests": 20,
    "Failed Requests": 0,
    "Output Throughput (tok/s)": 380.0,
    "Total Throughput (tok/s)": 900.0,
    "Req Throughput (req/s)": 0.5,
    "Avg Latency (s)": 7.9,
    "Avg TTFT (ms)": 90.0,
    "Avg TPOT (ms)": 10.2,
    "Avg Input Tokens": 1040.0,
    "Avg Output Tokens": 760.0,
    "Avg Decoded Tok/Iter": 2.5,
}
OLD_SUMMARY: dict[str, Any] = {
    "Time taken for tests (s)": 40.0,
    "Number of concurrency": 4,
    "Total requests": 20,
    "Succeed requests": 20,
    "Failed requests": 0,
    "Output token throughput (tok/s)": 380.0,
    "Total token throughput (tok/s)": 900.0,
    "Request throughput (req/s)": 0.5,
    "Average latency (s)": 7.9,
    "Average time to first token (s)": 0.09,
    "Average time per output token (s)": 0.0102,
    "Average input tokens per request": 1040.0,
    "Average output tokens per request": 760.0,
}
ROWS: list[dict[str, Any]] = [
    {"Percentiles": "5%", "TTFT (ms)": 60.0, "TPOT (ms)": 9.0, "Output (tok/s)": 90.0, "Decode (tok/s)": 91.0},
    {"Percentiles": "50%", "TTFT (ms)": 80.0, "TPOT (ms)": 10.0, "Output (tok/s)": 97.0, "Decode (tok/s)": 100.0},
    {"Percentiles": "95%", "TTFT (ms)": 150.0, "TPOT (ms)": math.nan, "Output (tok/s)": 99.0},
]
ARGUMENTS = {"model": "tiny", "dataset": "openqa", "api": "openai", "stream": True, "name": None, "max_tokens": 2048}
PATH = "20261129_101500/tiny-spec/parallel_4_number_20/benchmark_summary.json"


def beside(percentiles: Any = ROWS, arguments: Any = ARGUMENTS) -> dict[str, bytes]:
    files = {"benchmark_percentile.json": percentiles, "benchmark_args.json": arguments}
    return {name: json.dumps(value).encode() for name, value in files.items() if value is not None}


def read(summary: Any = SUMMARY, others: dict[str, bytes] | None = None, path: str = PATH, **said: str) -> SweepImport:
    files = beside() if others is None else others
    return read_document(Document.of_bytes(json.dumps(summary).encode(), path, files), **said)


@pytest.mark.parametrize("summary", [SUMMARY, OLD_SUMMARY], ids=["new", "old"])
def test_keys_of_old_and_new_versions_mean_the_same(summary: dict[str, Any]) -> None:
    one = read(summary)
    (cell,) = one.cells

    assert "evalscope" == one.reader
    assert ("tiny-spec", "openqa", "tiny", "openai", True, 4, "closed", 1040, 760, 380, 0.5, 7.9, 20, 0, 40) == (
        cell.configuration,
        cell.content,
        cell.model,
        cell.api,
        cell.streaming,
        cell.concurrency,
        cell.load_mode,
        cell.prompt_tokens,
        cell.output_tokens,
        cell.aggregate,
        cell.requests_per_second,
        cell.e2e,
        cell.completed_requests,
        cell.failed_requests,
        cell.duration_seconds,
    )
    assert (97, "tool_p50", 90, 100, 0.08, 0.15, 0.01) == (
        per_stream_speed(cell),
        cell.per_stream_method,
        cell.per_stream_p95,
        cell.decode,
        cell.ttft,
        cell.ttft_p95,
        cell.tpot,
    )
    assert 1795947300.0 == cell.measured_at
    assert "0.09" == cell.extra["ttft_mean_seconds"]


def test_tokens_an_iteration_are_the_acceptance_length() -> None:
    assert 2.5 == read().cells[0].acceptance_length


def test_percentiles_by_column_and_in_seconds_are_read() -> None:
    columns = {
        "Percentiles": ["50%", "95%"],
        "TTFT (s)": [0.08, 0.15],
        "Output (tok/s)": [97.0, 99.0],
        "TPOT (s)": [0.01],
    }
    cell = read(others=beside(columns)).cells[0]

    assert (0.08, 0.15, 97, 0.01) == (cell.ttft, cell.ttft_p95, cell.per_stream, cell.tpot)


def test_without_percentiles_a_mean_is_not_taken_for_a_median() -> None:
    one = read(others=beside(None, None))
    (cell,) = one.cells

    assert (None, None, None, 380) == (cell.ttft, cell.tpot, per_stream_speed(cell), cell.aggregate)
    assert any("no benchmark_percentile.json beside it" in note for note in one.notes)


def test_a_damaged_file_beside_is_left_out_and_told() -> None:
    one = read(others={**beside(), "benchmark_percentile.json": b'[{"Percentiles": "50%"'})

    assert one.cells[0].per_stream is None
    assert any("the file beside is left out" in note for note in one.notes)


def test_a_rate_is_an_open_loop_and_minus_one_is_none() -> None:
    cells = [
        read({**SUMMARY, "Request Rate (req/s)": rate, "Concurrency": held}).cells[0]
        for rate, held in ((5.0, 4), (-1, 4), (-1, -1))
    ]

    assert [("open", None), ("closed", 4), ("unlimited", None)] == [
        (cell.load_mode, cell.concurrency) for cell in cells
    ]


def test_percentiles_alone_say_whose_they_are() -> None:
    document = Document.of_bytes(json.dumps(ROWS).encode(), "benchmark_percentile.json")

    with pytest.raises(SweepError, match="percentiles belong to the"):
        read_document(document)


def test_any_wrong_part_is_read_as_missing_or_refused() -> None:
    assert {"read", "refused"} == outcomes(mutations(SUMMARY, 300), PATH, "evalscope", beside())
    for wrong in mutations(ROWS, 200):
        assert outcomes(iter([SUMMARY]), PATH, "evalscope", beside(wrong)) <= {"read", "refused"}
    for wrong in mutations(ARGUMENTS, 100):
        assert outcomes(iter([SUMMARY]), PATH, "evalscope", beside(arguments=wrong)) <= {"read", "refused"}
