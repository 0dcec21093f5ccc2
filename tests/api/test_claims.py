"""The calculators of claims: GET /api/v1/claim and /api/v1/saving."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from opmon.cli.output import as_json
from opmon.clock import ManualClock
from opmon.core.answers import Recommendation
from opmon.core.recommend.quote import ClaimAsk
from opmon.core.saving import SavingAsk, saving
from opmon.reports import RecommendationAsk, Reports
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.sweeps.detect import example_sweep_bytes, read_sweep
from tests.api.conftest import application, client_of
from tests.api.stage import Scene
from tests.scenarios.virtual import observe

CLAIM = "/api/v1/claim?sweep=example-drafters&speedup_ratio=2.58"
SAVING = "/api/v1/saving?bytes=2.7GB&bandwidth=1133GB/s&step_seconds=17.6ms"
START_MS = 1_800_000_000_000


async def test_a_claim_is_located_compared_and_restated(scene: Scene, client: httpx.AsyncClient) -> None:
    answer = (await client.get(CLAIM)).json()

    assert isinstance(scene.answer, Recommendation)
    assert ("exact", "aggregate", 8.0) == (
        answer["found"], answer["places"][0]["column"], answer["places"][0]["concurrency"],
    )  # fmt: skip
    assert ["content", "concurrency", "prompt_tokens", "output_tokens", "column"] == [
        axis["axis"] for axis in answer["axes"]
    ]
    assert scene.answer.contents[0].columns.per_stream.ratio_weighted == answer["restated"][0]["ratio_weighted"]


async def test_a_saving_is_what_the_command_prints(client: httpx.AsyncClient) -> None:
    answer = (await client.get(SAVING)).json()

    assert json.loads(as_json(saving(SavingAsk(2.7e9, 1133e9, 17.6e-3)))) == answer
    assert 0.002383 == round(answer["saved_seconds"], 6)


@pytest.mark.parametrize("address", [CLAIM, SAVING])
async def test_an_unchanged_answer_is_not_sent_twice_and_has_a_table(client: httpx.AsyncClient, address: str) -> None:
    first = await client.get(address)
    again = await client.get(address, headers={"If-None-Match": first.headers["etag"]})
    table = await client.get(f"{address}&format=csv")

    assert (200, 304, 200) == (first.status_code, again.status_code, table.status_code)
    assert "text/csv; charset=utf-8" == table.headers["content-type"]
    assert 2 == len(table.text.splitlines())


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/api/v1/claim?sweep=example-drafters", "'speedup_ratio'"),
        ("/api/v1/claim?sweep=example-drafters&speedup_ratio=fast", "is no speed-up"),
        (f"{CLAIM}&column=speed", "column must be one of"),
        (f"{CLAIM}&concurrency=nan", "the quoted concurrency"),
        (f"{CLAIM}&colum=aggregate", "unknown query parameter 'colum'"),
        (f"{SAVING}&share_ratio=37", "37 % is written 37% or 0.37"),
        (f"{SAVING}&speed_tokens_per_second=inf&speed_after_tokens_per_second=1", "the speed must be"),
        ("/api/v1/saving?bytes=2.7&bandwidth=1133GB/s&step_seconds=1", "written like 2.7GB"),
        ("/api/v1/saving?bytes=2.7GB&bandwidth=1133GB/s", "'step_seconds'"),
    ],
)
async def test_what_cannot_be_answered_is_a_problem_of_the_caller(
    client: httpx.AsyncClient, address: str, words: str
) -> None:
    answer = await client.get(address)

    assert (422, "application/problem+json") == (answer.status_code, answer.headers["content-type"])
    assert words in answer.json()["detail"]


async def test_a_sweep_that_nobody_stored_is_not_found(client: httpx.AsyncClient) -> None:
    assert 404 == (await client.get("/api/v1/claim?sweep=nobody&speedup_ratio=2")).status_code


async def test_over_a_store_the_claim_says_what_the_recommendation_says(tmp_path: Path) -> None:
    simulation = Simulation(scenarios.chat(), start_ms=START_MS)
    observed = observe(simulation, tmp_path, start_ms=START_MS, end_ms=START_MS + 600_000, ceiling=64)
    observed.store.import_sweep("example", read_sweep(example_sweep_bytes(), "example.csv"), START_MS)
    reports = Reports(observed.store, ManualClock(START_MS + 600_000))
    answer = reports.claim(RecommendationAsk("example"), ClaimAsk("2.58"))
    verdict = reports.recommendation(RecommendationAsk("example"))

    assert (verdict.operating_point, verdict.verdict) == (answer.operating_point, answer.verdict)
    assert verdict.operating_point is not None
    assert verdict.operating_point.prompt_tokens == answer.axes[2].live
    assert [one.columns.per_stream.low for one in verdict.contents] == [
        one.low for one in answer.restated if one.column == "per_stream"
    ]


async def test_the_service_answers_both_below_its_prefix() -> None:
    async with client_of(application(Scene(), prefix="/opmon")) as one:
        assert [200, 200] == [(await one.get(f"/opmon{address}")).status_code for address in (CLAIM, SAVING)]
