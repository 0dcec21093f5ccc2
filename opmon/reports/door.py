"""The one door: every surface asks here, so no two can disagree on a number.

Contains the joining of pure functions and the memory of answers; no SQL, no HTTP, no formula.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from opmon.clock import Clock
from opmon.core import answers
from opmon.core.answers import EpochSpan, OperatingPoint, Selector, Window
from opmon.core.beside import LevelBeside
from opmon.core.cells import Sweep
from opmon.core.client_turns import ClientTurns, TurnSums, client_turns, turn_times
from opmon.core.curve import live_curve
from opmon.core.model import TargetRecord, View
from opmon.core.operating_point import operating_point
from opmon.core.recommend import LivePoint, live_point, recommend, with_client_times
from opmon.core.recommend.claim import claim
from opmon.core.recommend.claimed import Claim
from opmon.core.recommend.live_curve import beside, nearest_lengths
from opmon.core.recommend.quote import ClaimAsk
from opmon.core.saving import Saving, SavingAsk, saving
from opmon.core.sentence import not_yet
from opmon.core.source import Source
from opmon.core.sums import Sums, add
from opmon.core.turn import turn
from opmon.errors import InvalidWindow
from opmon.reports.asks import STEPS_MS, RecommendationAsk, WindowAsk, core_ask, declared_mix, resolve_window
from opmon.reports.selection import candidates, refuse_unknown_scope, select_targets
from opmon.reports.shapes import (
    about_pages,
    alias_doubles_of,
    ceiling_answer,
    concurrency_point,
    engines_of,
    epoch_span,
    sweep_answer,
    target_status,
)
from opmon.reports.turns import TurnSource, turns_of, turns_until

DEFAULT_WINDOW_MS = 7 * 86_400_000
MAX_POINTS = 11_000
DEFAULT_POINTS = 400
MEMO_ENTRIES = 256
FIRST_FIGURES_MS = 10_000
"""The grid of short windows and the time to commit are over by then, and the first scrape is in a window."""

Answer = TypeVar("Answer")


class SweepSource(Protocol):
    """Where stored sweeps come from."""

    def sweeps(self) -> Sequence[Sweep]:
        """All sweeps, by name."""
        ...

    def sweep(self, name: str) -> Sweep:
        """One sweep; raises NotFound naming those that exist."""
        ...


class ReportSource(Source, SweepSource, TurnSource, Protocol):
    """What reports need: observations, sweeps, and the turns of clients."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The targets and the window that an ask resolves to. `watched_ms`: for how long they are watched, while that is
    so short that there may be no figures yet; else None."""

    targets: tuple[TargetRecord, ...]
    start_ms: int
    end_ms: int
    requested_ms: int
    watched_ms: int | None = None

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
        self._under_way: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()
        self.progress = progress

    def reconfigured(self, *, default_window_ms: int) -> None:
        """Another configuration is in force: no answer from before counts as unchanged."""
        with self._lock:
            self._default_window_ms = default_window_ms
            self._generation += 1

    def now_ms(self) -> int:
        """The instant that relative windows are taken from."""
        return self._clock.now_ms()

    def version_tag(self, selector: Selector, ask: WindowAsk) -> str:
        """Equal tags mean equal answers: selector, window, last commit and configuration generation."""
        chosen = self._choose(selector, ask)
        return f"{self._source.commit_number()}-{self._generation}-{chosen.start_ms}-{chosen.end_ms}"

    def targets(self) -> tuple[answers.TargetStatus, ...]:
        """Every target and how it is, by name."""
        return self._remember(("targets",), lambda: tuple(self._status(t) for t in self._source.targets()))

    def target(self, name: str) -> answers.TargetStatus:
        """One target and how it is, or was when it was last watched. Raises NotFound."""
        return self._status(self._source.target(name))

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

    def curve_beside(self, selector: Selector, ask: WindowAsk, sweep: str) -> tuple[LevelBeside, ...]:
        """The server's own speed beside every cell of a sweep, at the live lengths. Raises NotFound."""
        live = self.live_point(selector, ask)
        cells = nearest_lengths(self._source.sweep(sweep).cells, live.prompt_tokens, live.output_tokens)
        return beside(live.curve, cells)

    def _whole_curve(self, selector: Selector, ask: WindowAsk) -> tuple[answers.CurvePoint, ...]:
        """Every level of the curve, also those too short to be drawn."""
        chosen = self._choose(selector, ask)
        return self._remember(
            ("whole_curve", selector, chosen.start_ms, chosen.end_ms),
            lambda: live_curve(self._current_sums(selector, chosen), shortest_ms=0),
        )

    def recommendation(self, ask: RecommendationAsk) -> answers.Recommendation:
        """Which cell and column of the sweep apply to the selected servers, and the verdict."""
        chosen = self._choose(ask.selector, ask.window)
        return self._remember(
            ("recommendation", ask, chosen.start_ms, chosen.end_ms), lambda: self._recommendation(ask)
        )

    def live_point(self, selector: Selector, ask: WindowAsk) -> LivePoint:
        """Where the selected servers run, for a recommendation: with the times of turns as clients report them, else
        the server's own."""
        point = self.operating_point(selector, ask)
        live = live_point(point, self._whole_curve(selector, ask))
        if len(point.epochs) > 1:  # curve and acceptance length are of what runs now, not of what ran before
            now = self.operating_point(replace(selector, epoch="current"), ask).speculation
            live = replace(live, acceptance_length=now.acceptance_length if now else None)
        return with_client_times(live, turn_times(self._turns(selector, ask, self._choose(selector, ask))))

    def client_turns(self, selector: Selector, ask: WindowAsk) -> ClientTurns:
        """The turns that clients reported, by client. An open window ends now. Raises NotFound and InvalidWindow."""
        chosen = self._choose(selector, ask)
        seen = replace(chosen, end_ms=turns_until(ask, chosen.end_ms, self.now_ms()))
        return self._remember(
            ("client_turns", selector, ask, chosen.start_ms, chosen.end_ms),
            lambda: client_turns(self._turns(selector, ask, chosen), seen.window, selector),
        )

    def claim(self, ask: RecommendationAsk, quote: ClaimAsk) -> Claim:
        """Where a quoted speed-up comes from in the sweep, and what the recommendation says instead."""
        chosen = self._choose(ask.selector, ask.window)
        return self._remember(
            ("claim", ask, quote, chosen.start_ms, chosen.end_ms),
            lambda: claim(self._source.sweep(ask.sweep), quote, self.recommendation(ask)),
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

    def saving(self, ask: SavingAsk) -> Saving:
        """The saving calculator."""
        return saving(ask)

    # --- how ------------------------------------------------------------------------------------------------------

    def _remember(self, key: Hashable, compute: Callable[[], Answer]) -> Answer:
        """The answer from memory while nothing was committed since, else computed: once, however many ask meanwhile.

        Whoever waits gets the answer that was begun before the question, at most one commit older.
        """
        full_key = (key, self._source.commit_number(), self._generation)
        with self._lock:
            if full_key in self._memo:
                self._memo.move_to_end(full_key)
                return cast("Answer", self._memo[full_key])
            promise = self._under_way.get(key)
            is_first = promise is None
            promise = self._under_way.setdefault(key, Future())
        return self._compute(key, full_key, promise, compute) if is_first else cast("Answer", promise.result())

    def _compute(
        self, key: Hashable, full_key: Hashable, promise: Future[Any], compute: Callable[[], Answer]
    ) -> Answer:
        """Computes an answer that others may be waiting for, and keeps it."""
        try:
            answer = compute()
        except BaseException as error:
            promise.set_exception(error)
            raise
        else:
            promise.set_result(answer)
            with self._lock:
                self._memo[full_key] = answer
                while len(self._memo) > MEMO_ENTRIES:
                    self._memo.popitem(last=False)
            return answer
        finally:
            with self._lock:
                del self._under_way[key]

    def _choose(self, selector: Selector, ask: WindowAsk) -> _Chosen:
        """The targets that match, and the window on its grid, clipped to the first scrape among them."""
        refuse_unknown_scope(selector)
        targets = select_targets(candidates(self._source, selector), selector)
        first_ms = min((t.first_scrape_ms for t in targets if t.first_scrape_ms is not None), default=None)
        now_ms = self.now_ms()
        seen_ms = min((_seen_until(t) for t in targets), default=0)
        window = resolve_window(ask, now_ms, self._default_window_ms, first_ms, seen_ms)
        is_young = window.reaches_now and first_ms is not None and 0 <= now_ms - first_ms < FIRST_FIGURES_MS
        # Beyond the raw rows edges widen to the buckets that are left; what was used is what is reported.
        views = self._views(selector, targets)
        bounds = [self._source.window_bounds(view, window.start_ms, window.end_ms) for view in views]
        return _Chosen(
            targets,
            min((start for start, _ in bounds), default=window.start_ms),
            max((end for _, end in bounds), default=window.end_ms),
            window.requested_ms,
            now_ms - first_ms if is_young and first_ms is not None else None,
        )

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
        point = operating_point(
            self._per_epoch(selector, chosen),
            window=self._window_of_all(chosen),
            selector=selector,
            epochs=self._epoch_spans(chosen),
            ceiling=ceiling_answer(chosen.targets, selector),
            pulse_interval_ms=max((t.pulse_interval_ms for t in chosen.targets), default=1000),
            engines=engines_of(chosen.targets, selector),
            alias_doubles=alias_doubles_of(chosen.targets),
        )
        point = replace(point, warnings=(*point.warnings, *about_pages(chosen.targets)))
        if chosen.watched_ms is None or point.coverage.gap_seconds < point.window.seconds:
            return point
        return replace(point, sentence=not_yet(chosen.watched_ms, FIRST_FIGURES_MS))

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
        live = self.live_point(ask.selector, ask.window)
        sweep = self._source.sweep(ask.sweep)
        chosen = self._choose(ask.selector, ask.window)
        return recommend(sweep, live, core_ask(ask, declared_mix(chosen.targets, sweep)))

    def _turns(self, selector: Selector, ask: WindowAsk, chosen: _Chosen) -> list[TurnSums]:
        end_ms = turns_until(ask, chosen.end_ms, self.now_ms())
        return turns_of(self._source, chosen.targets, selector, chosen.start_ms, end_ms)

    def _status(self, target: TargetRecord) -> answers.TargetStatus:
        epochs = self._source.epochs(target.name, target.last_scrape_ms or 0, (target.last_scrape_ms or 0) + 1)
        return target_status(target, epochs[-1].start_ms if epochs else None)


def _seen_until(target: TargetRecord) -> int:
    """The end of the newest stratum of a target that is in the database; 0 where there is none."""
    if target.last_scrape_ms is None:
        return 0
    return target.last_scrape_ms - target.last_scrape_ms % target.pulse_interval_ms + target.pulse_interval_ms


def _current_only(per_epoch: Mapping[int, Sums]) -> dict[int, Sums]:
    """The newest epoch alone."""
    return {max(per_epoch): per_epoch[max(per_epoch)]} if per_epoch else {}
