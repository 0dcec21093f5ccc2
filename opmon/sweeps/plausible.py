"""Whether the figures of a hand-made table can all be right, and which of its names are one.

Contains what needs several columns or several rows; a single value is `columns`. What cannot be right is kept, flagged
`inconsistent_table` and told, and carries no verdict. Notes are for a person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from opmon.core.cells import INCONSISTENT_TABLE, Cell, is_end_to_end
from opmon.core.names import quoted

FEWEST_OF_ALL_STREAMS, MOST_OF_ALL_STREAMS = 0.5, 1.25
"""Aggregate / (concurrency x per-stream): ramps pull it down, skewed requests push it up, and neither goes further."""
SAME_AT_ONE_RATIO = 0.15
LEAST_OF_ONE_STREAM = 0.8
MOST_FROM_ELAPSED_RATIO = 1.25
"""Between the per-stream speed (a median) and mean length / mean e2e: skew explains no more."""
LEAST_OF_LEVEL_ONE = 0.9
SMALLEST_QUOTIENT, LARGEST_QUOTIENT = 0.2, 5.0
LEAST_SPEED_BESIDE_QUOTIENT, QUOTIENT_BEYOND_RATIO = 20.0, 10.0
_FIGURES = ("aggregate", "per_stream", "decode")


def settled(cells: Sequence[Cell], notes: list[str]) -> tuple[Cell, ...]:
    """The cells of a file with one spelling of each name, and flagged where figures cannot be right."""
    named = [
        replace(cell, configuration=configuration, content=content)
        for cell, (configuration, content) in zip(cells, _spellings(cells, notes), strict=True)
    ]
    one_by_one = [_plausible(cell, notes) for cell in named]
    suspects = _falling(one_by_one, notes) | _quotients(one_by_one, notes)
    return tuple(_flagged(cell) if place in suspects else cell for place, cell in enumerate(one_by_one))


def _flagged(cell: Cell) -> Cell:
    return cell if INCONSISTENT_TABLE in cell.flags else replace(cell, flags=(*cell.flags, INCONSISTENT_TABLE))


# --- names --------------------------------------------------------------------------------------------------------


def _spellings(cells: Sequence[Cell], notes: list[str]) -> list[tuple[str, str]]:
    """Configuration and content of each cell as they were first spelled: case and white space tell nothing apart."""
    first: dict[tuple[str, str], str] = {}

    def spelled(kind: str, text: str) -> str:
        name = first.setdefault((kind, " ".join(text.split()).casefold()), text)
        if name != text:
            notes.append(f"the {kind} {quoted(text)} is taken for {quoted(name)}")
        return name

    return [(spelled("configuration", cell.configuration), spelled("content", cell.content)) for cell in cells]


# --- one row ------------------------------------------------------------------------------------------------------


def _plausible(cell: Cell, notes: list[str]) -> Cell:
    """The cell, flagged where two of its columns cannot both be. What is only odd is told."""
    speed = cell.per_stream
    if not speed or not is_end_to_end(cell):
        return cell
    place = f"row {cell.source_row}: "
    if cell.output_tokens and cell.e2e:
        elapsed = cell.output_tokens / cell.e2e
        if not 1 / MOST_FROM_ELAPSED_RATIO <= elapsed / speed <= MOST_FROM_ELAPSED_RATIO:
            words = (
                f"per-stream {speed:g}, but {cell.output_tokens:g} tokens in {cell.e2e:g} s are {elapsed:g}; is it without"
                " the first token (decode_tok_s)? The cell is kept without a verdict"
            )
            notes.append(place + words)
            cell = _flagged(cell)
    if not cell.concurrency or not cell.aggregate:
        return cell
    figures = f"aggregate {cell.aggregate:g}, per-stream {speed:g} at concurrency {cell.concurrency:g}"
    share = cell.aggregate / (cell.concurrency * speed)
    if not FEWEST_OF_ALL_STREAMS <= share <= MOST_OF_ALL_STREAMS:
        words = (
            f"so many streams would make {cell.concurrency * speed:g}; one of the two counts something else, and the"
            " cell is kept without a verdict"
        )
        notes.append(f"{place}{figures}: {words}")
        return _flagged(cell)
    if cell.concurrency == 1 and abs(cell.aggregate / speed - 1) > SAME_AT_ONE_RATIO:
        words = (
            "at 1 they are the same but for the pauses between requests; is one of them without the first token"
            " (decode_tok_s)?"
        )
        notes.append(f"{place}{figures}: {words}")
    elif cell.aggregate < LEAST_OF_ONE_STREAM * speed:
        notes.append(f"{place}{figures}: all streams together are slower than one of them; check both columns")
    return cell


# --- several rows -------------------------------------------------------------------------------------------------


def _falling(cells: Sequence[Cell], notes: list[str]) -> set[int]:
    """Places of rows, without a per-stream speed to explain them, in whose group all streams are slower than one."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        if cell.concurrency and cell.aggregate and cell.per_stream is None:
            key = (cell.configuration, cell.content, cell.prompt_tokens, cell.output_tokens, cell.session)
            groups[key].append(place)
    suspects: set[int] = set()
    for places in groups.values():
        at_one = min((cells[place].aggregate or 0 for place in places if cells[place].concurrency == 1), default=0)
        fallen = [place for place in places if (cells[place].aggregate or 0) < LEAST_OF_LEVEL_ONE * at_one]
        fallen = [place for place in fallen if (cells[place].concurrency or 0) > 1]
        if not fallen:
            continue
        first = cells[fallen[0]]
        words = (
            f"aggregate {first.aggregate:g} at concurrency {first.concurrency:g} is less than {at_one:g} at 1: all streams"
            " together are slower than one; one of them is probably the speed of one stream (per_stream_tok_s or"
            f" decode_tok_s). The {len(places)} rows of {quoted(first.configuration)} are kept without a verdict"
        )
        notes.append(f"row {first.source_row}: {words}")
        suspects.update(places)
    return suspects


def _quotients(cells: Sequence[Cell], notes: list[str]) -> set[int]:
    """Places of rows of a configuration that holds quotients where another holds speeds."""
    suspects: set[int] = set()
    for figure in _FIGURES:
        figures: dict[str, dict[tuple[object, ...], list[float]]] = defaultdict(lambda: defaultdict(list))
        for cell in cells:
            if (value := getattr(cell, figure)) is not None:
                figures[cell.configuration][(cell.content, cell.concurrency)].append(value)
        for configuration, levels in figures.items():
            values = [value for some in levels.values() for value in some]
            if not all(SMALLEST_QUOTIENT <= value <= LARGEST_QUOTIENT for value in values):
                continue
            other = next((name for name, speeds in figures.items() if _are_speeds(speeds, levels)), None)
            if other is None:
                continue
            words = f"are those quotients? Beside the speeds of {quoted(other)} they are kept without a verdict"
            notes.append(f"{figure} of {quoted(configuration)} is {min(values):g} to {max(values):g}: {words}")
            suspects.update(
                place
                for place, cell in enumerate(cells)
                if cell.configuration == configuration and getattr(cell, figure) is not None
            )
    return suspects


def _are_speeds(
    speeds: dict[tuple[object, ...], list[float]], quotients: dict[tuple[object, ...], list[float]]
) -> bool:
    """Whether at every level that both have the speeds are above 20 and ten times what may be quotients."""
    common = speeds.keys() & quotients.keys()
    return bool(common) and all(
        min(speeds[level]) > max(LEAST_SPEED_BESIDE_QUOTIENT, QUOTIENT_BEYOND_RATIO * max(quotients[level]))
        for level in common
    )
