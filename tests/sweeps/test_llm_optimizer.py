"""llm-optimizer: what was varied of the server is the configuration; tokens that were only claimed are not counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import SweepImport
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from tests.sweeps.mutating import mutations, outcomes

RUN: dict[str, Any] = {
    "config": {
        "client_args": {"max_concurrency": 32, "num_prompts": 1000, "dataset_name": "sharegpt"},
        "server_args": {"tensor_parallel_size": 4, "max_num_batched_tokens": 8192},
        "server_cmd_args": ["--tensor-parallel-size=4"],
    },
    "results": {
        "backend": "vllm",
        "dataset_name": "sharegpt",
        "max_concurrency": 32,
        "request_rate": None,
        "duration": 100.0,
        "completed": 1000,
        "total_input_tokens": 300_000,
        "total_output_tokens": 200_000,
        "total_output_tokens_retokenized": 199_000,
        "request_throughput": 10.0,
        "output_throughput": 2000.0,
        "mean_e2e_latency_ms": 3100.0,
        "median_e2e_latency_ms": 2500.0,
        "median_ttft_ms": 75.9,
        "p95_ttft_ms": 150.0,
        "median_tpot_ms": 12.0,
        "median_itl_ms": 11.0,
    },
    "cmd": "server --api-key s3cret --port 8000",
    "constraints": [],
    "metadata": {"gpu_type": "H100", "gpu_count": 4, "model_tag": "org/tiny", "input_tokens": -1, "output_tokens": -1},
}


def read(*runs: Any) -> SweepImport:
    return read_sweep("\n".join(map(json.dumps, runs)).encode(), "results.jsonl")


def test_a_run_is_a_cell_of_the_configuration_that_was_varied() -> None:
    one = read(RUN)
    (cell,) = one.cells

    assert "llm-optimizer" == one.reader
    assert ("tensor_parallel_size=4 max_num_batched_tokens=8192", "sharegpt", 32, "closed", 300, 200, 2000, 80) == (
        cell.configuration,
        cell.content,
        cell.concurrency,
        cell.load_mode,
        cell.prompt_tokens,
        cell.output_tokens,
        cell.aggregate,
        cell.per_stream,
    )
    assert ("org/tiny", "H100", "4", 0.15) == (cell.model, cell.hardware, cell.extra["gpu_count"], cell.ttft_p95)
    assert "s3cret" not in str(cell)


def test_all_shapes_of_the_file_give_the_same_cells() -> None:
    def figures(one: SweepImport) -> list[tuple[object, ...]]:
        return [(cell.configuration, cell.aggregate, cell.source_row) for cell in one.cells]

    lines = figures(read(RUN, RUN))

    assert 2 == len(lines)
    assert lines == figures(read([RUN, RUN]))
    assert lines == figures(read({"metadata": {}, "best_configurations": {}, "test_results": [RUN, RUN]}))


def test_a_last_line_that_was_cut_off_is_told() -> None:
    text = json.dumps(RUN) + "\n" + json.dumps(RUN)[:300]
    one = read_sweep(text.encode(), "results.jsonl")

    assert 1 == len(one.cells)
    assert any("cut off" in note for note in one.notes)


def test_tokens_that_the_texts_do_not_hold_are_not_counted() -> None:
    run = {**RUN, "results": {**RUN["results"], "total_output_tokens_retokenized": 100_000}}
    cell = read(run).cells[0]

    assert (100, 1000, 40, "retokenized") == (
        cell.output_tokens,
        cell.aggregate,
        cell.per_stream,
        cell.token_source,
    )
    assert "tokens_disagree" in cell.flags


@pytest.mark.parametrize(
    ("client", "results", "expected"),
    [
        ({"max_concurrency": 8}, {"max_concurrency": None}, ("closed", 8)),
        ({}, {"max_concurrency": None}, ("unlimited", None)),
        ({"request_rate": 4.0, "max_concurrency": 8}, {}, ("open", None)),
        ({"request_rate": None, "max_concurrency": 8}, {}, ("closed", 32)),
        ({"request_rate": "inf"}, {"max_concurrency": None}, ("unlimited", None)),
    ],
)
def test_a_level_is_what_clients_held_and_never_a_ceiling(
    client: dict[str, Any], results: dict[str, Any], expected: tuple[str, float | None]
) -> None:
    run = {**RUN, "config": {**RUN["config"], "client_args": client}, "results": {**RUN["results"], **results}}
    cell = read(run).cells[0]

    assert expected == (cell.load_mode, cell.concurrency)


def test_a_run_without_results_is_passed_over_and_told() -> None:
    one = read(RUN, {**RUN, "results": {}})

    assert 1 == len(one.cells)
    assert "row 2: the run has no results, and is passed over" in one.notes
    with pytest.raises(SweepError, match="no run in it has results"):
        read({**RUN, "results": {}})


def test_any_wrong_part_is_read_as_missing_or_refused() -> None:
    assert {"read", "refused"} == outcomes(mutations(RUN, 400), "a.json", "llm-optimizer")
