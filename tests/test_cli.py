"""The command line: what it prints, where, and with which exit status."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon import __version__
from opmon.cli.main import COMMANDS, cli, exit_status
from opmon.errors import ConfigError, NotFound, OpmonError, StoreError, SweepError
from opmon.simulator import scenarios
from opmon.simulator.server import Faults, SimulatedServer, running_in_thread
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
            # The first second of the live server may be idle; the last day comes in beside it.
            levels = point.get("running", {}).get("occupancy") or []
            demo_is_up = any(one["level"] for one in levels)
            time.sleep(0.5)
        assert demo_is_up, "no sentence within 30 s"
        answer = demo.json("/api/v1/recommendation?sweep=example-drafters&window=24h")
        assert {"code", "prose"} == {content["content"] for content in answer["contents"]}
        head = urllib.request.Request(f"http://{listen}/api/v1/sweeps", method="HEAD")
        with urllib.request.urlopen(head, timeout=10) as reply:
            assert (200, "application/json", b"") == (reply.status, reply.headers["content-type"], reply.read())
        assert demo.stop() == 0


HOSTILE_NAME = "a\x1b]0;pwn\x07\nb"
SWEEP_TEXT = "config,content,concurrency,aggregate_tok_s\nold,code,1,5\nnew,code,1,6\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--window", "9" * 400 + "d"), "is no duration"),
        (("--window", "1ms"), "too short"),
        (("--window", ""), "is no duration"),
        (("--start", "10", "--end", "10"), "the window is empty: it starts and ends at 1970-01-01T00:00:10Z"),
        (
            ("--start", "1796000000", "--end", "1795000000"),
            "ends (2026-11-18T11:06:40Z) before it starts (2026-11-30T00:53:20Z)",
        ),
        (("--target", ""), "--target is given and empty"),
        (("--model", ""), "--model is given and empty"),
    ],
)
def test_a_window_or_name_that_cannot_be_is_wrong_usage_in_words(
    database: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = _process(database.parent, "report", "--database", database, *arguments)
    assert (2, "") == (done.returncode, done.stdout)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("url", ["foo", "http://", "ftp://a", "http://user:geheim@127.0.0.1:99999", "\x1b[2J"])
def test_check_target_says_what_is_no_url_and_repeats_no_password(tmp_path: Path, url: str) -> None:
    done = _process(tmp_path, "check", "target", url)
    assert done.returncode == 2
    assert "the URL of the target" in done.stderr
    assert "Traceback" not in done.stderr
    assert "geheim" not in done.stderr
    assert "\x1b" not in done.stderr


def test_a_model_name_that_steers_a_terminal_is_shown_as_text() -> None:
    page = b'vllm:num_requests_running{model_name="a\\nceiling 5\x1b]0;pwn\x07"} 1\n'
    now_ms = time.time_ns() // 1_000_000
    faults = Faults(body=page, content_type="text/plain; version=0.0.4")
    server = SimulatedServer(Simulation(scenarios.chat(), start_ms=now_ms), faults=faults)
    with running_in_thread(server) as url:
        result = _run("check", "target", url)
    assert r"models     a ceiling 5\x1b]0;pwn\x07" in result.output.splitlines()
    assert not {"\x1b", "\x07"} & set(result.output)


@pytest.mark.parametrize("value", ["NaN", "1e30", "-5"])
def test_a_recording_with_an_impossible_instant_is_told(tmp_path: Path, value: str) -> None:
    path = tmp_path / "scrapes.jsonl"
    path.write_text(f'{{"t": {value}, "took": 0.1, "status": 0, "body": ""}}\n')
    done = _process(tmp_path, "replay", path)
    assert done.returncode == 2
    assert "line 1: t is" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--sweep", "--config", "--content"])
@pytest.mark.parametrize("name", [HOSTILE_NAME, "", "x" * 201, "\ud800"])
def test_a_name_that_cannot_be_printed_is_not_imported(tmp_path: Path, option: str, name: str) -> None:
    (tmp_path / "a.csv").write_text(SWEEP_TEXT)
    result = _run("sweeps", "import", tmp_path / "a.csv", option, name, "--database", tmp_path / "o.db")
    assert isinstance(result.exception, SweepError)
    assert not (tmp_path / "o.db").exists()


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_sweep_takes_no_name_that_the_api_refuses(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text(SWEEP_TEXT)
    done = _process(tmp_path, "sweeps", "import", "a.csv", "--sweep", name, "--database", "o.db")
    assert done.returncode == 2
    assert "cannot stand in an address" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "config,concurrency,aggregate_tok_s\n\x1b]0;pwn\x07,1,5\n",
        'config,concurrency,aggregate_tok_s\n"old,1,5\nnew,1,5\n',
        f"config,concurrency,aggregate_tok_s\n{'x' * 131_073},1,5\n",
        "config,concurrency,aggregate_tok_s\nold,1,1e300\n",
    ],
    ids=["steering", "open quote", "long", "large"],
)
def test_a_table_that_cannot_be_is_told_with_file_and_row(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    done = _process(tmp_path, "sweeps", "import", "a.csv", "--database", "o.db")
    assert done.returncode == 2
    assert "a.csv, row 2" in done.stderr
    assert "\x1b" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_file_that_never_ends_is_refused(tmp_path: Path) -> None:
    done = _process(tmp_path, "sweeps", "import", "/dev/zero", "--sweep", "s", "--database", "o.db")
    assert done.returncode == 2
    assert "larger than" in done.stderr


def test_a_sweeps_columns_of_ones_own_are_shown_without_what_steers_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        SWEEP_TEXT.replace("tok_s\n", "tok_s,my\x1bnote\n").replace(",5\n", ",5,\n").replace(",6\n", ",6,\n")
    )
    done = _process(tmp_path, "sweeps", "import", "a.csv", "--database", "o.db")
    assert (0, r"a.csv: columns kept but not used: my\x1bnote" + "\n") == (done.returncode, done.stderr)
    shown = _process(tmp_path, "sweeps", "show", "a", "--database", "o.db").stdout
    assert r"my\x1bnote" in shown
    assert "\x1b" not in shown


def test_the_demo_tells_an_address_that_it_cannot_have_before_it_begins(tmp_path: Path) -> None:
    done = _process(tmp_path, "demo", "--listen", "0.0.0.0:8917")
    assert done.returncode == 2
    assert "0.0.0.0:8917 can be reached from other machines" in done.stderr
    assert "OPMON_TOKEN_FILE" in done.stderr
    assert "--insecure" not in done.stderr
    assert "works through" not in done.stderr


def test_the_demo_tells_a_taken_port_before_it_begins(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = _process(tmp_path, "demo", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 2
    assert "cannot listen" in done.stderr
    assert "works through" not in done.stderr


def test_what_nobody_foresaw_is_one_line_with_a_hint(tmp_path: Path) -> None:
    code = (
        "import click, opmon.cli.main as m\n"
        "@m.cli.command('fail')\n"
        "def fail(): raise KeyError('\\x1b[2J' + 'x' * 900)\n"
        "m.LazyGroup.get_command = lambda self, ctx, name: fail\n"
        "m.main()\n"
    )
    environment = {**clean_environment(tmp_path), "PYTHONPATH": str(ROOT)}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        command = [THIS_OPMON[0], "-c", code, "fail"]
        return subprocess.run(command, env=environment | more, capture_output=True, text=True, check=False, timeout=60)

    told, shown = run(), run(OPMON_TRACEBACK="1")
    assert (1, 1) == (told.returncode, told.stderr.count("\n"))
    assert "opmon: unexpected KeyError" in told.stderr
    assert "OPMON_TRACEBACK=1" in told.stderr
    assert "\x1b" not in told.stderr
    assert len(told.stderr) < 400
    assert "Traceback" in shown.stderr


@pytest.mark.parametrize("output", ["text", "md"])
def test_a_cell_without_a_concurrency_never_reads_as_concurrency_zero(tmp_path: Path, output: str) -> None:
    header = "config,content,concurrency,aggregate_tok_s,prompt_tokens,hardware\n"
    rows = "old,code,,5,33,a\nnew,code,,6,99,b\nold,code,1,5,33,a\nnew,code,1,6,33,b\n"
    (tmp_path / "a.csv").write_text(header + rows)
    (tmp_path / "o.csv").write_text("level,seconds\n1,800\n")
    result = _run("recommend", "--sweep", tmp_path / "a.csv", "--occupancy", tmp_path / "o.csv", "--format", output)
    assert result.exit_code == 0, result.output
    assert "concurrency 0" not in result.output
    shown = _run("sweeps", "import", tmp_path / "a.csv", "--database", tmp_path / "o.db")
    assert "the concurrency is not known" in shown.output
    lines = _run("sweeps", "show", "a", "--database", tmp_path / "o.db").output.splitlines()
    assert ["old", "code", "-", "33", "-", "5"] in [line.split()[:6] for line in lines]
