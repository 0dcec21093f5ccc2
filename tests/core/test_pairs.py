from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.pairs import base_model, compare_fields, distinct, pair_cells

DAY = 86_400
STATED = Cell(
    "old",
    content="code",
    concurrency=4,
    load_mode="closed",
    prompt_tokens=100,
    output_tokens=200,
    aggregate=100.0,
    per_stream=25.0,
    model="org/Name-27B-FP8",
    hardware="H100",
    api="chat",
    streaming=True,
    tool="probe",
    per_stream_method="e2e_median",
    token_source="server_usage",
    measured_at=1_000_000.0,
    source_file="a.csv",
)
OTHER = replace(STATED, configuration="new", aggregate=150.0, per_stream=40.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("load_mode", "open"),
        ("prompt_tokens", 8112),
        ("model", "org/Name-70B"),
        ("hardware", "H200"),
        ("api", "completions"),
        ("streaming", False),
        ("tool", "other"),
        ("per_stream_method", "declared"),
        ("token_source", "chunks"),
        ("measured_at", 1_000_000.0 + 3 * DAY),
    ],
)
def test_a_pair_that_differs_is_refused_naming_the_field(field: str, value: Any) -> None:
    found = pair_cells([STATED, replace(OTHER, **{field: value})], "old", "new", "code")

    assert () == found.pairs
    assert [("session" if field == "measured_at" else field,)] == [refusal.fields for refusal in found.refusals]


@pytest.mark.parametrize(
    ("field", "value"),
    [("model", "org/Name-27B-int8"), ("output_tokens", 400), ("temperature", 0.7), ("cache_state", "warm")],
)
def test_checkpoint_and_soft_fields_may_differ(field: str, value: Any) -> None:
    found = pair_cells([replace(STATED, temperature=0.0), replace(OTHER, **{field: value})], "old", "new", "code")

    assert 1 == len(found.pairs)


def test_soft_differences_are_said() -> None:
    found = pair_cells([STATED, replace(OTHER, output_tokens=400)], "old", "new", "code")

    assert ("at concurrency 4 the two sides differ in output length",) == found.flags


def test_a_field_known_on_one_side_only_forbids_the_pair() -> None:
    found = pair_cells([STATED, replace(OTHER, hardware=None)], "old", "new", "code")

    assert [("hardware",)] == [refusal.fields for refusal in found.refusals]


def test_a_field_unknown_on_both_sides_of_one_file_is_taken_as_equal_and_said() -> None:
    found = pair_cells([replace(STATED, hardware=None), replace(OTHER, hardware=None)], "old", "new", "code")

    assert 1 == len(found.pairs)
    assert ("hardware",) == found.assumed_equal


def test_a_field_unknown_across_files_forbids_the_pair() -> None:
    cells = [replace(STATED, hardware=None), replace(OTHER, hardware=None, source_file="b.csv")]

    assert [("hardware",)] == [refusal.fields for refusal in pair_cells(cells, "old", "new", "code").refusals]


def test_stated_fields_make_a_pair_across_files() -> None:
    assert 1 == len(pair_cells([STATED, replace(OTHER, source_file="b.csv")], "old", "new", "code").pairs)


def test_failed_requests_on_either_side_give_no_verdict() -> None:
    found = pair_cells([STATED, replace(OTHER, failed_requests=3)], "old", "new", "code")

    assert [("failed_requests",)] == [refusal.fields for refusal in found.refusals]


def test_pairs_are_found_by_value_and_not_by_order() -> None:
    cells = [
        replace(STATED, concurrency=1),
        replace(STATED, concurrency=8),
        replace(OTHER, concurrency=8, aggregate=7.0),
        replace(OTHER, concurrency=1, aggregate=5.0),
    ]
    found = pair_cells(cells, "old", "new", "code")

    assert {1: 5.0, 8: 7.0} == {pair.concurrency: pair.candidate.first.aggregate for pair in found.pairs}


def test_different_concurrency_length_and_streaming_are_refused_together() -> None:
    cells = [
        replace(STATED, concurrency=64, prompt_tokens=33),
        replace(OTHER, concurrency=1, prompt_tokens=65_000, streaming=False),
    ]
    (refusal,) = pair_cells(cells, "old", "new", "code").refusals

    assert {"concurrency", "prompt_tokens", "streaming"} <= set(refusal.fields)


def test_repeats_are_one_side_and_its_median_counts() -> None:
    repeats = [replace(STATED, aggregate=value) for value in (90.0, 100.0, 400.0)]
    (pair,) = pair_cells([*repeats, OTHER], "old", "new", "code").pairs

    assert 1.5 == pair.ratio(lambda cell: cell.aggregate)


def test_of_several_lengths_the_nearest_to_the_live_one_is_taken() -> None:
    cells = [
        replace(cell, prompt_tokens=tokens, aggregate=tokens * factor)
        for tokens in (100.0, 8000.0)
        for cell, factor in ((STATED, 1), (OTHER, 2))
    ]
    found = pair_cells(cells, "old", "new", "code", prompt_tokens=6000)

    assert [8000.0] == [pair.prompt_tokens for pair in found.pairs]


def test_levels_of_one_side_only_are_told() -> None:
    cells = [STATED, OTHER, replace(STATED, concurrency=16)]

    assert (16,) == pair_cells(cells, "old", "new", "code").single_levels


def test_unlimited_load_has_no_level() -> None:
    cells = [replace(STATED, concurrency=None), replace(OTHER, concurrency=None)]

    assert () == pair_cells(cells, "old", "new", "code").pairs


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("org/Name-27B-FP8", "Name-27B-int8"),
        ("Name-27B", "Name-27B-AWQ"),
        ("name-27b-w8a8", "Name-27B-Instruct".replace("-Instruct", "")),
        ("a/Name-7B-NVFP4", "b/Name-7B-q4_K_M"),
    ],
)
def test_checkpoints_of_one_model_have_one_base_name(one: str, other: str) -> None:
    assert base_model(one) == base_model(other)


def test_other_sizes_are_other_models() -> None:
    assert base_model("Name-27B-FP8") != base_model("Name-70B-FP8")


def test_of_thousands_of_lengths_at_one_level_the_nearest_is_paired() -> None:
    lengths = range(100, 5_000)
    cells = [replace(one, prompt_tokens=float(length)) for length in lengths for one in (STATED, OTHER)]
    (pair,) = pair_cells(cells, "old", "new", "code", prompt_tokens=3_333).pairs
    assert pair.prompt_tokens == 3_333


def test_of_thousands_of_cells_without_a_common_level_one_refusal_is_named() -> None:
    mine = [replace(STATED, concurrency=float(level)) for level in range(1, 3_000)]
    other = [replace(OTHER, concurrency=level + 0.5) for level in range(1, 3_000)]
    pairing = pair_cells([*mine, *other], "old", "new", "code")
    assert pairing.pairs == ()
    assert ["concurrency"] == [name for refusal in pairing.refusals for name in refusal.fields]


def test_a_row_that_says_in_every_field_what_another_says_counts_once() -> None:
    pasted = [
        replace(cell, source_row=row, source_file=name)
        for row, name in ((2, "a.csv"), (9, "b.csv"))
        for cell in (STATED, OTHER)
    ]
    found = pair_cells(pasted, "old", "new", "code")

    assert 2 == found.duplicates
    assert [1, 1] == [len(side.cells) for pair in found.pairs for side in (pair.reference, pair.candidate)]


@pytest.mark.parametrize("said", [{"aggregate": 101.0}, {"measured_at": 1_000_060.0}, {"extra": {"repeat": "2"}}])
def test_a_repeat_differs_in_a_figure_an_instant_or_a_column_of_its_own(said: dict[str, Any]) -> None:
    found = pair_cells([STATED, replace(STATED, **said), OTHER], "old", "new", "code")

    assert 0 == found.duplicates
    assert [2] == [len(pair.reference.cells) for pair in found.pairs]


def test_the_scatter_of_a_pair_is_that_of_the_side_whose_repeats_lie_further_apart() -> None:
    (pair,) = pair_cells([STATED, replace(STATED, aggregate=80.0), OTHER], "old", "new", "code").pairs

    assert 1.25 == pair.scatter(lambda cell: cell.aggregate)


@pytest.mark.parametrize("speed", [1e-300, 1e300, float("inf"), float("nan"), 0.0, -1.0])
def test_a_speed_that_nothing_has_makes_no_ratio(speed: float) -> None:
    (pair,) = pair_cells([replace(STATED, aggregate=speed, per_stream=None), OTHER], "old", "new", "code").pairs

    assert pair.ratio(lambda cell: cell.aggregate) is None


def test_a_quotient_beyond_a_million_is_no_comparison() -> None:
    (pair,) = pair_cells([replace(STATED, aggregate=1e-4, per_stream=None), OTHER], "old", "new", "code").pairs

    assert pair.ratio(lambda cell: cell.aggregate) is None


# --- files that were given together -------------------------------------------------------------------------------


def added(day: float, configuration: str, **said: Any) -> SweepImport:
    cell = Cell(configuration, "code", 8.0, aggregate=100.0, source_file=f"{configuration}.json", **said)
    return SweepImport(f"{configuration}.json", configuration, "a", 1, 0, (cell,), imported_ms=int(day * 86_400_000))


def unfair(*imports: SweepImport) -> tuple[str, ...]:
    first, second = Sweep("s", imports).cells
    return compare_fields(first, second)[0]


def test_files_that_were_added_within_a_day_are_as_one_and_say_what_is_assumed() -> None:
    first, second = Sweep("s", (added(0, "old"), added(1, "new"))).cells
    refused, assumed = compare_fields(first, second)

    assert () == refused
    assert {"hardware", "model", "session"} <= set(assumed)


def test_files_that_were_added_on_other_days_may_not_leave_out_the_same() -> None:
    assert "hardware" in unfair(added(0, "old"), added(1.01, "new"))


def test_a_day_is_counted_from_the_first_of_the_files() -> None:
    cells = Sweep("s", (added(0, "a"), added(0.9, "b"), added(1.8, "c"))).cells

    assert cells[0].given_together == cells[1].given_together != cells[2].given_together


def test_what_one_file_states_is_not_assumed_of_the_other() -> None:
    assert ("hardware",) == unfair(added(0, "old", hardware="one"), added(0, "new"))


def test_being_given_together_makes_no_other_measurement_of_a_cell() -> None:
    one, other = added(0, "old"), replace(added(0, "old"), file_name="copy.json", sha256="other")

    assert 1 == len(distinct(Sweep("s", (one, other)).cells))
