"""Who calls the simulated server: persons, agents, fleets and metronomes, each a generator that waits for its answers.

A client yields `Call`s. Where `waits` is true it is sent the instant at which the answer was complete (or the server
came back after a restart); else it is resumed as soon as the call was made. Everything random comes from the
generator's own seeded source, so the same seed gives the same hour whatever else runs beside it.

Contains no engine and no clock. Instants and durations are milliseconds from the start of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from math import log
from random import Random

from opmon.simulator.stream import Request

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Call:
    """One request at one instant to one of the scenario's engines."""

    at_ms: float
    request: Request
    engine: int = 0
    waits: bool = True


Client = Generator[Call, float, None]


@dataclass(frozen=True, slots=True)
class Habit:
    """How somebody uses a server. Medians are of log-normal distributions; `*_spread` is the sd of the logarithm.

    Every turn starts with `system_tokens` (a client's system text and tool definitions); from the second turn on all
    but the new text is found in the prefix cache. `cold_ratio`: share of conversations whose first turn is not.
    """

    content: str
    acceptance_length: float
    think_ms: float
    output_tokens: float
    new_tokens: float
    system_tokens: int = 8112
    turns: int = 6
    cold_ratio: float = 0.4
    think_spread: float = 0.8
    output_spread: float = 0.6


PROSE = Habit("prose", acceptance_length=2.1, think_ms=38_000, output_tokens=377, new_tokens=180)
CODE = Habit("code", acceptance_length=4.6, think_ms=55_000, output_tokens=700, new_tokens=350)
AGENT = Habit("code", 4.6, 1_500, 300, 260, turns=8, cold_ratio=0.15, think_spread=0.6, output_spread=0.7)


def person(
    random: Random, habit: Habit, start_ms: float, end_ms: float, *, engine: int = 0, patience_ms: float | None = None
) -> Client:
    """One caller in conversations, one turn after another, from `start_ms` until no turn would begin before `end_ms`."""
    at_ms = start_ms
    while at_ms < end_ms:
        for request in _conversation(random, habit, patience_ms):
            if at_ms >= end_ms:
                return
            answered_ms = yield Call(at_ms, request, engine)
            at_ms = answered_ms + _around(random, habit.think_ms, habit.think_spread)


def caller(
    start_ms: float,
    end_ms: float,
    *,
    prompt_tokens: int,
    output_tokens: int,
    acceptance_length: float = 1.0,
    engine: int = 0,
) -> Client:
    """A benchmark's client: the next request as soon as the answer is there."""
    at_ms = start_ms
    request = Request(prompt_tokens, output_tokens, 0, acceptance_length, output_tokens, "length")
    while at_ms < end_ms:
        at_ms = yield Call(at_ms, request, engine)


def once(at_ms: float, request: Request, *, engine: int = 0) -> Client:
    """A single request."""
    yield Call(at_ms, request, engine)


def beat(start_ms: float, end_ms: float, period_ms: float, requests: list[Request], *, engine: int = 0) -> Client:
    """The same requests at the start of every period, phase-locked to the clock, whether or not the last are done."""
    at_ms = start_ms
    while at_ms < end_ms:
        for request in requests:
            yield Call(at_ms, request, engine, waits=False)
        at_ms += period_ms


def sessions(
    random: Random,
    start_ms: float,
    end_ms: float,
    per_hour: Callable[[float], float],
    session_ms: tuple[float, float],
) -> Iterator[tuple[float, float]]:
    """Starts and ends of sessions that begin at random, `per_hour(instant)` of them an hour, at most 20.

    `session_ms`: the shortest and the longest session.
    """
    most = 20.0
    at_ms = start_ms
    while True:
        at_ms += random.expovariate(most) * HOUR_MS
        if at_ms >= end_ms:
            return
        if random.random() * most < per_hour(at_ms):
            yield at_ms, min(end_ms, at_ms + random.uniform(*session_ms))


def _conversation(random: Random, habit: Habit, patience_ms: float | None) -> Iterator[Request]:
    """The turns of one conversation; each prompt holds all that came before."""
    context, cached = habit.system_tokens, 0 if random.random() < habit.cold_ratio else habit.system_tokens
    for _ in range(random.randint(max(1, habit.turns // 2), habit.turns * 3 // 2)):
        prompt = context + max(1, round(_around(random, habit.new_tokens, 0.7)))
        wanted = max(2, round(_around(random, habit.output_tokens, habit.output_spread)))
        output = min(wanted, 4096)
        acceptance = max(1.0, habit.acceptance_length * random.gauss(1.0, 0.06))
        reason = "length" if wanted > output else "stop"
        yield Request(prompt, output, cached, acceptance, 4096, reason, patience_ms)
        context, cached = prompt + output, prompt


def _around(random: Random, median: float, spread: float) -> float:
    """Log-normal about a median."""
    return random.lognormvariate(log(median), spread)
