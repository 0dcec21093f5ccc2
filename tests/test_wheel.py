"""The wheel: what is in it, and that a service runs from it where there is nothing else of this repository.

The environment is made as a user makes one, so this is the one test that needs the package index.
"""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opmon import __version__
from tests.needs import ROOT
from tests.processes import Process, clean_environment, service

pytestmark = pytest.mark.timeout(300)

PAGE = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="tiny"}} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="tiny"}} 0.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {tokens}
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{engine="0",model_name="tiny"}} 100.0
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1700000000.0
"""


class TinyTarget(http.server.BaseHTTPRequestHandler):
    """A server that always runs two requests and ignores the filter."""

    tokens = 0

    def do_GET(self) -> None:  # http.server's name
        TinyTarget.tokens += 10
        body = PAGE.format(tokens=TinyTarget.tokens).encode() if self.path.startswith("/metrics") else b"{}"
        self.send_response(200 if self.path.startswith("/metrics") else 404)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's name
        """Say nothing."""


@pytest.fixture
def target() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TinyTarget)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def opmon(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, in an environment that holds the locked dependencies and the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", str(folder))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    run(*pip, "--no-deps", str(wheel))
    run(str(folder / "bin" / "python"), "-m", "pip", "check")
    return folder / "bin" / "opmon"


def run(*command: str, folder: Path | None = None) -> str:
    """What the command says; its failure fails the test with its words."""
    environment = clean_environment(folder) if folder else None
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_carries_migrations_pages_types_and_licences_and_nothing_of_the_workshop(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "opmon/_migrations/env.py" in names
    assert [name for name in names if name.startswith("opmon/_migrations/versions/") and name.endswith(".py")]
    assert "opmon/py.typed" in names
    assert [name for name in names if name.startswith("opmon/ui/templates/")]
    assert [name for name in names if name.startswith("opmon/ui/static/") and "vendor" not in name]
    assert f"opmon-{__version__}.dist-info/licenses/LICENSE" in names
    assert [] == [name for name in names if not name.startswith(("opmon/", "opmon-"))]
    assert [] == [name for name in names if "__pycache__" in name or name.endswith(".db")]


@pytest.mark.needs("npm")
def test_the_wheel_carries_the_charts_with_their_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folder = "opmon/ui/static/vendor/uplot"
    assert {f"{folder}/uPlot.esm.js", f"{folder}/uPlot.min.css", f"{folder}/LICENSE"} <= set(names)


def test_the_installed_program_says_its_version(opmon: Path, tmp_path: Path) -> None:
    assert f"opmon {__version__}\n" == run(str(opmon), "--version", folder=tmp_path)


def test_the_installed_program_makes_a_database_from_its_own_migrations(opmon: Path, tmp_path: Path) -> None:
    database = tmp_path / "made.db"
    run(str(opmon), "migrate", "--database", str(database), folder=tmp_path)
    assert database.is_file()
    run(str(opmon), "migrate", "--check", "--database", str(database), folder=tmp_path)


def test_the_installed_service_watches_a_target_and_stops_when_asked(opmon: Path, target: str, tmp_path: Path) -> None:
    with service(target, tmp_path, program=[str(opmon)]) as installed:
        point = first_operating_point(installed)
        page, metrics = installed.wait_for("/"), installed.wait_for("/metrics")
        assert installed.stop() == 0
    assert {2} == {level["level"] for level in point["running"]["occupancy"] if level["seconds"]}
    assert b"opmon" in page
    assert b"opmon_target_up" in metrics
    assert (tmp_path / "opmon" / "opmon.db").is_file()


def first_operating_point(installed: Process, seconds: float = 60) -> Any:
    """The first operating point that has observed anything."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        point = installed.json("/api/v1/operating-point?window=5m")
        if point and point["running"]["occupancy"]:
            return point
        time.sleep(0.5)
    message = f"nothing was observed within {seconds} s"
    raise AssertionError(message)
