"""Results of vLLM's benchmark clients, one record after the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opmon.core.cells import Cell, is_ramp, measured_concurrency
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document, read_sweep
from opmon.sweeps.document import Document
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

FOLDER = Path(__file__).parents[1] / "data" / "benchmarks" / "vllm"
PLAIN: dict[str, Any] = json.loads((FOLDER / "append.json").read_text().split("\n")[1])
DETAILED: dict[str, Any] = json.loads((FOLDER / "detailed.json").read_text())
# What benchmark_serving.py wrote in 0.8: no failures, no latencies, a colon in a key.
OLD: dict[str, Any] = json.loads(
    """
    {"date": "20250401-120000", "backend": "vllm", "model_id": "org/Name-8B", "tokenizer_id": "org/Name-8B",
     "best_of": 1, "num_prompts": 100, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8, "duration": 50.0,
     "completed": 98, "total_input_tokens": 49000, "total_output_tokens": 19600, "request_throughput": 1.96,
     "request_goodput:": null, "output_throughput": 392.0, "total_token_throughput": 1372.0, "mean_ttft_ms": 100.0,
     "median_ttft_ms": 90.0, "p99_ttft_ms": 300.0, "mean_tpot_ms": 20.0, "median_tpot_ms": 19.0, "mean_itl_ms": 20.0,
     "median_itl_ms": 18.5, "p99_itl_ms": 40.0}
    """
)


def read(*records: Any, name: str = "new.json", **given: str) -> tuple[Cell, ...]:
    return read_sweep("\n".join(json.dumps(one) for one in records).encode(), name, **given).cells


def notes(*records: Any, name: str = "new.json") -> tuple[str, ...]:
    return read_sweep("\n".join(json.dumps(one) for one in records).encode(), name).notes


def changed(record: dict[str, Any], **values: Any) -> dict[str, Any]:
    return {**record, **values}


def without(record: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def test_each_record_of_an_appended_file_is_a_cell_with_its_number() -> None:
    cells = read_sweep((FOLDER / "append.json").read_bytes(), "append.json").cells
    assert [(1, 1.0, "plain"), (2, 4.0, "plain")] == [(c.source_row, c.concurrency, c.configuration) for c in cells]
    assert [165.905797715675, 664.0129707998681] == [cell.aggregate for cell in cells]
    assert [0.030647294000118563, 0.030019018000075448] == [cell.ttft for cell in cells]


def test_a_file_with_one_record_has_no_row() -> None:
    assert [None] == [cell.source_row for cell in read(PLAIN)]


def test_a_last_record_that_is_cut_off_is_left_out_and_told() -> None:
    text = (FOLDER / "append.json").read_text()
    imported = read_sweep((text + '\n{"date": "2026').encode(), "append.json")
    assert 2 == len(imported.cells)
    assert "the last record is cut off and left out" in imported.notes


def test_a_byte_order_mark_line_ends_of_windows_and_a_list_change_nothing() -> None:
    expected = [cell.aggregate for cell in read_sweep((FOLDER / "append.json").read_bytes(), "a.json").cells]
    text = (FOLDER / "append.json").read_text()
    windows = ("\ufeff" + text.replace("\n", "\r\n")).encode()
    as_list = json.dumps([json.loads(line) for line in text.splitlines()]).encode()
    assert expected == [cell.aggregate for cell in read_sweep(windows, "a.json").cells]
    assert expected == [cell.aggregate for cell in read_sweep(as_list, "a.json").cells]


# --- speeds of one request ----------------------------------------------------------------------------------------


def test_rows_give_the_speed_of_requests_that_succeeded() -> None:
    (cell,) = read(DETAILED)
    assert "rows" == cell.per_stream_method
    assert pytest.approx(372.3245, abs=1e-4) == cell.per_stream
    assert () == cell.derived
    assert pytest.approx(min(60 / t for t in DETAILED["latencies"] if t)) == cell.per_stream_p95


def test_before_latencies_were_written_a_request_took_its_first_token_and_the_gaps_after_it() -> None:
    (cell,) = read(without(DETAILED, "latencies"))
    assert "rows" == cell.per_stream_method
    assert pytest.approx(372.3245, rel=1e-3) == cell.per_stream


def test_a_row_with_an_error_counts_neither_as_slow_nor_as_fast() -> None:
    rows = {"output_lens": [10, 10, 1], "latencies": [1.0, 2.0, 0.001], "ttfts": [0.1, 0.3, 0.001]}
    (cell,) = read(changed(without(DETAILED, "p95_ttft_ms", "itls"), **rows, errors=["", "", "reset"]))
    assert 7.5 == cell.per_stream
    assert pytest.approx(0.29) == cell.ttft_p95


def test_rows_of_differing_number_are_not_used_and_told() -> None:
    record = changed(DETAILED, output_lens=[60, 60], latencies=[])
    (cell,) = read(record)
    assert "mean_out_over_median_e2e" == cell.per_stream_method
    assert "the lists of single requests differ in length, so no speed is taken from them" in notes(record)


def test_a_request_that_ended_without_a_token_and_without_an_error_is_told() -> None:
    record = changed(DETAILED, errors=[])
    assert not any("without a token" in note for note in notes(record))  # it took no time either: it failed
    silent = changed(DETAILED, output_lens=[0] * 2 + [60] * 8, errors=[""] * 10)
    assert any(note.startswith("2 requests ended without a token") for note in notes(silent))


def test_latencies_alone_give_the_speed_where_all_outputs_may_have_one_length() -> None:
    (cell,) = read(PLAIN)
    assert ("const_out_latency_rows", ("per_stream",)) == (cell.per_stream_method, cell.derived)
    assert pytest.approx(166.9318, abs=1e-4) == cell.per_stream
    assert "exact where all outputs are of one length" in cell.extra["per_stream_formula"]


def test_latencies_of_outputs_of_differing_length_give_an_estimate_by_their_median() -> None:
    (cell,) = read(changed(PLAIN, total_output_tokens=721, output_throughput=721 / PLAIN["duration"]))
    assert "mean_out_over_median_e2e" == cell.per_stream_method
    assert pytest.approx(167.163, abs=1e-2) == cell.per_stream


def test_an_old_record_has_only_its_medians() -> None:
    (cell,) = read(OLD, name="old.json")
    assert ("ttft_plus_tpot", ("e2e", "per_stream")) == (cell.per_stream_method, cell.derived)
    assert pytest.approx(200 / (0.09 + 199 * 0.019)) == cell.per_stream
    assert pytest.approx(1.96 * (0.1 + 199 * 0.02)) == measured_concurrency(cell)


def test_neither_aggregate_over_concurrency_nor_the_gap_is_ever_a_speed() -> None:
    (cell,) = read(without(OLD, "median_tpot_ms", "mean_tpot_ms"))
    assert (None, None, None) == (cell.per_stream, cell.decode, cell.tpot)


def test_an_output_of_one_token_has_no_time_per_token() -> None:
    one = {"total_output_tokens": 12, "output_throughput": 12 / PLAIN["duration"], "median_tpot_ms": 0.0}
    (cell,) = read(changed(PLAIN, **one, mean_tpot_ms=0.0, median_itl_ms=0.0, mean_itl_ms=0.0))
    assert (1.0, None, "const_out_latency_rows") == (cell.output_tokens, cell.tpot, cell.per_stream_method)
    (without_latencies,) = read(without(changed(OLD, total_output_tokens=98, output_throughput=1.96), "median_tpot_ms"))
    assert pytest.approx(1 / 0.09) == without_latencies.per_stream


def test_several_tokens_in_a_chunk_are_flagged() -> None:
    (cell,) = read(DETAILED)
    assert "multi_token_chunks" in cell.flags
    assert pytest.approx(2.4247, abs=1e-4) == cell.acceptance_length
    assert cell.extra["acceptance_rate_percent"].startswith("47.48")


# --- times --------------------------------------------------------------------------------------------------------


def test_a_95th_percentile_is_the_files_own_or_missing() -> None:
    assert None is read(PLAIN)[0].ttft_p95
    assert 0.2 == read(changed(PLAIN, p95_ttft_ms=200.0))[0].ttft_p95


def test_a_date_is_taken_as_utc_and_said_so_once() -> None:
    cells, said = read(PLAIN, PLAIN), notes(PLAIN, PLAIN)
    assert [1795964432.0] * 2 == [cell.measured_at for cell in cells]
    assert 1 == sum("without a zone" in note for note in said)


def test_the_mean_elapsed_time_comes_from_latencies_where_it_is_not_stated() -> None:
    (cell,) = read(PLAIN)
    assert pytest.approx(3.984, abs=1e-3) == measured_concurrency(cell)
    assert not is_ramp(cell)


# --- load ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"max_concurrency": 4}, (4.0, "declared", "closed")),
        ({"max_concurrency": "4"}, (4.0, "declared", "closed")),
        ({"max_concurrency": None}, (None, "unlimited", "unlimited")),
        ({"max_concurrency": None, "request_rate": 2.5}, (None, "unknown", "open")),
        ({"max_concurrency": 4, "request_rate": 2.5}, (None, "unknown", "open")),
        ({"max_concurrency": 4, "request_rate": None}, (4.0, "declared", "closed")),
    ],
)
def test_a_cell_has_a_concurrency_only_where_nothing_but_the_limit_paced_the_clients(
    values: dict[str, Any], expected: Any
) -> None:
    (cell,) = read(changed(PLAIN, **values))
    assert expected == (cell.concurrency, cell.concurrency_source, cell.load_mode)


def test_a_bare_infinity_is_no_rate_and_its_limit_holds() -> None:
    text = json.dumps(PLAIN).replace('"inf"', "Infinity")
    (cell,) = read_sweep(text.encode(), "new.json").cells
    assert (4.0, "closed") == (cell.concurrency, cell.load_mode)


def test_the_rate_and_the_ceiling_of_an_open_load_are_kept_beside_it() -> None:
    (cell,) = read(changed(PLAIN, request_rate=2.5))
    assert ("2.5", "4") == (cell.extra["request_rate"], cell.extra["max_concurrency"])


def test_a_record_without_a_limit_is_kept_and_told() -> None:
    record = without(PLAIN, "max_concurrency")
    assert [(None, "unknown")] == [(cell.concurrency, cell.concurrency_source) for cell in read(record)]
    assert any("does not say max_concurrency" in note for note in notes(record))


def test_a_limit_of_0_is_refused_with_its_place() -> None:
    with pytest.raises(SweepError, match=r"new\.json, row 2, field 'concurrency': a concurrency of 0"):
        read(PLAIN, changed(PLAIN, max_concurrency=0))


def test_the_peak_of_a_second_is_no_concurrency() -> None:
    (cell,) = read(changed(PLAIN, max_concurrency=None, max_concurrent_requests=64))
    assert None is cell.concurrency


# --- failures -----------------------------------------------------------------------------------------------------


def test_failures_are_stated_or_what_was_sent_and_did_not_complete() -> None:
    assert 1 == read(DETAILED)[0].failed_requests
    assert 2 == read(OLD)[0].failed_requests
    assert "failed_requests" in read(OLD)[0].flags
    assert None is read(without(OLD, "num_prompts"))[0].failed_requests


def test_where_all_requests_failed_nothing_is_a_figure() -> None:
    zeros = {key: 0.0 for key, value in PLAIN.items() if isinstance(value, float)}
    (cell,) = read(changed(PLAIN, **zeros, completed=0, failed=12, total_output_tokens=0, latencies=[0.0] * 12))
    assert (None, None, None) == (cell.aggregate, cell.per_stream, cell.ttft)
    assert {"no_success", "failed_requests"} <= set(cell.flags)


# --- names --------------------------------------------------------------------------------------------------------


def test_a_configuration_is_named_by_its_metadata_then_by_its_label() -> None:
    assert "spec4" == read(changed(DETAILED, label="other"))[0].configuration
    assert "plain" == read(PLAIN)[0].configuration


def test_a_label_that_is_the_backend_names_nothing() -> None:
    (cell,) = read(changed(PLAIN, label="openai"), name="old-build-infqps-concurrency4-20261129-150032.json")
    assert "old-build" == cell.configuration


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm-0.32.0-cpu-real-plain-c16.json", "cpu-real-plain"),
        ("openai-infqps-concurrency8-tiny-model-20261129-150046.json", "tiny-model"),
        ("drafter/openai-infqps-concurrency8-tiny-model-20261129-150046.json", "drafter"),
        ("drafter/result.json", "drafter"),
        ("result.json", "tiny-model"),
        ("serving_llama8B_tp1_sharegpt_qps_inf_concurrency_8.json", "serving_llama8B_tp1_sharegpt"),
    ],
)
def test_a_configuration_is_guessed_from_what_the_path_says_of_it(name: str, expected: Any) -> None:
    record = changed(PLAIN, label=None)
    assert expected == read(record, name=name)[0].configuration
    assert any("is guessed" in note for note in notes(record, name=name))


def test_a_name_given_beside_the_file_stands_before_a_guess_and_behind_what_the_file_states() -> None:
    assert "mine" == read(changed(PLAIN, label=None), configuration="mine")[0].configuration
    assert "plain" == read(PLAIN, configuration="mine")[0].configuration


def test_a_content_and_hardware_come_from_metadata_or_stay_unknown() -> None:
    assert ("", None) == (read(PLAIN)[0].content, read(PLAIN)[0].hardware)
    (cell,) = read(changed(PLAIN, workload="code", gpu="H100"))
    assert ("code", "H100") == (cell.content, cell.hardware)
    assert ("random", None) == (read(DETAILED)[0].content, read(DETAILED)[0].hardware)  # its gpu is "none"


def test_what_people_added_is_kept_and_secrets_are_not() -> None:
    (cell,) = read(changed(PLAIN, team="a", api_key="sk-1234", url="http://me:pw@host/v1"))
    assert ("a", "[hidden]", "http://host/v1") == tuple(cell.extra[key] for key in ("team", "api_key", "url"))
    assert "generated_texts" not in cell.extra


def test_apis_are_named_by_what_was_asked() -> None:
    assert ["completions", "chat", "completions"] == [read(one)[0].api for one in (PLAIN, DETAILED, OLD)]
    assert "mine" == read(changed(PLAIN, backend="mine"))[0].api


def test_the_commands_beside_a_result_name_its_content_and_its_servers_settings() -> None:
    ci = {file.name: file.read_bytes() for file in (FOLDER / "ci").iterdir()}
    name = "serving_tiny_llama_tp1_random_qps_inf_concurrency_8.json"
    cell = read_document(Document.of_bytes(ci[name], name, ci)).cells[0]
    assert ("random", "1xCPU", "serving_tiny_llama_tp1_random") == (cell.content, cell.hardware, cell.configuration)
    assert ("float32", "128") == (cell.extra["server dtype"], cell.extra["random-input-len"])


def test_the_side_file_for_pytorch_names_the_content() -> None:
    side = [{"benchmark": {"extra_info": {"args": {"dataset_name": "hf", "dataset_path": "org/chats"}}}, "metric": {}}]
    document = Document.of_bytes(json.dumps(PLAIN).encode(), "x.json", {"x.pytorch.json": json.dumps(side).encode()})
    assert ["hf chats"] == [cell.content for cell in read_document(document).cells]


def test_a_side_file_that_cannot_be_read_changes_nothing_and_is_told() -> None:
    others = {"x.commands": b'{"client_command": "vllm bench --x \'open"}'}
    imported = read_document(Document.of_bytes(json.dumps(PLAIN).encode(), "x.json", others))
    assert [""] == [cell.content for cell in imported.cells]
    assert any("x.commands beside it cannot be read" in note for note in imported.notes)


# --- the Rust client ----------------------------------------------------------------------------------------------

WINDOW = {
    "start_s": 2.0,
    "end_s": 42.0,
    "duration_s": 40.0,
    "target_concurrency": 8,
    "threshold": 0.95,
    "warning": None,
}
STEADY = {"window": WINDOW, "request_throughput": 2.4, "output_throughput": 480.0, "median_ttft_ms": 80.0}
RUST = {
    **OLD,
    "max_model_len": 4096,
    "failed": 0,
    "steady_state": STEADY,
    "median_e2el_ms": 3_800.0,
    "mean_e2el_ms": 4_000.0,
}


def test_the_steady_part_of_a_run_speaks_for_all_requests_together() -> None:
    (cell,) = read(RUST)
    assert ("vllm-bench", 480.0, 2.4, 40.0) == (
        cell.tool,
        cell.aggregate,
        cell.requests_per_second,
        cell.duration_seconds,
    )
    assert pytest.approx(200 / 3.8) == cell.per_stream
    assert not is_ramp(cell)


def test_the_steady_part_counts_chunks_so_with_speculation_its_requests_are_counted() -> None:
    (cell,) = read(changed(RUST, spec_decode_num_drafts=100, steady_state={**STEADY, "output_throughput": 200.0}))
    assert 480.0 == cell.aggregate
    assert "requests per second of the steady part x mean output tokens" == cell.extra["aggregate_formula"]


def test_a_steady_part_that_is_too_short_or_missing_leaves_the_whole_run() -> None:
    for steady in (None, {**STEADY, "window": {**WINDOW, "warning": "steady-state window is 1.0s"}}):
        (cell,) = read(changed(RUST, steady_state=steady))
        assert (392.0, 50.0) == (cell.aggregate, cell.duration_seconds)


def test_turns_of_conversations_are_a_load_of_their_own() -> None:
    turns = {"mode": "multi_turn", "multi_turn_concurrency": 8, "inter_turn_delay_ms": 0, "workload": "support"}
    record = without(
        {**RUST, **turns, "date": "2026-09-01T10:00:00Z"}, "num_prompts", "max_concurrency", "request_rate"
    )
    (cell,) = read(without(record, "steady_state"))
    assert (8.0, "closed_sessions", "support") == (cell.concurrency, cell.load_mode, cell.content)
    assert 1788256800.0 == cell.measured_at


# --- what is wrong with a file ------------------------------------------------------------------------------------


def test_a_rate_that_its_own_tokens_contradict_is_not_believed() -> None:
    record = changed(PLAIN, output_throughput=9_999.0)
    assert [pytest.approx(664.013)] == [cell.aggregate for cell in read(record)]
    assert any("output_throughput is 9999" in note for note in notes(record))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"median_ttft_ms": "30,6"}, "field 'median_ttft_ms': '30,6' is not a number"),
        ({"completed": [12]}, "field 'completed'"),
        ({"completed": 12.5}, "field 'completed': 12.5 is not a whole number"),
        ({"total_output_tokens": 1e15}, "field 'total_output_tokens'"),
    ],
)
def test_a_figure_that_is_none_is_refused_with_file_and_field(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SweepError) as error:
        read(changed(PLAIN, **values))
    assert words in str(error.value)
    assert str(error.value).startswith("new.json")


def test_numbers_as_text_are_numbers() -> None:
    (cell,) = read(changed(PLAIN, completed="12", total_output_tokens="720", median_ttft_ms=" 30.5 "))
    assert (60.0, 0.0305) == (cell.output_tokens, cell.ttft)


def test_not_a_number_is_missing_and_told() -> None:
    record = changed(PLAIN, median_ttft_ms=float("nan"))
    assert [None] == [cell.ttft for cell in read(record)]
    assert any("median_ttft_ms is nan" in note for note in notes(record))


def test_a_record_without_any_speed_is_left_out_and_a_file_of_such_is_refused() -> None:
    empty = without(OLD, "total_output_tokens", "median_tpot_ms")
    empty["output_throughput"] = None
    assert 1 == len(read(PLAIN, empty))
    assert any(note.startswith("row 2: left out: it has no speed") for note in notes(PLAIN, empty))
    with pytest.raises(SweepError, match="no cell in it: it has no speed"):
        read(empty)


def test_a_record_that_is_no_object_is_refused_by_its_number() -> None:
    with pytest.raises(SweepError, match=r"new\.json, row 2: this is no run"):
        read(PLAIN, 7)


@pytest.mark.parametrize("record", [PLAIN, DETAILED, OLD, RUST], ids=["plain", "detailed", "old", "rust"])
def test_a_spoilt_value_is_refused_or_gives_figures_that_can_be(record: dict[str, Any]) -> None:
    outcomes = [outcome(as_json(one), "new.json") for one in mutations(record, 400)]
    assert [] == [fault for _, cells in outcomes for fault in unsound(cells)]
    assert {True, False} == {bool(words) for words, _ in outcomes}
