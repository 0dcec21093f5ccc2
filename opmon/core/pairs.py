"""Which cells of two configurations may be compared: fair pairs, found by value and never by order.

Contains the rules of a fair pair (DEFINITIONS 5) and the refusals with their fields; no ratio and no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from statistics import median

from opmon.core.cells import (
    Cell,
    has_failures,
    is_end_to_end,
    is_impossible,
    is_ramp,
    is_usable,
    octaves,
    per_stream_speed,
)

SAME_LENGTH_RATIO = 0.10
SESSION_SECONDS = 86_400
LARGEST_RATIO = 1e6
"""A quotient beyond this, either way, is no comparison of two servers but a fault in a file."""
_PROVENANCE = ("source_file", "source_row", "given_together")
# Parts of a checkpoint's name that say how its weights are stored, not which model it is.
_CHECKPOINT_PART = re.compile(
    r"^(fp\d+|bf16|int\d+|nf4|nvfp4|mxfp[48]|w\d+a\d+|awq|gptq|gguf|exl\d|bnb|\d+bit|q\d(_\w+)*|quantized|dynamic|block)$"
)


MOST_AT_A_LEVEL = 64
"""So many cells of one level and side are compared with the other side's; real sweeps have a handful."""


@dataclass(frozen=True, slots=True)
class Side:
    """One configuration's part of a pair: a cell and its repeats."""

    cells: tuple[Cell, ...]

    @property
    def first(self) -> Cell:
        """The first repeat; it speaks for the others in everything that is equal among them."""
        return self.cells[0]

    def values(self, figure: Callable[[Cell], float | None]) -> list[float]:
        """The figure of every repeat that has a usable one."""
        return [value for cell in self.cells if (value := figure(cell)) is not None and is_usable(value)]

    def value(self, figure: Callable[[Cell], float | None]) -> float | None:
        """The median over the repeats; None where none has the figure."""
        values = self.values(figure)
        return median(values) if values else None

    def scatter(self, figure: Callable[[Cell], float | None]) -> float:
        """Largest / smallest of the repeats; 1 where there are none."""
        values = self.values(figure)
        return max(values) / min(values) if values else 1.0


@dataclass(frozen=True, slots=True)
class Pair:
    """Two cells that may be compared. `is_ramp`: the aggregate of either side is ramp and drain. `is_impossible`: the
    columns of either side contradict each other, and nothing of the pair is evidence."""

    content: str
    concurrency: float
    reference: Side
    candidate: Side
    is_ramp: bool
    is_impossible: bool = False

    @property
    def prompt_tokens(self) -> float | None:
        """Prompt length of the cell, None if unknown."""
        return self.reference.first.prompt_tokens

    @property
    def output_tokens(self) -> float | None:
        """Output length of the cell, of the reference where the two differ; None if unknown."""
        known = [side.first.output_tokens for side in (self.reference, self.candidate)]
        return next((length for length in known if length is not None), None)

    def ratio(self, figure: Callable[[Cell], float | None]) -> float | None:
        """Candidate / reference of a speed; None unless both sides have it."""
        reference, candidate = self.reference.value(figure), self.candidate.value(figure)
        if reference is None or candidate is None:
            return None
        ratio = candidate / reference
        return ratio if 1 / LARGEST_RATIO <= ratio <= LARGEST_RATIO else None

    def scatter(self, figure: Callable[[Cell], float | None]) -> float:
        """How far the repeats of one side lie apart, of the side where they do so more: largest / smallest."""
        return max(self.reference.scatter(figure), self.candidate.scatter(figure))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Two cells that may not be compared, and the fields because of which."""

    reference: Cell
    candidate: Cell
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pairing:
    """What two configurations have in common on one content.

    `pairs` by concurrency, one for each; `assumed_equal`: fields that neither cell states, taken as equal because both
    stand in one file; `flags`: soft differences in words; `single_levels`: concurrencies that only one side measured;
    `duplicates`: how many rows say again what another row says, and count once.
    """

    pairs: tuple[Pair, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    assumed_equal: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    single_levels: tuple[float, ...] = ()
    duplicates: int = 0


def pair_cells(
    cells: Sequence[Cell],
    reference: str,
    candidate: str,
    content: str,
    *,
    prompt_tokens: float | None = None,
    output_tokens: float | None = None,
) -> Pairing:
    """Pairs by value. Where a concurrency was measured at several lengths, the pair nearest to the given ones is taken
    (without given lengths: the first in the file)."""
    compared = [cell for cell in cells if cell.content == content and cell.configuration in (reference, candidate)]
    once = distinct(compared)
    mine, other = (_at_levels(once, name, content) for name in (reference, candidate))
    pairs, refusals, assumed, flags = [], [], set[str](), list[str]()
    for level in sorted(mine.keys() & other.keys()):
        near = [_nearest(side[level], prompt_tokens, output_tokens) for side in (mine, other)]
        choices = [_Choice.of(*sides) for sides in product(*map(_repeats, near))]
        fair = [choice for choice in choices if not choice.unfair]
        if not fair:
            refusals.append(min(choices, key=lambda choice: len(choice.unfair)).refusal())
            continue
        chosen = min(fair, key=lambda choice: choice.distance(prompt_tokens, output_tokens))
        pairs.append(chosen.pair(content, level))
        assumed.update(chosen.assumed)
        flags += chosen.flags(level)
    if not pairs and not refusals:
        refusals = _nearest_refusal(cells, reference, candidate, content)
    single = sorted(mine.keys() ^ other.keys())
    return Pairing(
        tuple(pairs),
        tuple(refusals),
        tuple(sorted(assumed)),
        tuple(flags),
        tuple(single),
        duplicates=len(compared) - len(once),
    )


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """The cells without those that say in every field what another says: a row pasted twice, or a file imported under
    two names, is one measurement. A repeat differs in a figure, an instant, or a column of its own (a run's number)."""
    return list({_said(cell): cell for cell in reversed(list(cells))}.values())[::-1]


def _said(cell: Cell) -> Hashable:
    """Everything that a cell says but where it was read."""
    values = (getattr(cell, field.name) for field in fields(cell) if field.name not in _PROVENANCE)
    return tuple(tuple(sorted(value.items())) if isinstance(value, Mapping) else value for value in values)


def base_model(name: str) -> str:
    """A model's name without what says how its weights are stored: `org/Name-27B-FP8` and `Name-27B-int8` are one."""
    last = name.strip().lower().rstrip("/").rsplit("/", 1)[-1]
    kept = [part for part in re.split(r"[-. ]+", last) if part and not _CHECKPOINT_PART.match(part)]
    return "-".join(kept).replace("_", "-")


def is_same_length(one: float | None, other: float | None) -> bool:
    """Within 10 %: measured means of one setting differ a little."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= SAME_LENGTH_RATIO * max(one, other)


# --- one field after the other ------------------------------------------------------------------------------------


def _is_one_session(reference: Cell, candidate: Cell) -> bool:
    if reference.measured_at is not None and candidate.measured_at is not None:
        return abs(reference.measured_at - candidate.measured_at) <= SESSION_SECONDS
    return reference.session is not None and reference.session == candidate.session


def _session(cell: Cell) -> str | float | None:
    return cell.session if cell.measured_at is None else cell.measured_at


Getter = Callable[[Cell], object]
Compare = Callable[[Cell, Cell], bool]


def _equal(get: Getter) -> Compare:
    return lambda reference, candidate: get(reference) == get(candidate)


def _model(cell: Cell) -> str | None:
    return None if cell.model is None else base_model(cell.model)


# name -> (how a cell says it, whether two that both say it agree)
FIELDS: dict[str, tuple[Getter, Compare]] = {
    "content": (lambda cell: cell.content or None, _equal(lambda cell: cell.content)),
    "load_mode": (lambda cell: cell.load_mode, _equal(lambda cell: cell.load_mode)),
    "concurrency": (lambda cell: cell.concurrency, _equal(lambda cell: cell.concurrency)),
    "prompt_tokens": (lambda cell: cell.prompt_tokens, lambda a, b: is_same_length(a.prompt_tokens, b.prompt_tokens)),
    "model": (_model, _equal(_model)),
    "hardware": (lambda cell: cell.hardware, _equal(lambda cell: cell.hardware)),
    "api": (lambda cell: cell.api, _equal(lambda cell: cell.api)),
    "streaming": (lambda cell: cell.streaming, _equal(lambda cell: cell.streaming)),
    "tool": (lambda cell: cell.tool, _equal(lambda cell: cell.tool)),
    "per_stream_method": (lambda cell: cell.per_stream_method, _equal(lambda cell: cell.per_stream_method)),
    "token_source": (lambda cell: cell.token_source, _equal(lambda cell: cell.token_source)),
    "session": (_session, _is_one_session),
}


def compare_fields(reference: Cell, candidate: Cell) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(fields that forbid the comparison, fields that are taken as equal because neither cell of one file says them).

    Files that were given together are as one. Known on one side only, or unknown across files: forbidden until it is
    declared in the files.
    """
    is_one_file = reference.source_file == candidate.source_file or (
        reference.given_together is not None and reference.given_together == candidate.given_together
    )
    unfair, assumed = [], []
    for name, (get, agree) in FIELDS.items():
        if name == "per_stream_method" and None in (per_stream_speed(reference), per_stream_speed(candidate)):
            continue  # it is a property of the column, and there is no ratio in it
        stated = [get(cell) is not None for cell in (reference, candidate)]
        if all(stated):
            if not agree(reference, candidate):
                unfair.append(name)
        elif any(stated) or not is_one_file:
            unfair.append(name)
        else:
            assumed.append(name)
    return tuple(unfair), tuple(assumed)


# --- choosing -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Choice:
    reference: Side
    candidate: Side
    unfair: tuple[str, ...]
    assumed: tuple[str, ...]

    @classmethod
    def of(cls, reference: Side, candidate: Side) -> _Choice:
        unfair, assumed = compare_fields(reference.first, candidate.first)
        failed = any(has_failures(cell) for side in (reference, candidate) for cell in side.cells)
        return cls(reference, candidate, (*unfair, *(("failed_requests",) if failed else ())), assumed)

    def refusal(self) -> Refusal:
        return Refusal(self.reference.first, self.candidate.first, self.unfair)

    def pair(self, content: str, level: float) -> Pair:
        cells = (*self.reference.cells, *self.candidate.cells)
        ramp, impossible = any(map(is_ramp, cells)), any(map(is_impossible, cells))
        return Pair(content, level, self.reference, self.candidate, ramp, impossible)

    def distance(self, prompt_tokens: float | None, output_tokens: float | None) -> tuple[float, float]:
        first = self.reference.first
        return _length_distance(first.prompt_tokens, prompt_tokens), _length_distance(
            first.output_tokens, output_tokens
        )

    def flags(self, level: float) -> list[str]:
        """What may differ in a fair pair, and must be said."""
        one, other = self.reference.first, self.candidate.first
        differing = [
            name
            for name, differs in (
                ("output length", _differ(one.output_tokens, other.output_tokens, is_same_length)),
                ("temperature", _differ(one.temperature, other.temperature, lambda a, b: a == b)),
                ("cache state", one.cache_state is not other.cache_state and one.cache_state != other.cache_state),
            )
            if differs
        ]
        return [f"at concurrency {level:g} the two sides differ in {name}" for name in differing]


def _differ(one: float | None, other: float | None, same: Callable[[float, float], bool]) -> bool:
    return one is not None and other is not None and not same(one, other)


def _length_distance(cell: float | None, live: float | None) -> float:
    return octaves(cell, live) if cell and live else 0.0


def _at_levels(cells: Iterable[Cell], configuration: str, content: str) -> dict[float, list[Cell]]:
    """Cells of a configuration and content by what the clients held in flight; unlimited load has no level."""
    found: dict[float, list[Cell]] = {}
    for cell in cells:
        if (cell.configuration, cell.content) != (configuration, content) or cell.concurrency is None:
            continue
        if is_usable(cell.concurrency):
            found.setdefault(cell.concurrency, []).append(cell)
    return found


def _nearest(cells: list[Cell], prompt_tokens: float | None, output_tokens: float | None) -> list[Cell]:
    """The cells of a level that are nearest to the given lengths: comparing each with each has an end."""
    if len(cells) <= MOST_AT_A_LEVEL:
        return cells

    def distance(cell: Cell) -> float:
        lengths = ((cell.prompt_tokens, prompt_tokens), (cell.output_tokens, output_tokens))
        return sum(_length_distance(*pair) for pair in lengths)

    return sorted(cells, key=distance)[:MOST_AT_A_LEVEL]


def _spread(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Some of many cells, evenly from the whole of them: enough to name a pair that somebody would divide."""
    return cells[:: max(len(cells) // MOST_AT_A_LEVEL, 1)]


def _repeats(cells: Iterable[Cell]) -> list[Side]:
    """Groups cells that measured the same thing again; everything that makes a pair fair is equal within a group."""
    groups: list[list[Cell]] = []
    for cell in cells:
        group = next((group for group in groups if _is_repeat(group[0], cell)), None)
        if group is None:
            groups.append([cell])
        else:
            group.append(cell)
    return [Side(tuple(group)) for group in groups]


def _is_repeat(one: Cell, other: Cell) -> bool:
    unfair, _ = compare_fields(one, other)
    is_one_way = is_end_to_end(one) == is_end_to_end(other)
    return not unfair and is_one_way and is_same_length(one.output_tokens, other.output_tokens)


def _nearest_refusal(cells: Sequence[Cell], reference: str, candidate: str, content: str) -> list[Refusal]:
    """Where no concurrency and content is common: the two cells that somebody would be tempted to divide."""
    mine = [cell for cell in cells if cell.configuration == reference]
    other = [cell for cell in cells if cell.configuration == candidate]
    tempting = [
        pair for pair in product(_spread(mine), _spread(other)) if content in (pair[0].content, pair[1].content)
    ]
    refused = [Refusal(one, two, compare_fields(one, two)[0]) for one, two in tempting]
    return [min(refused, key=lambda one: len(one.fields))] if refused else []
