"""What noise alone makes of two configurations that are one: a verdict in under one sweep of twenty."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from random import Random
from statistics import fmean, median

import pytest

from opmon.core.cells import Cell
from opmon.core.recommend import LivePoint, recommend
from opmon.core.recommend.ratios import classify, threshold
from tests.core.drafters import ask, sweep_of

SD = 0.03
REPEATS = (1, 2, 3, 5)
SPREADS = {"one level": (4,), "several levels": (1, 4, 16)}
COLUMNS = ("per_stream", "aggregate")
EACH = 625  # of 16 strata: 10,000 trials
MOST = 0.05


def alike(rng: Random, levels: tuple[int, ...], repeats: int) -> list[Cell]:
    """Two configurations of one speed; every figure has its own noise."""

    def noisy(speed: float) -> float:
        return speed * math.exp(rng.gauss(0, SD))

    return [
        Cell(
            configuration,
            content="code",
            concurrency=level,
            aggregate=noisy(level * 100.0),
            per_stream=noisy(100.0),
            source_file="made.csv",
        )
        for configuration in ("old", "new")
        for level in levels
        for _ in range(repeats)
    ]


def point(rng: Random, levels: tuple[int, ...], column: str) -> LivePoint:
    """Load at the levels. Held back by a limit it is the aggregate that counts, else one's own stream."""
    load = {level: rng.randint(1, 1000) for level in levels}
    return LivePoint(running=load, in_system=load, limited_ratio=0.2 if column == "aggregate" else 0.0)


@pytest.fixture(scope="module")
def verdicts() -> dict[tuple[int, str, str], Counter[str]]:
    """How often each verdict was given, by stratum."""
    found = {}
    for number, (repeats, spread, column) in enumerate(product(REPEATS, SPREADS, COLUMNS)):
        rng, counted, levels = Random(number), Counter[str](), SPREADS[spread]
        for _ in range(EACH):
            cells = alike(rng, levels, repeats)
            answer = recommend(
                sweep_of(*cells),
                point(rng, levels, column),
                ask(reference="old", candidate="new", live_is=rng.choice(["reference", "candidate"])),
            )
            assert column == answer.contents[0].column
            counted[answer.verdict] += 1
        found[(repeats, spread, column)] = counted
    return found


def test_noise_of_3_percent_decides_under_one_of_twenty_sweeps(
    verdicts: dict[tuple[int, str, str], Counter[str]],
) -> None:
    total = sum(verdicts.values(), Counter[str]())

    assert 10_000 == total.total()
    assert total["switch"] + total["stay"] < MOST * 10_000


def test_no_stratum_of_sweeps_is_far_above_one_of_twenty(
    verdicts: dict[tuple[int, str, str], Counter[str]],
) -> None:
    # Two deviations of a share of one in twenty of 625; the shares themselves are measured below.
    most = EACH * MOST + 2 * math.sqrt(EACH * MOST * (1 - MOST))

    assert {} == {name: found for name, found in verdicts.items() if found["switch"] + found["stay"] > most}


@pytest.mark.parametrize("repeats", REPEATS)
def test_at_one_level_noise_decides_under_one_of_twenty_whatever_the_repeats(repeats: int) -> None:
    rng, wrong = Random(repeats), 0
    for _ in range(10_000):
        sides = [[math.exp(rng.gauss(0, SD)) for _ in range(repeats)] for _ in range(2)]
        ratio = median(sides[1]) / median(sides[0])
        wrong += classify(ratio, ratio, threshold(*sides).delta) in ("switch", "stay")

    assert 0.01 * 10_000 < wrong < MOST * 10_000


def test_from_three_repeats_on_smaller_differences_are_found() -> None:
    """The mean threshold of 2,000 sweeps whose noise is the assumed one, to half a percent."""
    rng, means = Random(1), {}
    for repeats in REPEATS:
        sides = [[[math.exp(rng.gauss(0, SD)) for _ in range(repeats)] for _ in range(2)] for _ in range(2000)]
        means[repeats] = fmean(threshold(*two).delta for two in sides)

    assert pytest.approx({1: 0.085, 2: 0.087, 3: 0.067, 5: 0.055}, abs=0.005) == means
