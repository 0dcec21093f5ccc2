"""The targets under observation: each begins, goes on under other settings, and ends; what they showed is stored.

Contains no decision on which targets those are (`opmon.watched`) and no timer (`opmon.schedule`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from opmon.clock import Clock
from opmon.core.model import Epoch, Lane, Row, TargetRecord
from opmon.errors import NotFound
from opmon.exporter import Exporter
from opmon.log import fields
from opmon.pipeline import Observation, Observer
from opmon.schedule import Schedule
from opmon.scrape.scraper import Scraper
from opmon.store import Store
from opmon.store.writer import Writer
from opmon.telemetry import Telemetry
from opmon.watch import Watch
from opmon.watched import Difference, Plan, difference, is_asked_alike, record_of, scrape_target

LEARN_SECONDS = 300
MOST_OWED = 1000

CHANGES_TOLD, FLAPPING_MS = 6, 60_000

logger = logging.getLogger("opmon.service")


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the database knows of a target that begins."""

    record: TargetRecord
    epoch: Epoch | None
    rows: Sequence[Row]
    starts: Sequence[float]


@dataclass(slots=True)
class _Watched:
    """One target under observation. `saved`: its record as the database has it."""

    plan: Plan
    watch: Watch
    scraper: Scraper
    saved: TargetRecord
    health: tuple[str, str] = ("observed", "")
    skipped_strata: int = 0
    changes_ms: list[int] = field(default_factory=list)
    is_flapping: bool = False


class Watching:
    """All targets under observation. Use it from one event loop."""

    def __init__(
        self, store: Store, writer: Writer, exporter: Exporter, telemetry: Telemetry, clock: Clock, schedule: Schedule
    ) -> None:
        self._store = store
        self._writer = writer
        self._exporter = exporter
        self._telemetry = telemetry
        self._clock = clock
        self._schedule = schedule
        self._watched: dict[str, _Watched] = {}
        self._changing = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()
        self._last_loss = ""
        self._owed: dict[str, list[Observation]] = {}
        self._trouble = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The targets that are watched."""
        return tuple(self._watched)

    async def follow(self, plans: Mapping[str, Plan]) -> Difference:
        """Watches what the plans say, from now on and nothing else."""
        async with self._changing:
            change = difference({name: one.plan for name, one in self._watched.items()}, plans)
            for name in change.vanished:
                self._end(name)
            for name in change.changed:
                self._go_on(self._watched[name], plans[name])
            appeared = [plans[name] for name in change.appeared]
            if appeared:
                # On the writer's thread, so that what was written before is remembered.
                remembered = await asyncio.wrap_future(self._writer.submit(partial(self._remember, appeared)))
                for plan, memory in zip(appeared, remembered, strict=True):
                    self._begin(plan, memory)
            return change

    async def forget_others(self) -> None:
        """Targets that the database has as watched, and nobody watches, are marked as removed."""
        others = [record.name for record in await asyncio.to_thread(self._store.targets)]
        for name in others:
            if name not in self._watched:
                self._remove(name)

    def clock_stepped(self, step_ms: int) -> None:
        """The wall clock stepped; positive: forward."""
        for one in self._watched.values():
            one.watch.clock_stepped(step_ms)

    async def flush(self) -> None:
        """The task: counts what was skipped, and hands over what was observed."""
        for one in self._watched.values():
            skipped = one.watch.skipped_strata
            self._telemetry.task_missed("scrape", skipped - one.skipped_strata)
            one.skipped_strata = skipped
        self.hand_over()
        self._tell_trouble()
        self._telemetry.task_ran("flush")

    def hand_over(self) -> None:
        """Hands everything that was observed to the writer, in one transaction for all targets."""
        self._hand_over(list(self._watched.values()))
        self._telemetry.store_queue(self._writer.depth)

    async def aclose(self) -> None:
        """Closes all connections, and hands over what was observed."""
        closing = [one.scraper.aclose() for one in self._watched.values()]
        await asyncio.gather(*closing, *self._ending, return_exceptions=True)
        self.hand_over()

    # --- beginning, changing, ending ------------------------------------------------------------------------------

    def _remember(self, plans: Sequence[Plan]) -> list[_Memory]:
        """What the database knows of each, removed or not; each counts as watched from now on."""
        memories = []
        for plan in plans:
            known = self._find(plan.name)
            record = record_of(plan, known, self._clock.now_ms())
            epoch = self._store.current_epoch(plan.name) if known else None
            rows = self._store.recent_rows(plan.name) if known else ()
            starts = self._store.earlier_starts(plan.name) if known else ()
            self._store.save_target(record)
            memories.append(_Memory(record, epoch, rows, starts))
        return memories

    def _remove(self, name: str) -> None:
        self._writer.submit(partial(self._store.remove_target, name, self._clock.now_ms()), outlasts_faults=True)

    def _find(self, name: str) -> TargetRecord | None:
        try:
            return self._store.target(name)
        except NotFound:
            return None

    def _begin(self, plan: Plan, memory: _Memory) -> None:
        self._owed.pop(plan.name, None)
        scraper = Scraper(scrape_target(plan), self._clock)
        observer = Observer(
            memory.record,
            epoch=memory.epoch,
            rows=memory.rows,
            starts=memory.starts,
            expected_model=plan.target.model,
        )
        watch = Watch(observer, scraper, self._clock, is_pace_fixed=plan.is_pace_fixed)
        watch.on_pace_change = self._pace_changed
        self._watched[plan.name] = _Watched(plan, watch, scraper, memory.record)
        self._exporter.watch(plan.name)
        self._time(self._watched[plan.name])
        self._schedule.every(LEARN_SECONDS, self._learn, f"learn {plan.name}", plan.name, at_once=True)

    def _go_on(self, one: _Watched, plan: Plan) -> None:
        """The same target under another plan: its history goes on, its connection only if it is asked alike."""
        scraper = one.scraper
        if not is_asked_alike(one.plan, plan):
            scraper = Scraper(scrape_target(plan), self._clock)
            self._let_go(one.watch, one.scraper)
        record = record_of(plan, one.watch.observer.record, self._clock.now_ms())
        one.plan, one.scraper = plan, scraper
        one.watch.reconfigure(record, scraper, expected_model=plan.target.model, is_pace_fixed=plan.is_pace_fixed)
        self._time(one)
        self._schedule.now(f"learn {plan.name}")

    def _end(self, name: str) -> None:
        """The target is watched no more: no timer, no metrics, no connection; what it showed stays."""
        self._schedule.remove(f"scrape {name}")
        self._schedule.remove(f"learn {name}")
        one = self._watched.pop(name)
        one.watch.end()
        self._hand_over([one])
        self._remove(name)
        self._exporter.forget(name)
        self._let_go(one.watch, one.scraper)

    def _let_go(self, watch: Watch, scraper: Scraper) -> None:
        """Closes a connection once nobody waits on it; the deadline of a scrape bounds that."""

        async def close() -> None:
            await watch.quiet()
            await scraper.aclose()

        task = asyncio.create_task(close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _time(self, one: _Watched) -> None:
        name = one.plan.name
        self._schedule.each_stratum(name, one.watch.interval_ms, self._scrape, f"scrape {name}", one)

    def _pace_changed(self, watch: Watch) -> None:
        logger.warning(
            "the pace of a target changes",
            extra=fields(target=watch.name, interval_seconds=watch.interval_ms / 1000, form=watch.scraper.form.value),
        )
        self._time(self._watched[watch.name])

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def _scrape(self, one: _Watched) -> None:
        observation = await one.watch.attempt()
        if observation is None:
            return
        name, row = one.plan.name, observation.step.row
        self._telemetry.scraped(name, row.lane.value, row.kind)
        snapshot = observation.attempt.snapshot
        if snapshot is not None and row.lane is Lane.FULL:
            self._telemetry.lines_skipped(name, snapshot.skipped_lines)
        self._tell_change(one, observation)
        for model, levels in observation.step.final.items():
            self._exporter.concurrency.add(name, model, levels)
        if observation.step.new_epoch is not None:
            one.scraper.reprobe()
            self._schedule.now(f"learn {name}")
        self._telemetry.task_ran("scrape")

    async def _learn(self, name: str) -> None:
        """What the server says of itself beside its metrics: version, models, ceiling."""
        one = self._watched.get(name)
        if one is None:
            return
        learnt = await one.scraper.learn()
        one.watch.observer.learnt(
            version=learnt.version,
            max_num_seqs=learnt.max_num_seqs,
            source=learnt.ceiling_source,
            at_ms=self._clock.now_ms(),
        )
        self._telemetry.task_ran("learn")

    def _tell_change(self, one: _Watched, observation: Observation) -> None:
        """One line in the log per change, not per attempt."""
        row = observation.step.row
        health = (row.state.value, row.kind or "")
        if one.health != health and self._may_tell(one):
            level = logging.INFO if row.kind is None else logging.WARNING
            logger.log(
                level,
                "the state of a target changes",
                extra=fields(target=one.plan.name, state=health[0], kind=health[1], detail=observation.step.detail),
            )
        one.health = health

    def _may_tell(self, one: _Watched) -> bool:
        """A target that flaps is told of once, and again when it has been steady for a while."""
        now_ms = self._clock.monotonic_ms()
        recent = [at_ms for at_ms in one.changes_ms if now_ms - at_ms < FLAPPING_MS]
        one.changes_ms = [*recent, now_ms][-CHANGES_TOLD:]
        if len(recent) < CHANGES_TOLD:
            one.is_flapping = False
            return True
        if not one.is_flapping:
            logger.warning(
                "the state of a target keeps changing; told again once it is steady for a minute",
                extra=fields(target=one.plan.name),
            )
        one.is_flapping = True
        return False

    # --- storing --------------------------------------------------------------------------------------------------

    def _hand_over(self, watched: Sequence[_Watched]) -> None:
        taken = {one.plan.name: [*self._owed.pop(one.plan.name, ()), *one.watch.take()] for one in watched}
        batches = {name: observed for name, observed in taken.items() if observed}
        records: dict[str, TargetRecord] = {}
        for one in watched:
            if one.watch.observer.record is not one.saved:
                records[one.plan.name] = one.saved = one.watch.observer.record
        if not batches and not records:
            return
        rows = sum(map(len, batches.values()))
        overflowed = self._writer.overflowed
        written = self._writer.submit(lambda: self._write(batches, records), outlasts_faults=True)
        if self._writer.overflowed > overflowed:
            dropped = rows - self._owe(batches)
            self._telemetry.store_overflowed(dropped)
            self._tell_loss(written, dropped)
        else:
            written.add_done_callback(lambda future: self._tell_failure(future, rows))

    def _write(self, batches: Mapping[str, list[Observation]], records: Mapping[str, TargetRecord]) -> None:
        appended = self._store.append_all(batches, records)
        self._telemetry.store_committed(appended.stored, self._clock.now_ms())
        self._telemetry.store_duplicates(appended.duplicates)

    def _owe(self, batches: Mapping[str, list[Observation]]) -> int:
        """What begins an epoch or changes earlier rows is not lost with its batch, but goes with the next: the rows to
        come would stand in an epoch that is not there. How many rows that are."""
        for name, observed in batches.items():
            owed = [one for one in observed if one.step.new_epoch or one.step.learnt_epoch or one.step.relabels]
            if owed:
                self._owed[name] = owed[-MOST_OWED:]
        return sum(len(self._owed.get(name, ())) for name in batches)

    def _tell_failure(self, written: Future[Any], rows: int) -> None:
        if written.exception() is not None:
            self._telemetry.store_failed()
        self._tell_loss(written, rows)

    def _tell_trouble(self) -> None:
        """One line in the log when samples begin to wait for the database, and one when they no longer do."""
        trouble = self._writer.trouble
        if trouble and not self._trouble:
            logger.warning("samples wait for the database", extra=fields(reason=trouble, waiting=self._writer.depth))
        if self._trouble and not trouble:
            logger.info("the database takes samples again")
        self._trouble = trouble

    def _tell_loss(self, written: Future[Any], rows: int) -> None:
        """What did not reach the database is counted and told; the scraping goes on."""
        error = written.exception()
        if error is not None:
            self._telemetry.store_lost(rows)
            if str(error) != self._last_loss:
                logger.error("samples were lost", extra=fields(rows=rows, error=str(error)))
        self._last_loss = "" if error is None else str(error)
