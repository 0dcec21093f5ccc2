"""A run that several files say counts once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from opmon.cli.benchmark_files import document_of
from opmon.core.cells import Cell, SweepImport
from opmon.sweeps.detect import read_document
from opmon.sweeps.once import counted_once, is_same_run

FOLDER = Path(__file__).parents[1] / "data" / "benchmarks" / "vllm"
COMBINATION = "SERVE--max_num_seqs=8-BENCH--low"
RUN = Cell(
    "one", "code", 4.0, tool="a tool", aggregate=400.0, requests_per_second=2.0, ttft=0.1, tpot=0.02, e2e=2.0,
    source_file="a.json",
)  # fmt: skip


def imports(*cells: tuple[Cell, ...]) -> list[SweepImport]:
    return [SweepImport(f"{number}.json", "", "a", 1, 0, of_file) for number, of_file in enumerate(cells)]


def test_of_a_sweeps_folder_each_run_counts_once_by_its_own_file() -> None:
    names = [f"{COMBINATION}/run=0.json", f"{COMBINATION}/run=1.json", f"{COMBINATION}/summary.json", "summary.csv"]
    read = [read_document(document_of(FOLDER / "sweep" / name, name)) for name in names]
    left, words = counted_once(read)
    assert names[:2] == [one.file_name for one in left]
    assert [
        f"{names[2]}: 2 of its cells stand in {names[0]} and 1 more file too, and count once",
        f"summary.csv: 2 of its cells stand in {names[0]} and 1 more file too, and count once",
    ] == words


def test_of_a_ci_folder_the_result_says_more_than_the_row_and_the_other_rows_stay() -> None:
    names = [
        "benchmark_results.json",
        "benchmark_results.md",
        "serving_tiny_llama_tp1_random_qps_inf_concurrency_8.json",
    ]
    read = [read_document(document_of(FOLDER / "ci" / name, name)) for name in names]
    left, _ = counted_once(read)
    assert [(names[0], [1.0, 16.0, 32.0, 4.0]), (names[2], [8.0])] == [
        (one.file_name, [cell.concurrency for cell in one.cells]) for one in left
    ]


def test_repeats_differ_and_stay() -> None:
    repeat = replace(RUN, aggregate=401.0, ttft=0.11)
    assert [1, 1] == [len(one.cells) for one in counted_once(imports((RUN,), (repeat,)))[0]]


def test_two_configurations_with_equal_figures_are_two() -> None:
    assert not is_same_run(RUN, replace(RUN, configuration="two"))


def test_too_few_common_figures_are_no_proof() -> None:
    assert not is_same_run(RUN, replace(RUN, requests_per_second=None, ttft=None, e2e=None))


def test_a_table_by_hand_names_no_tool_and_is_left_alone() -> None:
    by_hand = replace(RUN, tool=None)
    assert [1, 1] == [len(one.cells) for one in counted_once(imports((by_hand,), (by_hand,)))[0]]


def test_within_one_file_nothing_is_taken_for_the_same() -> None:
    assert [2] == [len(one.cells) for one in counted_once(imports((RUN, RUN)))[0]]


def test_an_estimate_on_either_side_proves_nothing() -> None:
    estimated = replace(RUN, e2e=3.0, derived=("e2e",))
    assert is_same_run(RUN, estimated)
    assert not is_same_run(RUN, replace(RUN, e2e=3.0))
