"""One service a database: a lock between processes, held for the life of a service.

Contains no table. Reading, and the short writers (`replay`, `sweeps import`, `migrate`), do not take it: each of their
transactions is whole, and the database itself makes them wait for each other. Two services would tell two histories.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from opmon.store.database import NotReadyError, is_sqlite, parse_url

# Any number, only the same for every opmon, and not that of a migration.
_LOCK = 0x6F706D6F6E_01
_TEXT_BYTES = 100


@contextmanager
def sole_writer(url: str) -> Iterator[None]:
    """Holds the lock of a database. The operating system, or the server, takes it back from a process that is killed.

    Raises NotReadyError naming the process that holds it and the remedy.
    """
    parsed = parse_url(url)
    with _file_lock(Path(parsed.database or "")) if is_sqlite(parsed) else _server_lock(parsed):
        yield


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    """A file beside the real database, by whatever links it is reached; it stays, for its removal would let two in."""
    real = path.resolve()
    lock = real.with_name(real.name + ".lock")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"cannot lock the database {path}: {lock}: {error.strerror}"
        raise NotReadyError(message) from error
    try:
        _lock_or_say(descriptor, path, lock)
        yield
    finally:
        os.close(descriptor)


def _lock_or_say(descriptor: int, path: Path, lock: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, _TEXT_BYTES, 0).decode(errors="replace").strip() or "unknown"
        message = (
            f"another opmon (process {holder}) writes to the database {path}; stop it, or give this one another "
            "--database"
        )
        raise NotReadyError(message) from error
    except OSError as error:
        message = f"cannot lock the database {path}: {lock}: {error.strerror}; put it on a local disk"
        raise NotReadyError(message) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def _server_lock(url: URL) -> Iterator[None]:
    """A lock of the session, on a connection that does nothing else."""
    name = url.render_as_string(hide_password=True)
    try:
        connection = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect()
    except DBAPIError as error:
        message = f"cannot open the database {name}: {error.orig}"
        raise NotReadyError(message) from error
    with connection:
        if not connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one():
            message = (
                f"another opmon ({_holder(connection)}) writes to the database {name}; stop it, or give this one "
                "another --database"
            )
            raise NotReadyError(message)
        yield


def _holder(connection: Connection) -> str:
    """Who holds the lock, as the server knows it."""
    found = connection.execute(
        text(
            "SELECT a.pid, host(a.client_addr) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE l.locktype = 'advisory' AND l.granted AND l.database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database()) "
            "AND l.classid = :high AND l.objid = :low"
        ),
        {"high": _LOCK >> 32, "low": _LOCK & 0xFFFFFFFF},
    ).first()
    return "unknown" if found is None else f"PostgreSQL process {found[0]}, connected from {found[1] or 'this machine'}"
