"""Roll-ups and windows: sums per 5-minute and hourly bucket, and a window answered from them and the raw rows.

Contains no arithmetic of samples: a bucket is `core.fold.fold` of its raw rows, an hour is `core.sums.add` of its
twelve buckets. What it must keep: a window gives the same sums as a fold of all its raw rows, whether a bucket was
rolled up already, marked as dirty, or neither. A bucket is replaced as a whole, with everything that is said about it,
in one transaction: a crash can neither lose nor double it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, insert, select, update

from opmon.core.fold import CONTEXT_MS, fold, fold_steps
from opmon.core.model import FIVE_MINUTES_MS, HOUR_MS, Ceiling, Row, SeriesKey, View
from opmon.core.sums import Sums, add
from opmon.store import encoding, samples, targets
from opmon.store.database import new_key
from opmon.store.schema import DIRTY, ROLL_UPS, TARGETS, VIEWS

PerEpoch = dict[int, Sums]
Kept = tuple[tuple[int, int], Sums]
"""((bucket, epoch), sums)"""


class Tier(IntEnum):
    """Where a piece of a window comes from; the roll-ups' tiers by their minutes."""

    RAW = 0
    FIVE_MINUTES = 5
    HOURLY = 60

    @property
    def bucket_ms(self) -> int:
        """The length of a bucket."""
        return self.value * 60_000


class Piece(NamedTuple):
    """A part of a window, all of it from one tier."""

    tier: Tier
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class Frontiers:
    """How far the roll-ups of a target reach, and since when each tier is kept; and what a roll-up depends on."""

    target: int
    rolled_until_ms: int
    raw_from_ms: int
    five_minutes_from_ms: int
    hourly_from_ms: int
    ceilings: tuple[Ceiling, ...]
    settles_after_ms: int

    @property
    def hours_until_ms(self) -> int:
        """The end of the last hour that is rolled up."""
        return self.rolled_until_ms - self.rolled_until_ms % HOUR_MS


def frontiers(connection: Connection, name: str) -> Frontiers:
    """The frontiers of a target. Raises NotFound."""
    record = targets.read(connection, name)
    row = connection.execute(select(TARGETS).where(TARGETS.c.name == name)).one()
    return Frontiers(
        target=row.id,
        rolled_until_ms=row.rolled_until_ms,
        raw_from_ms=row.raw_from_ms,
        five_minutes_from_ms=row.five_minutes_from_ms,
        hourly_from_ms=row.hourly_from_ms,
        ceilings=record.ceilings,
        settles_after_ms=record.stall_after_ms + 2 * record.pulse_interval_ms,
    )


# --- rolling up ---------------------------------------------------------------------------------------------------


def roll_up(connection: Connection, front: Frontiers, now_ms: int, limit: int) -> int:
    """Rolls up at most `limit` buckets of a target: dirty ones first, then those that have settled. How many it were.

    A bucket settles when `stall_after + 2 I` have passed since its end: until then a stall may be dated back into it.
    """
    until_ms = samples.bucket_of(now_ms - front.settles_after_ms)
    dirty = [bucket for bucket in sorted(dirty_buckets(connection, front.target)) if bucket < until_ms][:limit]
    fresh, reached_ms = _fresh_buckets(connection, front, until_ms, limit - len(dirty))
    views = _ensure_views(connection, front.target)
    for bucket in (*dirty, *fresh):
        _replace(connection, views, Tier.FIVE_MINUTES, bucket, _fold_bucket(connection, front, views, bucket))
    _roll_up_hours(connection, front, views, (*dirty, *fresh), reached_ms)
    if dirty:
        connection.execute(delete(DIRTY).where(DIRTY.c.target == front.target, DIRTY.c.bucket_ms.in_(dirty)))
    if reached_ms > front.rolled_until_ms:
        connection.execute(update(TARGETS).where(TARGETS.c.id == front.target).values(rolled_until_ms=reached_ms))
    return len(dirty) + len(fresh)


def is_due(connection: Connection, front: Frontiers, now_ms: int) -> bool:
    """Whether there may be something to roll up: asked first, so that idle targets cost no writing."""
    until_ms = samples.bucket_of(now_ms - front.settles_after_ms)
    return front.rolled_until_ms < until_ms or any(b < until_ms for b in dirty_buckets(connection, front.target))


def dirty_buckets(connection: Connection, target: int) -> set[int]:
    """Rolled-up buckets whose raw rows changed since."""
    return set(connection.execute(select(DIRTY.c.bucket_ms).where(DIRTY.c.target == target)).scalars())


def _fresh_buckets(connection: Connection, front: Frontiers, until_ms: int, limit: int) -> tuple[list[int], int]:
    """The next buckets that hold attempts, and how far that brings the frontier; stretches without any cost nothing."""
    position, fresh = front.rolled_until_ms, list[int]()
    while position < until_ms and len(fresh) < limit:
        stratum_ms = samples.first_stratum(connection, front.target, position)
        if stratum_ms is None or samples.bucket_of(stratum_ms) >= until_ms:
            return fresh, until_ms
        fresh.append(samples.bucket_of(stratum_ms))
        position = fresh[-1] + FIVE_MINUTES_MS
    return fresh, position


def _fold_bucket(
    connection: Connection, front: Frontiers, views: Mapping[int, View], bucket: int
) -> dict[int, PerEpoch]:
    """The sums of a bucket for every view. Views that show the same series share them."""
    rows = samples.read(connection, front.target, View(""), bucket, bucket + FIVE_MINUTES_MS)
    present = {key for row in rows for key in row.series}
    by_series: dict[frozenset[SeriesKey], PerEpoch] = {}
    sums: dict[int, PerEpoch] = {}
    for number, view in views.items():
        visible = frozenset(key for key in present if view.includes(key))
        if visible not in by_series:
            by_series[visible] = fold(rows, bucket, bucket + FIVE_MINUTES_MS, front.ceilings, view)
        sums[number] = by_series[visible]
    return sums


def _roll_up_hours(
    connection: Connection, front: Frontiers, views: Mapping[int, View], buckets: Iterable[int], reached_ms: int
) -> None:
    """Adds up the hours that the buckets lie in, and the one in which the frontier stood, as far as they are complete."""
    hours = {bucket - bucket % HOUR_MS for bucket in (*buckets, front.rolled_until_ms)}
    for hour in sorted(hours):
        if front.five_minutes_from_ms <= hour and hour + HOUR_MS <= reached_ms:
            piece = Piece(Tier.FIVE_MINUTES, hour, hour + HOUR_MS)
            _replace(
                connection,
                views,
                Tier.HOURLY,
                hour,
                {number: _added(_read(connection, front.target, number, piece)) for number in views},
            )


def _replace(
    connection: Connection, views: Mapping[int, View], tier: Tier, bucket: int, sums: Mapping[int, PerEpoch]
) -> None:
    """Puts a bucket's sums in the place of whatever was there. Equal sums of several views are kept once."""
    connection.execute(
        delete(ROLL_UPS).where(
            ROLL_UPS.c.view.in_(list(views)), ROLL_UPS.c.tier_minutes == tier, ROLL_UPS.c.bucket_ms == bucket
        )
    )
    parts = [(number, epoch, one) for number, per_epoch in sums.items() for epoch, one in per_epoch.items()]
    bounds = (family.bounds for _, _, one in parts for families in one.buckets.values() for family in families)
    ids = samples.number_bounds(connection, bounds)
    first: dict[tuple[int, bytes, tuple[int, int, int, int]], int] = {}
    rows = []
    for number, epoch, one in parts:
        payload, states = encoding.encode_sums(one, ids), _states(one)
        holder = first.setdefault((epoch, payload, states), number)
        rows.append(
            {
                "view": number,
                "tier_minutes": int(tier),
                "bucket_ms": bucket,
                "epoch": epoch,
                **dict(zip(("observed_ms", "stalled_ms", "invalid_ms", "down_ms"), states, strict=True)),
                "as_view": None if holder == number else holder,
                "sums": payload if holder == number else None,
            }
        )
    if rows:
        connection.execute(insert(ROLL_UPS), rows)


def _states(sums: Sums) -> tuple[int, int, int, int]:
    return sums.observed_ms, sums.stalled_ms, sums.invalid_ms, sums.down_ms


# --- views --------------------------------------------------------------------------------------------------------


def _kind(view: View) -> int | None:
    """0 the whole target, 1 one model, 2 one series; None: such a selection is not kept in roll-ups."""
    if view.engine_index is None:
        return 0 if view.model_name is None else 1
    return None if view.model_name is None else 2


def _ensure_views(connection: Connection, target: int) -> dict[int, View]:
    """The views of a target by number: itself, its models, its series; the whole target first."""
    keys = samples.series(connection, target).values()
    wanted = [View("")]
    wanted += [View("", model) for model in sorted({key.model_name for key in keys})]
    wanted += [View("", key.model_name, key.engine_index) for key in sorted(keys)]
    views = {}
    for view in wanted:
        number = view_number(connection, target, view)
        if number is None:
            names = {"model_name": view.model_name or "", "engine_index": view.engine_index or ""}
            number = new_key(connection, VIEWS, target=target, kind=_kind(view), **names)
        views[number] = view
    return views


def view_number(connection: Connection, target: int, view: View) -> int | None:
    """The number of a view; None where nothing of it was rolled up."""
    chosen = select(VIEWS.c.id).where(
        VIEWS.c.target == target,
        VIEWS.c.kind == _kind(view),
        VIEWS.c.model_name == (view.model_name or ""),
        VIEWS.c.engine_index == (view.engine_index or ""),
    )
    return None if _kind(view) is None else connection.execute(chosen).scalar()


# --- windows ------------------------------------------------------------------------------------------------------


def window_bounds(front: Frontiers, view: View, start_ms: int, end_ms: int) -> tuple[int, int]:
    """The window that can be answered: edges older than the raw rows widen to their buckets, older than the 5-minute
    buckets to their hours; what is older than everything is cut off. Selections without roll-ups begin where raw does.
    """
    if _kind(view) is None:
        start_ms = max(start_ms, front.raw_from_ms)
        return start_ms, max(end_ms, start_ms)
    start_ms = start_ms - start_ms % _grid_ms(front, start_ms)
    end_ms = end_ms + -end_ms % _grid_ms(front, end_ms)
    if end_ms > front.hourly_from_ms:
        start_ms = max(start_ms, front.hourly_from_ms)
    return start_ms, end_ms


def finest_step_ms(front: Frontiers, start_ms: int) -> int:
    """The shortest step by which a timeline from there on is exact."""
    return _grid_ms(front, start_ms)


def _grid_ms(front: Frontiers, at_ms: int) -> int:
    if at_ms < front.five_minutes_from_ms:
        return HOUR_MS
    return FIVE_MINUTES_MS if at_ms < front.raw_from_ms else 1


def plan(front: Frontiers, dirty: set[int], start_ms: int, end_ms: int, coarsest: Tier = Tier.HOURLY) -> list[Piece]:
    """Cuts a window into pieces: hours and 5-minute buckets that are rolled up and not dirty, raw rows for the rest.

    `coarsest` leaves out tiers, as far as finer ones are still kept.
    """
    pieces: list[Piece] = []
    position = start_ms
    while position < end_ms:
        piece = _next_piece(front, dirty, position, end_ms, coarsest)
        if pieces and pieces[-1].tier is piece.tier:
            pieces[-1] = Piece(piece.tier, pieces[-1].start_ms, piece.end_ms)
        else:
            pieces.append(piece)
        position = piece.end_ms
    return pieces


def _next_piece(front: Frontiers, dirty: set[int], position: int, end_ms: int, coarsest: Tier) -> Piece:
    bucket_end = samples.bucket_of(position) + FIVE_MINUTES_MS
    hour_end = position + HOUR_MS
    is_hour = position % HOUR_MS == 0 and hour_end <= min(end_ms, front.hours_until_ms)
    hourly_allowed = coarsest >= Tier.HOURLY or position < front.five_minutes_from_ms
    if is_hour and hourly_allowed and dirty.isdisjoint(range(position, hour_end, FIVE_MINUTES_MS)):
        return Piece(Tier.HOURLY, position, hour_end)
    is_bucket = position % FIVE_MINUTES_MS == 0 and bucket_end <= min(end_ms, front.rolled_until_ms)
    bucket_allowed = coarsest >= Tier.FIVE_MINUTES or position < front.raw_from_ms
    if is_bucket and bucket_allowed and position not in dirty:
        return Piece(Tier.FIVE_MINUTES, position, bucket_end)
    if position >= front.rolled_until_ms:
        return Piece(Tier.RAW, position, end_ms)
    return Piece(Tier.RAW, position, min(bucket_end, end_ms))


def window(connection: Connection, front: Frontiers, view: View, start_ms: int, end_ms: int) -> PerEpoch:
    """Exact sums of `[start_ms, end_ms)` (widened by `window_bounds`) per epoch; empty where nothing was attempted."""
    start_ms, end_ms = window_bounds(front, view, start_ms, end_ms)
    total: PerEpoch = {}
    for piece in _plan_for(connection, front, view, start_ms, end_ms, Tier.HOURLY):
        if piece.tier is Tier.RAW:
            rows = samples.read(connection, front.target, view, piece.start_ms, piece.end_ms)
            _add_all(total, fold(rows, piece.start_ms, piece.end_ms, front.ceilings, view))
        else:
            number = view_number(connection, front.target, view)
            _add_all(total, _added(_read(connection, front.target, number, piece)))
    return total


def _plan_for(
    connection: Connection, front: Frontiers, view: View, start_ms: int, end_ms: int, coarsest: Tier
) -> Sequence[Piece]:
    if _kind(view) is None:
        return [Piece(Tier.RAW, start_ms, end_ms)] if start_ms < end_ms else []
    return plan(front, dirty_buckets(connection, front.target), start_ms, end_ms, coarsest)


def _add_all(into: PerEpoch, more: Mapping[int, Sums]) -> None:
    for epoch, sums in more.items():
        add(into.setdefault(epoch, Sums()), sums)


def _added(kept: Iterable[Kept]) -> PerEpoch:
    """Buckets added up, per epoch."""
    total: PerEpoch = {}
    for (_, epoch), sums in kept:
        add(total.setdefault(epoch, Sums()), sums)
    return total


def _read(connection: Connection, target: int, number: int | None, piece: Piece) -> Iterator[Kept]:
    """The kept sums of a view in a piece, one at a time: a year of them need not be in memory together.

    A view that was not yet known when a bucket was rolled up has no row there. What its fold would have given are the
    failures of the target, and they stand in the row of the whole target.
    """
    found = set()
    for kept in _read_rows(connection, number, piece) if number is not None else ():
        found.add(kept[0])
        yield kept
    whole = view_number(connection, target, View(""))
    if whole is not None and number != whole:
        yield from (kept for kept in _read_failures(connection, whole, piece) if kept[0] not in found)


def _read_rows(connection: Connection, number: int, piece: Piece) -> Iterator[Kept]:
    other = ROLL_UPS.alias()
    same = and_(
        other.c.view == ROLL_UPS.c.as_view,
        other.c.tier_minutes == ROLL_UPS.c.tier_minutes,
        other.c.bucket_ms == ROLL_UPS.c.bucket_ms,
        other.c.epoch == ROLL_UPS.c.epoch,
    )
    columns = (
        ROLL_UPS.c[name] for name in ("bucket_ms", "epoch", "observed_ms", "stalled_ms", "invalid_ms", "down_ms")
    )
    chosen = (
        select(*columns, ROLL_UPS.c.sums, other.c.sums)
        .outerjoin(other, same)
        .where(
            ROLL_UPS.c.view == number,
            ROLL_UPS.c.tier_minutes == piece.tier,
            ROLL_UPS.c.bucket_ms >= piece.start_ms,
            ROLL_UPS.c.bucket_ms < piece.end_ms,
        )
        .order_by(ROLL_UPS.c.bucket_ms, ROLL_UPS.c.epoch)
    )
    bounds = samples.read_all_bounds(connection)
    for bucket, epoch, *states, own, shared in connection.execute(chosen):
        yield (bucket, epoch), encoding.decode_sums(shared if own is None else own, tuple(states), bounds)


def _read_failures(connection: Connection, whole: int, piece: Piece) -> Iterator[Kept]:
    chosen = select(ROLL_UPS.c.bucket_ms, ROLL_UPS.c.epoch, ROLL_UPS.c.invalid_ms, ROLL_UPS.c.down_ms).where(
        ROLL_UPS.c.view == whole,
        ROLL_UPS.c.tier_minutes == piece.tier,
        ROLL_UPS.c.bucket_ms >= piece.start_ms,
        ROLL_UPS.c.bucket_ms < piece.end_ms,
        ROLL_UPS.c.invalid_ms + ROLL_UPS.c.down_ms > 0,
    )
    for bucket, epoch, invalid_ms, down_ms in connection.execute(chosen):
        yield (bucket, epoch), Sums(invalid_ms=invalid_ms, down_ms=down_ms)


# --- timelines ----------------------------------------------------------------------------------------------------


def steps(start_ms: int, end_ms: int, step_ms: int) -> list[tuple[int, int]]:
    """The steps of a window, each `(start, end)`: they begin at multiples of `step_ms` and are clipped to the window."""
    first = start_ms - start_ms % step_ms
    return [(max(begin, start_ms), min(begin + step_ms, end_ms)) for begin in range(first, end_ms, step_ms)]


def timeline(
    connection: Connection, front: Frontiers, view: View, bounds: tuple[int, int], step_ms: int
) -> list[tuple[int, int, Sums]]:
    """`(start, length, sums)` of every step of the window, whatever its epochs.

    Where only buckets are left and the step is shorter or not a multiple of theirs (`finest_step_ms`), a bucket
    belongs to the step in which it starts.
    """
    grid = steps(*bounds, step_ms)
    sums = [Sums() for _ in grid]
    first = bounds[0] - bounds[0] % step_ms
    number = view_number(connection, front.target, view)
    for piece in _plan_for(connection, front, view, *bounds, _coarsest(step_ms)):
        if piece.tier is Tier.RAW:
            for at_ms, one in _raw_steps(connection, front, view, piece, step_ms):
                add(sums[(at_ms - first) // step_ms], one)
        else:
            for (bucket, _), one in _read(connection, front.target, number, piece):
                add(sums[(bucket - first) // step_ms], one)
    return [(begin, finish - begin, one) for (begin, finish), one in zip(grid, sums, strict=True)]


def _coarsest(step_ms: int) -> Tier:
    """The coarsest tier whose buckets never straddle two steps."""
    return next((tier for tier in (Tier.HOURLY, Tier.FIVE_MINUTES) if step_ms % tier.bucket_ms == 0), Tier.RAW)


def _raw_steps(
    connection: Connection, front: Frontiers, view: View, piece: Piece, step_ms: int
) -> Iterator[tuple[int, Sums]]:
    """`(instant, sums)` of the steps of a raw piece, an hour of rows in memory at a time."""
    for hour, hour_end in steps(piece.start_ms, piece.end_ms, HOUR_MS):
        rows = samples.read(connection, front.target, view, hour, hour_end)
        grid = steps(hour, hour_end, step_ms)
        for (begin, _), per_epoch in zip(grid, _fold_steps(front, view, rows, grid, step_ms), strict=True):
            for sums in per_epoch.values():
                yield begin, sums


def _fold_steps(
    front: Frontiers, view: View, rows: Sequence[Row], grid: Sequence[tuple[int, int]], step_ms: int
) -> Iterable[PerEpoch]:
    """In one pass where every stratum lies in one step; else step by step, each with its own context."""
    if all(step_ms % row.interval_ms == 0 for row in rows):
        return fold_steps(rows, grid, front.ceilings, view)
    strata = [row.stratum_ms for row in rows]
    return (
        fold(
            rows[_context_start(rows, bisect_left(strata, begin - CONTEXT_MS)) : bisect_left(strata, finish)],
            begin,
            finish,
            front.ceilings,
            view,
        )
        for begin, finish in grid
    )


def _context_start(rows: Sequence[Row], place: int) -> int:
    """From `place` back to the last row that shows anything, which the next one is paired with."""
    return next((earlier for earlier in range(place - 1, -1, -1) if rows[earlier].series), place)
