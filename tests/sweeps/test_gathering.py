"""Several files as one sweep: what is held already counts once, and what belongs together is marked."""

from __future__ import annotations

from dataclasses import replace

from opmon.core.cells import Cell, SweepImport
from opmon.core.pairs import compare_fields, distinct
from opmon.sweeps.gathering import gathered, together

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


def test_files_that_were_given_together_are_as_one_and_alone_or_apart_they_are_not() -> None:
    other = replace(RUN, configuration="two", aggregate=500.0)
    apart = [file("a", RUN), file("b", other)]
    marked = together(apart)

    def unfair(files: list[SweepImport]) -> tuple[str, ...]:
        return compare_fields(files[0].cells[0], files[1].cells[0])[0]

    assert ("model", "hardware", "session") == tuple(
        name for name in unfair(apart) if name in ("model", "hardware", "session")
    )
    assert () == unfair(marked)
    assert marked == together(list(reversed(apart)))[::-1]
    assert apart[:1] == together(apart[:1])


def test_what_one_side_states_is_not_assumed_of_the_other() -> None:
    first, second = together([file("a", replace(RUN, hardware="one")), file("b", RUN)])

    assert ("hardware",) == compare_fields(first.cells[0], second.cells[0])[0]


def test_the_mark_makes_no_other_measurement_of_a_cell() -> None:
    first, second = together([file("a", RUN), file("b", RUN)])

    assert 1 == len(distinct([*first.cells, *second.cells, RUN]))
