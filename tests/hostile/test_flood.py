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
def a_server(folder: Path) -> Iterator[str]:
    """The server of our tests in a process of its own; gives its address. The good targets have one for themselves."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "tests.hostile.badserver", str(port)]
    with process(command, address, folder, python_path=str(ROOT)) as one:
        one.wait_for("/ok/metrics")
        yield address


def settings(good: str, hostile: str, others: tuple[str, ...] = HOSTILE) -> str:
    """Every target by name, all else as it is by default: once a second."""
    lines = ["targets:"]
    for number in range(GOOD):
        lines += [f"  - name: good-{number}", f"    url: {good}/filtered/{number}"]
    for mode in others:
        lines += [f"  - name: {mode}", f"    url: {hostile}/{mode}"]
    return "\n".join(lines) + "\n"


@contextmanager
def an_opmon(folder: Path, settings: str) -> Iterator[Process]:
    """A service over these settings in a folder of its own, ready."""
    folder.mkdir()
    config = folder / "opmon.yml"
    config.write_text(settings, encoding="utf-8")
    listen = f"127.0.0.1:{free_port()}"
    command = [*THIS_OPMON, "serve", "--config", str(config), "--listen", listen]
    with process(command, f"http://{listen}", folder, python_path=str(ROOT)) as opmon:
        opmon.wait_for("/-/ready")
        yield opmon


@pytest.mark.timeout(300)
def test_twenty_hostile_targets_cost_twenty_good_ones_nothing(tmp_path: Path) -> None:
    """A second opmon watches the good ones alone: what it loses too is the machine's fault and nobody else's."""
    assert len(HOSTILE) == 20
    with (
        a_server(tmp_path) as good,
        a_server(tmp_path) as hostile,
        an_opmon(tmp_path / "both", settings(good, hostile)) as both,
        an_opmon(tmp_path / "alone", settings(good, hostile, others=())) as alone,
    ):
        time.sleep(WARM_SECONDS)
        before = both.memory_bytes()
        began = time.time()
        time.sleep(WATCHED_SECONDS)
        after = both.memory_bytes()
        lost, lost_alone = lost_share(both, began), lost_share(alone, began)
        states = {one["name"]: one["state"] for one in targets(both)}
        assert 0 == both.stop()
        (words,) = (tmp_path / "both").glob("words-*.txt")
        said = words.read_text(encoding="utf-8").splitlines()

    # A target that is too slow is asked less often, and then answers in time.
    well = {"many_models", "long_model", "late"}
    assert {mode for mode in HOSTILE if states[mode] == "observed"} <= well
    assert lost <= lost_alone + MOST_LOST_SHARE, (lost, lost_alone)
    assert after - before <= MOST_GROWTH_BYTES, (before, after)
    assert [] == repeated(said)


def targets(opmon: Process) -> list[dict[str, Any]]:
    """The targets as the API lists them."""
    answer = opmon.json("/api/v1/targets")
    listed: list[dict[str, Any]] = answer["targets"] if isinstance(answer, dict) else answer
    return listed


def lost_share(opmon: Process, began: float) -> float:
    """The share of the watched time in which the good targets were not observed although they were well."""
    lost = observed = 0.0
    for number in range(GOOD):
        path = f"/api/v1/operating-point?target=good-{number}&start={began:.0f}&end={began + WATCHED_SECONDS - 5:.0f}"
        coverage = opmon.json(path)["coverage"]
        lost += sum(coverage[f"{state}_seconds"] for state in ("gap", "invalid", "down"))
        observed += coverage["observed_seconds"]
    return lost / (lost + observed)


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
