"""AIPerf's exports: which file of a run wins, what its names mean in every schema, and what bad files become."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from opmon.cli.benchmark_files import document_of
from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.aiperf import AIPERF
from opmon.sweeps.detect import read_document, read_sweep, reader_of
from opmon.sweeps.document import Document
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutations import faults_of

FOLDER = Path(__file__).parent.parent / "data" / "benchmarks" / "aiperf"
SUMMARY, ROWS, SWEEP = "profile_export_aiperf.json", "profile_export.jsonl", "profile_export_aiperf_sweep.json"


def data_of(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def run() -> Any:
    return json.loads(data_of(SUMMARY))


def rows() -> list[Any]:
    return [json.loads(line) for line in data_of(ROWS).splitlines()]


def read(value: Any, name: str = SUMMARY, **others: bytes) -> Cell:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    beside = {key.replace("__", "."): one for key, one in others.items()}
    return read_document(Document.of_bytes(data, name, beside), configuration="one").cells[0]


def metric(avg: float, unit: str, **more: float) -> dict[str, Any]:
    return {"unit": unit, "avg": avg, **more}


def old_run(**more: Any) -> Any:
    """A summary as 0.3 writes it: no version, no end-to-end speed."""
    return {
        "request_throughput": metric(2.0, "requests/sec"),
        "request_latency": metric(2000, "ms", p50=2000),
        "request_count": metric(10, "requests"),
        "time_to_first_token": metric(50, "ms", p50=40, p95=90),
        "inter_token_latency": metric(20, "ms", p50=19),
        "output_token_throughput": metric(200, "tokens/sec"),
        "output_token_throughput_per_user": metric(50, "tokens/sec/user", p50=52.6),
        "output_sequence_length": metric(100, "tokens"),
        "input_config": {
            "endpoint": {"model_names": ["m"], "type": "chat", "streaming": True},
            "loadgen": {"concurrency": 4},
        },
        "was_cancelled": False,
        "error_summary": [],
        **more,
    }


def test_a_summary_of_0_13_becomes_a_cell_with_the_tools_own_end_to_end_speed() -> None:
    cell = read(run())
    assert (4, "closed", "declared") == (cell.concurrency, cell.load_mode, cell.concurrency_source)
    assert pytest.approx((599.1478, 159.9881, 173.8466)) == (cell.aggregate, cell.per_stream, cell.decode)
    assert ("tool_p50", ()) == (cell.per_stream_method, cell.derived)
    assert pytest.approx((0.03205614, 0.03921313, 0.005752231, 0.3710706)) == (
        cell.ttft, cell.ttft_p95, cell.tpot, cell.e2e,
    )  # fmt: skip
    assert (200, 60, 30, 0) == (cell.prompt_tokens, cell.output_tokens, cell.completed_requests, cell.failed_requests)
    assert ("aiperf", "0.13.0", "fake/tiny-model", "chat", True, "synthetic") == (
        cell.tool, cell.tool_version, cell.model, cell.api, cell.streaming, cell.content,
    )  # fmt: skip
    assert pytest.approx(3.0021524) == cell.duration_seconds


def test_the_speed_that_95_percent_reach_is_the_tools_fifth_percentile() -> None:
    cell = read(run())
    assert pytest.approx(run()["e2e_output_token_throughput"]["p5"]) == cell.per_stream_p95
    assert cell.per_stream_p95 is not None
    assert cell.per_stream is not None
    assert cell.per_stream_p95 < cell.per_stream


def test_a_date_without_a_zone_is_taken_as_utc_and_told_once() -> None:
    got = read_sweep(data_of(SUMMARY), SUMMARY, configuration="one")
    assert 1795963682.132925 == got.cells[0].measured_at
    assert 1 == got.notes.count("the file gives its dates without a zone, taken as UTC")


def test_the_configuration_is_the_folder_where_there_is_one_and_the_model_else() -> None:
    assert "old-plain" == read_sweep(data_of(SUMMARY), f"old-plain/concurrency_4/{SUMMARY}").cells[0].configuration
    assert "fake/tiny-model" == read_sweep(data_of(SUMMARY), f"concurrency_4/{SUMMARY}").cells[0].configuration


def test_an_old_summary_without_version_is_read_and_its_speed_is_an_estimate() -> None:
    cell = read(old_run())
    assert (4, "m", "chat", True, 10, 0) == (
        cell.concurrency, cell.model, cell.api, cell.streaming, cell.completed_requests, cell.failed_requests,
    )  # fmt: skip
    assert (50, "mean_out_over_median_e2e", ("per_stream",)) == (cell.per_stream, cell.per_stream_method, cell.derived)
    assert 52.6 == cell.decode
    assert "per_stream_formula" in cell.extra


def test_the_rows_beside_an_old_summary_give_its_speed() -> None:
    value = run()
    del value["e2e_output_token_throughput"]
    cell = read(value, profile_export__jsonl=data_of(ROWS))
    assert "rows" == cell.per_stream_method
    assert pytest.approx(159.9881, rel=1e-6) == cell.per_stream


def test_rows_beside_that_are_not_all_requests_or_cannot_be_read_are_left_alone() -> None:
    value = run()
    del value["e2e_output_token_throughput"]
    few = b"\n".join(data_of(ROWS).splitlines()[:9])
    assert "mean_out_over_median_e2e" == read(value, profile_export__jsonl=few).per_stream_method
    assert "mean_out_over_median_e2e" == read(value, profile_export__jsonl=b"{{{").per_stream_method


def test_rows_alone_become_a_cell_without_the_warm_up() -> None:
    cell = read(data_of(ROWS), ROWS, run_config__json=data_of("run_config.json"))
    assert (4, "closed", 30, 0) == (cell.concurrency, cell.load_mode, cell.completed_requests, cell.failed_requests)
    assert pytest.approx((599.1478, 159.9881), rel=1e-3) == (cell.aggregate, cell.per_stream)
    assert pytest.approx((0.03205614, 0.03921313, 3.0021524), rel=1e-3) == (
        cell.ttft, cell.ttft_p95, cell.duration_seconds,
    )  # fmt: skip
    assert ("rows", "fake/tiny-model") == (cell.per_stream_method, cell.model)


def test_rows_that_failed_or_were_cancelled_are_failures() -> None:
    listed = rows()
    listed[-1]["error"] = {"code": 503, "type": "x", "message": "y"}
    listed[-2]["metadata"]["was_cancelled"] = True
    data = "\n".join(map(json.dumps, listed)).encode()
    cell = read(data, f"concurrency_4/{ROWS}")
    assert (28, 2, 4, "path") == (
        cell.completed_requests, cell.failed_requests, cell.concurrency, cell.concurrency_source,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "others"), [(ROWS, {SUMMARY: "summary"}), ("profile_export_aiperf.csv", {})])
def test_rows_beside_their_summary_and_the_csv_give_no_cell(name: str, others: dict[str, str]) -> None:
    beside = {other: data_of(other) for other in others}
    with pytest.raises(NoCell, match=r"profile_export_aiperf\.json"):
        read_document(Document.of_bytes(data_of(name), name, beside), configuration="one")


def test_a_csv_of_a_sweep_is_known_before_the_hand_made_table_takes_it() -> None:
    data = b"concurrency,request_latency_mean,request_latency_std,request_latency_cv\n1,2.0,0.1,0.05\n"
    assert AIPERF == reader_of(Document.of_bytes(data, "profile_export_aiperf_sweep.csv"))


def test_a_sweep_alone_becomes_a_cell_a_combination_with_its_repeats() -> None:
    cells = read_sweep(data_of(SWEEP), SWEEP, configuration="one").cells
    assert [1, 4, 16] == [cell.concurrency for cell in cells]
    assert pytest.approx([151.99429, 599.14785, 1376.7238]) == [cell.aggregate for cell in cells]
    assert pytest.approx([165.95064, 159.98807, 90.732545]) == [cell.per_stream for cell in cells]
    assert ["1", "1", "1"] == [cell.extra["repeats"] for cell in cells]
    assert ("151.9943", "151.9943") == (cells[0].extra["aggregate_ci_low"], cells[0].extra["aggregate_ci_high"])
    assert [0, 0, 0] == [cell.failed_requests for cell in cells]


def test_a_sweep_whose_runs_are_read_too_gives_no_cell_of_them(tmp_path: Path) -> None:
    aggregate = tmp_path / "sweep_aggregate" / SWEEP
    aggregate.parent.mkdir()
    aggregate.write_bytes(data_of(SWEEP))
    for level in (1, 4):
        (tmp_path / f"concurrency_{level}").mkdir()
        (tmp_path / f"concurrency_{level}" / SUMMARY).write_bytes(data_of(SUMMARY))
    got = read_document(document_of(aggregate, f"sweep_aggregate/{SWEEP}"), configuration="one")
    assert [16] == [cell.concurrency for cell in got.cells]
    alone = read_document(document_of(aggregate, SWEEP), configuration="one")
    assert [1, 4, 16] == [cell.concurrency for cell in alone.cells]
    (tmp_path / "concurrency_16" / "profile_runs" / "run_0001").mkdir(parents=True)
    (tmp_path / "concurrency_16" / "profile_runs" / "run_0001" / SUMMARY).write_bytes(data_of(SUMMARY))
    with pytest.raises(NoCell, match="those are read"):
        read_document(document_of(aggregate, f"sweep_aggregate/{SWEEP}"), configuration="one")


def test_an_aggregate_over_repeats_in_either_shape_is_the_mean_of_its_runs() -> None:
    means = {
        "request_latency_p50": {"mean": 2.0, "unit": "sec"},
        "request_latency_avg": {"mean": 2.0, "unit": "sec"},
        "output_sequence_length_avg": {"mean": 100, "unit": "tokens"},
        "output_token_throughput_avg": {"mean": 200, "std": 4, "ci_low": 195, "ci_high": 205, "unit": "tokens/sec"},
        "request_count_avg": {"mean": 10, "unit": "requests"},
        "error_request_count_avg": {"mean": 0.2, "unit": "requests"},
    }
    value = {"metadata": {"aggregation_type": "confidence", "num_successful_runs": 5}, "metrics": means}
    cell = read(value, "concurrency_8/aggregate/profile_export_aiperf_aggregate.json")
    assert (8, 200, 50, 2, 10) == (cell.concurrency, cell.aggregate, cell.per_stream, cell.e2e, cell.completed_requests)
    assert 1 == cell.failed_requests
    assert ("5", "4", "195") == tuple(cell.extra[key] for key in ("repeats", "aggregate_std", "aggregate_ci_low"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"loadgen": {"concurrency": 4, "request_rate": 2.5}}, (None, "open")),
        ({"phases": [{"name": "profiling", "type": "poisson", "rate": 2.5, "concurrency": 8}]}, (None, "open")),
        ({"phases": [{"name": "profiling", "type": "fixed_schedule"}]}, (None, "fixed_schedule")),
        ({"phases": [{"kind": "warmup", "concurrency": 9}, {"name": "load", "concurrency": 3}]}, (3, "closed")),
        ({"loadgen": {"concurrency": [7]}}, (7, "closed")),
        ({"loadgen": {"concurrency": [1, 4]}}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_only_a_closed_loop_has_a_concurrency(
    config: dict[str, Any], expected: tuple[float | None, str | None]
) -> None:
    cell = read(old_run(input_config=config))
    assert expected == (cell.concurrency, cell.load_mode)
    if expected[1] == "open":
        assert "2.5" == cell.extra["request_rate"]


def test_what_the_sweep_varied_says_the_concurrency_of_a_run() -> None:
    value = old_run(input_config={"loadgen": {"concurrency": [1, 4]}})
    value["run_info"] = {"variation_values": {"loadgen.concurrency": 4}}
    assert 4 == read(value).concurrency


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"error_request_count": metric(3, "requests")}, (10, 3)),
        ({"completed_request_count": metric(12, "requests")}, (10, 2)),
        ({"request_error_rate": metric(0, "%")}, (10, 0)),
        ({"error_summary": [{"count": 2}, {"count": 1}]}, (10, 3)),
        ({"error_summary": None}, (10, None)),
        ({"request_count": None, "error_request_count": metric(3, "requests")}, (0, 3)),
    ],
)
def test_failures_are_counted_by_what_the_file_has_and_unknown_without_it(
    more: dict[str, Any], expected: tuple[int | None, int | None]
) -> None:
    cell = read(old_run(**more))
    assert expected == (cell.completed_requests, cell.failed_requests)


def test_a_run_in_which_all_failed_measured_nothing() -> None:
    value = {"schema_version": "1.4", "aiperf_version": "0.13.0", "input_config": run()["input_config"]}
    cell = read({**value, "error_request_count": metric(5, "requests")})
    assert (None, None, 0, 5) == (cell.aggregate, cell.per_stream, cell.completed_requests, cell.failed_requests)
    assert "no_success" in cell.flags


def test_times_are_read_by_their_unit_and_not_at_all_without_one_that_is_known() -> None:
    in_seconds = old_run(time_to_first_token=metric(0.05, "sec", p50=0.04))
    assert 0.04 == read(in_seconds).ttft
    got = read_sweep(
        json.dumps(old_run(time_to_first_token=metric(5, "fortnights", p50=4))).encode(), SUMMARY, configuration="one"
    )
    assert None is got.cells[0].ttft
    assert any("'fortnights'" in note for note in got.notes)


def test_several_tokens_a_chunk_and_a_cancelled_run_are_flagged() -> None:
    value = old_run(inter_chunk_latency=metric(50, "ms", p50=40), was_cancelled=True)
    assert {"multi_token_chunks", "incomplete_run"} <= set(read(value).flags)


def test_the_acceptance_length_is_the_one_of_all_steps() -> None:
    value = old_run(spec_decode_acceptance_length=metric(2.9, "tokens"))
    assert 2.9 == read(value).acceptance_length
    value["spec_decode_token_weighted_acceptance_length"] = metric(3.1, "tokens")
    assert 3.1 == read(value).acceptance_length


def test_a_key_in_the_command_line_is_hidden() -> None:
    value = run()
    value["run_info"]["cli_command"] = "aiperf profile --api-key 'sk-123456' --concurrency 4"
    assert "sk-123456" not in read(value).extra["cli_command"]


def test_a_summary_in_several_encodings_and_a_torn_last_record_is_read() -> None:
    text = json.dumps(run(), indent=2).replace("\n", "\r\n")
    assert 4 == read(f"\ufeff{text}".encode()).concurrency
    torn = read_sweep(f"{text}\n{text[:50]}".encode(), SUMMARY, configuration="one")
    assert (1, True) == (len(torn.cells), "the last record is cut off and left out" in torn.notes)


def test_settings_and_slices_of_time_are_no_result() -> None:
    for value in ({"cfg": {}, "benchmark_id": "x"}, {"timeslices": [old_run()], "input_config": {}}):
        assert None is reader_of(Document.of_bytes(json.dumps(value).encode(), "it.json"))


def test_a_field_that_is_no_number_is_named() -> None:
    value = run()
    value["time_to_first_token"]["p50"] = "1,5"
    with pytest.raises(SweepError, match=r"field 'time_to_first_token\.p50': '1,5' is not a number"):
        read(value)
    value["time_to_first_token"]["p50"] = math.nan
    assert None is read(value).ttft


def test_whatever_is_wrong_in_a_file_becomes_words_or_sound_figures() -> None:
    assert [] == faults_of(AIPERF, run(), times=500)
    assert [] == faults_of(AIPERF, old_run(), times=500)
    assert [] == faults_of(AIPERF, json.loads(data_of(SWEEP)), times=300)
    assert [] == faults_of(AIPERF, rows()[:8], times=500, write=lambda value: "\n".join(map(json.dumps, value)))
