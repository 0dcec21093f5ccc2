"""opmon and the simulator as processes of their own, as a person starts them; and how to ask them.

Contains no test. Whatever a process said is added to the failure of the test that uses it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any

from tests.needs import ROOT

THIS_OPMON = (sys.executable, "-m", "opmon")
STOP_SECONDS = 20


@dataclass(frozen=True)
class Process:
    """A running service and where it answers."""

    url: str
    popen: subprocess.Popen[bytes]

    def get(self, path: str) -> bytes | None:
        """The body, or None while nobody answers well. A process that has ended fails the test."""
        assert self.popen.poll() is None, f"ended by itself with status {self.popen.returncode}"
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as response:
                body: bytes = response.read()
                return body
        except (urllib.error.URLError, ConnectionError):
            return None

    def json(self, path: str) -> Any:
        """The answer as JSON, None while there is none."""
        body = self.get(path)
        return None if body is None else json.loads(body)

    def wait_for(self, path: str, seconds: float = 60) -> bytes:
        """The first good answer."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if (body := self.get(path)) is not None:
                return body
            time.sleep(0.2)
        message = f"{self.url}{path} did not answer within {seconds} s"
        raise AssertionError(message)

    def stop(self) -> int:
        """Asks it to end, as a service manager does; the exit status."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(timeout=STOP_SECONDS)

    def memory_bytes(self) -> int:
        """Resident memory (Linux)."""
        text = Path(f"/proc/{self.popen.pid}/status").read_text(encoding="utf-8")
        (line,) = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def open_files(self) -> int:
        """Open descriptors (Linux)."""
        return len(list(Path(f"/proc/{self.popen.pid}/fd").iterdir()))

    def cpu_seconds(self) -> float:
        """Time on a processor since its start (Linux)."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def words_of(url: str, folder: Path) -> str:
    """What the process that answers there has printed so far."""
    return (folder / f"words-{url.rpartition(':')[2]}.txt").read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    """A port that nobody uses now, outside of the range from which the system gives ports away, drawn at random: tests
    that run beside each other must not be given the same one."""
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def clean_environment(folder: Path) -> dict[str, str]:
    """Nothing of this process but where programs are; the state goes to `folder`."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder)}


@contextmanager
def process(
    command: Sequence[str], url: str, folder: Path, *, python_path: str = "", more: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """The command in `folder`, killed at the end if it still runs. `more`: variables of its environment."""
    environment = clean_environment(folder) | ({"PYTHONPATH": python_path} if python_path else {}) | dict(more or {})
    words = folder / f"words-{url.rpartition(':')[2]}.txt"
    with words.open("wb") as out:
        popen = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield Process(url, popen)
    except BaseException as error:
        error.add_note(words.read_text(encoding="utf-8", errors="replace")[-4000:])
        raise
    finally:
        popen.kill()
        popen.wait()


@contextmanager
def service(target: str, folder: Path, *, program: Sequence[str] = THIS_OPMON) -> Iterator[Process]:
    """`opmon serve` over one target, once it says that it is ready."""
    listen = f"127.0.0.1:{free_port()}"
    command = [*program, "serve", "--target", target, "--listen", listen]
    with process(command, f"http://{listen}", folder, python_path=str(ROOT) if program is THIS_OPMON else "") as one:
        one.wait_for("/-/ready")
        yield one


@contextmanager
def simulator(folder: Path, *, scenario: str = "chat", speed: float = 1) -> Iterator[Process]:
    """A simulated server in real time."""
    port = free_port()
    command = [sys.executable, "-m", "opmon.simulator", "--port", str(port), "--scenario", scenario]
    with process([*command, "--speed", str(speed)], f"http://127.0.0.1:{port}", folder, python_path=str(ROOT)) as one:
        one.wait_for("/health")
        yield one
