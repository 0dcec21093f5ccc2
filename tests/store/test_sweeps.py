"""Sweeps: imports are whole, the same file is imported once, everything comes back."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from opmon.core.cells import Cell, SweepImport
from opmon.errors import NotFound
from opmon.store import Store

CELLS = (
    Cell("old", "code", 1.0, aggregate=40.5, source_row=2, flags=("ramp",), extra={"gpu": "one"}),
    Cell("new", "", None, per_stream=0.1 + 0.2, streaming=True, derived=("decode",)),
)
FILE = SweepImport(
    "drafters.csv", "ab" * 32, "table", 1, 11, CELLS, notes=("two columns were left out",), original=b"a,b\n1,2\n"
)


def test_an_import_comes_back_as_it_was_with_its_time_and_without_its_file(store: Store) -> None:
    assert store.import_sweep("drafters", FILE, 1234)
    sweep = store.sweep("drafters")
    assert (replace(FILE, imported_ms=1234, original=None),) == sweep.imports
    assert ("old", "new") == sweep.configurations
    assert b"a,b\n1,2\n" == store.sweep_original("drafters", FILE.sha256)


def test_the_same_file_again_changes_nothing(store: Store) -> None:
    store.import_sweep("drafters", FILE, 1)
    before = store.sweep("drafters")
    assert not store.import_sweep("drafters", replace(FILE, file_name="other.csv"), 2)
    assert before == store.sweep("drafters")


def test_several_files_make_one_sweep_in_the_order_of_their_import(store: Store) -> None:
    store.import_sweep("drafters", FILE, 1)
    other = replace(FILE, sha256="cd" * 32, file_name="second.csv", cells=(Cell("third"),))
    store.import_sweep("drafters", other, 2)
    assert ("old", "new", "third") == store.sweep("drafters").configurations


def test_sweeps_are_listed_by_name(store: Store) -> None:
    for name in ("b", "a"):
        store.import_sweep(name, FILE, 1)
    assert ["a", "b"] == [sweep.name for sweep in store.sweeps()]


def test_a_deleted_sweep_is_gone_and_others_stay(store: Store) -> None:
    store.import_sweep("a", FILE, 1)
    store.import_sweep("b", FILE, 1)
    store.delete_sweep("a")
    assert ["b"] == [sweep.name for sweep in store.sweeps()]
    assert (1, 1, 2) == tuple(store.count_rows()[table] for table in ("sweeps", "imports", "cells"))


def test_an_unknown_sweep_is_refused_and_those_that_exist_are_named(store: Store) -> None:
    store.import_sweep("a", FILE, 1)
    for ask in (store.sweep, store.delete_sweep, lambda name: store.sweep_original(name, "")):
        with pytest.raises(NotFound, match="no sweep 'x'; there are: a"):
            ask("x")
    with pytest.raises(NotFound, match="no import 'ff'"):
        store.sweep_original("a", "ff")


def test_a_file_too_large_to_keep_is_noted_and_its_cells_are_kept(store: Store) -> None:
    large = replace(FILE, original=os.urandom(9 * 1024 * 1024))
    store.import_sweep("large", large, 1)
    assert store.sweep_original("large", FILE.sha256) is None
    one = store.sweep("large").imports[0]
    assert CELLS == one.cells
    assert "not kept" in one.notes[-1]
