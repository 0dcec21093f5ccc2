"""The timeline as the server draws it: two steps of SVG paths that need no script, and its table.

Contains geometry only. A step without observation breaks every line: gaps are never joined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from opmon.core.answers import ConcurrencyPoint, ConcurrencySeries, EpochSpan

# The plot is this high in units of its own; its width is one unit a step.
PLOT_HEIGHT = 100.0
BAND_HEIGHT = 10.0
STATES = ("observed", "stalled", "invalid", "down", "gap")
# What shows of a state that took any of a step, however little; a gap counts from this share on, because a single
# missed stratum is not news.
SMALLEST_SHOWN = 0.4
SMALLEST_GAP_RATIO = 0.02
NICE = (1, 2, 4, 5, 8, 10)
# So many marks fit beside one another; a server that restarts more often is told by the rest of the page.
MOST_MARKS = 200


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where (share of the axis), and what it says (a number, or an instant)."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class Begun:
    """An epoch that began inside the window: where (share of the axis), and its span."""

    at: float
    span: EpochSpan


@dataclass(frozen=True, slots=True)
class TableRow:
    """A coarser step, and the epochs that began in it."""

    point: ConcurrencyPoint
    begun: tuple[EpochSpan, ...]


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Paths in a box `steps` wide and PLOT_HEIGHT high. `bands`: state -> path in a box BAND_HEIGHT high."""

    steps: int
    top: float
    max_path: str
    mean_path: str
    waiting_path: str
    bands: dict[str, str]
    begun: tuple[Begun, ...]
    ceiling: float | None
    levels: tuple[Tick, ...]
    instants: tuple[Tick, ...]
    seconds: dict[str, float]
    highest: ConcurrencyPoint | None
    epochs: tuple[EpochSpan, ...]
    table: tuple[TableRow, ...]
    step_seconds: float
    chart: str


def nice_top(highest: float) -> float:
    """The smallest round number that is not below `highest`."""
    scale = 1.0
    while True:
        for step in NICE:
            if step * scale >= highest:
                return step * scale
        scale *= 10


def step_path(values: Sequence[float | None], top: float) -> str:
    """A line that holds each step's value, broken where there is none."""
    parts, drawing = [], False
    for index, value in enumerate(values):
        if value is None:
            drawing = False
            continue
        y = PLOT_HEIGHT * (1 - min(value / top, 1.0))
        parts.append(f"{'V' if drawing else f'M{index} '}{y:.2f}H{index + 1}")
        drawing = True
    return "".join(parts)


def area_path(values: Sequence[float | None], top: float) -> str:
    """The columns below such a line, each closed by itself."""
    heights = [None if v is None else PLOT_HEIGHT * min(v / top, 1.0) for v in values]
    columns = [(i, h) for i, h in enumerate(heights) if h]
    return "".join(f"M{i} {PLOT_HEIGHT:.0f}v{-h:.2f}h1v{h:.2f}z" for i, h in columns)


def shown_share(point: ConcurrencyPoint, state: str) -> float:
    """How much of the band's height a state takes in a step; 0 where it does not show."""
    lengths = {name: getattr(point, f"{name}_seconds") for name in STATES}
    total = sum(lengths.values())
    share = lengths[state] / total if total else float(state == "gap")
    if share == 0 or (state == "gap" and share < SMALLEST_GAP_RATIO):
        return 0.0
    return 1.0 if state == "observed" else max(share, SMALLEST_SHOWN)


def band_path(points: Sequence[ConcurrencyPoint], state: str) -> str:
    """The columns of a state; `observed` is the ground that the others stand on."""
    shares = [(index, shown_share(point, state)) for index, point in enumerate(points)]
    return "".join(f"M{i} {BAND_HEIGHT:.0f}v{-BAND_HEIGHT * s:.2f}h1v{BAND_HEIGHT * s:.2f}z" for i, s in shares if s)


def position(series: ConcurrencySeries) -> Callable[[float], float]:
    """Instant -> share of the axis. The axis covers whole steps."""
    start = series.points[0].start
    length = len(series.points) * series.step_seconds
    return lambda instant: (instant - start) / length


def begun_in(series: ConcurrencySeries) -> tuple[EpochSpan, ...]:
    """The epochs that begin inside the window: restarts and other changes, not the first sight of the server."""
    return tuple(e for e in series.epochs if e.cause != "start" and series.window.start < e.start < series.window.end)


def table_rows(points: Sequence[ConcurrencyPoint], spans: Sequence[EpochSpan]) -> tuple[TableRow, ...]:
    """Each step with the epochs that began in it; the steps follow one another."""
    ends = [*(point.start for point in points[1:]), float("inf")]
    return tuple(
        TableRow(point, tuple(span for span in spans if point.start <= span.start < end))
        for point, end in zip(points, ends, strict=True)
    )


def chart_data(series: ConcurrencySeries, spans: Sequence[EpochSpan]) -> str:
    """What the interactive chart draws, as JSON in columns: the same series, so picture and chart cannot differ."""
    points = series.points
    seconds = {state: [round(getattr(p, f"{state}_seconds"), 3) for p in points] for state in STATES}
    columns = {
        "window": (series.window.start, series.window.end),
        "step": series.step_seconds,
        "ceiling": series.ceiling.requests,
        "epochs": [(span.start, span.cause) for span in spans[-MOST_MARKS:]],
        "start": [p.start for p in points],
        "mean": [None if p.mean is None else round(p.mean, 4) for p in points],
        "max": [p.max for p in points],
        "waiting": [None if p.waiting_mean is None else round(p.waiting_mean, 4) for p in points],
        "seconds": seconds,
    }
    return msgspec.json.encode(columns).decode()


def timeline_view(series: ConcurrencySeries, table: ConcurrencySeries) -> TimelineView | None:
    """What the page draws; None without any step. `table` is the same window in coarser steps."""
    points = series.points
    if not points:
        return None
    tops = [p.max for p in points if p.max is not None] + [p.waiting_mean for p in points if p.waiting_mean]
    top = nice_top(max([*tops, 1]))
    ceiling, at = series.ceiling.requests, position(series)
    spans = begun_in(series)
    length = len(points) * series.step_seconds
    return TimelineView(
        steps=len(points),
        top=top,
        max_path=area_path([p.max for p in points], top),
        mean_path=step_path([p.mean for p in points], top),
        waiting_path=step_path([p.waiting_mean or None for p in points], top),
        bands={state: band_path(points, state) for state in STATES},
        begun=tuple(Begun(at(span.start), span) for span in spans[-MOST_MARKS:]),
        ceiling=1 - ceiling / top if ceiling is not None and ceiling <= top else None,
        levels=tuple(Tick(1 - share, share * top) for share in (0.5, 1.0)),
        instants=tuple(Tick(share, points[0].start + share * length) for share in (0.0, 0.25, 0.5, 0.75)),
        seconds={state: sum(getattr(p, f"{state}_seconds") for p in points) for state in STATES},
        highest=max((p for p in points if p.max is not None), key=lambda p: (p.max or 0, -p.start), default=None),
        epochs=spans,
        table=table_rows(table.points, spans),
        step_seconds=series.step_seconds,
        chart=chart_data(series, spans),
    )
