"""Scenes for the HTTP surface: a door fed from answers that were made from occupancies by the real arithmetic.

Contains no store and no scraping: those are tested behind the same door elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from opmon.core import answers as a
from opmon.core.beside import LevelBeside
from opmon.core.cells import Sweep, SweepImport
from opmon.core.client_turns import ClientTurns, TurnSums, client_turns
from opmon.core.occupancy import distribution
from opmon.core.recommend.claim import claim
from opmon.core.recommend.claimed import Claim
from opmon.core.recommend.live_curve import beside
from opmon.core.recommend.quote import ClaimAsk
from opmon.core.saving import Saving, SavingAsk, saving
from opmon.errors import InvalidWindow, NotFound
from opmon.reports import RecommendationAsk, WindowAsk
from opmon.sweeps.detect import example_sweep_bytes, read_sweep

NOW = 1_795_973_400.0
HOUR = 3600.0
DAY = 24 * HOUR
AGENT = {0: 600_000, 1: 240_000, 2: 36_000, 4: 24_000}
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{7*7}}"


def status(name: str = "gpu-1:8000", **changes: Any) -> a.TargetStatus:
    """A healthy target, changed."""
    one = a.TargetStatus(
        name=name,
        url=f"http://{name}/metrics",
        job="vllm",
        labels={"site": "north"},
        health="up",
        state="observed",
        engine="vllm",
        version="0.32.0",
        models=("qwen3-32b",),
        engine_indexes=("0",),
        epoch_start=NOW - 3 * DAY,
        last_scrape=NOW - 1,
        last_error="",
        missing=("prefix_cache",),
        form="filtered",
        pulse_interval_seconds=1.0,
        full_interval_seconds=30.0,
        last_scrape_seconds=0.0031,
        last_scrape_bytes=1480,
        ceiling=a.CeilingAnswer(64, 64, "configured", 41.2),
    )
    return replace(one, **changes)


def window(seconds: float = 7 * DAY, asked: float | None = None) -> a.Window:
    """A window that ends now."""
    return a.Window(NOW - seconds, NOW, seconds, asked or seconds)


def operating_point(
    occupancy: dict[int, int] | None = None, waiting: dict[int, int] | None = None, **changes: Any
) -> a.OperatingPoint:
    """The point of an occupancy in milliseconds."""
    kept = AGENT if occupancy is None else occupancy
    observed = sum(kept.values())
    length = max(observed * 1.02, 60_000) / 1000
    running = distribution(kept, observed)
    one = a.OperatingPoint(
        window=a.Window(NOW - length, NOW, length, 7 * DAY),
        selector=a.Selector(),
        sentence="1 to 4 requests at once for 100 % of the busy time (median 1, p95 4, max 4); "
        "the ceiling of 64 was never reached",
        coverage=a.Coverage(observed / 1000 / length, observed / 1000, 0.0, 0.0, 0.0, length - observed / 1000),
        epochs=(a.EpochSpan(NOW - 3 * DAY, NOW - DAY, "first"), a.EpochSpan(NOW - DAY, None, "restart")),
        ceiling=a.CeilingAnswer(64, 64, "configured", 41.2, 0.0),
        running=running,
        in_system=running,
        waiting=distribution(waiting or {0: observed}, observed) if observed else a.Distribution(),
        queue=a.Queue(0.002, 0.0, 0.002, 0.0),
        throughput=a.Throughput(31.4, 94.2, 311.0, 92.6, 0.021, 0.0),
        lengths=a.Lengths(a.Spread(8112.0, 7300.0, 21000.0), a.Spread(780.0, 512.0, 2048.0, ("p95",))),
        latency=a.Latency(
            ttft_seconds=a.Spread(6.084, 5.2, 14.8),
            itl_seconds=a.Spread(0.0112, 0.0102, 0.0214),
            e2e_seconds=a.Spread(16.1, 12.0, 40.0, ("p95",)),
            queue_seconds=a.Spread(0.004, 0.0, 0.1),
            prefill_seconds=a.Spread(6.01, 5.1, 14.6),
            decode_seconds=a.Spread(10.003, 8.0, 26.0),
        ),
        speculation=a.Speculation(3.273, 0.455),
        prefix_cache=a.PrefixCache(0.61),
        checks=(
            a.Check(
                "mean_running", True, 0.453, 0.447, "the sampled mean against the one from the counters, 1 s pulses"
            ),
            a.Check("token_rate", None, None, 31.4, "no sample with tokens and zero running"),
        ),
        warnings=(a.Warning_("epochs", "the window spans 2 epochs; counters are not joined across the restart"),),
    )
    return replace(one, **changes)


def series(length: float, step: float, *, breaks: bool = True) -> a.ConcurrencySeries:
    """A day of an agent: bursts, a gap, a down stretch and a restart."""
    count = math.ceil(length / step)
    points = []
    for index in range(count):
        at = index / count
        start = NOW - length + index * step
        if breaks and 0.40 <= at < 0.44:
            points.append(a.ConcurrencyPoint(start, None, None, None, 0, 0, 0, 0, step))
        elif breaks and 0.70 <= at < 0.72:
            points.append(a.ConcurrencyPoint(start, None, None, None, 0, step, 0, 0, 0))
        else:
            stalled = step * 0.3 if breaks and 0.80 <= at < 0.81 else 0.0
            mean = max(0.0, 1.1 * math.sin(at * 37) + 0.9 * math.sin(at * 11 + 1))
            waiting = max(0.0, mean - 1.6)
            points.append(
                a.ConcurrencyPoint(start, mean, math.ceil(mean * 2), waiting, step - stalled, 0, 0, stalled, 0)
            )
    restart = "the process started +86400 s from the one before"
    epochs = (
        a.EpochSpan(NOW - 9 * DAY, NOW - 0.3 * length, "start"),
        a.EpochSpan(NOW - 0.3 * length, None, "restart", restart),
    )
    ceiling = a.CeilingAnswer(64, 64, "configured", 41.2)
    return a.ConcurrencySeries(window(length), a.Selector(), step, tuple(points), ceiling, epochs)


def sweep() -> a.SweepAnswer:
    """The example sweep of two drafters."""
    table: dict[str, list[tuple[float, float, float | None, float, float | None]]] = {
        "code": [(1, 122.6, 137.4, 111.2, 194.5), (8, 274.7, None, 708.4, None), (32, 554.3, None, 714.5, None)],
        "prose": [(1, 62.2, None, 69.0, None), (8, 289.0, None, 302.0, None), (32, 340.5, None, 308.5, None)],
    }
    cells = [
        a.CellAnswer(name, content, c, "declared", 33, None, aggregate, per_stream, None, None, None, None, row)
        for content, rows in table.items()
        for row, (c, old, old_stream, new, new_stream) in enumerate(rows)
        for name, aggregate, per_stream in (("fp8-mtp5", old, old_stream), ("int8-dflash7", new, new_stream))
    ]
    one = a.SweepImportAnswer("example-drafters.csv", "0" * 64, "table", 1, NOW - DAY, 580)
    return a.SweepAnswer("example-drafters", ("fp8-mtp5", "int8-dflash7"), ("code", "prose"), (one,), tuple(cells))


def content_answer(content: str, verdict: str, **changes: Any) -> a.ContentAnswer:
    """The answer for one content."""
    one = a.ContentAnswer(
        content=content,
        share_ratio=None,
        verdict=verdict,
        reasons=(f"per-stream speed at concurrency 1 decides for {content}",),
        cell=a.CellRef(1.0, content, 33.0, None),
        weight_at_cells_ratio=0.588,
        weight_between_ratio=0.412,
        weight_outside_ratio=0.0,
        column="per_stream",
        column_reason="p90 of in-system requests (4) is below the knee (6.29), and 0 % of busy time was limited",
        knee_requests=a.KneePair(a.Knee(29.4, "exact"), a.Knee(6.29, "exact")),
        columns=a.Columns(
            a.ColumnAnswer(137.4, 194.5, 1.416, 1.42, 1.31, 1.55, 0.588),
            a.ColumnAnswer(122.6, 111.2, 0.907, 1.31, 0.91, 2.58, 1.0),
        ),
        threshold_ratio=0.085,
        threshold_source="assumed: no repeats, 3 % a run",
        whole_turn=None,
        other_readings=(
            a.OtherReading("ceiling", 64.0, "aggregate", 1.07, "no_difference"),
            a.OtherReading("best_cell", 8.0, "aggregate", 2.58, "switch"),
        ),
        mismatches=(a.Mismatch("prompt_tokens", 33.0, 8112.0, 7.94),),
        projection=a.Projection(1, 3, 0.71, 1.2, 1.0),
    )
    return replace(one, **changes)


def recommendation(verdict: str = "switch", **changes: Any) -> a.Recommendation:
    """A verdict for code, and none for prose."""
    point = operating_point()
    summary = a.OperatingPointSummary(
        point.sentence, 0.98, point.window.seconds, point.in_system, 0.0, 8112.0, 780.0, 64
    )
    prose = content_answer(
        "prose",
        "undecided",
        columns=a.Columns(a.ColumnAnswer(), a.ColumnAnswer(62.2, 69.0, 1.109, 1.08, 1.045, 1.109, 1.0)),
        column="aggregate",
        reasons=("no per-stream figure was measured for prose, so there is no evidence in the column that applies",),
    )
    commands = {
        "vllm bench serve": "vllm bench serve --backend openai --base-url http://gpu-1:8000 --max-concurrency 2 "
        "--random-input-len 8112 --random-output-len 780 --num-prompts 20",
        "guidellm": "guidellm benchmark --target http://gpu-1:8000 --rate-type concurrent --rate 2",
    }
    one = a.Recommendation(
        operating_point=summary,
        sweep="example-drafters",
        reference="fp8-mtp5",
        candidate="int8-dflash7",
        live_is="reference",
        verdict=verdict,
        reasons=(
            "at 1 to 4 requests at once the per-stream column applies, and there the candidate is 1.42 times as fast",
        ),
        combined=None,
        contents=(content_answer("code", verdict), prose),
        measure_next=(a.MeasureNext(2, "code", 8112, 780, commands),),
        warnings=(a.Warning_("unknown_fields", "hardware and tool are unknown on both sides; taken as equal"),),
    )
    return replace(one, **changes)


@dataclass
class Scene:
    """A door whose answers can be set; it counts what it computed."""

    all_targets: tuple[a.TargetStatus, ...] = field(default_factory=lambda: (status(),))
    point: a.OperatingPoint = field(default_factory=operating_point)
    stored: dict[str, a.SweepAnswer] = field(default_factory=lambda: {"example-drafters": sweep()})
    answer: a.Recommendation | Exception = field(default_factory=recommendation)
    breaks: bool = True
    version: int = 1
    share: float | None = None
    computed: int = 0
    now: float = NOW
    asks: list[tuple[a.Selector, WindowAsk]] = field(default_factory=list)

    @property
    def progress(self) -> Callable[[], float | None]:
        return lambda: self.share

    def now_ms(self) -> int:
        return round(self.now * 1000)

    def version_tag(self, selector: a.Selector, ask: WindowAsk) -> str:
        self._check(selector, ask)
        return f"{self.version}-{selector}-{ask}"

    def targets(self) -> tuple[a.TargetStatus, ...]:
        return self.all_targets

    def operating_point(self, selector: a.Selector, ask: WindowAsk) -> a.OperatingPoint:
        self._check(selector, ask)
        self.computed += 1
        return replace(self.point, selector=selector)

    def concurrency(self, selector: a.Selector, ask: WindowAsk, step_ms: int | None) -> a.ConcurrencySeries:
        self._check(selector, ask)
        length = min((ask.window_ms or 7 * 86_400_000) / 1000, self.point.window.seconds)
        return series(length, (step_ms or 0) / 1000 or length / 300, breaks=self.breaks and length > 60)

    def curve(self, selector: a.Selector, ask: WindowAsk) -> tuple[a.CurvePoint, ...]:
        self._check(selector, ask)
        return (a.CurvePoint(1, 240.0, 0.9, 118.0, 118.0, 121.0),)

    def curve_beside(self, selector: a.Selector, ask: WindowAsk, sweep: str) -> tuple[LevelBeside, ...]:
        self._check(selector, ask)
        self.sweep(sweep)
        return beside(self.curve(selector, ask), read_sweep(example_sweep_bytes(), "example-drafters.csv").cells)

    def recommendation(self, ask: RecommendationAsk) -> a.Recommendation:
        self.sweep(ask.sweep)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def sweeps(self) -> tuple[a.SweepAnswer, ...]:
        return tuple(replace(one, cells=()) for one in self.stored.values())

    def sweep(self, name: str) -> a.SweepAnswer:
        if name not in self.stored:
            message = f"no sweep is called {name!r}; there are: {', '.join(self.stored) or 'none'}"
            raise NotFound(message)
        return self.stored[name]

    def turn(
        self,
        *,
        ttft_seconds: float,
        decode_seconds: float,
        speedup_ratio: float,
        measured: str = "after",
        ttft_ratio: float = 1.0,
    ) -> a.Turn:
        after = ttft_seconds + decode_seconds
        before = ttft_seconds * ttft_ratio + decode_seconds * speedup_ratio
        return a.Turn(before / after, measured, ttft_ratio, before, after, ttft_seconds / after)

    def claim(self, ask: RecommendationAsk, quote: ClaimAsk) -> Claim:
        answer = self.recommendation(ask)
        read = read_sweep(example_sweep_bytes(), "example-drafters.csv")
        return claim(Sweep(ask.sweep, (read,)), quote, answer)

    def saving(self, ask: SavingAsk) -> Saving:
        return saving(ask)

    def client_turns(self, selector: a.Selector, ask: WindowAsk) -> ClientTurns:
        self._check(selector, ask)
        one = TurnSums("gpu-1:8000", "qwen3-32b", "editor", 1, 6_084_000, 10_003_000, 780, 8_112, first_ms=1, last_ms=1)
        return client_turns((one,), window(), selector)

    def take_in(self, name: str, read: SweepImport) -> None:
        one = a.SweepImportAnswer(
            read.file_name, read.sha256, read.reader, read.reader_version, read.imported_ms / 1000, read.size_bytes
        )
        self.stored[name] = replace(sweep(), name=name, imports=(one,))
        self.version += 1

    def remove(self, name: str) -> None:
        self.sweep(name)
        del self.stored[name]
        self.version += 1

    def _check(self, selector: a.Selector, ask: WindowAsk) -> None:
        self.asks.append((selector, ask))
        if selector.target is not None and selector.target not in {t.name for t in self.all_targets}:
            message = f"no target matches; there are targets {', '.join(t.name for t in self.all_targets)}"
            raise NotFound(message)
        if ask.start_ms is not None and ask.end_ms is not None and ask.start_ms >= ask.end_ms:
            message = "the window ends before it starts"
            raise InvalidWindow(message)
