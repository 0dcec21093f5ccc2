"""The same code on PostgreSQL, against a real server."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from opmon.core.model import HOUR_MS
from opmon.core.states import Step
from opmon.errors import ConfigError
from opmon.store import Store
from opmon.store.database import Database
from tests.store.history import RECORD, START_MS, VIEWS, History, in_order
from tests.store.test_retention import KEEP
from tests.store.test_rows import row
from tests.store.test_sweeps import FILE

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
def server(postgres_url: str) -> Iterator[Store]:
    """An empty database on the server."""
    with Database.open(postgres_url, read_only=False, create=True) as database, database.exclusive() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with Database.open(postgres_url, read_only=False, create=True) as database:
        yield Store(database)


def test_windows_and_retention_are_the_same_as_on_sqlite(server: Store) -> None:
    history = History(41, hours=3)
    server.save_target(RECORD)
    place = 0
    while place < len(history.attempts):
        server.append("one", history.steps(place, place + 400))
        server.roll_up(history.end_ms)
        place += 400
    dice = random.Random(41)
    for view in VIEWS:
        window = (START_MS + dice.randrange(HOUR_MS), history.end_ms - dice.randrange(HOUR_MS))
        assert history.fold(view, *window) == in_order(server.window(view, *window))
    assert server.retain(history.end_ms, KEEP) > 0
    bounds = server.window_bounds(VIEWS[0], START_MS + 1, history.end_ms)
    assert history.fold(VIEWS[0], *bounds) == in_order(server.window(VIEWS[0], START_MS + 1, history.end_ms))


def test_sweeps_targets_and_figures_work(server: Store) -> None:
    server.import_sweep("drafters", FILE, 5)
    assert not server.import_sweep("drafters", FILE, 6)
    assert FILE.cells == server.sweep("drafters").cells
    server.save_target(RECORD)
    assert RECORD == server.target("one")
    assert server.stats().size_bytes > 0
    assert server.stats().wal_bytes is None
    server.delete_sweep("drafters")
    assert [] == list(server.sweeps())


def test_writers_take_turns_and_a_stratum_is_stored_once(server: Store) -> None:
    server.save_target(RECORD)
    threads = [
        threading.Thread(target=server.append, args=("one", [Step(row(second)) for second in range(50)]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (50, 150) == (server.appended_rows, server.duplicate_rows)
    assert 5 == server.commit_number()


def test_reading_an_empty_server_is_refused_and_creates_nothing(postgres_url: str, server: Store) -> None:
    with server.database.exclusive() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for _ in range(2):
        with pytest.raises(ConfigError, match="opmon migrate"):
            Database.open(postgres_url, read_only=True)
