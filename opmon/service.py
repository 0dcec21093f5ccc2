"""The composition root: which parts there are, how they are joined, and the order in which they start and stop.

Contains no arithmetic and no SQL. It alone owns the schedule, the writer thread and the web server, and turns what
settings and discovery name into what is watched.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from starlette.types import ASGIApp

from opmon import tasks
from opmon.api.app import create_app
from opmon.api.door import Operations
from opmon.api.runtime import DiscoveryStatus, RuntimeInfo
from opmon.api.security import SecuritySettings, TokenInForce
from opmon.clock import AnchoredClock
from opmon.config import Comparison, Settings, not_reloadable, shown
from opmon.core.cells import SweepImport
from opmon.core.client_turns import ClientTurn
from opmon.discovery import Lists, Source, usable_sources
from opmon.errors import ConfigError, NotFound
from opmon.exporter import Exporter
from opmon.log import fields
from opmon.reports import Reports
from opmon.schedule import Schedule
from opmon.serving import bind, counted, url_of, web_server
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.retention import Retention
from opmon.store.sole_writer import sole_writer
from opmon.store.writer import Writer
from opmon.sweeps.gathering import beside
from opmon.telemetry import Telemetry
from opmon.watched import roster_of
from opmon.watching import Watching

FLUSH_SECONDS = 1
EVALUATE_SECONDS = 15
MOST_RESTING_SHARE = 0.5
ROLL_UP_SECONDS = 60
ROLL_UP_BUCKETS, ROLL_UP_AT_ONCE = 100, 2
MOST_REST_SECONDS = 0.5
RETAIN_SECONDS = 600
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
        reread: Callable[[], Settings] | None = None,
        progress: Callable[[], float | None] = lambda: None,
        beside: Iterable[Callable[[Service], Any]] = (),
    ) -> None:
        """`reread` reads the settings again, for a reload; it raises ConfigError. `beside`: coroutine functions that
        run beside the service until it stops (the demo's history)."""
        self.settings = settings
        self.clock = AnchoredClock()
        self.telemetry = Telemetry()
        self.exporter = Exporter(self.telemetry)
        self.schedule = Schedule(self.clock, self.telemetry)
        self._started_ms = self.clock.now_ms()
        self._reread = reread
        self._reloading = asyncio.Lock()
        self._progress = progress
        self._beside = (_watch_clock, *beside)
        self._is_ready = False
        self._left_out: tuple[str, ...] = ()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- start and stop -------------------------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[str], None] = lambda _url: None) -> None:
        """Starts everything, serves until SIGTERM or SIGINT, and stops in order: nothing that was seen is lost."""
        sources = self._checked(self.settings)
        with sole_writer(self.settings.storage.url):
            await self._run(sources, on_ready)

    async def _run(self, sources: tuple[Source, ...], on_ready: Callable[[str], None]) -> None:
        listener = bind(self.settings)
        self.database = Database.open(self.settings.storage.url, read_only=False, create=True)
        self.store = Store(self.database)
        self.writer = Writer()
        self.lists = Lists(self.telemetry, self.clock, _ListsInStore(self.store, self.writer))
        self.reports = Reports(
            self.store, self.clock, default_window_ms=self.settings.global_.window_ms, progress=self._progress
        )
        self.watching = Watching(self.store, self.writer, self.exporter, self.telemetry, self.clock, self.schedule)
        try:
            with self._reload_on_hangup():
                await self._start(sources)
                await self._serve(listener, on_ready)
        finally:
            await self._stop()

    async def _start(self, sources: tuple[Source, ...]) -> None:
        self.schedule.start()
        self._time_tasks()
        await self._follow()
        await self.lists.recall()
        self._beside_task(self._first_lists(await self.lists.adopt(sources)))
        self.telemetry.configured(at_ms=self.clock.now_ms())

    async def _serve(self, listener: socket.socket, on_ready: Callable[[str], None]) -> None:
        server = web_server(counted(self._app(), self.telemetry))
        for one in self._beside:
            self._beside_task(one(self))
        self._is_ready = True
        on_ready(url_of(listener, self.settings.web.path_prefix))
        try:
            await server.serve(sockets=[listener])
        finally:
            self._is_ready = False
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop(self) -> None:
        self.schedule.stop()
        # The scrapes that were under way were cancelled with the schedule; what they had seen is taken now.
        await self.watching.aclose()
        await self.lists.aclose()
        await asyncio.to_thread(self.writer.close)
        self.database.close()

    def _beside_task(self, work: Any) -> None:
        """Runs beside everything else until it ends or the service does."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @contextmanager
    def _reload_on_hangup(self) -> Iterator[None]:
        """SIGHUP reloads, where there is something to read again."""
        loop = asyncio.get_running_loop()
        if self._reread is None:
            yield
            return
        loop.add_signal_handler(signal.SIGHUP, lambda: self._beside_task(self._hung_up()))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    def _app(self) -> ASGIApp:
        web = self.settings.web
        return create_app(
            self.reports,
            metrics=self._metrics,
            ready=lambda: self._is_ready,
            sweep_import=self._import_sweep,
            sweep_delete=self._delete_sweep,
            turn_report=self._report_turn,
            time_zone=lambda: self.settings.global_.time_zone,
            operations=Operations(self.reload, lambda: shown(self.settings), self._runtime),
            security=SecuritySettings(
                token=None if web.token_file is None else TokenInForce(web.token),
                check_host=web.is_loopback,
                allowed_hosts=web.allowed_hosts,
            ),
            path_prefix=web.path_prefix,
        )

    # --- which targets --------------------------------------------------------------------------------------------

    async def _first_lists(self, sources: Iterable[Source]) -> None:
        """Asks all sources for the first time; only then is it known which targets of before are watched no more."""
        self._time_sources()
        await self._ask(sources)
        await self._follow()
        await self.watching.forget_others()

    async def _ask(self, sources: Iterable[Source]) -> None:
        """Asks several sources at once. What is no failure of a source is told, and the others count."""
        asked = await asyncio.gather(*map(self.lists.refresh, sources), return_exceptions=True)
        for error in asked:
            if isinstance(error, Exception):
                logger.error("a task failed", extra=fields(task="discover", error=repr(error)), exc_info=error)

    async def _follow(self) -> None:
        """Watches what settings and lists name now. Whoever calls has changed one of the two."""
        roster = roster_of(self.settings, self.lists.targets())
        for words in sorted(set(roster.left_out) - set(self._left_out)):
            logger.warning("a discovered target is left out", extra=fields(detail=words))
        self._left_out = roster.left_out
        change = await self.watching.follow(roster.plans)
        if change and self._is_ready:
            names = (("appeared", change.appeared), ("vanished", change.vanished), ("changed", change.changed))
            logger.info("the targets change", extra=fields(**{word: ", ".join(some) for word, some in names if some}))

    async def _discover(self, source: Source) -> None:
        await self.lists.refresh(source)
        await self._follow()
        self.telemetry.task_ran("discover")

    # --- reload ---------------------------------------------------------------------------------------------------

    async def reload(self) -> None:
        """Reads the settings again and takes them up as a whole, or not at all. Raises ConfigError."""
        async with self._reloading:
            try:
                settings, sources = await self._reread_settings()
            except ConfigError as error:
                self._refused(error)
                raise
            # New lists first: between two lists no target may seem to be gone.
            await self._ask(await self.lists.adopt(sources))
            self.settings = settings
            self.reports.reconfigured(default_window_ms=settings.global_.window_ms)
            self._time_sources()
            await self._follow()
            self.schedule.now("evaluate")
            self.telemetry.configured(at_ms=self.clock.now_ms())
            logger.info("the configuration was taken up", extra=fields(targets=len(self.watching.names)))

    async def _reread_settings(self) -> tuple[Settings, tuple[Source, ...]]:
        """What the file says now, and its sources. Raises ConfigError, also for what changes only at a restart."""
        settings = await asyncio.to_thread(self._reread or (lambda: self.settings))
        if changed := not_reloadable(self.settings, settings):
            raise ConfigError(f"{', '.join(changed)}: changes only at a restart; nothing was changed")
        return settings, self._checked(settings)

    def _refused(self, error: ConfigError) -> None:
        self.telemetry.configured(at_ms=None)
        logger.error("the configuration is refused; the one before stays", extra=fields(error=str(error)))

    async def _hung_up(self) -> None:
        """A reload that nobody waits for: what it says is in the log."""
        try:
            await self.reload()
        except ConfigError:
            pass
        except Exception:
            logger.exception("the reload failed")

    def _checked(self, settings: Settings) -> tuple[Source, ...]:
        """The sources of the settings, once all that they name can be used. Raises ConfigError."""
        return usable_sources(settings, self.clock)

    # --- when -----------------------------------------------------------------------------------------------------

    def _time_tasks(self) -> None:
        self.schedule.every(FLUSH_SECONDS, self.watching.flush, "flush")
        self.schedule.every(EVALUATE_SECONDS, self._evaluate, "evaluate")
        self.schedule.every(ROLL_UP_SECONDS, self._roll_up, "roll_up")
        self.schedule.every(RETAIN_SECONDS, self._retain, "retain")
        self.schedule.once(FIRST_EVALUATION_SECONDS, self._evaluate, "first evaluate")

    def _time_sources(self) -> None:
        """A timer for each source, and none for those that are gone."""
        wanted = {f"discover {source.settings.name}": source for source in self.lists.sources}
        for name in self.schedule.names():
            if name.startswith("discover ") and name not in wanted:
                self.schedule.remove(name)
        for name, source in wanted.items():
            self.schedule.every(source.settings.refresh_interval_ms / 1000, self._discover, name, source)

    def check_clock(self) -> None:
        """A step of the wall clock is recorded, and everything goes on from the new time."""
        step_ms = self.clock.check()
        if step_ms is not None:
            logger.warning("the wall clock stepped", extra=fields(seconds=step_ms / 1000))
            self.watching.clock_stepped(step_ms)
            self.schedule.clock_stepped()

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def _evaluate(self) -> None:
        """One target after the other, with a rest after each: all at once would keep the scrapes waiting."""
        statuses = await asyncio.to_thread(self.reports.targets)
        longest = EVALUATE_SECONDS * MOST_RESTING_SHARE / max(len(statuses), 1)
        done = []
        for status in statuses:
            began = time.monotonic()
            done.append(await asyncio.to_thread(tasks.evaluate, self.reports, self.comparisons(), status))
            await asyncio.sleep(min(time.monotonic() - began, longest))
        self.exporter.set_evaluation(replace(tasks.joined(done), at_ms=self.clock.now_ms()))
        self.telemetry.task_ran("evaluate")

    async def _roll_up(self) -> None:
        """A few buckets at a time with a rest after each, and a bounded number: what is not rolled up yet is answered
        from raw rows, and neither samples nor scrapes may wait behind a backlog."""
        for _ in range(ROLL_UP_BUCKETS // ROLL_UP_AT_ONCE):
            began = time.monotonic()
            done = await self._in_turn("roll_up", self._roll_up_some)
            if done < ROLL_UP_AT_ONCE:
                break
            await asyncio.sleep(min(time.monotonic() - began, MOST_REST_SECONDS))

    def _roll_up_some(self) -> int:
        return self.store.roll_up(self.clock.now_ms(), limit=ROLL_UP_AT_ONCE)

    async def _retain(self) -> None:
        asked = self.settings.storage.retention
        keep = Retention(asked.raw_ms, asked.five_minutes_ms, asked.hourly_ms)
        await self._in_turn("retain", lambda: self.store.retain(self.clock.now_ms(), keep))

    async def _in_turn(self, task: str, job: Callable[[], int]) -> int:
        """Upkeep, once the writer comes to it: what it did, 0 if it failed, which is told and counted."""
        try:
            done = await asyncio.wrap_future(self.writer.submit(job))
        except Exception as error:  # noqa: BLE001 - told and counted; upkeep comes again
            self.telemetry.task_ran(task, failed=True)
            logger.error("a task failed", extra=fields(task=task, error=str(error)))  # noqa: TRY400 - once, in words
            return 0
        self.telemetry.task_ran(task)
        return done

    # --- what the API calls ---------------------------------------------------------------------------------------

    def comparisons(self) -> tuple[Comparison, ...]:
        """The configured comparisons."""
        return self.settings.comparisons

    def _metrics(self, accept: str) -> tuple[bytes, str]:
        page = self.exporter.render(accept)
        return page.body, page.content_type

    def _runtime(self) -> RuntimeInfo:
        reloaded_ms = self.telemetry.reloaded_ms
        return RuntimeInfo(
            started=self._started_ms / 1000,
            now=self.clock.now_ms() / 1000,
            database=self.database.name,
            targets=len(self.watching.names),
            configuration_is_current=self.telemetry.is_reloaded,
            configuration_loaded=None if reloaded_ms is None else reloaded_ms / 1000,
            discovery=tuple(
                DiscoveryStatus(
                    status.source,
                    len(status.targets),
                    None if status.listed_ms is None else status.listed_ms / 1000,
                    status.failure,
                    status.left_out,
                )
                for status in self.lists.statuses
            ),
            left_out=self._left_out,
        )

    def _import_sweep(self, name: str, imported: SweepImport) -> None:
        def save() -> bool:
            try:
                known = self.store.sweep(name).imports
            except NotFound:
                known = ()
            return self.store.import_sweep(name, beside(imported, known, name), self.clock.now_ms())

        self.writer.submit(save).result(WRITE_SECONDS)

    def _report_turn(self, turn: ClientTurn) -> None:
        self.writer.submit(lambda: self.store.report_turn(turn)).result(WRITE_SECONDS)

    def _delete_sweep(self, name: str) -> None:
        self.writer.submit(lambda: self.store.delete_sweep(name)).result(WRITE_SECONDS)


class _ListsInStore:
    """What the sources named last, kept in the database."""

    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    def recall(self) -> Mapping[str, str]:
        """The texts of before, by source."""
        return self._store.source_lists()

    def keep(self, source: str, text: str) -> None:
        """Queues it; like samples it waits for a disk that is full."""
        self._writer.submit(lambda: self._store.keep_source_list(source, text), outlasts_faults=True)


async def _watch_clock(service: Service) -> None:
    """Looks at the wall clock again and again; whatever goes wrong in it is told, and the looking goes on."""
    while True:
        await asyncio.sleep(CLOCK_CHECK_SECONDS)
        try:
            service.check_clock()
        except Exception:
            logger.exception("the clock could not be checked")
