from __future__ import annotations

from typing import Any

import pytest

from opmon.core.cells import Cell, Sweep
from opmon.core.recommend import Ask, recommend
from opmon.core.recommend.claim import claim
from opmon.core.recommend.claimed import Claim
from opmon.core.recommend.quote import ClaimAsk, parse_quote
from opmon.errors import ConfigError
from tests.core.drafters import CANDIDATE, EXAMPLE, REFERENCE, live, sweep_of

PROSE_TURN = Ask(content="prose", prompt_tokens=8112, ttft_seconds=6.084, decode_seconds=10.003)


def claimed(speedup: str, *, sweep: Sweep = EXAMPLE, ask: Ask | None = None, **said: Any) -> Claim:
    """The claim against the worked occupancy."""
    return claim(sweep, ClaimAsk(speedup, **said), recommend(sweep, live(), ask or Ask()))


def where(answer: Claim) -> tuple[str, str, float]:
    place = answer.places[0]
    return place.column, place.content, place.concurrency


# Every ratio of the table in the description of the example sweep, and those of its other cells.
@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        ("2.58", ("aggregate", "code", 8)),
        ("0.91", ("aggregate", "code", 1)),
        ("1.42", ("per_stream", "code", 1)),
        ("1.29", ("aggregate", "code", 32)),
        ("1.07", ("aggregate", "code", 64)),
        ("1.11", ("aggregate", "prose", 1)),
        ("1.04", ("aggregate", "prose", 8)),
        ("0.85", ("aggregate", "prose", 64)),
        ("7.42", ("ttft_p95", "code", 8)),
    ],
)
def test_a_ratio_of_the_example_sweep_is_found_in_its_cell_and_column(
    speedup: str, expected: tuple[str, str, float]
) -> None:
    answer = claimed(speedup)

    assert "exact" == answer.found
    assert expected == where(answer)


def test_2_58_is_708_4_over_274_7_three_octaves_and_a_column_away() -> None:
    answer = claimed("2.58x", ask=PROSE_TURN)
    place, axes = answer.places[0], {axis.axis: axis for axis in answer.axes}

    assert (274.7, 708.4) == (place.reference, place.candidate)
    assert (8, 1, 3.0, True) == tuple(getattr(axes["concurrency"], n) for n in ("claim", "live", "octaves", "differs"))
    assert ("code", "prose", True) == tuple(getattr(axes["content"], name) for name in ("claim", "live", "differs"))
    assert ("aggregate", "per_stream", True) == tuple(getattr(axes["column"], n) for n in ("claim", "live", "differs"))
    assert (33, 8112, 7.9) == (
        axes["prompt_tokens"].claim,
        axes["prompt_tokens"].live,
        round(axes["prompt_tokens"].octaves or 0, 1),
    )
    assert (None, None, None) == (
        axes["output_tokens"].claim,
        axes["output_tokens"].octaves,
        axes["output_tokens"].differs,
    )


def test_what_holds_instead_is_what_the_recommendation_says() -> None:
    for ask in (PROSE_TURN, Ask(content="code"), Ask()):
        answer, verdict = claimed("2.58", ask=ask), recommend(EXAMPLE, live(), ask)
        by_content = {one.content: one for one in verdict.contents}

        assert verdict.verdict == answer.verdict
        assert verdict.operating_point == answer.operating_point
        assert set(by_content) == {one.content for one in answer.restated}
        for one in answer.restated:
            column = by_content[one.content].columns.per_stream
            assert (column.ratio_weighted, column.low, column.high) == (one.ratio_weighted, one.low, one.high)
            assert by_content[one.content].whole_turn == one.whole_turn


def test_the_sentence_can_be_pasted_alone() -> None:
    assert (
        "2.58x is aggregate throughput, code at concurrency 8, 33 prompt tokens: int8-dflash7 708.4 / fp8-mtp5 274.7"
        " tok/s. Your server differs in content (code there, prose here), concurrency (8 there, 1 here, 3.0 octaves),"
        " prompt length (33 there, 8,112 here, 7.9 octaves) and column (aggregate there, per_stream here); not known:"
        " output length. Here prose, per stream: not known (0.79x to 1.20x), whole turn 1.07x (unlikely to be felt):"
        " undecided."
    ) == claimed("2.58", ask=PROSE_TURN).sentence
    assert "Here code, per stream: 1.42x (1.10x to 1.78x): switch." in claimed("2.58", ask=Ask(content="code")).sentence


def test_a_ratio_within_the_noise_says_so_with_the_measured_one() -> None:
    answer = claimed("2.45", content="code")

    assert ("within_noise", ("aggregate", "code", 8)) == (answer.found, where(answer))
    assert "within the noise of 8.5 %" in answer.sentence
    assert "= 2.58x" in answer.sentence


def test_a_ratio_that_is_nowhere_gives_the_nearest_three() -> None:
    answer = claimed("3.5")

    assert ("absent", ()) == (answer.found, answer.places)
    assert [2.58, 7.42, 1.42] == [round(place.ratio, 2) for place in answer.nearest]
    assert answer.sentence.startswith("This sweep does not contain 3.50x; nearest are 2.58x (aggregate throughput,")


def test_the_gain_of_the_reference_is_told_from_that_of_the_candidate() -> None:
    answer = claimed("1.18", sweep=sweep_of(*_pair(aggregate=(118.0, 100.0))))

    assert ("exact", True) == (answer.found, answer.places[0].inverted)
    assert "a 118 / b 100 tok/s; it is the gain of a (reference) over b, not the other way round" in answer.sentence


@pytest.mark.parametrize(
    ("said", "contradicted"),
    [
        ({"content": "prose"}, ("content",)),
        ({"column": "per_stream"}, ("column",)),
        ({"concurrency": 1}, ("concurrency",)),
        ({"prompt_tokens": 8112}, ("prompt_tokens",)),
        ({"content": "prose", "concurrency": 64}, ("content", "concurrency")),
        ({"content": "Code", "column": "aggregate", "concurrency": 8, "prompt_tokens": 33, "output_tokens": 500}, ()),
    ],
)
def test_what_a_quote_says_of_itself_is_held_against_the_cell(
    said: dict[str, Any], contradicted: tuple[str, ...]
) -> None:
    answer = claimed("2.58", **said)

    assert ("elsewhere" if contradicted else "exact") == answer.found
    assert (("aggregate", "code", 8), contradicted) == (where(answer), answer.places[0].contradicts)


def _pair(reference: str = "a", candidate: str = "b", *, aggregate: tuple[float, float], **both: Any) -> list[Cell]:
    names = zip((reference, candidate), aggregate, strict=True)
    return [Cell(name, "code", 8, aggregate=speed, source_file="f", **both) for name, speed in names]


# 172.3: 65k context, one client, not streamed. 140.9: the ceiling of 64, streamed.
SEED = sweep_of(
    Cell(REFERENCE, "prose", 64, prompt_tokens=33, per_stream=140.9, streaming=True, source_file="f"),
    Cell(CANDIDATE, "prose", 1, prompt_tokens=65_000, per_stream=172.3, streaming=False, source_file="f"),
)


@pytest.mark.parametrize("speedup", ["1.22", "172.3/140.9", "22% faster"])
def test_172_3_over_140_9_is_refused_with_the_fields_that_differ(speedup: str) -> None:
    answer = claimed(speedup, sweep=SEED)
    quotient = answer.quotients[0]

    assert ("not_comparable", ()) == (answer.found, answer.places)
    assert {"concurrency", "prompt_tokens", "streaming"} == {one.field for one in quotient.fields}
    assert (172.3, 140.9) == (quotient.candidate.value, quotient.reference.value)
    assert (
        "1.22 = 172.3 / 140.9 is no fair comparison: different concurrency (1 / 64), prompt length (65,000 / 33),"
        " streaming (no / yes)"
    ) == quotient.detail


def test_a_quotient_across_contents_is_named_by_them() -> None:
    answer = claimed("708.4/289")

    assert "not_comparable" == answer.found
    assert "2.45 = 708.4 / 289 is no fair comparison: different content (code / prose)" == answer.quotients[0].detail


@pytest.mark.parametrize(
    ("speedup", "fields"),
    [("1.59", ["column"]), ("6.37", ["concurrency", "configuration"]), ("1.75", ["configuration", "column"])],
)
def test_columns_of_each_other_and_levels_of_one_configuration_are_no_pair(speedup: str, fields: list[str]) -> None:
    answer = claimed(speedup)

    assert "not_comparable" == answer.found
    assert fields == [one.field for one in answer.quotients[0].fields]


def test_of_many_quotients_that_fit_it_says_that_it_may_be_chance() -> None:
    cells = [
        Cell(name, "code", level, aggregate=base * step, source_file="f")
        for name, levels, base in (("a", (1, 2, 4), 100.0), ("b", (3, 5, 6), 350.0))
        for level, step in zip(levels, (1.0, 2.0, 4.0), strict=True)
    ]
    by_ratio, by_figures = (claimed(text, sweep=sweep_of(*cells)) for text in ("3.50", "700/200"))

    assert 3 == by_ratio.quotient_count
    assert "(one of 3 quotients that fit, perhaps by chance: give the two figures of the quote)" in by_ratio.sentence
    assert (700, 200) == (by_figures.quotients[0].candidate.value, by_figures.quotients[0].reference.value)
    assert "chance" not in by_figures.sentence


def test_a_content_that_the_sweep_does_not_hold_differs_on_the_axis() -> None:
    axes = {axis.axis: axis for axis in claimed("2.58", ask=Ask(content="poem")).axes}

    assert ("code", "poem", True) == (axes["content"].claim, axes["content"].live, axes["content"].differs)


def test_a_mix_is_named_as_it_was_declared() -> None:
    axes = {axis.axis: axis for axis in claimed("2.58", ask=Ask(content="code=0.3,prose=0.7")).axes}

    assert ("code=0.3,prose=0.7", True) == (axes["content"].live, axes["content"].differs)


def test_figures_that_the_sweep_does_not_hold_are_not_found_by_their_ratio() -> None:
    assert "exact" == claimed("708.4/274.7").found
    assert "absent" == claimed("70.84/27.47").found


def test_requests_that_failed_make_no_fair_pair_of_the_quoted_ratio() -> None:
    cells = _pair(aggregate=(100.0, 258.0))
    failing = Cell("b", "code", 8, aggregate=258.0, failed_requests=3, completed_requests=90, source_file="f")
    answer = claimed("2.58", sweep=sweep_of(cells[0], failing))

    assert "not_comparable" == answer.found
    assert ["failed_requests"] == [one.field for one in answer.quotients[0].fields]


def test_a_pair_of_other_lengths_than_the_live_ones_is_found_too() -> None:
    cells = [*_pair(aggregate=(100.0, 110.0), prompt_tokens=33), *_pair(aggregate=(40.0, 90.0), prompt_tokens=8000)]
    long, short = (claimed(text, sweep=sweep_of(*cells), ask=Ask(prompt_tokens=40)) for text in ("2.25", "1.10"))

    assert (8000, 33) == (long.places[0].prompt_tokens, short.places[0].prompt_tokens)


def test_the_total_throughput_is_a_column_of_its_own() -> None:
    cells = [
        Cell(name, "code", 8, aggregate=aggregate, extra={"total_token_throughput": total}, source_file="f")
        for name, aggregate, total in (("a", 100.0, "1000"), ("b", 110.0, "1900.5"))
    ]

    assert ("total", "code", 8) == where(claimed("1.90", sweep=sweep_of(*cells)))


def test_without_a_live_point_it_is_located_and_nothing_is_compared() -> None:
    answer = claim(EXAMPLE, ClaimAsk("2.58"), recommend(EXAMPLE, None))

    assert ("exact", (), (), None) == (answer.found, answer.axes, answer.restated, answer.operating_point)
    assert answer.sentence.endswith("There is no live point to compare with.")


def test_an_idle_server_has_no_axis_of_concurrency_and_no_figures() -> None:
    answer = claim(EXAMPLE, ClaimAsk("2.58"), recommend(EXAMPLE, live({0: 1000})))

    assert [None] * 5 == [axis.differs for axis in answer.axes]
    assert ("no_data", ()) == (answer.verdict, answer.restated)


@pytest.mark.parametrize(
    ("text", "ratio", "half_unit"),
    [
        ("2.58", 2.58, 0.005),
        (" 2.58x ", 2.58, 0.005),
        ("2.58X faster", 2.58, 0.005),
        ("2.6×", 2.6, 0.05),
        (".9", 0.9, 0.05),
        ("3x", 3.0, 0.5),
        ("+158%", 2.58, 0.005),
        ("158 % faster", 2.58, 0.005),
        ("9% slower", 0.91, 0.005),
        ("-9%", 0.91, 0.005),
    ],
)
def test_a_speed_up_is_read_as_people_write_it(text: str, ratio: float, half_unit: float) -> None:
    quote = parse_quote(text)

    assert pytest.approx((ratio, half_unit)) == (quote.ratio.value, quote.ratio.half_unit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("158%", "can be 1.58 or 2.58 times as fast; write which, as 2.58x or +158%"),
        ("fast", "is no speed-up"),
        ("", "is no speed-up"),
        ("-2", "is no speed-up"),
        ("nan", "is no speed-up"),
        ("0", "must be a number of times"),
        ("-100%", "must be a number of times"),
        ("1e400", "is no speed-up"),
        ("9" * 99, "must be a number of times"),
        ("9" * 200, "is too long"),
        ("172.3/0", "divides by 0"),
        ("-5% slower", "faster and slower at once"),
    ],
)
def test_what_is_no_speed_up_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        claimed(text)

    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"column": "speed"}, "column must be one of aggregate, per_stream, decode"),
        ({"concurrency": 0}, "the quoted concurrency must be"),
        ({"prompt_tokens": float("nan")}, "the quoted prompt length must be"),
        ({"output_tokens": -1}, "the quoted output length must be"),
    ],
)
def test_what_a_quote_cannot_say_is_refused_by_its_name(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        claimed("2.58", **said)

    assert words in str(refused.value)
