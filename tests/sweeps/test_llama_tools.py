from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import Cell, SweepImport, measured_concurrency, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from tests.needs import ROOT
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

FOLDER = ROOT / "tests" / "data" / "benchmarks"
BENCH, BENCHY = FOLDER / "llama-bench", FOLDER / "llama-benchy"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (BENCH / "two-builds.jsonl").read_text().splitlines()]
BATCHED: list[dict[str, Any]] = [json.loads(line) for line in (BENCH / "batched.jsonl").read_text().splitlines()]
REPORT: dict[str, Any] = json.loads((BENCHY / "three-levels.json").read_text(encoding="utf-8"))


def lines(values: list[Any]) -> bytes:
    return b"\n".join(as_json(value) for value in values)


def read(data: bytes, name: str, **said: str) -> SweepImport:
    return read_sweep(data, name, **said)


def speeds(cells: tuple[Cell, ...]) -> list[tuple[float | None, float | None, float | None]]:
    return [(cell.decode, cell.per_stream, cell.aggregate) for cell in cells]


# --- llama-bench ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (lines(ROWS), "llama-bench-b7001-mine.jsonl"),
        (as_json(ROWS), "llama-bench-b7001-mine.json"),
        ((BENCH / "table.md").read_bytes(), "llama-bench-b7001-mine.md"),
    ],
)
def test_a_prompt_a_decode_and_a_whole_request_are_three_kinds_of_row(data: bytes, name: str) -> None:
    imported = read(data, name)

    assert "llama-bench" == imported.reader
    assert [(None, None, None), (200.0, None, None), (None, 160.0, 160.0)] == speeds(imported.cells)
    assert [None, None, 160.0] == [per_stream_speed(cell) for cell in imported.cells]
    assert [("pp512", 512.0, None), ("tg128 @ d4096", 4096.0, 128.0), ("pp512+tg128", 512.0, 128.0)] == [
        (cell.content, cell.prompt_tokens, cell.output_tokens) for cell in imported.cells
    ]
    assert {(1.0, "single", "b7001", None)} == {
        (cell.concurrency, cell.load_mode, cell.tool_version, cell.ttft) for cell in imported.cells
    }
    assert ("5120", ("prefill_only",)) == (
        imported.cells[0].extra["prefill_tok_s"].removesuffix(".00"),
        imported.cells[0].flags,
    )


def test_settings_that_vary_within_a_file_part_its_configurations() -> None:
    assert ["mine flash_attn=False", "mine flash_attn=False", "mine flash_attn=True"] == [
        cell.configuration for cell in read(lines(ROWS), "llama-bench-b7001-mine.jsonl").cells
    ]
    assert ["old flash_attn=False", "old flash_attn=False", "old flash_attn=True"] == [
        cell.configuration for cell in read(lines(ROWS), "a.jsonl", configuration="old").cells
    ]


def test_the_csv_says_the_same() -> None:
    imported = read((BENCH / "rows.csv").read_bytes(), "mine.csv")

    assert [(None, None, None), (200.0, None, None)] == speeds(imported.cells)
    assert ("mine", "Tiny-1B-Q4_K_M.gguf", "Some GPU", 1793192051.0) == (
        imported.cells[1].configuration,
        imported.cells[1].model,
        imported.cells[1].hardware,
        imported.cells[1].measured_at,
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"200.000000"', '"200,00"', "row 2, field 'avg_ts'"),
        ('"128"', '"many"', "row 2, field 'n_gen'"),
        (',"0.000000"\n"aaaa', '\n"aaaa', "row 1: the row has 22 fields and the header 23"),
        ('"Some CPU"', '"Some CPU', "cannot be read"),
    ],
)
def test_a_fault_in_the_csv_names_its_row(old: str, new: str, words: str) -> None:
    text = (BENCH / "rows.csv").read_text().replace(old, new)
    with pytest.raises(SweepError, match=words):
        read(text.encode(), "mine.csv")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("pp512 |      5120", "xx512 |      5120", "is no test"), ("5120.00 ±", "5120,00 ±", "is no speed")],
)
def test_a_fault_in_the_table_names_its_row(old: str, new: str, words: str) -> None:
    text = (BENCH / "table.md").read_text().replace(old, new)
    with pytest.raises(SweepError, match=f"row 1, field.*{words}"):
        read(text.encode(), "mine.md")


def test_a_row_with_anything_wrong_is_refused_in_words_or_read_soundly() -> None:
    found = [outcome(lines([ROWS[0], value]), "a.jsonl") for good in ROWS for value in mutations(good, 150)]

    assert [] == [one for words, cells in found for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in found)


# --- llama-batched-bench ----------------------------------------------------------------------------------------------


def test_the_batched_table_counts_the_prompt_in_and_the_input_out() -> None:
    imported = read((BENCH / "batched.md").read_bytes(), "mine.md")

    assert "llama-batched-bench" == imported.reader
    assert [(1.0, 128.0, 128.0), (4.0, 64.0, 256.0)] == [
        (cell.concurrency, cell.per_stream, cell.aggregate) for cell in imported.cells
    ]
    assert ("lockstep", 0.4, 0.0125, 4.0, "cold", "1") == (
        imported.cells[1].load_mode,
        imported.cells[1].ttft,
        imported.cells[1].tpot,
        measured_concurrency(imported.cells[1]),
        imported.cells[1].cache_state,
        imported.cells[1].extra["flash_attn"],
    )


def test_a_prompt_that_all_shared_is_said() -> None:
    alone, shared = read(lines(BATCHED), "mine.jsonl").cells

    assert ("cold", "one prompt shared by all") == (alone.cache_state, shared.cache_state)
    assert "shared_prompt" in shared.flags


def test_without_the_setting_a_shared_prompt_is_seen_by_what_the_cache_held() -> None:
    values = [{key: value for key, value in row.items() if key != "is_pp_shared"} for row in BATCHED]

    assert ["cold", "one prompt shared by all"] == [
        cell.cache_state for cell in read(lines(values), "mine.jsonl").cells
    ]


def test_sequences_one_after_the_other_say_nothing_of_a_concurrency() -> None:
    imported = read(as_json({**BATCHED[1], "is_tg_separate": 1}), "mine.jsonl")

    assert (None, None) == (imported.cells[0].aggregate, imported.cells[0].per_stream)
    assert any("one after the other" in note for note in imported.notes)


def test_a_batched_table_without_rows_or_with_a_short_one_is_refused() -> None:
    text = (BENCH / "batched.md").read_text()
    with pytest.raises(SweepError, match="no row"):
        read("\n".join(text.splitlines()[:5]).encode(), "mine.md")
    with pytest.raises(SweepError, match="row 2: the row has 9 fields and the header 10"):
        read(text.replace(" 2.000 |", "").encode(), "mine.md")


def test_a_batched_row_with_anything_wrong_is_refused_in_words_or_read_soundly() -> None:
    found = [outcome(lines([BATCHED[0], value]), "a.jsonl") for value in mutations(BATCHED[1], 300)]

    assert [] == [one for words, cells in found for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in found)


# --- llama-benchy -----------------------------------------------------------------------------------------------------


def test_the_report_has_a_cell_a_batch_size_with_every_request() -> None:
    imported = read(as_json(REPORT), "llama-benchy-0.4.0-mine.json")
    cell = imported.cells[2]

    assert ("llama-benchy", "mine", "fake/tiny-model", "0.4.0", 1795964076.0) == (
        imported.reader,
        cell.configuration,
        cell.model,
        cell.tool_version,
        cell.measured_at,
    )
    assert (16.0, "lockstep", 200.0, 60.0) == (
        cell.concurrency,
        cell.load_mode,
        cell.prompt_tokens,
        cell.output_tokens,
    )
    assert (108.2513, 104.0648, 113.9063, 0.0373634, 0.0556465) == pytest.approx(
        (cell.per_stream, cell.per_stream_p95, cell.decode, cell.ttft, cell.ttft_p95), rel=1e-4
    )


def test_the_aggregate_counts_the_wait_for_the_first_token_in_and_says_so() -> None:
    cell = read(as_json(REPORT), "mine.json").cells[1]
    waits = sorted(REPORT["benchmarks"][1]["e2e_ttft"]["values"])
    wait = (waits[5] + waits[6]) / 2000

    assert pytest.approx(240 / (wait + 236 / REPORT["benchmarks"][1]["tg_throughput"]["mean"])) == cell.aggregate
    assert ("aggregate" in cell.derived, "aggregate_estimated" in cell.flags, "739.262") == (
        True,
        True,
        cell.extra["tg_throughput"],
    )


def test_the_csv_pairs_a_row_of_prompts_with_the_row_of_its_output() -> None:
    imported = read((BENCHY / "rows.csv").read_bytes(), "llama-benchy-mine.csv")

    assert [(1.0, 200.0, 60.0, "pp200 tg60"), (4.0, 4296.0, 60.0, "pp200 tg60 @ d4096")] == [
        (cell.concurrency, cell.prompt_tokens, cell.output_tokens, cell.content) for cell in imported.cells
    ]
    assert [(173.207, 188.325, 0.033117), (169.601, 185.231, 0.0352507)] == [
        pytest.approx((cell.per_stream, cell.decode, cell.ttft), rel=1e-4) for cell in imported.cells
    ]
    assert "ttft_plus_tpot" == imported.cells[0].per_stream_method


def test_a_csv_name_without_a_stream_count_is_one_stream_only_where_its_speeds_agree() -> None:
    text = (BENCHY / "rows.csv").read_text().replace(" (c1)", "").replace(" (c4)", "")

    assert [1.0, None] == [cell.concurrency for cell in read(text.encode(), "mine.csv").cells]


def test_a_csv_name_that_is_no_test_is_refused() -> None:
    text = (BENCHY / "rows.csv").read_text().replace("tg60 (c1)", "chat (c1)")
    with pytest.raises(SweepError, match="row 2, field 'test_name'"):
        read(text.encode(), "mine.csv")


def test_a_report_with_anything_wrong_is_refused_in_words_or_read_soundly() -> None:
    found = [outcome(as_json(value), "a.json") for value in mutations(REPORT, 600)]

    assert [] == [one for words, cells in found for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in found)
