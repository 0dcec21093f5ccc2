"""Opens the database: connections, transactions and the pragmas with their reasons.

Contains no tables and no queries of what is stored. SQLite by file, PostgreSQL by URL, the same code above it.
Reading takes one snapshot for its whole duration; writing takes the write lock at its beginning, so a transaction
never fails half-way for want of it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url, select
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from opmon.errors import ConfigError, StoreError
from opmon.store import migrations
from opmon.store.schema import META

BUSY_TIMEOUT_MS = 5_000
_OLDEST_SQLITE = (3, 37)
_PRIVATE = 0o600
CLOSE_SECONDS = 5.0
"""So long does closing wait for those who still read; a reader that is slower closes its own connection."""
# SQLITE_BUSY and SQLITE_LOCKED; their extended codes carry them in the low byte.
_BUSY_CODES = (5, 6)
# SQLITE_IOERR, SQLITE_FULL and SQLITE_CANTOPEN: the disk is full, was taken away, or fails.
_DISK_CODES = (10, 13, 14)
# PostgreSQL: serialization failure, deadlock, lock not available; class 08 and 57P: the connection is gone.
_RETRY_STATES = ("40001", "40P01", "55P03", "08", "57P")
# PostgreSQL: class 53, the disk or another resource is used up; class 58, the system below it fails.
_DISK_STATES = ("53", "58")

_PRAGMAS = (
    "PRAGMA foreign_keys = ON",  # off by default in SQLite
    "PRAGMA temp_store = MEMORY",  # sorts never touch the disk
)
_WRITER_PRAGMAS = (
    "PRAGMA journal_mode = WAL",  # readers never wait for the writer
    "PRAGMA synchronous = NORMAL",  # a killed process loses nothing; a power cut, at most the last moments
    "PRAGMA journal_size_limit = 67108864",  # a long reader lets the log grow: give the room back afterwards
)


class NotReadyError(StoreError, ConfigError):
    """The database is absent, older, newer, or of something else. The text names it and the remedy."""


class Database:
    """One opened database. Close it, or use it as a context manager."""

    def __init__(self, url: URL, *, read_only: bool, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.url = url
        self.read_only = read_only
        self.path = Path(url.database or "") if is_sqlite(url) else None
        self._open = _Connections()
        self._reader = _engine(url, read_only=True, may_create=not read_only, busy_timeout_ms=busy_timeout_ms)
        self._writer = (
            None if read_only else _engine(url, read_only=False, may_create=True, busy_timeout_ms=busy_timeout_ms)
        )
        for engine in (self._reader, self._writer):
            if engine is not None:
                self._open.follow(engine)

    @classmethod
    def open(
        cls, url: str, *, read_only: bool, create: bool = False, busy_timeout_ms: int = BUSY_TIMEOUT_MS
    ) -> Database:
        """Opens `url` (a path, `sqlite:///path`, or `postgresql+psycopg://...`).

        Reading never creates or migrates. Writing with `create` makes the database or brings its schema up to date,
        under a lock and after a backup; without it the database must be there and current. `busy_timeout_ms`: how long
        SQLite waits for another process's lock before it says so. Raises NotReadyError.
        """
        parsed = parse_url(url)
        _require_place(parsed, create=create and not read_only)
        database = cls(parsed, read_only=read_only, busy_timeout_ms=busy_timeout_ms)
        try:
            if create and not read_only:
                migrations.upgrade(database)
            else:
                migrations.require_current(database)
        except BaseException:
            database.close()
            raise
        return database

    @property
    def name(self) -> str:
        """How messages call the database: its path, or its URL without the password."""
        return str(self.path) if self.path is not None else self.url.render_as_string(hide_password=True)

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.url.get_backend_name()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one snapshot."""
        with self._told(), self._reader.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, advance: bool = True) -> Iterator[Connection]:
        """A transaction that holds the write lock from its beginning; `advance`: what can be read changes by it."""
        with self._told(), self.exclusive() as connection:
            locked = select(META.c.value).where(META.c.key == "commit").with_for_update()
            number = connection.execute(locked).scalar_one()
            if advance:
                connection.execute(META.update().where(META.c.key == "commit").values(value=number + 1))
            yield connection

    @contextmanager
    def exclusive(self) -> Iterator[Connection]:
        """A writing transaction that expects no table: for migrations."""
        if self._writer is None:
            message = f"{self.name} was opened for reading only"
            raise StoreError(message)
        with self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Closes all connections. Waits up to CLOSE_SECONDS for those in use, which close as they are given back."""
        self._open.end()
        self._reader.dispose()
        if self._writer is not None:
            self._writer.dispose()
        self._open.wait(CLOSE_SECONDS)

    @property
    def open_connections(self) -> int:
        """How many connections there are, idle ones included."""
        return self._open.count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Says which database it was; errors that pass by themselves stay as they are, for whoever tries again."""
        try:
            yield
        except DBAPIError as error:
            if is_busy(error):
                raise
            message = f"{self.name}: {error.orig}"
            raise StoreError(message) from error


class _Connections:
    """Counts the connections of the pools. A pool that is disposed of forgets those in use, and would leave them to
    the garbage collector once they are given back: from the end on, they are closed there and then."""

    def __init__(self) -> None:
        self.count = 0
        self._is_ended = False
        self._changed = threading.Condition()

    def follow(self, engine: Engine) -> None:
        """Counts the connections of a pool, that which is made after a disposal included."""
        event.listen(engine, "connect", lambda _connection, _record: self._add(1))
        event.listen(engine, "close", lambda _connection, _record: self._add(-1))
        event.listen(engine, "checkin", self._given_back)

    def end(self) -> None:
        """From now on nothing that is given back is kept."""
        with self._changed:
            self._is_ended = True

    def wait(self, seconds: float) -> None:
        """Until none is open, or the time ran out."""
        with self._changed:
            self._changed.wait_for(lambda: self.count <= 0, seconds)

    def _given_back(self, _connection: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
        if self._is_ended:
            record.invalidate()

    def _add(self, number: int) -> None:
        with self._changed:
            self.count += number
            self._changed.notify_all()


def parse_url(url: str) -> URL:
    """The URL of a database; a bare path is SQLite. Raises ConfigError for what opmon cannot use."""
    try:
        parsed = make_url(url) if "://" in url else URL.create("sqlite", database=url)
    except ArgumentError as error:
        message = f"{url!r} is no database URL; write a path, sqlite:///path or postgresql+psycopg://user@host/name"
        raise ConfigError(message) from error
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        message = f"database {parsed.drivername!r} is not supported; allowed: sqlite, postgresql+psycopg"
        raise ConfigError(message)
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if is_sqlite(parsed) and parsed.database in (None, "", ":memory:"):
        message = "a database in memory cannot be shared between opmon's connections; name a file"
        raise ConfigError(message)
    return parsed


def is_sqlite(url: URL) -> bool:
    """Whether a URL names a SQLite file."""
    return url.get_backend_name() == "sqlite"


def is_busy(error: BaseException) -> bool:
    """Whether trying again can help: the database is locked by somebody else, or the connection was lost."""
    if not isinstance(error, DBAPIError):
        return False
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _BUSY_CODES
    state = getattr(error.orig, "sqlstate", None)
    lost = isinstance(error, OperationalError) and state is None
    return error.connection_invalidated or lost or str(state or "").startswith(_RETRY_STATES)


def is_disk_fault(error: BaseException) -> bool:
    """Whether the disk is full or fails, also where that was put in words already. It may pass by itself, but nobody
    knows when: whoever can be asked again should say so rather than wait."""
    told = error if isinstance(error, DBAPIError) else error.__cause__
    if not isinstance(told, DBAPIError):
        return False
    code = getattr(told.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _DISK_CODES
    return str(getattr(told.orig, "sqlstate", None) or "").startswith(_DISK_STATES)


def new_key(connection: Connection, table: Table, **values: object) -> int:
    """Inserts a row into a table that numbers its rows; the number."""
    key = connection.execute(table.insert().values(**values)).inserted_primary_key
    return int(key[0]) if key is not None else 0


def _require_place(url: URL, *, create: bool) -> None:
    """The folder is made for a database that may be created; one that may not be must be there."""
    if not is_sqlite(url):
        return
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        message = f"this Python brings SQLite {sqlite3.sqlite_version}; opmon needs 3.37 or later, for STRICT tables"
        raise NotReadyError(message)
    path = Path(url.database or "")
    if create:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot make the folder of the database {path}: {error.strerror}"
            raise NotReadyError(message) from error
    elif not path.is_file():
        message = f"there is no database at {path}; run `opmon serve`, or create it with `opmon migrate`"
        raise NotReadyError(message)


def _engine(url: URL, *, read_only: bool, may_create: bool, busy_timeout_ms: int) -> Engine:
    if not is_sqlite(url):
        return _postgresql(url, read_only=read_only)
    engine = create_engine(
        url,
        creator=lambda: _connect(
            Path(url.database or ""), read_only=read_only, may_create=may_create, busy_timeout_ms=busy_timeout_ms
        ),
        poolclass=QueuePool,
        pool_size=8,
        max_overflow=32,
    )
    begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _postgresql(url: URL, *, read_only: bool) -> Engine:
    """Readers see one snapshot, as SQLite's do; writers queue behind the row that `writing` locks."""
    if not read_only:
        return create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED")
    return create_engine(
        url, pool_pre_ping=True, pool_size=8, max_overflow=32, isolation_level="REPEATABLE READ"
    ).execution_options(postgresql_readonly=True)


def _connect(path: Path, *, read_only: bool, may_create: bool, busy_timeout_ms: int) -> sqlite3.Connection:
    """Transactions are begun by us (`isolation_level=None`), for Python's own would begin them late."""
    mode = "rwc" if may_create else "ro"
    if may_create:
        create_private(path)
    connection = _dial(path, f"mode={mode}", busy_timeout_ms)
    try:
        for pragma in (*_PRAGMAS, *(() if read_only else _WRITER_PRAGMAS)):
            connection.execute(pragma)
        connection.execute("SELECT count(*) FROM sqlite_schema")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.OperationalError:
        connection.close()
        # A log nobody can open beside it: a folder that we may not write to, and nobody writes.
        if mode != "ro" or path.with_name(path.name + "-wal").exists():
            raise
        connection = _dial(path, "mode=ro&immutable=1", busy_timeout_ms)
    except BaseException:
        connection.close()
        raise
    return connection


def create_private(path: Path) -> None:
    """Makes an empty file that its owner alone may read, whatever the umask; one that is there stays as it is.

    SQLite gives the files that it puts beside a database the same rights. A file that cannot be made is left for
    SQLite to complain of.
    """
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE)
        try:
            os.fchmod(descriptor, _PRIVATE)
        finally:
            os.close(descriptor)


def _dial(path: Path, parameters: str, busy_timeout_ms: int) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{parameters}",
        uri=True,
        timeout=busy_timeout_ms / 1000,
        isolation_level=None,
        check_same_thread=False,
    )
