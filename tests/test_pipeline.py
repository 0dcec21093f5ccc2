"""From attempts to rows and records, over real recordings and simulated pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opmon.core.model import Ceiling, Health, Lane, State, TargetRecord
from opmon.errors import ConfigError
from opmon.pipeline import (
    Observer,
    attempt_of_failure,
    attempt_of_page,
    attempt_of_recording,
    read_recording,
)

RECORDED = Path(__file__).parent / "data" / "recorded"


def _observer() -> Observer:
    return Observer(TargetRecord("recording", "file:recording"))


def test_a_recording_of_a_real_server_is_observed_second_by_second() -> None:
    observer = _observer()
    scrapes = list(read_recording(RECORDED / "plain-scrapes.jsonl.gz"))
    rows = [observer.observe(attempt_of_recording(scrape, interval_ms=1000)).step.row for scrape in scrapes]
    assert {State.OBSERVED} == {row.state for row in rows}
    assert max(sample.running or 0 for row in rows for sample in row.series.values()) == 32


def test_the_record_says_what_the_page_says() -> None:
    observer = _observer()
    scrape = next(read_recording(RECORDED / "plain-scrapes.jsonl.gz"))
    observer.observe(attempt_of_recording(scrape, interval_ms=1000))
    record = observer.record
    assert (record.engine, record.models, record.health, record.state) == ("vllm", ("tiny",), Health.UP, State.OBSERVED)
    assert record.kv_cache_max_concurrency is not None
    assert record.first_scrape_ms == int(scrape["t"]) * 1000


def test_a_failed_attempt_keeps_what_was_known_of_the_server() -> None:
    observer = _observer()
    scrape = next(read_recording(RECORDED / "plain-scrapes.jsonl.gz"))
    observer.observe(attempt_of_recording(scrape, interval_ms=1000))
    at_ms = int(scrape["t"] * 1000) + 1000
    observer.observe(
        attempt_of_failure("refused", kind="connect", at_ms=at_ms, took_ms=1, interval_ms=1000, lane=Lane.PULSE)
    )
    record = observer.record
    assert (record.health, record.state, record.kind, record.last_error) == (
        Health.DOWN,
        State.DOWN,
        "connect",
        "refused",
    )
    assert record.models == ("tiny",)


def test_a_page_that_is_none_is_a_failed_attempt_with_its_reason() -> None:
    attempt = attempt_of_page(b"<!DOCTYPE html><html></html>", at_ms=1000, took_ms=1, interval_ms=1000)
    assert attempt.snapshot is None
    assert attempt.kind in ("content_type", "parse")


@pytest.mark.parametrize(
    ("status", "kind"), [(0, "connect"), (500, "http_status"), (404, "http_status")], ids=["refused", "500", "404"]
)
def test_a_recorded_failure_keeps_its_kind(status: int, kind: str) -> None:
    scrape = {"t": 1_800_000_000.5, "took": 0.1, "status": status, "body": "no"}
    assert attempt_of_recording(scrape, interval_ms=1000).kind == kind


@pytest.mark.parametrize("line", ["{", "[]", '{"t": 1}', '{"t": "x", "status": 200, "body": ""}', "null"])
def test_a_broken_line_is_told_with_file_and_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "scrapes.jsonl"
    good = json.dumps({"t": 1.0, "took": 0.1, "status": 0, "body": ""})
    path.write_text(f"{good}\n{line}\n")
    with pytest.raises(ConfigError, match=r"scrapes\.jsonl, line 2"):
        list(read_recording(path))


def test_a_truncated_archive_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "scrapes.jsonl.gz"
    whole = (RECORDED / "plain-scrapes.jsonl.gz").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ConfigError, match="cannot be read as a recording"):
        list(read_recording(path))


def test_a_learnt_ceiling_holds_from_the_beginning_and_a_later_one_from_then_on() -> None:
    observer = _observer()
    observer.learnt(version="0.32.0", max_num_seqs=64, source="/server_info", at_ms=5000)
    observer.learnt(max_num_seqs=64, at_ms=6000)
    observer.learnt(max_num_seqs=32, at_ms=7000)
    assert observer.record.ceilings == (Ceiling(64, "server_info", 0), Ceiling(32, "metrics", 7000))
    assert observer.record.version == "0.32.0"


def test_a_configured_ceiling_stands_whatever_the_server_says() -> None:
    configured = (Ceiling(16, "configured"),)
    observer = Observer(TargetRecord("a", "http://a", ceilings=configured))
    observer.learnt(max_num_seqs=64, at_ms=5000)
    assert observer.record.ceilings == configured


def test_an_expected_model_that_is_not_served_is_missing() -> None:
    scrape = next(read_recording(RECORDED / "plain-scrapes.jsonl.gz"))
    for expected, missing in (("tiny", False), ("other", True)):
        observer = Observer(TargetRecord("a", "http://a"), expected_model=expected)
        observer.observe(attempt_of_recording(scrape, interval_ms=1000))
        assert (f"model {expected}" in observer.record.missing) is missing


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("t", "NaN", "t is nan; it is the instant"),
        ("t", "Infinity", "t is inf"),
        ("t", "1e30", "t is 1e+30; it is the instant"),
        ("t", "-5", "t is -5; it is the instant"),
        ("took", "-1", "took is -1; it is how long"),
        ("took", "NaN", "took is nan"),
        ("took", "1e30", "took is 1e+30"),
        ("status", "-1", "status is -1"),
        ("status", "Infinity", "OverflowError"),
        ("status", "1" + "0" * 400, "status"),
        ("t", "1" + "0" * 400, "OverflowError"),
        ("body", r'"\ud800"', "surrogate"),
    ],
)
def test_a_value_that_no_scrape_can_have_is_told_by_name(tmp_path: Path, field: str, value: str, words: str) -> None:
    scrape = {"t": "1800000000.5", "took": "0.1", "status": "200", "body": '""', field: value}
    path = tmp_path / "scrapes.jsonl"
    path.write_text("{" + ", ".join(f'"{name}": {text}' for name, text in scrape.items()) + "}\n")
    with pytest.raises(ConfigError) as caught:
        list(read_recording(path))
    assert f"{path}, line 1: " in str(caught.value)
    assert words in str(caught.value)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.sampled_from([0, 200, 1.8e9, 1e400, -(10**400), "\ud800", []]),
)
SCRAPES = st.dictionaries(st.sampled_from(["t", "took", "status", "body"]), VALUES)


@given(st.one_of(VALUES, SCRAPES, SCRAPES.map(lambda one: {"t": 1.8e9, "status": 0, "body": "no"} | one)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_line_is_a_scrape_that_can_be_observed_or_refused_in_words(tmp_path: Path, value: object) -> None:
    path = tmp_path / "scrapes.jsonl"
    path.write_text(json.dumps(value))
    try:
        scrapes = list(read_recording(path))
    except ConfigError:
        return
    (scrape,) = scrapes
    row = _observer().observe(attempt_of_recording(scrape, interval_ms=1000)).step.row
    assert 0 <= row.stratum_ms <= row.at_ms


@given(st.binary(max_size=300), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_file_is_a_recording_or_refused_in_words(tmp_path: Path, data: bytes, is_packed: bool) -> None:
    path = tmp_path / ("scrapes.jsonl.gz" if is_packed else "scrapes.jsonl")
    path.write_bytes((b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" if is_packed else b"") + data)
    try:
        scrapes = list(read_recording(path))
    except ConfigError as error:
        message = str(error)
    else:
        message = f"{path}" if scrapes == [] else ""
    assert message.startswith(str(path))


def test_what_a_recorded_failure_says_cannot_steer_a_terminal() -> None:
    scrape = {"t": 1_800_000_000.5, "took": 0.1, "status": 0, "body": "\x1b[2Jrefused\n"}
    assert r"\x1b[2Jrefused\n" == attempt_of_recording(scrape, interval_ms=1000).detail


def test_a_page_read_in_full_has_no_skipped_line_and_one_with_a_broken_line_has_one() -> None:
    scrape = next(read_recording(RECORDED / "plain-scrapes.jsonl.gz"))
    for body, lines in ((scrape["body"], "0"), (scrape["body"] + "no sample at all\n", "1")):
        observer = _observer()
        observer.observe(attempt_of_recording({**scrape, "body": body}, interval_ms=1000))
        assert observer.record.facts["skipped_lines"] == lines
