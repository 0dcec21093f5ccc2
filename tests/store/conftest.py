"""Real databases for the tests of the store: SQLite files, and a PostgreSQL server of our own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from opmon.store import Store
from opmon.store.database import Database
from tests.needs import postgres


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "opmon.db"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new database, made once: to migrate takes longer than most tests do."""
    path = tmp_path_factory.mktemp("empty") / "opmon.db"
    Database.open(str(path), read_only=False, create=True).close()
    return path


@pytest.fixture
def store(path: Path, empty_database: Path) -> Iterator[Store]:
    shutil.copy(empty_database, path)
    with Database.open(str(path), read_only=False) as database:
        yield Store(database)


@pytest.fixture
def hasty_store(path: Path, empty_database: Path) -> Iterator[Store]:
    """A store that waits for a lock for a moment only."""
    shutil.copy(empty_database, path)
    with Database.open(str(path), read_only=False, busy_timeout_ms=50) as database:
        yield Store(database)


@pytest.fixture(scope="session")
def postgres_folder() -> Iterator[Path]:
    """Outside of pytest's own folders, which nobody but their owner may enter."""
    with TemporaryDirectory(prefix="opmon-postgres-") as name:
        if os.getuid() == 0:
            shutil.chown(name, "postgres")
        yield Path(name)


@pytest.fixture(scope="session")
def postgres_url(postgres_folder: Path) -> Iterator[str]:
    """An empty PostgreSQL server on loopback, run as `postgres` where we are root: it refuses to be root itself."""
    programs, folder = Path(postgres() or "").parent, postgres_folder
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
