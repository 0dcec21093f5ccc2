"""The simulated server over a real socket."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys

import httpx
import pytest

from opmon.simulator.scenarios import chat, steady
from opmon.simulator.server import Faults, Filter, SimulatedServer, running, running_in_thread
from opmon.simulator.simulation import Outage, Scenario, Simulation
from tests.simulator.watching import PLAIN, samples

RUNNING = {"name[]": ["vllm:num_requests_running", "vllm:inter_token_latency_seconds_sum"]}


def server(faults: Faults | None = None) -> SimulatedServer:
    return SimulatedServer(Simulation(chat()), faults=faults, now_ms=lambda: 60_000)


async def test_metrics_ignores_the_filter_and_metrics_with_a_slash_honours_it() -> None:
    async with running(server()) as url, httpx.AsyncClient(base_url=url) as client:
        whole = await client.get("/metrics", params=RUNNING)
        also_whole = await client.get("/metrics/")
        filtered = await client.get("/metrics/", params=RUNNING)

    assert whole.text == also_whole.text
    assert len(whole.content) > 40_000
    assert set(RUNNING["name[]"]) == set(samples(filtered.content))
    assert len(filtered.content) < 600
    assert "text/plain; version=1.0.0; charset=utf-8" == whole.headers["content-type"]


async def test_the_other_routes_tell_version_models_and_health() -> None:
    async with running(server()) as url, httpx.AsyncClient(base_url=url) as client:
        version = (await client.get("/version")).json()
        models = (await client.get("/v1/models")).json()
        health = await client.get("/health")
        closed = await client.get("/server_info")

    assert {"version": "0.32.0"} == version
    assert [("simulated-27b", 131_072)] == [(model["id"], model["max_model_len"]) for model in models["data"]]
    assert 200 == health.status_code
    assert 404 == closed.status_code


async def test_development_mode_tells_the_ceiling() -> None:
    async with running(server(Faults(dev_mode=True))) as url, httpx.AsyncClient(base_url=url) as client:
        told = (await client.get("/server_info", params={"config_format": "json"})).json()

    assert 64 == told["vllm_config"]["scheduler_config"]["max_num_seqs"]


async def test_faults_to_order_can_be_changed_while_it_runs() -> None:
    simulated = server()
    async with running(simulated) as url, httpx.AsyncClient(base_url=url) as client:
        simulated.faults.down = True
        assert 503 == (await client.get("/metrics")).status_code
        simulated.faults.down = False
        simulated.faults.filter = Filter.EMPTY
        empty = await client.get("/metrics/", params=RUNNING)
        assert (200, b"") == (empty.status_code, empty.content)
        simulated.faults.filter = Filter.IGNORED
        assert len((await client.get("/metrics/", params=RUNNING)).content) > 40_000
        simulated.faults.filter = Filter.ABSENT
        assert 404 == (await client.get("/metrics/", params=RUNNING)).status_code
        assert 200 == (await client.get("/metrics")).status_code
        simulated.faults.status, simulated.faults.body = 500, b"<html>broken</html>"
        broken = await client.get("/metrics")
        assert (500, "<html>broken</html>") == (broken.status_code, broken.text)


async def test_a_slow_server_keeps_others_waiting_no_longer_than_told() -> None:
    simulated = server(Faults(delay_seconds=0.3))
    async with running(simulated) as url, httpx.AsyncClient(base_url=url) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/metrics/", params=RUNNING, timeout=0.1)
        answers = await asyncio.gather(*(client.get("/metrics/", params=RUNNING) for _ in range(4)))

    assert [200] * 4 == [answer.status_code for answer in answers]
    assert 5 == simulated.requests


async def test_a_scripted_outage_answers_503_on_every_route() -> None:
    quiet = Scenario("quiet", (PLAIN,), list, (Outage(30_000, 90_000),))
    simulated = SimulatedServer(Simulation(quiet), now_ms=lambda: 60_000)
    async with running(simulated) as url, httpx.AsyncClient(base_url=url) as client:
        statuses = [(await client.get(path)).status_code for path in ("/metrics", "/metrics/", "/health", "/version")]

    assert [503] * 4 == statuses


async def test_a_clock_that_steps_back_is_held() -> None:
    instants = iter([60_000, 30_000, 61_000])
    simulated = SimulatedServer(Simulation(steady(2, engine=PLAIN)), now_ms=lambda: next(instants))
    async with running(simulated) as url, httpx.AsyncClient(base_url=url) as client:
        pages = [samples((await client.get("/metrics")).content) for _ in range(3)]

    tokens = [page["vllm:generation_tokens_total"] for page in pages]
    assert tokens[0] == tokens[1] < tokens[2]


def test_it_also_serves_beside_code_that_has_no_event_loop() -> None:
    with running_in_thread(server()) as url:
        assert 200 == httpx.get(f"{url}/metrics").status_code
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/metrics")


def test_the_command_serves_on_the_port_it_names() -> None:
    command = [sys.executable, "-m", "opmon.simulator", "--port", "0", "--scenario", "demo"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/metrics", line)
            assert found, line
            page = samples(httpx.get(found.group()).content)
        finally:
            process.terminate()

    assert page["vllm:generation_tokens_total"] > 1e6
