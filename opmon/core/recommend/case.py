"""One content of a sweep under one weighting: its cell, column, ratios, whole turn and what limits its verdict.

Contains what is computed of a content; in which order the rules apply to it is `content`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from opmon.core.answers import (
    ByLiveIs,
    CellRef,
    ColumnAnswer,
    Columns,
    ContentAnswer,
    KneePair,
    LiveIsAnswer,
    Mismatch,
    WholeTurn,
)
from opmon.core.beside import LevelBeside, LookFirst
from opmon.core.cells import Sweep, is_per_stream_derived, nearest, octaves, shares
from opmon.core.knee import AGGREGATE, BOTH, PER_STREAM, choose_column, knee, lower_knee
from opmon.core.occupancy import Weighting, quantile, weights
from opmon.core.pairs import Pair, Pairing
from opmon.core.recommend.ask import LivePoint, Times
from opmon.core.recommend.curves import curve_of
from opmon.core.recommend.live_curve import beside, differs_in_words
from opmon.core.recommend.look_first import Known, look_first
from opmon.core.recommend.measure_next import Doubt, doubts
from opmon.core.recommend.projection import project
from opmon.core.recommend.ratios import (
    ASSUMED_THRESHOLD,
    BOTH_READINGS,
    DECODE,
    FIGURES,
    LevelRatio,
    Threshold,
    Weighted,
    is_scattered,
    level_ratios,
    side_of,
    side_speed,
    spread,
    threshold_of,
    weighted,
)
from opmon.core.recommend.readings import other_readings
from opmon.core.recommend.verdicts import (
    NAMES,
    Finding,
    Number,
    agree,
    judge_number,
    judge_numbers,
    times_sign,
)
from opmon.core.recommend.whole_turn import TurnCase, whole_turn

COLUMNS = (PER_STREAM, AGGREGATE)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for every content: sweep, configurations, live point, and what was declared."""

    sweep: Sweep
    reference: str
    candidate: str
    live: LivePoint
    live_is: str | None
    prompt_tokens: float | None
    output_tokens: float | None
    ceiling: int | None
    times: Times | None

    @property
    def readings(self) -> tuple[str, ...]:
        """What the live server may be: what was declared, else either."""
        return (self.live_is,) if self.live_is else BOTH_READINGS


class Case:
    """One content under one weighting; every property is computed once."""

    def __init__(self, setting: Setting, content: str, pairing: Pairing, weighting: Weighting) -> None:
        self.setting = setting
        self.content = content
        self.pairs: Sequence[Pair] = pairing.pairs
        self.pairing = pairing
        occupancy = setting.live.in_system
        self.busy_weights = {level: float(weight) for level, weight in weights(occupancy, Weighting.BUSY)}
        self.request_weights = {level: float(weight) for level, weight in weights(occupancy, weighting)}
        self.levels = [pair.concurrency for pair in self.pairs]
        self.median = quantile(occupancy, weighting, 500) or 1
        self.cell = next(pair for pair in self.pairs if pair.concurrency == nearest(self.median, self.levels))

    # --- column -------------------------------------------------------------------------------------------------

    @cached_property
    def curves(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """The aggregate curves of reference and candidate at about the prompt length of the cell."""
        cells = self.setting.sweep.cells
        reference, candidate = (
            curve_of(cells, self.pairs, self.cell, is_candidate=is_candidate) for is_candidate in (False, True)
        )
        return reference, candidate

    @property
    def largest(self) -> tuple[float | None, float | None]:
        reference, candidate = (max((speed for _, speed in curve), default=None) for curve in self.curves)
        return reference, candidate

    @cached_property
    def knees(self) -> KneePair:
        return KneePair(*(knee(curve) for curve in self.curves))

    @cached_property
    def column(self) -> tuple[str, str]:
        occupancy = self.setting.live.in_system
        p50, p90 = (quantile(occupancy, Weighting.REQUEST, per_mille) or 1 for per_mille in (500, 900))
        lower = lower_knee(self.knees.reference, self.knees.candidate)
        return choose_column(p50, p90, self.setting.live.limited_ratio, lower, max(self.levels))

    @property
    def judged_columns(self) -> tuple[str, ...]:
        return COLUMNS if self.column[0] == BOTH else (self.column[0],)

    # --- ratios -------------------------------------------------------------------------------------------------

    def weights_of(self, column: str) -> Mapping[int, float]:
        """`n T_n` for what a request meets, `T_n` for card time."""
        return self.busy_weights if column == AGGREGATE else self.request_weights

    def threshold(self, column: str) -> Threshold:
        return self._thresholds[column]

    @cached_property
    def _thresholds(self) -> dict[str, Threshold]:
        return {column: threshold_of(self.pairs, column, self.weights_of(column)) for column in COLUMNS}

    def level_ratios(self, column: str) -> list[LevelRatio]:
        return self._level_ratios[column]

    @cached_property
    def _level_ratios(self) -> dict[str, list[LevelRatio]]:
        return {
            column: level_ratios(self.pairs, column, self.weights_of(column), self.threshold(column).delta)
            for column in COLUMNS
        }

    def weighted(self, column: str, live_is: str) -> Weighted | None:
        return weighted(self.level_ratios(column), self.weights_of(column), live_is)

    def is_proxy(self, column: str) -> bool:
        """Whether the aggregate ratio stands in for a per-stream ratio that was not measured at the cell."""
        return (
            column == PER_STREAM
            and self.cell.ratio(FIGURES[PER_STREAM]) is None
            and self.cell.ratio(FIGURES[AGGREGATE]) is not None
            and not self.cell.is_ramp
            and not self.cell.is_impossible
        )

    def turn(self, live_is: str) -> tuple[WholeTurn, Number] | None:
        setting = self.setting
        if setting.times is None:
            return None
        delta = self.threshold(PER_STREAM).delta
        case = TurnCase(
            self.pairs, self.cell, self.request_weights, setting.prompt_tokens, setting.output_tokens, delta
        )
        return whole_turn(case, setting.times, live_is)

    def number(self, column: str, live_is: str) -> Number | None:
        over = self.weighted(column, live_is)
        if over is None:
            return None
        delta = self.threshold(column).delta
        proxy = self.cell.ratio(FIGURES[AGGREGATE]) if self.is_proxy(column) else None
        return Number(column, over.low, over.high, over.middle, over.evidence_ratio, delta, proxy)

    def numbers(self, live_is: str) -> dict[str, Number]:
        """What is judged in each column: the whole turn takes the place of the per-stream ratio where it is known."""
        found = {column: number for column in COLUMNS if (number := self.number(column, live_is)) is not None}
        if (turn := self.turn(live_is)) is not None:
            found[PER_STREAM] = turn[1]
        return found

    def _finding_if(self, live_is: str) -> Finding:
        numbers = self.numbers(live_is)
        return judge_numbers([numbers[column] for column in self.judged_columns if column in numbers])

    def verdict_if(self, live_is: str) -> str:
        """The verdict of the numbers alone if the live server runs this one."""
        return self._finding_if(live_is).verdict

    @cached_property
    def finding(self) -> Finding:
        """The verdict of the numbers alone, under every reading of `live_is` that is possible."""
        findings = [self._finding_if(reading) for reading in self.setting.readings]
        words = " and ".join(
            f"{finding.verdict} if it is the {reading}"
            for finding, reading in zip(findings, self.setting.readings, strict=True)
        )
        return agree(findings, f"it is not known which configuration the live server runs: {words}")

    def running_aggregate(self, live_is: str) -> float | None:
        return side_speed(side_of(self.cell, live_is), AGGREGATE)

    # --- what limits the verdict --------------------------------------------------------------------------------

    def mismatches(self, declared: str | None) -> tuple[Mismatch, ...]:
        """Lengths more than an octave from the cell, and a content that was not measured."""
        found = [] if declared is None else [Mismatch("content", self.content, declared, None)]
        for axis, cell, live in (
            ("prompt_tokens", self.cell.prompt_tokens, self.setting.prompt_tokens),
            ("output_tokens", self.cell.output_tokens, self.setting.output_tokens),
        ):
            if cell and live and octaves(live, cell) > 1:
                found.append(Mismatch(axis, cell, live, octaves(live, cell)))
        return tuple(found)

    @cached_property
    def live_curve(self) -> tuple[LevelBeside, ...]:
        """The live curve beside the cells of the configuration that runs, of both where it is not known which."""
        sides = [side_of(pair, reading) for reading in self.setting.readings for pair in self.pairs]
        return beside(self.setting.live.curve, [cell for side in sides for cell in side.cells])

    @cached_property
    def look_first(self) -> tuple[LookFirst, ...]:
        """Where to look where the running configuration's speed differs at a level; empty where it does not."""
        setting, live_is = self.setting, self.setting.live_is
        odd = [one.concurrency for one in self.live_curve if one.agrees is False]
        if live_is is None or not odd:
            return ()
        pair = min(self.pairs, key=lambda pair: (pair.concurrency not in odd, pair is not self.cell, pair.concurrency))
        live = Known(setting.prompt_tokens, setting.output_tokens, setting.live.acceptance_length)
        return look_first(live, side_of(pair, live_is).cells, setting.ceiling)

    def curve_differs(self) -> tuple[str, ...]:
        """Live and sweep aggregate of the running configuration differing by over 20 % at the cell."""
        if self.setting.live_is is None:
            return ()
        at_cell = [one for one in self.live_curve if one.concurrency == self.cell.concurrency and one.agrees is False]
        return tuple(differs_in_words(one, self.setting.live_is, self.look_first) for one in at_cell)

    def unsound_cell(self) -> tuple[str, ...]:
        """Why the cell itself carries no verdict: columns that cannot both be, or repeats that say opposite things."""
        if self.cell.is_impossible:
            return (f"at {self.cell.concurrency:g} the figures of the cell contradict each other",)
        columns = (*((PER_STREAM, DECODE) if PER_STREAM in self.judged_columns else ()), AGGREGATE)
        judged = columns if AGGREGATE in self.judged_columns else columns[:-1]
        found = [name for name in judged if is_scattered(self.cell, name)]
        return tuple(
            f"at {self.cell.concurrency:g} repeats of the {NAMES.get(name, 'decode speed')} differ by a factor of"
            f" {self.cell.scatter(FIGURES[name]):.2f}, more than the two configurations do: measure again"
            for name in found[:1]
        )

    def warnings(self) -> tuple[tuple[str, str], ...]:
        """Doubts that leave the verdict as it is: (code, detail)."""
        found = [("soft_difference", f"{self.content or 'unlabelled'}: {flag}") for flag in self.pairing.flags]
        for pair in self.pairs:
            if pair.is_ramp:
                detail = (
                    f"{self.content or 'unlabelled'}: the aggregate at {pair.concurrency:g} is ramp and drain (measured concurrency under"
                    " 90 % of nominal): shown, but no evidence; its per-stream column stays"
                )
                found.append(("ramp", detail))
            found += [*self._impossible(pair), *self._scatter(pair), *self._ranks_differ(pair)]
        for axis, cell, live in (
            ("prompt", self.cell.prompt_tokens, self.setting.prompt_tokens),
            ("output", self.cell.output_tokens, self.setting.output_tokens),
        ):
            if live and not cell:
                detail = f"{self.content or 'unlabelled'}: the cell does not state its {axis} length; yours is {live:,.0f} tokens"
                found.append(("length_unknown", detail))
        return tuple(found)

    def _impossible(self, pair: Pair) -> list[tuple[str, str]]:
        if not pair.is_impossible:
            return []
        detail = (
            f"{self.content or 'unlabelled'}: at {pair.concurrency:g} the aggregate is far from what so many requests make at the stated"
            " per-stream speed: one of the columns is wrong, and the pair is no evidence; check units, and what each"
            " column counts"
        )
        return [("columns_impossible", detail)]

    def _scatter(self, pair: Pair) -> list[tuple[str, str]]:
        """Repeats further apart than the noise that is assumed without them."""
        return [
            (
                "scatter",
                f"{self.content or 'unlabelled'}: at {pair.concurrency:g} repeats of the {NAMES[column]} differ by a factor of"
                f" {pair.scatter(FIGURES[column]):.2f}"
                + ("; more than the two configurations do, so it is no evidence" if is_scattered(pair, column) else ""),
            )
            for column in COLUMNS
            if pair.scatter(FIGURES[column]) > 1 + ASSUMED_THRESHOLD.delta
        ]

    def _ranks_differ(self, pair: Pair) -> list[tuple[str, str]]:
        """At one concurrency aggregate and end-to-end per-stream must rank alike; where not, what to suspect."""
        per_stream, aggregate = (pair.ratio(FIGURES[column]) for column in COLUMNS)
        if per_stream is None or aggregate is None or (per_stream - 1) * (aggregate - 1) >= 0:
            return []
        if abs(math.log(per_stream / aggregate)) <= math.log1p(ASSUMED_THRESHOLD.delta):
            return []
        detail = (
            f"{self.content or 'unlabelled'}: at {pair.concurrency:g} the columns rank the configurations differently (per-stream"
            f" {times_sign(per_stream)}, aggregate {times_sign(aggregate)}); suspect ramp and gaps between requests,"
            " failures, other output lengths, or a column that is decode-only"
        )
        return [("columns_disagree", detail)]

    def doubts(self, *, has_other_lengths: bool) -> tuple[Doubt, ...]:
        """The levels worth measuring, in the columns that count."""
        bounds = spread(self.pairs)
        width = math.log(bounds[1] / bounds[0]) if bounds and has_other_lengths else None
        lengths = (
            self.setting.prompt_tokens or self.cell.prompt_tokens,
            self.setting.output_tokens or self.cell.output_tokens,
        )
        found: dict[int, Doubt] = {}
        for column in self.judged_columns:
            for doubt in doubts(
                self.content, self.level_ratios(column), self.weights_of(column), lengths, width_if_elsewhere=width
            ):
                if doubt.level not in found or doubt.amount > found[doubt.level].amount:
                    found[doubt.level] = doubt
        return tuple(found.values())

    # --- the answer ---------------------------------------------------------------------------------------------

    def answer(self, finding: Finding, share_ratio: float | None, mismatches: tuple[Mismatch, ...]) -> ContentAnswer:
        setting = self.setting
        weight = shares(self.request_weights, self.levels)
        judged = max((self.threshold(column) for column in self.judged_columns), key=lambda one: one.delta)
        turn = self.turn(setting.readings[0])
        lower = lower_knee(self.knees.reference, self.knees.candidate)
        peak = max((level for level, ms in setting.live.in_system.items() if ms > 0), default=None)
        return ContentAnswer(
            content=self.content,
            share_ratio=share_ratio,
            verdict=finding.verdict,
            reasons=finding.reasons,
            cell=CellRef(self.cell.concurrency, self.content, self.cell.prompt_tokens, self.cell.output_tokens),
            weight_at_cells_ratio=weight.at if weight else None,
            weight_between_ratio=weight.between if weight else None,
            weight_outside_ratio=weight.outside if weight else None,
            column=self.column[0],
            column_reason=self.column[1],
            knee_requests=self.knees,
            columns=Columns(*(self.column_answer(column) for column in COLUMNS)),
            threshold_ratio=judged.delta,
            threshold_source=judged.source,
            whole_turn=turn[0] if turn else None,
            other_readings=other_readings(self.pairs, setting.ceiling, peak, self.threshold(AGGREGATE).delta),
            mismatches=mismatches,
            projection=project(setting.live.running, self.pairs, lower, setting.live_is),
            live_curve=self.live_curve,
            look_first=self.look_first,
        )

    def column_answer(self, column: str) -> ColumnAnswer:
        """One column at the cell and over the levels. Where `live_is` is unknown the figures are those of a live
        reference, the lower of the two, and both stand in `by_live_is`."""
        cell, is_proxy = self.cell, self.is_proxy(column)
        over = self.weighted(column, self.setting.readings[0])
        is_derived = column == PER_STREAM and any(
            is_per_stream_derived(one) for side in (cell.reference, cell.candidate) for one in side.cells
        )
        return ColumnAnswer(
            reference=side_speed(cell.reference, column),
            candidate=side_speed(cell.candidate, column),
            ratio_at_cell=cell.ratio(FIGURES[AGGREGATE if is_proxy else column]),
            ratio_weighted=over.middle if over else None,
            low=over.low if over else None,
            high=over.high if over else None,
            evidence_ratio=over.evidence_ratio if over else 0.0,
            derived=is_derived,
            proxy=is_proxy,
            by_live_is=self._by_live_is(column) if self.setting.live_is is None else None,
        )

    def _by_live_is(self, column: str) -> ByLiveIs | None:
        numbers = [self.number(column, reading) for reading in BOTH_READINGS]
        answers = [
            LiveIsAnswer(number.middle, number.low, number.high, judge_number(number).verdict)
            for number in numbers
            if number is not None
        ]
        return ByLiveIs(*answers) if len(answers) == 2 else None
