"""The `needs` marker: a test whose needs are missing says so, and fails only where it was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import NEEDS, ROOT, is_required

A_TEST = """
import pytest

@pytest.mark.needs("chromium")
def test_that_wants_a_browser():
    pass
"""


def run_without_programs(folder: Path, required: str, text: str = A_TEST) -> subprocess.CompletedProcess[str]:
    """Pytest over one file, with the house's conftest and an empty PATH."""
    (folder / "test_one.py").write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text("from tests.conftest import *\n", encoding="utf-8")
    environment = {**os.environ, "PATH": str(folder), "OPMON_REQUIRE": required, "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(folder),
        str(folder),
    ]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_missing_need_is_a_skip_that_names_the_command_which_brings_it(tmp_path: Path) -> None:
    run = run_without_programs(tmp_path, required="")
    assert run.returncode == 0, run.stdout
    assert "1 skipped" in run.stdout
    assert "1 test: needs chromium: make peers" in run.stdout


@pytest.mark.parametrize("required", ["all", "prometheus,chromium"])
def test_a_missing_need_is_a_failure_where_it_is_required(tmp_path: Path, required: str) -> None:
    run = run_without_programs(tmp_path, required=required)
    assert run.returncode == 1, run.stdout
    assert "needs chromium: make peers" in run.stdout


def test_a_need_that_nobody_knows_is_a_failure(tmp_path: Path) -> None:
    run = run_without_programs(tmp_path, required="", text=A_TEST.replace("chromium", "chromum"))
    assert run.returncode == 1, run.stdout
    assert "'chromum'" in run.stdout


def test_all_asks_for_nothing_that_cannot_be_installed() -> None:
    assert {"shared", "vllm"} == {name for name in NEEDS if not is_required(name, "all")}
    assert is_required("shared", "all,shared")
