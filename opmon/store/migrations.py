"""Brings a database's schema up to date, and says when it is not.

Contains no schema: the steps are the folder `migrations`, at the top of a checkout or packed into the installed
package. Migrating happens under a lock, in one transaction, after a backup copy where there is something to lose.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from opmon.errors import StoreError

if TYPE_CHECKING:
    from opmon.store.database import Database, NotReadyError

# Revisions are ascending numbers, so "older" and "newer" need no look into the folder.
HEAD_REVISION = "0004"
_VERSION_TABLE = "alembic_version"
# Any number, only the same for every opmon: the name of the lock on PostgreSQL.
_LOCK = 0x6F706D6F6E


def upgrade(database: Database, *, head: str = HEAD_REVISION, steps: Path | None = None) -> Path | None:
    """Creates the schema or brings it to `head` by the steps in a folder. Returns the backup's path if one was made.

    Two at once: the second waits for the first and then finds nothing to do. A newer schema is refused.
    """
    backup: Path | None = None
    try:
        with database.exclusive() as connection:
            if database.dialect == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            found = _found(database, connection, head)
            if found == head:
                return None
            backup = _backup(database, found, head) if found is not None else None
            _run(connection, steps or folder())
    except BaseException as error:
        # Nothing was changed: a copy for every start that fails would only fill the disk.
        if backup is not None:
            backup.unlink()
        if isinstance(error, DBAPIError):
            raise _not_ready(f"cannot write the database {database.name}: {error.orig}") from error
        raise
    return backup


def current_revision(database: Database) -> str | None:
    """The revision of the database's schema; None if it has none yet."""
    try:
        with database.reading() as connection:
            return _revision(connection)
    except (StoreError, DBAPIError) as error:
        reason = getattr(error, "orig", error)
        raise _not_ready(f"cannot read the database {database.name}: {reason}") from error


def check(database: Database) -> str:
    """`current`, `absent`, `older` or `newer`."""
    found = current_revision(database)
    if found is None:
        return "absent"
    if found == HEAD_REVISION:
        return "current"
    return "older" if found < HEAD_REVISION else "newer"


def require_current(database: Database) -> None:
    """Raises NotReadyError, naming the remedy, unless the schema is the one this opmon knows."""
    outcome = check(database)
    if outcome == "absent":
        raise _not_ready(f"there is no opmon database in {database.name}; create it with `opmon migrate`")
    if outcome == "older":
        raise _not_ready(
            f"the database {database.name} has schema {current_revision(database)}, this opmon needs {HEAD_REVISION}; "
            "run `opmon migrate` (it makes a backup first)"
        )
    if outcome == "newer":
        raise _newer(database, current_revision(database))


def folder() -> Path:
    """Where the migration steps are: packed into the package, or at the top of the checkout. Raises StoreError."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "_migrations", package.parent / "migrations"):
        if (candidate / "env.py").is_file():
            return candidate
    message = f"opmon's migrations are missing beside {package}; the installation is incomplete, install it again"
    raise StoreError(message)


def _found(database: Database, connection: Connection, head: str) -> str | None:
    """The revision found, where it may be migrated."""
    found = _revision(connection)
    if found is None and inspect(connection).get_table_names():
        raise _not_ready(f"{database.name} holds tables that are not opmon's; name another database")
    if found is not None and found > head:
        raise _newer(database, found)
    return found


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return cast("str | None", connection.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar())  # noqa: S608 a constant


def _run(connection: Connection, steps: Path) -> None:
    # Alembic brings a template engine with it; only those who migrate pay for its import.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(steps).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _backup(database: Database, revision: str, head: str) -> Path | None:
    """A copy beside the database, whole while others read and write. On PostgreSQL none is made: dump it first."""
    from opmon.store.database import create_private  # noqa: PLC0415 the two modules need each other

    if database.path is None:
        return None
    name, number = f"{database.path.name}.before-{head}-from-{revision}", 1
    copy = database.path.with_name(name)
    while copy.exists():
        number += 1
        copy = database.path.with_name(f"{name}.{number}")
    create_private(copy)
    source, target = sqlite3.connect(database.path), sqlite3.connect(copy)
    try:
        source.backup(target)
    finally:
        source.close()
        target.close()
    return copy


def _newer(database: Database, found: str | None) -> NotReadyError:
    return _not_ready(
        f"the database {database.name} was written by a newer opmon (schema {found}, this one knows {HEAD_REVISION}); "
        "install that version or restore the backup made before"
    )


def _not_ready(message: str) -> NotReadyError:
    from opmon.store.database import NotReadyError  # noqa: PLC0415 the two modules need each other

    return NotReadyError(message)
