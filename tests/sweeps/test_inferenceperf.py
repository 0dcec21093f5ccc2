from __future__ import annotations

import json
from typing import Any

import pytest

from opmon.core.cells import SweepImport, measured_concurrency
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document
from opmon.sweeps.document import Document
from opmon.sweeps.reading import NoCell
from tests.needs import ROOT
from tests.sweeps.mutated import as_json, mutations, outcome, unsound

FOLDER = ROOT / "tests" / "data" / "benchmarks" / "inference-perf"
NAME = "stage_1_lifecycle_metrics.json"
STAGE: dict[str, Any] = json.loads((FOLDER / NAME).read_text(encoding="utf-8"))
CONFIG, REPORT = "config.yaml", "inference-perf.partial.stage_1.yaml"
BESIDE = {name: (FOLDER / name).read_bytes() for name in (CONFIG, REPORT)}


def spread(median: float, **others: float) -> dict[str, float]:
    return {"mean": median, "min": median, "median": median, "p95": median * 2, **others}


OLD = {
    "load_summary": {"count": 100, "send_duration": 50.0, "requested_rate": 2.0, "achieved_rate": 2.0},
    "successes": {
        "count": 100,
        "latency": {
            "request_latency": spread(1.0),
            "normalized_time_per_output_token": spread(0.0125),
            "time_per_output_token": spread(0.006),
            "time_to_first_token": spread(0.04),
            "inter_token_latency": spread(0.00005),
        },
        "throughput": {"output_tokens_per_sec": 160.0, "requests_per_sec": 2.0},
        "prompt_len": spread(200.0),
        "output_len": spread(80.0),
    },
    "failures": {"count": 0, "request_latency": None, "prompt_len": None},
}


def read(value: Any, name: str = NAME, others: dict[str, bytes] | None = None, **said: str) -> SweepImport:
    return read_document(Document.of_bytes(as_json(value), name, others), **said)


def test_a_stage_is_a_cell_with_what_the_settings_beside_say() -> None:
    imported = read(STAGE, others=BESIDE)
    (cell,) = imported.cells

    assert ("inference-perf", 4.0, "closed", "random", "fake/tiny-model", "completions", True) == (
        imported.reader,
        cell.concurrency,
        cell.load_mode,
        cell.content,
        cell.model,
        cell.api,
        cell.streaming,
    )
    assert (625.560, 166.4555, 0.0312110, 0.0330957, 0.0055380, 0.3454474) == pytest.approx(
        (cell.aggregate, cell.per_stream, cell.ttft, cell.ttft_p95, cell.tpot, cell.e2e), rel=1e-4
    )
    assert ("inv_median_ntpot", 24, 0, 1795963750.476627) == (
        cell.per_stream_method,
        cell.completed_requests,
        cell.failed_requests,
        cell.measured_at,
    )


def test_an_old_stage_came_at_a_rate_and_its_time_per_token_is_left_out() -> None:
    imported = read(OLD, "inferenceperf-0.2-old-plain-stage3.json")
    (cell,) = imported.cells

    assert ("old-plain", None, "open", "2.0") == (
        cell.configuration,
        cell.concurrency,
        cell.load_mode,
        cell.extra["request_rate"],
    )
    assert (80.0, None, 2.0, 200.0, 80.0) == (
        cell.per_stream,
        cell.tpot,
        measured_concurrency(cell),
        cell.prompt_tokens,
        cell.output_tokens,
    )
    assert "inconsistent_latency" in cell.flags
    assert any("blank lines" in note for note in imported.notes)


def test_a_concurrency_that_only_the_settings_name_is_taken_from_there() -> None:
    config = b"load:\n  type: concurrent\n  stages:\n  - {concurrency_level: 1}\n  - {concurrency_level: 8}\n"
    (cell,) = read(OLD, others={CONFIG: config}, configuration="one").cells

    assert (8.0, "closed") == (cell.concurrency, cell.load_mode)


def test_settings_that_do_not_name_the_stage_leave_its_concurrency_unknown() -> None:
    config = b"load:\n  type: concurrent\n  stages: 5\n"
    (cell,) = read(OLD, others={CONFIG: config}, configuration="one").cells

    assert (None, "open") == (cell.concurrency, cell.load_mode)


@pytest.mark.parametrize("config", [b"a: [", b"- 1\n", b"&a [*a]", b"\xff\xfe\x00", b"x: " + b"1" * 2_000_000])
def test_settings_that_cannot_be_read_cost_their_words_only(config: bytes) -> None:
    imported = read(STAGE, others={CONFIG: config}, configuration="one")

    assert 4.0 == imported.cells[0].concurrency
    assert any("config.yaml" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (json.loads((FOLDER / "summary_lifecycle_metrics.json").read_text(encoding="utf-8")), "summary of all stages"),
        (
            {"load_summary": {}, "successes": {"count": 5, "rate": 8.1, "queue_len": {"mean": 0}}, "failures": {}},
            "what Prometheus saw",
        ),
        ([{"start_time": 1.0, "end_time": 2.0, "request": "x", "info": {}, "error": None}], "single requests"),
    ],
)
def test_what_is_no_stage_is_no_cell_and_says_so(value: Any, words: str) -> None:
    with pytest.raises(NoCell, match=words):
        read(value, configuration="one")


def test_requests_without_output_are_told_of() -> None:
    latency = {**OLD["successes"]["latency"], "normalized_time_per_output_token": spread(0.0125, min=0.0)}  # type: ignore[index]
    imported = read({**OLD, "successes": {**OLD["successes"], "latency": latency}}, configuration="one")  # type: ignore[dict-item]

    assert any("without any output" in note for note in imported.notes)


def test_a_stage_in_which_all_failed_measured_nothing() -> None:
    value = {**OLD, "successes": {"count": 0, "latency": None, "throughput": None}, "failures": {"count": 100}}
    (cell,) = read(value, configuration="one").cells

    assert (None, None, 100) == (cell.aggregate, cell.per_stream, cell.failed_requests)
    assert "no_success" in cell.flags


def test_a_figure_that_is_none_is_refused_by_its_field() -> None:
    value = {**OLD, "successes": {**OLD["successes"], "count": "many"}}  # type: ignore[dict-item]
    with pytest.raises(SweepError, match="field 'count'"):
        read(value, configuration="one")


@pytest.mark.parametrize("good", [STAGE, OLD])
def test_a_stage_with_anything_wrong_is_refused_in_words_or_read_soundly(good: dict[str, Any]) -> None:
    found = [outcome(as_json(value), NAME, BESIDE) for value in mutations(good, 500)]

    assert [] == [one for words, cells in found for one in unsound(cells) if not words]
    assert all(bool(words) != bool(cells) for words, cells in found)
