"""The scripted stretches of traffic that the demo and the tests run.

Contains configurations and scripts, no mechanics. Every scenario is a function of its seed; the same seed gives the
same traffic to the last token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from random import Random

from opmon.simulator.simulation import AbortStorm, Outage, Restart, Scenario
from opmon.simulator.stream import EngineConfig, Request
from opmon.simulator.traffic import AGENT, CODE, HOUR_MS, PROSE, Client, beat, caller, once, person, sessions

MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS

# A 27B dense model in FP8 on one card with a head that drafts five tokens: per stream 62 tok/s of prose and 137 of
# code alone, 234 and 512 in all at concurrency 8, 360 and 788 at 64; 8,112 new prompt tokens take 6.1 s.
CARD = EngineConfig(draft_positions=5)
# A small fast model with a ceiling of 128, on an old version whose gauges freeze when everything is aborted.
WIDE = EngineConfig(
    model_name="simulated-8b",
    max_num_seqs=128,
    max_model_len=262_144,
    step_ms=18.0,
    step_ms_per_stream=0.35,
    step_ms_per_prompt_token=0.75,
    aborts_freeze_gauges=True,
    prompt_kv_at_once=True,
)


def chat(seed: int = 1) -> Scenario:
    """One person chatting in prose, without end for a day."""
    quick = replace(PROSE, think_ms=8_000)
    return Scenario("chat", (CARD,), lambda: [person(Random(f"{seed}/chat"), quick, 1_000, DAY_MS)], length_ms=DAY_MS)


def steady(streams: int, *, seconds: int = 600, engine: EngineConfig = CARD, idle_seconds: int = 0) -> Scenario:
    """So many streams at once between `idle_seconds` and `seconds`, as a load generator holds them."""
    start_ms, end_ms = idle_seconds * 1000, seconds * 1000

    def clients() -> Iterable[Client]:
        return [caller(start_ms, end_ms, prompt_tokens=33, output_tokens=256) for _ in range(streams)]

    return Scenario(f"steady-{streams}", (engine,), clients, length_ms=(seconds + idle_seconds) * 1000)


def phase_locked(
    *, level: int = 4, period_ms: int = 1000, on_ms: int = 500, seconds: int = 3600, engine: EngineConfig = WIDE
) -> Scenario:
    """`level` requests at the start of every period that run for about `on_ms`, in step with the clock."""
    return Scenario(
        "phase-locked",
        (engine,),
        lambda: [_pulses(engine, 0, seconds * 1000, period_ms, level, on_ms)],
        length_ms=seconds * 1000,
    )


def two_models(seed: int = 1) -> Scenario:
    """One server with two models: a person on the one, an agent on the other."""
    other = replace(CARD, model_name="simulated-4b", engine_index="1", step_ms=9.0, draft_positions=0)

    def clients() -> Iterable[Client]:
        return [
            person(Random(f"{seed}/person"), replace(PROSE, think_ms=8_000), 0, HOUR_MS),
            person(Random(f"{seed}/agent"), AGENT, 0, HOUR_MS, engine=1),
        ]

    return Scenario("two-models", (CARD, other), clients)


def scripted_hour(seed: int = 1) -> Scenario:
    """An hour with everything in it, against a ceiling of 128. Minutes from its start:

    1 to 10 one person, from 4 on a second; 10 to 15 six agents; 15 to 20 a fleet of 150 callers, so that 22 wait;
    21 a prompt of 200,000 tokens, alone: 150 s without a token; 25 to 26.5 a person; 27 a burst of 106 long requests,
    all aborted at 27.7, the gauges freeze until 32; 32 to 42 persons, a restart of 20 s at 36; 39 to 46 four steady
    streams, nobody can reach the server from 42 to 43; 47 to 57 four requests in the first half of every second;
    57 to 60 idle.
    """
    minute = MINUTE_MS

    def clients() -> Iterable[Client]:
        talk = partial(person, habit=replace(PROSE, think_ms=12_000, system_tokens=1_500))
        yield talk(Random(f"{seed}/first"), start_ms=1 * minute, end_ms=9.5 * minute)
        yield talk(Random(f"{seed}/second"), start_ms=4 * minute, end_ms=9.5 * minute)
        for number in range(6):
            agent = replace(AGENT, system_tokens=2_000)
            yield person(Random(f"{seed}/agent{number}"), agent, 10 * minute + number * 700, 14.5 * minute)
        for number in range(150):
            yield caller(15 * minute + number * 40, 19.5 * minute, prompt_tokens=64, output_tokens=300)
        yield once(21 * minute, Request(200_000, 40))
        yield talk(Random(f"{seed}/third"), start_ms=25 * minute, end_ms=26 * minute)
        for number in range(106):
            yield once(27 * minute + number * 10, Request(64, 4000))
        yield talk(Random(f"{seed}/fourth"), start_ms=32 * minute, end_ms=41 * minute)
        yield talk(Random(f"{seed}/fifth"), start_ms=32.5 * minute, end_ms=41 * minute)
        for _ in range(4):
            yield caller(39 * minute, 45.5 * minute, prompt_tokens=33, output_tokens=256)
        yield _pulses(WIDE, 47 * minute, 57 * minute, 1000, 4, 500)

    incidents = (
        AbortStorm(27.7 * minute),
        Restart(36 * minute, 20_000),
        Outage(42 * minute, 43 * minute),
    )
    return Scenario("hour", (WIDE,), clients, incidents, length_ms=HOUR_MS)


def demo_day(seed: int = 1, *, start_ms: int = 0) -> Scenario:
    """A day of one small office with one card, and what follows it, in step with the clock (`start_ms`, Unix, UTC).

    Mostly one or two requests at once: people in prose, less at night; some code; a few agents for two hours in the
    evening. From minute 1,438 on somebody is always there, so that whoever looks after the day sees life at once.
    """

    def hour_of(at_ms: float) -> float:
        return ((start_ms + at_ms) / HOUR_MS) % 24

    length_ms = 3 * DAY_MS

    def clients() -> Iterable[Client]:
        for habit, share in ((PROSE, 1.0), (CODE, 0.35)):
            random = Random(f"{seed}/{habit.content}/sessions")
            spans = sessions(random, 0, length_ms, _office(hour_of, share), (6 * MINUTE_MS, 35 * MINUTE_MS))
            for number, (begin, end) in enumerate(spans):
                yield person(Random(f"{seed}/{habit.content}/{number}"), habit, begin, end, patience_ms=90_000)
        for day in range(-1, 4):
            evening = (day * 24 + 19.5) * HOUR_MS - start_ms % DAY_MS
            for number in range(4):
                begin = max(0.0, evening + number * 11 * MINUTE_MS)
                end = min(length_ms, evening + (95 + number * 8) * MINUTE_MS)
                if begin < end:
                    yield person(Random(f"{seed}/agent/{day}/{number}"), AGENT, begin, end)
        live = replace(PROSE, think_ms=9_000)
        yield person(Random(f"{seed}/live"), live, DAY_MS - 2 * MINUTE_MS, length_ms)

    return Scenario("demo", (CARD,), clients, length_ms=length_ms)


def _office(hour_of: Callable[[float], float], share: float) -> Callable[[float], float]:
    """Sessions an hour: few at night, most in the late morning and the afternoon."""

    def per_hour(at_ms: float) -> float:
        hour = hour_of(at_ms)
        if hour < 7:
            return 0.25 * share
        if hour < 9 or hour >= 22:
            return 2.0 * share
        return (5.0 if hour < 18 else 3.0) * share

    return per_hour


def _pulses(engine: EngineConfig, start_ms: float, end_ms: float, period_ms: float, level: int, on_ms: float) -> Client:
    """`level` requests that run for about `on_ms` from the start of each period, whatever the engine's pace."""
    prompt = 16
    prefill = engine.step_ms + engine.step_ms_per_prompt_token * prompt * level
    step = engine.step_ms + engine.step_ms_per_stream * level
    output = 1 + max(1, round((on_ms - prefill) / step))
    return beat(start_ms, end_ms, period_ms, [Request(prompt, output, finish_reason="length")] * level)


SCENARIOS: dict[str, Callable[[int], Scenario]] = {
    "chat": chat,
    "demo": demo_day,
    "hour": scripted_hour,
    "two-models": two_models,
}
