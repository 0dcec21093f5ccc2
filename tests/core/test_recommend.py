from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core.answers import ContentAnswer, CurvePoint, Recommendation
from opmon.core.cells import Cell, Sweep
from opmon.core.recommend import LivePoint, choose_configurations, parse_mix, recommend
from opmon.errors import ConfigError, SweepError
from tests.core.drafters import EXAMPLE, OCCUPANCY, ask, content_of, example, live, sweep_of

LEVELS = (1, 2, 4, 8, 16, 32)


def cells(
    configuration: str, speeds: dict[int, tuple[float, float]], content: str = "code", **known: Any
) -> list[Cell]:
    """Cells whose aggregate is what their clients kept in flight, so that nothing is ramp."""
    return [
        Cell(
            configuration,
            content=content,
            concurrency=level,
            per_stream=per_stream,
            aggregate=aggregate,
            source_file="made.csv",
            **known,
        )
        for level, (per_stream, aggregate) in speeds.items()
    ]


def steady(per_stream: float, levels: tuple[int, ...] = LEVELS, knee: int = 8) -> dict[int, tuple[float, float]]:
    """Per-stream speed falls past the knee, so that the aggregate is flat there."""
    return {n: (per_stream * min(1, knee / n), per_stream * min(n, knee)) for n in levels}


def two(ratio: float, **known: Any) -> Sweep:
    """A candidate that is faster by a ratio everywhere."""
    return sweep_of(*cells("old", steady(100), **known), *cells("new", steady(100 * ratio), **known))


def only(sweep: Sweep, point: LivePoint | None = None, **said: Any) -> ContentAnswer:
    (one,) = recommend(sweep, point or live(), ask(content="code", **said)).contents
    return one


# --- verdicts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "expected"), [(1.5, "switch"), (0.7, "stay"), (1.02, "no_difference"), (0.97, "no_difference")]
)
def test_a_ratio_that_is_measured_everywhere_is_judged_by_its_class(ratio: float, expected: str) -> None:
    assert expected == only(two(ratio)).verdict


def test_a_live_length_over_an_octave_from_the_cell_is_at_most_undecided() -> None:
    sweep = two(1.5, prompt_tokens=100, output_tokens=100)

    assert "switch" == only(sweep, prompt_tokens=190, output_tokens=60).verdict
    assert "undecided" == only(sweep, prompt_tokens=210).verdict
    assert "undecided" == only(sweep, output_tokens=40).verdict


def test_an_unmeasured_content_is_at_most_undecided_and_shown_with_both_names() -> None:
    answer = recommend(two(1.5), live(), ask(content="chat"))
    (one,) = answer.contents

    assert ("undecided", "undecided") == (answer.verdict, one.verdict)
    assert ("content", "code", "chat") == (one.mismatches[0].axis, one.mismatches[0].cell, one.mismatches[0].live)


def test_a_busy_minute_above_what_the_candidate_can_do_never_says_switch() -> None:
    point = replace(live(), peak_minute_tokens_per_second=0.85 * 1200)

    assert "undecided" == only(two(1.5), point).verdict


def test_a_busy_minute_that_only_the_reference_carries_says_stay() -> None:
    sweep = sweep_of(*cells("old", steady(100, knee=16)), *cells("new", steady(150, knee=4)))
    point = replace(live({1: 1000}), peak_minute_tokens_per_second=700)
    one = only(sweep, point)

    assert "stay" == one.verdict
    assert any("capacity" in reason for reason in one.reasons)
    assert "switch" == only(sweep, live({1: 1000})).verdict


def test_a_live_speed_far_from_the_sweeps_is_at_most_undecided() -> None:
    fast = CurvePoint(1, 600, 0.9, 130.0, 130.0, None)
    near = replace(fast, aggregate_tokens_per_second=115.0)
    short = replace(fast, seconds=20)

    verdicts = [
        only(two(1.5), replace(live(), curve=(point,)), live_is="reference").verdict for point in (fast, near, short)
    ]

    assert ["undecided", "switch", "switch"] == verdicts
    assert "switch" == only(two(1.5), replace(live(), curve=(fast,))).verdict


def test_the_live_curve_is_compared_with_the_configuration_that_runs() -> None:
    point = replace(live(), curve=(CurvePoint(1, 600, 0.9, 150.0, 150.0, None),))

    assert "switch" == only(two(1.5), point, live_is="candidate").verdict


def test_pairs_without_a_common_field_are_not_comparable_and_listed() -> None:
    sweep = sweep_of(*cells("old", steady(100), prompt_tokens=33), *cells("new", steady(150), prompt_tokens=8112))
    answer = recommend(sweep, live(), ask())

    assert "not_comparable" == answer.verdict
    assert {("prompt_tokens",)} == {pair.fields for pair in answer.unfair_pairs}


def test_differing_verdicts_by_live_is_are_undecided() -> None:
    slow_then_fast = {1: (100.0, 100.0), 4: (100.0, 400.0)}
    sweep = sweep_of(*cells("old", slow_then_fast), *cells("new", {1: (50.0, 50.0), 4: (400.0, 1600.0)}))
    occupancy = {1: 1000, 4: 1000}
    known = [
        only(sweep, replace(live(occupancy), limited_ratio=0.2), live_is=side).verdict
        for side in ("reference", "candidate")
    ]
    unknown = only(sweep, replace(live(occupancy), limited_ratio=0.2))

    assert ["undecided", "switch"] == [known[0] if known[0] != "stay" else "undecided", known[1]]
    assert "undecided" == unknown.verdict
    assert any("not known which configuration" in reason for reason in unknown.reasons)


def test_request_and_busy_medians_in_different_cells_depend_on_whom_you_serve() -> None:
    sweep = sweep_of(
        *cells("old", {1: (100.0, 100.0), 4: (90.0, 360.0), 64: (50.0, 3200.0)}),
        *cells("new", {1: (150.0, 150.0), 4: (60.0, 240.0), 64: (50.0, 3200.0)}),
    )
    one = only(sweep, live({1: 6000, 4: 3000}), live_is="reference")

    assert 4 == (one.cell.concurrency if one.cell else None)
    assert "undecided" == one.verdict
    assert any("whom you serve" in reason for reason in one.reasons)


# --- columns ------------------------------------------------------------------------------------------------------


def test_limited_time_calls_for_the_aggregate_column() -> None:
    one = only(two(1.5), replace(live(), limited_ratio=0.06))

    assert "aggregate" == one.column


def test_a_live_occupancy_on_both_sides_of_the_knee_needs_both_columns() -> None:
    occupancy = {2: 8000, 16: 900}
    both = only(two(1.5), live(occupancy))
    split = sweep_of(
        *cells("old", steady(100)),
        *cells("new", {n: (ps, agg * 0.7) for n, (ps, agg) in steady(150).items()}),
    )

    assert ("both", "switch") == (both.column, both.verdict)
    assert "switch" != only(split, live(occupancy)).verdict


def test_evidence_is_the_weight_at_levels_with_a_known_ratio() -> None:
    one = content_of(example({1: 100, 64: 1000}, content="code"), "code")

    assert 0 < one.columns.per_stream.evidence_ratio < 0.01
    assert "switch" != one.verdict


def test_shares_at_between_and_outside_are_by_request_weight() -> None:
    one = content_of(example({1: 400, 2: 100, 100: 4}, content="code"), "code")

    shares = (one.weight_at_cells_ratio, one.weight_between_ratio, one.weight_outside_ratio)
    assert [0.4, 0.2, 0.4] == [round(share or 0, 9) for share in shares]


# --- whole turn ---------------------------------------------------------------------------------------------------

TIMES: dict[str, Any] = {"ttft_seconds": 1.0, "decode_seconds": 1.0}


def test_the_decode_speed_ratio_comes_first() -> None:
    sweep = sweep_of(*cells("old", steady(100), decode=50.0), *cells("new", steady(150), decode=100.0))
    turn = only(sweep, **TIMES).whole_turn

    assert turn is not None
    assert ("decode_speed", 1.5) == (turn.speedup_source, turn.speedup_ratio)


def test_then_the_end_to_end_ratio_less_the_ttft() -> None:
    known: dict[str, Any] = {"output_tokens": 100, "ttft": 0.1}
    turn = only(sweep_of(*cells("old", steady(100), **known), *cells("new", steady(150), **known)), **TIMES).whole_turn
    faster = (100 / 100 - 0.1) / (100 / 150 - 0.1)

    assert turn is not None
    assert "end_to_end_minus_ttft" == turn.speedup_source
    assert math.isclose((1 + faster) / 2, turn.speedup_ratio)


def test_a_matching_cell_is_the_whole_turn_without_a_second_dilution() -> None:
    sweep = two(1.5, prompt_tokens=100, output_tokens=100)
    turn = only(sweep, prompt_tokens=150, output_tokens=150, **TIMES).whole_turn

    assert turn is not None
    assert ("end_to_end", 1.5) == (turn.speedup_source, turn.speedup_ratio)


def test_the_ttft_ratio_counts_only_near_the_prompt_length_and_for_the_servers_part() -> None:
    sweep = sweep_of(
        *cells("old", steady(100), prompt_tokens=100, ttft=0.4),
        *cells("new", steady(100), prompt_tokens=100, ttft=0.2),
    )
    point = replace(live(), ttft_seconds=1.0, decode_seconds=1.0, prompt_tokens=120)
    server = only(sweep, point).whole_turn
    far = only(sweep, replace(point, prompt_tokens=1000)).whole_turn
    typed = only(sweep, replace(point, ttft_seconds=0.5), **TIMES).whole_turn
    unknown = only(sweep, replace(live(), prompt_tokens=120), **TIMES).whole_turn

    assert None not in (server, far, typed, unknown)
    found = [turn.speedup_ratio for turn in (server, far, typed, unknown) if turn is not None]
    assert [1.5, 1.0, 1.25, 1.0] == [round(ratio, 9) for ratio in found]


def test_typed_times_are_taken_before_the_servers_own() -> None:
    point = replace(live(), ttft_seconds=9.0, decode_seconds=9.0)
    sources = [turn.times_source for turn in (only(two(1.5), point, **TIMES).whole_turn,) if turn]

    assert ["typed"] == sources
    assert "server" == getattr(only(two(1.5), point).whole_turn, "times_source", None)


def test_the_side_of_the_times_follows_from_what_is_live() -> None:
    sides = [
        getattr(only(two(1.5), live_is=live_is, **TIMES).whole_turn, "measured", None)
        for live_is in ("reference", "candidate", None)
    ]

    assert ["before", "after", "after"] == sides


# --- contents -----------------------------------------------------------------------------------------------------


def test_a_mix_is_weighted_by_time_and_not_by_tokens() -> None:
    sweep = sweep_of(
        *cells("old", steady(100), "fast"),
        *cells("old", steady(50), "slow"),
        *cells("new", steady(200), "fast"),
        *cells("new", steady(50), "slow"),
    )
    answer = recommend(sweep, live(), ask(content="fast=0.5,slow=0.5", live_is="reference"))

    # Half of the tokens take a third of the time; then r = 1 / ((1/3) / 2 + (2/3) / 1).
    assert answer.combined is not None
    assert math.isclose(1.2, answer.combined.ratio_weighted or 0)
    assert "switch" == answer.verdict
    assert [0.5, 0.5] == [one.share_ratio for one in answer.contents]


def test_a_mix_with_an_unmeasured_content_is_at_most_undecided() -> None:
    answer = recommend(two(1.5), live(), ask(content="code=0.9,poems=0.1"))

    assert "undecided" == answer.verdict
    assert any("poems" in reason for reason in answer.reasons)
    assert answer.combined is None, "a tenth of the tokens is in no number, so none is of all contents together"


def test_contents_that_agree_need_no_declaration() -> None:
    sweep = sweep_of(
        *[cell for name in ("a", "b") for cell in cells("old", steady(100), name)],
        *[cell for name in ("a", "b") for cell in cells("new", steady(150), name)],
    )

    assert "switch" == recommend(sweep, live()).verdict


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("code", {"code": 1.0}),
        ("code=0.3,prose=0.7", {"code": 0.3, "prose": 0.7}),
        ("code=30%, prose=70%", {"code": 0.3, "prose": 0.7}),
        ("a=b=1", {"a=b": 1.0}),
    ],
)
def test_a_mix_is_read(text: str, expected: dict[str, float]) -> None:
    assert expected == pytest.approx(parse_mix(text))


@pytest.mark.parametrize("text", ["code=x", "=0.3,prose=0.7", "code=0.3", "code=-1,prose=2", "a=0.5,a=0.5", "code=nan"])
def test_a_mix_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_mix(text)


# --- configurations -----------------------------------------------------------------------------------------------


def test_of_two_configurations_the_first_in_the_file_is_the_reference() -> None:
    assert ("fp8-mtp5", "int8-dflash7") == choose_configurations(EXAMPLE, None, None)
    assert ("int8-dflash7", "fp8-mtp5") == choose_configurations(EXAMPLE, "int8-dflash7", None)
    assert ("int8-dflash7", "fp8-mtp5") == choose_configurations(EXAMPLE, None, "fp8-mtp5")


def test_of_three_configurations_two_must_be_named() -> None:
    sweep = sweep_of(*(Cell(name, content="x", concurrency=1, aggregate=1.0) for name in "abc"))

    with pytest.raises(SweepError, match="'a', 'b', 'c'"):
        choose_configurations(sweep, None, None)
    assert ("a", "c") == choose_configurations(sweep, "a", "c")


@pytest.mark.parametrize(("reference", "candidate"), [("x", None), (None, "x"), ("fp8-mtp5", "fp8-mtp5")])
def test_a_configuration_that_is_not_there_or_twice_the_same_is_refused(
    reference: str | None, candidate: str | None
) -> None:
    with pytest.raises(SweepError):
        choose_configurations(EXAMPLE, reference, candidate)


@pytest.mark.parametrize(
    "said", [{"live_is": "both"}, {"measured": "later"}, {"prompt_tokens": -1}, {"ttft_seconds": 1.0}, {"ceiling": 0}]
)
def test_an_ask_that_cannot_be_answered_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        recommend(EXAMPLE, live(), ask(**said))


# --- what holds for every sweep -----------------------------------------------------------------------------------

speeds = st.floats(1.0, 2000.0)
maybe = st.one_of(st.none(), speeds)
made_cells = st.lists(
    st.builds(
        lambda level, old, new, content: (
            Cell("old", content=content, concurrency=level, per_stream=old[0], aggregate=old[1], source_file="f"),
            Cell("new", content=content, concurrency=level, per_stream=new[0], aggregate=new[1], source_file="f"),
        ),
        st.sampled_from(LEVELS),
        st.tuples(maybe, maybe),
        st.tuples(maybe, maybe),
        st.sampled_from(["code", "prose"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: (pair[0].content, pair[0].concurrency),
)
occupancies = st.dictionaries(st.integers(0, 80), st.integers(1, 10_000), min_size=1, max_size=6)
Case = tuple[list[tuple[Cell, Cell]], dict[int, int], str, float]
made = st.tuples(made_cells, occupancies, st.sampled_from(["reference", "candidate"]), st.floats(0, 0.2))


def judged(
    pairs: list[tuple[Cell, Cell]], occupancy: dict[int, int], live_is: str | None, limited: float, **said: Any
) -> Recommendation:
    sweep = sweep_of(*(cell for pair in pairs for cell in pair))
    point = replace(live(occupancy), limited_ratio=limited)
    return recommend(sweep, point, ask(reference="old", candidate="new", live_is=live_is, **said))


@settings(max_examples=150, deadline=None)
@given(made)
def test_without_half_of_the_weight_as_evidence_nothing_is_decided(case: Case) -> None:
    for one in judged(*case).contents:
        if one.verdict in ("switch", "stay", "no_difference"):
            judged_columns = {"per_stream", "aggregate"} if one.column == "both" else {one.column}
            for name in judged_columns:
                assert getattr(one.columns, name).evidence_ratio >= 0.5


@settings(max_examples=100, deadline=None)
@given(made, st.integers(2, 1000))
def test_how_long_was_observed_changes_nothing(case: Case, factor: int) -> None:
    pairs, occupancy, live_is, limited = case
    longer = {level: ms * factor for level, ms in occupancy.items()}
    one, other = judged(pairs, occupancy, live_is, limited), judged(pairs, longer, live_is, limited)

    assert one.verdict == other.verdict
    for left, right in zip(one.contents, other.contents, strict=True):
        assert (left.verdict, left.cell, left.column) == (right.verdict, right.cell, right.column)
        assert left.columns.aggregate.ratio_weighted == pytest.approx(right.columns.aggregate.ratio_weighted)


@settings(max_examples=100, deadline=None)
@given(made)
def test_swapping_the_configurations_inverts_ratios_and_verdicts(case: Case) -> None:
    pairs, occupancy, live_is, limited = case
    sweep = sweep_of(*(cell for pair in pairs for cell in pair))
    point = replace(live(occupancy), limited_ratio=limited)
    other_side = {"reference": "candidate", "candidate": "reference"}[live_is]
    there = recommend(sweep, point, ask(reference="old", candidate="new", live_is=live_is))
    back = recommend(sweep, point, ask(reference="new", candidate="old", live_is=other_side))
    swapped = {"switch": "stay", "stay": "switch"}

    for left, right in zip(there.contents, back.contents, strict=True):
        assert swapped.get(left.verdict, left.verdict) == right.verdict
        for name in ("per_stream", "aggregate"):
            one, inverse = getattr(left.columns, name), getattr(right.columns, name)
            if one.ratio_weighted is None:
                assert inverse.ratio_weighted is None
            else:
                assert math.isclose(one.ratio_weighted, 1 / inverse.ratio_weighted, rel_tol=1e-9)
                assert math.isclose(one.low, 1 / inverse.high, rel_tol=1e-9)


@settings(max_examples=100, deadline=None)
@given(made)
def test_the_same_measurement_again_in_the_file_changes_no_ratio_and_adds_no_doubt(case: Case) -> None:
    pairs, occupancy, live_is, limited = case
    once, twice = judged(pairs, occupancy, live_is, limited), judged([*pairs, *pairs], occupancy, live_is, limited)

    for left, right in zip(once.contents, twice.contents, strict=True):
        assert left.columns.aggregate.ratio_weighted == pytest.approx(right.columns.aggregate.ratio_weighted)
        assert left.cell == right.cell
        assert right.threshold_ratio <= left.threshold_ratio


@settings(max_examples=100, deadline=None)
@given(made)
def test_every_answer_has_a_reason_and_every_interval_its_order(case: Case) -> None:
    answer = judged(*case)

    assert answer.reasons
    for one in answer.contents:
        assert one.reasons
        assert one.column_reason
        for column in (one.columns.per_stream, one.columns.aggregate):
            assert (column.low is None) == (column.high is None)
            assert column.low is None or column.high is None or column.low <= column.high
            assert 0 <= column.evidence_ratio <= 1


def test_idle_time_alone_changes_neither_cell_nor_verdict() -> None:
    with_idle = example({0: 10_000_000, **OCCUPANCY}, content="code")

    assert content_of(example(content="code"), "code").columns == content_of(with_idle, "code").columns


def triples(answer: Recommendation) -> list[tuple[float | None, float | None, float | None]]:
    """Every (low, middle, high) that an answer contains."""
    parts: list[Any] = [answer.combined] if answer.combined is not None else []
    for one in answer.contents:
        for column in (one.columns.per_stream, one.columns.aggregate):
            readings = column.by_live_is
            parts += [column, *([readings.reference, readings.candidate] if readings else [])]
    found = [(part.low, part.ratio_weighted, part.high) for part in parts]
    turns = [one.whole_turn for one in answer.contents if one.whole_turn is not None]
    return [*found, *((turn.low, turn.speedup_ratio, turn.high) for turn in turns)]


@settings(max_examples=150, deadline=None)
@given(made, st.floats(0.1, 0.9), st.booleans(), st.booleans())
def test_every_middle_lies_within_its_own_interval(
    case: Case, share: float, is_declared: bool, has_times: bool
) -> None:
    pairs, occupancy, live_is, limited = case
    said = dict(TIMES) if has_times else {}
    mix = f"code={share},prose={1 - share}"
    answers = [
        judged(pairs, occupancy, live_is if is_declared else None, limited, content=content, **said)
        for content in (None, mix)
    ]

    for low, middle, high in (triple for answer in answers for triple in triples(answer)):
        assert middle is None or (low is not None and high is not None and low <= middle <= high)
