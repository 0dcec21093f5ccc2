"""Reading a simulated page the short way, for the tests of the simulator."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from opmon.simulator.engine import Engine
from opmon.simulator.simulation import Scenario, Simulation
from opmon.simulator.stream import EngineConfig, Request, Stream

PLAIN = EngineConfig(model_name="m", max_num_seqs=8, step_ms=20.0, step_ms_per_stream=2.0, step_ms_per_prompt_token=0.1)
SECOND = 1000
MINUTE = 60_000


def samples(page: bytes) -> dict[str, float]:
    """Values by sample name, summed over all labels; buckets are left out."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            if "le" not in sample.labels:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def at(scenario: Scenario, at_ms: int) -> dict[str, float]:
    """The whole page of a fresh simulation at one instant."""
    return samples(Simulation(scenario).page(at_ms))


def run(engine: Engine, until_ms: float) -> list[Stream]:
    """Lets an engine go from event to event; returns what finished."""
    finished: list[Stream] = []
    while engine.next_event_ms <= until_ms:
        finished += engine.advance(engine.next_event_ms)
    return finished + engine.advance(until_ms)


def request(prompt: int = 100, output: int = 50, acceptance: float = 1.0, cached: int = 0) -> Request:
    """A plain request."""
    return Request(prompt, output, cached, acceptance)
