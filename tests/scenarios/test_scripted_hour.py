"""The scripted hour, watched at one pulse a second: how close opmon comes to what really ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmon.core.answers import OperatingPoint, Selector
from opmon.reports import WindowAsk
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.simulator.truth import Truth
from tests.scenarios.virtual import NAME, Observed, observe

START_MS = 1_800_000_000_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def hour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Observed, Simulation]:
    """The hour after it was watched, and the simulation that knows the truth."""
    simulation = Simulation(scenarios.scripted_hour(seed=8), start_ms=START_MS)
    folder: Path = tmp_path_factory.mktemp("hour")
    observed = observe(simulation, folder, start_ms=START_MS, end_ms=START_MS + 60 * MINUTE_MS, ceiling=128)
    return observed, simulation


def _point(observed: Observed, first_minute: float = 0, last_minute: float = 60) -> OperatingPoint:
    return observed.reports.operating_point(
        Selector(target=NAME),
        WindowAsk(None, START_MS + round(first_minute * MINUTE_MS), START_MS + round(last_minute * MINUTE_MS)),
    )


def _truth(simulation: Simulation, first_minute: float = 0, last_minute: float = 60) -> Truth:
    return simulation.truth(START_MS + round(first_minute * MINUTE_MS), START_MS + round(last_minute * MINUTE_MS))


def _worst_difference(point: OperatingPoint, truth: dict[int, int]) -> float:
    """The largest difference of a level's share of time, in shares."""
    total = sum(truth.values())
    seen = {share.level: share.ratio for share in point.running.occupancy}
    return max(abs(seen.get(level, 0.0) - truth.get(level, 0) / total) for level in seen.keys() | truth.keys())


def test_the_share_of_every_level_is_within_two_points_of_the_truth(hour: tuple[Observed, Simulation]) -> None:
    observed, simulation = hour
    assert _worst_difference(_point(observed), _truth(simulation).running) < 0.02


def test_the_five_states_sum_to_the_window(hour: tuple[Observed, Simulation]) -> None:
    coverage = _point(hour[0]).coverage
    states = (
        coverage.observed_seconds,
        coverage.down_seconds,
        coverage.invalid_seconds,
        coverage.stalled_seconds,
        coverage.gap_seconds,
    )
    assert sum(states) == pytest.approx(3600)


def test_the_frozen_stretch_is_stalled_and_not_level_106(hour: tuple[Observed, Simulation]) -> None:
    observed, simulation = hour
    frozen_seconds = _truth(simulation).state_ms("frozen") / 1000
    assert frozen_seconds > 120
    assert _point(observed).coverage.stalled_seconds == pytest.approx(frozen_seconds, abs=2)
    levels = {share.level: share.seconds for share in _point(observed, 28, 31.9).running.occupancy}
    assert levels.get(106, 0.0) == 0.0


def test_a_long_prefill_without_a_token_is_load(hour: tuple[Observed, Simulation]) -> None:
    point = _point(hour[0], 21.1, 23.4)
    assert point.coverage.ratio == 1
    assert [1] == [share.level for share in point.running.occupancy]


def test_a_minute_without_an_answer_is_down_and_not_idle(hour: tuple[Observed, Simulation]) -> None:
    point = _point(hour[0], 41.5, 43.5)
    assert point.coverage.down_seconds == pytest.approx(60, abs=2)
    assert not any(share.level == 0 for share in point.running.occupancy)


def test_a_restart_is_an_epoch_and_its_downtime_is_down(hour: tuple[Observed, Simulation]) -> None:
    point = _point(hour[0], 35, 38)
    assert point.coverage.down_seconds == pytest.approx(20, abs=2)
    assert [epoch.cause for epoch in point.epochs][-1] == "restart"
    assert any(warning.code == "epochs" for warning in point.warnings)


def test_load_that_is_locked_to_the_second_is_read_within_two_points(hour: tuple[Observed, Simulation]) -> None:
    observed, simulation = hour
    truth = _truth(simulation, 47.5, 56.5).running
    assert len(truth) > 1, "the load is on for a part of each second"
    # 540 independent samples of a coin would have a standard deviation of 2.2 points: the instants are spread for this.
    assert _worst_difference(_point(observed, 47.5, 56.5), truth) < 0.02


def test_the_fleet_reaches_the_ceiling_and_is_limited_by_it(hour: tuple[Observed, Simulation]) -> None:
    point = _point(hour[0], 16, 19)
    assert point.ceiling.requests == 128
    assert point.ceiling.reached_ratio is not None
    assert point.ceiling.reached_ratio > 0.5
    assert point.queue.limited_ratio is not None
    assert point.queue.limited_ratio > 0.5


def test_both_ways_to_the_mean_agree_while_nothing_goes_wrong(hour: tuple[Observed, Simulation]) -> None:
    point = _point(hour[0], 2, 9)
    check = next(check for check in point.checks if check.sampled is not None and check.counted is not None)
    assert check.agrees is True
    assert check.sampled == pytest.approx(check.counted, rel=0.1)


def test_the_window_is_the_same_however_it_is_cut(hour: tuple[Observed, Simulation]) -> None:
    observed, _simulation = hour
    whole = _point(observed)
    cut = [_point(observed, first, first + 7.5) for first in (0, 7.5, 15, 22.5, 30, 37.5, 45, 52.5)]
    for level in {share.level for share in whole.running.occupancy}:
        expected = sum(share.seconds for share in whole.running.occupancy if share.level == level)
        parts = sum(share.seconds for part in cut for share in part.running.occupancy if share.level == level)
        assert parts == pytest.approx(expected), level
