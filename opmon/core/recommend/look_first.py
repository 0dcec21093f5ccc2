"""Where to look first when a sweep does not describe the live server, and what its acceptance length says of content.

Contains the order of the axes and its reasons; whether they differ at all is `live_curve`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from opmon.core.beside import InferredContent, LookFirst
from opmon.core.cells import Cell, octaves

LENGTH_DIFFERS_OCTAVES = 0.5
ACCEPTANCE_DIFFERS_RATIO = 0.10
"""Speed goes with acceptance length, so a tenth of it is half of the difference that a sweep may have."""
TOLD_APART_RATIO = 0.10
"""Two contents whose acceptance lengths are nearer than this are not told apart by it: the live one moves that much."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the live server: lengths in tokens, acceptance length in tokens a step."""

    prompt_tokens: float | None
    output_tokens: float | None
    acceptance_length: float | None


def look_first(live: Known, cells: Sequence[Cell], ceiling: int | None) -> tuple[LookFirst, ...]:
    """The axes in order: what differs, with lengths before content; then what is not known; then what cannot be seen
    from here, the configuration. `cells`: a cell of the configuration that runs, and its repeats. It comes first where lengths and content are known and agree."""
    first = cells[0]
    configuration = first.configuration
    lengths = [
        _length("prompt_tokens", "prompt", first.prompt_tokens, live.prompt_tokens),
        _length("output_tokens", "output", first.output_tokens, live.output_tokens),
    ]
    differing = sorted((one for one in lengths if _differs(one)), key=lambda one: -(one.octaves or 0.0))
    content = _acceptance(acceptance_of(cells), live.acceptance_length)
    if content.octaves is not None and content.octaves > math.log2(1 + ACCEPTANCE_DIFFERS_RATIO):
        differing.append(content)
    unknown = [one for one in (*lengths, content) if one.octaves is None]
    known_alike = "lengths and acceptance agree, so " if not differing and not unknown else ""
    limit = "" if ceiling is None else f"; its ceiling is {ceiling}"
    last = LookFirst(
        "configuration",
        configuration,
        None,
        None,
        f"{known_alike}check that {configuration} is what runs: weights, version, options{limit}",
    )
    return (*differing, *unknown, last)


def _differs(one: LookFirst) -> bool:
    return one.octaves is not None and one.octaves >= LENGTH_DIFFERS_OCTAVES


def _length(axis: str, name: str, cell: float | None, live: float | None) -> LookFirst:
    if not cell or not live:
        side = "the cell" if not cell else "the live server"
        return LookFirst(axis, cell, live, None, f"the {name} length of {side} is not known: it may be what differs")
    apart = octaves(live, cell)
    reason = "each step reads a longer context" if live > cell else "each step reads a shorter context"
    return LookFirst(
        axis,
        cell,
        live,
        apart,
        f"the {name} is {live:,.0f} tokens live and {cell:,.0f} in the cell, {apart:.1f} octaves: {reason}",
    )


def _acceptance(cell: float | None, live: float | None) -> LookFirst:
    if not cell or not live:
        side = " and ".join(name for name, one in (("the cell", cell), ("the live server", live)) if not one)
        return LookFirst(
            "content", cell, live, None, f"the acceptance length of {side} is not known, so content cannot be compared"
        )
    return LookFirst(
        "content",
        cell,
        live,
        octaves(live, cell),
        f"{live:.2f} tokens a step live and {cell:.2f} in the cell: other content is drafted better or worse",
    )


def acceptance_of(cells: Sequence[Cell]) -> float | None:
    """The median acceptance length of the cells that state one above 1."""
    known = [cell.acceptance_length for cell in cells if cell.acceptance_length and cell.acceptance_length >= 1]
    return median(known) if known else None


def infer_content(live: float | None, cells: Sequence[Cell], configuration: str) -> InferredContent | None:
    """What the live acceptance length says of content: the nearest of the configuration's contents, or a mix of two.

    None unless the server speculates and the configuration has acceptance lengths for two contents. Never across
    configurations: another drafter accepts another length of the same text. Steps add: of s tokens of one content and
    1 - s of another there are s / a + (1 - s) / b steps a token.
    """
    mine = [cell for cell in cells if cell.configuration == configuration]
    lengths = {
        content: length
        for content in dict.fromkeys(cell.content for cell in mine)
        if (length := acceptance_of([cell for cell in mine if cell.content == content])) is not None
    }
    if not live or live < 1 or len(lengths) < 2:
        return None
    ranked = sorted(lengths, key=lambda content: abs(math.log(lengths[content] / live)))
    nearest, shares, words = _reading(live, lengths, ranked)
    said = f"inferred from {live:.2f} tokens a step, within {configuration}: {words}"
    return InferredContent(configuration, live, lengths, nearest, shares, said)


def _reading(
    live: float, lengths: Mapping[str, float], ranked: Sequence[str]
) -> tuple[str | None, dict[str, float] | None, str]:
    """(nearest content, shares of output tokens, in words)."""
    first, second = ranked[0], ranked[1]
    listed = ", ".join(f"{content or 'unlabelled'} {length:.2f}" for content, length in lengths.items())
    if abs(math.log(lengths[first] / lengths[second])) <= math.log1p(TOLD_APART_RATIO):
        return None, None, f"{first} and {second} are drafted alike, so it does not say which ({listed})"
    low, high = min(lengths.values()), max(lengths.values())
    slack = 1 + TOLD_APART_RATIO
    if not low / slack <= live <= high * slack:
        return None, None, f"it lies outside of what the sweep's contents have ({listed})"
    if abs(math.log(live / lengths[first])) <= math.log1p(TOLD_APART_RATIO / 2):
        return first, {first: 1.0}, f"{first or 'unlabelled'} ({listed})"
    if len(lengths) > 2:
        return first, None, f"nearest to {first}; more than one mix gives it ({listed})"
    one, other = lengths[first], lengths[second]
    share = min(max((1 / live - 1 / other) / (1 / one - 1 / other), 0.0), 1.0)
    mix = f"{first} {100 * share:.0f} % and {second} {100 * (1 - share):.0f} % of the output tokens"
    return first, {first: share, second: 1 - share}, f"as {mix} would give it ({listed})"
