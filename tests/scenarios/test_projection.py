"""The projected occupancy against what really happens when the same requests come to the other configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest

from opmon.core.answers import Projection
from opmon.core.cells import Cell
from opmon.core.recommend import LivePoint, recommend
from opmon.core.recommend.ask import Ask
from opmon.simulator.scenarios import CARD
from opmon.simulator.simulation import Scenario, Simulation
from opmon.simulator.stream import EngineConfig, Request
from opmon.simulator.traffic import Call, Client, caller
from opmon.simulator.truth import Truth
from tests.core.drafters import sweep_of

LEVELS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
REQUESTS = 4000
PROMPT = 40
# The candidate drafts more: its steps take longer, above all with many streams, and give more tokens, above all of code.
CONFIGURATIONS: dict[str, tuple[EngineConfig, dict[str, float]]] = {
    "reference": (CARD, {"code": 3.2, "prose": 2.1}),
    "candidate": (
        replace(CARD, step_ms=1.1 * CARD.step_ms, step_ms_per_stream=1.25 * CARD.step_ms_per_stream, draft_positions=7),
        {"code": 5.4, "prose": 2.6},
    ),
}
MEAN_OUTPUT = {"code": 400.0, "prose": 250.0}


@dataclass(frozen=True, slots=True)
class Play:
    """A run of one configuration, and what came of it."""

    truth: Truth
    length_ms: int

    @property
    def mean_in_system(self) -> float:
        """By Little's law, in proportion to the mean duration of a request where the same requests came."""
        return sum(level * ms for level, ms in self.truth.in_system.items()) / self.length_ms


def run(configuration: str, clients: list[Client], length_ms: int) -> Play:
    engine = CONFIGURATIONS[configuration][0]
    simulation = Simulation(Scenario("play", (engine,), lambda: clients, length_ms=length_ms))
    return Play(simulation.truth(0, length_ms), length_ms)


def swept(configuration: str, content: str) -> list[Cell]:
    """The sweep, as a load generator measures it: held concurrency, tokens of two minutes."""
    engine, acceptance = CONFIGURATIONS[configuration]
    found = []
    for level in LEVELS:
        output = round(MEAN_OUTPUT[content])
        clients = [
            caller(0, 1e9, prompt_tokens=PROMPT, output_tokens=output, acceptance_length=acceptance[content])
            for _ in range(level)
        ]
        simulation = Simulation(Scenario("steady", (engine,), lambda made=clients: made))  # type: ignore[misc]
        tokens = []
        for at_ms in (30_000, 150_000):
            simulation.advance_to(at_ms)
            tokens.append(simulation.engines[0].read().output_tokens)
        found.append(
            Cell(
                configuration,
                content=content,
                concurrency=level,
                aggregate=(tokens[1] - tokens[0]) / 120,
                prompt_tokens=PROMPT,
                output_tokens=output,
                source_file="made.csv",
            )
        )
    return found


def arrivals(seed: int, content: str, configuration: str, gap_ms: float) -> Iterable[Client]:
    """A Poisson process of requests whose answers have exponential lengths: the same for either configuration."""
    random, acceptance = Random(seed), CONFIGURATIONS[configuration][1][content]
    at_ms = 0.0
    for _ in range(REQUESTS):
        at_ms += random.expovariate(1 / gap_ms)
        output = 1 + min(4000, round(random.expovariate(1 / (MEAN_OUTPUT[content] - 1))))
        yield _once(at_ms, Request(PROMPT, output, 0, acceptance, output, "length"))


def _once(at_ms: float, request: Request) -> Client:
    yield Call(at_ms, request, waits=False)


def projected(truth: Truth, content: str, cells: list[Cell]) -> Projection:
    point = LivePoint(running=truth.running, in_system=truth.in_system, limited_ratio=0.0)
    (one,) = recommend(sweep_of(*cells), point, Ask("reference", "candidate", content, "reference")).contents
    return one.projection


@cache
def both_swept(content: str) -> list[Cell]:
    return [*swept("reference", content), *swept("candidate", content)]


@pytest.mark.parametrize("load", [0.2, 0.5])
@pytest.mark.parametrize("content", ["code", "prose"])
def test_the_projected_speed_up_is_the_one_that_comes(content: str, load: float) -> None:
    cells = both_swept(content)
    capacity = max(cell.aggregate or 0.0 for cell in cells if cell.configuration == "reference")
    gap_ms = 1000 * MEAN_OUTPUT[content] / (load * capacity)
    length_ms = round(REQUESTS * gap_ms)
    reference, candidate = (
        run(name, list(arrivals(round(100 * load), content, name, gap_ms)), length_ms) for name in CONFIGURATIONS
    )
    foretold = projected(reference.truth, content, cells)

    assert pytest.approx(reference.mean_in_system / candidate.mean_in_system, rel=0.05) == foretold.e2e_speedup_ratio
    assert pytest.approx(candidate.truth.running[0] / length_ms, abs=0.03) == foretold.idle_ratio
