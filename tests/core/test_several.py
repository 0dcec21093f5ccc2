"""Several servers behind one address that take turns at any pace, and single servers that only look like several.

A small model of servers and schedules: what is held in the end is compared with what the servers truly did.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from opmon.core.epochs import can_be_new, leap
from opmon.core.model import Attempt, Lane, SeriesKey, SeriesSample, Snapshot, State
from opmon.core.states import MOST_STEADY_ANSWERS, SEVERAL, STEADY_ANSWERS, Step, Tracker
from tests.core.stage import ONE, TOKENS_PER_SECOND, Stage, epochs_of, rows_of, watch

RUNNING = 3
TURNS = (1, 2, 5, 9, 10, 11, 12, 15, 20, 30, 31, 60, 90, 120)
AHEAD_SECONDS = ((900, 90_000), (90_000, 900), (900, 2000), (140, 100), (0, 40), (3, 0))
LIVES = 150
START_SECONDS = 4


class Long(Stage):
    """A server of requests that take ten seconds each."""

    def _run(self, counters: dict[str, float], running: int, seconds: float) -> None:
        self.done = getattr(self, "done", 0.0) + running * seconds / 10
        count(counters, int(self.done), running * seconds, tokens_each=100)
        self.done -= int(self.done)


class Short(Stage):
    """A server of short requests, as embeddings or answers of one word are: no inter-token time tells anything."""

    def _run(self, counters: dict[str, float], running: int, seconds: float) -> None:
        count(counters, round(running * seconds * TOKENS_PER_SECOND), 0.0, tokens_each=1)


def count(counters: dict[str, float], requests: int, decoded_seconds: float, *, tokens_each: int) -> None:
    """Books requests that came and went."""
    for name in ("finished_requests", "ttft_seconds_count", "prefill_seconds_count"):
        counters[name] += requests
    counters["generation_tokens"] += tokens_each * requests
    counters["prompt_tokens"] += 50 * requests
    counters["itl_seconds_sum"] += decoded_seconds
    counters["itl_seconds_count"] += decoded_seconds * TOKENS_PER_SECOND
    counters["ttft_seconds_sum"] += 0.3 * requests


def server(kind: type[Stage], seconds: int, ahead_seconds: int, start: float | None) -> list[Attempt]:
    """One of several servers, that has worked for `ahead_seconds` before."""
    stage = kind(start_ms=10_000_000)
    for counters in stage.counters.values():
        if kind is Short:
            count(counters, RUNNING * ahead_seconds * 10, 0.0, tokens_each=1)
        else:
            count(counters, RUNNING * ahead_seconds // 10, RUNNING * ahead_seconds, tokens_each=100)
    return [started(attempt, start) for attempt in stage.play(seconds, RUNNING)]


def started(attempt: Attempt, start: float | None) -> Attempt:
    """The same answer with another start of the process, or without one."""
    if attempt.snapshot is None:
        return attempt
    return replace(attempt, snapshot=replace(attempt.snapshot, process_start_seconds=start))


def taking_turns(kind: type[Stage], ahead: tuple[int, int], order: Sequence[int], *, told: bool) -> list[Attempt]:
    """The answers of two servers, number `order[i]` in stratum i. `told`: the start of a process is shown."""
    both = [
        server(kind, len(order), seconds, start)
        for seconds, start in zip(ahead, (1.0, 500.0) if told else (None, None), strict=True)
    ]
    return [both[number][stratum] for stratum, number in enumerate(order)]


def excesses(steps: Sequence[Step]) -> list[tuple[int, float]]:
    """Pairs that stand as load of one server while its output is more than both together made: instant, tokens."""
    found = []
    rows = rows_of(steps)
    for before, after in pairwise(rows):
        if State.OBSERVED is before.state is after.state and before.epoch == after.epoch:
            rise = after.series[ONE].counters["generation_tokens"] - before.series[ONE].counters["generation_tokens"]
            truly = 2 * RUNNING * TOKENS_PER_SECOND * (after.at_ms - before.at_ms) / 1000
            # A request's tokens are counted as a whole in this model.
            if rise > truly + 2 * 100:
                found.append((after.stratum_ms, rise))
    return found


def until_last_proof(steps: Sequence[Step]) -> list[Step]:
    """Up to the last answer that is known to be of several; a leap after it shows only when the first one returns."""
    return list(steps[: max(place for place, step in enumerate(steps) if step.row.kind == SEVERAL) + 1])


@pytest.mark.parametrize("kind", [Long, Short])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("turn", TURNS)
def test_two_servers_are_told_however_slowly_they_take_turns(kind: type[Stage], turn: int, *, told: bool) -> None:
    for ahead in AHEAD_SECONDS:
        order = [stratum // turn % 2 for stratum in range(max(300, 6 * turn))]
        steps = watch(taking_turns(kind, ahead, order, told=told))

        assert [] == excesses(until_last_proof(steps)), ahead
        assert SEVERAL in {step.row.kind for step in steps[: max(260, 4 * turn + 1)]}, ahead


@pytest.mark.parametrize("seed", range(40))
def test_two_servers_are_told_when_a_connection_sticks_for_a_random_time(seed: int) -> None:
    dice = random.Random(seed)
    leaves, order = dice.choice([0.5, 0.2, 0.1, 0.05, 0.02]), [0]
    for _ in range(900):
        order.append(1 - order[-1] if dice.random() < leaves else order[-1])
    attempts = taking_turns(
        dice.choice([Long, Short]), dice.choice(AHEAD_SECONDS), order, told=dice.choice([True, False])
    )

    assert [] == excesses(until_last_proof(watch(attempts)))


# --- pages that are worked out from the time alone --------------------------------------------------------------------


def page(
    stratum: int,
    tokens: float,
    running: int,
    *,
    start: float | None = None,
    lane: Lane = Lane.PULSE,
    engine: str = "vllm",
    key: SeriesKey = ONE,
) -> Attempt:
    """An answer of a server whose requests take 100 tokens and decode 100 a second each."""
    counters = dict.fromkeys(("finished_requests", "ttft_seconds_count", "itl_seconds_sum"), tokens / 100)
    series = {key: SeriesSample(running, 0, 0.1, {"generation_tokens": tokens, "prompt_tokens": tokens, **counters})}
    begin_ms = 10_000_000 + 1000 * stratum
    return Attempt(begin_ms, 1000, begin_ms + stratum * 7919 % 100, 3, lane, Snapshot(engine, series, start))


def down(stratum: int) -> Attempt:
    return replace(page(stratum, 0, 0), snapshot=None, kind="http_status")


def heavy(stratum: int, *, ahead: float = 5_000_000, start: float | None = None) -> Attempt:
    return page(stratum, ahead + 200 * stratum, 4, start=start)


def light(stratum: int, *, rate: float = 50, start: float | None = None, lane: Lane = Lane.PULSE) -> Attempt:
    return page(stratum, 5000 + rate * stratum, 1, start=start, lane=lane)


def rate_of(steps: Sequence[Step]) -> float:
    """The output tokens per second that stand in the end; 0 where nothing stands."""
    rise, elapsed_ms = 0.0, 0
    for before, after in pairwise(rows_of(steps)):
        if State.OBSERVED is before.state is after.state and before.epoch == after.epoch:
            rise += after.series[ONE].counters["generation_tokens"] - before.series[ONE].counters["generation_tokens"]
            elapsed_ms += after.at_ms - before.at_ms
    return 1000 * rise / elapsed_ms if elapsed_ms else 0.0


@pytest.mark.parametrize("ahead", [5_000_000, 60_000, 20_000])
@pytest.mark.parametrize("rate", [20, 50, 200, 1000])
def test_a_heavy_and_a_light_server_never_show_more_than_both_made(rate: float, ahead: float) -> None:
    for turn in (1, 3, 9, 11, 15, 22, 40, 45, 49, 60, 90, 120):
        shown = [
            light(stratum, rate=rate) if stratum // turn % 2 else heavy(stratum, ahead=ahead)
            for stratum in range(max(300, 6 * turn))
        ]
        assert 1.001 * (200 + rate) >= rate_of(watch(shown)), turn


def heavy_pulses_light_full_pages(stratum: int) -> Attempt:
    return heavy(stratum) if stratum % 30 else light(stratum, rate=0, lane=Lane.FULL)


def light_pulses_heavy_full_pages(stratum: int) -> Attempt:
    return light(stratum, rate=0) if stratum % 30 else replace(heavy(stratum), lane=Lane.FULL)


def full_pages_from_a_cache(stratum: int) -> Attempt:
    return page(stratum, 100.0 * stratum if stratum % 30 else 0.0, 1, start=1.0)


def in_turn_with_an_outage(stratum: int) -> Attempt:
    if stratum % 3 == 2:
        return down(stratum)
    return light(stratum) if stratum % 6 > 2 else heavy(stratum)


def alike_with_an_outage(stratum: int) -> Attempt:
    if stratum % 3 == 2:
        return down(stratum)
    return light(stratum) if stratum % 6 > 2 else heavy(stratum, ahead=60_000)


def with_one_start(stratum: int) -> Attempt:
    return light(stratum, start=1.3) if stratum // 12 % 2 else heavy(stratum, ahead=90_000, start=1.0)


@pytest.mark.parametrize(
    "shown",
    [
        heavy_pulses_light_full_pages,
        light_pulses_heavy_full_pages,
        full_pages_from_a_cache,
        in_turn_with_an_outage,
        alike_with_an_outage,
        with_one_start,
    ],
)
def test_answers_of_two_are_told_from_a_server_of_its_own(shown: Callable[[int], Attempt]) -> None:
    steps = watch(shown(stratum) for stratum in range(300))

    assert 250 >= rate_of(steps)
    assert {SEVERAL, "http_status"} >= {step.row.kind for step in steps[100:]}


def swapped(turn: int, strata: int) -> list[Step]:
    """A model of llama.cpp and one of vLLM at the same address, in turns."""
    other = SeriesKey("", "")
    return watch(
        page(stratum, 6.0 * stratum, 6, engine="llama.cpp", key=other) if stratum // turn % 2 else heavy(stratum)
        for stratum in range(strata)
    )


def test_models_that_come_back_twice_within_minutes_are_of_several_servers() -> None:
    steps = swapped(20, 200)

    assert ["start", "models", "models", "models"] == [epoch.cause for epoch in epochs_of(steps)]
    assert [None] * 80 + [SEVERAL] * 120 == [step.row.kind for step in steps]


def test_models_that_a_person_swaps_back_and_forth_are_of_one_server() -> None:
    assert {None} == {step.row.kind for step in swapped(600, 4000)}


def test_a_crash_within_seconds_of_a_restart_is_forgotten_where_the_start_is_told_or_the_outage_is_long() -> None:
    kinds = []
    for is_told, away in ((True, 5), (False, 5), (False, 40)):
        stage = Stage(start_ms=10_000_000)
        attempts = []
        for _ in range(4):
            attempts += [*stage.play(4, 3), *stage.fail(away), *stage.restart()]
        steps = watch(attempts if is_told else [started(attempt, None) for attempt in attempts])
        kinds.append(SEVERAL in {step.row.kind for step in steps})

    assert [False, True, False] == kinds


# --- one server -----------------------------------------------------------------------------------------------------


class Life:
    """One server that restarts in every way there is, at least ten answers apart unless it is away between.

    A process takes `START_SECONDS` at least, and its counters begin at 0 when it begins: what it shows first it has done
    in the time since.
    """

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.interval_s = self.dice.choice([1, 1, 5, 30, 60])
        engines = (ONE, SeriesKey("model", "1"), SeriesKey("other", "0"))[: self.dice.choice([1, 1, 2, 3])]
        self.stage = self.dice.choice([Long, Short])(
            interval_ms=1000 * self.interval_s,
            start_ms=60_000_000,
            engines=engines,
            full_every=self.dice.choice([1, 5, 30]),
        )
        self.is_told = self.dice.choice([True, False, False])
        self.fixed_load = self.dice.choice([None, 2])
        self.is_taken_over = False

    def lived(self) -> list[Attempt]:
        acts = (self.at_once, self.after_an_outage, self.taken_over, self.unobserved, self.stalled, self.one_engine)
        attempts = []
        for _ in range(self.dice.randrange(3, 12)):
            for _ in range(self.dice.randrange(1, 5)):
                attempts += self.stage.play(self.strata(4, 60), self.load())
            attempts += self.stage.play(self.interval_s * STEADY_ANSWERS, self.load())
            attempts += self.dice.choice(acts)()
        return attempts if self.is_told else [started(attempt, None) for attempt in attempts]

    def load(self) -> int:
        return self.dice.choice([0, 1, 2, 5, 40]) if self.fixed_load is None else self.fixed_load

    def strata(self, least: int, most: int) -> int:
        return self.interval_s * self.dice.randrange(least, most)

    def away(self) -> int:
        """For how many seconds attempts must fail, where a stratum's instant may be anywhere in it."""
        return self.interval_s * math.ceil(2 * START_SECONDS / self.interval_s - 1)

    def at_once(self) -> list[Attempt]:
        """As quickly as it can: within one interval, or with a few failed attempts."""
        failed = self.stage.fail(self.away())
        self.stage.restart()
        return failed

    def after_an_outage(self) -> list[Attempt]:
        return self.at_once() + self.stage.fail(self.strata(1, 40)) + self.stage.restart()

    def taken_over(self) -> list[Attempt]:
        """Another process takes over without an outage, tried with a request before: this is rare."""
        if self.is_taken_over:
            return []
        self.is_taken_over = True
        self.stage.restart()
        for counters in self.stage.counters.values():
            count(counters, 1, 0.1, tokens_each=10)
        return []

    def unobserved(self) -> list[Attempt]:
        """opmon was away, and the server restarted meanwhile and worked a lot."""
        self.stage.skip(self.strata(1, 100), self.load())
        self.stage.restart()
        return self.stage.skip(self.strata(1, 3600), self.dice.choice([0, 3, 40]))

    def stalled(self) -> list[Attempt]:
        return self.stage.play(self.strata(1, 200), 5, moving=False)

    def one_engine(self) -> list[Attempt]:
        """Nothing answers while one of the engines starts anew."""
        failed = self.stage.fail(self.away())
        self.stage.counters[self.dice.choice(self.stage.engines)] = self.stage.zero()
        return failed


@pytest.mark.parametrize("part", range(5))
def test_one_server_is_never_taken_for_several_whatever_its_restarts(part: int) -> None:
    for seed in range(part * LIVES // 5, (part + 1) * LIVES // 5):
        steps = watch(Life(seed).lived())
        kinds = Counter(step.row.kind for step in steps)
        assert {None, "connect", "negative"} >= kinds.keys(), seed
        assert kinds["negative"] < len(epochs_of(steps)), seed


def test_a_single_counter_that_falls_is_no_other_server() -> None:
    stage = Long(start_ms=10_000_000)
    before = stage.play(900, 40)
    for counters in stage.counters.values():
        counters["generation_tokens"] -= 1000

    kinds = [step.row.kind for step in watch([*before, *stage.play(60, 40)])]
    assert [*[None] * 900, "negative", *[None] * 59] == kinds


# --- the law --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "counters"),
    [
        (True, {}),
        (True, {"itl_seconds_sum": 9000.0}),
        (True, {"ttft_seconds_count": 20.0, "itl_seconds_sum": 2.0 + 2 * 2 * (20 + 4)}),
        (False, {"ttft_seconds_count": 20.0, "itl_seconds_sum": 2.1 + 2 * 2 * (20 + 4)}),
        (True, {"ttft_seconds_count": 0.0, "finished_requests": 1005.0, "itl_seconds_sum": 2000.0}),
        (False, {"finished_requests": 1006.0}),
        (True, {"generation_tokens": 40_100.0}),
        (False, {"generation_tokens": 40_101.0}),
    ],
)
def test_an_engine_of_two_seconds_has_decoded_for_two_seconds_a_request(
    counters: dict[str, float], *, expected: bool
) -> None:
    assert expected is can_be_new(SeriesSample(running=4, counters=counters), 2.0)


@pytest.mark.parametrize(
    ("expected", "engine", "rises"),
    [
        (None, "vllm", {"generation_tokens": 210_000.0}),
        ("generation_tokens", "vllm", {"generation_tokens": 210_001.0}),
        (None, "llama.cpp", {"generation_tokens": 250_000.0}),
        ("generation_tokens", "llama.cpp", {"generation_tokens": 250_001.0}),
        (None, "vllm", {"finished_requests": 4010.0}),
        ("finished_requests", "vllm", {"finished_requests": 4011.0}),
        ("ttft_seconds_count", "vllm", {"ttft_seconds_count": 4011.0}),
        (None, "vllm", {"finished_requests": 5.0, "itl_seconds_sum": 60.0 + 2 * 2 * (6 + 5)}),
        ("itl_seconds_sum", "vllm", {"finished_requests": 5.0, "itl_seconds_sum": 60.1 + 2 * 2 * (6 + 5)}),
        (None, "sglang", {"itl_seconds_sum": 5000.0}),
    ],
)
def test_no_engine_adds_more_in_two_seconds(expected: str | None, engine: str, rises: dict[str, float]) -> None:
    before = SeriesSample(running=3, waiting=1, counters=dict.fromkeys(rises, 1000.0))
    after = SeriesSample(running=6, waiting=0, counters={name: 1000.0 + rise for name, rise in rises.items()})
    found = leap(before, after, 2.0, is_live=engine == "vllm")

    assert expected == (found and found.detail.split()[0])


def test_the_same_rise_after_an_outage_or_a_step_of_the_clock_is_no_leap() -> None:
    tracker = Tracker.fresh(stall_after_ms=120_000)
    before = watch([page(stratum, 0, 1) for stratum in range(10)], tracker)
    after = watch([down(10), page(80, 5_000_000, 1)], tracker)
    tracker.clock_stepped(-3000)
    stepped = watch([page(81, 15_000_000, 1)], tracker)

    assert {None, "http_status"} == {step.row.kind for step in [*before, *after, *stepped]}
    assert SEVERAL == watch([page(82, 25_000_000, 1)], tracker)[0].row.kind


def test_the_worked_example_of_the_concepts_is_another_server_after_two_seconds_and_maybe_a_restart_after_an_hour() -> (
    None
):
    shown = SeriesSample(running=0, counters={"ttft_seconds_count": 200.0, "itl_seconds_sum": 2000.0})

    assert can_be_new(replace(shown, counters={"ttft_seconds_count": 200.0, "itl_seconds_sum": 802.0}), 2.0)
    assert not can_be_new(shown, 2.0)
    assert can_be_new(shown, 3600.0)


# --- what becomes of it ---------------------------------------------------------------------------------------------


def slow_turns(strata: int = 300, turn: int = 30) -> list[Attempt]:
    order = [stratum // turn % 2 for stratum in range(strata)]
    return taking_turns(Long, (900, 2000), order, told=False)


def test_what_is_dated_back_has_a_kind_and_reaches_back_ten_minutes_and_no_further() -> None:
    attempts = taking_turns(Long, (900, 2000), [0] * 1000 + [1] * 20 + [0] * 20, told=False)
    (relabel,) = [relabel for step in watch(attempts) for relabel in step.relabels]

    assert SEVERAL == relabel.kind
    assert attempts[1000].stratum_ms == relabel.end_ms
    assert 1000 * MOST_STEADY_ANSWERS == relabel.end_ms - relabel.start_ms


def test_two_restarts_at_once_date_back_no_more_than_the_ten_answers_before_them() -> None:
    stage = Long(start_ms=10_000_000)
    attempts = [*stage.play(900, 40), *stage.restart(told=False), *stage.play(5, 3), *stage.restart(told=False)]
    (relabel,) = [relabel for step in watch([*attempts, *stage.play(20, 3)]) for relabel in step.relabels]

    assert (1000 * (5 + STEADY_ANSWERS), SEVERAL) == (relabel.end_ms - relabel.start_ms, relabel.kind)


def test_a_switch_to_a_server_that_worked_before_is_an_epoch_after_forty_answers() -> None:
    attempts = taking_turns(Long, (2000, 900), [0] * 700 + [1] * 300, told=False)
    steps = watch(attempts)

    assert ["start", "restart"] == [epoch.cause for epoch in epochs_of(steps)]
    assert [SEVERAL] * 40 + [None] * 260 == [step.row.kind for step in steps[700:]]


def test_what_a_fresh_change_shows_is_not_exported_before_it_is_certain() -> None:
    attempts = taking_turns(Short, (900, 2000), [*[0] * 20, 1, *[0, 1] * 10], told=True)
    steps = watch(attempts)

    assert 20_000 == sum(milliseconds for step in steps for milliseconds in step.final.get(None, {}).values())


def test_after_a_restart_of_opmon_several_servers_are_still_several() -> None:
    attempts = slow_turns()
    first = Tracker.fresh(stall_after_ms=120_000)
    steps = watch(attempts[:90], first)
    assert SEVERAL == steps[-1].row.kind
    second = Tracker.restore(first.epoch, rows_of(steps), 120_000, kind=steps[-1].row.kind)

    assert SEVERAL == watch(attempts[90:91], second)[0].row.kind


def test_after_a_restart_of_opmon_the_starts_of_earlier_processes_are_known() -> None:
    attempts = taking_turns(Long, (900, 10), [0] * 30 + [1] * 30 + [0] * 10, told=True)
    first = Tracker.fresh(stall_after_ms=120_000)
    steps = watch(attempts[:50], first)
    second = Tracker.restore(first.epoch, rows_of(steps), 120_000, starts=[1.0])

    assert [None] * 10 + [SEVERAL] * 10 == [step.row.kind for step in watch(attempts[50:], second)]


def test_a_process_that_began_at_the_same_instant_is_the_same_however_its_counters_leap() -> None:
    stage = Stage()
    tracker = Tracker.fresh(stall_after_ms=120_000)
    before = [tracker.advance(one).row.kind for one in stage.play(20, running=2)]
    stage.counters[ONE]["finished_requests"] += 12_345
    after = [tracker.advance(one).row.kind for one in stage.play(20, running=2)]
    assert {None} == {*before, *after}
