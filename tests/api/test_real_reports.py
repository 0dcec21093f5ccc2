"""The HTTP surface over what the service gives it: a simulated server, the store and the real reports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from opmon.core.answers import Selector
from opmon.core.cells import SweepImport
from opmon.reports import WindowAsk
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.sweeps.detect import example_sweep_bytes
from tests.api.conftest import client_of, metrics
from tests.api.test_pages import page
from tests.scenarios.virtual import NAME, Observed, observe

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observed:
    simulation = Simulation(scenarios.chat(seed=3), start_ms=START_MS)
    folder: Path = tmp_path_factory.mktemp("real")
    end_ms = START_MS + 20 * MINUTE_MS
    return observe(simulation, folder, start_ms=START_MS, end_ms=end_ms, interval_ms=5000, ceiling=64)


@pytest.fixture
async def real(observed: Observed) -> AsyncIterator[httpx.AsyncClient]:
    def take_in(name: str, one: SweepImport) -> None:
        observed.store.import_sweep(name, one, one.imported_ms)

    app = create_app(
        observed.reports,
        metrics=metrics,
        ready=lambda: True,
        sweep_import=take_in,
        sweep_delete=observed.store.delete_sweep,
        security=SecuritySettings(),
    )
    async with client_of(app) as one:
        yield one


async def test_every_surface_gives_the_numbers_of_the_one_door(real: httpx.AsyncClient, observed: Observed) -> None:
    point = observed.reports.operating_point(Selector(target=NAME), WindowAsk())
    answer = (await real.get(f"/api/v1/operating-point?target={NAME}")).json()
    shown = await page(real)
    assert (point.sentence, point.running.busy.p95) == (answer["sentence"], answer["running"]["busy"]["p95"])
    assert point.sentence in shown.text("answer")
    assert sum(one["seconds"] for one in answer["running"]["occupancy"]) == answer["coverage"]["observed_seconds"] > 900


async def test_a_sweep_goes_in_is_judged_and_goes_out(real: httpx.AsyncClient, observed: Observed) -> None:
    upload = {"file": ("drafters.csv", example_sweep_bytes(), "text/csv")}
    before = (await real.get("/")).headers["etag"]
    assert 201 == (await real.post("/api/v1/sweeps", files=upload)).status_code
    assert 200 == (await real.post("/api/v1/sweeps", files=upload)).status_code
    answer = (await real.get(f"/api/v1/recommendation?sweep=drafters&target={NAME}")).json()
    assert ("fp8-mtp5", "int8-dflash7") == (answer["reference"], answer["candidate"])
    assert ["code", "prose"] == [one["content"] for one in answer["contents"]]
    shown = await page(real)
    assert "The benchmark: drafters" in shown.text("sweep")
    assert "137.4" in shown.text("sweep-tables")
    assert before != (await real.get("/")).headers["etag"]
    assert "evidence" in (await page(real, "/?content=code%3D0.3%2Cprose%3D0.7&live_is=candidate")).text("verdict")
    assert 204 == (await real.delete("/api/v1/sweeps/drafters")).status_code
    assert "No benchmark yet" in (await page(real)).text("answer")
    assert () == observed.reports.sweeps()


async def test_the_timeline_covers_the_window_in_whole_steps(real: httpx.AsyncClient) -> None:
    answer = (await real.get("/api/v1/concurrency?step=1m")).json()
    states = ("observed", "down", "invalid", "stalled", "gap")
    seconds = sum(point[f"{state}_seconds"] for point in answer["points"] for state in states)
    assert answer["window"]["seconds"] == pytest.approx(seconds)
    assert 422 == (await real.get("/api/v1/concurrency?window=7d&step=50ms")).status_code


@pytest.mark.parametrize(
    "query", ["scope=fleet", "fleet=all", "model=nope", "target=nope", "window=1h&end=2001-01-01T00:00:00Z", "end=1"]
)
async def test_no_selector_or_window_leads_to_an_internal_error(real: httpx.AsyncClient, query: str) -> None:
    for path in ("/api/v1/operating-point", "/api/v1/concurrency", "/api/v1/curve", "/"):
        answer = await real.get(f"{path}?{query}")
        assert answer.status_code in (200, 404, 422), (path, answer.text)
