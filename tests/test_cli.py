"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon import __version__
from opmon.cli.main import COMMANDS, cli, exit_status
from opmon.errors import ConfigError, NotFound, OpmonError, StoreError, SweepError
from opmon.simulator import scenarios
from opmon.simulator.server import SimulatedServer, running_in_thread
from opmon.simulator.simulation import Simulation
from tests.needs import ROOT
from tests.processes import THIS_OPMON, clean_environment, free_port, process

RECORDED = ROOT / "tests" / "data" / "recorded" / "plain-scrapes.jsonl.gz"


def _run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def _process(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**clean_environment(folder), "PYTHONPATH": str(ROOT)}
    command = [*THIS_OPMON, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that a recording was replayed into."""
    path = tmp_path_factory.mktemp("cli") / "opmon.db"
    result = _run("replay", RECORDED, "--database", path, "--max-num-seqs", "64")
    assert result.exit_code == 0, result.output
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    result = _run(command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_version_is_the_packages() -> None:
    assert f"opmon {__version__}\n" == _run("--version").output
    assert f"opmon {__version__}" in _run("version").output


def test_the_version_is_told_without_importing_the_service() -> None:
    code = (
        "import sys, opmon.cli.main; print(sorted({'fastapi', 'sqlalchemy', 'httpx', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([THIS_OPMON[0], "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ConfigError("x"), 2), (SweepError("x"), 2), (NotFound("x"), 2), (StoreError("x"), 1), (OpmonError("x"), 1)],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_wrong_usage_is_two_and_failure_is_one(error: OpmonError, status: int) -> None:
    assert exit_status(error) == status


@pytest.mark.parametrize("arguments", [("report",), ("sweeps", "list"), ("check", "database"), ("migrate", "--check")])
def test_reading_an_absent_database_names_its_path_and_the_remedy(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = _process(tmp_path, *arguments, "--database", tmp_path / "none.db")
    assert done.returncode == 2
    assert str(tmp_path / "none.db") in done.stderr
    assert "opmon migrate" in done.stderr or "opmon serve" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "none.db").exists()


def test_migrate_creates_the_database_in_the_state_directory(tmp_path: Path) -> None:
    done = _process(tmp_path, "migrate")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "opmon" / "opmon.db").is_file()
    assert _process(tmp_path, "migrate", "--check").returncode == 0
    assert _process(tmp_path, "report").returncode == 0


def test_a_report_has_the_sentence_first_and_a_bar_per_level(database: Path) -> None:
    result = _run("report", "--database", database)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "requests at once" in lines[0]
    assert "the ceiling of 64 was never reached" in lines[0]
    assert any("█" in line and line.strip().startswith("32 ") for line in lines)
    assert any("% observed" in line for line in lines)


def test_a_report_in_markdown_keeps_its_columns_in_a_fence(database: Path) -> None:
    output = _run("report", "--database", database, "--format", "md").output
    assert output.startswith("**")
    assert output.count("```") == 4


def test_a_report_in_json_is_the_body_of_the_api(database: Path) -> None:
    point: dict[str, Any] = json.loads(_run("report", "--database", database, "--format", "json").output)
    assert list(point)[:5] == ["window", "selector", "sentence", "coverage", "epochs"]
    assert point["running"]["busy"]["p95"] == 32


@pytest.mark.parametrize(
    ("option", "value"),
    [("--window", "soon"), ("--start", "yesterday"), ("--window", "0s"), ("--target", "nobody"), ("--scope", "fleet")],
)
def test_an_option_that_cannot_be_read_is_wrong_usage(database: Path, option: str, value: str) -> None:
    done = _process(database.parent, "report", "--database", database, option, value)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_check_config_counts_what_it_read_and_names_what_is_wrong(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yml", tmp_path / "bad.yml"
    good.write_text("targets:\n  - url: http://127.0.0.1:8000\n")
    bad.write_text("targets:\n  - ulr: http://127.0.0.1:8000\n")
    assert "1 target(s)" in _run("check", "config", good).output
    done = _process(tmp_path, "check", "config", bad)
    assert done.returncode == 2
    assert "bad.yml" in done.stderr
    assert "ulr" in done.stderr


def test_check_target_says_what_a_server_shows() -> None:
    now_ms = time.time_ns() // 1_000_000
    with running_in_thread(SimulatedServer(Simulation(scenarios.chat(), start_ms=now_ms))) as url:
        result = _run("check", "target", url)
    assert result.exit_code == 0, result.output
    assert "vllm 0.32.0" in result.output
    assert "name[]" in result.output
    assert "running" in result.output


def test_check_target_says_why_nobody_answers(tmp_path: Path) -> None:
    done = _process(tmp_path, "check", "target", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "connect" in done.stderr
    assert "Traceback" not in done.stderr


def test_check_database_finds_a_damaged_page(database: Path, tmp_path: Path) -> None:
    assert "sound" in _run("check", "database", "--database", database).output
    damaged = tmp_path / "damaged.db"
    body = bytearray(database.read_bytes())
    body[len(body) // 2 : len(body) // 2 + 4096] = b"\x5a" * 4096
    damaged.write_bytes(body)
    done = _process(tmp_path, "check", "database", "--database", damaged)
    assert done.returncode in (1, 2)
    assert "damaged" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("content", ["", "\n\n"], ids=["empty", "blank"])
def test_a_recording_without_a_scrape_is_told(tmp_path: Path, content: str) -> None:
    path = tmp_path / "none.jsonl"
    path.write_text(content)
    done = _process(tmp_path, "replay", path)
    assert done.returncode == 2
    assert "no scrape" in done.stderr


def test_the_demo_has_a_sentence_and_a_recommendation_within_half_a_minute(tmp_path: Path) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with process(
        [*THIS_OPMON, "demo", "--listen", listen], f"http://{listen}", tmp_path, python_path=str(ROOT)
    ) as demo:
        started = time.monotonic()
        demo_is_up = False
        while time.monotonic() - started < 30 and not demo_is_up:
            point = demo.json("/api/v1/operating-point?window=24h") or {}
            demo_is_up = bool(point.get("running", {}).get("occupancy"))
            time.sleep(0.5)
        assert demo_is_up, "no sentence within 30 s"
        answer = demo.json("/api/v1/recommendation?sweep=example-drafters")
        assert {"code", "prose"} == {content["content"] for content in answer["contents"]}
        assert demo.stop() == 0
