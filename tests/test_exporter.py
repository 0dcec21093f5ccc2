"""/metrics: clean under the real promtool, exact under a real Prometheus, bounded, and gone when a target is gone."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from opmon.core import answers
from opmon.core.answers import OperatingPoint, Recommendation, TargetStatus
from opmon.core.model import DOWN_KINDS, INVALID_KINDS
from opmon.exporter import (
    ComparisonEvaluation,
    ConcurrencyHistogram,
    Evaluation,
    Exporter,
    TargetEvaluation,
    metrics_table,
    prefers_openmetrics,
)
from opmon.exporter.concurrency import BOUNDS, MOST_MODELS
from opmon.exporter.evaluation import VERDICTS
from opmon.telemetry import MOST_LABELS, Telemetry

Key = tuple[str, frozenset[tuple[str, str]]]
# What Prometheus 2 and 3 send.
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;"
    "version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1"
)
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def status(name: str, *, health: str = "up", state: str = "observed", engine: str = "vllm") -> TargetStatus:
    return TargetStatus(
        name=name,
        url="http://127.0.0.1:8000",
        job="",
        labels={},
        health=health,
        state=state,
        engine=engine,
        version="0.11.0",
        models=("m",),
        engine_indexes=("0",),
        epoch_start=None,
        last_scrape=1000.5,
        last_error="",
        missing=(),
        form="filtered",
        pulse_interval_seconds=1.0,
        full_interval_seconds=30.0,
        last_scrape_seconds=0.01,
        last_scrape_bytes=365,
        ceiling=answers.CeilingAnswer(),
    )


def operating_point() -> OperatingPoint:
    busy = answers.Statistics(mean=1.36, p50=1, p90=2, p95=2, p99=4, max=4)
    return OperatingPoint(
        window=answers.Window(0.0, 900.0, 900.0, 900.0),
        selector=answers.Selector(target="a"),
        sentence="1 request at once",
        coverage=answers.Coverage(0.98, 882.0, 18.0, 0.0, 0.0, 0.0),
        epochs=(),
        ceiling=answers.CeilingAnswer(requests=64, max_num_seqs=64, source="configured", reached_ratio=0.0),
        running=answers.Distribution(busy=busy),
        in_system=answers.Distribution(),
        waiting=answers.Distribution(),
        queue=answers.Queue(waiting_ratio=0.25, limited_ratio=None),
        throughput=answers.Throughput(),
        lengths=answers.Lengths(),
        latency=answers.Latency(),
        speculation=None,
        prefix_cache=None,
    )


def content(name: str, *, verdict: str = "switch", proxy: bool = False) -> answers.ContentAnswer:
    return answers.ContentAnswer(
        content=name,
        share_ratio=None,
        verdict=verdict,
        reasons=(),
        cell=answers.CellRef(1.0, name, 33.0, 100.0),
        weight_at_cells_ratio=1.0,
        weight_between_ratio=0.0,
        weight_outside_ratio=0.0,
        column="per_stream",
        column_reason="",
        knee_requests=answers.KneePair(),
        columns=answers.Columns(
            per_stream=answers.ColumnAnswer(ratio_weighted=1.416, proxy=proxy),
            aggregate=answers.ColumnAnswer(ratio_weighted=0.981),
        ),
        threshold_ratio=0.085,
        threshold_source="assumed",
        whole_turn=answers.WholeTurn(1.07, None, None, 6.084, 10.003, "after", "decode", "typed"),
        other_readings=(),
        mismatches=(),
        projection=answers.Projection(null_reason="none"),
    )


def recommendation(*contents: answers.ContentAnswer, verdict: str = "undecided") -> Recommendation:
    return Recommendation(
        operating_point=None,
        sweep="drafters",
        reference="old",
        candidate="new",
        live_is=None,
        verdict=verdict,
        reasons=(),
        combined=answers.Combined(1.2, 1.0, 1.4, "per_stream"),
        contents=contents,
    )


def compared(answer: Recommendation, name: str = "drafter") -> ComparisonEvaluation:
    return ComparisonEvaluation(name, "a", answer)


def exporter(*targets: str) -> Exporter:
    made = Exporter(Telemetry())
    for target in targets:
        made.watch(target)
    return made


def filled() -> Exporter:
    """Every family has a series."""
    telemetry = Telemetry()
    made = Exporter(telemetry)
    made.watch("a")
    made.watch("new")
    made.concurrency.add("a", None, {0: 600_000, 1: 240_000, 2: 36_000, 4: 24_000})
    made.concurrency.add("a", "m", {0: 600_000, 1: 300_000})
    made.set_evaluation(
        Evaluation(
            {"a": TargetEvaluation(status("a"), operating_point())},
            (
                compared(recommendation(content("code"), content("prose", verdict="undecided", proxy=True))),
                ComparisonEvaluation("later", "a", failure="no sweep is called 'later'"),
            ),
            at_ms=1_000_000,
        )
    )
    telemetry.scraped("a", "pulse")
    telemetry.scraped("a", "full", "timeout")
    telemetry.task_ran("scrape")
    telemetry.store_committed(12, 999_000)
    telemetry.store_queue(3)
    telemetry.http_answered("/metrics", 200)
    telemetry.discovery_failed("file_sd[0]")
    telemetry.discovery_listed("file_sd[0]", 2)
    telemetry.configured(at_ms=5)
    return made


def values(made: Exporter, accept: str = "") -> dict[Key, float]:
    """Every series of the page by name and labels; a page with one twice is at fault."""
    page = made.render(accept)
    parse: Any = parse_openmetrics if prefers_openmetrics(accept) else parse_text
    found: dict[Key, float] = {}
    for family in parse(page.body.decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} stands there twice"
            found[key] = float(sample.value)
    return found


def key(name: str, **labels: str) -> Key:
    return name, frozenset(labels.items())


def named(found: Mapping[Key, float], name: str) -> dict[frozenset[tuple[str, str]], float]:
    return {labels: value for (its_name, labels), value in found.items() if its_name == name}


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_every_declared_family_is_on_the_page_with_its_declared_labels_and_nothing_else(accept: str) -> None:
    found = values(filled(), accept)
    for family in metrics_table():
        suffixes = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
        for suffix in suffixes:
            series = named(found, family.name + suffix)
            assert series, family.name
            for labels in series:
                assert set(family.labels) == {name for name, _ in labels} - {"le"}, family.name
    declared = {family.name for family in metrics_table()}
    undeclared = {name for name, _ in found if name not in declared}
    assert undeclared == {
        f"{family.name}{suffix}"
        for family in metrics_table()
        if family.kind == "histogram"
        for suffix in ("_bucket", "_sum", "_count")
    }


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_both_forms_say_the_same(accept: str) -> None:
    text, this = values(filled()), values(filled(), accept)
    assert text.keys() == this.keys()
    assert all(text[one] == this[one] or (math.isnan(text[one]) and math.isnan(this[one])) for one in text)


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize("make", [filled, exporter, lambda: exporter("a")], ids=["filled", "no target", "new target"])
def test_the_page_is_clean_under_promtool(make: Callable[[], Exporter]) -> None:
    page = make().render().body
    checked = subprocess.run(
        [str(shutil.which("promtool")), "check", "metrics"], input=page, capture_output=True, check=False, timeout=30
    )
    assert (0, b"", b"") == (checked.returncode, checked.stdout, checked.stderr)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", True),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;version=nonsense", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        ("text/plain;version=0.0.4;q=1,application/openmetrics-text;q=0.1", False),
        (PROMETHEUS_2, True),
        (PROMETHEUS_3, True),
    ],
)
def test_the_form_of_the_page_follows_what_the_scraper_prefers(accept: str, expected: bool) -> None:
    page = exporter("a").render(accept)
    assert expected is page.content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert expected is page.body.endswith(b"# EOF\n")


@given(st.text(max_size=80))
def test_no_accept_header_can_make_the_page_fail(accept: str) -> None:
    assert prefers_openmetrics(accept) in (True, False)


# --- targets --------------------------------------------------------------------------------------------------------


def test_a_new_target_has_its_counters_at_0_and_its_gauges_unknown() -> None:
    found = values(exporter("a"))
    for lane in ("pulse", "full"):
        assert 0.0 == found[key("opmon_target_scrapes_total", target="a", lane=lane)]
        for kind in (*DOWN_KINDS, *INVALID_KINDS):
            assert 0.0 == found[key("opmon_target_scrape_failures_total", target="a", lane=lane, kind=kind)]
    assert 0.0 == found[key("opmon_concurrency_count", target="a")]
    for name in ("opmon_target_up", "opmon_coverage_ratio", "opmon_concurrency_ceiling_requests"):
        assert math.isnan(found[key(name, target="a")])


def test_all_series_of_a_removed_target_vanish_at_once_and_stay_away_from_a_late_evaluation() -> None:
    made = filled()
    late = Evaluation(
        {"a": TargetEvaluation(status("a"), operating_point())}, (compared(recommendation(content("code"))),)
    )
    made.forget("a")
    for _ in range(2):
        assert not [labels for _, labels in values(made) if ("target", "a") in labels]
        assert [labels for _, labels in values(made) if ("target", "new") in labels]
        made.concurrency.add("a", None, {1: 1})
        made.set_evaluation(late)


def test_a_target_that_comes_back_starts_at_0() -> None:
    made = filled()
    made.forget("a")
    made.watch("a")
    assert 0.0 == values(made)[key("opmon_concurrency_count", target="a")]
    assert 0.0 == values(made)[key("opmon_target_scrapes_total", target="a", lane="pulse")]


@pytest.mark.parametrize(("health", "expected"), [("up", 1.0), ("down", 0.0), ("unknown", math.nan)])
def test_up_is_1_0_or_unknown(health: str, expected: float) -> None:
    made = exporter()
    made.set_evaluation(Evaluation({"a": TargetEvaluation(status("a", health=health))}))
    assert repr(expected) == repr(values(made)[key("opmon_target_up", target="a")])


def test_exactly_one_state_of_a_target_is_1() -> None:
    made = exporter()
    made.set_evaluation(Evaluation({"a": TargetEvaluation(status("a", state="stalled"))}))
    states = named(values(made), "opmon_target_state")
    assert {"observed": 0.0, "stalled": 1.0, "invalid": 0.0, "down": 0.0, "gap": 0.0} == {
        dict(labels)["state"]: value for labels, value in states.items()
    }


def test_the_operating_point_is_exported_and_what_is_not_known_is_nan_never_0() -> None:
    found = values(filled())

    def statistic(of: str, weighting: str, name: str) -> float:
        labels = {"target": "a", "of": of, "weighting": weighting, "statistic": name}
        return found[key("opmon_operating_point_requests", **labels)]

    assert (1.36, 1.0, 2.0, 4.0) == tuple(statistic("running", "busy", name) for name in ("mean", "p50", "p90", "max"))
    assert math.isnan(statistic("running", "time", "p50"))
    assert math.isnan(statistic("in_system", "request", "p95"))
    assert 64.0 == found[key("opmon_concurrency_ceiling_requests", target="a")]
    assert 0.98 == found[key("opmon_coverage_ratio", target="a")]
    assert 0.25 == found[key("opmon_queue_waiting_ratio", target="a")]
    assert math.isnan(found[key("opmon_limited_ratio", target="a")])


def test_a_kind_of_failure_that_nobody_declared_is_counted_as_other() -> None:
    telemetry = Telemetry()
    made = Exporter(telemetry)
    made.watch("a")
    telemetry.scraped("a", "pulse", "gremlins")
    telemetry.scraped("a", "pulse", "timeout")
    found = named(values(made), "opmon_target_scrape_failures_total")
    assert {"other": 1.0, "timeout": 1.0} == {dict(labels)["kind"]: value for labels, value in found.items() if value}


# --- recommendations ------------------------------------------------------------------------------------------------


def test_a_recommendation_is_exported_per_content_and_for_all_together() -> None:
    found = values(filled())
    compared = {"target": "a", "sweep": "drafters", "reference": "old", "candidate": "new", "comparison": "drafter"}
    speedup = "opmon_speedup_ratio"
    assert 1.416 == found[key(speedup, **compared, content="code", column="per_stream")]
    assert 0.981 == found[key(speedup, **compared, content="code", column="aggregate")]
    assert 1.2 == found[key(speedup, **compared, content="", column="per_stream")]
    assert 1.07 == found[key("opmon_whole_turn_speedup_ratio", **compared, content="code")]
    cell = {"target": "a", "sweep": "drafters", "content": "code", "concurrency": "1", "column": "per_stream"}
    assert 1.0 == found[key("opmon_recommended_cell_info", **cell, comparison="drafter")]
    for one, expected in (("code", "switch"), ("prose", "undecided"), ("", "undecided")):
        assert {verdict: float(verdict == expected) for verdict in VERDICTS} == {
            verdict: found[key("opmon_verdict", **compared, content=one, verdict=verdict)] for verdict in VERDICTS
        }


def test_a_ratio_that_only_stands_in_for_one_that_was_not_measured_is_not_exported() -> None:
    labels = {"target": "a", "sweep": "drafters", "reference": "old", "candidate": "new", "content": "prose"}
    labels["comparison"] = "drafter"
    assert math.isnan(values(filled())[key("opmon_speedup_ratio", **labels, column="per_stream")])


def test_two_comparisons_of_one_sweep_have_series_of_their_own() -> None:
    made = exporter()
    both = (
        compared(recommendation(content("code"), verdict="stay"), "as reference"),
        compared(recommendation(content("code"), verdict="switch"), "as candidate"),
    )
    made.set_evaluation(Evaluation({"a": TargetEvaluation(status("a"))}, both))
    told = {
        (labels["comparison"], labels["verdict"])
        for labels, value in ((dict(one), value) for one, value in named(values(made), "opmon_verdict").items())
        if value == 1 and labels["content"] == ""
    }
    assert {("as reference", "stay"), ("as candidate", "switch")} == told


def test_a_comparison_whose_name_stands_twice_leaves_one_series_each() -> None:
    made = exporter()
    one = compared(recommendation(content("")))
    made.set_evaluation(Evaluation({"a": TargetEvaluation(status("a"))}, (one, one)))
    assert len(VERDICTS) == len(named(values(made), "opmon_verdict"))


def test_a_comparison_without_an_answer_is_0_and_logged_once_per_reason(caplog: pytest.LogCaptureFixture) -> None:
    made = exporter("a")

    def evaluated(answer: Recommendation | None, failure: str = "") -> float:
        made.set_evaluation(Evaluation({}, (ComparisonEvaluation("drafter", "a", answer, failure),)))
        return values(made)[key("opmon_comparison_evaluated", target="a", comparison="drafter")]

    assert [0, 0] == [evaluated(None, "no sweep"), evaluated(None, "no sweep")]
    assert 1 == len(caplog.records)
    assert 0 == evaluated(None, "no configuration")
    assert 2 == len(caplog.records)
    assert 1 == evaluated(recommendation(content("code")))
    assert 2 == len(caplog.records)


def test_lines_that_are_no_samples_are_counted_per_target() -> None:
    telemetry = Telemetry()
    made = Exporter(telemetry)
    made.watch("a")
    name = key("opmon_target_skipped_lines_total", target="a")
    assert 0.0 == values(made)[name]
    telemetry.lines_skipped("a", 2)
    telemetry.lines_skipped("a", 1)
    assert 3.0 == values(made)[name]
    made.forget("a")
    made.watch("a")
    assert 0.0 == values(made)[name]


# --- bounds ---------------------------------------------------------------------------------------------------------


def test_names_from_outside_cannot_make_the_page_grow_without_end() -> None:
    telemetry = Telemetry()
    made = Exporter(telemetry)
    made.watch("a")
    for number in range(MOST_LABELS + 100):
        made.concurrency.add("a", f"model-{number}", {1: 1000})
        telemetry.http_answered(f"/{number}", 200)
        telemetry.scraped("a", "pulse", f"kind-{number}")
    many = tuple(content(f"content-{number}") for number in range(500))
    long = status("a", engine="x" * 10_000)
    made.set_evaluation(Evaluation({"a": TargetEvaluation(long)}, (compared(recommendation(*many)),)))
    found = values(made)
    assert MOST_MODELS + 1 == len(named(found, "opmon_model_concurrency_count"))
    assert (MOST_LABELS + 100) * 1000 == sum(named(found, "opmon_model_concurrency_count").values())
    assert MOST_LABELS + 1 == len(named(found, "opmon_http_requests_total"))
    assert len(made.render().body) < 250_000


def test_hostile_label_values_cannot_forge_a_line() -> None:
    name = 'a"} 1\nforged_metric{x="\\'
    made = exporter(name)
    found = values(made)
    assert math.isnan(found[key("opmon_target_up", target=name)])
    assert "forged_metric" not in {its_name for its_name, _ in found}


# --- the histogram --------------------------------------------------------------------------------------------------


def test_the_bounds_are_those_of_the_contract() -> None:
    assert (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) == BOUNDS[:13]
    assert list(BOUNDS) == sorted(set(BOUNDS))


@given(st.lists(st.tuples(st.integers(0, 6000), st.integers(0, 10**9)), max_size=30))
def test_buckets_count_and_sum_are_those_of_the_milliseconds_that_were_added(added: list[tuple[int, int]]) -> None:
    made = Exporter(Telemetry())
    made.watch("a")
    for level, milliseconds in added:
        made.concurrency.add("a", None, {level: milliseconds})
    found = values(made)
    for bound in BOUNDS:
        expected = sum(milliseconds for level, milliseconds in added if level <= bound)
        assert expected == found[key("opmon_concurrency_bucket", target="a", le=f"{bound}.0")]
    assert sum(ms for _, ms in added) == found[key("opmon_concurrency_count", target="a")]
    assert sum(level * ms for level, ms in added) == found[key("opmon_concurrency_sum", target="a")]


def test_adding_from_several_threads_loses_nothing() -> None:
    histogram = ConcurrencyHistogram()

    def add() -> None:
        for _ in range(2000):
            histogram.add("a", None, {1: 1, 3: 1})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = Exporter(Telemetry(), histogram)
    made.watch("a")
    found = values(made)
    assert (16_000.0, 32_000.0) == (
        found[key("opmon_concurrency_count", target="a")],
        found[key("opmon_concurrency_sum", target="a")],
    )


# --- under a real Prometheus ----------------------------------------------------------------------------------------


@contextmanager
def served(made: Exporter, types: list[str]) -> Iterator[int]:
    """The page on a real socket; `types` collects the content types that were sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = made.render(self.headers.get("Accept"))
            types.append(page.content_type)
            self.send_response(200)
            self.send_header("Content-Type", page.content_type)
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def prometheus(folder: Path, target_port: int) -> Iterator[str]:
    """A real Prometheus that scrapes the port once a second; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
        f"scrape_configs: [{{job_name: opmon, static_configs: [{{targets: ['127.0.0.1:{target_port}']}}]}}]\n"
    )
    command = [
        str(shutil.which("prometheus")),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GOMAXPROCS": "1"})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def asked(url: str) -> Any:
    """The data of an answer; nothing while Prometheus is not up yet."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return json.load(answer)["data"]
    except OSError:
        return {}


def value_of(address: str, query: str) -> float | None:
    result = asked(f"{address}/api/v1/query?query={urllib.parse.quote(query)}").get("result")
    return float(result[0]["value"][1]) if result else None


def eventually(ask: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


def bucket_of(level: int) -> tuple[float, float]:
    """The bounds that a level lies between; a quantile in the lowest bucket is 0."""
    upper = min(bound for bound in BOUNDS if bound >= level)
    return (max([bound for bound in BOUNDS if bound < level], default=0), upper)


@pytest.mark.needs("prometheus")
def test_histogram_quantile_in_a_real_prometheus_is_the_exact_quantile_within_a_bucket(tmp_path: Path) -> None:
    levels = {0: 30_000, 1: 25_000, 3: 20_000, 5: 12_000, 7: 8_000, 30: 5_000}
    made, types = filled(), list[str]()
    made.concurrency.forget("a")
    with served(made, types) as port, prometheus(tmp_path, port) as address:
        eventually(lambda: value_of(address, 'opmon_concurrency_count{target="a"}') == 0)
        made.concurrency.add("a", None, levels)
        total = float(sum(levels.values()))
        eventually(lambda: value_of(address, 'opmon_concurrency_count{target="a"}') == total)
        for per_mille in (100, 300, 301, 500, 750, 900, 950, 990):
            exact = next(
                level
                for level in sorted(levels)
                if 1000 * sum(ms for n, ms in levels.items() if n <= level) >= per_mille * total
            )
            query = f'histogram_quantile({per_mille / 1000}, opmon_concurrency_bucket{{target="a"}})'
            seen = value_of(address, query)
            assert seen is not None
            lower, upper = bucket_of(exact)
            assert lower <= seen <= upper, f"{per_mille}: {exact} is exact, Prometheus says {seen}"
        mean = value_of(address, 'opmon_concurrency_sum{target="a"} / opmon_concurrency_count{target="a"}')
        assert mean == pytest.approx(sum(level * ms for level, ms in levels.items()) / total)
        assert 75_000.0 == value_of(address, 'opmon_concurrency_bucket{target="a",le="4.0"}')
        data = asked(f"{address}/api/v1/targets?state=active")
        assert [("up", "")] == [(one["health"], one["lastError"]) for one in data["activeTargets"]]
        assert 1.0 == value_of(address, "opmon_build_info")
    assert {"application/openmetrics-text; version=1.0.0; charset=utf-8"} == set(types)
