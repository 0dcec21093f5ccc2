"""Hostile targets beside good ones in one real service: who is well stays well, and nobody shouts."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.needs import ROOT
from tests.processes import THIS_OPMON, Process, free_port, process

GOOD = 20
HOSTILE = (
    "html",
    "too_much",
    "too_much_announced",
    "gzip_bomb",
    "gzip_is_a_lie",
    "drip",
    "slow_headers",
    "silence",
    "late",
    "early_close",
    "reset",
    "endless_headers",
    "redirect_loop",
    "status_500",
    "empty",
    "not_a_number",
    "twice",
    "servers_in_turn",
    "many_models",
    "long_model",
)
WARM_SECONDS = 35
WATCHED_SECONDS = 55
MOST_LOST_SHARE = 0.02
MOST_GROWTH_BYTES = 40 * 1024 * 1024
MOST_CHANGES = 10
CHANGE = re.compile(r'message="the state of a target changes" target=(\S+) (state=\S+ kind=\S+)')
WHEN = re.compile(r"^time=\S+ ")


@contextmanager
def hostile_server(folder: Path) -> Iterator[str]:
    """The hostile server in a process of its own; gives its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.hostile.badserver", str(port)]
    with process(command, address, folder, python_path=str(ROOT)) as one:
        one.wait_for("/ok/metrics")
        yield address


def settings(address: str) -> str:
    """Every target by name, asked each second whatever it sends."""
    lines = ["global:", "  pulse_interval: 1s", "targets:"]
    for number in range(GOOD):
        lines += [f"  - name: good-{number}", f"    url: {address}/ok/{number}"]
    for mode in HOSTILE:
        lines += [f"  - name: {mode}", f"    url: {address}/{mode}"]
    return "\n".join(lines) + "\n"


@pytest.mark.timeout(300)
def test_twenty_hostile_targets_cost_twenty_good_ones_nothing(tmp_path: Path) -> None:
    assert len(HOSTILE) == 20
    with hostile_server(tmp_path) as address:
        config = tmp_path / "opmon.yml"
        config.write_text(settings(address), encoding="utf-8")
        listen = f"127.0.0.1:{free_port()}"
        command = [*THIS_OPMON, "serve", "--config", str(config), "--listen", listen]
        with process(command, f"http://{listen}", tmp_path, python_path=str(ROOT)) as opmon:
            opmon.wait_for("/-/ready")
            time.sleep(WARM_SECONDS)
            before = opmon.memory_bytes()
            began = time.time()
            time.sleep(WATCHED_SECONDS)
            after = opmon.memory_bytes()
            lost = {f"good-{number}": lost_share(opmon, f"good-{number}", began) for number in range(GOOD)}
            states = {one["name"]: one["state"] for one in targets(opmon)}
            assert 0 == opmon.stop()
        said = (tmp_path / f"words-{listen.rpartition(':')[2]}.txt").read_text(encoding="utf-8").splitlines()

    assert {"observed"} == {states[f"good-{number}"] for number in range(GOOD)}
    well = {
        "many_models",
        "long_model",
        "late",
    }  # a target that is too slow is asked less often, and then answers in time
    assert {mode for mode in HOSTILE if states[mode] == "observed"} <= well
    assert max(lost.values()) <= MOST_LOST_SHARE, lost
    assert after - before <= MOST_GROWTH_BYTES, (before, after)
    assert [] == repeated(said)


def targets(opmon: Process) -> list[dict[str, Any]]:
    """The targets as the API lists them."""
    answer = opmon.json("/api/v1/targets")
    listed: list[dict[str, Any]] = answer["targets"] if isinstance(answer, dict) else answer
    return listed


def lost_share(opmon: Process, name: str, began: float) -> float:
    """The share of the watched time in which a target was not observed although it was well."""
    path = f"/api/v1/operating-point?target={name}&start={began:.0f}&end={began + WATCHED_SECONDS - 5:.0f}"
    coverage = opmon.json(path)["coverage"]
    lost = sum(coverage[f"{state}_seconds"] for state in ("gap", "invalid", "down"))
    return float(lost / (lost + coverage["observed_seconds"]))


def repeated(said: list[str]) -> list[str]:
    """Lines that say again what was said before without a change between: by target the state and its kind, and
    every other line word for word but for its time."""
    found: list[str] = []
    last: dict[str, str] = {}
    others: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    for line in said:
        change = CHANGE.search(line)
        if change is None:
            others[WHEN.sub("", line)] += 1
            continue
        name, state = change.groups()
        changes[name] += 1
        found += [line] if last.get(name) == state else []
        last[name] = state
    found += [line for line, times in others.items() if times > 1]
    return found + [f"{name} changed {times} times" for name, times in changes.items() if times > MOST_CHANGES]
