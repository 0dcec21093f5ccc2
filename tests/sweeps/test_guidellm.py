"""GuideLLM's reports: what its fields become, in every version and every shape, and what bad ones become."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from opmon.core.cells import Cell, measured_concurrency, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document, read_sweep, reader_of
from opmon.sweeps.document import Document
from opmon.sweeps.guidellm import GUIDELLM
from opmon.sweeps.reading import NoCell
from tests.sweeps.mutations import faults_of

FOLDER = Path(__file__).parent.parent / "data" / "benchmarks" / "guidellm"


def report(version: str = "0.8.1") -> Any:
    return json.loads((FOLDER / f"guidellm-{version}.json").read_text(encoding="utf-8"))


def read(value: Any, **given: str) -> tuple[Cell, ...]:
    return read_sweep(json.dumps(value).encode(), "benchmarks.json", **given).cells


def distribution(median: float, count: int = 4) -> dict[str, Any]:
    one = {
        "mean": median,
        "median": median,
        "count": count,
        "total_sum": median * count,
        "percentiles": {"p95": 2 * median},
    }
    return {"successful": one, "total": one}


def old_report(strategy: dict[str, Any], **benchmark: Any) -> Any:
    """A report as 0.2 writes it: four requests of 100 tokens in 2 s each, in 4 s."""
    row = {"output_tokens": 100, "request_latency": 2.0}
    return {
        "benchmarks": [
            {
                "args": {"strategy": strategy},
                "run_stats": {},
                "worker": {"backend_model": "m"},
                "request_loader": {"data": "prompt_tokens=256,output_tokens=100"},
                "request_totals": {"successful": 4, "errored": 0, "incomplete": 0, "total": 4},
                "requests": {"successful": [row] * 4, "errored": [], "incomplete": []},
                "start_time": 1_749_157_168.0,
                "end_time": 1_749_157_172.0,
                "duration": 4.0,
                "metrics": {
                    "request_latency": distribution(2.0),
                    "prompt_token_count": distribution(256),
                    "output_token_count": distribution(100),
                    "time_to_first_token_ms": distribution(50),
                    "inter_token_latency_ms": distribution(19.7),
                    "output_tokens_per_second": distribution(300),
                },
                **benchmark,
            }
        ]
    }


def test_a_report_of_0_8_becomes_a_cell_a_load_with_the_labels_as_its_name() -> None:
    cells = read(report())
    assert ["new", "new"] == [cell.configuration for cell in cells]
    assert [1, 4] == [cell.concurrency for cell in cells]
    assert ["test", "test"] == [cell.extra["env"] for cell in cells]
    first = cells[0]
    assert ("guidellm", "0.8.1", "fake/tiny-model", "chat", True) == (
        first.tool, first.tool_version, first.model, first.api, first.streaming,
    )  # fmt: skip
    assert pytest.approx((197, 60, 24, 0, 8.2801854)) == (
        first.prompt_tokens, first.output_tokens, first.completed_requests, first.failed_requests, first.duration_seconds,
    )  # fmt: skip
    assert pytest.approx((0.03167129, 0.03340864, 0.005187317, 0.3411548)) == (
        first.ttft, first.ttft_p95, first.tpot, first.e2e,
    )  # fmt: skip
    assert pytest.approx(24 * 60 / 8.280185, rel=1e-6) == first.aggregate
    assert "rows" == first.per_stream_method
    assert pytest.approx(177.1663, rel=1e-5) == first.per_stream
    assert (1, 2) == tuple(cell.source_row for cell in cells)


def test_the_aggregate_is_tokens_over_seconds_where_the_mean_of_rates_is_too_high() -> None:
    cell = read(report("0.4.0"), configuration="one")[1]
    assert pytest.approx(1440 / 1.347531, rel=1e-5) == cell.aggregate
    assert 1102 < report("0.4.0")["benchmarks"][1]["metrics"]["output_tokens_per_second"]["total"]["mean"] < 1103


def test_with_a_warm_up_the_tools_own_rate_stands() -> None:
    value = old_report({"type_": "concurrent", "streams": 2}, warmup_duration=1.5)
    assert 300 == read(value, configuration="one")[0].aggregate


def test_a_ramp_is_seen_by_the_requests_and_their_time() -> None:
    cell = read(report("0.4.0"), configuration="one")[1]
    assert 16 == cell.concurrency
    assert pytest.approx(9.0866, rel=1e-3) == measured_concurrency(cell)
    assert "ramp" in cell.flags


@pytest.mark.parametrize(
    ("strategy", "concurrency", "source", "mode"),
    [
        ({"type_": "synchronous"}, 1, "declared", "closed"),
        ({"type_": "concurrent", "streams": 3}, 3, "declared", "closed"),
        ({"type_": "throughput", "max_concurrency": 512}, None, "unlimited", "unlimited"),
        ({"type_": "constant", "rate": 2.5, "max_concurrency": 64}, None, "unknown", "open"),
        ({"type_": "poisson", "rate": 2.5}, None, "unknown", "open"),
        ({"type_": "async", "rate": 2.5}, None, "unknown", "open"),
        ({"type_": "trace"}, None, "unknown", "trace"),
    ],
)
def test_only_a_closed_loop_has_a_concurrency_and_a_ceiling_is_none(
    strategy: dict[str, Any], concurrency: float | None, source: str, mode: str
) -> None:
    cell = read(old_report(strategy), configuration="one")[0]
    assert (concurrency, source, mode) == (cell.concurrency, cell.concurrency_source, cell.load_mode)
    assert ("2.5" if "rate" in strategy else None) == cell.extra.get("request_rate")


def test_a_report_of_0_2_is_read_by_its_own_names() -> None:
    cell = read(old_report({"type_": "concurrent", "streams": 2}), configuration="one")[0]
    assert ("m", "prompt_tokens=256,output_tokens=100") == (cell.model, cell.content)
    assert (50, 100, 0.05, 0.1, 2.0) == (cell.per_stream, cell.aggregate, cell.ttft, cell.ttft_p95, cell.e2e)
    assert 1_749_157_168 == cell.measured_at
    assert None is cell.tool_version


def test_of_sampled_requests_the_speed_is_estimated_and_says_so() -> None:
    value = report()
    requests = value["benchmarks"][0]["requests"]
    requests["successful"] = requests["successful"][:2]
    got = read_sweep(json.dumps(value).encode(), "benchmarks.json")
    cell = got.cells[0]
    assert ("mean_out_over_median_e2e", ("per_stream",)) == (cell.per_stream_method, cell.derived)
    assert pytest.approx(60 / 0.3386571, rel=1e-5) == cell.per_stream
    assert None is cell.per_stream_p95
    assert "sampled_rows" in cell.flags
    assert "per_stream_formula" in cell.extra
    assert any("2 of 24 requests" in note for note in got.notes)


def test_unfinished_requests_count_in_the_aggregate_and_are_no_failures() -> None:
    value = old_report({"type_": "concurrent", "streams": 2})
    one = value["benchmarks"][0]
    one["request_totals"].update(incomplete=2, total=6)
    one["metrics"]["output_token_count"]["total"] = {"mean": 80, "total_sum": 480}
    cell = read(value, configuration="one")[0]
    assert (120, 0, "2") == (cell.aggregate, cell.failed_requests, cell.extra["incomplete_requests"])
    assert (None, "1") == (cell.requests_per_second, cell.extra["requests_per_second"])


def test_failed_requests_are_counted_and_flagged() -> None:
    value = old_report({"type_": "concurrent", "streams": 2})
    value["benchmarks"][0]["request_totals"]["errored"] = 3
    cell = read(value, configuration="one")[0]
    assert 3 == cell.failed_requests
    assert "failed_requests" in cell.flags


def test_a_run_in_which_all_failed_measured_nothing() -> None:
    value = old_report({"type_": "concurrent", "streams": 2}, requests={"successful": []})
    one = value["benchmarks"][0]
    one["request_totals"] = {"successful": 0, "errored": 4, "incomplete": 0, "total": 4}
    one["metrics"] = {name: distribution(0, 0) for name in one["metrics"]}
    cell = read(value, configuration="one")[0]
    assert (None, None, None, None) == (cell.aggregate, per_stream_speed(cell), cell.ttft, cell.tpot)
    assert "no_success" in cell.flags


def test_an_output_of_one_token_has_no_time_between_tokens() -> None:
    value = old_report({"type_": "synchronous"})
    value["benchmarks"][0]["metrics"]["inter_token_latency_ms"] = distribution(0)
    assert None is read(value, configuration="one")[0].tpot


def test_several_tokens_a_chunk_are_flagged() -> None:
    value = old_report({"type_": "synchronous"})
    value["benchmarks"][0]["metrics"]["output_tokens_per_iteration"] = distribution(2.6)
    assert "multi_token_chunks" in read(value, configuration="one")[0].flags


def test_the_acceptance_length_is_of_all_steps_that_the_server_told() -> None:
    value = report()
    for row, (steps, accepted) in zip(
        value["benchmarks"][0]["requests"]["successful"], ((10, 20), (30, 20)), strict=False
    ):
        row["response_metrics"] = {
            "speculative_decoding": {"num_spec_steps": steps, "num_accepted_draft_tokens": accepted}
        }
    cells = read(value)
    assert (2.0, None) == (cells[0].acceptance_length, cells[1].acceptance_length)


def test_packed_torn_and_appended_reports_are_read() -> None:
    text = json.dumps(old_report({"type_": "synchronous"}))
    packed = Document.of_bytes(gzip.compress(text.encode()), "old-plain.json.gz")
    assert "old-plain" == read_document(packed).cells[0].configuration
    twice = read_sweep(f"\ufeff{text}\r\n{text}".encode(), "benchmarks.json", configuration="one")
    assert [1, 2] == [cell.source_row for cell in twice.cells]
    torn = read_sweep(f"{text}\n{text[:40]}".encode(), "benchmarks.json", configuration="one")
    assert 1 == len(torn.cells)
    assert "the last record is cut off and left out" in torn.notes


def test_the_yaml_tells_the_same_as_the_json() -> None:
    text = yaml.safe_dump(report())
    got = read_sweep(text.encode(), "benchmarks.yaml")
    assert "guidellm" == got.reader
    for mine, theirs in zip(got.cells, read(report()), strict=True):
        assert (theirs.aggregate, theirs.per_stream, theirs.ttft_p95) == (
            mine.aggregate,
            mine.per_stream,
            mine.ttft_p95,
        )
        assert (theirs.concurrency, theirs.configuration) == (mine.concurrency, mine.configuration)


@pytest.mark.parametrize(("version", "levels"), [("0.4.0", [1, 16]), ("0.8.1", [1, 16])])
def test_the_csv_alone_tells_what_the_json_tells_but_single_requests(version: str, levels: list[float]) -> None:
    data = (FOLDER / f"guidellm-{version}.csv").read_bytes()
    got = read_sweep(data, "benchmarks.csv", configuration="one")
    assert levels == [cell.concurrency for cell in got.cells]
    first, from_json = got.cells[0], read(report(version), configuration="one")[0]
    for name in ("output_tokens", "ttft", "ttft_p95", "tpot", "e2e", "completed_requests", "failed_requests"):
        assert getattr(from_json, name) == pytest.approx(getattr(first, name), rel=1e-6), name
    assert from_json.model == first.model
    assert pytest.approx(from_json.aggregate, rel=0.005) == first.aggregate
    assert "mean_out_over_median_e2e" == first.per_stream_method
    assert "the file gives its dates without a zone, taken as UTC" in got.notes


def test_the_csv_beside_its_json_is_the_same_run_and_gives_no_cell() -> None:
    data = (FOLDER / "guidellm-0.4.0.csv").read_bytes()
    others = {"benchmarks.json": json.dumps(report("0.4.0")).encode()}
    with pytest.raises(NoCell, match=r"the same report stands in benchmarks\.json"):
        read_document(Document.of_bytes(data, "benchmarks.csv", others))


@pytest.mark.parametrize(
    "text",
    [
        "Run Info,Run Info,Benchmark\nRun ID,Run Index,Strategy\n,,\n",
        "Run Info,Run Info,Benchmark\nRun ID,Run Index,Strategy\n,,\nx,0\n",
        "Run Info,Run Info,Benchmark\nRun ID,Run Index,Strategy\n,,\nx,0,concurrent\n",
        'Run Info,Run Info,Benchmark\nRun ID,Run Index,Strategy\n,,\nx,0,"con\n',
    ],
)
def test_a_csv_that_does_not_tell_enough_is_refused_with_the_advice_to_give_the_json(text: str) -> None:
    with pytest.raises(SweepError, match="give the JSON"):
        read_sweep(text.encode(), "benchmarks.csv", configuration="one")


def test_a_field_that_is_no_number_is_named_with_its_row() -> None:
    value = report()
    value["benchmarks"][1]["metrics"]["time_to_first_token_ms"]["successful"]["median"] = "1,5"
    with pytest.raises(SweepError, match=r"row 2.*time_to_first_token_ms.*'1,5' is not a number"):
        read(value)


def test_a_report_without_a_benchmark_or_with_one_of_no_kind_says_so() -> None:
    value = report()
    value["benchmarks"].append({"metrics": None})
    with pytest.raises(SweepError, match=r"row 3.*has no `metrics`"):
        read(value)
    assert None is reader_of(Document.of_bytes(b'{"benchmarks": []}', "it.json"))


def test_what_is_not_finite_is_not_measured() -> None:
    value = report()
    value["benchmarks"][0]["metrics"]["time_to_first_token_ms"]["successful"]["median"] = math.nan
    assert None is read(value)[0].ttft


def test_whatever_is_wrong_in_a_report_becomes_words_or_sound_figures() -> None:
    assert [] == faults_of(GUIDELLM, report(), times=300)
    assert [] == faults_of(GUIDELLM, old_report({"type_": "concurrent", "streams": 2}), times=600)


def test_whatever_is_wrong_in_a_csv_becomes_words_or_sound_figures() -> None:
    lines = (FOLDER / "guidellm-0.4.0.csv").read_text(encoding="utf-8").splitlines()
    assert [] == faults_of(GUIDELLM, lines, times=60, name="it.csv", write=lambda value: "\n".join(map(str, value)))
