"""What each source of targets named last, as text that only discovery reads.

Contains no meaning of the text.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select

from opmon.store.schema import SOURCE_LISTS


def read_all(connection: Connection) -> Mapping[str, str]:
    """The texts by source."""
    chosen = select(SOURCE_LISTS.c.source, SOURCE_LISTS.c.list)
    return {str(row.source): str(row.list) for row in connection.execute(chosen)}


def save(connection: Connection, source: str, text: str) -> None:
    """Replaces a source's text; an empty one removes it."""
    connection.execute(delete(SOURCE_LISTS).where(SOURCE_LISTS.c.source == source))
    if text:
        connection.execute(insert(SOURCE_LISTS).values(source=source, list=text))
