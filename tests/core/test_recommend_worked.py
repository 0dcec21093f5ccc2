"""Every worked number of the definitions that the example sweep has."""

from __future__ import annotations

from typing import Any

import pytest

from opmon.core.answers import Mismatch
from opmon.core.knee import aggregate_curve, knee
from opmon.core.pairs import pair_cells
from opmon.core.recommend import live_point_of, recommend
from opmon.core.recommend.projection import project, projected_occupancy
from opmon.core.recommend.ratios import level_ratios, threshold, weighted
from tests.core.drafters import (
    CANDIDATE,
    EXAMPLE,
    OCCUPANCY,
    REFERENCE,
    WITH_IDLE,
    content_of,
    example,
    live,
)

BUSY = {level: float(ms) for level, ms in OCCUPANCY.items()}
REQUEST = {level: level * weight for level, weight in BUSY.items()}
DELTA = threshold([1.0], [1.0]).delta


def near(expected: float, found: float | None, digits: int = 3) -> bool:
    return found is not None and round(found, digits) == expected


@pytest.mark.parametrize(
    ("content", "configuration", "expected"),
    [("code", REFERENCE, 29.4), ("code", CANDIDATE, 6.29), ("prose", REFERENCE, 7.96), ("prose", CANDIDATE, 6.02)],
)
def test_knees_of_the_example_sweep(content: str, configuration: str, expected: float) -> None:
    cells = [cell for cell in EXAMPLE.cells if (cell.configuration, cell.content) == (configuration, content)]

    found = knee(aggregate_curve(cells))

    assert found is not None
    assert ("exact", expected) == (found.bound, float(f"{found.value:.3g}"))


def test_interpolated_code_ratios_at_2_4_and_6() -> None:
    pairs = pair_cells(EXAMPLE.cells, REFERENCE, CANDIDATE, "code").pairs

    found = level_ratios(pairs, "aggregate", [2, 4, 6], DELTA)

    assert [1.285, 1.820, 2.232] == [round(one.middle or 0, 3) for one in found]


@pytest.mark.parametrize(
    ("content", "live_is", "weights", "expected"),
    [
        ("code", "reference", BUSY, (0.981, 0.907, 1.042)),
        ("code", "reference", REQUEST, (1.093, 0.907, 1.237)),
        ("code", "candidate", BUSY, (1.025, None, None)),
        ("code", "candidate", REQUEST, (1.189, None, None)),
        ("prose", "reference", BUSY, (1.103, 1.096, 1.109)),
        ("prose", "reference", REQUEST, (1.095, 1.082, 1.109)),
    ],
)
def test_weighted_aggregate_ratios(
    content: str, live_is: str, weights: dict[int, float], expected: tuple[float | None, ...]
) -> None:
    pairs = pair_cells(EXAMPLE.cells, REFERENCE, CANDIDATE, content).pairs

    found = weighted(level_ratios(pairs, "aggregate", weights, DELTA), weights, live_is)

    assert found is not None
    known = (found.middle, found.low, found.high)
    assert all(want is None or near(want, have) for want, have in zip(expected, known, strict=True))


def test_code_is_read_per_stream_at_cell_1_and_says_switch() -> None:
    answer = example(content="code", live_is="reference")
    code = content_of(answer, "code")
    per_stream, aggregate = code.columns.per_stream, code.columns.aggregate

    assert ("switch", "switch") == (answer.verdict, code.verdict)
    assert (1, "per_stream") == (code.cell.concurrency if code.cell else None, code.column)
    assert near(1.416, per_stream.ratio_at_cell)
    assert near(1.416, per_stream.ratio_weighted)
    assert near(0.588, per_stream.evidence_ratio)
    assert near(1.10, per_stream.low, 2)
    assert near(1.78, per_stream.high, 2)
    assert near(0.91, aggregate.ratio_at_cell, 2)
    assert near(0.981, aggregate.ratio_weighted)
    assert near(0.907, aggregate.low)
    assert near(1.042, aggregate.high)


def test_code_with_the_candidate_live_has_the_arithmetic_mean() -> None:
    code = content_of(example(content="code", live_is="candidate"), "code")

    assert near(1.025, code.columns.aggregate.ratio_weighted)


def test_code_is_switch_whichever_configuration_is_live() -> None:
    answer = example(content="code")
    both = content_of(answer, "code").columns.aggregate.by_live_is

    assert "switch" == answer.verdict
    assert both is not None
    assert near(0.981, both.reference.ratio_weighted)
    assert near(1.025, both.candidate.ratio_weighted)


def test_prose_is_undecided_because_only_a_proxy_stands_in() -> None:
    answer = example(content="prose")
    prose = content_of(answer, "prose")
    per_stream, aggregate = prose.columns.per_stream, prose.columns.aggregate

    assert "undecided" == answer.verdict
    assert (None, None, None, True) == (
        per_stream.reference,
        per_stream.candidate,
        per_stream.ratio_weighted,
        per_stream.proxy,
    )
    assert 0 == per_stream.evidence_ratio
    assert near(1.109, per_stream.ratio_at_cell)
    assert near(1.103, aggregate.ratio_weighted)
    assert near(1.096, aggregate.low)
    assert near(1.109, aggregate.high)


def test_without_a_content_the_differing_answers_are_undecided() -> None:
    answer = example()

    assert "undecided" == answer.verdict
    assert ["switch", "undecided"] == [one.verdict for one in answer.contents]
    assert any("content_unknown" in reason for reason in answer.reasons)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("code", {"ceiling": (64, 1.07, "no_difference"), "best_cell": (8, 2.58, "switch")}),
        ("prose", {"ceiling": (64, 0.85, "stay"), "best_cell": (1, 1.11, "switch")}),
    ],
)
@pytest.mark.parametrize("ceiling", [None, 64])
def test_what_the_wrong_cell_would_have_said(
    content: str, expected: dict[str, tuple[float, float, str]], ceiling: int | None
) -> None:
    one = content_of(example(ceiling=ceiling), content)
    found = {
        reading.reading: (reading.concurrency, round(reading.ratio, 2), reading.verdict)
        for reading in one.other_readings
        if reading.reading in expected
    }

    assert expected == found


def test_the_live_prompt_length_is_almost_eight_octaves_from_the_cell() -> None:
    answer = example(content="code", prompt_tokens=8112)
    (mismatch,) = content_of(answer, "code").mismatches

    assert "undecided" == answer.verdict
    assert Mismatch("prompt_tokens", 33.0, 8112, mismatch.octaves) == mismatch
    assert near(7.9, mismatch.octaves, 1)


def test_the_owners_turn_in_prose_is_unlikely_to_be_felt() -> None:
    answer = example(content="prose", prompt_tokens=8112, ttft_seconds=6.084, decode_seconds=10.003)
    turn = content_of(answer, "prose").whole_turn

    assert turn is not None
    assert ("after", "aggregate_proxy", "typed") == (turn.measured, turn.speedup_source, turn.times_source)
    assert near(1.07, turn.speedup_ratio, 2)
    assert turn.low == turn.high == turn.speedup_ratio
    assert "undecided" == answer.verdict
    assert any("unlikely to be felt" in reason for reason in answer.reasons)


def test_the_owners_turn_in_code_is_1_26_and_before_the_switch_1_22() -> None:
    times: dict[str, Any] = {"ttft_seconds": 6.084, "decode_seconds": 10.003}
    after = content_of(example(content="code", **times), "code").whole_turn
    before = content_of(example(content="code", live_is="reference", **times), "code").whole_turn

    assert after is not None
    assert before is not None
    assert ("after", "before") == (after.measured, before.measured)
    assert near(1.26, after.speedup_ratio, 2)
    assert near(1.22, before.speedup_ratio, 2)
    assert after.low is not None
    assert after.high is not None
    assert after.low < after.speedup_ratio < after.high


def test_projected_occupancy_of_prose() -> None:
    pairs = pair_cells(EXAMPLE.cells, REFERENCE, CANDIDATE, "prose").pairs
    projected = projected_occupancy(WITH_IDLE, pairs)
    total = sum(projected.values())

    assert {0: 0.695, 1: 0.251, 2: 0.035, 4: 0.020} == {n: round(ms / total, 3) for n, ms in projected.items()}


def test_projection_of_prose() -> None:
    prose = content_of(example(WITH_IDLE, content="prose", live_is="reference"), "prose")

    assert (1, 4, 1.0) == (prose.projection.p50, prose.projection.p95, prose.projection.cell_concurrency)
    assert near(0.695, prose.projection.idle_ratio)
    assert near(1.113, prose.projection.e2e_speedup_ratio)


@pytest.mark.parametrize(
    ("occupancy", "content", "live_is", "words"),
    [
        (WITH_IDLE, "prose", None, "starts from the reference"),
        (WITH_IDLE, "prose", "candidate", "starts from the reference"),
        (OCCUPANCY, "prose", "reference", "never seen idle"),
        (WITH_IDLE, "code", "reference", "unsound at 1"),
        ({0: 1000, 40: 1000}, "prose", "reference", "below the knee"),
        ({0: 1000}, "prose", "reference", "never seen busy"),
    ],
)
def test_no_projection_says_why(occupancy: dict[int, int], content: str, live_is: str | None, words: str) -> None:
    pairs = pair_cells(EXAMPLE.cells, REFERENCE, CANDIDATE, content).pairs
    cells = [cell for cell in EXAMPLE.cells if (cell.configuration, cell.content) == (CANDIDATE, content)]

    projection = project(occupancy, pairs, knee(aggregate_curve(cells)), live_is)

    assert projection.p50 is None
    assert words in (projection.null_reason or "")


def test_the_ramp_of_the_code_cell_is_said_and_is_no_evidence() -> None:
    answer = example(content="code")

    assert 0 == content_of(answer, "code").columns.aggregate.evidence_ratio
    assert {"ramp", "columns_disagree"} <= {warning.code for warning in answer.warnings}


def test_the_live_point_of_an_occupancy_file_has_words_and_no_limits() -> None:
    point = live_point_of(OCCUPANCY, "occupancy.csv", 64)
    answer = recommend(EXAMPLE, point)

    assert "1 to 4 requests at once" in point.sentence
    assert "64 was never reached" in point.sentence
    assert point.limited_ratio is None
    assert "limited_unknown" in {warning.code for warning in answer.warnings}
    assert answer.operating_point is not None
    assert 1 == answer.operating_point.in_system.request.p50


def test_a_server_that_was_never_busy_gives_no_data() -> None:
    assert "no_data" == recommend(EXAMPLE, live({0: 1000})).verdict
    assert "no_data" == recommend(EXAMPLE, None).verdict


def test_a_mix_has_no_middle_where_one_of_its_contents_has_none() -> None:
    answer = example(content="code=0.3,prose=0.7", live_is="reference")

    assert answer.combined is not None
    assert (None, 0.83, 1.28) == (
        answer.combined.ratio_weighted,
        round(answer.combined.low or 0, 2),
        round(answer.combined.high or 0, 2),
    )
    assert not any("1.42x" in reason for reason in answer.reasons)


def test_a_level_far_beyond_the_sweep_is_projected_with_the_last_ratio_and_at_once() -> None:
    pairs = pair_cells(EXAMPLE.cells, "fp8-mtp5", "int8-dflash7", "prose").pairs
    near_by, far = (projected_occupancy({0: 10, 64: 1000, level: 1000}, pairs) for level in (66, 1_000_000))
    last = 306.9 / 359.8

    assert near_by[64] / last**2 == pytest.approx(near_by[66])
    assert near_by[64] == far[64]
    assert 0 < far[1_000_000] < float("inf")
