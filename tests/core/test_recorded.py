"""A real vLLM under two sweeps, second by second: what a load generator held must be what is read.

`tests/data/core/recorded-pulses.csv` holds the pulse signals of a server with 64 slots, plain and then, after a
restart, with n-gram speculation.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from pathlib import Path

import pytest

from opmon.core.answers import CeilingAnswer, EpochSpan, OperatingPoint, Selector, Window
from opmon.core.fold import fold
from opmon.core.model import Attempt, Ceiling, Lane, Row, SeriesSample, Snapshot, View
from opmon.core.operating_point import operating_point
from opmon.core.states import Step
from tests.core.stage import ONE, epochs_of, rows_of, watch

PULSES = Path(__file__).parents[1] / "data" / "core" / "recorded-pulses.csv"

# Concurrency, first and last instant of each step in Unix milliseconds, as the load generator held it.
STEPS = [
    (1, 1795964229369, 1795964263197),
    (4, 1795964263306, 1795964298870),
    (8, 1795964298967, 1795964342061),
    (16, 1795964342329, 1795964387045),
    (32, 1795964387317, 1795964424555),
    (1, 1795964459474, 1795964492837),
    (4, 1795964492934, 1795964521479),
    (8, 1795964521575, 1795964555136),
    (16, 1795964555264, 1795964589467),
    (32, 1795964589578, 1795964615085),
]


def attempt_of(line: dict[str, str]) -> Attempt:
    at_ms, took_ms = int(line.pop("at_ms")), int(line.pop("took_ms"))
    start, running, waiting = float(line.pop("process_start")), int(line.pop("running")), int(line.pop("waiting"))
    usage = float(line.pop("kv_usage_ratio"))
    sample = SeriesSample(running, waiting, usage, {name: float(value) for name, value in line.items()})
    snapshot = Snapshot("vllm", {ONE: sample}, start)
    return Attempt(at_ms - at_ms % 1000, 1000, at_ms, took_ms, Lane.PULSE, snapshot)


@cache
def steps() -> list[Step]:
    with PULSES.open(encoding="utf-8", newline="") as file:
        return watch([attempt_of(line) for line in csv.DictReader(file)])


@cache
def rows() -> list[Row]:
    return rows_of(steps())


def between(start_ms: int, end_ms: int) -> OperatingPoint:
    seconds = (end_ms - start_ms) / 1000
    spans = [EpochSpan(one.start_ms / 1000, None, one.cause, one.detail) for one in epochs_of(steps())]
    return operating_point(
        fold(rows(), start_ms, end_ms, (Ceiling(64, "set"),), View("t")),
        window=Window(start_ms / 1000, end_ms / 1000, seconds, seconds),
        selector=Selector(),
        epochs=spans,
        ceiling=CeilingAnswer(requests=64),
        pulse_interval_ms=1000,
    )


@pytest.mark.parametrize(("concurrency", "start_ms", "end_ms"), STEPS)
def test_each_step_is_read_as_the_load_generator_held_it(concurrency: int, start_ms: int, end_ms: int) -> None:
    busy = between(start_ms, end_ms).running.busy

    assert concurrency == busy.max
    assert busy.p50 in (concurrency, concurrency - 1)


def test_the_restart_between_the_sweeps_is_the_only_one() -> None:
    assert ["start", "restart"] == [epoch.cause for epoch in epochs_of(steps())]
    assert {1, 2} == {row.epoch for row in rows()}


def test_samples_and_counters_agree_on_the_mean_running() -> None:
    check = between(rows()[0].stratum_ms, rows()[-1].stratum_ms + 1000).checks[0]

    assert check.agrees is True
    assert math.isclose(check.counted or 0, check.sampled or 0, rel_tol=0.02)


def test_every_token_of_both_sweeps_is_in_a_rate() -> None:
    found = fold(rows(), 0, 2**53, (), View("t"))

    assert [460_800.0, 460_800.0] == [found[epoch].increases["generation_tokens"].total for epoch in (1, 2)]


def test_speculation_decodes_faster_at_each_concurrency() -> None:
    speeds = [between(start, end).throughput.decode_tokens_per_second_per_stream or 0 for _, start, end in STEPS]
    gains = [with_drafts / plain for plain, with_drafts in zip(speeds[:5], speeds[5:], strict=True)]

    assert all(1.2 < gain < 1.5 for gain in gains)
