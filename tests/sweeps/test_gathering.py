"""Several files as one sweep: what it holds already counts once."""

from __future__ import annotations

from dataclasses import replace

from opmon.core.cells import Cell, SweepImport
from opmon.sweeps.gathering import gathered

RUN = Cell("one", "code", 4.0, tool="a tool", aggregate=400.0, requests_per_second=2.0, ttft=0.1, tpot=0.02, e2e=2.0)


def file(name: str, *cells: Cell) -> SweepImport:
    return SweepImport(name, name * 8, "a", 1, 0, tuple(replace(cell, source_file=name) for cell in cells))


def test_a_run_that_is_held_is_left_out_and_told_and_a_repeat_is_not() -> None:
    repeat = replace(RUN, aggregate=401.0, ttft=0.11)
    kept, told = gathered([file("new", RUN, repeat)], [file("old", RUN)])

    assert [401.0] == [cell.aggregate for one in kept for cell in one.cells]
    assert ["new: 1 of its runs are in the sweep already"] == told


def test_a_file_that_is_held_stays_as_it_is() -> None:
    kept, told = gathered([file("old", RUN)], [file("old", RUN)])

    assert ([file("old", RUN)], []) == (kept, told)


def test_a_file_of_which_nothing_is_new_is_left_out() -> None:
    kept, told = gathered([file("new", RUN)], [file("old", RUN)])

    assert ([], ["new: 1 of its runs are in the sweep already"]) == (kept, told)


def test_tables_by_hand_with_equal_figures_are_kept() -> None:
    by_hand = replace(RUN, tool=None)
    kept, _ = gathered([file("new", by_hand)], [file("old", by_hand)])

    assert 1 == len(kept)
