from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from opmon.core.model import INVALID_KINDS, Lane, SeriesKey, Snapshot
from opmon.core.snapshot import SnapshotReader, read_snapshot
from opmon.errors import ScrapeError

PAGES = Path(__file__).parents[1] / "data" / "expositions"
TINY = SeriesKey("tiny", "0")
M = SeriesKey("m", "0")


def real(name: str, lane: Lane = Lane.FULL) -> Snapshot:
    """The snapshot of a page that a real server printed."""
    return read_snapshot((PAGES / f"vllm-{name}.prom").read_bytes(), lane=lane)


def read(*lines: str, lane: Lane = Lane.FULL, version: str | None = None) -> Snapshot:
    return read_snapshot("\n".join(lines).encode() + b"\n", lane=lane, version=version)


def running(value: str = "1", labels: str = 'engine="0",model_name="m"', prefix: str = "vllm:") -> str:
    return f"{prefix}num_requests_running{{{labels}}} {value}"


# --- pages of real servers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("0.32.0-idle-start", {TINY: (0, 0)}),
        ("0.32.0-load-4streams", {TINY: (4, 0)}),
        ("0.32.0-idle-after", {TINY: (0, 0)}),
        ("0.32.0-queue-load-20streams", {TINY: (6, 14)}),
        ("0.32.0-spec-load-4streams", {TINY: (4, 0)}),
        ("0.32.0-api2-load-4streams", {TINY: (4, 0)}),
        ("0.32.0-dp2-load-5streams", {TINY: (2, 0), SeriesKey("tiny", "1"): (3, 0)}),
        ("0.28.0-load-4streams", {TINY: (4, 0)}),
    ],
)
@pytest.mark.parametrize("lane", Lane)
def test_running_and_waiting_are_those_of_the_page_in_both_lanes(
    name: str, expected: dict[SeriesKey, tuple[int, int]], lane: Lane
) -> None:
    snapshot = real(name, lane)
    assert expected == {key: (one.running, one.waiting) for key, one in snapshot.series.items()}
    assert (None, (), "vllm") == (snapshot.fault, snapshot.missing, snapshot.engine)


def test_a_full_scrape_has_every_counter_of_a_speculating_server() -> None:
    counters = real("0.32.0-spec-load-4streams").series[TINY].counters
    text = (PAGES / "vllm-0.32.0-spec-load-4streams.prom").read_text()
    page = {sample.name: sample for family in text_string_to_metric_families(text) for sample in family.samples}
    assert page["vllm:spec_decode_num_drafts_total"].value == counters["drafts"]
    assert page["vllm:iteration_tokens_total_count"].value == counters["iterations"]
    assert page["vllm:inter_token_latency_seconds_sum"].value == counters["itl_seconds_sum"]
    assert page["vllm:request_decode_time_seconds_count"].value == counters["decode_seconds_count"]


def test_buckets_have_the_bounds_of_the_page_and_end_at_infinity_with_the_count() -> None:
    sample = real("0.32.0-load-4streams").series[TINY]
    itl = sample.buckets["itl_seconds"]
    assert (0.01, 0.025, math.inf) == (itl.bounds[0], itl.bounds[1], itl.bounds[-1])
    assert sample.counters["itl_seconds_count"] == itl.counts[-1]
    assert list(itl.counts) == sorted(itl.counts)


def test_a_pulse_has_the_few_counters_and_no_buckets() -> None:
    sample = real("0.32.0-load-4streams", Lane.PULSE).series[TINY]
    assert "queue_seconds_sum" not in sample.counters
    assert {} == sample.buckets


def test_the_identity_holds_what_a_restart_would_change() -> None:
    identity = real("0.32.0-spec-load-4streams").identity
    assert ("32768", "4") == (identity["kv_blocks"], identity["speculative_positions"])
    assert identity["created tiny 0"].startswith("17959")
    assert "0" == real("0.32.0-load-4streams").identity["speculative_positions"]


def test_the_facts_hold_limits_and_sleep() -> None:
    facts = real("0.32.0-queue-load-20streams").facts
    assert ("1.25", "awake", "2000") == (
        facts["kv_cache_max_concurrency"],
        facts["sleep_state"],
        facts["max_model_len_at_least"],
    )


def test_a_server_of_several_processes_has_no_start_time() -> None:
    assert real("0.32.0-api2-load-4streams").process_start_seconds is None
    assert real("0.32.0-load-4streams").process_start_seconds == pytest.approx(1795963045.73)


@pytest.mark.parametrize("name", ["0.32.0-disable-log-stats", "0.32.0-api2-idle-start", "0.32.0-dp2-idle-start"])
def test_a_page_that_does_not_say_how_many_run_is_no_idle_server(name: str) -> None:
    snapshot = real(name)
    assert "no_known_metrics" == snapshot.fault
    assert [] == [key for key, sample in snapshot.series.items() if sample.running is not None]


# --- alternatives, labels, sums ---------------------------------------------------------------------------------------


def test_alternative_names_are_never_added() -> None:
    labels = '{engine="0",model_name="m"}'
    snapshot = read(
        running(),
        f"vllm:gpu_cache_usage_perc{labels} 0.4",
        f"vllm:kv_cache_usage_perc{labels} 0.4",
        f"vllm:time_per_output_token_seconds_sum{labels} 7",
        f"vllm:time_per_output_token_seconds_count{labels} 70",
        f"vllm:inter_token_latency_seconds_sum{labels} 7",
        f"vllm:inter_token_latency_seconds_count{labels} 70",
    )
    sample = snapshot.series[M]
    assert (0.4, 7.0, 70.0) == (
        sample.kv_usage_ratio,
        sample.counters["itl_seconds_sum"],
        sample.counters["itl_seconds_count"],
    )


def test_the_old_names_alone_give_the_same_values() -> None:
    labels = '{model_name="m"}'
    sample = read(
        running(labels='model_name="m"'),
        f"vllm:gpu_cache_usage_perc{labels} 0.4",
        f"vllm:time_per_output_token_seconds_sum{labels} 7",
        f"vllm:time_per_output_token_seconds_count{labels} 70",
    ).series[SeriesKey("m", "")]
    assert (0.4, 7.0) == (sample.kv_usage_ratio, sample.counters["itl_seconds_sum"])


@pytest.mark.parametrize("prefix", ["ray_vllm:", "ray_vllm_"])
def test_a_re_export_by_ray_is_read_under_its_prefix_without_the_process_that_exports_it(prefix: str) -> None:
    snapshot = read(
        running("2", 'model_name="m",WorkerId="a"', prefix),
        running("3", 'model_name="m",WorkerId="b"', prefix),
        f'{prefix}generation_tokens_total{{model_name="m",WorkerId="a"}} 10',
        f'{prefix}generation_tokens{{model_name="m",WorkerId="a"}} 10',
        "process_start_time_seconds 1",
    )
    sample = snapshot.series[SeriesKey("m", "")]
    assert (5, 10.0, None) == (sample.running, sample.counters["generation_tokens"], snapshot.process_start_seconds)


def test_finished_requests_are_the_sum_over_their_reasons() -> None:
    snapshot = read(
        running(),
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5',
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 2',
        'vllm:request_success_created{engine="0",finished_reason="stop",model_name="m"} 1.79e9',
    )
    assert 7.0 == snapshot.series[M].counters["finished_requests"]


def test_of_the_processes_that_report_kv_usage_the_largest_holds() -> None:
    lines = [f'vllm:kv_cache_usage_perc{{engine="0",model_name="m",pid="{pid}"}} 0' for pid in range(7)]
    snapshot = read(running(), *lines, 'vllm:kv_cache_usage_perc{engine="0",model_name="m",pid="9"} 0.65')
    assert 0.65 == snapshot.series[M].kv_usage_ratio


def test_engines_and_models_are_kept_apart() -> None:
    snapshot = read(
        *(running(str(level), f'engine="{index}",model_name="m"') for index, level in enumerate((2, 0, 5))),
        running("3", 'engine="0",model_name="small"'),
    )
    expected = {("m", "0"): 2, ("m", "1"): 0, ("m", "2"): 5, ("small", "0"): 3}
    assert expected == {(key.model_name, key.engine_index): one.running for key, one in snapshot.series.items()}


def test_a_model_name_keeps_its_odd_characters() -> None:
    snapshot = read(running("1", r'engine="0",model_name="org/a,b \"q\" {x} \\ \n"'))
    assert [SeriesKey('org/a,b "q" {x} \\ \n', "0")] == list(snapshot.series)


def test_a_quoted_name_is_the_same_signal() -> None:
    snapshot = read('{"vllm:num_requests_running",engine="0",model_name="m"} 3')
    assert 3 == snapshot.series[M].running


def test_the_counters_of_the_old_speculation_are_not_read() -> None:
    names = ("num_draft_tokens_total", "num_accepted_tokens_total", "num_emitted_tokens_total")
    old = read(running(), *(f'vllm:spec_decode_{name}{{engine="0",model_name="m"}} 9' for name in names))
    new = read(running(), *(f'vllm:spec_decode_{name}{{engine="0",model_name="m"}} 9' for name in names[:2]))
    assert {} == old.series[M].counters
    assert {"draft_tokens": 9.0, "accepted_tokens": 9.0} == new.series[M].counters


def test_version_0_6_4_has_prefill_and_decode_times_under_each_others_names() -> None:
    lines = (
        running(),
        'vllm:request_prefill_time_seconds_sum{engine="0",model_name="m"} 90',
        'vllm:request_prefill_time_seconds_count{engine="0",model_name="m"} 3',
        'vllm:request_decode_time_seconds_sum{engine="0",model_name="m"} 2',
        'vllm:request_decode_time_seconds_count{engine="0",model_name="m"} 3',
    )
    for version, prefill in (("0.6.4", 2.0), ("0.6.5", 90.0), (None, 90.0)):
        assert prefill == read(*lines, version=version).series[M].counters["prefill_seconds_sum"]


def test_missing_lists_what_the_page_does_not_show_and_not_what_was_not_switched_on() -> None:
    snapshot = read(running(), lane=Lane.FULL)
    assert {"waiting", "kv_usage_ratio", "itl_seconds"} < set(snapshot.missing)
    assert "drafts" not in snapshot.missing
    assert snapshot.series[M].waiting is None


def test_buckets_without_infinity_are_left_out() -> None:
    snapshot = read(
        running(),
        'vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="0.1"} 1',
        'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 1',
        'vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="1.0"} 1',
        'vllm:e2e_request_latency_seconds_bucket{engine="0",model_name="m",le="+Inf"} 4',
        'vllm:e2e_request_latency_seconds_count{engine="0",model_name="m"} 4',
    )
    assert {"e2e_seconds": (1.0, 4.0)} == {name: one.counts for name, one in snapshot.series[M].buckets.items()}


def test_the_version_is_part_of_the_identity_where_it_is_known() -> None:
    assert {"version": "0.32.0"} == read(running(), lane=Lane.PULSE, version="0.32.0").identity
    assert {} == read(running(), lane=Lane.PULSE).identity


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("NaN", "not_finite"),
        ("+Inf", "not_finite"),
        ("-Inf", "not_finite"),
        ("-1", "negative"),
        ("2.5", "not_finite"),
        ("1e300", "not_finite"),
    ],
)
@pytest.mark.parametrize("name", ["num_requests_running", "num_requests_waiting"])
def test_a_value_that_is_no_number_of_requests_is_a_fault_and_never_a_level(value: str, fault: str, name: str) -> None:
    other = {"num_requests_running": "num_requests_waiting", "num_requests_waiting": "num_requests_running"}[name]
    labels = '{engine="0",model_name="m"}'
    snapshot = read(f"vllm:{name}{labels} {value}", f"vllm:{other}{labels} 1")
    assert fault == snapshot.fault
    assert fault in INVALID_KINDS
    assert name in snapshot.detail
    assert None in (snapshot.series[M].running, snapshot.series[M].waiting)


@pytest.mark.parametrize(("value", "expected"), [("1.2e+01", 12), ("12", 12), ("12.0", 12), ("0", 0), ("3 1.5e12", 3)])
def test_a_whole_number_may_be_written_in_any_way_and_may_carry_a_timestamp(value: str, expected: int) -> None:
    assert expected == read(running(value)).series[M].running


def test_the_same_series_twice_is_a_fault_and_is_not_added() -> None:
    snapshot = read(running("1"), running("99", 'model_name="m",engine="0"'))
    assert ("duplicate", None) == (snapshot.fault, snapshot.series[M].running)


def test_a_counter_given_twice_or_not_finite_is_unknown_but_no_fault() -> None:
    snapshot = read(
        running(),
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 1',
        'vllm:prompt_tokens_total{engine="0",model_name="m"} 2',
        'vllm:generation_tokens_total{engine="0",model_name="m"} NaN',
    )
    assert (None, {}) == (snapshot.fault, snapshot.series[M].counters)


def test_a_bad_line_is_skipped_and_told_and_spoils_nothing_else() -> None:
    snapshot = read(running("4"), "this is not a metric line")
    assert (None, 1, 4) == (snapshot.fault, snapshot.skipped_lines, snapshot.series[M].running)
    assert "this is not a metric line" in snapshot.detail


def test_a_sum_of_which_a_line_is_unreadable_is_unknown_rather_than_too_small() -> None:
    snapshot = read(
        running("4"),
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5',
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} garbage',
        'vllm:generation_tokens_total{engine="0",model_name="m"} 8',
    )
    assert {"generation_tokens": 8.0} == snapshot.series[M].counters
    assert "not_finite" == read(running("4"), running("what", 'engine="1",model_name="m"')).fault


def test_what_an_unreadable_line_may_hide_is_not_taken_for_identity() -> None:
    positions = [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{one}"}} 1'
        for one in range(3)
    ]
    assert "3" == read(running(), *positions).identity["speculative_positions"]
    assert {} == read(running(), *positions[:2], positions[2].replace(" 1", " x")).identity


@pytest.mark.parametrize("body", [b"", b"\n", b"# EOF\n", b"# HELP a b\n# TYPE vllm:prompt_tokens_total counter\n"])
def test_a_page_without_samples_is_an_answer_without_known_metrics(body: bytes) -> None:
    snapshot = read_snapshot(body, content_type="text/plain")
    assert ("no_known_metrics", "the answer has no samples") == (snapshot.fault, snapshot.detail)
    assert {} == snapshot.series


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"<!DOCTYPE html>\n<title>Sign in</title>", "text/html; charset=utf-8", "content_type"),
        (b"\xef\xbb\xbf  <html>", None, "content_type"),
        (b"<html>", "text/plain", "content_type"),
        (b'{"detail":"Not Found"}', "application/json", "content_type"),
        (b"\x0a\x1f\x0a\x10go_gc", "application/vnd.google.protobuf", "content_type"),
        (b"Welcome to this server, have a nice day", "text/plain", "parse"),
        (b"Welcome to this server, have a nice day", "application/octet-stream", "content_type"),
        (b"\x00\x01\x02", None, "parse"),
    ],
)
def test_a_document_that_is_no_exposition_is_a_failed_scrape_with_its_kind(
    body: bytes, content_type: str | None, kind: str
) -> None:
    with pytest.raises(ScrapeError) as caught:
        read_snapshot(body, content_type=content_type)
    assert kind == caught.value.kind


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "TEXT/PLAIN; version=1.0.0", "application/openmetrics-text; version=1.0.0"]
)
def test_a_page_is_read_whatever_its_type_is_called(content_type: str | None) -> None:
    snapshot = read_snapshot(running("3").encode(), content_type=content_type)
    assert 3 == snapshot.series[M].running


# --- properties -------------------------------------------------------------------------------------------------------

LINES = (PAGES / "vllm-0.32.0-queue-load-20streams.prom").read_text().splitlines()


@given(st.lists(st.integers(0, len(LINES) - 1), max_size=8), st.sampled_from(Lane))
def test_lost_lines_make_values_unknown_and_never_other_values(lost: list[int], lane: Lane) -> None:
    whole = real("0.32.0-queue-load-20streams", lane).series[TINY]
    page = "\n".join(line for number, line in enumerate(LINES) if number not in lost)
    sample = read_snapshot(page.encode(), lane=lane).series.get(TINY)
    if sample is not None:
        assert sample.running in (6, None)
        assert sample.waiting in (14, None)
        single = sample.counters.items() - {("finished_requests", sample.counters.get("finished_requests"))}
        assert single <= whole.counters.items()


@given(st.permutations([line for line in LINES if not line.startswith("#")]))
def test_the_order_of_the_lines_means_nothing(lines: list[str]) -> None:
    assert real("0.32.0-queue-load-20streams").series == read("\n".join(lines)).series


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.sampled_from(Lane))
def test_any_bytes_give_a_snapshot_or_a_failed_scrape(body: bytes, lane: Lane) -> None:
    try:
        snapshot = SnapshotReader().read(body, lane=lane)
    except ScrapeError as error:
        assert error.kind in ("parse", "content_type")  # noqa: PT017  # either outcome is right
    else:
        assert "no_known_metrics" == snapshot.fault


def test_a_reader_that_has_seen_a_page_reads_the_next_one_as_a_new_reader_would() -> None:
    reader = SnapshotReader()
    for name in ("idle-start", "load-4streams", "dp2-load-5streams", "idle-after", "load-4streams"):
        body = (PAGES / f"vllm-0.32.0-{name}.prom").read_bytes()
        for lane in Lane:
            assert read_snapshot(body, lane=lane) == reader.read(body, lane=lane)


def test_two_names_of_one_signal_with_different_values_are_told_and_the_first_holds() -> None:
    lines = [
        'vllm:num_requests_running{model_name="m"} 1',
        'vllm:kv_cache_usage_perc{model_name="m"} 0.5',
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.25',
    ]
    snapshot = read_snapshot("\n".join(lines).encode())

    assert "vllm:kv_cache_usage_perc is 0.5, vllm:gpu_cache_usage_perc is 0.25" == snapshot.facts["alias_doubles"]
    assert 0.5 == snapshot.series[SeriesKey("m", "")].kv_usage_ratio


def test_two_names_of_one_signal_with_the_same_values_are_no_doubles() -> None:
    lines = [f'vllm:{name}_cache_usage_perc{{model_name="m"}} 0.5' for name in ("kv", "gpu")]
    assert "alias_doubles" not in read_snapshot("\n".join(lines).encode()).facts
