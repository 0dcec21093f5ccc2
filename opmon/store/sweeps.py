"""Benchmark sweeps: named sets of imported files with their cells, and the files themselves.

Contains no reading of files and no judgement. An import is one transaction; the same file again changes nothing.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select

from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.errors import NotFound
from opmon.store.database import new_key
from opmon.store.schema import CELLS, IMPORTS, SWEEPS

LARGEST_ORIGINAL_BYTES = 8 * 1024 * 1024
_CELL = msgspec.json.Decoder(Cell)
_NOTES = msgspec.json.Decoder(tuple[str, ...])


def save(connection: Connection, name: str, one: SweepImport, at_ms: int) -> bool:
    """Adds an import to a sweep, which is made if it is new. False: this file is in it already, nothing changed."""
    sweep = connection.execute(select(SWEEPS.c.id).where(SWEEPS.c.name == name)).scalar()
    if sweep is None:
        sweep = new_key(connection, SWEEPS, name=name)
    same = select(IMPORTS.c.id).where(IMPORTS.c.sweep == sweep, IMPORTS.c.sha256 == one.sha256)
    if connection.execute(same).scalar() is not None:
        return False
    original, notes = _packed(one)
    number = new_key(
        connection,
        IMPORTS,
        sweep=sweep,
        sha256=one.sha256,
        file_name=one.file_name,
        reader=one.reader,
        reader_version=one.reader_version,
        size_bytes=one.size_bytes,
        imported_ms=at_ms,
        notes=msgspec.json.encode(notes).decode(),
        original=original,
    )
    if one.cells:
        connection.execute(insert(CELLS), [_values(number, place, cell) for place, cell in enumerate(one.cells)])
    return True


def names(connection: Connection) -> Sequence[str]:
    """The names of all sweeps, in order."""
    return connection.execute(select(SWEEPS.c.name).order_by(SWEEPS.c.name)).scalars().all()


def read(connection: Connection, name: str) -> Sweep:
    """A sweep with its cells, without the original files. Raises NotFound naming those that exist."""
    chosen = select(*(column for column in IMPORTS.c if column.name != "original")).where(
        IMPORTS.c.sweep == _number(connection, name)
    )
    rows = connection.execute(chosen.order_by(IMPORTS.c.id)).all()
    return Sweep(name, tuple(_import(connection, row) for row in rows))


def original(connection: Connection, name: str, sha256: str) -> bytes | None:
    """The imported file itself; None where it was too large to keep. Raises NotFound."""
    chosen = select(IMPORTS.c.original).where(IMPORTS.c.sweep == _number(connection, name), IMPORTS.c.sha256 == sha256)
    row = connection.execute(chosen).one_or_none()
    if row is None:
        message = f"sweep {name!r} has no import {sha256!r}"
        raise NotFound(message)
    return None if row.original is None else zlib.decompress(row.original)


def remove(connection: Connection, name: str) -> None:
    """Deletes a sweep with everything in it. Raises NotFound."""
    number = _number(connection, name)
    imports = connection.execute(select(IMPORTS.c.id).where(IMPORTS.c.sweep == number)).scalars().all()
    connection.execute(delete(CELLS).where(CELLS.c["import"].in_(imports)))
    connection.execute(delete(IMPORTS).where(IMPORTS.c.sweep == number))
    connection.execute(delete(SWEEPS).where(SWEEPS.c.id == number))


def _number(connection: Connection, name: str) -> int:
    found = connection.execute(select(SWEEPS.c.id).where(SWEEPS.c.name == name)).scalar()
    if found is None:
        message = f"there is no sweep {name!r}; there are: {', '.join(names(connection)) or 'none'}"
        raise NotFound(message)
    return int(found)


def _packed(one: SweepImport) -> tuple[bytes | None, tuple[str, ...]]:
    """The original compressed, if that is small enough; else a note that says so."""
    if one.original is None:
        return None, one.notes
    packed = zlib.compress(one.original)
    if len(packed) <= LARGEST_ORIGINAL_BYTES:
        return packed, one.notes
    return None, (*one.notes, f"the file itself is not kept: {len(packed)} bytes compressed, at most 8 MB are")


def _values(number: int, place: int, cell: Cell) -> dict[str, Any]:
    return {
        "import": number,
        "position": place,
        "source_row": cell.source_row,
        "configuration": cell.configuration,
        "content": cell.content,
        "concurrency": cell.concurrency,
        "cell": msgspec.json.encode(cell).decode(),
    }


def _import(connection: Connection, row: Row[Any]) -> SweepImport:
    chosen = select(CELLS.c.cell).where(CELLS.c["import"] == row.id).order_by(CELLS.c.position)
    return SweepImport(
        file_name=row.file_name,
        sha256=row.sha256,
        reader=row.reader,
        reader_version=row.reader_version,
        size_bytes=row.size_bytes,
        cells=tuple(_CELL.decode(text) for text in connection.execute(chosen).scalars()),
        imported_ms=row.imported_ms,
        notes=_NOTES.decode(row.notes),
    )
