"""Raw rows: every attempt with its state, and what each series showed, as read.

Contains no sums and no judgement. A stratum is stored once: the first attempt stays, a second one (the clock stepped
back) is counted and dropped. What changes rows that are rolled up already says so in `dirty`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Select, and_, func, insert, select, update

from opmon.core.fold import CONTEXT_MS
from opmon.core.model import (
    FIVE_MINUTES_MS,
    MINUTE_MS,
    PULSE_COUNTERS,
    Lane,
    Row,
    SeriesKey,
    SeriesSample,
    State,
    View,
)
from opmon.core.states import Relabel, Step
from opmon.store import encoding, epochs
from opmon.store.database import new_key
from opmon.store.encoding import Bounds
from opmon.store.schema import ATTEMPTS, BOUNDS, DIRTY, FULL, SAMPLES, SERIES, TARGETS

# Append only: the places are in the database.
_STATES = (State.OBSERVED, State.STALLED, State.INVALID, State.DOWN, State.GAP)
_LANES = (Lane.PULSE, Lane.FULL)
_STATE_PLACES = {state: place for place, state in enumerate(_STATES)}
_LANE_PLACES = {lane: place for place, lane in enumerate(_LANES)}
GOOD_STATES = (_STATE_PLACES[State.OBSERVED], _STATE_PLACES[State.STALLED])


class Observed(Protocol):
    """An attempt with what the tracker made of it."""

    @property
    def step(self) -> Step:
        """The tracker's step."""
        ...


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of a batch. `duplicates`: strata that were there already; `too_old`: behind the raw retention."""

    stored: int = 0
    duplicates: int = 0
    too_old: int = 0


def append(connection: Connection, target: int, steps: Sequence[Step]) -> Appended:
    """Stores the rows of one target, its new epochs and its relabelled stretches."""
    frontiers = select(TARGETS.c.rolled_until_ms, TARGETS.c.raw_from_ms).where(TARGETS.c.id == target)
    rolled_until_ms, raw_from_ms = connection.execute(frontiers).one()
    kept, outcome = _sift(connection, target, [step.row for step in steps], raw_from_ms)
    _insert_attempts(connection, target, kept)
    _insert_samples(connection, target, kept)
    changed = [(row.stratum_ms, row.stratum_ms + row.interval_ms) for row in kept]
    for step in steps:
        for epoch in (step.new_epoch, step.learnt_epoch):
            if epoch is not None:
                epochs.save(connection, target, epoch)
        for relabel in step.relabels:
            _relabel(connection, target, relabel)
            changed.append((relabel.start_ms, relabel.end_ms))
    for start_ms, end_ms in _joined(changed):
        if start_ms < rolled_until_ms:
            mark_dirty(connection, target, start_ms, end_ms)
    return outcome


def read(
    connection: Connection, target: int, view: View, start_ms: int, end_ms: int, *, context: bool = True
) -> list[Row]:
    """The rows of `[start_ms, end_ms)` as the view sees them, in order; preceded by what a fold of them needs.

    That context is every row of CONTEXT_MS before the start, and the last good row of each series before that.
    """
    keys = series(connection, target, view)
    if not context:
        return _load(connection, target, keys, start_ms, end_ms)
    begin_ms = start_ms - CONTEXT_MS
    early = sorted(last_good(connection, target, keys, begin_ms))
    rows = [row for at_ms in early for row in _load(connection, target, keys, at_ms, at_ms + 1)]
    return [*rows, *_load(connection, target, keys, begin_ms, end_ms)]


def series(connection: Connection, target: int, view: View | None = None) -> dict[int, SeriesKey]:
    """The series of a target, or of a view of it, by number."""
    chosen = select(SERIES.c.id, SERIES.c.model_name, SERIES.c.engine_index).where(SERIES.c.target == target)
    keys = {
        number: SeriesKey(model, engine) for number, model, engine in connection.execute(chosen.order_by(SERIES.c.id))
    }
    return {number: key for number, key in keys.items() if view is None or view.includes(key)}


def last_good(connection: Connection, target: int, keys: Iterable[int], before_ms: int) -> set[int]:
    """For each series, the last stratum before an instant that is observed or stalled and shows the series."""
    strata = {connection.execute(_last_good(target, number, before_ms)).scalar() for number in keys}
    return {stratum_ms for stratum_ms in strata if stratum_ms is not None}


def first_stratum(connection: Connection, target: int, from_ms: int) -> int | None:
    """The first stratum at or after an instant that was attempted."""
    chosen = select(func.min(ATTEMPTS.c.stratum_ms)).where(
        ATTEMPTS.c.target == target, ATTEMPTS.c.stratum_ms >= from_ms
    )
    return connection.execute(chosen).scalar()


def last_end(connection: Connection, target: int) -> int | None:
    """The end of the last stratum that was attempted; None where there is none."""
    ends = select(ATTEMPTS.c.stratum_ms + ATTEMPTS.c.interval_ms).where(ATTEMPTS.c.target == target)
    return connection.execute(ends.order_by(ATTEMPTS.c.stratum_ms.desc()).limit(1)).scalar()


def recent(connection: Connection, target: int, stall_after_ms: int) -> list[Row]:
    """The rows from which a tracker goes on: up to the last good one, back to the last full scrape, over
    `stall_after_ms` and over all of a stalled stretch at the end. Empty without a good row."""
    everything = series(connection, target)
    good = last_good(connection, target, everything, 1 << 62)
    if not good:
        return []
    end_ms = max(good)
    marks = [
        _last_attempt(connection, target, ATTEMPTS.c.lane == _LANE_PLACES[Lane.FULL], end_ms),
        _last_attempt(connection, target, ATTEMPTS.c.state == _STATE_PLACES[State.OBSERVED], end_ms),
    ]
    start_ms = min([end_ms - stall_after_ms - MINUTE_MS, *(mark for mark in marks if mark is not None)])
    return _load(connection, target, everything, start_ms, end_ms + 1)


def mark_dirty(connection: Connection, target: int, start_ms: int, end_ms: int) -> None:
    """Marks the rolled-up buckets that a change of the rows of `[start_ms, end_ms)` can reach.

    It reaches as far as the context of a fold does, and to the next scrape of each series, which is paired with them.
    Buckets whose raw rows are gone cannot be computed again and stay as they are, and there are none before the first
    attempt: a change may be said to hold since the beginning of time.
    """
    chosen = select(TARGETS.c.rolled_until_ms, TARGETS.c.raw_from_ms).where(TARGETS.c.id == target)
    rolled_until_ms, raw_from_ms = connection.execute(chosen).one()
    first_ms = first_stratum(connection, target, raw_from_ms)
    if first_ms is None:
        return
    reached = set(range(bucket_of(max(start_ms, first_ms)), min(end_ms + CONTEXT_MS, rolled_until_ms), FIVE_MINUTES_MS))
    reached |= {bucket_of(stratum_ms) for stratum_ms in _next_samples(connection, target, end_ms)}
    reached = {bucket for bucket in reached if raw_from_ms <= bucket < rolled_until_ms}
    reached -= set(connection.execute(select(DIRTY.c.bucket_ms).where(DIRTY.c.target == target)).scalars())
    if reached:
        connection.execute(insert(DIRTY), [{"target": target, "bucket_ms": bucket} for bucket in sorted(reached)])


def bucket_of(at_ms: int) -> int:
    """The start of the 5-minute bucket that holds an instant."""
    return at_ms - at_ms % FIVE_MINUTES_MS


def read_all_bounds(connection: Connection) -> dict[int, Bounds]:
    """Every set of bounds, by number. There are a handful per engine version."""
    return {
        number: encoding.read_bounds(text) for number, text in connection.execute(select(BOUNDS.c.id, BOUNDS.c.bounds))
    }


def number_bounds(connection: Connection, wanted: Iterable[Bounds]) -> dict[Bounds, int]:
    """The numbers of sets of bounds; new ones are added."""
    numbers = {}
    for bounds in set(wanted):
        text = encoding.bounds_text(bounds)
        found = connection.execute(select(BOUNDS.c.id).where(BOUNDS.c.bounds == text)).scalar()
        if found is None:
            found = new_key(connection, BOUNDS, bounds=text)
        numbers[bounds] = int(found)
    return numbers


# --- writing ------------------------------------------------------------------------------------------------------


def _sift(connection: Connection, target: int, rows: Sequence[Row], raw_from_ms: int) -> tuple[list[Row], Appended]:
    """The rows that can be stored: the first of each stratum, and none from behind the raw retention."""
    if not rows:
        return [], Appended()
    strata = [row.stratum_ms for row in rows]
    there = select(ATTEMPTS.c.stratum_ms).where(
        ATTEMPTS.c.target == target, ATTEMPTS.c.stratum_ms >= min(strata), ATTEMPTS.c.stratum_ms <= max(strata)
    )
    seen = set(connection.execute(there).scalars())
    kept: list[Row] = []
    too_old = 0
    for row in rows:
        if row.stratum_ms < raw_from_ms:
            too_old += 1
        elif row.stratum_ms not in seen:
            seen.add(row.stratum_ms)
            kept.append(row)
    return kept, Appended(len(kept), len(rows) - len(kept) - too_old, too_old)


def _joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches that a fold would see together as one: a batch of rows from the past is marked once, not row by row."""
    joined: list[tuple[int, int]] = []
    for start_ms, end_ms in sorted(stretches):
        if joined and start_ms <= joined[-1][1] + CONTEXT_MS:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_ms))
        else:
            joined.append((start_ms, end_ms))
    return joined


def _insert_attempts(connection: Connection, target: int, rows: Sequence[Row]) -> None:
    values = [
        {
            "target": target,
            "stratum_ms": row.stratum_ms,
            "interval_ms": row.interval_ms,
            "offset_ms": row.at_ms - row.stratum_ms,
            "took_ms": row.took_ms,
            "lane": _LANE_PLACES[row.lane],
            "state": _STATE_PLACES[row.state],
            "epoch": row.epoch,
            "kind": row.kind,
        }
        for row in rows
    ]
    if values:
        connection.execute(insert(ATTEMPTS), values)


def _insert_samples(connection: Connection, target: int, rows: Sequence[Row]) -> None:
    numbers = _number_series(connection, target, {key for row in rows for key in row.series})
    parts = [(numbers[key], row.stratum_ms, sample) for row in rows for key, sample in row.series.items()]
    if parts:
        connection.execute(insert(SAMPLES), [_sample_values(*part) for part in parts])
    ids = number_bounds(connection, (b.bounds for _, _, sample in parts for b in sample.buckets.values()))
    full = [values for part in parts if (values := _full_values(*part, ids))]
    if full:
        connection.execute(insert(FULL), full)


def _number_series(connection: Connection, target: int, wanted: set[SeriesKey]) -> dict[SeriesKey, int]:
    """The numbers of series; new ones are added."""
    if not wanted:
        return {}
    numbers = {key: number for number, key in series(connection, target).items()}
    for key in sorted(wanted - numbers.keys()):
        values = {"target": target, "model_name": key.model_name, "engine_index": key.engine_index}
        numbers[key] = new_key(connection, SERIES, **values)
    return numbers


def _sample_values(number: int, stratum_ms: int, sample: SeriesSample) -> dict[str, Any]:
    return {
        "series": number,
        "stratum_ms": stratum_ms,
        "running": sample.running,
        "waiting": sample.waiting,
        "kv_usage_ratio": sample.kv_usage_ratio,
        **{name: sample.counters.get(name) for name in PULSE_COUNTERS},
    }


def _full_values(
    number: int, stratum_ms: int, sample: SeriesSample, ids: Mapping[Bounds, int]
) -> dict[str, Any] | None:
    """What the columns cannot hold; None where there is nothing of it."""
    rest = {name: value for name, value in sample.counters.items() if name not in PULSE_COUNTERS}
    if not rest and not sample.buckets:
        return None
    payload = encoding.encode_full(rest, sample.buckets, ids)
    return {"series": number, "stratum_ms": stratum_ms, "payload": payload}


def _relabel(connection: Connection, target: int, relabel: Relabel) -> None:
    """Only good strata change their state: one that failed stays failed, whatever the stretch around it was."""
    connection.execute(
        update(ATTEMPTS)
        .where(
            ATTEMPTS.c.target == target,
            ATTEMPTS.c.stratum_ms >= relabel.start_ms,
            ATTEMPTS.c.stratum_ms < relabel.end_ms,
            ATTEMPTS.c.state.in_(GOOD_STATES),
        )
        .values(state=_STATE_PLACES[relabel.state], kind=relabel.kind)
    )


def _next_samples(connection: Connection, target: int, from_ms: int) -> Iterator[int]:
    for number in series(connection, target):
        chosen = select(func.min(SAMPLES.c.stratum_ms)).where(
            SAMPLES.c.series == number, SAMPLES.c.stratum_ms >= from_ms
        )
        found = connection.execute(chosen).scalar()
        if found is not None:
            yield found


# --- reading ------------------------------------------------------------------------------------------------------


def _last_attempt(connection: Connection, target: int, condition: ColumnElement[bool], until_ms: int) -> int | None:
    """The last good stratum up to an instant that meets the condition."""
    chosen = select(func.max(ATTEMPTS.c.stratum_ms)).where(
        ATTEMPTS.c.target == target,
        ATTEMPTS.c.stratum_ms <= until_ms,
        ATTEMPTS.c.state.in_(GOOD_STATES),
        condition,
    )
    return connection.execute(chosen).scalar()


def _last_good(target: int, number: int, before_ms: int) -> Select[int]:
    return (
        select(SAMPLES.c.stratum_ms)
        .join(ATTEMPTS, and_(ATTEMPTS.c.target == target, ATTEMPTS.c.stratum_ms == SAMPLES.c.stratum_ms))
        .where(SAMPLES.c.series == number, SAMPLES.c.stratum_ms < before_ms, ATTEMPTS.c.state.in_(GOOD_STATES))
        .order_by(SAMPLES.c.stratum_ms.desc())
        .limit(1)
    )


def _load(connection: Connection, target: int, keys: Mapping[int, SeriesKey], start_ms: int, end_ms: int) -> list[Row]:
    chosen = (
        select(*(column for column in ATTEMPTS.c if column.name != "target"))
        .where(ATTEMPTS.c.target == target, ATTEMPTS.c.stratum_ms >= start_ms, ATTEMPTS.c.stratum_ms < end_ms)
        .order_by(ATTEMPTS.c.stratum_ms)
    )
    rows = {
        stratum_ms: Row(
            stratum_ms, interval_ms, stratum_ms + offset_ms, _LANES[lane], _STATES[state], epoch, {}, kind, took_ms
        )
        for stratum_ms, interval_ms, offset_ms, took_ms, lane, state, epoch, kind in connection.execute(chosen)
    }
    for number, key in keys.items():
        _load_series(connection, number, key, rows, start_ms, end_ms)
    return list(rows.values())


def _load_series(
    connection: Connection, number: int, key: SeriesKey, rows: Mapping[int, Row], start_ms: int, end_ms: int
) -> None:
    """Puts one series into the rows."""
    chosen = select(*(column for column in SAMPLES.c if column.name != "series")).where(
        SAMPLES.c.series == number, SAMPLES.c.stratum_ms >= start_ms, SAMPLES.c.stratum_ms < end_ms
    )
    for stratum_ms, running, waiting, kv_usage_ratio, *values in connection.execute(chosen):
        counters = {name: value for name, value in zip(PULSE_COUNTERS, values, strict=True) if value is not None}
        rows[stratum_ms].series[key] = SeriesSample(running, waiting, kv_usage_ratio, counters)
    full = select(FULL.c.stratum_ms, FULL.c.payload).where(
        FULL.c.series == number, FULL.c.stratum_ms >= start_ms, FULL.c.stratum_ms < end_ms
    )
    payloads = connection.execute(full).all()
    bounds = read_all_bounds(connection) if payloads else {}
    for stratum_ms, payload in payloads:
        encoding.decode_full(payload, rows[stratum_ms].series[key], bounds)
