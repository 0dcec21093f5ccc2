"""What holds of every recommendation, whatever the sweep and the load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core.answers import Recommendation
from opmon.core.cells import Cell, Sweep, SweepImport
from opmon.core.recommend import Ask, LivePoint, recommend
from opmon.core.sums import Sums, add

LEVELS = (1, 2, 3, 4, 8, 16, 32, 64)
OLD, NEW = "old", "new"
NAMES = {OLD: "fp8 (A)", NEW: "int8 $x", "code": "Prosa", "prose": "Quelltext"}
ROUNDING = 1e-9

speeds = st.floats(1, 1000)
occupancies = st.dictionaries(st.integers(0, 70), st.integers(1, 100_000), min_size=1, max_size=6).filter(
    lambda levels: any(level > 0 for level in levels)
)
sides = st.sampled_from(["reference", "candidate", None])


@st.composite
def cells_of(draw: st.DrawFn, *, is_same: bool = False) -> list[Cell]:
    """One or two contents of two configurations: some levels, some figures, some repeats. `is_same`: rows of the second
    configuration say what those of the first say."""
    found: list[Cell] = []
    for content in draw(st.sampled_from([("code",), ("code", "prose")])):
        for level in draw(st.sets(st.sampled_from(LEVELS), min_size=1, max_size=4)):
            mine = [_row(draw, OLD, content, level) for _ in range(draw(st.integers(1, 3)))]
            other = [replace(row, configuration=NEW) for row in mine]
            if not is_same:
                other = [_row(draw, NEW, content, level) for _ in range(draw(st.integers(0, 3)))]
            found += [*mine, *other]
    return found


def _row(draw: st.DrawFn, configuration: str, content: str, level: int) -> Cell:
    return Cell(
        configuration,
        content=content,
        concurrency=level,
        aggregate=draw(st.none() | speeds.map(lambda speed: speed * level)),
        per_stream=draw(st.none() | speeds),
        tpot=draw(st.none() | st.floats(0.001, 1)),
        ttft=draw(st.none() | st.floats(0.01, 10)),
        prompt_tokens=512,
        output_tokens=256,
        hardware="one card",
        source_file="made.csv",
    )


def sweep_of(cells: list[Cell]) -> Sweep:
    return Sweep("made", (SweepImport("made.csv", "", "table", 1, 0, tuple(cells)),))


def answer_of(cells: list[Cell], load: Mapping[int, int], live_is: str | None, **said: Any) -> Recommendation:
    point = LivePoint(running=load, in_system=load, prompt_tokens=512, output_tokens=256, ttft_seconds=1.0)
    point = replace(point, decode_seconds=2.0, limited_ratio=0.0)
    return recommend(sweep_of(cells), point, Ask(**{"reference": OLD, "candidate": NEW, "live_is": live_is, **said}))


def numbers_of(answer: Recommendation) -> Any:
    """Everything that is a figure or a verdict, by content; without names and words."""
    figures = {
        one.content: (
            one.verdict,
            one.cell and one.cell.concurrency,
            one.column,
            one.columns,
            one.knee_requests,
            one.threshold_ratio,
            one.whole_turn,
            one.other_readings,
            one.projection,
            (one.weight_at_cells_ratio, one.weight_between_ratio, one.weight_outside_ratio),
        )
        for one in answer.contents
    }
    asked = {(one.content, one.concurrency) for one in answer.measure_next}
    return answer.verdict, answer.combined, figures, asked


def has_both(cells: list[Cell]) -> bool:
    return {OLD, NEW} <= {cell.configuration for cell in cells}


@given(cells_of().filter(has_both), occupancies, sides)
def test_the_weighted_ratio_lies_within_its_interval(cells: list[Cell], load: dict[int, int], side: str | None) -> None:
    for content in answer_of(cells, load, side).contents:
        for column in (content.columns.per_stream, content.columns.aggregate):
            if column.ratio_weighted is not None:
                assert column.low is not None
                assert column.high is not None
                assert column.low * (1 - ROUNDING) <= column.ratio_weighted <= column.high * (1 + ROUNDING)


@given(cells_of().filter(has_both), occupancies, sides, st.floats(0.01, 0.99))
def test_the_ratio_of_a_mix_lies_within_its_interval(
    cells: list[Cell], load: dict[int, int], side: str | None, share: float
) -> None:
    combined = answer_of(cells, load, side, content=f"code={share},prose={1 - share}").combined

    if combined is not None and combined.ratio_weighted is not None:
        assert combined.low is not None
        assert combined.high is not None
        assert combined.low * (1 - ROUNDING) <= combined.ratio_weighted <= combined.high * (1 + ROUNDING)


@given(cells_of(is_same=True), occupancies, sides)
def test_a_configuration_is_never_better_or_worse_than_itself(
    cells: list[Cell], load: dict[int, int], side: str | None
) -> None:
    assert answer_of(cells, load, side).verdict not in ("switch", "stay")


@given(cells_of().filter(has_both), occupancies, sides)
def test_names_say_nothing(cells: list[Cell], load: dict[int, int], side: str | None) -> None:
    renamed = [
        replace(cell, configuration=NAMES[cell.configuration], content=NAMES[cell.content], extra=cell.extra)
        for cell in cells
    ]
    verdict, combined, figures, asked = numbers_of(answer_of(cells, load, side))
    expected = (
        verdict,
        combined,
        {NAMES[content]: figure for content, figure in figures.items()},
        {(NAMES[content], level) for content, level in asked},
    )

    assert expected == numbers_of(answer_of(renamed, load, side, reference=NAMES[OLD], candidate=NAMES[NEW]))


@given(cells_of().filter(has_both), occupancies, sides, st.randoms(use_true_random=False))
def test_the_order_of_rows_says_nothing(
    cells: list[Cell], load: dict[int, int], side: str | None, random: Random
) -> None:
    shuffled = random.sample(cells, len(cells))

    assert numbers_of(answer_of(cells, load, side)) == numbers_of(answer_of(shuffled, load, side))


@given(cells_of().filter(has_both), occupancies, sides, st.integers(2, 5), st.randoms(use_true_random=False))
def test_the_same_time_in_other_pieces_says_the_same(
    cells: list[Cell], load: dict[int, int], side: str | None, number: int, random: Random
) -> None:
    pieces = [Sums() for _ in range(number)]
    for level, ms in load.items():
        cuts = sorted([0, *(random.randint(0, ms) for _ in range(number - 1)), ms])
        for piece, start, end in zip(pieces, cuts, cuts[1:], strict=False):
            piece.running[level] = end - start
    together = Sums()
    for piece in random.sample(pieces, number):
        add(together, piece)

    assert numbers_of(answer_of(cells, load, side)) == numbers_of(answer_of(cells, together.running, side))


UNFAIR = {
    "prompt_tokens": 8112,
    "hardware": "another card",
    "model": "org/another",
    "session": "another day",
    "api": "completions",
    "streaming": False,
    "token_source": "characters",
}


@given(
    cells_of().filter(has_both),
    occupancies,
    sides,
    st.sampled_from(sorted(UNFAIR)),
    st.sampled_from(LEVELS),
    st.sampled_from([OLD, NEW]),
)
@settings(max_examples=200)
def test_a_cell_that_is_in_no_fair_pair_changes_no_number(
    cells: list[Cell], load: dict[int, int], side: str | None, field: str, level: int, configuration: str
) -> None:
    said: dict[str, Any] = {
        "model": "org/one",
        "session": "a",
        "api": "chat",
        "streaming": True,
        "token_source": "usage",
    }
    stated = [replace(cell, **said) for cell in cells]
    odd = replace(stated[0], configuration=configuration, concurrency=level, aggregate=9e4, per_stream=9e3)
    unfair = replace(odd, **{field: UNFAIR[field]})  # type: ignore[arg-type]

    assert numbers_of(answer_of(stated, load, side)) == numbers_of(answer_of([*stated, unfair], load, side))
