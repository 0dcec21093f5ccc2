"""What is deleted when, in small batches; and how large a database will become.

Contains no clock: now is an argument. Raw rows that are not rolled up, or that a dirty bucket waits for, are never
deleted, and neither are the rows that a fold of the first kept bucket needs as its context.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Table, delete, select, update

from opmon.core.fold import CONTEXT_MS
from opmon.core.model import FIVE_MINUTES_MS, HOUR_MS
from opmon.store import rollups, samples, turns
from opmon.store.rollups import Frontiers, Tier
from opmon.store.schema import ATTEMPTS, FULL, ROLL_UPS, SAMPLES, TARGETS, VIEWS

BATCH_ROWS = 5_000
DAY_MS = 24 * HOUR_MS

# Bytes on disk for a row, measured with tests/performance/bench_store.py on SQLite; a roll-up with its aliases.
ATTEMPT_BYTES = 28
SAMPLE_BYTES = 80
FULL_BYTES = 520
ROLL_UP_BYTES = 850


@dataclass(frozen=True, slots=True)
class Retention:
    """How long each tier is kept; turns that clients report, as long as five-minute roll-ups."""

    raw_ms: int = 2 * DAY_MS
    five_minutes_ms: int = 40 * DAY_MS
    hourly_ms: int = 400 * DAY_MS


def limits(connection: Connection, front: Frontiers, now_ms: int, retention: Retention) -> Frontiers:
    """Since when each tier of a target is to be kept. A finer tier never outlives the need of the coarser ones."""
    dirty = rollups.dirty_buckets(connection, front.target)
    needed = min([front.rolled_until_ms, *dirty])
    raw = max(samples.bucket_of(min(now_ms - retention.raw_ms, needed)), front.raw_from_ms)
    five_minutes = min(now_ms - max(retention.five_minutes_ms, retention.raw_ms), raw)
    hourly = min(now_ms - max(retention.hourly_ms, retention.five_minutes_ms, retention.raw_ms), five_minutes)
    return Frontiers(
        target=front.target,
        rolled_until_ms=front.rolled_until_ms,
        raw_from_ms=raw,
        five_minutes_from_ms=max(_hour_of(five_minutes), front.five_minutes_from_ms),
        hourly_from_ms=max(_hour_of(hourly), front.hourly_from_ms),
        ceilings=front.ceilings,
        settles_after_ms=front.settles_after_ms,
    )


def advance(connection: Connection, front: Frontiers) -> None:
    """Notes the limits first, in their own transaction: from then on nobody reads what is about to go."""
    connection.execute(
        update(TARGETS)
        .where(TARGETS.c.id == front.target)
        .values(
            raw_from_ms=front.raw_from_ms,
            five_minutes_from_ms=front.five_minutes_from_ms,
            hourly_from_ms=front.hourly_from_ms,
        )
    )


def delete_batch(connection: Connection, front: Frontiers, rows: int = BATCH_ROWS) -> int:
    """Deletes about `rows` rows at most that lie behind the limits; how many it were. 0 when nothing is left."""
    return (
        _delete_raw(connection, front, rows)
        or _delete_rolled_up(connection, front, rows)
        or turns.delete_batch(connection, front.target, front.five_minutes_from_ms, rows)
    )


def forecast_bytes(
    *,
    pulse_interval_ms: int = 1_000,
    full_interval_ms: int = 30_000,
    series: int = 1,
    retention: Retention | None = None,
) -> int:
    """About how many bytes one target comes to take, once the oldest rows are as old as they get."""
    kept = retention or Retention()
    pulses = kept.raw_ms / pulse_interval_ms
    fulls = kept.raw_ms / full_interval_ms
    views = 1 if series == 1 else 2 + series
    buckets = kept.five_minutes_ms / FIVE_MINUTES_MS + kept.hourly_ms / HOUR_MS
    raw = pulses * (ATTEMPT_BYTES + series * SAMPLE_BYTES) + fulls * series * FULL_BYTES
    return round(raw + buckets * views * ROLL_UP_BYTES)


def _delete_raw(connection: Connection, front: Frontiers, rows: int) -> int:
    """The context of the first kept bucket stays: the rows just before it, and the last good one of each series."""
    limit_ms = front.raw_from_ms - CONTEXT_MS
    keys = samples.series(connection, front.target)
    kept = samples.last_good(connection, front.target, keys, limit_ms)
    behind = (ATTEMPTS.c.target == front.target, ATTEMPTS.c.stratum_ms < limit_ms, ATTEMPTS.c.stratum_ms.not_in(kept))
    oldest = select(ATTEMPTS.c.stratum_ms).where(*behind).order_by(ATTEMPTS.c.stratum_ms).limit(rows)
    strata = connection.execute(oldest).scalars().all()
    if not strata:
        return 0
    deleted = 0
    tables: list[tuple[Table, str, int]] = [(table, "series", number) for number in keys for table in (FULL, SAMPLES)]
    for table, owner, number in [*tables, (ATTEMPTS, "target", front.target)]:
        stratum = table.c.stratum_ms
        chosen = (table.c[owner] == number, stratum <= strata[-1], stratum.not_in(kept))
        deleted += connection.execute(delete(table).where(*chosen)).rowcount
    return deleted


def _delete_rolled_up(connection: Connection, front: Frontiers, rows: int) -> int:
    views = (
        connection.execute(select(VIEWS.c.id).where(VIEWS.c.target == front.target).order_by(VIEWS.c.id))
        .scalars()
        .all()
    )
    for tier, limit_ms in ((Tier.FIVE_MINUTES, front.five_minutes_from_ms), (Tier.HOURLY, front.hourly_from_ms)):
        oldest = (
            (
                select(ROLL_UPS.c.bucket_ms)
                .where(ROLL_UPS.c.view == views[0], ROLL_UPS.c.tier_minutes == tier, ROLL_UPS.c.bucket_ms < limit_ms)
                .order_by(ROLL_UPS.c.bucket_ms)
                .limit(max(rows // len(views), 1))
            )
            if views
            else None
        )
        buckets = connection.execute(oldest).scalars().all() if oldest is not None else ()
        if buckets:
            chosen = (ROLL_UPS.c.view.in_(views), ROLL_UPS.c.tier_minutes == tier, ROLL_UPS.c.bucket_ms <= buckets[-1])
            return connection.execute(delete(ROLL_UPS).where(*chosen)).rowcount
    return 0


def _hour_of(at_ms: int) -> int:
    return at_ms - at_ms % HOUR_MS
