"""The example sweep and the occupancy that the worked numbers of the definitions are about."""

from __future__ import annotations

from typing import Any

from opmon.core.answers import ContentAnswer, Recommendation
from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.recommend import Ask, LivePoint, recommend
from opmon.sweeps.detect import example_sweep_bytes, read_sweep

REFERENCE, CANDIDATE = "fp8-mtp5", "int8-dflash7"
OCCUPANCY = {1: 800_000, 2: 120_000, 4: 80_000}
WITH_IDLE = {0: 600_000, 1: 240_000, 2: 36_000, 4: 24_000}
EXAMPLE = Sweep("example-drafters", (read_sweep(example_sweep_bytes(), "example-drafters.csv"),))


def live(occupancy: dict[int, int] | None = None, **known: Any) -> LivePoint:
    """A live point in which running and in system are alike."""
    levels = OCCUPANCY if occupancy is None else occupancy
    return LivePoint(running=levels, in_system=levels, **known)


def sweep_of(*cells: Cell) -> Sweep:
    """A sweep of one file."""
    return Sweep("made", (SweepImport("made.csv", "", "table", 1, 0, cells),))


def ask(**said: Any) -> Ask:
    """An ask, shorter."""
    return Ask(**said)


def example(occupancy: dict[int, int] | None = None, **said: Any) -> Recommendation:
    """The recommendation for the example sweep."""
    return recommend(EXAMPLE, live(occupancy), ask(**said))


def content_of(answer: Recommendation, content: str) -> ContentAnswer:
    """The answer for one content."""
    return next(one for one in answer.contents if one.content == content)
