"""What vLLM's tools sum up, print, or write beside a result."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from opmon.cli.benchmark_files import document_of
from opmon.core.cells import Cell, SweepImport, per_stream_speed
from opmon.core.pairs import distinct
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document, read_sweep, reader_of
from opmon.sweeps.document import Document
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

FOLDER = Path(__file__).parents[1] / "data" / "benchmarks" / "vllm"
COMBINATION = "sweep/SERVE--max_num_seqs=8-BENCH--low"
TEST = "serving_tiny_llama_tp1_random_qps_inf_concurrency_8"


def read(name: str, **given: str) -> SweepImport:
    return read_document(document_of(FOLDER / name, name), **given)


def text(name: str) -> str:
    return (FOLDER / name).read_text()


def cells_of(content: str | bytes, name: str) -> tuple[Cell, ...]:
    return read_sweep(content if isinstance(content, bytes) else content.encode(), name).cells


# --- sweeps -------------------------------------------------------------------------------------------------------


def test_a_run_gives_the_same_cell_from_its_own_file_from_the_list_and_from_the_table() -> None:
    runs = [cell for number in (0, 1) for cell in read(f"{COMBINATION}/run={number}.json").cells]
    assert 2 == len(distinct([*runs, *read(f"{COMBINATION}/summary.json").cells, *read("sweep/summary.csv").cells]))


def test_the_servers_settings_of_a_sweep_are_the_configuration_and_the_clients_are_not() -> None:
    (cell,) = read(f"{COMBINATION}/run=0.json").cells
    assert ("max_num_seqs=8", "random", 2.0) == (cell.configuration, cell.content, cell.concurrency)
    assert ("low", "0") == (cell.extra["_benchmark_name"], cell.extra["run_number"])


def test_a_name_given_beside_a_sweep_stands_before_its_settings() -> None:
    assert {"new max_num_seqs=8"} == {
        cell.configuration for cell in read("sweep/summary.csv", configuration="new").cells
    }


def test_repeats_of_a_sweep_are_cells_of_one_configuration_and_level() -> None:
    cells = read("sweep/summary.csv").cells
    assert [("max_num_seqs=8", 2.0)] * 2 == [(cell.configuration, cell.concurrency) for cell in cells]
    assert ["0", "1"] == [cell.extra["run_number"] for cell in cells]


def test_a_count_that_the_table_wrote_with_a_point_names_the_same_configuration() -> None:
    cells = cells_of(text("sweep/summary.csv").replace(",8,low", ",8.0,low"), "summary.csv")
    assert {"max_num_seqs=8"} == {cell.configuration for cell in cells}


def test_an_empty_limit_in_the_table_was_null_and_is_unlimited() -> None:
    lines = text("sweep/summary.csv").replace(",inf,1.0,2,", ",inf,1.0,,")
    assert {"unlimited"} == {cell.load_mode for cell in cells_of(lines, "summary.csv")}


def test_a_field_of_many_latencies_is_read_and_the_limit_for_other_tables_stays() -> None:
    before = csv.field_size_limit()
    many = "[" + ", ".join(["0.5"] * 60_000) + "]"
    lines = text("sweep/summary.csv").split("\n")
    start = lines[1].index('"[')
    long = lines[1][:start] + f'"{many}"' + lines[1][lines[1].index(']"', start) + 2 :]
    (cell,) = cells_of("\n".join([lines[0], long]), "summary.csv")
    assert 120.0 == cell.per_stream
    assert before == csv.field_size_limit()


def test_a_list_in_the_table_is_never_evaluated() -> None:
    lines = text("sweep/summary.csv").split("\n")
    start = lines[1].index('"[')
    evil = lines[1][:start] + "\"[__import__('os')]\"" + lines[1][lines[1].index(']"', start) + 2 :]
    (cell,) = cells_of("\n".join([lines[0], evil]), "summary.csv")
    assert "mean_out_over_median_e2e" == cell.per_stream_method


def test_a_row_of_another_width_is_refused_by_its_number() -> None:
    with pytest.raises(SweepError, match=r"summary\.csv, row 2: the row has 3 fields"):
        cells_of("\n".join([*text("sweep/summary.csv").split("\n")[:2], "1,2,3"]), "summary.csv")


def test_the_warm_up_of_a_sweep_is_no_cell() -> None:
    record = json.loads(text(f"{COMBINATION}/run=0.json"))
    with pytest.raises(NoCell, match="it is the warm-up of a sweep"):
        cells_of(json.dumps({**record, "run_number": -1}), "warmup.json")


def test_a_table_of_a_sweep_is_not_taken_for_one_by_hand() -> None:
    assert "vllm" == read("sweep/summary.csv").reader


# --- CI -----------------------------------------------------------------------------------------------------------


def test_a_test_of_the_ci_is_a_cell_named_without_its_level() -> None:
    cells = read("ci/benchmark_results.json").cells
    assert [1.0, 16.0, 32.0, 4.0, 8.0] == [cell.concurrency for cell in cells]
    assert {"serving_tiny_llama_tp1_random"} == {cell.configuration for cell in cells}
    assert {("random", "1xCPU", "tiny")} == {(cell.content, cell.hardware, cell.model) for cell in cells}


def test_the_ci_gives_the_lengths_that_were_measured() -> None:
    run, row = read(f"ci/{TEST}.json").cells[0], read("ci/benchmark_results.json").cells[4]
    assert pytest.approx(run.prompt_tokens) == row.prompt_tokens
    assert pytest.approx(run.output_tokens) == row.output_tokens
    assert ("128", "256") == (row.extra["Input Len"], row.extra["Output Len"])


def test_the_median_without_a_unit_is_the_time_per_token() -> None:
    run, row = read(f"ci/{TEST}.json").cells[0], read("ci/benchmark_results.json").cells[4]
    assert pytest.approx(run.tpot) == row.tpot
    assert ("ttft_plus_tpot", "per_stream" in row.derived) == (row.per_stream_method, True)
    assert pytest.approx(327.026, abs=1e-3) == per_stream_speed(row)


def test_the_page_gives_the_same_rows_as_the_list() -> None:
    rows = {cell.concurrency: cell for cell in read("ci/benchmark_results.json").cells}
    page = read("ci/benchmark_results.md").cells
    assert [8.0, 32.0, 1.0, 16.0, 4.0] == [cell.concurrency for cell in page]
    for cell in page:
        row = rows[cell.concurrency]
        assert (row.aggregate, row.hardware) == (cell.aggregate, cell.hardware)
        assert pytest.approx(row.prompt_tokens) == cell.prompt_tokens


def test_a_page_without_its_json_gives_the_rows_of_its_table() -> None:
    page = text("ci/benchmark_results.md")
    cut = page[: page.index('{"latency"')]
    assert [1.0, 16.0, 32.0, 4.0, 8.0] == [cell.concurrency for cell in cells_of(cut, "page.md")]
    assert pytest.approx(388.389) == cells_of(cut, "page.md")[0].aggregate


def test_tests_without_a_server_are_left_out_and_told() -> None:
    latency = {"Test name": "latency_llama8B_tp1", "GPU": "H100", "Mean latency (ms)": 2_000.0}
    rows = [latency, {**latency, "Test name": "two"}, *json.loads(text("ci/benchmark_results.json"))]
    imported = read_sweep(json.dumps(rows).encode(), "benchmark_results.json")
    assert 5 == len(imported.cells)
    assert any("left out: 2 tests, each a batch of fixed size without a server" in note for note in imported.notes)
    with pytest.raises(NoCell, match="no serving test is in it"):
        cells_of(json.dumps([latency]), "benchmark_results.json")


def test_a_test_without_throughputs_of_both_kinds_has_the_lengths_that_were_asked_for() -> None:
    row = json.loads(text("ci/benchmark_results.json"))[0]
    del row["Total Token Tput (tok/s)"]
    (cell,) = cells_of(json.dumps([row]), "benchmark_results.json")
    assert (128.0, 256.0) == (cell.prompt_tokens, cell.output_tokens)
    assert "lengths_requested_only" in cell.flags


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"qps": 4}, (None, "open")),
        ({"qps": "inf", "# of max concurrency.": None}, (None, "unlimited")),
        ({"qps": "inf", "# of max concurrency.": 8}, (8.0, "closed")),
    ],
)
def test_a_test_of_the_ci_has_a_concurrency_only_where_its_limit_paced_it(
    values: dict[str, Any], expected: tuple[float | None, str]
) -> None:
    (cell,) = cells_of(json.dumps([{**json.loads(text("ci/benchmark_results.json"))[0], **values}]), "r.json")
    assert expected == (cell.concurrency, cell.load_mode)


# --- the console --------------------------------------------------------------------------------------------------


def test_the_console_block_is_a_cell_and_says_what_it_lacks() -> None:
    imported = read("console.txt", configuration="spec4")
    (cell,) = imported.cells
    assert (4.0, 1428.53, 36, 4) == (cell.concurrency, cell.aggregate, cell.completed_requests, cell.failed_requests)
    assert pytest.approx(0.02974) == cell.ttft
    assert pytest.approx(0.04407) == cell.ttft_p95
    assert (2.48, None, None) == (cell.acceptance_length, cell.measured_at, cell.model)
    assert "multi_token_chunks" in cell.flags
    assert any("--save-result" in note for note in imported.notes)


def test_a_console_block_without_a_limit_was_unlimited_and_one_with_a_rate_open() -> None:
    block = text("console.txt")
    limit = next(line for line in block.splitlines() if line.startswith("Maximum request concurrency:     "))
    assert ["unlimited"] == [cell.load_mode for cell in cells_of(block.replace(limit, ""), "old-log.txt")]
    rate = block.replace(limit, "Request rate configured (RPS):           20.00     ")
    assert ["open"] == [cell.load_mode for cell in cells_of(rate, "old-log.txt")]


def test_each_block_of_a_log_is_a_cell() -> None:
    assert [1, 2] == [cell.source_row for cell in cells_of(text("console.txt") * 2, "old-log.txt")]


@pytest.mark.parametrize("before", ["(APIServer pid=7) ", "> ", "  "])
def test_a_block_behind_what_a_launcher_or_a_quotation_writes_is_read(before: str) -> None:
    block = "".join(before + line for line in text("console.txt").splitlines(keepends=True))
    assert [(4.0, 1428.53)] == [(cell.concurrency, cell.aggregate) for cell in cells_of(block, "old-log.txt")]


def test_the_console_block_of_sglang_is_refused_with_the_file_to_give() -> None:
    block = text("console.txt").replace("Successful requests:", "Backend:    sglang\nSuccessful requests:")
    with pytest.raises(SweepError, match="console output of SGLang's bench_serving; give the JSONL"):
        cells_of(block, "log.txt")


# --- files without a cell -----------------------------------------------------------------------------------------

PYTORCH = [
    {
        "benchmark": {"name": "vLLM benchmark", "extra_info": {"args": {"dataset_name": "random"}}},
        "model": {"name": "tiny"},
        "metric": {"name": "mean_ttft_ms", "benchmark_values": [31.0], "extra_info": {}},
    }
]
THROUGHPUT = {
    "elapsed_time": 10.0, "num_requests": 100, "total_num_tokens": 60_000, "requests_per_second": 10.0,
    "tokens_per_second": 6_000.0,
}  # fmt: skip
LATENCY = {"avg_latency": 2.0, "latencies": [2.0, 2.1], "percentiles": {"50": 2.0}}
FAILED = {
    "run_number": 0,
    "error_type": "RuntimeError",
    "error": "no server",
    "serve_overrides": {},
    "bench_overrides": {},
}
EMBEDDING = {
    "date": "20261129-150046", "model_id": "e5", "duration": 1.0, "completed": 9, "total_input_tokens": 90,
    "request_throughput": 9.0, "total_token_throughput": 90.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            PYTORCH,
            r"x\.pytorch\.json: this is the side file for PyTorch's benchmarks.*give the result beside it, x\.json",
        ),
        (THROUGHPUT, "this is vllm bench throughput: an offline run"),
        (LATENCY, "this is vllm bench latency: one batch of fixed size"),
        (FAILED, "this run of the sweep failed and measured nothing: no server"),
        (EMBEDDING, "generates no tokens"),
    ],
)
def test_a_file_without_a_cell_is_refused_with_the_reason_and_what_to_give(value: Any, words: str) -> None:
    with pytest.raises(NoCell, match=words):
        cells_of(json.dumps(value), "x.pytorch.json")


@pytest.mark.parametrize(
    "content",
    [
        '{"output_throughput": 3}',
        "[]",
        "[1]",
        '{"benchmark": 1}',
        '{"Test name": "x"}',
        "run_number,a\n1,2",
        "| Test name |",
    ],
)
def test_a_file_of_others_is_not_taken_for_one_of_these(content: str) -> None:
    found = reader_of(Document.of_bytes(content.encode(), "x"))
    assert found is None or found.name != "vllm"


@pytest.mark.parametrize("name", [f"{COMBINATION}/summary.json", "ci/benchmark_results.json"])
def test_a_spoilt_value_is_refused_or_gives_figures_that_can_be(name: str) -> None:
    outcomes = [outcome(as_json(one), "new.json") for one in mutations(json.loads(text(name)), 300)]
    assert [] == [fault for _, cells in outcomes for fault in unsound(cells)]
    assert {True, False} == {bool(words) for words, _ in outcomes}
