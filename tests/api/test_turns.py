"""Clients report turns; the summary and the recommendation are made of them. Over the real store and reports."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from opmon.clock import ManualClock
from opmon.reports import Reports
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.store import Store, turns
from opmon.store.database import Database
from opmon.sweeps.detect import example_sweep_bytes, read_sweep
from tests.api.conftest import client_of, metrics
from tests.scenarios.virtual import NAME, Observed, observe

START_MS = 1_800_000_000_000
END_MS = START_MS + 10 * 60_000
MODEL = "simulated-27b"
TURN: dict[str, Any] = {
    "target": NAME,
    "model": MODEL,
    "client": "editor",
    "ttft_seconds": 6.0,
    "decode_seconds": 14,
    "output_tokens": 500,
    "prompt_tokens": 8_112,
    "typed_tokens": 20,
}
DIRECT = TURN | {"client": "direct", "ttft_seconds": 0.1, "decode_seconds": 4.9, "prompt_tokens": 45}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten minutes of a simulated server, and the example sweep."""
    folder = tmp_path_factory.mktemp("turns")
    simulation = Simulation(scenarios.chat(seed=3), start_ms=START_MS)
    seen = observe(simulation, folder, start_ms=START_MS, end_ms=END_MS, interval_ms=5000, ceiling=64)
    seen.store.import_sweep("drafters", read_sweep(example_sweep_bytes(), "drafters.csv"), START_MS)
    seen.store.database.close()
    return folder / "opmon.db"


@pytest.fixture
def observed(recorded: Path, tmp_path: Path) -> Iterator[Observed]:
    """A copy of it, for one test."""
    shutil.copy(recorded, tmp_path / "opmon.db")
    with Database.open(str(tmp_path / "opmon.db"), read_only=False) as database:
        store = Store(database)
        yield Observed(Reports(store, ManualClock(END_MS)), store, START_MS, END_MS)


def application(observed: Observed, security: SecuritySettings | None = None) -> FastAPI:
    """The application over what was observed; turns go straight to the store."""
    return create_app(
        observed.reports,
        metrics=metrics,
        ready=lambda: True,
        sweep_import=lambda _name, _one: None,
        sweep_delete=observed.store.delete_sweep,
        turn_report=observed.store.report_turn,
        security=security or SecuritySettings(),
    )


@pytest.fixture
async def api(observed: Observed) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(application(observed)) as one:
        yield one


async def test_a_reported_turn_is_stored_and_stands_in_the_summary_at_once(api: httpx.AsyncClient) -> None:
    stored = await api.post("/api/v1/turns", json=TURN)
    assert (201, TURN | {"reported": END_MS / 1000}) == (stored.status_code, stored.json())
    answer = (await api.get("/api/v1/turns")).json()
    (one,) = answer["clients"]
    assert (1, "editor", NAME, MODEL, 6.0, 14.0, 500.0, 8_112.0, 20.0, 8_092.0, 25.0) == (
        answer["turns"],
        *(one[name] for name in ("client", "target", "model", "ttft_seconds", "decode_seconds", "output_tokens")),
        *(one[name] for name in ("prompt_tokens", "typed_tokens", "prepended_tokens", "tokens_per_second")),
    )
    assert (None, None, None, None) == (
        one["prefix_cost_ratio"],
        one["client_tax_ratio"],
        one["direct_ratio"],
        one["asks"],
    )


async def test_beside_direct_turns_the_summary_asks_for_what_the_client_prepends(api: httpx.AsyncClient) -> None:
    full = DIRECT | {"ttft_seconds": 5.0, "decode_seconds": 5.0, "prompt_tokens": 8_112}
    for turn in (TURN, DIRECT, full):
        assert 201 == (await api.post("/api/v1/turns", json=turn)).status_code
    direct, editor = (await api.get(f"/api/v1/turns?target={NAME}&model={MODEL}&window=1h")).json()["clients"]
    assert ("direct", 2, None) == (direct["client"], direct["turns"], direct["asks"])
    assert (0.5, 0.5, 0.25, 2) == (
        editor["prefix_cost_ratio"],
        editor["client_tax_ratio"],
        editor["direct_ratio"],
        editor["direct_turns"],
    )
    assert "ask first how many tokens the client prepends" in editor["asks"]
    table = (await api.get("/api/v1/turns?format=csv")).text
    assert ["client,target,model,turns", "direct", "editor"] == [
        line[: len("client,target,model,turns")] if n == 0 else line.split(",")[0]
        for n, line in enumerate(table.splitlines())
    ]


async def test_means_are_sums_over_sums_and_other_models_and_windows_are_left_out(api: httpx.AsyncClient) -> None:
    await api.post("/api/v1/turns", json=TURN)
    await api.post("/api/v1/turns", json=TURN | {"ttft_seconds": 1.0, "decode_seconds": 1.5, "output_tokens": 40})
    (one,) = (await api.get("/api/v1/turns")).json()["clients"]
    assert (3.5, 7.75, 24.0) == (one["ttft_seconds"], one["decode_seconds"], one["tokens_per_second"])
    assert 404 == (await api.get("/api/v1/turns?model=other")).status_code
    before = f"start={START_MS // 1000}&end={START_MS // 1000 + 60}"
    assert [] == (await api.get(f"/api/v1/turns?{before}")).json()["clients"]


async def test_the_summary_is_unchanged_until_something_is_reported(api: httpx.AsyncClient) -> None:
    first = await api.get("/api/v1/turns")
    known = {"If-None-Match": first.headers["ETag"]}
    assert 304 == (await api.get("/api/v1/turns", headers=known)).status_code
    await api.post("/api/v1/turns", json=TURN)
    again = await api.get("/api/v1/turns", headers=known)
    assert (200, 1) == (again.status_code, again.json()["turns"])


async def test_reported_turns_are_the_first_source_of_times_and_the_server_has_its_part_of_them(
    api: httpx.AsyncClient, observed: Observed
) -> None:
    ask = f"/api/v1/recommendation?sweep=drafters&content=code&live_is=reference&target={NAME}"
    turn = (await api.get(ask)).json()["contents"][0]["whole_turn"]
    assert "server" == turn["times_source"]
    await api.post("/api/v1/turns", json=DIRECT)
    assert "server" == (await api.get(ask)).json()["contents"][0]["whole_turn"]["times_source"]
    await api.post("/api/v1/turns", json=TURN)
    answer = (await api.get(ask)).json()
    found = answer["contents"][0]["whole_turn"]
    assert ("client", 6.0, 14.0, "before") == (
        found["times_source"],
        found["ttft_seconds"],
        found["decode_seconds"],
        found["measured"],
    )
    assert "few_turns" in [one["code"] for one in answer["warnings"]]
    typed = (await api.get(f"{ask}&ttft_seconds=1&decode_seconds=2")).json()["contents"][0]["whole_turn"]
    assert "typed" == typed["times_source"]
    of_one_engine = (await api.get(f"{ask}&engine_index=0")).json()["contents"][0]["whole_turn"]
    assert "server" == of_one_engine["times_source"]
    assert observed.reports.now_ms() == END_MS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ttft_seconds": -1}, "body parameter 'ttft_seconds'"),
        ({"ttft_seconds": "6.0"}, "body parameter 'ttft_seconds'"),
        ({"decode_seconds": True}, "body parameter 'decode_seconds'"),
        ({"decode_seconds": 1e5}, "less than or equal to 86400"),
        ({"output_tokens": 0}, "body parameter 'output_tokens'"),
        ({"output_tokens": 12.5}, "body parameter 'output_tokens'"),
        ({"prompt_tokens": 10**12}, "body parameter 'prompt_tokens'"),
        ({"prompt_tokens": 10**400}, "body parameter 'prompt_tokens'"),
        ({"typed_tokens": 9_000}, "typed_tokens (9000) is more than prompt_tokens (8112)"),
        ({"ttft_seconds": 0, "decode_seconds": 0}, "are both 0"),
        ({"client": ""}, "body parameter 'client'"),
        ({"client": "x" * 201}, "body parameter 'client'"),
        ({"client": "a\x1b[31m"}, "client: "),
        ({"client": "\ud800"}, "client"),
        ({"typed_token": 3}, "unknown field 'typed_token' in the body"),
    ],
)
async def test_a_figure_that_cannot_be_is_refused_by_its_name(
    api: httpx.AsyncClient, changes: dict[str, Any], words: str
) -> None:
    answer = await api.post(
        "/api/v1/turns", content=json.dumps(TURN | changes), headers={"Content-Type": "application/json"}
    )
    assert (422, "application/problem+json") == (answer.status_code, answer.headers["Content-Type"])
    assert words in answer.json()["detail"]
    assert 0 == (await api.get("/api/v1/turns")).json()["turns"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b'{"ttft_seconds": NaN}', b"\xff\xfe", b"[" * 50_000]
)
async def test_a_body_that_is_no_turn_is_a_problem(api: httpx.AsyncClient, body: bytes) -> None:
    answer = await api.post("/api/v1/turns", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    assert "application/problem+json" == answer.headers["Content-Type"]


@pytest.mark.parametrize("missing", [name for name in TURN if name != "typed_tokens"])
async def test_a_missing_field_is_named_and_typed_tokens_may_be_missing(api: httpx.AsyncClient, missing: str) -> None:
    answer = await api.post("/api/v1/turns", json={name: value for name, value in TURN.items() if name != missing})
    assert 422 == answer.status_code
    assert missing in answer.json()["detail"]
    without = {name: value for name, value in TURN.items() if name != "typed_tokens"}
    assert (await api.post("/api/v1/turns", json=without)).json()["typed_tokens"] is None


async def test_a_target_that_does_not_exist_is_named_beside_those_that_do(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/v1/turns", json=TURN | {"target": "nope"})
    assert (404, f"no target is called 'nope'; there are: {NAME}") == (answer.status_code, answer.json()["detail"])


async def test_more_turns_than_are_kept_are_told_when_to_come_again(
    api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOST_A_MINUTE", 2)
    statuses = [(await api.post("/api/v1/turns", json=TURN)).status_code for _ in range(3)]
    assert [201, 201, 429] == statuses
    refused = await api.post("/api/v1/turns", json=TURN)
    assert ("60", "urn:opmon:problem:too-many") == (refused.headers["Retry-After"], refused.json()["type"])


async def test_a_token_is_asked_for_and_pages_of_other_sites_are_refused(observed: Observed) -> None:
    async with client_of(application(observed, SecuritySettings(token="secret"))) as api:
        assert 401 == (await api.post("/api/v1/turns", json=TURN)).status_code
        assert 401 == (await api.get("/api/v1/turns")).status_code
        bearer = {"Authorization": "Bearer secret"}
        for header in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            refused = await api.post("/api/v1/turns", json=TURN, headers=bearer | header)
            assert (403, "urn:opmon:problem:origin") == (refused.status_code, refused.json()["type"])
        assert 0 == (await api.get("/api/v1/turns", headers=bearer)).json()["turns"]
        assert 201 == (await api.post("/api/v1/turns", json=TURN, headers=bearer)).status_code


async def test_what_a_form_can_send_is_no_report(api: httpx.AsyncClient) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        answer = await api.post("/api/v1/turns", content=json.dumps(TURN), headers={"Content-Type": kind})
        assert 422 == answer.status_code, kind
    assert 0 == (await api.get("/api/v1/turns")).json()["turns"]
