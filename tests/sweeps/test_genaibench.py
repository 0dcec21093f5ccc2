from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import SweepImport
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document
from opmon.sweeps.document import Document
from tests.needs import ROOT
from tests.sweeps.mutated import as_json, changed, mutations, outcome, unsound

FOLDER = ROOT / "tests" / "data" / "benchmarks" / "genai-bench"
NAME = "D200_60_text-to-text_num_concurrency_4_time_2s.json"
RUN: dict[str, Any] = json.loads((FOLDER / NAME).read_text(encoding="utf-8"))
METADATA: dict[str, Any] = json.loads((FOLDER / "experiment_metadata.json").read_text(encoding="utf-8"))


def read(value: Any, metadata: Any = METADATA, name: str = NAME) -> SweepImport:
    others = {} if metadata is None else {"experiment_metadata.json": as_json(metadata)}
    return read_document(Document.of_bytes(as_json(value), name, others))


def old_schema() -> dict[str, Any]:
    """As 0.0.1 wrote it: requests a minute, no duration, no unit."""
    run = {key: value for key, value in RUN["aggregated_metrics"].items() if key not in ("run_duration", "batch_size")}
    run["requests_per_minute"] = 60 * run.pop("requests_per_second")
    del run["iteration_type"]
    return {"aggregated_metrics": run, "individual_request_metrics": RUN["individual_request_metrics"]}


def test_a_run_is_a_cell_with_what_the_experiment_says_of_it() -> None:
    imported = read(RUN)
    (cell,) = imported.cells

    assert ("genai-bench", "exp", "D(200,60)", 4.0, "closed") == (
        imported.reader,
        cell.configuration,
        cell.content,
        cell.concurrency,
        cell.load_mode,
    )
    assert ("tiny-model", "H100", "0.0.5", "vLLM", "0.32.0") == (
        cell.model,
        cell.hardware,
        cell.tool_version,
        cell.extra["server_engine"],
        cell.extra["server_version"],
    )
    assert (560.406, 155.357, 0.033566, 0.0470245, 0.227010, 15.9404) == pytest.approx(
        (cell.aggregate, cell.per_stream, cell.ttft, cell.ttft_p95, cell.e2e, cell.requests_per_second), rel=1e-4
    )
    assert ("rows", 32, 0) == (cell.per_stream_method, cell.completed_requests, cell.failed_requests)


def test_the_key_in_the_command_line_is_nowhere() -> None:
    assert "sk-not-to-be-seen" in METADATA["cmd"]
    assert "sk-not-to-be-seen" not in repr(read(RUN))


def test_the_old_schema_gives_the_same_cell_without_a_duration() -> None:
    (new,), (old,) = read(RUN).cells, read(old_schema()).cells

    assert (new.aggregate, new.per_stream, new.concurrency, new.load_mode) == (
        old.aggregate,
        old.per_stream,
        old.concurrency,
        old.load_mode,
    )
    assert pytest.approx(new.requests_per_second) == old.requests_per_second
    assert old.duration_seconds is None


def test_milliseconds_are_seconds_in_a_cell() -> None:
    value = json.loads(json.dumps(RUN))
    value["_time_unit"] = "ms"
    for name in ("ttft", "tpot", "e2e_latency", "output_latency"):
        stat = value["aggregated_metrics"]["stats"][name]
        stat.update({key: one * 1000 for key, one in stat.items()})
        for row in value["individual_request_metrics"]:
            row[name] *= 1000
    (seconds,), (milliseconds,) = read(RUN).cells, read(value).cells

    assert pytest.approx((seconds.ttft, seconds.tpot, seconds.e2e, seconds.per_stream)) == (
        milliseconds.ttft,
        milliseconds.tpot,
        milliseconds.e2e,
        milliseconds.per_stream,
    )


def test_a_unit_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SweepError, match="neither s nor ms"):
        read({**RUN, "_time_unit": "us"})


def test_requests_at_a_rate_have_no_concurrency() -> None:
    run = {**RUN["aggregated_metrics"], "num_concurrency": 8.5, "total_arrivals": 40}
    (cell,) = read({**RUN, "aggregated_metrics": run}).cells

    assert (None, "open", "8.5") == (cell.concurrency, cell.load_mode, cell.extra["request_rate"])


def test_errors_are_counted_by_their_number_and_not_by_the_rate_that_is_always_0() -> None:
    run = {**RUN["aggregated_metrics"], "num_error_requests": 3, "error_rate": 0}
    (cell,) = read({**RUN, "aggregated_metrics": run}).cells

    assert 3 == cell.failed_requests
    assert "failed_requests" in cell.flags


def test_a_run_in_which_all_failed_measured_nothing() -> None:
    stats = {name: dict.fromkeys(stat) for name, stat in RUN["aggregated_metrics"]["stats"].items()}
    run = {**RUN["aggregated_metrics"], "stats": stats, "num_completed_requests": 0, "num_error_requests": 5}
    run["mean_output_throughput_tokens_per_s"] = 0.0
    (cell,) = read({**RUN, "aggregated_metrics": run, "individual_request_metrics": []}).cells

    assert (None, None, 5) == (cell.aggregate, cell.per_stream, cell.failed_requests)
    assert "no_success" in cell.flags


def test_without_requests_the_speed_is_an_estimate_and_says_so() -> None:
    (cell,) = read({**RUN, "individual_request_metrics": []}).cells

    assert ("mean_out_over_median_e2e", ("per_stream",)) == (cell.per_stream_method, cell.derived)
    assert pytest.approx(35.15625 / RUN["aggregated_metrics"]["stats"]["e2e_latency"]["p50"]) == cell.per_stream


def test_a_folder_that_the_tool_named_says_when_the_experiment_began() -> None:
    metadata = {**METADATA, "experiment_folder_name": "/runs/openai_vLLM_v0.32_chat_tiny_20261129_165433"}
    imported = read(RUN, metadata)

    assert "openai_vLLM_v0.32_chat_tiny" == imported.cells[0].configuration
    assert 1795971273.0 == imported.cells[0].measured_at
    assert any("UTC" in note for note in imported.notes)


def test_alone_it_does_not_say_which_configuration_it_is() -> None:
    with pytest.raises(SweepError, match="--config"):
        read(RUN, None)


@pytest.mark.parametrize("metadata", [[1], "x", 5])
def test_metadata_that_is_none_costs_its_words_only(metadata: object) -> None:
    imported = read(RUN, metadata, f"fp8/{NAME}")

    assert "fp8" == imported.cells[0].configuration
    assert any("experiment_metadata.json" in note for note in imported.notes)


def test_a_run_with_anything_wrong_is_refused_in_words_or_read_soundly() -> None:
    small = {**RUN, "individual_request_metrics": RUN["individual_request_metrics"][:3]}
    found = [outcome(as_json(value), NAME) for value in mutations(small, 600)]
    beside = [
        outcome(as_json(small), NAME, {"experiment_metadata.json": as_json(value)})
        for value in mutations(METADATA, 150)
    ]

    assert [] == [one for words, cells in (*found, *beside) for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in (*found, *beside))


def test_rows_that_are_no_list_are_left_out() -> None:
    (cell,) = read(changed(RUN, ("individual_request_metrics",), 5)).cells

    assert "mean_out_over_median_e2e" == cell.per_stream_method
