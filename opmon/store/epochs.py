"""The epochs of a target: the stretches within which its counters may be compared.

Contains no judgement of when an epoch ends; that is `opmon.core.states`. An epoch lasts until the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, and_, insert, select, update

from opmon.core.model import Epoch
from opmon.errors import StoreError
from opmon.store.schema import EPOCHS

_IDENTITY = msgspec.json.Decoder(dict[str, str])


def save(connection: Connection, target: int, epoch: Epoch) -> None:
    """Keeps an epoch. One of that number that began at the same instant is replaced: more of its identity was learnt.

    Raises StoreError where one of that number began at another instant: somebody else began it, and counters of two
    servers must never be compared as those of one.
    """
    values = {
        "start_ms": epoch.start_ms,
        "cause": epoch.cause,
        "detail": epoch.detail,
        "identity": msgspec.json.encode(dict(epoch.identity)).decode(),
        "process_start_seconds": epoch.process_start_seconds,
    }
    this_one = and_(EPOCHS.c.target == target, EPOCHS.c.number == epoch.number)
    start_ms = connection.execute(select(EPOCHS.c.start_ms).where(this_one)).scalar()
    if start_ms is None:
        connection.execute(insert(EPOCHS).values(target=target, number=epoch.number, **values))
        return
    if start_ms != epoch.start_ms:
        message = (
            f"epoch {epoch.number} of this target began at {start_ms} ms and not at {epoch.start_ms} ms: another process "
            "writes under the same name; end one of the two, or give it another name"
        )
        raise StoreError(message)
    connection.execute(update(EPOCHS).where(this_one).values(**values))


def read(connection: Connection, target: int, start_ms: int, end_ms: int) -> Sequence[Epoch]:
    """The epochs that overlap `[start_ms, end_ms)`, in order."""
    return [
        epoch
        for epoch in _all(connection, target)
        if epoch.start_ms < end_ms and (epoch.end_ms is None or epoch.end_ms > start_ms)
    ]


def current(connection: Connection, target: int) -> Epoch | None:
    """The epoch that began last; None before the first answer. By its number: a clock that was set back lets a later
    epoch begin at an earlier instant."""
    return next(iter(latest(connection, target, 1)), None)


def latest(connection: Connection, target: int, count: int) -> list[Epoch]:
    """The last epochs by their numbers, the current one at the end."""
    return sorted(_all(connection, target), key=lambda epoch: epoch.number)[-count:]


def _all(connection: Connection, target: int) -> list[Epoch]:
    chosen = select(EPOCHS).where(EPOCHS.c.target == target).order_by(EPOCHS.c.start_ms, EPOCHS.c.number)
    rows = connection.execute(chosen).all()
    ends: list[int | None] = [row.start_ms for row in rows[1:]]
    return [_epoch(row, end_ms) for row, end_ms in zip(rows, [*ends, None], strict=False)]


def _epoch(row: Row[Any], end_ms: int | None) -> Epoch:
    return Epoch(
        number=row.number,
        start_ms=row.start_ms,
        end_ms=end_ms,
        cause=row.cause,
        detail=row.detail,
        identity=_IDENTITY.decode(row.identity),
        process_start_seconds=row.process_start_seconds,
    )
