"""The live curve of a real server beside the sweeps that a client measured while it was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opmon.cli.main import cli
from opmon.core.beside import LevelBeside
from opmon.core.cells import Cell
from opmon.core.curve import live_curve
from opmon.core.model import View
from opmon.core.recommend.live_curve import beside
from opmon.store import Store
from opmon.store.database import Database
from opmon.sweeps.detect import read_sweep
from tests.needs import shared

LEVELS = (1, 4, 8, 16, 32)
# Each level was held for half a minute, of which pure pairs are a part. Nine seconds and not thirty, for this test alone;
# instants jitter by milliseconds, so nine of them may be 8.996 s.
SHORTEST_MS = 8_990
TARGET = "recording"


def data() -> Path:
    found = shared()
    assert found is not None
    return Path(found) / "data"


def swept(name: str) -> list[Cell]:
    """The sweep of five files, as its reader gives it."""
    cells = []
    for level in LEVELS:
        file = data() / "benchmarks" / f"vllm-0.32.0-cpu-real-{name}-c{level}.json"
        (cell,) = read_sweep(file.read_bytes(), file.name).cells
        assert (level, json.loads(file.read_text())["output_throughput"]) == (cell.concurrency, cell.aggregate)
        cells.append(cell)
    return cells


def compared(name: str, folder: Path) -> dict[float, LevelBeside]:
    database = folder / "opmon.db"
    recording = data() / "recorded" / f"{name}-scrapes.jsonl.gz"
    answer = CliRunner().invoke(cli, ["replay", str(recording), "--database", str(database), "--format", "json"])
    assert answer.exit_code == 0, answer.output
    window = json.loads(answer.stdout)["window"]
    store = Store(Database.open(str(database), read_only=True, create=False))
    (sums,) = store.window(View(TARGET), round(1000 * window["start"]), round(1000 * window["end"])).values()
    curve = live_curve(sums, shortest_ms=0)
    return {one.concurrency: one for one in beside(curve, swept(name), SHORTEST_MS)}


@pytest.mark.needs("shared")
@pytest.mark.parametrize(("name", "enough"), [("plain", (1, 4, 8, 16, 32)), ("spec", (1, 4, 8))])
def test_the_live_curve_agrees_with_the_sweep_of_the_same_minutes(
    name: str, enough: tuple[int, ...], tmp_path: Path
) -> None:
    levels = compared(name, tmp_path)
    differences = {n: one.difference_ratio for n, one in levels.items() if one.difference_ratio is not None}

    assert list(enough) == list(differences)
    assert {} == {n: one for n, one in differences.items() if abs(one) > 0.15}
    assert [True] * len(enough) == [levels[n].agrees for n in enough]
    for n in set(LEVELS) - set(enough):
        assert (None, None) == (levels[n].live_tokens_per_second, levels[n].agrees)
        assert levels[n].words.startswith("too little data: ")
