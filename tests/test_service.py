"""The service as a process, in real time, over the simulator on a socket: what the scheduler adds to the path."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opmon.simulator import scenarios
from opmon.simulator.server import Faults, SimulatedServer, running_in_thread
from opmon.simulator.simulation import Simulation
from tests.needs import ROOT
from tests.processes import THIS_OPMON, clean_environment, free_port, process, service

REAL_TIME_SECONDS = 180
OUTAGE_SECONDS = 30


def _report(folder: Path, *arguments: str) -> Any:
    """`opmon report` over the database that the service left."""
    environment = {**clean_environment(folder), "PYTHONPATH": str(ROOT)}
    command = [*THIS_OPMON, "report", "--format", "json", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def steady() -> Iterator[tuple[str, Simulation, Faults]]:
    """A simulated server that works on four streams, half of each second; and its faults."""
    start_ms = _now_ms() - 5_000
    simulation = Simulation(scenarios.phase_locked(level=4, period_ms=1000, on_ms=500, seconds=600), start_ms=start_ms)
    faults = Faults(dev_mode=True)
    with running_in_thread(SimulatedServer(simulation, faults=faults)) as url:
        yield url, simulation, faults


@pytest.mark.timeout(300)
def test_three_minutes_of_real_time_are_watched_second_by_second(
    steady: tuple[str, Simulation, Faults], tmp_path: Path
) -> None:
    url, simulation, faults = steady
    with service(url, tmp_path) as opmon:
        began = time.time()
        time.sleep(REAL_TIME_SECONDS - OUTAGE_SECONDS - 30)
        outage = time.time()
        faults.down = True
        time.sleep(OUTAGE_SECONDS)
        faults.down = False
        back = time.time()
        time.sleep(30)
        asked = time.monotonic()
        ended = time.time()
        assert opmon.stop() == 0
        assert time.monotonic() - asked < 5
    start, end = int(began) + 3, int(ended) - 1
    whole = _report(tmp_path, "--start", str(start), "--end", str(end))
    coverage = whole["coverage"]
    assert coverage["down_seconds"] == pytest.approx(OUTAGE_SECONDS, abs=2)
    # A busy machine may start a scrape too late now and then; nothing piles up, and what is skipped is a gap.
    assert coverage["gap_seconds"] + coverage["invalid_seconds"] <= 0.05 * (end - start)
    assert coverage["stalled_seconds"] == 0
    assert whole["ceiling"] == {
        "requests": whole["ceiling"]["max_num_seqs"],
        "max_num_seqs": whole["ceiling"]["max_num_seqs"],
        "source": "server_info",
        "kv_cache_max_concurrency": whole["ceiling"]["kv_cache_max_concurrency"],
        "reached_ratio": 0.0,
    }
    before = _report(tmp_path, "--start", str(start), "--end", str(int(outage) - 1))
    truth = simulation.truth(start * 1000, (int(outage) - 1) * 1000).running
    total = sum(truth.values())
    seen = {share["level"]: share["ratio"] for share in before["running"]["occupancy"]}
    assert max(abs(seen.get(level, 0) - truth.get(level, 0) / total) for level in seen | truth) < 0.06, (
        "115 looks at half of each second: independent ones have a standard deviation of 4.7 points"
    )
    after = _report(tmp_path, "--start", str(int(back) + 2), "--end", str(end))
    assert after["coverage"]["observed_seconds"] >= 0.9 * after["window"]["seconds"]


def test_a_restarted_service_goes_on_in_the_same_epoch(steady: tuple[str, Simulation, Faults], tmp_path: Path) -> None:
    url, _simulation, _faults = steady
    began = time.time()
    for stop in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        with service(url, tmp_path) as opmon:
            time.sleep(4)
            opmon.popen.send_signal(stop)
            opmon.popen.wait(10)
    point = _report(tmp_path, "--start", str(int(began)), "--end", str(int(time.time()) + 1))
    assert ["start"] == [epoch["cause"] for epoch in point["epochs"]]
    assert point["coverage"]["observed_seconds"] >= 6
    assert point["coverage"]["gap_seconds"] > 0


def test_the_service_answers_everything_that_the_readme_names(
    steady: tuple[str, Simulation, Faults], tmp_path: Path
) -> None:
    url, _simulation, _faults = steady
    with service(url, tmp_path) as opmon:
        deadline = time.monotonic() + 30
        while not (opmon.json("/api/v1/operating-point?window=1m") or {}).get("running", {}).get("busy", {}).get("p50"):
            assert time.monotonic() < deadline, "no busy sample within 30 s"
            time.sleep(0.5)
        (target,) = opmon.json("/api/v1/targets")["targets"]
        assert (target["health"], target["engine"], target["form"]) == ("up", "vllm", "filtered")
        assert b"requests at once" in (opmon.get("/") or b"") or b"request at once" in (opmon.get("/") or b"")
        metrics = opmon.wait_for("/metrics").decode()
        assert f'opmon_target_up{{target="{target["name"]}"}}' in metrics
        assert opmon.get("/-/healthy")


def _start_and_fail(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(folder), "PYTHONPATH": str(ROOT)}
    command = [*THIS_OPMON, "serve", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=30)


def test_an_address_that_others_reach_needs_a_token_or_the_word(tmp_path: Path) -> None:
    done = _start_and_fail(tmp_path, "--target", "http://127.0.0.1:1", "--listen", "0.0.0.0:0")
    assert done.returncode == 2
    assert "--insecure" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_told_in_words(steady: tuple[str, Simulation, Faults], tmp_path: Path) -> None:
    url, _simulation, _faults = steady
    taken = url.removeprefix("http://")
    done = _start_and_fail(tmp_path, "--target", url, "--listen", taken)
    assert done.returncode == 2
    assert taken in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_target_the_service_says_what_to_give(tmp_path: Path) -> None:
    done = _start_and_fail(tmp_path)
    assert done.returncode == 2
    assert "--target" in done.stderr


def test_a_server_that_is_not_there_yet_is_down_and_then_seen(tmp_path: Path) -> None:
    port = free_port()
    with service(f"http://127.0.0.1:{port}", tmp_path) as opmon:
        time.sleep(4)
        (target,) = opmon.json("/api/v1/targets")["targets"]
        assert (target["health"], target["state"]) == ("down", "down")
        command = [THIS_OPMON[0], "-m", "opmon.simulator", "--port", str(port), "--scenario", "chat"]
        with process(command, f"http://127.0.0.1:{port}", tmp_path, python_path=str(ROOT)) as simulator:
            simulator.wait_for("/health")
            deadline = time.monotonic() + 15
            while opmon.json("/api/v1/targets")["targets"][0]["health"] != "up":
                assert time.monotonic() < deadline, "the server came up and was not seen"
                time.sleep(0.5)


def test_a_target_that_flaps_is_told_of_and_then_left_alone(
    steady: tuple[str, Simulation, Faults], tmp_path: Path
) -> None:
    url, _simulation, faults = steady
    with service(url, tmp_path):
        for number in range(50):
            faults.status = 429 if number % 2 else None
            time.sleep(0.5)
    (words,) = tmp_path.glob("words-*.txt")
    told = [line for line in words.read_text().splitlines() if "the state of a target" in line]
    assert 2 <= len(told) <= 7, told
    assert "keeps changing" in told[-1] or len(told) < 7


def test_a_stop_during_a_slow_scrape_is_silent(steady: tuple[str, Simulation, Faults], tmp_path: Path) -> None:
    url, _simulation, faults = steady
    with service(url, tmp_path) as opmon:
        time.sleep(3)
        faults.delay_seconds = 3.0
        time.sleep(1.5)
        assert opmon.stop() == 0
    (words,) = tmp_path.glob("words-*.txt")
    assert "Traceback" not in words.read_text()
    assert "a task failed" not in words.read_text()
