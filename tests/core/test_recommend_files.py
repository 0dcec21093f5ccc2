"""What a recommendation says of the files themselves: their notes, and speculation on random text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.recommend.doubts_of_files import MOST_NOTES, notes_of, random_speculation

PLAIN = Cell("plain", "random", 4.0, aggregate=100.0)


def file(name: str, *notes: str) -> SweepImport:
    return SweepImport(name, name, "a", 1, 0, (PLAIN,), notes=notes)


def test_notes_of_files_are_a_handful_and_what_many_say_is_one() -> None:
    many = [f"note {number}" for number in range(MOST_NOTES + 1)]
    told = notes_of(Sweep("s", (file("a.json", *many), file("b.json", "note 0"))))

    assert "a.json and 1 more: note 0" == told[0]
    assert "1 more notes of the sweep's files" == told[-1]


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAIN, configuration="plain mtp3"),
        replace(PLAIN, configuration="b", acceptance_length=2.1),
        replace(PLAIN, configuration="b", extra={"spec_decoding": "eagle"}),
    ],
)
def test_speculation_on_random_text_cannot_be_judged(other: Cell) -> None:
    assert "tells nothing about yours" in (random_speculation("random", [PLAIN], [other]) or "")
    assert random_speculation("", [PLAIN], [other]) is None
    assert random_speculation("code", [PLAIN], [other]) is None


def test_two_sides_without_speculation_may_be_measured_on_random_text() -> None:
    assert random_speculation("random", [PLAIN], [replace(PLAIN, configuration="special")]) is None
