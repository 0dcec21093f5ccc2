"""Several files as one sweep: what it holds already counts once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from opmon.core.cells import Cell, SweepImport
from opmon.errors import SweepError
from opmon.sweeps.detect import read_upload
from opmon.sweeps.document import Document
from opmon.sweeps.gathering import beside, gathered
from opmon.sweeps.reading import Fields, Given, cell
from tests.detailed import summary

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


def test_other_figures_at_what_is_held_are_kept_and_noted_and_repeats_are_not() -> None:
    other = replace(RUN, aggregate=800.0, ttft=0.05)
    repeat = replace(RUN, aggregate=401.0, ttft=0.11)
    (kept,), _ = gathered([file("new", other)], [file("old", RUN)])

    assert kept.notes[0].startswith(
        "'one' is in the sweep already with other figures at concurrency 4 (more than 10% apart)"
    )
    assert () == gathered([file("new", repeat)], [file("old", RUN)])[0][0].notes
    assert () == gathered([file("new", replace(other, concurrency=8.0))], [file("old", RUN)])[0][0].notes


def test_the_same_file_under_another_name_is_refused_and_under_a_guessed_one_is_not() -> None:
    renamed = file("old", replace(RUN, configuration="two"))
    with pytest.raises(SweepError, match="in sweep 's' already, as one code, and keeps these names"):
        beside(renamed, [file("old", RUN)], "s")

    guessed = replace(renamed, notes=("the configuration 'two' is guessed from the file's name",))
    assert guessed == beside(guessed, [file("old", RUN)], "s")


def test_the_same_file_with_another_content_is_refused_and_without_one_is_not() -> None:
    with pytest.raises(SweepError, match="keeps these names"):
        beside(file("old", replace(RUN, content="prose")), [file("old", RUN)], "s")

    silent = file("old", replace(RUN, content=""))
    assert silent == beside(silent, [file("old", RUN)], "s")


def test_an_upload_that_names_nothing_but_the_model_is_refused_with_the_remedy() -> None:
    data = json.dumps(summary(40)).encode()
    with pytest.raises(SweepError, match=r"nothing but the model .* name it \(`config`, --config\)"):
        read_upload(data, "c8.json", reader="auto", configuration=None, content=None)

    assert (
        "one" == read_upload(data, "c8.json", reader="auto", configuration="one", content=None).cells[0].configuration
    )
    assert (
        "spec" == read_upload(data, "spec.json", reader="auto", configuration=None, content=None).cells[0].configuration
    )


@pytest.mark.parametrize(("aggregate", "rate", "flagged"), [(50, 1, []), (65, 1, ["x"]), (20, 1, ["x"]), (20, 0.4, [])])
def test_at_concurrency_1_an_aggregate_must_be_what_one_stream_makes_or_a_ramp(
    aggregate: float, rate: float, flagged: list[str]
) -> None:
    made = cell(
        Fields({}, "a.json"),
        Given("one"),
        concurrency=1.0,
        aggregate=aggregate,
        per_stream=50.0,
        requests_per_second=rate,
        e2e=1.0,
    )

    assert len(flagged) == made.flags.count("inconsistent_table")


def test_a_text_that_is_not_utf_8_and_a_number_without_end_are_told_as_what_they_are() -> None:
    with pytest.raises(SweepError, match=r"no UTF-8 text \(line 2, byte 19\): save it as UTF-8"):
        _ = Document.of_bytes(b'{"output": "fine"}\n\xe9', "a.json").text
    with pytest.raises(SweepError, match="a number with too many digits"):
        _ = Document.of_bytes(b'{"a": ' + b"1" * 5000 + b"}", "a.json").records
