"""Real databases for the tests of the store: SQLite files, and a PostgreSQL server of our own."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from opmon.store import Store
from opmon.store.database import Database
from tests.needs import postgres


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "opmon.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Database.open(str(path), read_only=False, create=True) as database:
        yield Store(database)


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An empty PostgreSQL server on loopback, run as `postgres` where we are root: it refuses to be root itself."""
    programs = Path(postgres() or "").parent
    folder = tmp_path_factory.mktemp("postgres")
    if os.getuid() == 0:
        for place in (folder, *folder.parents[:3]):
            place.chmod(0o755)
        subprocess.run(["chown", "postgres", str(folder)], check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = str(folder / "data")
    _as_postgres([str(programs / "initdb"), "-D", data, "-A", "trust", "-U", "opmon", "--no-sync"])
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
    control = [str(programs / "pg_ctl"), "-D", data]
    _as_postgres([*control, "-w", "-l", str(folder / "log"), "-o", options, "start"])
    try:
        yield f"postgresql+psycopg://opmon@127.0.0.1:{port}/postgres"
    finally:
        _as_postgres([*control, "-m", "immediate", "stop"])


def _as_postgres(command: Sequence[str]) -> None:
    prefix = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")
