"""The one thread that writes, with its queue: nobody else waits for the disk, and nothing is lost while it is busy.

Contains no SQL. What is submitted runs in order; while the database is locked it is tried again, and what must not be
lost also while the disk is full or fails, so a job must be a transaction that leaves nothing behind when it fails.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from opmon.errors import StoreError
from opmon.store.database import is_busy, is_disk_fault

Result = TypeVar("Result")

DEFAULT_CAPACITY = 600
"""Ten minutes, where the samples of all targets are one job a second; a minute is the least that may be held."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 1.0


@dataclass(slots=True)
class _Job:
    run: Callable[[], Any]
    future: Future[Any]
    outlasts_faults: bool


class Writer:
    """Runs submitted functions one after the other on its own thread.

    `submitted`, `done`, `failed`, `overflowed` and `retries` count jobs since the start; `depth` is how many wait.
    `trouble` says in words why the present job is tried again, "" while nothing hinders it.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._queue: queue.Queue[_Job | None] = queue.Queue()
        self._capacity = capacity
        self._lock = threading.Lock()
        self._closed = False
        self._give_up = threading.Event()
        self._idle = threading.Condition()
        self.submitted = 0
        self.done = 0
        self.failed = 0
        self.overflowed = 0
        self.retries = 0
        self.trouble = ""
        self._thread = threading.Thread(target=self._run, name="opmon-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Jobs that wait or run."""
        return self.submitted - self.done - self.failed

    def submit(self, job: Callable[[], Result], *, outlasts_faults: bool = False) -> Future[Result]:
        """Queues a job. Where the queue is full or closed, the future fails at once with StoreError.

        `outlasts_faults`: a disk that is full or fails is waited for, as a lock is, while the queue holds what follows.
        Without it such a job fails, for what is behind it may still fit.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                future.set_exception(StoreError("the writer is closed; nothing is written any more"))
            elif self.depth >= self._capacity:
                self.overflowed += 1
                message = f"{self._capacity} writes wait already: {self.trouble or 'the database is too slow'}"
                future.set_exception(StoreError(message))
            else:
                self.submitted += 1
                self._queue.put(_Job(job, future, outlasts_faults))
        return future

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all that was submitted before has been tried to its end; False if the time ran out."""
        goal = self.submitted
        with self._idle:
            return self._idle.wait_for(lambda: self.done + self.failed >= goal, timeout_seconds)

    def close(self, timeout_seconds: float = 10.0) -> bool:
        """Writes what waits, then ends. False if the time ran out: what was left failed, and its futures say so."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout_seconds)
        if not self._thread.is_alive():
            return self.depth == 0
        self._give_up.set()
        self._thread.join(LONGEST_PAUSE_SECONDS)
        return False

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            if job.future.set_running_or_notify_cancel():
                self._finish(job)
            else:
                self._count(ok=False)

    def _finish(self, job: _Job) -> None:
        """The one place where every exception is caught: it belongs to whoever submitted the job."""
        try:
            result = self._try(job)
        except BaseException as error:  # noqa: BLE001 handed over, not swallowed
            self.trouble = ""
            job.future.set_exception(error)
            self._count(ok=False)
        else:
            self.trouble = ""
            job.future.set_result(result)
            self._count(ok=True)

    def _try(self, job: _Job) -> Any:
        """Runs a job until the database is free for it."""
        pause = FIRST_PAUSE_SECONDS
        while not self._give_up.is_set():
            try:
                return job.run()
            except Exception as error:
                if not (is_busy(error) or (job.outlasts_faults and is_disk_fault(error))):
                    raise
                self.retries += 1
                self.trouble = str(getattr(error, "orig", error))
            self._give_up.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        message = f"this was not written, for the database could not be until opmon ended: {self.trouble}"
        raise StoreError(message)

    def _count(self, *, ok: bool) -> None:
        with self._idle:
            if ok:
                self.done += 1
            else:
                self.failed += 1
            self._idle.notify_all()
