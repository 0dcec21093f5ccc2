"""The whole answer for one content of the sweep, or why there is none.

Contains the order in which the rules of DEFINITIONS 4 to 6 apply to one content; what they compute is `case`, combining
contents is `mix`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opmon.core.answers import (
    ColumnAnswer,
    Columns,
    ContentAnswer,
    KneePair,
    Mismatch,
    Projection,
)
from opmon.core.cells import Cell
from opmon.core.knee import PER_STREAM
from opmon.core.occupancy import Weighting
from opmon.core.pairs import Pairing, pair_cells
from opmon.core.recommend.case import Case, Setting
from opmon.core.recommend.doubts_of_files import random_speculation
from opmon.core.recommend.measure_next import Doubt
from opmon.core.recommend.missing import what_is_missing
from opmon.core.recommend.ratios import (
    ASSUMED_THRESHOLD,
)
from opmon.core.recommend.verdicts import (
    NO_DATA,
    NOT_COMPARABLE,
    Finding,
    Number,
    agree,
    apply_capacity,
)


@dataclass(frozen=True, slots=True)
class ContentResult:
    """The answer for one content, and what combining contents needs of it.

    `numbers[live_is][column]` are judged; `running_aggregate[live_is]`: the running configuration's aggregate at the
    cell, tok/s; `largest`: the largest aggregates of reference and candidate; `caps`: why the verdict is at most
    undecided whatever the numbers say; `missing`: what to do first for a verdict, in words.
    """

    answer: ContentAnswer
    pairing: Pairing
    numbers: Mapping[str, Mapping[str, Number]] = field(default_factory=dict)
    running_aggregate: Mapping[str, float | None] = field(default_factory=dict)
    largest: tuple[float | None, float | None] = (None, None)
    caps: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    missing: str = ""


def answer_content(
    setting: Setting, content: str, *, share_ratio: float | None = None, declared: str | None = None
) -> ContentResult:
    """Answers for one content. `declared`: the content that was asked for where the sweep does not hold it."""
    pairing = pair_cells(
        setting.sweep.cells,
        setting.reference,
        setting.candidate,
        content,
        prompt_tokens=setting.prompt_tokens,
        output_tokens=setting.output_tokens,
    )
    if not pairing.pairs:
        return _without_pairs(content, share_ratio, pairing)
    case = Case(setting, content, pairing, Weighting.REQUEST)
    busy = Case(setting, content, pairing, Weighting.BUSY)
    finding = case.finding
    if busy.cell.concurrency != case.cell.concurrency:
        finding = agree(
            [finding, busy.finding],
            "it depends on whom you serve: by request weights (an agent's burst) the cell is"
            f" {case.cell.concurrency:g} and the verdict {finding.verdict}, by busy time (a person) the cell is"
            f" {busy.cell.concurrency:g} and the verdict {busy.finding.verdict}",
        )
    mismatches = case.mismatches(declared)
    unsound = dict.fromkeys(case.unsound_cell())
    if busy.cell.concurrency != case.cell.concurrency:
        unsound.update(dict.fromkeys(busy.unsound_cell()))
    drafted = random_speculation(content, *_sides(setting, content))
    caps = (
        *(_mismatch_in_words(one) for one in mismatches),
        *unsound,
        *case.curve_differs(),
        *([drafted] if drafted else []),
    )
    finding = apply_capacity(finding, setting.live.peak_minute_tokens_per_second, *case.largest).capped(*caps)
    return ContentResult(
        answer=case.answer(finding, share_ratio, mismatches),
        pairing=pairing,
        numbers={reading: case.numbers(reading) for reading in setting.readings},
        running_aggregate={reading: case.running_aggregate(reading) for reading in setting.readings},
        largest=case.largest,
        caps=caps,
        doubts=case.doubts(has_other_lengths=any(one.octaves is not None for one in mismatches)),
        warnings=(*case.warnings(), *([("random_speculation", drafted)] if drafted else [])),
        missing=what_is_missing(case, mismatches, (*unsound, *case.curve_differs())),
    )


def _sides(setting: Setting, content: str) -> tuple[list[Cell], list[Cell]]:
    """The cells of the content, of reference and candidate."""
    cells = [cell for cell in setting.sweep.cells if cell.content == content]
    reference = [cell for cell in cells if cell.configuration == setting.reference]
    return reference, [cell for cell in cells if cell.configuration == setting.candidate]


def _without_pairs(content: str, share_ratio: float | None, pairing: Pairing) -> ContentResult:
    """No fair pair: refused with the fields, or nothing to compare at all."""
    if pairing.refusals:
        finding = Finding(NOT_COMPARABLE, (_refusal_in_words(pairing.refusals[0].fields),))
    else:
        finding = Finding(
            NO_DATA, ("the sweep has no cell of this content with a concurrency for both configurations",)
        )
    empty = ColumnAnswer()
    answer = ContentAnswer(
        content=content,
        share_ratio=share_ratio,
        verdict=finding.verdict,
        reasons=finding.reasons,
        cell=None,
        weight_at_cells_ratio=None,
        weight_between_ratio=None,
        weight_outside_ratio=None,
        column=PER_STREAM,
        column_reason="no fair pair to choose a column for",
        knee_requests=KneePair(),
        columns=Columns(empty, empty),
        threshold_ratio=ASSUMED_THRESHOLD.delta,
        threshold_source=ASSUMED_THRESHOLD.source,
        whole_turn=None,
        other_readings=(),
        mismatches=(),
        projection=Projection(null_reason="no fair pair"),
    )
    return ContentResult(answer, pairing)


def _refusal_in_words(fields: Sequence[str]) -> str:
    """Why there is no fair pair, and what to do."""
    if tuple(fields) == ("failed_requests",):
        return "no fair pair: requests failed in the cells that both configurations have; measure them again"
    if not fields:
        return (
            "no fair pair: no concurrency was measured in both configurations; a load that a rate paces, or whose"
            " concurrency is not stated, lies on no level"
        )
    return (
        f"no fair pair: the cells differ in, or do not both state, {', '.join(fields)}; measure both sides alike, or add"
        " what is missing to the files (what neither states counts as equal in one file, and among files that were added"
        " to the sweep within a day)"
    )


def _mismatch_in_words(one: Mismatch) -> str:
    if one.octaves is None:
        return f"content {one.live!r} was not measured; {one.cell!r} stands beside it and cannot carry a verdict"
    axis = {"prompt_tokens": "prompt length", "output_tokens": "output length"}[one.axis]
    return f"mismatch: {axis} is {one.live:,.0f} tokens live and {one.cell:,.0f} in the cell, {one.octaves:.1f} octaves apart"
