"""Two sweeps against a real server, recorded second by second: opmon must see what the load generator held."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opmon.cli.main import cli

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
WHOLE = Path(__file__).parents[3] / "shared" / "data" / "recorded"
SCRAPES = ("plain-scrapes.jsonl.gz", "spec-scrapes.jsonl.gz")


def _steps(name: str) -> list[tuple[int, float, float]]:
    """Concurrency, start and end of each step, as the load generator held them."""
    lines = (RECORDED / f"{name}-levels.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    return [(int(concurrency), float(start), float(end)) for concurrency, _requests, start, end in rows]


def _run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _replay(folder: Path, database: Path) -> Any:
    return _run("replay", *(str(folder / name) for name in SCRAPES), "--database", str(database))


def _check_steps(database: Path) -> None:
    for name in ("plain", "spec"):
        for concurrency, start, end in _steps(name):
            window = ("--start", str(start), "--end", str(end))
            running = _run("report", "--database", str(database), *window)["running"]
            assert running["busy"]["max"] == concurrency, (name, concurrency)
            assert concurrency - 1 <= running["busy"]["p50"] <= concurrency, (name, concurrency)


def test_each_step_of_a_recorded_sweep_shows_the_concurrency_that_was_held(tmp_path: Path) -> None:
    _replay(RECORDED, tmp_path / "opmon.db")
    _check_steps(tmp_path / "opmon.db")


def test_the_restart_between_two_recorded_sweeps_is_an_epoch(tmp_path: Path) -> None:
    point = _replay(RECORDED, tmp_path / "opmon.db")
    assert ["start", "restart"] == [epoch["cause"] for epoch in point["epochs"]]
    assert [warning["code"] for warning in point["warnings"]] == ["epochs"]
    assert point["throughput"]["output_tokens_per_second"] > 0


@pytest.mark.needs("shared")
def test_the_whole_recording_says_the_same_as_the_thinned_one(tmp_path: Path) -> None:
    thinned, whole = _replay(RECORDED, tmp_path / "thinned.db"), _replay(WHOLE, tmp_path / "whole.db")
    _check_steps(tmp_path / "whole.db")
    for part in ("sentence", "coverage", "running", "in_system", "throughput", "lengths"):
        assert whole[part] == thinned[part], part
