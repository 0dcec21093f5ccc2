"""The routes of /api/v1, health and /metrics."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
from urllib.parse import urlencode

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core import answers as a
from opmon.errors import ConfigError, StoreError
from opmon.reports import WindowAsk
from tests.api.conftest import application, client_of
from tests.api.stage import HOSTILE, NOW, Scene, operating_point, status

READING = [
    "/api/v1/targets",
    "/api/v1/operating-point",
    "/api/v1/concurrency?window=6h&step=10m",
    "/api/v1/curve?sweep=example-drafters",
    "/api/v1/recommendation?sweep=example-drafters",
    "/api/v1/sweeps",
    "/api/v1/sweeps/example-drafters",
    "/api/v1/turn?ttft_seconds=6.084&decode_seconds=10.003&speedup_ratio=1.42",
    "/api/v1/turns",
    "/api/v1/status/buildinfo",
]
SWEEP_FILE = b"config,content,concurrency,prompt_tokens,aggregate_tok_s\nold,code,1,33,122.6\nnew,code,1,33,111.2\n"


def refuse_constant(text: str) -> None:
    raise AssertionError(text)


async def test_the_operating_point_has_exactly_the_fields_of_the_contract(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/api/v1/operating-point")).json()
    assert {
        "window", "selector", "sentence", "coverage", "epochs", "ceiling", "running", "in_system", "waiting", "queue",
        "throughput", "lengths", "latency", "speculation", "prefix_cache", "checks", "warnings",
    } == set(answer)  # fmt: skip
    assert {"occupancy", "time", "busy", "request"} == set(answer["running"])
    assert {"level": 0, "seconds": 600.0, "ratio": 600 / 900} == answer["running"]["occupancy"][0]


async def test_the_selector_of_the_query_reaches_reports_and_comes_back(client: httpx.AsyncClient) -> None:
    query = "target=gpu-1:8000&model=m&engine_index=0&job=vllm&label=site:north&label=rack:7&epoch=current"
    selector = (await client.get(f"/api/v1/operating-point?{query}")).json()["selector"]
    assert ["site:north", "rack:7"] == selector.pop("label")
    assert {
        "target": "gpu-1:8000", "model": "m", "engine_index": "0", "job": "vllm", "fleet": None, "scope": "replica",
        "epoch": "current",
    } == selector  # fmt: skip


async def test_windows_are_read_as_durations_instants_and_unix_seconds(scene: Scene, client: httpx.AsyncClient) -> None:
    await client.get("/api/v1/operating-point?window=90s")
    assert 90_000 == scene.asks[-1][1].window_ms
    await client.get("/api/v1/operating-point?start=2026-11-29T17:00:00Z&end=1795973400.5")
    assert (1_795_971_600_000, 1_795_973_400_500) == (scene.asks[-1][1].start_ms, scene.asks[-1][1].end_ms)
    await client.get("/api/v1/operating-point")
    assert WindowAsk() == scene.asks[-1][1]


@pytest.mark.parametrize("address", READING)
async def test_an_unknown_query_parameter_is_refused_by_name(client: httpx.AsyncClient, address: str) -> None:
    answer = await client.get(address, params={**httpx.URL(address).params, "widow": "1"})
    assert (422, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert "unknown query parameter 'widow'" in answer.json()["detail"]
    assert [("widow", "query")] == [(one["name"], one["in"]) for one in answer.json()["errors"]]


async def test_the_refusal_of_an_unknown_parameter_says_what_is_known(client: httpx.AsyncClient) -> None:
    detail = (await client.get("/api/v1/turn?ttft=1")).json()["detail"]
    assert "known here: format, ttft_seconds, decode_seconds, speedup_ratio, measured, ttft_ratio" in detail


@pytest.mark.parametrize(
    "query",
    ["window=soon", "window=0s", "start=yesterday", "window=1h&start=1&end=2", "start=20&end=10"],
)
async def test_a_window_that_cannot_be_read_is_a_problem_of_the_caller(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/api/v1/operating-point?{query}")
    assert (422, "urn:opmon:problem:invalid-window") == (answer.status_code, answer.json()["type"])


@pytest.mark.parametrize(
    "query",
    ["ttft_seconds=nan&decode_seconds=1&speedup_ratio=1", "ttft_seconds=1&decode_seconds=0&speedup_ratio=1",
     "ttft_seconds=1&decode_seconds=inf&speedup_ratio=1", "ttft_seconds=1&decode_seconds=1",
     "ttft_seconds=1&decode_seconds=1&speedup_ratio=2&measured=maybe"],
)  # fmt: skip
async def test_the_turn_calculator_refuses_what_is_no_usable_number(client: httpx.AsyncClient, query: str) -> None:
    answer = await client.get(f"/api/v1/turn?{query}")
    assert (422, "application/problem+json") == (answer.status_code, answer.headers["content-type"])


@pytest.mark.parametrize("address", READING)
async def test_every_reading_answer_has_a_tag_and_is_not_sent_twice(client: httpx.AsyncClient, address: str) -> None:
    first = await client.get(address)
    assert 200 == first.status_code
    again = await client.get(address, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (304, b"", first.headers["etag"]) == (again.status_code, again.content, again.headers["etag"])
    assert "no-cache" in first.headers["cache-control"]


async def test_an_unchanged_answer_is_not_computed_again(scene: Scene, client: httpx.AsyncClient) -> None:
    tag = (await client.get("/api/v1/operating-point")).headers["etag"]
    await client.get("/api/v1/operating-point", headers={"If-None-Match": tag})
    assert 1 == scene.computed


async def test_a_tag_changes_with_commit_query_and_form(scene: Scene, client: httpx.AsyncClient) -> None:
    addresses = ["/api/v1/operating-point", "/api/v1/operating-point?window=1h", "/api/v1/operating-point?format=csv"]
    tags = [(await client.get(one)).headers["etag"] for one in addresses]
    scene.version += 1
    tags.append((await client.get(addresses[0])).headers["etag"])
    assert 4 == len(set(tags))


@pytest.mark.parametrize("address", READING)
async def test_every_reading_answer_is_a_table_too(client: httpx.AsyncClient, address: str) -> None:
    answer = await client.get(address, params={**httpx.URL(address).params, "format": "csv"})
    assert (200, "text/csv; charset=utf-8") == (answer.status_code, answer.headers["content-type"])
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert len(rows) > 1
    assert {len(rows[0])} == {len(row) for row in rows}


async def test_the_table_of_the_operating_point_has_a_row_per_level(client: httpx.AsyncClient) -> None:
    text = (await client.get("/api/v1/operating-point?format=csv")).text
    running = [row for row in csv.DictReader(io.StringIO(text)) if row["of"] == "running"]
    assert [("0", "600.0"), ("1", "240.0"), ("2", "36.0"), ("4", "24.0")] == [
        (row["level"], row["seconds"]) for row in running
    ]


async def test_a_cell_that_a_spreadsheet_would_run_is_neutralised(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.all_targets = (status("=cmd|' /C calc'!A0"),)
    rows = list(csv.DictReader(io.StringIO((await client.get("/api/v1/targets?format=csv")).text)))
    assert "'=cmd|' /C calc'!A0" == rows[0]["name"]


async def test_what_is_no_finite_number_is_null_and_never_nan(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.point = operating_point(throughput=a.Throughput(math.nan, math.inf, -math.inf, None, 1.0, 0.0))
    text = (await client.get("/api/v1/operating-point")).text
    throughput = json.loads(text, parse_constant=refuse_constant)["throughput"]
    assert [None, None, None, None, 1.0, 0.0] == list(throughput.values())


async def test_an_unknown_target_is_404_and_names_those_that_are(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/operating-point?target=gpu-9")
    assert (404, "urn:opmon:problem:not-found") == (answer.status_code, answer.json()["type"])
    assert "gpu-1:8000" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("error", "expected"), [(ConfigError("name two"), 422), (StoreError("/x/opmon.db is damaged"), 503)]
)
async def test_every_kind_of_error_is_a_problem_with_its_status(
    scene: Scene, client: httpx.AsyncClient, error: Exception, expected: int
) -> None:
    scene.answer = error
    answer = await client.get("/api/v1/recommendation?sweep=example-drafters")
    assert (expected, str(error)) == (answer.status_code, answer.json()["detail"])
    assert {"type", "title", "status", "detail"} == set(answer.json())


async def test_an_unforeseen_exception_is_a_problem_without_a_traceback(scene: Scene) -> None:
    scene.answer = ZeroDivisionError("secret inner words")
    async with client_of(application(scene)) as client:
        answer = await client.get("/api/v1/recommendation?sweep=example-drafters")
    assert (500, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert "secret" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_the_curve_stands_beside_the_cells_of_the_named_sweep(client: httpx.AsyncClient) -> None:
    alone = (await client.get("/api/v1/curve")).json()
    beside = (await client.get("/api/v1/curve?sweep=example-drafters")).json()
    assert (None, []) == (alone["sweep"], alone["cells"])
    assert ("example-drafters", 12) == (beside["sweep"], len(beside["cells"]))
    assert [] == alone["beside"]
    (one,) = [
        level
        for level in beside["beside"]
        if (level["configuration"], level["content"], level["concurrency"]) == ("fp8-mtp5", "prose", 1.0)
    ]
    assert [118.0, 240.0, False] == [one[key] for key in ("live_tokens_per_second", "live_seconds", "agrees")]
    assert one["cell_decode_tokens_per_second"] * (1 + one["difference_ratio"]) == pytest.approx(118.0)


async def test_a_benchmark_file_is_taken_in_once(scene: Scene, client: httpx.AsyncClient) -> None:
    upload = {"file": ("drafters two.csv", SWEEP_FILE, "text/csv")}
    first = await client.post("/api/v1/sweeps", files=upload)
    assert (201, "drafters two") == (first.status_code, first.json()["name"])
    assert [("drafters two.csv", NOW)] == [(i["file_name"], i["imported"]) for i in first.json()["imports"]]
    assert "sweeps/drafters%20two" == first.headers["location"]
    again = await client.post("/api/v1/sweeps", files=upload)
    assert (200, {"example-drafters", "drafters two"}) == (again.status_code, set(scene.stored))


async def test_the_form_of_a_browser_is_sent_on_to_the_page_of_the_sweep(client: httpx.AsyncClient) -> None:
    answer = await client.post(
        "/api/v1/sweeps", files={"file": ("a.csv", SWEEP_FILE)}, headers={"Accept": "text/html,*/*"}
    )
    assert (303, "../../?sweep=a") == (answer.status_code, answer.headers["location"])


@pytest.mark.parametrize("name", ["..", "a/b", " ", "a\nb"])
async def test_a_sweep_cannot_take_a_name_that_no_address_can_hold(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/api/v1/sweeps", params={"sweep": name}, files={"file": ("a.csv", SWEEP_FILE)})
    assert (422, "urn:opmon:problem:sweep") == (answer.status_code, answer.json()["type"])


async def test_a_path_in_a_file_name_is_cut_to_its_last_part(scene: Scene, client: httpx.AsyncClient) -> None:
    await client.post("/api/v1/sweeps", files={"file": ("../../etc\\cron.d/x.csv", SWEEP_FILE)})
    assert "x.csv" == scene.stored["x"].imports[0].file_name


async def test_a_file_that_is_no_benchmark_is_refused_in_words(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/v1/sweeps", files={"file": ("x.bin", b"\x00\x01\x02" * 50)})
    assert (422, "urn:opmon:problem:sweep") == (answer.status_code, answer.json()["type"])
    assert "x.bin" in answer.json()["detail"]


async def test_a_sweep_is_deleted_once(scene: Scene, client: httpx.AsyncClient) -> None:
    assert 204 == (await client.delete("/api/v1/sweeps/example-drafters")).status_code
    assert {} == scene.stored
    assert 404 == (await client.delete("/api/v1/sweeps/example-drafters")).status_code


async def test_hostile_names_are_plain_text_in_json_and_addresses(scene: Scene, client: httpx.AsyncClient) -> None:
    scene.all_targets = (status(HOSTILE, models=(HOSTILE,)),)
    assert HOSTILE == (await client.get("/api/v1/targets")).json()["targets"][0]["name"]
    assert 200 == (await client.get("/api/v1/operating-point", params={"target": HOSTILE})).status_code


@pytest.mark.parametrize(("path", "word"), [("/-/healthy", "healthy"), ("/livez", "healthy"), ("/-/ready", "ready"),
                                           ("/readyz", "ready")])  # fmt: skip
async def test_health_answers_get_and_head(client: httpx.AsyncClient, path: str, word: str) -> None:
    answer = await client.get(path)
    assert (200, f"opmon is {word}.\n") == (answer.status_code, answer.text)
    assert 200 == (await client.head(path)).status_code


async def test_not_ready_is_503_while_still_healthy(scene: Scene) -> None:
    async with client_of(application(scene, is_ready=False)) as client:
        assert 503 == (await client.get("/-/ready")).status_code
        assert 200 == (await client.get("/-/healthy")).status_code


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
async def test_metrics_are_never_a_redirect_and_follow_accept(client: httpx.AsyncClient, path: str) -> None:
    plain = await client.get(path)
    assert (200, "text/plain; version=0.0.4; charset=utf-8") == (plain.status_code, plain.headers["content-type"])
    other = await client.get(path, headers={"Accept": "application/openmetrics-text;version=1.0.0,*/*;q=0.1"})
    assert "application/openmetrics-text; version=1.0.0; charset=utf-8" == other.headers["content-type"]


async def test_the_description_of_the_api_is_complete_and_needs_no_other_host(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert {
        "/api/v1/targets", "/api/v1/operating-point", "/api/v1/concurrency", "/api/v1/curve", "/api/v1/recommendation",
        "/api/v1/sweeps", "/api/v1/sweeps/{name}", "/api/v1/turn", "/api/v1/status/buildinfo", "/api/v1/status/config",
        "/api/v1/status/runtimeinfo", "/api/v1/claim", "/api/v1/saving", "/api/v1/turns",
    } == set(described["paths"])  # fmt: skip
    schema = described["paths"]["/api/v1/operating-point"]["get"]["responses"]["200"]["content"]
    assert {"application/json", "text/csv"} == set(schema)
    for path in ("/docs", "/redoc"):
        assert 404 == (await client.get(path)).status_code


@pytest.mark.parametrize("address", READING)
async def test_head_answers_as_get_does(client: httpx.AsyncClient, address: str) -> None:
    get, head = await client.get(address), await client.head(address)
    assert 200 == head.status_code
    names = ("content-type", "content-length", "etag", "cache-control")
    assert [get.headers[name] for name in names] == [head.headers[name] for name in names]


async def test_head_of_what_is_not_there_is_404_and_of_a_wrong_query_422(client: httpx.AsyncClient) -> None:
    assert 404 == (await client.head("/api/v1/sweeps/nobody")).status_code
    assert 422 == (await client.head("/api/v1/targets?widow=1")).status_code
    assert 405 == (await client.request("PUT", "/api/v1/targets")).status_code


@pytest.mark.parametrize("path", ["/api/v1/operating-point", "/api/v1/concurrency", "/api/v1/curve", "/"])
@pytest.mark.parametrize("name", ["target", "model", "window", "start"])
async def test_a_parameter_that_means_one_thing_is_refused_by_name_when_it_is_repeated(
    client: httpx.AsyncClient, path: str, name: str
) -> None:
    answer = await client.get(f"{path}?{name}=1&{name}=2", headers={"Accept": "application/json"})
    assert (422, "urn:opmon:problem:invalid-request") == (answer.status_code, answer.json()["type"])
    assert [(name, "query")] == [(one["name"], one["in"]) for one in answer.json()["errors"]]
    assert "2 times" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/api/v1/operating-point", "/api/v1/concurrency", "/api/v1/curve", "/"])
@pytest.mark.parametrize("name", ["target", "model", "engine_index"])
async def test_an_empty_name_is_not_found_like_an_unknown_one(client: httpx.AsyncClient, path: str, name: str) -> None:
    assert 404 == (await client.get(f"{path}?{name}=")).status_code


@pytest.mark.parametrize("path", ["/api/v1/operating-point", "/"])
@pytest.mark.parametrize("window", ["9" * 400 + "d", "1ms", "0.5s", "٣٠s", ""])
async def test_a_window_that_is_none_is_a_problem_of_the_caller_everywhere(
    client: httpx.AsyncClient, path: str, window: str
) -> None:
    answer = await client.get(path, params={"window": window})
    assert (422, "urn:opmon:problem:invalid-window") == (answer.status_code, answer.json()["type"])


@given(
    st.sampled_from(["window", "start", "end", "step", "target", "model", "label", "epoch", "format", "widow"]),
    st.one_of(st.text(), st.text(alphabet="0123456789.-:TZsmhdw+ ", max_size=400)),
)
@settings(max_examples=60, deadline=None)
def test_any_argument_is_answered_or_a_problem_of_the_caller(name: str, value: str) -> None:
    async def ask() -> int:
        async with client_of(application(Scene())) as one:
            query = urlencode({name: value}, errors="replace")
            return (await one.get(f"/api/v1/concurrency?{query}")).status_code

    assert asyncio.run(ask()) in (200, 404, 422)


async def test_several_files_at_once_are_refused_by_name(scene: Scene, client: httpx.AsyncClient) -> None:
    files = [("file", ("a.csv", SWEEP_FILE)), ("file", ("b.csv", SWEEP_FILE))]
    answer = await client.post("/api/v1/sweeps", files=files)
    assert (422, {"example-drafters"}) == (answer.status_code, set(scene.stored))
    assert "2 parts `file` (a.csv, b.csv)" in answer.json()["detail"]


@pytest.mark.parametrize("part", ["config", "content", "sweep"])
@pytest.mark.parametrize("name", ["\x1b]0;pwn\x07", "a\x00b", "a\nb", "x" * 201, ""])
async def test_a_name_that_cannot_be_printed_is_refused_in_an_upload(
    scene: Scene, client: httpx.AsyncClient, part: str, name: str
) -> None:
    files = {"file": ("a.csv", SWEEP_FILE)}
    answer = await client.post("/api/v1/sweeps", params={part: name}, files=files)
    assert (422, "urn:opmon:problem:sweep") == (answer.status_code, answer.json()["type"])
    assert {"example-drafters"} == set(scene.stored)
