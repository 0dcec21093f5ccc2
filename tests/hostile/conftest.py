"""A database of its own for every test, and the hostile server beside it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from opmon.store import Store
from opmon.store.database import Database
from tests.hostile.badserver import BadServer, serving


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a file."""
    database = Database.open(str(tmp_path / "opmon.db"), read_only=False, create=True)
    yield Store(database)
    database.close()


@pytest_asyncio.fixture
async def server() -> AsyncIterator[BadServer]:
    """The hostile server, in the same loop."""
    async with serving() as one:
        yield one
