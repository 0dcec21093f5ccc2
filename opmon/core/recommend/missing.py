"""What stands between an undecided content and a verdict, as one sentence that says what to measure or to declare.

Contains the choice among what is missing and its words; the verdict itself is `content`.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from opmon.core.answers import Mismatch
from opmon.core.knee import PER_STREAM
from opmon.core.recommend.case import Case
from opmon.core.recommend.verdicts import FEWEST_EVIDENCE_RATIO, NAMES, times_sign

ALIKE = 0.75
"""From this likeness on a name is offered as the one that was meant: `prse` for `prose`, but not `poem`."""
AXES = {"prompt_tokens": "prompt", "output_tokens": "output"}


def what_is_missing(case: Case, mismatches: Sequence[Mismatch], unsound: Sequence[str]) -> str:
    """What to do first for a verdict on one content. What rules out the cell comes before what blurs its ratio."""
    lengths = [one for one in mismatches if one.octaves is not None]
    if lengths:
        words = " and ".join(f"the {AXES[one.axis]} is {one.live:,.0f} tokens" for one in lengths)
        cells = " and ".join(f"{one.cell:,.0f}" for one in lengths)
        return f"{words} and the cells have {cells}; measure concurrency {case.cell.concurrency:g} at your length"
    if unsound:
        return unsound[0]
    if any(case.is_proxy(column) for column in case.judged_columns):
        return (
            f"the per-stream speed was not measured at concurrency {case.cell.concurrency:g}; measure it there for both"
            " configurations"
        )
    return _in_the_numbers(case)


def _in_the_numbers(case: Case) -> str:
    """Too little evidence, an interval that is too wide, or an unknown side."""
    by_reading = [case.numbers(reading) for reading in case.setting.readings]
    numbers = [numbers[column] for numbers in by_reading for column in case.judged_columns if column in numbers]
    levels = sorted(case.doubts(has_other_lengths=False), key=lambda doubt: -doubt.amount)
    remedy = f"; measure concurrency {levels[0].level}" if levels else ""
    if not numbers:
        return f"no ratio is known in the column that counts{remedy}"
    least = min(numbers, key=lambda number: number.evidence_ratio)
    if least.evidence_ratio < FEWEST_EVIDENCE_RATIO:
        column = NAMES[PER_STREAM] if least.kind == "turn" else NAMES[least.kind]
        share = f"{100 * least.evidence_ratio:.0f} %"
        return f"the ratio of the {column} is known for {share} of the weight only{remedy}"
    if len({case.verdict_if(reading) for reading in case.setting.readings}) > 1:
        return "it depends on which configuration the live server runs; say which (live_is)"
    widest = max(numbers, key=lambda number: number.high / number.low)
    ends = f"{times_sign(widest.low)} to {times_sign(widest.high)}"
    return f"the {NAMES[widest.kind]} lies between {ends.replace(' to ', ' and ')}, across the noise limit{remedy}"


def lead(missing: Sequence[tuple[str, str]]) -> str:
    """One sentence of (content, what is missing): contents that miss the same thing are named together."""
    by_words: dict[str, list[str]] = {}
    for content, words in missing:
        by_words.setdefault(words, []).append(content or "unlabelled")
    return "undecided " + "; ".join(f"for {together(names)}: {words}" for words, names in by_words.items())


def together(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def not_in_the_sweep(content: str, there: Sequence[str]) -> str:
    """That a content was not measured, which were, and which of them may be meant."""
    near = get_close_matches(content.casefold(), [name.casefold() for name in there], n=1, cutoff=ALIKE)
    meant = next((name for name in there if near and name.casefold() == near[0]), None)
    listed = ", ".join(repr(name) for name in there)
    remedy = f"did you mean {meant!r}?" if meant else "measure it, or ask for one of these"
    return f"content {content!r} is not in the sweep, which has {listed}; {remedy}"
