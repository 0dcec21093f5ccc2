"""What a verdict owes to the files themselves: their readers' notes, and speculation measured on random text.

Contains words only; pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from opmon.core.cells import Cell, Sweep

MOST_NOTES = 6
RANDOM_CONTENT = re.compile(r"(?i)(?<![a-z])(random|synthetic|sonnet)(?![a-z])")
_DRAFTING = re.compile(
    r"(?i)(?<![a-z])(spec(ulative|ulation|dec)?|mtp|eagle|dflash|draft(er|ing)?|medusa|ngram)(?![a-z])"
)
_ON = "on"


def notes_of(sweep: Sweep) -> list[str]:
    """The notes of the readers, what is said of several files once; a handful, and how many more there are."""
    files: dict[str, list[str]] = {}
    for one in sweep.imports:
        for note in one.notes:
            files.setdefault(note, []).append(one.file_name)
    told = [
        f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {note}" for note, names in files.items()
    ]
    more = len(told) - MOST_NOTES
    return [*told[:MOST_NOTES], *([f"{more} more notes of the sweep's files"] if more > 0 else [])]


def random_speculation(content: str, reference: Sequence[Cell], candidate: Sequence[Cell]) -> str | None:
    """Why speculative decoding cannot be judged on this content; None where it can, or where both sides speculate alike."""
    if not RANDOM_CONTENT.search(content) or _speculation(reference) == _speculation(candidate):
        return None
    return (
        f"{content!r} is random or made text, and the two configurations differ in speculative decoding: what a drafter"
        " guesses of random tokens tells nothing about yours; measure with prompts of your own"
    )


def _speculation(cells: Sequence[Cell]) -> str:
    """What the cells of one configuration say of their speculation; '' for none."""
    stated = next((cell.extra["spec_decoding"] for cell in cells if cell.extra.get("spec_decoding")), "")
    if stated.lower() not in ("", "none", "off", "false", "no"):
        return stated
    drafts = any(cell.acceptance_length for cell in cells)
    named = not stated and any(_DRAFTING.search(cell.configuration) for cell in cells)
    return _ON if drafts or named else ""
