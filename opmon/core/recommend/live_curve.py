"""The live curve beside the cells of a sweep: does the sweep describe this server at all?

Contains the comparison level by level; where to look when it fails is `look_first`.

What is compared. A pure pair of scrapes has the same number of requests running at both ends and an inter-token sum that
agrees with it: decode at that level, and hardly any prefill. A client's aggregate holds everything that happened while it
measured: prefill, ramp, drain. Beside two recorded sweeps of a real server (9 s of pure pairs and more) live was 7 % below to 9 % above
the plain aggregate, 10 % below to 7 % above the aggregate without prefill, and up to 21 % below level / median TPOT: a
median leaves out the slow requests, which are in all the others. Prompts were short there; with long ones the plain aggregate
of a server that is quite as fast lies far below its decode. So the aggregate is taken, without the share of a request that
its prefill took; ramp is left out. Where
prefill is so large a share that taking it out moves the figure by more than the difference that is looked for, the cell
says nothing of decode, and nothing is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from opmon.core.answers import CurvePoint
from opmon.core.beside import LevelBeside, LookFirst
from opmon.core.cells import Cell, has_failures, is_ramp, is_usable, octaves
from opmon.core.curve import SHORTEST_MS
from opmon.core.pairs import is_same_length

DIFFERS_RATIO = 0.20
AXES = {
    "prompt_tokens": "the prompts",
    "output_tokens": "the answers",
    "content": "the content",
    "configuration": "the configuration",
}


def beside(
    curve: Sequence[CurvePoint], cells: Iterable[Cell], shortest_ms: int = SHORTEST_MS
) -> tuple[LevelBeside, ...]:
    """One line for each configuration, content and concurrency of the cells. `curve`: every level that was seen, however
    short. Cells without a concurrency or an aggregate are left out; what cannot be compared says why."""
    groups: dict[tuple[str, str, float], list[Cell]] = {}
    for cell in cells:
        if cell.concurrency is not None and is_usable(cell.concurrency) and is_usable(cell.aggregate):
            groups.setdefault((cell.content, cell.configuration, cell.concurrency), []).append(cell)
    seen = {float(point.level): point for point in curve}
    return tuple(_level(*key, groups[key], seen.get(key[2]), shortest_ms) for key in sorted(groups))


def nearest_lengths(cells: Sequence[Cell], prompt_tokens: float | None, output_tokens: float | None) -> list[Cell]:
    """Of each configuration, content and concurrency the cells of the lengths nearest to the given ones."""
    groups: dict[tuple[str, str, float | None], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.configuration, cell.content, cell.concurrency), []).append(cell)

    def distance(cell: Cell) -> float:
        lengths = ((cell.prompt_tokens, prompt_tokens), (cell.output_tokens, output_tokens))
        return sum(octaves(one, live) for one, live in lengths if one and live)

    found = []
    for group in groups.values():
        best = min(group, key=distance)
        found += [
            cell
            for cell in group
            if is_same_length(cell.prompt_tokens, best.prompt_tokens)
            and is_same_length(cell.output_tokens, best.output_tokens)
        ]
    return found


def prefill_share(cell: Cell) -> float:
    """The share of a request's time before its first token; 0 where the cell does not say."""
    whole = cell.e2e
    if whole is None and cell.ttft is not None and cell.tpot and cell.output_tokens:
        whole = cell.ttft + (cell.output_tokens - 1) * cell.tpot
    return min(cell.ttft / whole, 1.0) if cell.ttft is not None and whole else 0.0


def _level(
    content: str, configuration: str, level: float, cells: Sequence[Cell], point: CurvePoint | None, shortest_ms: int
) -> LevelBeside:
    aggregate = median(cell.aggregate for cell in cells if cell.aggregate is not None)
    seconds = point.seconds if point else 0.0
    live = point.aggregate_tokens_per_second if point and 1000 * seconds >= shortest_ms else None
    refusal, decode = _decode(cells)
    difference = live / decode - 1 if live is not None and decode is not None else None
    if live is None:
        words = f"too little data: {math.floor(seconds)} s of pure pairs at this level, and {shortest_ms / 1000:.0f} s are needed"
    elif difference is None:
        words = refusal
    else:
        words = _in_words(difference)
    agrees = None if difference is None else abs(difference) <= DIFFERS_RATIO
    return LevelBeside(content, configuration, level, seconds, live, aggregate, decode, difference, agrees, words)


def _decode(cells: Sequence[Cell]) -> tuple[str, float | None]:
    """(why the cells cannot be compared with decode, their aggregate without prefill)."""
    sound = [cell for cell in cells if not has_failures(cell)]
    if not sound:
        return "requests failed in the cell", None
    if any(map(is_ramp, sound)):
        return "the cell's aggregate is ramp and drain", None
    shares = [prefill_share(cell) for cell in sound]
    if max(shares) > DIFFERS_RATIO:
        return f"prefill takes {100 * max(shares):.0f} % of a request in the cell, so it says little of decode", None
    return "", median((cell.aggregate or 0.0) / (1 - share) for cell, share in zip(sound, shares, strict=True))


def _in_words(difference: float) -> str:
    percent = f"{100 * abs(difference):.0f} %"
    way = "faster" if difference > 0 else "slower"
    if abs(difference) <= DIFFERS_RATIO:
        return f"agrees ({percent} {way} live)" if abs(difference) >= 0.005 else "agrees"
    return f"{percent} {way} live: the sweep does not describe this workload here"


def differs_in_words(one: LevelBeside, live_is: str, look: Sequence[LookFirst]) -> str:
    """That the sweep does not describe the workload, with both numbers and where to look first."""
    cell = one.cell_decode_tokens_per_second
    taken_out = " (without prefill)" if cell != one.cell_aggregate_tokens_per_second else ""
    words = (
        f"the sweep does not describe this workload: at {one.concurrency:g} the live server makes"
        f" {one.live_tokens_per_second:.0f} tok/s and the sweep's {live_is} {cell:.0f}{taken_out}"
    )
    return words + (f"; look first at {AXES[look[0].axis]}: {look[0].words}" if look else "")
