"""The one door: every surface asks here, so no two can disagree on a number.

Contains selection of targets and windows, memoising, and the joining of pure functions; no SQL, no HTTP, no formula.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from opmon.clock import Clock
from opmon.core import answers
from opmon.core.answers import CeilingAnswer, EpochSpan, OperatingPoint, Selector, Window
from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.curve import live_curve
from opmon.core.model import MINUTE_MS, Ceiling, Epoch, TargetRecord, View
from opmon.core.occupancy import mean as occupancy_mean
from opmon.core.operating_point import operating_point
from opmon.core.recommend import Ask, live_point, recommend
from opmon.core.source import Source
from opmon.core.sums import Sums, TimelinePoint, add
from opmon.core.turn import turn
from opmon.errors import ConfigError, InvalidWindow, NotFound

DEFAULT_WINDOW_MS = 7 * 86_400_000
MAX_POINTS = 11_000
DEFAULT_POINTS = 400
# Samples reach the database within this time of their stratum's end; a relative window does not reach past it, or its
# last seconds would look like a gap.
COMMIT_LAG_MS = 3_000
FINE_GRID_MS, COARSE_GRID_MS, FINE_GRID_UP_TO_MS = 5_000, MINUTE_MS, 3_600_000
STEPS_MS = tuple(
    1000 * seconds
    for seconds in (1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
)
MEMO_ENTRIES = 256

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class WindowAsk:
    """`window_ms` back from now, or `start_ms` to `end_ms` (either end may be left out)."""

    window_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RecommendationAsk:
    """What /api/v1/recommendation and `opmon recommend` can say. `window` and `selector` as elsewhere."""

    sweep: str
    reference: str | None = None
    candidate: str | None = None
    content: str | None = None
    live_is: str | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    ttft_seconds: float | None = None
    decode_seconds: float | None = None
    measured: str | None = None
    ceiling: int | None = None
    selector: Selector = Selector()
    window: WindowAsk = WindowAsk()


class SweepSource(Protocol):
    """Where stored sweeps come from."""

    def sweeps(self) -> Sequence[Sweep]:
        """All sweeps, by name."""
        ...

    def sweep(self, name: str) -> Sweep:
        """One sweep; raises NotFound naming those that exist."""
        ...


class ReportSource(Source, SweepSource, Protocol):
    """What reports need: observations and sweeps."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The targets and the window that an ask resolves to."""

    targets: tuple[TargetRecord, ...]
    start_ms: int
    end_ms: int
    requested_ms: int

    @property
    def window(self) -> Window:
        return Window(
            self.start_ms / 1000,
            self.end_ms / 1000,
            (self.end_ms - self.start_ms) / 1000,
            self.requested_ms / 1000,
        )


class Reports:
    """Answers questions from a source. Safe to call from several threads."""

    def __init__(
        self,
        source: ReportSource,
        clock: Clock,
        *,
        default_window_ms: int = DEFAULT_WINDOW_MS,
        generation: int = 0,
        progress: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._default_window_ms = default_window_ms
        self._generation = generation
        self._memo: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.Lock()
        self.progress = progress

    def now_ms(self) -> int:
        """The instant that relative windows are taken from."""
        return self._clock.now_ms()

    def version_tag(self, selector: Selector, ask: WindowAsk) -> str:
        """Equal tags mean equal answers: selector, window, last commit and configuration generation."""
        chosen = self._choose(selector, ask)
        return f"{self._source.commit_number()}-{self._generation}-{chosen.start_ms}-{chosen.end_ms}"

    def targets(self) -> tuple[answers.TargetStatus, ...]:
        """Every target and how it is, by name."""
        commit = self._source.commit_number()
        return self._remember(("targets", commit), lambda: tuple(self._status(t) for t in self._source.targets()))

    def operating_point(self, selector: Selector, ask: WindowAsk) -> OperatingPoint:
        """Where the selected servers run, over the window. Raises NotFound and InvalidWindow."""
        chosen = self._choose(selector, ask)
        return self._remember(
            ("operating_point", selector, chosen.start_ms, chosen.end_ms, chosen.requested_ms),
            lambda: self._operating_point(selector, chosen),
        )

    def concurrency(self, selector: Selector, ask: WindowAsk, step_ms: int | None) -> answers.ConcurrencySeries:
        """Running and waiting over time. Without a step, one that gives a few hundred points."""
        chosen = self._choose(selector, ask)
        length = chosen.end_ms - chosen.start_ms
        views = self._views(selector, chosen.targets)
        finest_ms = max((self._source.finest_step_ms(view, chosen.start_ms) for view in views), default=1)
        step = max(step_ms or next((s for s in STEPS_MS if s * DEFAULT_POINTS >= length), STEPS_MS[-1]), finest_ms)
        if length / step > MAX_POINTS:
            message = (
                f"a step of {step / 1000:g} s over this window gives more than {MAX_POINTS} points; take a longer one"
            )
            raise InvalidWindow(message)
        return self._remember(
            ("concurrency", selector, chosen.start_ms, chosen.end_ms, step),
            lambda: self._concurrency(selector, chosen, step),
        )

    def curve(self, selector: Selector, ask: WindowAsk) -> tuple[answers.CurvePoint, ...]:
        """The server's own speed at each level, in the current epoch."""
        chosen = self._choose(selector, ask)
        return self._remember(
            ("curve", selector, chosen.start_ms, chosen.end_ms),
            lambda: live_curve(self._current_sums(selector, chosen)),
        )

    def recommendation(self, ask: RecommendationAsk) -> answers.Recommendation:
        """Which cell and column of the sweep apply to the selected servers, and the verdict."""
        chosen = self._choose(ask.selector, ask.window)
        return self._remember(
            ("recommendation", ask, chosen.start_ms, chosen.end_ms), lambda: self._recommendation(ask)
        )

    def sweeps(self) -> tuple[answers.SweepAnswer, ...]:
        """The stored sweeps, without their cells."""
        return tuple(replace(sweep_answer(sweep), cells=()) for sweep in self._source.sweeps())

    def sweep(self, name: str) -> answers.SweepAnswer:
        """A stored sweep with its cells. Raises NotFound."""
        return sweep_answer(self._source.sweep(name))

    def turn(
        self,
        *,
        ttft_seconds: float,
        decode_seconds: float,
        speedup_ratio: float,
        measured: str = "after",
        ttft_ratio: float = 1.0,
    ) -> answers.Turn:
        """The turn calculator."""
        return turn(ttft_seconds, decode_seconds, speedup_ratio, measured, ttft_ratio)

    # --- how ------------------------------------------------------------------------------------------------------

    def _remember(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        """The answer from memory while nothing was committed since, else computed."""
        full_key = (key, self._source.commit_number(), self._generation)
        with self._lock:
            if full_key in self._memo:
                self._memo.move_to_end(full_key)
                return cast("Answer", self._memo[full_key])
        answer = compute()
        with self._lock:
            self._memo[full_key] = answer
            while len(self._memo) > MEMO_ENTRIES:
                self._memo.popitem(last=False)
        return answer

    def _choose(self, selector: Selector, ask: WindowAsk) -> _Chosen:
        """The targets that match, and the window on its grid, clipped to the first scrape among them."""
        refuse_unknown_scope(selector)
        targets = select_targets(self._source.targets(), selector)
        first_ms = min((t.first_scrape_ms for t in targets if t.first_scrape_ms is not None), default=None)
        start_ms, end_ms = self._bounds(ask, first_ms)
        requested_ms = end_ms - start_ms
        if first_ms is not None:
            start_ms = min(max(start_ms, first_ms), end_ms)
        # Beyond the raw rows edges widen to the buckets that are left; what was used is what is reported.
        bounds = [self._source.window_bounds(view, start_ms, end_ms) for view in self._views(selector, targets)]
        return _Chosen(
            targets,
            min((start for start, _ in bounds), default=start_ms),
            max((end for _, end in bounds), default=end_ms),
            requested_ms,
        )

    def _bounds(self, ask: WindowAsk, first_ms: int | None) -> tuple[int, int]:
        """The window that is asked for. The grid follows what there is to see of it, not what was asked: in the first
        hour there is a first sentence after seconds, not after the next full minute."""
        window_ms = ask.window_ms or self._default_window_ms
        if ask.end_ms is not None:
            end_ms = ask.end_ms
        elif ask.start_ms is not None and ask.window_ms is not None:
            end_ms = ask.start_ms + window_ms
        else:
            now_ms = self.now_ms()
            span_ms = window_ms if ask.start_ms is None else now_ms - ask.start_ms
            if first_ms is not None:
                span_ms = min(span_ms, now_ms - first_ms)
            grid_ms = FINE_GRID_MS if span_ms <= FINE_GRID_UP_TO_MS else COARSE_GRID_MS
            end_ms = (now_ms - COMMIT_LAG_MS) // grid_ms * grid_ms
        start_ms = ask.start_ms if ask.start_ms is not None else end_ms - window_ms
        if start_ms >= end_ms:
            message = f"the window ends ({end_ms / 1000:g}) before it starts ({start_ms / 1000:g})"
            raise InvalidWindow(message)
        return start_ms, end_ms

    def _views(self, selector: Selector, targets: Sequence[TargetRecord]) -> list[View]:
        return [View(target.name, selector.model, selector.engine_index) for target in targets]

    def _per_epoch(self, selector: Selector, chosen: _Chosen) -> dict[int, Sums]:
        """Sums per epoch. Over several targets epoch numbers say nothing; they are kept apart and counted as one."""
        if len(chosen.targets) == 1:
            per_epoch = dict(
                self._source.window(self._views(selector, chosen.targets)[0], chosen.start_ms, chosen.end_ms)
            )
            return _current_only(per_epoch) if selector.epoch == "current" else per_epoch
        total = Sums()
        for view in self._views(selector, chosen.targets):
            per_target = dict(self._source.window(view, chosen.start_ms, chosen.end_ms))
            for sums in (_current_only(per_target) if selector.epoch == "current" else per_target).values():
                add(total, sums)
        return {0: total}

    def _current_sums(self, selector: Selector, chosen: _Chosen) -> Sums:
        total = Sums()
        for sums in self._per_epoch(replace(selector, epoch="current"), chosen).values():
            add(total, sums)
        return total

    def _epoch_spans(self, chosen: _Chosen) -> tuple[EpochSpan, ...]:
        if len(chosen.targets) != 1:
            return ()
        epochs = self._source.epochs(chosen.targets[0].name, chosen.start_ms, chosen.end_ms)
        return tuple(epoch_span(epoch) for epoch in epochs)

    def _operating_point(self, selector: Selector, chosen: _Chosen) -> OperatingPoint:
        return operating_point(
            self._per_epoch(selector, chosen),
            window=self._window_of_all(chosen),
            selector=selector,
            epochs=self._epoch_spans(chosen),
            ceiling=ceiling_answer(chosen.targets, selector),
            pulse_interval_ms=max((t.pulse_interval_ms for t in chosen.targets), default=1000),
        )

    def _window_of_all(self, chosen: _Chosen) -> Window:
        """With scope `replica` the targets' occupancies add, and so do their windows."""
        window = chosen.window
        return replace(window, seconds=window.seconds * max(len(chosen.targets), 1))

    def _concurrency(self, selector: Selector, chosen: _Chosen, step_ms: int) -> answers.ConcurrencySeries:
        timelines = [
            self._source.timeline(view, chosen.start_ms, chosen.end_ms, step_ms)
            for view in self._views(selector, chosen.targets)
        ]
        points = tuple(concurrency_point(step) for step in zip(*timelines, strict=True)) if timelines else ()
        return answers.ConcurrencySeries(
            chosen.window,
            selector,
            step_ms / 1000,
            points,
            ceiling_answer(chosen.targets, selector),
            self._epoch_spans(chosen),
        )

    def _recommendation(self, ask: RecommendationAsk) -> answers.Recommendation:
        point = self.operating_point(ask.selector, ask.window)
        live = live_point(point, self.curve(ask.selector, ask.window))
        sweep = self._source.sweep(ask.sweep)
        chosen = self._choose(ask.selector, ask.window)
        return recommend(sweep, live, core_ask(ask, declared_mix(chosen.targets, sweep)))

    def _status(self, target: TargetRecord) -> answers.TargetStatus:
        epochs = self._source.epochs(target.name, target.last_scrape_ms or 0, (target.last_scrape_ms or 0) + 1)
        return target_status(target, epochs[-1].start_ms if epochs else None)


def refuse_unknown_scope(selector: Selector) -> None:
    """Raises ConfigError for a scope that this version does not know how to answer."""
    if selector.scope == "fleet" or selector.fleet is not None:
        message = (
            "scope=fleet and fleet= are not supported in this version; scope=replica adds the targets' occupancies"
        )
        raise ConfigError(message)
    if selector.scope != "replica" or selector.epoch not in ("all", "current"):
        message = f"scope is replica (not {selector.scope!r}), epoch is all or current (not {selector.epoch!r})"
        raise ConfigError(message)


def select_targets(targets: Sequence[TargetRecord], selector: Selector) -> tuple[TargetRecord, ...]:
    """The targets that match every part of the selector. Raises NotFound where a named one is not there."""
    wanted = {key: value for key, _, value in (label.partition(":") for label in selector.label)}
    chosen = tuple(
        target
        for target in targets
        if selector.target in (None, target.name)
        and selector.job in (None, target.job)
        and all(target.labels.get(key) == value for key, value in wanted.items())
        and (selector.model is None or selector.model in target.models)
        and (selector.engine_index is None or selector.engine_index in target.engine_indexes)
    )
    restricted = any((selector.target, selector.job, selector.label, selector.model, selector.engine_index))
    if restricted and not chosen:
        names = ", ".join(target.name for target in targets) or "none"
        models = ", ".join(sorted({model for target in targets for model in target.models})) or "none"
        message = f"no target matches; there are targets {names} with models {models}"
        raise NotFound(message)
    return chosen


def _current_only(per_epoch: Mapping[int, Sums]) -> dict[int, Sums]:
    """The newest epoch alone."""
    return {max(per_epoch): per_epoch[max(per_epoch)]} if per_epoch else {}


def epoch_span(epoch: Epoch) -> EpochSpan:
    """An epoch as answers tell it."""
    end = None if epoch.end_ms is None else epoch.end_ms / 1000
    return EpochSpan(epoch.start_ms / 1000, end, epoch.cause, epoch.detail)


def ceiling_answer(targets: Sequence[TargetRecord], selector: Selector) -> CeilingAnswer:
    """The ceiling of one server: per-engine limit x engines. Unknown where targets differ or none is known."""
    if not targets:
        return CeilingAnswer()
    kv = targets[0].kv_cache_max_concurrency if len(targets) == 1 else None
    known = {_ceiling_of(target, selector) for target in targets}
    newest = known.pop() if len(known) == 1 else None
    if newest is None:
        return CeilingAnswer(kv_cache_max_concurrency=kv)
    requests, ceiling = newest
    return CeilingAnswer(requests, ceiling.max_num_seqs, ceiling.source, kv)


def _ceiling_of(target: TargetRecord, selector: Selector) -> tuple[int, Ceiling] | None:
    if not target.ceilings:
        return None
    engines = 1 if selector.engine_index is not None else max(len(target.engine_indexes), 1)
    return target.ceilings[-1].max_num_seqs * engines, replace(target.ceilings[-1], since_ms=0)


def target_status(target: TargetRecord, epoch_start_ms: int | None) -> answers.TargetStatus:
    """A target as answers tell it."""
    return answers.TargetStatus(
        name=target.name,
        url=target.url,
        job=target.job,
        labels=dict(target.labels),
        health=target.health.value,
        state=target.state.value,
        engine=target.engine,
        version=target.version,
        models=target.models,
        engine_indexes=target.engine_indexes,
        epoch_start=_seconds(epoch_start_ms),
        last_scrape=_seconds(target.last_scrape_ms),
        last_error=target.last_error,
        missing=target.missing,
        form=target.form.value,
        pulse_interval_seconds=target.pulse_interval_ms / 1000,
        full_interval_seconds=target.full_interval_ms / 1000,
        last_scrape_seconds=_seconds(target.last_took_ms),
        last_scrape_bytes=target.last_size_bytes,
        ceiling=ceiling_answer([target], Selector()),
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def concurrency_point(steps: Sequence[TimelinePoint]) -> answers.ConcurrencyPoint:
    """One step over all chosen targets."""
    total = Sums()
    for step in steps:
        add(total, step.sums)
    length_ms = steps[0].step_ms * len(steps)
    return answers.ConcurrencyPoint(
        start=steps[0].start_ms / 1000,
        mean=occupancy_mean(total.running, "time"),
        max=max(total.running) if total.running else None,
        waiting_mean=occupancy_mean(total.waiting, "time"),
        observed_seconds=total.observed_ms / 1000,
        down_seconds=total.down_ms / 1000,
        invalid_seconds=total.invalid_ms / 1000,
        stalled_seconds=total.stalled_ms / 1000,
        gap_seconds=max(length_ms - total.known_ms, 0) / 1000,
    )


def declared_mix(targets: Sequence[TargetRecord], sweep: Sweep) -> str | None:
    """The content mix that is configured for the chosen targets, where they agree and the sweep has its contents."""
    mixes = {tuple(sorted(target.content_mix.items())) for target in targets}
    mix = mixes.pop() if len(mixes) == 1 else ()
    if not mix or not {content for content, _ in mix} <= set(sweep.contents):
        return None
    return ",".join(f"{content}={share!r}" for content, share in mix)


def core_ask(ask: RecommendationAsk, mix: str | None) -> Ask:
    """The part of the ask that is about the sweep; `mix` holds where no content is asked for."""
    return Ask(
        reference=ask.reference,
        candidate=ask.candidate,
        content=ask.content or mix,
        live_is=ask.live_is,
        prompt_tokens=ask.prompt_tokens,
        output_tokens=ask.output_tokens,
        ttft_seconds=ask.ttft_seconds,
        decode_seconds=ask.decode_seconds,
        measured=ask.measured,
        ceiling=ask.ceiling,
    )


def sweep_answer(sweep: Sweep) -> answers.SweepAnswer:
    """A sweep as answers tell it, cells in the order of their files and rows."""
    return answers.SweepAnswer(
        sweep.name,
        sweep.configurations,
        sweep.contents,
        tuple(_import_answer(one) for one in sweep.imports),
        tuple(_cell_answer(cell) for cell in sweep.cells),
    )


def _import_answer(one: SweepImport) -> answers.SweepImportAnswer:
    return answers.SweepImportAnswer(
        one.file_name, one.sha256, one.reader, one.reader_version, one.imported_ms / 1000, one.size_bytes, one.notes
    )


def _cell_answer(cell: Cell) -> answers.CellAnswer:
    return answers.CellAnswer(
        configuration=cell.configuration,
        content=cell.content,
        concurrency=cell.concurrency,
        concurrency_source=cell.concurrency_source,
        prompt_tokens=cell.prompt_tokens,
        output_tokens=cell.output_tokens,
        aggregate_tokens_per_second=cell.aggregate,
        per_stream_tokens_per_second=cell.per_stream,
        decode_tokens_per_second=cell.decode,
        ttft_seconds=cell.ttft,
        ttft_p95_seconds=cell.ttft_p95,
        failed_requests=cell.failed_requests,
        source_row=cell.source_row,
        derived=cell.derived,
        flags=cell.flags,
    )
