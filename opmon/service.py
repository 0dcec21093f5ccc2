"""The composition root: which parts there are, how they are joined, and the order in which they start and stop.

Contains no arithmetic and no SQL. It alone owns the scheduler, the writer thread and the web server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.interval import IntervalTrigger
from starlette.types import ASGIApp

from opmon import tasks
from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from opmon.clock import AnchoredClock
from opmon.config import Comparison, Settings, Target
from opmon.core.cells import SweepImport
from opmon.core.model import TargetRecord
from opmon.exporter import Exporter
from opmon.log import fields
from opmon.pipeline import Observation, Observer
from opmon.reports import Reports
from opmon.scrape.scraper import Scraper
from opmon.serving import bind, counted, url_of, web_server
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.retention import Retention
from opmon.store.writer import Writer
from opmon.telemetry import Telemetry
from opmon.trigger import StratumTrigger
from opmon.watch import Watch
from opmon.watched import record_of, scrape_target

FLUSH_SECONDS = 1
EVALUATE_SECONDS = 15
ROLL_UP_SECONDS = 60
ROLL_UP_BUCKETS = 100
RETAIN_SECONDS = 600
LEARN_SECONDS = 300
CLOCK_CHECK_SECONDS = 0.5
FIRST_EVALUATION_SECONDS = 4
# How long a request for a table or a sweep may wait for the writer.
WRITE_SECONDS = 30

logger = logging.getLogger("opmon.service")


class Service:
    """One running opmon. `run` returns when it was told to stop and everything is on disk."""

    def __init__(
        self,
        settings: Settings,
        *,
        progress: Callable[[], float | None] = lambda: None,
        beside: Iterable[Callable[[Service], Any]] = (),
    ) -> None:
        """`beside`: coroutine functions that run beside the service until it stops (the demo's history)."""
        self.settings = settings
        self.clock = AnchoredClock()
        self.telemetry = Telemetry()
        self.exporter = Exporter(self.telemetry)
        self.watches: dict[str, Watch] = {}
        self._scrapers: dict[str, Scraper] = {}
        self._progress = progress
        self._beside = tuple(beside)
        self._is_ready = False
        self._saved: dict[str, TargetRecord] = {}
        self._known_health: dict[str, tuple[str, str]] = {}
        self._last_skipped: dict[str, int] = {}

    # --- start and stop -------------------------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[str], None] = lambda _url: None) -> None:
        """Starts everything, serves until SIGTERM or SIGINT, and stops in order: nothing that was seen is lost."""
        listener = bind(self.settings)
        self.database = Database.open(self.settings.storage.url, read_only=False, create=True)
        self.store = Store(self.database)
        self.writer = Writer()
        self.reports = Reports(
            self.store, self.clock, default_window_ms=self.settings.global_.window_ms, progress=self._progress
        )
        try:
            self._open_targets()
            self._start_scheduler()
            await self._serve(listener, on_ready)
        finally:
            await self._stop()

    async def _serve(self, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
        server = web_server(counted(self._app(), self.telemetry))
        beside = [asyncio.create_task(self._watch_clock()), *(asyncio.create_task(one(self)) for one in self._beside)]
        self._is_ready = True
        on_ready(url_of(listener, self.settings.web.path_prefix))
        try:
            await server.serve(sockets=[listener])
        finally:
            self._is_ready = False
            for one in beside:
                one.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _stop(self) -> None:
        if scheduler := getattr(self, "scheduler", None):
            scheduler.shutdown(wait=False)
        # The scrapes that were under way were cancelled with the scheduler; what they had seen is taken now.
        await asyncio.gather(*(scraper.aclose() for scraper in self._scrapers.values()), return_exceptions=True)
        self._flush()
        await asyncio.to_thread(self.writer.close)
        self.database.close()

    def _app(self) -> ASGIApp:
        web = self.settings.web
        return create_app(
            self.reports,
            metrics=self._metrics,
            ready=lambda: self._is_ready,
            sweep_import=self._import_sweep,
            sweep_delete=self._delete_sweep,
            security=SecuritySettings(token=web.token(), check_host=web.is_loopback, allowed_hosts=web.allowed_hosts),
            path_prefix=web.path_prefix,
        )

    # --- targets --------------------------------------------------------------------------------------------------

    def _open_targets(self) -> None:
        """A watch for each configured target; targets that are configured no longer are marked removed."""
        known = {record.name: record for record in self.store.targets()}
        for target in self.settings.targets:
            record = record_of(target, self.settings, known.get(str(target.name)), self.clock.now_ms())
            self.store.save_target(record)
            self._open(target, record, is_known=record.name in known)
        for name in known.keys() - self.watches.keys():
            self.store.remove_target(name, self.clock.now_ms())

    def _open(self, target: Target, record: TargetRecord, *, is_known: bool) -> None:
        epoch = self.store.current_epoch(record.name) if is_known else None
        rows = self.store.recent_rows(record.name) if is_known else ()
        scraper = Scraper(scrape_target(target, self.settings), self.clock)
        watch = Watch(
            Observer(record, epoch=epoch, rows=rows, expected_model=target.model),
            scraper,
            self.clock,
            is_pace_fixed=self.settings.global_.pulse_interval_is_set,
        )
        watch.on_pace_change = self._reschedule
        self.watches[record.name] = watch
        self._scrapers[record.name] = scraper
        self._saved[record.name] = record
        self.exporter.watch(record.name)

    # --- the scheduler --------------------------------------------------------------------------------------------

    def _start_scheduler(self) -> None:
        # What it would say of late runs is counted and exported; a line in the log for each would bury the rest.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self.scheduler = AsyncIOScheduler(
            timezone="UTC",
            job_defaults={
                # Late tasks run once, however many runs were missed; scrapes set their own rules below.
                "coalesce": True,
                "misfire_grace_time": None,
                "max_instances": 1,
            },
        )
        self.scheduler.add_listener(self._on_event, EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        for watch in self.watches.values():
            self._schedule(watch)
            self._every(LEARN_SECONDS, self._learn, f"learn {watch.name}", watch, at_once=True)
        self._every(FLUSH_SECONDS, self._flush_task, "flush")
        self._every(EVALUATE_SECONDS, self._evaluate, "evaluate")
        self._every(ROLL_UP_SECONDS, self._roll_up, "roll_up")
        self._every(RETAIN_SECONDS, self._retain, "retain")
        self.scheduler.add_job(
            self._evaluate, id="first evaluate", trigger="date", run_date=self._in(FIRST_EVALUATION_SECONDS)
        )
        self.scheduler.start()

    def _in(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000 + seconds, tz=UTC)

    def _every(self, seconds: float, task: Callable[..., Any], name: str, *args: object, at_once: bool = False) -> None:
        first = {"next_run_time": self._in(0)} if at_once else {}
        self.scheduler.add_job(task, IntervalTrigger(seconds=seconds), args=args, id=name, **first)

    def _schedule(self, watch: Watch) -> None:
        self.scheduler.add_job(
            self._scrape,
            StratumTrigger(watch.name, watch.interval_ms),
            args=(watch,),
            id=f"scrape {watch.name}",
            replace_existing=True,
            # A late start may still own its stratum: the watch decides, not the scheduler.
            misfire_grace_time=max(watch.interval_ms // 1000, 1),
            coalesce=True,
            # One under way and one waiting for it; a third has certainly lost its stratum.
            max_instances=2,
        )

    def _reschedule(self, watch: Watch) -> None:
        logger.warning(
            "the pace of a target changes",
            extra=fields(target=watch.name, interval_seconds=watch.interval_ms / 1000, form=watch.scraper.form.value),
        )
        self._schedule(watch)

    def _on_event(self, event: JobEvent) -> None:
        task = str(event.job_id).split(" ", 1)[0]
        if event.code == EVENT_JOB_ERROR:
            self.telemetry.task_ran(task, failed=True)
            error = getattr(event, "exception", None)
            logger.error("a task failed", extra=fields(task=event.job_id, error=repr(error)))
        elif task != "scrape":
            # A scrape that was missed is a stratum without an attempt, and the watch counts those.
            self.telemetry.task_missed(task)

    async def _watch_clock(self) -> None:
        """A step of the wall clock is recorded, and everything is scheduled anew from the new time."""
        while True:
            await asyncio.sleep(CLOCK_CHECK_SECONDS)
            step_ms = self.clock.check()
            if step_ms is None:
                continue
            logger.warning("the wall clock stepped", extra=fields(seconds=step_ms / 1000))
            self.scheduler.remove_all_jobs()
            for watch in self.watches.values():
                watch.clock_stepped()
            self.scheduler.shutdown(wait=False)
            self._start_scheduler()

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def _scrape(self, watch: Watch) -> None:
        observation = await watch.attempt()
        if observation is None:
            return
        row = observation.step.row
        self.telemetry.scraped(watch.name, row.lane.value, row.kind)
        self._tell_change(watch.name, observation)
        for model, levels in observation.step.final.items():
            self.exporter.concurrency.add(watch.name, model, levels)
        if observation.step.new_epoch is not None:
            self._scrapers[watch.name].reprobe()
            with contextlib.suppress(Exception):
                self.scheduler.modify_job(f"learn {watch.name}", next_run_time=self._in(0))
        self.telemetry.task_ran("scrape")

    def _tell_change(self, name: str, observation: Observation) -> None:
        """One line in the log per change, not per attempt."""
        row = observation.step.row
        state = (row.state.value, row.kind or "")
        if self._known_health.get(name, ("observed", "")) != state:
            level = logging.INFO if row.kind is None else logging.WARNING
            logger.log(
                level,
                "the state of a target changes",
                extra=fields(target=name, state=state[0], kind=state[1], detail=observation.step.detail),
            )
        self._known_health[name] = state

    async def _learn(self, watch: Watch) -> None:
        """What the server says of itself beside its metrics: version, models, ceiling."""
        learnt = await self._scrapers[watch.name].learn()
        watch.observer.learnt(version=learnt.version, max_num_seqs=learnt.max_num_seqs, at_ms=self.clock.now_ms())
        self.telemetry.task_ran("learn")

    async def _flush_task(self) -> None:
        for watch in self.watches.values():
            skipped = watch.skipped_strata
            self.telemetry.task_missed("scrape", skipped - self._last_skipped.get(watch.name, 0))
            self._last_skipped[watch.name] = skipped
        self._flush()
        self.telemetry.task_ran("flush")

    def _flush(self) -> None:
        """Hands everything that was observed to the writer, in one transaction for all targets."""
        batches = {watch.name: observed for watch in self.watches.values() if (observed := watch.take())}
        records = {
            watch.name: watch.observer.record
            for watch in self.watches.values()
            if watch.observer.record is not self._saved.get(watch.name)
        }
        self._saved.update(records)
        if batches or records:
            rows = sum(map(len, batches.values()))
            overflowed = self.writer.overflowed
            written = self.writer.submit(lambda: self._write(batches, records))
            if self.writer.overflowed > overflowed:
                self.telemetry.store_overflowed(rows)
            written.add_done_callback(lambda future: self._tell_loss(future, rows))
        self.telemetry.store_queue(self.writer.depth)

    def _write(self, batches: Mapping[str, list[Observation]], records: Mapping[str, TargetRecord]) -> None:
        appended = self.store.append_all(batches, records)
        self.telemetry.store_committed(appended.stored, self.clock.now_ms())
        self.telemetry.store_duplicates(appended.duplicates)

    def _tell_loss(self, written: Future[Any], rows: int) -> None:
        """What did not reach the database is counted and told; the scraping goes on."""
        error = written.exception()
        if error is not None:
            self.telemetry.store_failed()
            logger.error("samples were lost", extra=fields(rows=rows, error=str(error)))

    async def _evaluate(self) -> None:
        evaluation = await asyncio.to_thread(tasks.evaluate, self.reports, self.comparisons())
        self.exporter.set_evaluation(replace(evaluation, at_ms=self.clock.now_ms()))
        self.telemetry.task_ran("evaluate")

    async def _roll_up(self) -> None:
        # Bounded: what is not rolled up yet is answered from raw rows, and samples must not wait behind a backlog.
        self.writer.submit(lambda: self.store.roll_up(self.clock.now_ms(), limit=ROLL_UP_BUCKETS))
        self.telemetry.task_ran("roll_up")

    async def _retain(self) -> None:
        asked = self.settings.storage.retention
        keep = Retention(asked.raw_ms, asked.five_minutes_ms, asked.hourly_ms)
        self.writer.submit(lambda: self.store.retain(self.clock.now_ms(), keep))
        self.telemetry.task_ran("retain")

    # --- what the API calls ---------------------------------------------------------------------------------------

    def comparisons(self) -> tuple[Comparison, ...]:
        """The configured comparisons."""
        return self.settings.comparisons

    def _metrics(self, accept: str) -> tuple[bytes, str]:
        page = self.exporter.render(accept)
        return page.body, page.content_type

    def _import_sweep(self, name: str, imported: SweepImport) -> None:
        self.writer.submit(lambda: self.store.import_sweep(name, imported, self.clock.now_ms())).result(WRITE_SECONDS)

    def _delete_sweep(self, name: str) -> None:
        self.writer.submit(lambda: self.store.delete_sweep(name)).result(WRITE_SECONDS)
