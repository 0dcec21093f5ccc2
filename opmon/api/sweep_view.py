"""A sweep as the page shows it: per content, one row a concurrency, both columns of the pair side by side.

Contains the pairing by value for showing; what is fair, and what it means, is in the recommendation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opmon.core.answers import CellAnswer, CellRef, ContentAnswer, Recommendation, SweepAnswer, UnfairPair
from opmon.core.recommend.ratios import edge_of

COLUMNS = (("per_stream", "per_stream_tokens_per_second"), ("aggregate", "aggregate_tokens_per_second"))
Key = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Figures:
    """One column of a row. Several values are repeats. `leaning`: the ratio against the threshold around 1."""

    name: str
    reference: tuple[float, ...]
    candidate: tuple[float, ...]
    ratio: float | None
    leaning: str
    applies: bool
    derived: bool


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One concurrency (and lengths) of one content."""

    concurrency: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    figures: tuple[Figures, ...]
    is_cell: bool
    flags: tuple[str, ...]
    unfair: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepTable:
    """One content."""

    content: str
    rows: tuple[SweepRow, ...]
    has_lengths: bool


def key_of(cell: CellAnswer | CellRef) -> Key:
    """What makes two cells the same measurement of two configurations."""
    return (cell.concurrency, cell.prompt_tokens, cell.output_tokens)


def values(cells: Sequence[CellAnswer], field: str) -> tuple[float, ...]:
    """The figures that are there."""
    return tuple(value for one in cells if (value := getattr(one, field)) is not None)


def leaning(ratio: float | None, threshold: float | None) -> str:
    """`better`, `worse` or `same`, once the ratio leaves the threshold; '' where it is not known."""
    if ratio is None or threshold is None:
        return ""
    if ratio > edge_of(threshold):
        return "better"
    return "worse" if ratio < 1 / edge_of(threshold) else "same"


def figures(
    name: str,
    field: str,
    pair: tuple[list[CellAnswer], list[CellAnswer]],
    answer: ContentAnswer | None,
    *,
    is_cell: bool,
) -> Figures:
    """One column of a row. A ratio is shown of single values only: what repeats amount to is the verdict's matter."""
    reference, candidate = values(pair[0], field), values(pair[1], field)
    ratio = candidate[0] / reference[0] if len(reference) == len(candidate) == 1 and reference[0] > 0 else None
    return Figures(
        name,
        reference,
        candidate,
        ratio,
        leaning(ratio, answer.threshold_ratio if answer else None),
        applies=is_cell and answer is not None and answer.column in (name, "both"),
        derived=any(field.startswith(d) or d == field for cells in pair for cell in cells for d in cell.derived),
    )


def unfair_fields(pairs: Sequence[UnfairPair], content: str, key: Key) -> tuple[str, ...]:
    """Why the pair of a row is refused; empty if it is not."""
    refused = (pair for pair in pairs if pair.cell.content == content and key_of(pair.cell) == key)
    return tuple(field for pair in refused for field in pair.fields)


def sweep_table(sweep: SweepAnswer, content: str, answer: Recommendation | None, pair: tuple[str, str]) -> SweepTable:
    """The rows of one content, by concurrency and lengths."""
    cells = [c for c in sweep.cells if c.content == content and c.configuration in pair]
    about = next((one for one in answer.contents if one.content == content), None) if answer else None
    unfair = answer.unfair_pairs if answer else ()
    rows = []
    for key in sorted({key_of(c) for c in cells}, key=lambda k: tuple((v is None, v or 0) for v in k)):
        sides = tuple([c for c in cells if c.configuration == name and key_of(c) == key] for name in pair)
        is_cell = about is not None and about.cell is not None and key_of(about.cell) == key
        columns = tuple(figures(name, field, (sides[0], sides[1]), about, is_cell=is_cell) for name, field in COLUMNS)
        flags = tuple(dict.fromkeys(flag for side in sides for cell in side for flag in cell.flags))
        rows.append(SweepRow(*key, columns, is_cell, flags, unfair_fields(unfair, content, key)))
    lengths = {key_of(c)[1:] for c in cells}
    return SweepTable(content, tuple(rows), has_lengths=len(lengths) > 1)


def measured_levels(sweep: SweepAnswer) -> tuple[float, ...]:
    """Every concurrency that the sweep measured."""
    return tuple(sorted({cell.concurrency for cell in sweep.cells if cell.concurrency is not None}))
