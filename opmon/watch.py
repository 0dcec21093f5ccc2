"""One target under observation: which stratum an attempt belongs to, which lane it takes, and how often it may come.

Contains no scheduler and no database: the service calls `attempt` when a stratum is due and takes what was observed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from opmon.clock import Clock
from opmon.core.model import FIVE_MINUTES_MS, Attempt, Form, Lane, TargetRecord
from opmon.pipeline import Observation, Observer
from opmon.trigger import late_tolerance_ms, owned_stratum, stratum_start

# A target is slowed when this many of its last RECENT attempts did not answer within the interval, and returns to its
# configured pace after STEADY answers that would have fitted.
RECENT, TOO_SLOW, STEADY = 10, 5, 120
# The pulse of a server that sends the whole page each time, unless a pace is configured: 50 KB a second would cost
# the watched server more than the answer is worth.
WHOLE_PAGE_INTERVAL_MS = 5_000


class Scrapes(Protocol):
    """What a watch needs of a scraper."""

    form: Form

    async def scrape(self, stratum_ms: int, interval_ms: int, lane: Lane) -> Attempt:
        """One attempt; faults of the target are in the attempt, not raised."""
        ...


def slower_interval(interval_ms: int) -> int:
    """The next longer interval, in whole seconds, that divides 300 s; 300 s itself stays."""
    longer = (seconds * 1000 for seconds in range(1, 301) if 300 % seconds == 0 and seconds * 1000 > interval_ms)
    return next(longer, FIVE_MINUTES_MS)


class Watch:
    """Attempts on one target, one at a time, at most one a stratum."""

    def __init__(self, observer: Observer, scraper: Scrapes, clock: Clock, *, is_pace_fixed: bool) -> None:
        self.observer = observer
        self.scraper = scraper
        self.interval_ms = observer.record.pulse_interval_ms
        self.skipped_strata = 0
        self.on_pace_change: Callable[[Watch], None] = lambda _watch: None
        self._configured_ms = self._base_ms = self.interval_ms
        self._is_pace_fixed = is_pace_fixed
        self._clock = clock
        self._lock = asyncio.Lock()
        self._free_from_ms = 0
        self._last_full_ms: int | None = None
        self._wants_full = True
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self._steady = 0
        self._longer_ms = 0
        self._observed: list[Observation] = []
        self._is_ended = False
        # Grows when what is under way may not count any more.
        self._turn = 0

    @property
    def name(self) -> str:
        """The target's name."""
        return self.observer.record.name

    def take(self) -> list[Observation]:
        """What was observed since the last call."""
        observed, self._observed = self._observed, []
        return observed

    def clock_stepped(self, step_ms: int) -> None:
        """After a step of the wall clock the strata from the present one on are free, and none was skipped.

        An attempt that is under way has an instant of the time before, and does not count.
        """
        self._turn += 1
        self._last_full_ms = None
        self.observer.clock_stepped(step_ms)
        stratum_ms = stratum_start(self._clock.now_ms(), self.interval_ms)
        if self._free_from_ms != stratum_ms + self.interval_ms:
            self._free_from_ms = stratum_ms

    def reconfigure(
        self, record: TargetRecord, scraper: Scrapes, *, expected_model: str | None, is_pace_fixed: bool
    ) -> None:
        """Goes on with the same history under other settings. What is under way by another scraper does not count."""
        if scraper is not self.scraper:
            self._turn += 1
        self.observer.reconfigure(record, expected_model=expected_model)
        self.scraper = scraper
        self.interval_ms = self._configured_ms = self._base_ms = record.pulse_interval_ms
        self._is_pace_fixed = is_pace_fixed
        self._recent.clear()
        self._steady = 0
        self._wants_full = True
        self._follow_form()

    def end(self) -> None:
        """No attempt begins any more, and the one under way does not count."""
        self._is_ended = True
        self._turn += 1

    async def quiet(self) -> None:
        """Waits until no attempt is under way."""
        async with self._lock:
            pass

    async def attempt(self) -> Observation | None:
        """The stratum's attempt; None if the stratum has had one, or ended while an earlier attempt was waited for,
        or if the clock stepped or the watch ended meanwhile."""
        if self._is_ended:
            return None
        self._take_longer_pace()
        interval_ms, turn = self.interval_ms, self._turn
        stratum_ms = owned_stratum(self.name, interval_ms, self._clock.now_ms(), self._free_from_ms)
        if stratum_ms is None:
            return None
        self._count_skipped(stratum_ms, interval_ms)
        self._free_from_ms = stratum_ms + interval_ms
        async with self._lock:
            if turn != self._turn:
                return None
            if self._clock.now_ms() > stratum_ms + interval_ms + late_tolerance_ms(interval_ms):
                self._judge_pace(is_in_time=False, fits_base=False)
                self.skipped_strata += 1
                return None
            return await self._scrape(stratum_ms, interval_ms)

    async def _scrape(self, stratum_ms: int, interval_ms: int) -> Observation | None:
        lane, turn = self._lane(stratum_ms), self._turn
        attempt = await self.scraper.scrape(stratum_ms, interval_ms, lane)
        if turn != self._turn:
            return None
        observation = self.observer.observe(attempt)
        self._wants_full = observation.step.new_epoch is not None and attempt.lane is Lane.PULSE
        if self.scraper.form is not self.observer.record.form:
            self.observer.record = replace(self.observer.record, form=self.scraper.form)
            self._follow_form()
        self._observed.append(observation)
        self._judge_pace(
            is_in_time=attempt.took_ms <= interval_ms,
            fits_base=attempt.snapshot is not None and attempt.took_ms * 2 < self._base_ms,
        )
        return observation

    def _lane(self, stratum_ms: int) -> Lane:
        full_ms = self.observer.record.full_interval_ms
        is_due = self._wants_full or self._last_full_ms is None or stratum_ms - self._last_full_ms >= full_ms
        if is_due:
            self._last_full_ms = stratum_ms
        return Lane.FULL if is_due else Lane.PULSE

    def _count_skipped(self, stratum_ms: int, interval_ms: int) -> None:
        if self._free_from_ms:
            self.skipped_strata += max(stratum_ms - self._free_from_ms, 0) // interval_ms

    def _follow_form(self) -> None:
        """A server that ignores the filter is asked less often, unless its pace is configured."""
        is_slowed = self.scraper.form is Form.WHOLE and not self._is_pace_fixed
        self._base_ms = max(self._configured_ms, WHOLE_PAGE_INTERVAL_MS) if is_slowed else self._configured_ms
        self._set_interval(self._base_ms)

    def _judge_pace(self, *, is_in_time: bool, fits_base: bool) -> None:
        self._recent.append(is_in_time)
        self._steady = self._steady + 1 if fits_base else 0
        if len(self._recent) == RECENT and self._recent.count(False) >= TOO_SLOW:
            self._set_interval(slower_interval(self.interval_ms))
        elif self.interval_ms > self._base_ms and self._steady >= STEADY:
            self._set_interval(self._base_ms)

    def _take_longer_pace(self) -> None:
        """A longer interval begins with the first of its strata that is wholly free: until then the shorter ones go
        on, so that a change of pace leaves no gap."""
        longer_ms = self._longer_ms
        if longer_ms and stratum_start(self._clock.now_ms(), longer_ms) >= self._free_from_ms:
            self._change_interval(longer_ms)

    def _set_interval(self, interval_ms: int) -> None:
        self._longer_ms = interval_ms if interval_ms > self.interval_ms else 0
        if interval_ms < self.interval_ms:
            self._change_interval(interval_ms)

    def _change_interval(self, interval_ms: int) -> None:
        self.interval_ms, self._longer_ms = interval_ms, 0
        self.observer.record = replace(self.observer.record, pulse_interval_ms=interval_ms)
        self._recent.clear()
        self._steady = 0
        self.on_pace_change(self)
