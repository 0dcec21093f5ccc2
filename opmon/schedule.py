"""The timers: when each task of the service runs. APScheduler keeps them; our trigger says when a target is scraped.

Contains no task. A step of the wall clock makes all timers anew, since they are set in wall-clock time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
    JobEvent,
)
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger

from opmon.clock import Clock
from opmon.log import fields
from opmon.telemetry import Telemetry
from opmon.trigger import StratumTrigger

logger = logging.getLogger("opmon.service")


class Schedule:
    """Tasks by name; the first word of a name is what the task is counted under."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        # How each timer was set, to set it again after a step of the clock.
        self._set: dict[str, Callable[[], None]] = {}
        self._last_error: dict[str, str] = {}
        # What it would say of late and failed runs is counted and exported, and told below once per change.
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
        self._scheduler = AsyncIOScheduler(
            timezone="UTC",
            job_defaults={
                # Late tasks run once, however many runs were missed; scrapes set their own rules below.
                "coalesce": True,
                "misfire_grace_time": None,
                "max_instances": 1,
            },
        )
        told = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES
        self._scheduler.add_listener(self._on_event, told)

    def start(self) -> None:
        """The timers run from now on."""
        self._scheduler.start()

    def stop(self) -> None:
        """No task starts any more; those under way are cancelled."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)

    def every(self, seconds: float, task: Callable[..., Any], name: str, *args: object, at_once: bool = False) -> None:
        """The task every so many seconds, the first time now or after that long. One of the same name is replaced."""

        def set_timer(*, now: bool) -> None:
            self._scheduler.add_job(
                task,
                # Begins at our own time: APScheduler's would lie ahead after a step back.
                IntervalTrigger(seconds=seconds, start_date=self._in(seconds)),
                args=args,
                id=name,
                replace_existing=True,
                **({"next_run_time": self._in(0)} if now else {}),
            )

        self._set[name] = lambda: set_timer(now=True)
        set_timer(now=at_once)

    def once(self, seconds: float, task: Callable[..., Any], name: str) -> None:
        """The task once, after so many seconds. A step of the clock may put it off."""
        self._scheduler.add_job(task, id=name, trigger="date", run_date=self._in(seconds))

    def each_stratum(self, target: str, interval_ms: int, task: Callable[..., Any], name: str, *args: object) -> None:
        """The task in each stratum of a target. One of the same name is replaced."""

        def set_timer() -> None:
            self._scheduler.add_job(
                task,
                StratumTrigger(target, interval_ms),
                args=args,
                id=name,
                replace_existing=True,
                # A late start may still own its stratum: the watch decides, not the scheduler.
                misfire_grace_time=max(interval_ms // 1000, 1),
                coalesce=True,
                # One under way and one waiting for it; a third has certainly lost its stratum.
                max_instances=2,
            )

        self._set[name] = set_timer
        set_timer()

    def now(self, name: str) -> None:
        """Runs a task at once, beside its usual times; nothing if there is none of that name."""
        with contextlib.suppress(JobLookupError):
            self._scheduler.modify_job(name, next_run_time=self._in(0))

    def remove(self, name: str) -> None:
        """The task does not start any more; a run under way goes on."""
        self._set.pop(name, None)
        self._last_error.pop(name, None)
        with contextlib.suppress(JobLookupError):
            self._scheduler.remove_job(name)

    def names(self) -> tuple[str, ...]:
        """The tasks that are set."""
        return tuple(self._set)

    def clock_stepped(self) -> None:
        """Sets all timers again, from the new time; tasks other than scrapes run at once, and nothing is cut off."""
        for set_timer in list(self._set.values()):
            set_timer()

    def _in(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000 + seconds, tz=UTC)

    def _on_event(self, event: JobEvent) -> None:
        task = str(event.job_id).split(" ", 1)[0]
        if event.code == EVENT_JOB_EXECUTED:
            self._last_error.pop(event.job_id, None)
        elif event.code == EVENT_JOB_ERROR:
            if isinstance(getattr(event, "exception", None), asyncio.CancelledError):
                return  # the service ends, and what was under way with it
            self._telemetry.task_ran(task, failed=True)
            self._tell(event.job_id, getattr(event, "exception", None))
        elif task != "scrape":
            # A scrape that was missed is a stratum without an attempt, and the watch counts those.
            self._telemetry.task_missed(task)

    def _tell(self, name: str, error: BaseException | None) -> None:
        """One line per change, not per run."""
        if self._last_error.get(name) != repr(error):
            logger.error("a task failed", extra=fields(task=name, error=repr(error)), exc_info=error)
        self._last_error[name] = repr(error)
