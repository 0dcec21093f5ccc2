from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.turn import (
    asks_for_prepended_tokens,
    client_tax,
    is_unlikely_to_be_felt,
    prefix_cost,
    turn,
    turn_with_ttft_part,
)
from opmon.errors import ConfigError

TTFT, DECODE = 6.084, 10.003
seconds = st.floats(0.001, 1e4)
ratios = st.floats(0.1, 10)


@pytest.mark.parametrize(
    ("measured", "speedup", "expected"),
    [
        ("after", 1.11, 1.068),
        ("after", 1.42, 1.261),
        ("after", 2.58, 1.982),
        ("before", 1.11, 1.066),
        ("before", 1.42, 1.225),
        ("before", 2.58, 1.615),
    ],
)
def test_worked_turns(measured: str, speedup: float, expected: float) -> None:
    assert expected == round(turn(TTFT, DECODE, speedup, measured).speedup_ratio, 3)


@given(seconds, seconds, ratios, ratios, st.sampled_from(["after", "before"]))
def test_the_speedup_is_before_over_after(ttft: float, decode: float, s: float, t: float, measured: str) -> None:
    found = turn(ttft, decode, s, measured, t)

    assert math.isclose(found.turn_before_seconds / found.turn_after_seconds, found.speedup_ratio)
    assert min(s, t) * 0.999999 <= found.speedup_ratio <= max(s, t) * 1.000001


@given(seconds, seconds, ratios, ratios)
def test_times_of_either_side_give_the_same_speedup(ttft: float, decode: float, s: float, t: float) -> None:
    before = turn(ttft, decode, s, "before", t)
    after = turn(ttft / t, decode / s, s, "after", t)

    assert math.isclose(before.speedup_ratio, after.speedup_ratio, rel_tol=1e-9)


@given(seconds, seconds, ratios, st.sampled_from(["after", "before"]))
def test_a_ttft_ratio_on_no_part_of_the_ttft_changes_nothing(
    ttft: float, decode: float, s: float, measured: str
) -> None:
    plain = turn(ttft, decode, s, measured).speedup_ratio

    assert math.isclose(plain, turn_with_ttft_part(ttft, decode, s, measured, 3.0, 0.0), rel_tol=1e-9)


@pytest.mark.parametrize("measured", ["after", "before"])
def test_a_ttft_ratio_on_the_whole_ttft_is_the_formula(measured: str) -> None:
    whole = turn(TTFT, DECODE, 1.42, measured, 1.3).speedup_ratio

    assert math.isclose(whole, turn_with_ttft_part(TTFT, DECODE, 1.42, measured, 1.3, 1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        (-1, 1, 1, "after", 1),
        (1, -1, 1, "after", 1),
        (0, 0, 1, "after", 1),
        (1, 1, 0, "after", 1),
        (1, 1, 1, "later", 1),
        (1, 1, 1, "after", 0),
        (float("nan"), 1, 1, "after", 1),
        (1, float("inf"), 1, "after", 1),
    ],
)
def test_what_cannot_be_is_refused(wrong: tuple[float, float, float, str, float]) -> None:
    with pytest.raises(ConfigError):
        turn(*wrong)


def test_the_share_of_the_first_token_is_of_the_measured_turn() -> None:
    assert 0.378 == round(turn(TTFT, DECODE, 1.11).ttft_share_ratio, 3)


@pytest.mark.parametrize(("ratio", "expected"), [(1.07, True), (1.2, False), (1.5, False), (0.9, True), (0.8, False)])
def test_under_a_fifth_nobody_feels_it(ratio: float, expected: bool) -> None:
    assert expected == is_unlikely_to_be_felt(ratio)


def test_a_client_that_halves_the_speed_is_asked_what_it_prepends() -> None:
    prefix, tax = prefix_cost(60.0, 74.1), client_tax(38.0, 60.0)

    assert asks_for_prepended_tokens(prefix, tax)
    assert not asks_for_prepended_tokens(prefix_cost(74.0, 74.1), client_tax(75.1, 74.1))


def test_unknown_speeds_ask_nothing() -> None:
    assert prefix_cost(None, 74.1) is None
    assert client_tax(38.0, None) is None
    assert not asks_for_prepended_tokens(None, 0.5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ((1e308, 1, 1, "after", 1), "the TTFT must be a number of seconds from 0 to 1000000, not 1e+308"),
        ((1, 1e308, 1, "after", 1), "the decode time must be a number of seconds from 0.000001 to 1000000, not 1e+308"),
        ((1, 0, 1, "after", 1), "the decode time must be a number of seconds from 0.000001 to 1000000, not 0"),
        ((1, 1, 1e7, "after", 1), "the speed-up must be a number of times from 0.000001 to 1000000, not 10000000.0"),
        ((1, 1, 1, "after", math.nan), "the TTFT ratio must be a number of times from 0.000001 to 1000000, not nan"),
    ],
)
def test_a_refusal_names_the_figure_and_what_is_allowed(
    wrong: tuple[float, float, float, str, float], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        turn(*wrong)
    assert words == str(refused.value)


def test_a_first_token_may_come_at_once() -> None:
    assert 2.0 == turn(0, 3, 2).speedup_ratio


allowed = st.floats(1e-6, 1e6)


@given(st.one_of(st.just(0.0), st.floats(0, 1e6)), allowed, allowed, allowed, st.sampled_from(["after", "before"]))
def test_every_figure_of_an_allowed_turn_is_finite(
    ttft: float, decode: float, s: float, t: float, measured: str
) -> None:
    found = turn(ttft, decode, s, measured, t)

    assert all(
        math.isfinite(figure) and figure >= 0
        for figure in (
            found.speedup_ratio,
            found.turn_before_seconds,
            found.turn_after_seconds,
            found.ttft_share_ratio,
        )
    )


@given(st.floats(), st.floats(), st.floats(), st.floats())
def test_whatever_is_typed_is_refused_or_answered_in_finite_figures(
    ttft: float, decode: float, s: float, t: float
) -> None:
    for measured in ("after", "before"):
        try:
            found = turn(ttft, decode, s, measured, t)
        except ConfigError:
            continue
        assert math.isfinite(found.speedup_ratio)
