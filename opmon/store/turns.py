"""Turns that clients report: their rows, their bounds, and exact sums over a window.

Contains no judgement. Bounded three ways: turns of a target a minute, different clients of a target, and turns of a
target in all (`opmon.store.retention` deletes the oldest beyond).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, select

from opmon.core.client_turns import ClientTurn, TurnSums, microseconds, prompt_class
from opmon.core.model import MINUTE_MS
from opmon.errors import NotFound, TooMany
from opmon.store import targets
from opmon.store.database import new_key
from opmon.store.schema import CLIENTS, TARGETS, TURNS

MOST_A_MINUTE = 120
MOST_CLIENTS = 200
MOST_TURNS = 500_000


def save(connection: Connection, turn: ClientTurn) -> None:
    """Stores a turn. Raises NotFound for a target that is not watched, TooMany beyond the bounds."""
    target = _watched(connection, turn.target)
    recent = (
        select(func.count())
        .select_from(TURNS.join(CLIENTS))
        .where(CLIENTS.c.target == target, TURNS.c.at_ms > turn.at_ms - MINUTE_MS)
    )
    if connection.execute(recent).scalar_one() >= MOST_A_MINUTE:
        message = (
            f"{MOST_A_MINUTE} turns of target {turn.target!r} were reported within the last minute, and more are not"
            " kept: report a random part of them"
        )
        raise TooMany(message, retry_after_seconds=MINUTE_MS // 1000)
    client = _client(connection, target, turn)
    last = select(func.max(TURNS.c.place)).where(TURNS.c.client == client, TURNS.c.at_ms == turn.at_ms)
    place = connection.execute(last).scalar()
    connection.execute(
        insert(TURNS).values(
            client=client,
            at_ms=turn.at_ms,
            place=0 if place is None else place + 1,
            prompt_class=prompt_class(turn.prompt_tokens),
            ttft_us=microseconds(turn.ttft_seconds),
            decode_us=microseconds(turn.decode_seconds),
            output_tokens=turn.output_tokens,
            prompt_tokens=turn.prompt_tokens,
            typed_tokens=turn.typed_tokens,
        )
    )


def sums(
    connection: Connection, target: str, start_ms: int, end_ms: int, model: str | None = None
) -> Sequence[TurnSums]:
    """Exact sums over the turns received in `[start_ms, end_ms)`, by client, model and class of prompt length."""
    is_whole = and_(TURNS.c.decode_us == 0, TURNS.c.output_tokens > 1)
    is_typed = TURNS.c.typed_tokens.is_not(None)
    chosen = (
        select(
            CLIENTS.c.model_name,
            CLIENTS.c.client,
            func.count(),
            *(func.sum(TURNS.c[name]) for name in ("ttft_us", "decode_us", "output_tokens", "prompt_tokens")),
            func.count(TURNS.c.typed_tokens),
            func.coalesce(func.sum(TURNS.c.typed_tokens), 0),
            _sum_where(is_typed, TURNS.c.prompt_tokens),
            _sum_where(is_whole, 1),
            func.sum(TURNS.c.ttft_us) - _sum_where(is_whole, TURNS.c.ttft_us),
            func.min(TURNS.c.at_ms),
            func.max(TURNS.c.at_ms),
        )
        .select_from(TURNS.join(CLIENTS).join(TARGETS, CLIENTS.c.target == TARGETS.c.id))
        .where(TARGETS.c.name == target, TURNS.c.at_ms >= start_ms, TURNS.c.at_ms < end_ms)
        .group_by(CLIENTS.c.id, CLIENTS.c.model_name, CLIENTS.c.client, TURNS.c.prompt_class)
        .order_by(CLIENTS.c.model_name, CLIENTS.c.client, TURNS.c.prompt_class)
    )
    if model is not None:
        chosen = chosen.where(CLIENTS.c.model_name == model)
    return [_sums(target, row) for row in connection.execute(chosen)]


def delete_batch(connection: Connection, target: int, before_ms: int, rows: int) -> int:
    """Deletes up to `rows` turns of a target that are older than `before_ms`, or more than are kept; how many it were.
    A client without turns goes too."""
    own = select(CLIENTS.c.id).where(CLIENTS.c.target == target)
    newest = select(TURNS.c.at_ms).where(TURNS.c.client.in_(own)).order_by(TURNS.c.at_ms.desc())
    beyond = connection.execute(newest.offset(MOST_TURNS).limit(1)).scalar()
    limit_ms = before_ms if beyond is None else max(before_ms, beyond + 1)
    oldest = (
        select(TURNS.c.client, TURNS.c.at_ms)
        .where(TURNS.c.client.in_(own), TURNS.c.at_ms < limit_ms)
        .order_by(TURNS.c.at_ms)
        .limit(rows)
    )
    found = connection.execute(oldest).all()
    if not found:
        return 0
    ids = {client for client, _ in found}
    until_ms = found[-1].at_ms
    deleted = connection.execute(delete(TURNS).where(TURNS.c.client.in_(ids), TURNS.c.at_ms <= until_ms)).rowcount
    has_turns = select(TURNS.c.at_ms).where(TURNS.c.client == CLIENTS.c.id).exists()
    connection.execute(delete(CLIENTS).where(CLIENTS.c.id.in_(ids), ~has_turns))
    return deleted


def _watched(connection: Connection, name: str) -> int:
    found = connection.execute(
        select(TARGETS.c.id).where(TARGETS.c.name == name, TARGETS.c.removed_ms.is_(None))
    ).scalar()
    if found is None:
        there = ", ".join(one.name for one in targets.read_all(connection)) or "none"
        message = f"no target is called {name!r}; there are: {there}"
        raise NotFound(message)
    return int(found)


def _client(connection: Connection, target: int, turn: ClientTurn) -> int:
    """The number of a client, which is made if it is new."""
    own = select(CLIENTS.c.id).where(CLIENTS.c.target == target)
    known = own.where(CLIENTS.c.model_name == turn.model, CLIENTS.c.client == turn.client)
    if (found := connection.execute(known).scalar()) is not None:
        return int(found)
    if connection.execute(select(func.count()).select_from(own.subquery())).scalar_one() >= MOST_CLIENTS:
        message = (
            f"target {turn.target!r} has {MOST_CLIENTS} different clients and models already: report turns under a name"
            " that stays the same from turn to turn"
        )
        raise TooMany(message)
    return new_key(connection, CLIENTS, target=target, model_name=turn.model, client=turn.client)


def _sum_where(condition: ColumnElement[bool], value: Any) -> ColumnElement[Any]:
    return func.sum(case((condition, value), else_=0))


def _sums(target: str, row: Sequence[Any]) -> TurnSums:
    model, client, *figures = row
    # PostgreSQL adds integers up to a decimal.
    return TurnSums(target, model, client, *(int(one) for one in figures))
