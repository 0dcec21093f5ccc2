"""One target under observation: lanes, skipped strata, pace. A scraper is stood in for: it is the network's part."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

from opmon.clock import ManualClock
from opmon.core.model import Attempt, Form, Lane, SeriesKey, SeriesSample, Snapshot, State, TargetRecord
from opmon.pipeline import Observer
from opmon.trigger import fire_ms
from opmon.watch import RECENT, STEADY, Watch, slower_interval

START_MS = 1_800_000_000_000


class Scrapes:
    """Answers with one request running, after `took_ms` of the clock."""

    def __init__(self, clock: ManualClock) -> None:
        self.form = Form.FILTERED
        self.clock = clock
        self.took_ms = 5
        self.lanes: list[Lane] = []
        self.process_start = 1.0
        self.gate: asyncio.Event | None = None

    async def scrape(self, stratum_ms: int, interval_ms: int, lane: Lane) -> Attempt:
        self.lanes.append(lane)
        at_ms = self.clock.now_ms()
        if self.gate is not None:
            await self.gate.wait()
        sample = SeriesSample(running=1, waiting=0, counters={"generation_tokens": float(len(self.lanes))})
        snapshot = Snapshot("vllm", {SeriesKey("m", "0"): sample}, process_start_seconds=self.process_start)
        return Attempt(stratum_ms, interval_ms, at_ms, self.took_ms, lane, snapshot, first_byte_ms=self.took_ms)


def _watch(*, is_pace_fixed: bool = False) -> tuple[Watch, Scrapes, ManualClock]:
    clock = ManualClock(START_MS)
    scrapes = Scrapes(clock)
    record = TargetRecord("a", "http://127.0.0.1:1")
    return Watch(Observer(record), scrapes, clock, is_pace_fixed=is_pace_fixed), scrapes, clock


async def _strata(watch: Watch, clock: ManualClock, count: int) -> None:
    for _ in range(count):
        stratum = (clock.value_ms // watch.interval_ms + 1) * watch.interval_ms
        clock.value_ms = fire_ms(watch.name, stratum, watch.interval_ms)
        await watch.attempt()


async def test_a_full_scrape_takes_the_place_of_a_pulse_at_its_interval() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 61)
    assert [0, 30, 60] == [number for number, lane in enumerate(scrapes.lanes) if lane is Lane.FULL]


async def test_a_restart_that_a_pulse_shows_is_read_in_full_at_once() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 5)
    scrapes.process_start = 2.0
    await _strata(watch, clock, 3)
    assert [0, 6] == [number for number, lane in enumerate(scrapes.lanes) if lane is Lane.FULL]


async def test_a_stratum_has_one_attempt_at_most() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 1)
    assert await watch.attempt() is None
    assert len(scrapes.lanes) == 1


async def test_strata_that_nobody_attempted_are_counted() -> None:
    watch, _scrapes, clock = _watch()
    await _strata(watch, clock, 2)
    clock.value_ms += 10_000
    await _strata(watch, clock, 1)
    assert watch.skipped_strata == 10


async def test_an_attempt_whose_stratum_ended_while_it_waited_is_a_gap() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 1)
    scrapes.gate = asyncio.Event()
    clock.value_ms = fire_ms("a", START_MS + 10_000, 1000)
    first = asyncio.create_task(watch.attempt())
    await asyncio.sleep(0)
    clock.value_ms = fire_ms("a", START_MS + 11_000, 1000)
    second = asyncio.create_task(watch.attempt())
    await asyncio.sleep(0)
    clock.value_ms = START_MS + 12_500
    scrapes.gate.set()
    observation = await first
    assert observation is not None
    assert observation.attempt.stratum_ms == START_MS + 10_000
    assert await second is None


async def test_a_target_that_answers_too_late_is_asked_less_often_and_told() -> None:
    watch, scrapes, clock = _watch()
    told: list[int] = []
    watch.on_pace_change = lambda changed: told.append(changed.interval_ms)
    scrapes.took_ms = 1500
    await _strata(watch, clock, RECENT + 2)
    assert told == [2000]
    assert watch.observer.record.pulse_interval_ms == 2000


async def test_a_target_that_answers_in_time_again_gets_its_pace_back() -> None:
    watch, scrapes, clock = _watch()
    scrapes.took_ms = 1500
    await _strata(watch, clock, RECENT + 2)
    assert watch.interval_ms == 2000
    scrapes.took_ms = 5
    await _strata(watch, clock, STEADY)
    assert watch.interval_ms == 1000


async def test_a_server_that_sends_whole_pages_is_asked_every_five_seconds() -> None:
    watch, scrapes, clock = _watch()
    scrapes.form = Form.WHOLE
    await _strata(watch, clock, 6)
    assert watch.interval_ms == 5000
    scrapes.form = Form.FILTERED
    await _strata(watch, clock, 1)
    assert watch.interval_ms == 1000


async def test_a_configured_pace_is_kept_for_whole_pages() -> None:
    watch, scrapes, clock = _watch(is_pace_fixed=True)
    scrapes.form = Form.WHOLE
    await _strata(watch, clock, 1)
    assert watch.interval_ms == 1000


async def test_strata_never_overlap_when_the_pace_changes() -> None:
    watch, scrapes, clock = _watch()
    scrapes.took_ms = 1500
    await _strata(watch, clock, RECENT + 2)
    scrapes.took_ms = 5
    await _strata(watch, clock, STEADY + 3)
    rows = [observation.step.row for observation in watch.take()]
    assert all(
        earlier.stratum_ms + earlier.interval_ms <= later.stratum_ms for earlier, later in itertools.pairwise(rows)
    )
    assert rows[-1].state is State.OBSERVED
    assert watch.skipped_strata == 0
    assert sum(row.interval_ms for row in rows) == rows[-1].stratum_ms + rows[-1].interval_ms - rows[0].stratum_ms


def test_paces_are_divisors_of_five_minutes() -> None:
    paces = [1000]
    while paces[-1] < 300_000:
        paces.append(slower_interval(paces[-1]))
    assert all(300_000 % pace == 0 for pace in paces)
    assert slower_interval(300_000) == 300_000


# --- steps of the clock, other settings, the end --------------------------------------------------------------------


async def test_after_a_step_of_the_clock_no_stratum_counts_as_skipped_and_the_next_is_taken() -> None:
    watch, _scrapes, clock = _watch()
    await _strata(watch, clock, 3)
    for step_ms in (3_600_000, -3_600_000):
        clock.value_ms += step_ms
        watch.clock_stepped(step_ms)
        await _strata(watch, clock, 3)
    # Of each step the stratum that it ended in, never those of the hour.
    assert watch.skipped_strata <= 2
    assert 9 == len(watch.take())


async def test_a_small_step_back_does_not_attempt_the_same_stratum_again() -> None:
    watch, _scrapes, clock = _watch()
    await _strata(watch, clock, 1)
    clock.value_ms = clock.value_ms // 1000 * 1000 + 990
    watch.clock_stepped(-1)
    assert await watch.attempt() is None


async def test_an_attempt_that_is_under_way_when_the_clock_steps_does_not_count() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 1)
    scrapes.gate = asyncio.Event()
    clock.value_ms += 1000
    under_way = asyncio.create_task(watch.attempt())
    await asyncio.sleep(0)
    clock.value_ms -= 3_600_000
    watch.clock_stepped(-3_600_000)
    scrapes.gate.set()
    assert await under_way is None
    scrapes.gate = None
    await _strata(watch, clock, 1)
    assert ["start", "clock"] == [one.step.new_epoch.cause for one in watch.take() if one.step.new_epoch]


async def test_other_settings_go_on_with_the_same_history() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 3)
    record = replace(watch.observer.record, pulse_interval_ms=2000, job="x")
    watch.reconfigure(record, scrapes, expected_model=None, is_pace_fixed=True)
    await _strata(watch, clock, 3)
    observed = watch.take()
    assert [1000] * 3 + [2000] * 3 == [one.step.row.interval_ms for one in observed]
    assert [1] * 6 == [one.step.row.epoch for one in observed]
    assert ("x", 2000) == (watch.observer.record.job, watch.observer.record.pulse_interval_ms)


async def test_an_ended_watch_attempts_nothing_and_what_is_under_way_does_not_count() -> None:
    watch, scrapes, clock = _watch()
    await _strata(watch, clock, 1)
    scrapes.gate = asyncio.Event()
    clock.value_ms += 1000
    under_way = asyncio.create_task(watch.attempt())
    await asyncio.sleep(0)
    watch.end()
    scrapes.gate.set()
    assert await under_way is None
    await watch.quiet()
    await _strata(watch, clock, 2)
    assert (1, 2) == (len(watch.take()), len(scrapes.lanes))
