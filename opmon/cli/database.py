"""How reading commands open the database: read-only, by themselves, never creating or migrating it.

Contains no SQL and no reports; it wires the store to the reports for one command.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmon.reports import Reports
    from opmon.store import Store


def database_url(given: str | None) -> str:
    """The database to use: what was given, else `OPMON_DATABASE`, else the default place."""
    from opmon.config.database import database_url as resolve

    return resolve(given, os.environ)


@contextmanager
def open_store(given: str | None) -> Iterator[Store]:
    """The store, read-only. Raises ConfigError naming the path and the remedy if it is absent, older or newer."""
    from opmon.store import Store
    from opmon.store.database import Database

    database = Database.open(database_url(given), read_only=True, create=False)
    try:
        yield Store(database)
    finally:
        database.close()


@contextmanager
def open_reports(given: str | None) -> Iterator[Reports]:
    """Reports over the store, read-only."""
    from opmon.clock import SystemClock
    from opmon.reports import Reports

    with open_store(given) as store:
        yield Reports(store, SystemClock())
