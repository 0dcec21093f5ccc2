"""The targets: what every surface reads of a server besides its samples.

Contains no samples and no scraping. A removed target keeps its rows until retention takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select, update

from opmon.core.model import Ceiling, Form, Health, State, TargetRecord
from opmon.errors import NotFound
from opmon.store.database import new_key
from opmon.store.schema import TARGETS

_STRINGS = msgspec.json.Decoder(tuple[str, ...])
_LABELS = msgspec.json.Decoder(dict[str, str])
_SHARES = msgspec.json.Decoder(dict[str, float])
_CEILINGS = msgspec.json.Decoder(tuple[Ceiling, ...])


def save(connection: Connection, record: TargetRecord) -> int:
    """Inserts or replaces what is kept of a target; its id. The first scrape stays the earliest that was ever said:
    whoever writes does not know of all who wrote before."""
    values = _values(record)
    chosen = select(TARGETS.c.id, TARGETS.c.first_scrape_ms).where(TARGETS.c.name == record.name)
    found = connection.execute(chosen).one_or_none()
    if found is not None:
        first_scrapes = [at_ms for at_ms in (found.first_scrape_ms, record.first_scrape_ms) if at_ms is not None]
        values["first_scrape_ms"] = min(first_scrapes, default=None)
        connection.execute(update(TARGETS).where(TARGETS.c.id == found.id).values(**values))
        return int(found.id)
    frontiers = dict.fromkeys(("rolled_until_ms", "raw_from_ms", "five_minutes_from_ms", "hourly_from_ms"), 0)
    return new_key(connection, TARGETS, **values, **frontiers)


def remove(connection: Connection, name: str, at_ms: int) -> None:
    """Marks a target as removed. Raises NotFound."""
    connection.execute(update(TARGETS).where(TARGETS.c.id == target_id(connection, name)).values(removed_ms=at_ms))


def read_all(connection: Connection, *, removed: bool = False) -> Sequence[TargetRecord]:
    """The targets by name; with `removed`, those too that are watched no more."""
    chosen = select(TARGETS).order_by(TARGETS.c.name)
    if not removed:
        chosen = chosen.where(TARGETS.c.removed_ms.is_(None))
    return [_record(row) for row in connection.execute(chosen)]


def find(connection: Connection, name: str) -> TargetRecord | None:
    """One target, removed or not; None where there is none of that name."""
    row = connection.execute(select(TARGETS).where(TARGETS.c.name == name)).one_or_none()
    return None if row is None else _record(row)


def read(connection: Connection, name: str) -> TargetRecord:
    """One target, removed or not. Raises NotFound naming those that exist."""
    record = find(connection, name)
    if record is None:
        raise _not_found(connection, name)
    return record


def target_id(connection: Connection, name: str) -> int:
    """The number of a target. Raises NotFound naming those that exist."""
    found = connection.execute(select(TARGETS.c.id).where(TARGETS.c.name == name)).scalar()
    if found is None:
        raise _not_found(connection, name)
    return int(found)


def _not_found(connection: Connection, name: str) -> NotFound:
    names = ", ".join(connection.execute(select(TARGETS.c.name).order_by(TARGETS.c.name)).scalars()) or "none"
    return NotFound(f"there is no target {name!r}; there are: {names}")


def _values(record: TargetRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "url": record.url,
        "job": record.job,
        "labels": _json(dict(record.labels)),
        "engine": record.engine,
        "version": record.version,
        "models": _json(record.models),
        "engine_indexes": _json(record.engine_indexes),
        "health": record.health.value,
        "state": record.state.value,
        "kind": record.kind,
        "last_error": record.last_error,
        "last_scrape_ms": record.last_scrape_ms,
        "last_took_ms": record.last_took_ms,
        "last_size_bytes": record.last_size_bytes,
        "pulse_interval_ms": record.pulse_interval_ms,
        "full_interval_ms": record.full_interval_ms,
        "stall_after_ms": record.stall_after_ms,
        "form": record.form.value,
        "missing": _json(record.missing),
        "content_mix": _json(dict(record.content_mix)),
        "ceilings": _json(record.ceilings),
        "kv_cache_max_concurrency": record.kv_cache_max_concurrency,
        "facts": _json(dict(record.facts)),
        "first_scrape_ms": record.first_scrape_ms,
        "removed_ms": record.removed_ms,
    }


def _record(row: Row[Any]) -> TargetRecord:
    return TargetRecord(
        name=row.name,
        url=row.url,
        job=row.job,
        labels=_LABELS.decode(row.labels),
        engine=row.engine,
        version=row.version,
        models=_STRINGS.decode(row.models),
        engine_indexes=_STRINGS.decode(row.engine_indexes),
        health=Health(row.health),
        state=State(row.state),
        kind=row.kind,
        last_error=row.last_error,
        last_scrape_ms=row.last_scrape_ms,
        last_took_ms=row.last_took_ms,
        last_size_bytes=row.last_size_bytes,
        pulse_interval_ms=row.pulse_interval_ms,
        full_interval_ms=row.full_interval_ms,
        stall_after_ms=row.stall_after_ms,
        form=Form(row.form),
        missing=_STRINGS.decode(row.missing),
        content_mix=_SHARES.decode(row.content_mix),
        ceilings=_CEILINGS.decode(row.ceilings),
        kv_cache_max_concurrency=row.kv_cache_max_concurrency,
        facts=_LABELS.decode(row.facts),
        first_scrape_ms=row.first_scrape_ms,
        removed_ms=row.removed_ms,
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
