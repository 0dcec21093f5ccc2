"""The writing thread: order, patience with a locked database, a bounded queue, an orderly end."""

from __future__ import annotations

import sqlite3
import threading
import time
from functools import partial

import pytest

from opmon.errors import StoreError
from opmon.store import Store
from opmon.store.writer import Writer
from tests.store.history import RECORD


def test_jobs_run_in_order_on_one_thread_and_give_their_results() -> None:
    writer = Writer()
    seen: list[tuple[int, str]] = []

    def note(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        return number

    futures = [writer.submit(partial(note, number)) for number in range(50)]
    assert writer.flush(10)
    assert list(range(50)) == [future.result(0) for future in futures]
    assert [(n, "opmon-writer") for n in range(50)] == seen
    assert (50, 50, 0, 0) == (writer.submitted, writer.done, writer.failed, writer.depth)
    assert writer.close()


def test_a_job_that_fails_tells_its_submitter_and_the_next_one_runs() -> None:
    writer = Writer()
    bad, good = writer.submit(lambda: 1 // 0), writer.submit(lambda: 5)
    with pytest.raises(ZeroDivisionError):
        bad.result(10)
    assert 5 == good.result(10)
    assert writer.close()
    assert (1, 1) == (writer.failed, writer.done)


def test_what_comes_while_the_queue_is_full_fails_at_once_and_is_counted() -> None:
    writer = Writer(capacity=3)
    gate = threading.Event()
    waiting = [writer.submit(gate.wait) for _ in range(3)]
    refused = writer.submit(lambda: None)
    with pytest.raises(StoreError, match="3 writes wait already"):
        refused.result(0)
    assert 1 == writer.overflowed
    gate.set()
    assert [True] * 3 == [future.result(10) for future in waiting]
    assert writer.submit(lambda: 7).result(10) == 7
    assert writer.close()


def test_a_locked_database_is_tried_again_until_it_is_free(hasty_store: Store) -> None:
    other = sqlite3.connect(hasty_store.database.path or "", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    writer = Writer()
    future = writer.submit(lambda: hasty_store.save_target(RECORD))
    assert not writer.flush(0.5)
    assert writer.retries > 0
    other.execute("COMMIT")
    other.close()
    future.result(20)
    assert [RECORD] == list(hasty_store.targets())
    assert writer.close()


def test_closing_writes_what_waits_and_refuses_what_comes_later() -> None:
    writer = Writer()
    slow = [writer.submit(lambda: time.sleep(0.01)) for _ in range(20)]
    assert writer.close()
    assert all(future.done() for future in slow)
    with pytest.raises(StoreError, match="closed"):
        writer.submit(lambda: None).result(0)
    assert writer.close()


def test_closing_gives_up_on_a_database_that_stays_locked(hasty_store: Store) -> None:
    other = sqlite3.connect(hasty_store.database.path or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = Writer()
    future = writer.submit(lambda: hasty_store.save_target(RECORD))
    assert not writer.close(0.1)
    with pytest.raises(StoreError, match="database is locked"):
        future.result(20)
    other.close()


def test_a_job_that_was_cancelled_before_its_turn_does_not_run() -> None:
    writer = Writer()
    gate, ran = threading.Event(), []
    writer.submit(gate.wait)
    unwanted = writer.submit(lambda: ran.append(1))
    assert unwanted.cancel()
    gate.set()
    assert writer.close()
    assert [] == ran
