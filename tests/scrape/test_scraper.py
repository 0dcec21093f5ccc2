from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from opmon.clock import SystemClock
from opmon.core.engines import PULSE_NAMES
from opmon.core.model import DOWN_KINDS, Attempt, Form, Lane, SeriesKey
from opmon.errors import ConfigError
from opmon.scrape.scraper import Scraper, ScrapeTarget
from tests.scrape.servers import Loopback, Request, Respond, VllmLike, always, send, serving, uvicorn_serving

PAGES = Path(__file__).parents[1] / "data" / "expositions"
WHOLE = (PAGES / "vllm-0.32.0-load-4streams.prom").read_bytes()
M = SeriesKey("m", "0")
TINY = SeriesKey("tiny", "0")


@asynccontextmanager
async def scraping(url: str, **options: Any) -> AsyncIterator[Scraper]:
    scraper = Scraper(ScrapeTarget("t", url, **options), SystemClock())
    try:
        yield scraper
    finally:
        await scraper.aclose()


async def pulse(scraper: Scraper) -> Attempt:
    return await scraper.scrape(1_000, 1_000, Lane.PULSE)


async def full(scraper: Scraper) -> Attempt:
    return await scraper.scrape(1_000, 1_000, Lane.FULL)


def level(attempt: Attempt, key: SeriesKey = TINY) -> int | None:
    """The running requests that an attempt observed."""
    assert attempt.snapshot is not None
    return attempt.snapshot.series[key].running


def form_of(scraper: Scraper) -> Form:
    """The form as it is now."""
    return scraper.form


def filtered(page: bytes = WHOLE) -> bytes:
    """What the server's own filter would leave of a page."""
    lines = page.decode().splitlines()
    return "\n".join(line for line in lines if line.partition("{")[0].partition(" ")[0] in PULSE_NAMES).encode()


def by_form(for_filter: Respond, for_whole: Respond) -> Respond:
    """A server that answers `/metrics/` and `/metrics` in two ways."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        is_filter = request.path.partition("?")[0].endswith("/")
        await (for_filter if is_filter else for_whole)(request, writer)

    return respond


# --- the two forms ----------------------------------------------------------------------------------------------------


async def test_a_server_built_as_vllm_is_pulsed_by_its_filter_and_read_in_full_without() -> None:
    server = VllmLike(running=3)
    with uvicorn_serving(server.app()) as url:
        async with scraping(url) as scraper:
            first, small, second = await full(scraper), await pulse(scraper), await full(scraper)
    assert ["/metrics", "/metrics/", "/metrics"] == server.paths
    assert (Form.FILTERED, False) == (scraper.form, scraper.slowed)
    assert [3, 3, 3] == [level(attempt, M) for attempt in (first, small, second)]
    assert small.size_bytes < first.size_bytes / 2
    assert small.snapshot is not None
    assert () == small.snapshot.missing
    assert 4.0 == small.snapshot.series[M].counters["finished_requests"]
    assert 0.5 == small.snapshot.series[M].counters["itl_seconds_sum"]


async def test_a_server_that_ignores_the_filter_is_read_whole_and_slowed() -> None:
    async with serving(always(WHOLE)) as server, scraping(server.url) as scraper:
        attempts = [await pulse(scraper) for _ in range(3)]
    assert (Form.WHOLE, True) == (scraper.form, scraper.slowed)
    assert ["/metrics/", "/metrics", "/metrics"] == server.paths
    assert [4, 4, 4] == [level(attempt) for attempt in attempts]


@pytest.mark.parametrize(
    "for_filter",
    [
        always(b""),
        always(b"process_start_time_seconds 1\n"),
        always(b"", "404 Not Found"),
        always(b"<html></html>", content_type="text/html"),
        always(b"", "307 Temporary Redirect", location="http://127.0.0.1:1/"),
    ],
    ids=["empty", "without the gauges", "404", "html", "redirect elsewhere"],
)
async def test_a_filter_that_is_of_no_use_is_replaced_by_the_whole_page_at_once_and_for_good(
    for_filter: Respond,
) -> None:
    async with serving(by_form(for_filter, always(WHOLE))) as server, scraping(server.url) as scraper:
        attempts = [await pulse(scraper) for _ in range(3)]
    assert [4, 4, 4] == [level(attempt) for attempt in attempts]
    assert ["/metrics/", "/metrics", "/metrics", "/metrics"] == server.paths
    assert Form.WHOLE is form_of(scraper)


async def test_an_empty_filtered_answer_is_never_an_idle_server() -> None:
    async with serving(always(b"")) as server, scraping(server.url) as scraper:
        attempt = await pulse(scraper)
    assert attempt.snapshot is not None
    assert ("no_known_metrics", {}) == (attempt.snapshot.fault, attempt.snapshot.series)
    assert Form.UNKNOWN is form_of(scraper)


async def test_a_filter_that_stops_working_is_noticed_in_the_same_attempt() -> None:
    answers = iter([filtered(), b""])

    async def for_filter(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, next(answers))

    async with serving(by_form(for_filter, always(WHOLE))) as server, scraping(server.url) as scraper:
        assert 4 == level(await pulse(scraper))
        assert Form.FILTERED is form_of(scraper)
        assert 4 == level(await pulse(scraper))
        assert Form.WHOLE is form_of(scraper)


async def test_a_page_of_several_engines_is_never_pulsed_by_the_part_that_a_filter_leaves() -> None:
    other = b'sglang:num_running_reqs{model_name="m"} 3\n'
    async with serving(by_form(always(filtered()), always(WHOLE + other))) as server, scraping(server.url) as scraper:
        attempts = [await full(scraper), await pulse(scraper)]
    faults = [one.snapshot.fault if one.snapshot else None for one in attempts]
    assert (["not_an_engine"] * 2, Form.WHOLE) == (faults, scraper.form)


def first_name_alone(page: bytes = WHOLE) -> bytes:
    """What is left of a page where a proxy keeps only the first `name[]`."""
    return b"".join(line for line in page.splitlines(keepends=True) if line.startswith(PULSE_NAMES[0].encode()))


@pytest.mark.parametrize("is_full_first", [True, False])
async def test_a_filter_that_leaves_the_gauge_without_its_counters_is_no_filter(is_full_first: bool) -> None:
    async with serving(by_form(always(first_name_alone()), always(WHOLE))) as server, scraping(server.url) as scraper:
        if is_full_first:
            await full(scraper)
        attempts = [await pulse(scraper) for _ in range(3)]
    assert (Form.WHOLE, [4, 4, 4]) == (scraper.form, [level(attempt) for attempt in attempts])
    assert all(one.snapshot and "generation_tokens" in one.snapshot.series[TINY].counters for one in attempts)
    assert 1 == server.paths.count("/metrics/")


async def test_a_filter_that_begins_to_leave_counters_out_is_noticed_in_the_same_attempt() -> None:
    answers = iter([filtered(), first_name_alone()])

    async def for_filter(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, next(answers))

    async with serving(by_form(for_filter, always(WHOLE))) as server, scraping(server.url) as scraper:
        await full(scraper)
        assert (4, Form.FILTERED) == (level(await pulse(scraper)), form_of(scraper))
        attempt = await pulse(scraper)
    assert attempt.snapshot is not None
    assert Form.WHOLE is form_of(scraper)
    assert "generation_tokens" in attempt.snapshot.series[TINY].counters


async def test_counters_that_the_whole_page_does_not_show_any_more_are_not_missed_in_the_filtered_one() -> None:
    is_poor = False

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        page = first_name_alone() if is_poor else WHOLE
        send(writer, filtered(page) + b"\n" if "name[]" in request.path else page + b"other 1\n")

    async with serving(respond) as server, scraping(server.url) as scraper:
        await full(scraper)
        await pulse(scraper)
        is_poor = True
        await pulse(scraper)
        await pulse(scraper)
    assert Form.FILTERED is form_of(scraper)
    assert ["/metrics", "/metrics/", "/metrics/", "/metrics", "/metrics/"] == server.paths


@pytest.mark.parametrize(
    ("interval_ms", "age", "fault"),
    [(1_000, "5", None), (1_000, "6", "stale_page"), (30_000, "30", None), (30_000, "31", "stale_page")],
)
async def test_a_copy_older_than_the_interval_and_5_s_is_not_the_present(
    interval_ms: int, age: str, fault: str | None
) -> None:
    async with serving(always(WHOLE, age=age)) as server, scraping(server.url) as scraper:
        attempt = await scraper.scrape(60_000, interval_ms, Lane.FULL)
    assert attempt.snapshot is not None
    assert (fault, fault is None) == (attempt.snapshot.fault, bool(attempt.snapshot.series))
    assert fault is None or f"(its Age is {age} s)" in attempt.snapshot.detail


OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    ("body", "headers", "kind"),
    [
        (WHOLE + b"# EOF\n", {"content_type": OPENMETRICS}, None),
        (WHOLE + b"# EOF", {"content_type": OPENMETRICS}, None),
        (WHOLE, {"content_type": OPENMETRICS}, "truncated"),
        (WHOLE + b"# EO", {"content_type": OPENMETRICS}, "truncated"),
        (WHOLE.rstrip(b"\n"), {}, None),
        (WHOLE.rstrip(b"\n"), {"content_length": ""}, "truncated"),
        (WHOLE + b"# TYPE x", {"content_length": ""}, "truncated"),
        (WHOLE, {"content_length": ""}, None),
        (WHOLE + b"\r\n \n", {"content_length": ""}, None),
    ],
)
async def test_a_page_whose_end_is_missing_is_cut_off_as_far_as_its_form_tells(
    body: bytes, headers: dict[str, str], kind: str | None
) -> None:
    async def respond(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, body, **headers)
        await writer.drain()
        writer.close()

    async with serving(respond) as server, scraping(server.url) as scraper:
        attempt = await full(scraper)
    assert (kind, kind is None) == (attempt.kind, attempt.snapshot is not None)


async def test_a_server_that_fails_altogether_keeps_its_form() -> None:
    is_broken = False

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if is_broken:
            send(writer, b"boom", "500 Internal Server Error")
        else:
            send(writer, filtered() if "name[]" in request.path else WHOLE)

    async with serving(respond) as server, scraping(server.url) as scraper:
        await pulse(scraper)
        is_broken = True
        attempt = await pulse(scraper)
        assert (None, "http_status", Form.FILTERED) == (attempt.snapshot, attempt.kind, scraper.form)
        is_broken = False
        assert 4 == level(await pulse(scraper))


async def test_other_processes_of_one_server_are_asked_again_after_a_restart() -> None:
    server = VllmLike(start=1.0)
    with uvicorn_serving(server.app()) as url:
        async with scraping(url) as scraper:
            server.answers_filter_with = b""
            await pulse(scraper)
            assert Form.WHOLE is form_of(scraper)
            server.answers_filter_with = None
            await pulse(scraper)
            assert Form.WHOLE is form_of(scraper)
            scraper.reprobe()
            await pulse(scraper)
            assert Form.FILTERED is form_of(scraper)


async def test_a_new_start_time_is_a_restart_that_the_scraper_sees_itself() -> None:
    starts = iter([1, 1, 2, 2, 2])

    async def respond(_: Request, writer: asyncio.StreamWriter) -> None:
        page = f'vllm:num_requests_running{{model_name="m"}} 1\nprocess_start_time_seconds {next(starts)}\nother 1\n'
        send(writer, page)

    async with serving(respond) as server, scraping(server.url) as scraper:
        for _ in range(5):
            await pulse(scraper)
    assert ["/metrics/", "/metrics", "/metrics", "/metrics/", "/metrics"] == server.paths


# --- an attempt -------------------------------------------------------------------------------------------------------


async def test_an_attempt_carries_its_stratum_its_times_and_its_size() -> None:
    before_ms = SystemClock().now_ms()

    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        send(writer, WHOLE)

    async with serving(slow) as server, scraping(server.url) as scraper:
        attempt = await scraper.scrape(7_000, 500, Lane.FULL)
    assert (7_000, 500, Lane.FULL, len(WHOLE)) == (
        attempt.stratum_ms,
        attempt.interval_ms,
        attempt.lane,
        attempt.size_bytes,
    )
    assert before_ms <= attempt.at_ms <= SystemClock().now_ms()
    assert attempt.first_byte_ms is not None
    assert 95 <= attempt.first_byte_ms <= attempt.took_ms < 1_000


async def test_an_attempt_of_two_requests_is_timed_from_the_first() -> None:
    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        send(writer, b"")

    async with serving(by_form(slow, always(WHOLE))) as server, scraping(server.url) as scraper:
        attempt = await pulse(scraper)
    assert attempt.first_byte_ms is not None
    assert attempt.first_byte_ms >= 95


async def test_two_requests_share_the_deadline_of_one_attempt() -> None:
    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        send(writer, b"")

    before = time.monotonic()
    async with serving(slow) as server, scraping(server.url, timeout_ms=450) as scraper:
        attempt = await pulse(scraper)
    assert (None, "timeout") == (attempt.snapshot, attempt.kind)
    assert time.monotonic() - before < 2


@pytest.mark.parametrize(
    ("respond", "kind"),
    [
        (always(b"<!DOCTYPE html>", content_type="text/html; charset=utf-8"), "content_type"),
        (always(b"nothing like a sample"), "parse"),
        (always(b"x", "500 Internal Server Error"), "http_status"),
        (always(b"", "307 Temporary Redirect", location="/metrics"), "redirect"),
        (always(WHOLE, content_encoding="gzip"), "encoding"),
        (always(b"", content_length="99999999"), "too_large"),
    ],
)
@pytest.mark.parametrize("lane", Lane)
async def test_a_fault_of_the_target_is_told_and_not_raised(respond: Respond, kind: str, lane: Lane) -> None:
    async with serving(respond) as server, scraping(server.url) as scraper:
        attempt = await scraper.scrape(0, 1_000, lane)
    assert (None, kind) == (attempt.snapshot, attempt.kind)
    assert kind in DOWN_KINDS
    assert attempt.detail


async def test_a_target_that_is_away_is_asked_once_and_found_again() -> None:
    async with serving(always(WHOLE)) as server:
        url = server.url
    async with scraping(url) as scraper:
        attempt = await pulse(scraper)
        assert (None, "connect", Form.UNKNOWN) == (attempt.snapshot, attempt.kind, scraper.form)


async def test_a_page_without_a_type_is_read() -> None:
    async with serving(always(WHOLE, content_type="")) as server, scraping(server.url) as scraper:
        assert 4 == level(await full(scraper))


async def test_a_large_page_is_read_as_a_small_one_is() -> None:
    junk = b"".join(b'junk{i="%d"} 1\n' % number for number in range(60_000))
    async with serving(always(junk + WHOLE)) as server, scraping(server.url) as scraper:
        assert 4 == level(await full(scraper))


async def test_a_bad_line_is_in_the_detail_of_a_good_attempt() -> None:
    async with serving(always(WHOLE + b"this is not a metric line\n")) as server, scraping(server.url) as scraper:
        attempt = await full(scraper)
    assert (4, None) == (level(attempt), attempt.kind)
    assert "this is not a metric line" in attempt.detail


# --- addresses and credentials ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ["/metrics", "/metrics/", "/version"]),
        ("/", ["/metrics", "/metrics/", "/version"]),
        ("/metrics", ["/metrics", "/metrics/", "/version"]),
        ("/metrics/", ["/metrics", "/metrics/", "/version"]),
        ("/gw/vllm", ["/gw/vllm/metrics", "/gw/vllm/metrics/", "/gw/vllm/version"]),
        ("/gw/vllm/metrics", ["/gw/vllm/metrics", "/gw/vllm/metrics/", "/gw/vllm/version"]),
    ],
)
async def test_a_target_is_a_base_or_its_metrics_page_and_keeps_its_prefix(path: str, expected: list[str]) -> None:
    async with serving(always(filtered())) as server, scraping(server.url + path) as scraper:
        await full(scraper)
        await pulse(scraper)
        await scraper.learn()
    assert expected == server.paths[:3]


async def test_the_filter_asks_for_every_name_and_keeps_a_query_of_the_target() -> None:
    async with serving(always(filtered())) as server, scraping(f"{server.url}/metrics?tenant=a") as scraper:
        await pulse(scraper)
    query = server.requests[0].path.partition("?")[2].replace("%5B%5D", "[]").replace("%3A", ":")
    assert ["tenant=a", *(f"name[]={name}" for name in PULSE_NAMES)] == query.split("&")


@pytest.mark.parametrize("url", ["ftp://host/", "file:///etc/passwd", "http://", "", "http://h:99999", "http://[::1"])
def test_an_address_that_cannot_be_a_target_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="a target is http"):
        Scraper(ScrapeTarget("t", url), SystemClock())


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(ConfigError) as caught:
        Scraper(ScrapeTarget("t", "http://me:hunter2@host:99999/"), SystemClock())
    assert "hunter2" not in str(caught.value)


async def test_user_info_in_the_address_becomes_basic_authentication_and_is_shown_nowhere() -> None:
    async with serving(always(b"", "401 Unauthorized")) as server:
        url = server.url.replace("http://", "http://me:hunter2@")
        async with scraping(url) as scraper:
            attempt = await full(scraper)
    expected = "Basic " + base64.b64encode(b"me:hunter2").decode()
    assert expected == server.requests[0].headers["authorization"]
    assert "hunter2" not in attempt.detail


# --- learning ---------------------------------------------------------------------------------------------------------

SERVER_INFO = {"vllm_config": {"model_config": {"max_model_len": 4096}, "scheduler_config": {"max_num_seqs": 64}}}


def vllm_answers(**answers: object) -> Respond:
    """A server with JSON beside its metrics; what is not given is 404."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.path.partition("?")[0].strip("/").replace("/", "_")
        if name == "metrics":
            send(writer, WHOLE)
        elif name in answers:
            send(writer, json.dumps(answers[name]), content_type="application/json")
        else:
            send(writer, b"", "404 Not Found")

    return respond


async def test_version_models_and_ceiling_are_learnt_where_the_server_tells() -> None:
    models = json.loads((PAGES / "vllm-0.32.0-models.json").read_text())
    models["data"].append({"id": "adapter", "parent": "tiny", "max_model_len": 1})
    respond = vllm_answers(version={"version": "0.32.0"}, v1_models=models, server_info=SERVER_INFO)
    async with serving(respond) as server, scraping(server.url) as scraper:
        learnt = await scraper.learn()
    assert ("0.32.0", ("tiny",), 64) == (learnt.version, learnt.models, learnt.max_num_seqs)
    assert {"max_model_len": "4096"} == learnt.facts


async def test_what_a_server_does_not_tell_stays_unknown() -> None:
    async with serving(vllm_answers()) as server, scraping(server.url) as scraper:
        learnt = await scraper.learn()
    assert (None, (), None, {}) == (learnt.version, learnt.models, learnt.max_num_seqs, learnt.facts)


@pytest.mark.parametrize("answer", [[], "text", None, 7, {"version": 3, "data": "x"}, {"data": [1, {"id": 2}]}])
async def test_json_of_another_shape_teaches_nothing(answer: object) -> None:
    respond = vllm_answers(version=answer, v1_models=answer, server_info=answer)
    async with serving(respond) as server, scraping(server.url) as scraper:
        learnt = await scraper.learn()
    assert (None, (), None) == (learnt.version, learnt.models, learnt.max_num_seqs)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"scheduler_config": {"max_num_seqs": 256}, "speculative_config": {"max_num_seqs": 8}}, 256),
        ({"vllm_config": {"draft_model_config": {"max_num_seqs": 8}, "max_num_seqs": 64}}, 64),
        ({"vllm_config": "SchedulerConfig(max_num_seqs=1e30, x=1)"}, None),
    ],
)
async def test_a_ceiling_is_the_servers_own_and_a_whole_number(answer: dict[str, object], expected: int | None) -> None:
    async with serving(vllm_answers(server_info=answer)) as server, scraping(server.url) as scraper:
        assert expected == (await scraper.learn()).max_num_seqs


async def test_the_ceiling_is_also_found_in_a_configuration_written_as_text() -> None:
    text = {"vllm_config": "model='m', scheduler_config=SchedulerConfig(max_num_batched_tokens=2048, max_num_seqs=48)"}
    async with serving(vllm_answers(server_info=text)) as server, scraping(server.url) as scraper:
        assert 48 == (await scraper.learn()).max_num_seqs


async def test_the_version_is_in_the_identity_from_when_it_is_known_until_a_restart() -> None:
    def version_of(attempt: Attempt) -> str | None:
        assert attempt.snapshot is not None
        return attempt.snapshot.identity.get("version")

    async with serving(vllm_answers(version={"version": "0.32.0"})) as server, scraping(server.url) as scraper:
        before = await pulse(scraper)
        await scraper.learn()
        known = await pulse(scraper)
        scraper.reprobe()
        after = await pulse(scraper)
    assert [None, "0.32.0", None] == [version_of(attempt) for attempt in (before, known, after)]


async def test_after_a_restart_no_page_is_reported_under_the_old_version() -> None:
    starts = iter([1, 1, 2, 2])

    async def metrics(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, f'vllm:num_requests_running{{model_name="m"}} 1\nprocess_start_time_seconds {next(starts)}\n')

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        await (metrics if "metrics" in request.path else vllm_answers(version={"version": "1"}))(request, writer)

    seen = []
    async with serving(respond) as server, scraping(server.url) as scraper:
        await scraper.learn()
        for _ in range(4):
            snapshot = (await full(scraper)).snapshot
            assert snapshot is not None
            seen.append((snapshot.process_start_seconds, snapshot.identity.get("version")))
    assert [(1.0, "1"), (1.0, "1"), (2.0, None), (2.0, None)] == seen


async def test_what_answers_after_an_outage_may_be_another_version() -> None:
    is_away = False

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if is_away:
            writer.close()
        else:
            await vllm_answers(version={"version": "1"})(request, writer)

    async with serving(respond) as server, scraping(server.url) as scraper:
        await scraper.learn()
        is_away = True
        assert "connect" == (await full(scraper)).kind
        is_away = False
        after = await full(scraper)
    assert after.snapshot is not None
    assert "version" not in after.snapshot.identity


async def test_scrapes_do_not_wait_for_what_is_learnt() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path.startswith("/metrics"):
            send(writer, WHOLE)
        else:
            await asyncio.sleep(0.3)
            send(writer, b"{}", content_type="application/json")

    async with serving(respond) as server, scraping(server.url) as scraper:
        learning = asyncio.create_task(scraper.learn())
        await asyncio.sleep(0.05)
        attempt = await full(scraper)
        assert not learning.done()
        await learning
    assert attempt.took_ms < 250


async def test_several_targets_are_scraped_side_by_side() -> None:
    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        send(writer, WHOLE)

    async def one(server: Loopback) -> Attempt:
        async with scraping(server.url) as scraper:
            return await full(scraper)

    async with serving(slow) as server:
        before = time.monotonic()
        attempts = await asyncio.gather(*(one(server) for _ in range(10)))
        spent = time.monotonic() - before
    assert [4] * 10 == [level(attempt) for attempt in attempts]
    assert spent < 1.5


# --- other engines ----------------------------------------------------------------------------------------------------

SGLANG = (PAGES / "sglang-dp2-tp2.prom").read_bytes()


def answering(page: bytes, answers: dict[str, object]) -> Respond:
    """A server with a metrics page, whatever is asked of it, and JSON at some paths; all else is 404."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        path = request.path.partition("?")[0]
        if path.startswith("/metrics"):
            send(writer, page)
        elif path in answers:
            send(writer, json.dumps(answers[path]), content_type="application/json")
        else:
            send(writer, b"", "404 Not Found")

    return respond


async def test_an_engine_that_does_not_filter_is_never_asked_to() -> None:
    async with serving(always(SGLANG)) as server, scraping(server.url) as scraper:
        await full(scraper)
        attempts = [await pulse(scraper) for _ in range(2)]
    assert ["/metrics", "/metrics", "/metrics"] == server.paths
    assert (Form.WHOLE, True) == (scraper.form, scraper.slowed)
    assert [6, 6] == [level(attempt, SeriesKey("m", "0")) for attempt in attempts]


async def test_an_engine_that_is_named_is_not_asked_to_filter_even_the_first_time() -> None:
    async with serving(always(SGLANG)) as server, scraping(server.url, engine="sglang") as scraper:
        await pulse(scraper)
    assert ["/metrics"] == server.paths


async def test_when_another_engine_answers_the_form_is_found_out_anew() -> None:
    pages = iter([SGLANG, SGLANG, WHOLE])

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, filtered() if "name[]" in request.path.replace("%5B%5D", "[]") else next(pages))

    async with serving(respond) as server, scraping(server.url) as scraper:
        await full(scraper)
        await pulse(scraper)
        await full(scraper)
        attempt = await pulse(scraper)
    assert ["/metrics", "/metrics", "/metrics", "/metrics/"] == server.paths
    assert (Form.FILTERED, 4) == (form_of(scraper), level(attempt))


def told(version: str | None, seqs: int | None, source: str, **facts: str) -> tuple[object, ...]:
    return version, seqs, source, facts


@pytest.mark.parametrize(
    ("page", "answers", "expected", "paths"),
    [
        (
            "sglang-dp2-tp2",
            {"/server_info": {"version": "0.5.18", "internal_states": [{"effective_max_running_requests_per_dp": 52}]}},
            told("0.5.18", 52, "/server_info"),
            ["/server_info", "/get_server_info", "/v1/models"],
        ),
        (
            "sglang-dp2-tp2",
            {
                "/get_server_info": {
                    "version": "0.4.6",
                    "max_running_requests": 64,
                    "dp_size": 2,
                    "context_length": None,
                }
            },
            told("0.4.6", 32, "/get_server_info"),
            ["/server_info", "/get_server_info", "/v1/models"],
        ),
        (
            "llama-cpp",
            {"/props": {"total_slots": 4, "build_info": "b9", "default_generation_settings": {"n_ctx": 8192}}},
            told("b9", 4, "/props", max_model_len="8192"),
            ["/props", "/v1/models"],
        ),
        (
            "tgi",
            {"/info": {"version": "3.3", "model_id": "o/m", "max_total_tokens": 4096, "max_concurrent_requests": 128}},
            told("3.3", None, "", max_model_len="4096", max_concurrent_requests="128"),
            ["/info"],
        ),
        ("trtllm", {"/version": {"version": "1.2.0"}}, told("1.2.0", 2048, "/metrics"), ["/version", "/v1/models"]),
        (
            "lmdeploy",
            {"/v1/models": {"data": [{"id": "m"}]}},
            told(None, 128, "/metrics"),
            ["/v1/models"],
        ),
        ("triton-trtllm", {}, told(None, None, ""), []),
        (
            "vllm-0.32.0-load-4streams",
            {"/server_info": {"vllm_config": "SchedulerConfig(max_num_seqs=64, max_num_active_seqs=48)"}},
            told(None, 48, "/server_info"),
            ["/version", "/v1/models", "/server_info"],
        ),
    ],
)
async def test_each_engine_is_asked_what_it_can_tell(
    page: str, answers: dict[str, object], expected: tuple[object, ...], paths: list[str]
) -> None:
    respond = answering((PAGES / f"{page}.prom").read_bytes(), answers)
    async with serving(respond) as server, scraping(server.url) as scraper:
        await full(scraper)
        learnt = await scraper.learn()
    assert expected == (learnt.version, learnt.max_num_seqs, learnt.ceiling_source, learnt.facts)
    assert paths == server.paths[1:]


@pytest.mark.parametrize(
    "answer", [[], "text", 7, {"internal_states": 3}, {"internal_states": [1, {}]}, {"total_slots": -1}]
)
async def test_json_of_another_shape_teaches_nothing_of_any_engine(answer: object) -> None:
    asked = ("/server_info", "/get_server_info", "/v1/models", "/props", "/info", "/version")
    for page in ("sglang-dp2-tp2", "llama-cpp", "tgi"):
        respond = answering((PAGES / f"{page}.prom").read_bytes(), dict.fromkeys(asked, answer))
        async with serving(respond) as server, scraping(server.url) as scraper:
            await full(scraper)
            learnt = await scraper.learn()
        assert (None, (), None, {}) == (learnt.version, learnt.models, learnt.max_num_seqs, learnt.facts)
