"""Turns of clients are stored, summed exactly, bounded, and deleted with the rest; the same on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from opmon.core.client_turns import ClientTurn, TurnSums, joined
from opmon.core.model import HOUR_MS, MINUTE_MS
from opmon.errors import NotFound, TooMany
from opmon.store import Store, turns
from opmon.store.database import Database
from opmon.store.retention import Retention
from tests.store.history import RECORD, START_MS

TURN = ClientTurn("one", "alpha", "editor", 1.25, 4.5, 300, 8_112, 20, START_MS)
KEEP = Retention(raw_ms=HOUR_MS, five_minutes_ms=3 * HOUR_MS)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("postgres"))])
def either(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store that watches target `one`."""
    if request.param == "sqlite":
        store = request.getfixturevalue("store")
        store.save_target(RECORD)
        yield store
        return
    url = request.getfixturevalue("postgres_url")
    with Database.open(url, read_only=False, create=True) as database, database.exclusive() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with Database.open(url, read_only=False, create=True) as database:
        server = Store(database)
        server.save_target(RECORD)
        yield server


def test_sums_are_exact_by_client_model_and_length_and_within_the_window(either: Store) -> None:
    either.report_turn(TURN)
    either.report_turn(replace(TURN, ttft_seconds=0.75, decode_seconds=0.5, prompt_tokens=8_200, typed_tokens=None))
    either.report_turn(replace(TURN, decode_seconds=0.0, at_ms=START_MS + 1))
    either.report_turn(replace(TURN, client="direct", prompt_tokens=40, typed_tokens=40))
    either.report_turn(replace(TURN, model="beta", at_ms=START_MS + 10))
    found = either.turn_sums("one", START_MS, START_MS + 2)
    typed = TurnSums(
        "one", "alpha", "direct", 1, 1_250_000, 4_500_000, 300, 40, 1, 40, 40, 0, 1_250_000, START_MS, START_MS
    )
    # 8,112 and 8,200 tokens are of two classes.
    editor = TurnSums(
        "one",
        "alpha",
        "editor",
        3,
        3_250_000,
        5_000_000,
        900,
        24_424,
        2,
        40,
        16_224,
        1,
        2_000_000,
        START_MS,
        START_MS + 1,
    )
    assert [typed, joined(one for one in found if one.client == "editor")] == [found[0], editor]
    assert {"direct", "editor"} == {one.client for one in found}
    assert ["beta"] == [one.model for one in either.turn_sums("one", START_MS, START_MS + 60, "beta")]
    assert [] == list(either.turn_sums("one", START_MS + 11, START_MS + 60))


def test_turns_of_one_millisecond_are_all_kept(either: Store) -> None:
    for _ in range(3):
        either.report_turn(TURN)
    assert [3] == [one.turns for one in either.turn_sums("one", START_MS, START_MS + 1)]


def test_a_report_changes_what_can_be_read(either: Store) -> None:
    before = either.commit_number()
    either.report_turn(TURN)
    assert before + 1 == either.commit_number()


def test_more_than_a_minute_holds_is_refused_until_the_minute_is_over(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOST_A_MINUTE", 5)
    for second in range(5):
        either.report_turn(replace(TURN, client=f"client-{second}", at_ms=START_MS + 1000 * second))
    with pytest.raises(TooMany, match="5 turns of target 'one' were reported") as refused:
        either.report_turn(replace(TURN, at_ms=START_MS + 5_000))
    assert 60 == refused.value.retry_after_seconds
    either.report_turn(replace(TURN, at_ms=START_MS + MINUTE_MS))
    assert 6 == sum(one.turns for one in either.turn_sums("one", 0, START_MS + HOUR_MS))


def test_names_that_change_from_turn_to_turn_are_refused_in_the_end(
    either: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOST_CLIENTS", 2)
    either.report_turn(TURN)
    either.report_turn(replace(TURN, client="direct"))
    with pytest.raises(TooMany, match="a name that stays the same"):
        either.report_turn(replace(TURN, client="session-4711"))
    either.report_turn(TURN)


def test_a_target_that_is_not_watched_takes_no_turns(either: Store) -> None:
    with pytest.raises(NotFound, match="no target is called 'two'; there are: one"):
        either.report_turn(replace(TURN, target="two"))
    either.remove_target("one", START_MS)
    with pytest.raises(NotFound, match="there are: none"):
        either.report_turn(TURN)


def test_old_turns_go_with_the_five_minute_tier_and_their_clients_with_them(either: Store) -> None:
    either.report_turn(replace(TURN, client="gone"))
    for hour in range(6):
        either.report_turn(replace(TURN, at_ms=START_MS + hour * HOUR_MS))
    either.save_target(replace(RECORD, first_scrape_ms=START_MS))
    with either.database.exclusive() as connection:
        connection.exec_driver_sql(f"UPDATE targets SET rolled_until_ms = {START_MS + 6 * HOUR_MS}")
    assert 4 == either.retain(START_MS + 6 * HOUR_MS, KEEP)
    assert [("editor", 3, START_MS + 3 * HOUR_MS)] == [
        (one.client, one.turns, one.first_ms) for one in either.turn_sums("one", 0, START_MS + 9 * HOUR_MS)
    ]
    assert {"clients": 1, "turns": 3} == {name: either.count_rows()[name] for name in ("clients", "turns")}


def test_of_more_turns_than_a_target_may_have_the_newest_stay(either: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_TURNS", 4)
    for second in range(10):
        either.report_turn(replace(TURN, client=f"client-{second % 3}", at_ms=START_MS + 1000 * second))
    assert 6 == either.retain(START_MS + MINUTE_MS)
    kept = either.turn_sums("one", 0, START_MS + HOUR_MS)
    assert (4, START_MS + 6_000) == (sum(one.turns for one in kept), min(one.first_ms for one in kept))
