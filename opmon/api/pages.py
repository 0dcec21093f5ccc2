"""The page of a target: the query becomes asks, reports answer, the templates show it.

Contains no numbers of its own. One part that fails says so in its place; the others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import HTMLResponse, Response

from opmon.api import condition_view, curve_view, level_view, sweep_view, timeline_view, verdict_view
from opmon.api.asks import PageQuery
from opmon.api.conditional import conditional, entity_tag
from opmon.api.door import Door, Parts
from opmon.api.problems import refuse_repeated
from opmon.api.rendering import render
from opmon.core.answers import (
    ConcurrencyPoint,
    OperatingPoint,
    Recommendation,
    SweepAnswer,
    TargetStatus,
)
from opmon.core.model import FIVE_MINUTES_MS, HOUR_MS
from opmon.core.units import format_duration
from opmon.errors import NotFound, OpmonError
from opmon.reports import STEPS_MS, WindowAsk

router = APIRouter(include_in_schema=False, dependencies=[Depends(refuse_repeated)])
# What a preset is called, and the same duration in its shortest form.
WINDOWS = (("1h", "1h"), ("6h", "6h"), ("24h", "1d"), ("7d", "7d"), ("30d", "30d"))
TABLE_ROWS = 24
PICTURE_STEPS = 400
NOW_WINDOW = WindowAsk(window_ms=60_000)
NOW_STEP_MS = 5_000
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Shown(Generic[Part]):
    """A part of the page, or why it is missing."""

    value: Part | None
    problem: str = ""


def attempt(compute: Callable[[], Part]) -> Shown[Part]:
    """The part, or the words of the error that stands in its place."""
    try:
        return Shown(compute())
    except OpmonError as error:
        return Shown(None, str(error))


@dataclass(frozen=True, slots=True)
class Address:
    """The page's own address: everything that it shows is in it."""

    asked: PageQuery

    def query(self, **changes: str | None) -> str:
        """The query with some values changed; None takes one away."""
        given = {**self.asked.model_dump(exclude_unset=True, exclude={"format"}), **changes}
        return urlencode({k: v for k, v in given.items() if v not in (None, "", [])}, doseq=True)

    def link(self, **changes: str | None) -> str:
        """A link to this page with some values changed."""
        return f"?{self.query(**changes)}"

    def window_link(self, window: str) -> str:
        """The same, for a window that ends now."""
        return self.link(window=window, start=None, end=None)

    def data_query(self, step_seconds: float, target: str) -> str:
        """The query of /api/v1/concurrency for the same servers and window."""
        names = ("model", "engine_index", "job", "label", "epoch", "window", "start", "end")
        given = {name: getattr(self.asked, name) for name in names if name in self.asked.model_fields_set}
        return urlencode(given | {"target": target, "step": f"{step_seconds:g}s"}, doseq=True)


def chosen_window(asked: PageQuery, point: OperatingPoint | None) -> str | None:
    """The window that is shown, as a duration; None where it is a range of its own."""
    if asked.start or asked.end:
        return None
    if asked.window or point is None:
        return asked.window
    return format_duration(round(point.window.requested_seconds * 1000))


def chosen_target(targets: tuple[TargetStatus, ...], name: str | None) -> TargetStatus | None:
    """The named target, or the first. None where nothing is watched. Raises NotFound naming those that are."""
    if name is None:
        return targets[0] if targets else None
    for target in targets:
        if target.name == name:
            return target
    names = ", ".join(target.name for target in targets) or "none"
    message = f"no target is called {name!r}; watched are: {names}"
    raise NotFound(message)


def chosen_sweep(parts: Parts, name: str | None) -> SweepAnswer | None:
    """The named sweep, or the one imported last; None without any."""
    stored = parts.reports.sweeps()
    newest = max(stored, key=lambda one: max((i.imported for i in one.imports), default=0.0), default=None)
    wanted = name or (newest.name if newest else None)
    return parts.reports.sweep(wanted) if wanted is not None else None


def latest(points: tuple[ConcurrencyPoint, ...]) -> ConcurrencyPoint | None:
    """The last step in which something was observed."""
    return next((point for point in reversed(points) if point.observed_seconds > 0), None)


def steps_of(length_ms: float, raw_step_ms: int) -> tuple[int, int]:
    """The step of the picture and that of its table.

    Longer windows take whole roll-ups: those are there, while shorter steps would be folded from every sample anew
    with each look at the page.
    """
    at_least = raw_step_ms if length_ms <= HOUR_MS else FIVE_MINUTES_MS
    allowed = [step for step in STEPS_MS if step >= at_least]
    picture = next((step for step in allowed if step * PICTURE_STEPS >= length_ms), allowed[-1])
    table = next((step for step in allowed if step * TABLE_ROWS >= length_ms and step >= picture), allowed[-1])
    return picture, table


def timeline(
    parts: Parts, point: OperatingPoint, target: TargetStatus, asked: PageQuery
) -> timeline_view.TimelineView | None:
    """The timeline of the operating point's window, with its table."""
    selector, window = asked.selector(), asked.window_ask()
    length_ms = (point.window.end - point.window.start) * 1000
    picture, table = steps_of(length_ms, round(target.pulse_interval_seconds * 1000))
    return timeline_view.timeline_view(
        parts.reports.concurrency(selector, window, picture), parts.reports.concurrency(selector, window, table)
    )


def pair_of(sweep: SweepAnswer, answer: Recommendation | None) -> tuple[str, str] | None:
    """Reference and candidate: as recommended, else the first two of the sweep."""
    if answer is not None:
        return (answer.reference, answer.candidate)
    names = sweep.configurations
    return (names[0], names[1]) if len(names) > 1 else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sweep part of the page."""

    sweep: Shown[SweepAnswer | None]
    answer: Shown[Recommendation]
    names: tuple[str, ...]

    def marks(self, point: OperatingPoint | None) -> level_view.Marks:
        """What of the sweep and of the ceiling stands on the axis of levels."""
        contents = self.answer.value.contents if self.answer.value else ()
        return level_view.Marks(
            ceiling=point.ceiling.requests if point else None,
            measured=sweep_view.measured_levels(self.sweep.value) if self.sweep.value else (),
            cells=tuple(
                one.cell.concurrency for one in contents if one.cell is not None and one.cell.concurrency is not None
            ),
        )

    def tables(self) -> list[sweep_view.SweepTable]:
        """The sweep, content by content."""
        sweep, answer = self.sweep.value, self.answer.value
        pair = pair_of(sweep, answer) if sweep is not None else None
        if sweep is None or pair is None:
            return []
        return [sweep_view.sweep_table(sweep, content, answer, pair) for content in sweep.contents]


def compare(parts: Parts, asked: PageQuery) -> Comparison:
    """The sweep and the recommendation from it, each with its own problem."""
    sweep = attempt(lambda: chosen_sweep(parts, asked.sweep))
    answer: Shown[Recommendation] = Shown(None)
    if sweep.value is not None:
        name = sweep.value.name
        answer = attempt(lambda: parts.reports.recommendation(asked.ask(name)))
    return Comparison(sweep, answer, tuple(one.name for one in parts.reports.sweeps()))


def timeline_of(
    parts: Parts, point: Shown[OperatingPoint], target: TargetStatus, asked: PageQuery
) -> Shown[timeline_view.TimelineView | None]:
    """The timeline, or why it is missing: without an operating point for the same reason as that."""
    known = point.value
    return Shown(None, point.problem) if known is None else attempt(lambda: timeline(parts, known, target, asked))


def page_of(parts: Parts, asked: PageQuery, target: TargetStatus, now: float) -> Mapping[str, Any]:
    """Everything that the template of a target shows."""
    selector, window = asked.selector(), asked.window_ask()
    point = attempt(lambda: parts.reports.operating_point(selector, window))
    comparison = compare(parts, asked)
    return {
        "target": target,
        "conditions": condition_view.conditions(target, point.value, now),
        "old_after": condition_view.old_after_seconds(target),
        "point": point,
        "window": chosen_window(asked, point.value),
        "now_running": attempt(lambda: latest(parts.reports.concurrency(selector, NOW_WINDOW, NOW_STEP_MS).points)),
        "levels": level_view.level_view(point.value, asked.of, comparison.marks(point.value)) if point.value else None,
        "timeline": timeline_of(parts, point, target, asked),
        "comparison": comparison,
        "answer": comparison.answer.value,
        "headline": verdict_view.headline(comparison.answer.value) if comparison.answer.value else "",
        "strips": [verdict_view.strips(one) for one in comparison.answer.value.contents]
        if comparison.answer.value
        else [],
        "tables": comparison.tables(),
        "curves": curve_view.curve_views(comparison.answer.value),
    }


def show(request: Request, parts: Parts, asked: PageQuery, name: str | None) -> Response:
    """The page of one target, or the page that says how to begin."""
    targets = parts.reports.targets()
    target = chosen_target(targets, name or asked.target)
    address = Address(asked)
    if target is not None:
        asked = asked.model_copy(update={"target": target.name})
    progress = parts.reports.progress()
    version = parts.reports.version_tag(asked.selector(), asked.window_ask())
    tag = entity_tag(request, version, repr(progress), parts.files.digest)
    now = parts.reports.now_ms() / 1000
    context: dict[str, Any] = {
        "targets": targets,
        "target": None,
        "conditions": [condition_view.nothing_watched()],
        "address": address,
        "asked": asked,
        "windows": WINDOWS,
        "progress": progress,
        "now": now,
        "tag": tag,
    }

    def make() -> bytes:
        found = page_of(parts, asked, target, now) if target is not None else {}
        page = render(request, "target.html" if target is not None else "empty.html", **(context | dict(found)))
        return bytes(page.body)

    return conditional(request, tag, lambda: HTMLResponse(parts.pages.body(tag, make)))


@router.api_route("/", methods=["GET", "HEAD"])
def index(request: Request, asked: Annotated[PageQuery, Query()], parts: Door) -> Response:
    """The first target, or the one in the query."""
    return show(request, parts, asked, None)


@router.api_route("/targets/{name:path}", methods=["GET", "HEAD"])
def target_page(name: str, request: Request, asked: Annotated[PageQuery, Query()], parts: Door) -> Response:
    """One target by name."""
    return show(request, parts, asked, name)
