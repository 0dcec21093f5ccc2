"""The same path over a hostile target that others wrote, where it is there: every mode for a few strata."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from opmon.core.model import Lane, TargetRecord
from opmon.pipeline import Observer
from opmon.scrape.scraper import Scraper, ScrapeTarget
from tests.hostile.watching import INTERVAL_MS, START_MS, StratumClock
from tests.needs import NEEDS
from tests.processes import free_port

pytestmark = pytest.mark.needs("shared")

OBSERVED = ("observed",)
# What becomes of each mode in its first twelve strata; several where it changes or alternates.
EXPECTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        [
            "ok",
            "dp",
            "escaped",
            "reset",
            "exp",
            "ts",
            "crlf",
            "bom",
            "nonl",
            "utf8q",
            "om",
            "oneline",
            "gzip",
            "chunked",
            "redir",
            "old",
            "ray",
            "models",
            "swap",
            "created",
            "xss",
            "stall",
            "noct",
            "flap",
            "frozen",
        ],
        OBSERVED,
    ),
    "dpshrink": ("observed", "engine_absent"),
    "html200": ("content_type",),
    "nan": ("not_finite",),
    "inf": ("not_finite",),
    "neg": ("negative",),
    "dup": ("duplicate",),
    "huge": ("too_large",),
    "drip": ("timeout",),
    "gziptrunc": ("encoding",),
    "short": ("truncated",),
    "loop": ("redirect",),
    "empty": ("no_known_metrics",),
    "500": ("http_status",),
}
EPOCHS = {"reset": ["start", "restart"], "swap": ["start", "models"]}
STRATA = {"huge": 2, "drip": 2}
# It takes its time to make 34 MB.
DEADLINE_MS = {"huge": 20_000}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The server of others, in a process of its own."""
    script = Path(str(NEEDS["shared"].find())) / "cases" / "badtarget.py"
    port = free_port()
    with subprocess.Popen(
        [sys.executable, str(script), str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/hook/log", timeout=1).close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.mark.parametrize("mode", sorted(EXPECTED))
async def test_every_mode_is_read_right_or_refused(mode: str, address: str) -> None:
    clock, url = StratumClock(), f"{address}/{mode}/metrics"
    scraper = Scraper(ScrapeTarget(mode, url, timeout_ms=DEADLINE_MS.get(mode, 1500), max_bytes=16_000_000), clock)
    observer = Observer(TargetRecord(mode, url))
    kinds, levels, causes = Counter[str](), Counter[int](), []
    for number in range(STRATA.get(mode, 12)):
        clock.value_ms = START_MS + number * INTERVAL_MS
        lane = Lane.PULSE if number else Lane.FULL
        step = observer.observe(await scraper.scrape(clock.value_ms, INTERVAL_MS, lane)).step
        kinds[step.row.kind or step.row.state.value] += 1
        causes += [step.new_epoch.cause] if step.new_epoch else []
        if step.row.series:
            levels[sum(sample.running or 0 for sample in step.row.series.values())] += 1
    await scraper.aclose()

    assert set(EXPECTED[mode]) == set(kinds), kinds
    if EXPECTED[mode] == OBSERVED:
        assert EPOCHS.get(mode, ["start"]) == causes
    if mode == "dp":
        assert min(levels) >= 6
    if mode == "exp":
        assert {12} == set(levels)
    if "observed" not in kinds:
        assert not levels
