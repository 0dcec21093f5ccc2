from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import Cell, SweepImport, measured_concurrency
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from opmon.sweeps.document import DROPPED_KEYS, GAP_SUMS, GAPS, Document
from opmon.sweeps.streaming import streamed
from tests.needs import ROOT
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

FOLDER = ROOT / "tests" / "data" / "benchmarks" / "sglang"
LEVELS = (FOLDER / "three-levels.jsonl").read_bytes()
DETAILS = (FOLDER / "details.jsonl").read_bytes()
OLD = {
    "backend": "sglang",
    "dataset_name": "random",
    "request_rate": 2.0,
    "max_concurrency": None,
    "total_input_tokens": 1000,
    "total_output_tokens": 2000,
    "total_output_tokens_retokenized": 1990,
    "mean_e2e_latency_ms": 2000.0,
    "median_e2e_latency_ms": 1600.0,
    "median_ttft_ms": 80.0,
    "median_itl_ms": 13.0,
    "output_throughput": 100.0,
    "random_input_len": 1024,
    "duration": 20.0,
    "completed": 10,
}


def read(value: Any, name: str = "sglang-old-h200.jsonl", **said: str) -> SweepImport:
    data = value if isinstance(value, bytes) else as_json(value)
    return read_sweep(data, name, **said)


def one(value: Any, **said: str) -> Cell:
    (cell,) = read(value, **said).cells
    return cell


def test_a_run_a_line_becomes_a_cell_a_line_with_the_tag_as_configuration() -> None:
    imported = read(LEVELS)

    assert "sglang" == imported.reader
    assert [("cfgA", "random-ids", 1.0, 1), ("cfgA", "random-ids", 4.0, 2), ("cfgA", "random-ids", 16.0, 3)] == [
        (cell.configuration, cell.content, cell.concurrency, cell.source_row) for cell in imported.cells
    ]
    assert ("closed", 150.0, 60.0, 128, None, "completions") == (
        imported.cells[2].load_mode,
        imported.cells[2].prompt_tokens,
        imported.cells[2].output_tokens,
        imported.cells[2].completed_requests,
        imported.cells[2].failed_requests,
        imported.cells[2].api,
    )
    assert (1728.89, 108.977, 0.034211, 0.04103) == pytest.approx(
        (
            imported.cells[2].aggregate,
            imported.cells[2].per_stream,
            imported.cells[2].ttft,
            imported.cells[2].ttft_p95,
        ),
        rel=1e-4,
    )
    assert ("mean_out_over_median_e2e", ("per_stream",)) == (
        imported.cells[2].per_stream_method,
        imported.cells[2].derived,
    )


def test_details_give_the_exact_speed_and_the_failures() -> None:
    cell = one(DETAILS)

    assert ("rows", (), 2) == (cell.per_stream_method, cell.derived, cell.failed_requests)
    assert (365.793, 319.586) == pytest.approx((cell.per_stream, cell.per_stream_p95), rel=1e-4)
    assert {"failed_requests", "multi_token_chunks"} <= set(cell.flags)


def test_an_old_record_has_what_it_has_and_its_rate_is_no_concurrency() -> None:
    cell = one(OLD)

    assert ("old-h200", "open", None, "unknown") == (
        cell.configuration,
        cell.load_mode,
        cell.concurrency,
        cell.concurrency_source,
    )
    assert (0.5, 2.0, 125.0, None, None) == (
        cell.requests_per_second,
        cell.e2e,
        cell.per_stream,
        cell.tpot,
        cell.ttft_p95,
    )
    assert 1.0 == measured_concurrency(cell)
    assert "2.0" == cell.extra["request_rate"]


@pytest.mark.parametrize(
    ("rate", "limit", "load"),
    [
        (float("inf"), 4, ("closed", 4.0, "declared")),
        ("inf", 4, ("closed", 4.0, "declared")),
        (float("inf"), None, ("unlimited", None, "unlimited")),
        (3.0, 4, ("open", None, "unknown")),
        ("trace", 4, ("open", None, "unknown")),
    ],
)
def test_only_a_limit_without_a_rate_is_a_concurrency(
    rate: object, limit: int | None, load: tuple[str, float | None, str]
) -> None:
    cell = one({**OLD, "request_rate": rate, "max_concurrency": limit})

    assert load == (cell.load_mode, cell.concurrency, cell.concurrency_source)


def test_tokens_that_were_asked_for_and_never_came_are_not_counted() -> None:
    imported = read({**OLD, "total_output_tokens_retokenized": 1000, "median_tpot_ms": 8.0})
    cell = imported.cells[0]

    assert (50.0, 100.0, 62.5, None, "retokenized") == (
        cell.aggregate,
        cell.output_tokens,
        cell.per_stream,
        cell.tpot,
        cell.token_source,
    )
    assert "tokens_disagree" in cell.flags
    assert any("found 1,000 in the texts" in note for note in imported.notes)


def test_without_any_text_that_came_back_there_is_no_speed() -> None:
    cell = one({**OLD, "total_output_tokens_retokenized": 0})

    assert (None, None, None) == (cell.aggregate, cell.per_stream, cell.output_tokens)


def test_what_the_server_said_of_itself_is_the_configuration_without_a_tag_or_a_name() -> None:
    server = {"model_path": "org/Big-70B", "tp_size": 4, "quantization": "fp8", "api_key": "sk-secret"}
    imported = read({**OLD, "server_info": server}, name="sglang_1129_10_random.jsonl")

    assert "Big-70B fp8 tp4" == imported.cells[0].configuration
    assert "org/Big-70B" == imported.cells[0].model
    assert "secret" not in repr(imported)


def test_a_length_of_one_has_no_time_per_token() -> None:
    cell = one({**OLD, "total_output_tokens": 10, "total_output_tokens_retokenized": 10, "median_tpot_ms": 0.0})

    assert (None, 1.0) == (cell.tpot, cell.output_tokens)


def test_a_run_in_which_all_failed_measured_nothing() -> None:
    cell = one({**OLD, "completed": 0, "total_output_tokens": 0, "output_throughput": 0.0, "median_ttft_ms": 0.0})

    assert (None, None, None) == (cell.aggregate, cell.ttft, cell.per_stream)
    assert "no_success" in cell.flags


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_marks_line_ends_and_a_torn_last_line_cost_nothing_else(before: bytes, end: bytes) -> None:
    first, second, _ = LEVELS.splitlines()
    for length in range(1, len(second)):
        imported = read(before + first + end + second[:length])

        assert (1, 1.0) == (len(imported.cells), imported.cells[0].concurrency)
        assert ("the last record is cut off and left out",) == imported.notes


def test_negative_times_of_a_tool_are_not_measured_and_said() -> None:
    imported = read({**OLD, "median_tpot_ms": -0.001})

    assert imported.cells[0].tpot is None
    assert any("median_tpot_ms" in note for note in imported.notes)


@pytest.mark.parametrize("wrong", ["12,5", "fast", [1], {"a": 1}, 1e300])
def test_what_is_no_number_is_refused_by_file_row_and_field(wrong: object) -> None:
    data = as_json(OLD) + b"\n" + as_json({**OLD, "duration": wrong})
    with pytest.raises(SweepError) as caught:
        read(data)

    assert ("sglang-old-h200.jsonl", 2, "duration") == (caught.value.file, caught.value.row, caught.value.field)


def test_a_line_that_is_no_run_is_refused() -> None:
    with pytest.raises(SweepError, match="row 2: this is no run"):
        read(as_json(OLD) + b"\n5\n")


@pytest.mark.parametrize("good", [json.loads(LEVELS.splitlines()[1]), json.loads(DETAILS), OLD])
def test_a_record_with_anything_wrong_is_refused_in_words_or_read_soundly(good: dict[str, Any]) -> None:
    found = [outcome(as_json(value), "one.jsonl") for value in mutations(good, 400)]

    assert [] == [one for words, cells in found for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in found)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_gaps_are_summed_alike_in_a_stream_and_in_a_text(size: int) -> None:
    value = {"itls": [[0.5, 0.25], [], [None, 1], ["x"], {"b": [1]}, 3, [[1]], [{"c": 2}]], "z": {"itls": 5}}
    data = as_json(value)
    pieces = [data[place : place + size] for place in range(0, len(data), size)]
    (from_stream,) = streamed(pieces, DROPPED_KEYS, {GAPS: GAP_SUMS}, "a.json")

    assert {"itl_sums": [0.75, 0, None, None, None, None, None, None], "z": {"itls": 5}} == from_stream
    assert from_stream == Document.of_bytes(data, "a.json").records[0].value
