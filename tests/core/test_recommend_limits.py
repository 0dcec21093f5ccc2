from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opmon.core.cells import Cell
from opmon.core.recommend import LivePoint, recommend
from opmon.errors import ConfigError
from tests.core.drafters import EXAMPLE, ask, live, sweep_of


@pytest.mark.parametrize("point", [live(), None])
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"ttft_seconds": 1e308, "decode_seconds": 1e308}, "the TTFT must be a number of seconds from 0 to 1000000"),
        ({"ttft_seconds": 0.0, "decode_seconds": 0.0}, "the decode time must be a number of seconds from 0.000001"),
        ({"ttft_seconds": -0.1, "decode_seconds": 1.0}, "the TTFT must be"),
        ({"ttft_seconds": math.nan, "decode_seconds": 1.0}, "the TTFT must be"),
        ({"prompt_tokens": 1e308}, "prompt_tokens must be a number of tokens from 0.000001 to 1000000000, not 1e+308"),
        ({"output_tokens": 0.0}, "output_tokens must be"),
        ({"output_tokens": math.inf}, "output_tokens must be"),
        ({"ceiling": 99999999999999999999}, "the ceiling must be a number of requests from 1 to 1000000, not 9999"),
        ({"ceiling": 0}, "the ceiling must be"),
    ],
)
def test_what_cannot_be_is_refused_with_what_is_allowed(
    point: LivePoint | None, said: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        recommend(EXAMPLE, point, ask(content="code", **said))
    assert words in str(refused.value)


def test_a_typed_ttft_of_0_is_a_turn_of_decoding_alone() -> None:
    (one,) = recommend(EXAMPLE, live(), ask(content="code", ttft_seconds=0.0, decode_seconds=2.0)).contents

    assert one.whole_turn is not None
    assert 194.5 / 137.4 == pytest.approx(one.whole_turn.speedup_ratio)


def test_live_times_beyond_their_limits_are_not_known() -> None:
    (one,) = recommend(EXAMPLE, live(ttft_seconds=1e300, decode_seconds=1e300), ask(content="code")).contents

    assert one.whole_turn is None


def figures(value: Any) -> Iterator[float]:
    """Every number in an answer, however deep."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from figures(getattr(value, field.name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from figures(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from figures(one)
    elif isinstance(value, float):
        yield value


figure = st.one_of(st.none(), st.floats(0, 1.7e308), st.sampled_from([5e-324, 1e-300, 1.0, 100.0, 1e300]))


@st.composite
def any_cell(draw: st.DrawFn, configuration: str) -> Cell:
    names = ("aggregate", "per_stream", "decode", "ttft", "tpot", "e2e", "requests_per_second", "output_tokens")
    drawn: dict[str, Any] = {name: draw(figure) for name in names}
    return Cell(
        configuration,
        content="code",
        concurrency=draw(st.sampled_from([1.0, 2.0, 8.0, 64.0, 1e-300, 1e300])),
        prompt_tokens=draw(st.sampled_from([None, 33.0, 5e-324, 1e308])),
        source_file="f",
        **drawn,
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(any_cell("old"), min_size=1, max_size=5),
    st.lists(any_cell("new"), min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 70), st.integers(1, 10_000), min_size=1, max_size=5),
    st.sampled_from([None, "reference", "candidate"]),
    st.tuples(st.floats(0, 1e6), st.floats(1e-6, 1e6)),
    st.one_of(st.none(), st.floats(1e-6, 1e9)),
)
def test_every_figure_of_an_answer_is_finite_or_none(
    old: list[Cell],
    new: list[Cell],
    occupancy: dict[int, int],
    live_is: str | None,
    times: tuple[float, float],
    tokens: float | None,
) -> None:
    said = ask(
        reference="old",
        candidate="new",
        live_is=live_is,
        content="code=1",
        ttft_seconds=times[0],
        decode_seconds=times[1],
        prompt_tokens=tokens,
        output_tokens=tokens,
        ceiling=1_000_000,
    )
    answer = recommend(sweep_of(*old, *new), live(occupancy), said)

    assert [] == [one for one in figures(answer) if not math.isfinite(one)]


def test_a_refused_pair_of_cells_without_a_concurrency_says_null_and_never_0() -> None:
    sides = (("old", 33), ("new", 8112))
    cells = [Cell(name, content="code", prompt_tokens=length, aggregate=100.0) for name, length in sides]
    (pair,) = recommend(sweep_of(*cells), live(), ask()).unfair_pairs
    assert (None, ("prompt_tokens",)) == (pair.cell.concurrency, pair.fields)
