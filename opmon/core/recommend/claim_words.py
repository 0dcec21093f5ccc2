"""The claim in a few sentences that can be pasted: where it comes from, what differs, what holds instead.

Contains words only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opmon.core.answers import Recommendation
from opmon.core.recommend.claimed import (
    ABSENT,
    ELSEWHERE,
    NOT_COMPARABLE,
    WITHIN_NOISE,
    ClaimAxis,
    ClaimPlace,
    ClaimQuotient,
    ClaimRestated,
)
from opmon.core.recommend.columns import COLUMNS
from opmon.core.recommend.quote import Quote
from opmon.core.recommend.verdicts import times_sign
from opmon.core.turn import is_unlikely_to_be_felt

AXES = {
    "content": "content",
    "concurrency": "concurrency",
    "prompt_tokens": "prompt length",
    "output_tokens": "output length",
    "column": "column",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a claim comes from, the nearest ones, the unfair quotients, and how many of these there are."""

    place: ClaimPlace | None
    nearest: Sequence[ClaimPlace]
    quotients: Sequence[ClaimQuotient]
    count: int


def sentence_of(
    quote: Quote,
    found: str,
    where: Origin,
    axes: Sequence[ClaimAxis],
    restated: Sequence[ClaimRestated],
    answer: Recommendation,
) -> str:
    """All of it."""
    parts = [_origin(quote, found, where, answer), _differences(axes), _instead(restated, answer)]
    return " ".join(part for part in parts if part)


def place_in_words(place: ClaimPlace) -> str:
    """`aggregate throughput, code at concurrency 8, 33 prompt tokens`."""
    lengths = [
        f"{tokens:,.0f} {kind} tokens"
        for kind, tokens in (("prompt", place.prompt_tokens), ("output", place.output_tokens))
        if tokens is not None
    ]
    content = place.content or "unlabelled content"
    return ", ".join([COLUMNS[place.column].words, f"{content} at concurrency {place.concurrency:g}", *lengths])


def quotient_in_words(place: ClaimPlace, reference: str, candidate: str) -> str:
    """`int8 708.4 / fp8 274.7 tok/s`, the faster figure of the quote's direction on top; times the other way round."""
    column = COLUMNS[place.column]
    sides = [f"{candidate} {place.candidate:g}", f"{reference} {place.reference:g}"]
    upper, lower = reversed(sides) if place.inverted != column.is_time else sides
    return f"{upper} / {lower} {column.unit}"


def _origin(quote: Quote, found: str, where: Origin, answer: Recommendation) -> str:
    place, said = where.place, times_sign(quote.ratio.value)
    if found == NOT_COMPARABLE:
        return f"{_capital(where.quotients[0].detail)}{_chance(quote, where.count)}."
    if place is None or found == ABSENT:
        listed = "; ".join(f"{times_sign(one.ratio)} ({place_in_words(one)})" for one in where.nearest)
        return f"This sweep does not contain {said}" + (f"; nearest are {listed}." if listed else " or any fair pair.")
    noise = f", within the noise of {100 * place.threshold_ratio:.1f} %," if found == WITHIN_NOISE else ""
    words = f"{said} is{noise} {place_in_words(place)}: {quotient_in_words(place, answer.reference, answer.candidate)}"
    if not place.exact:
        words += f" = {times_sign(place.ratio)}"
    if place.inverted:
        words += f"; it is the gain of {answer.reference} (reference) over {answer.candidate}, not the other way round"
    if found == ELSEWHERE:
        words += f"; the quote says another {_listed([AXES[one] for one in place.contradicts])}"
    return f"{words}."


def _chance(quote: Quote, count: int) -> str:
    """Two given figures are no chance; of many quotients some fit any ratio."""
    if quote.figures is not None or count == 1:
        return ""
    return f" (one of {count:,} quotients that fit, perhaps by chance: give the two figures of the quote)"


def _differences(axes: Sequence[ClaimAxis]) -> str:
    """The axes that differ, and those that nobody knows."""
    if not axes:
        return ""
    differing = [_axis(one) for one in axes if one.differs]
    unknown = [AXES[one.axis] for one in axes if one.differs is None]
    words = (
        f"Your server differs in {_listed(differing)}" if differing else "Your server differs in none of the known axes"
    )
    return words + (f"; not known: {_listed(unknown)}." if unknown else ".")


def _axis(one: ClaimAxis) -> str:
    away = "" if one.octaves is None else f", {one.octaves:.1f} octaves"
    return f"{AXES[one.axis]} ({_value(one.claim)} there, {_value(one.live)} here{away})"


def _value(value: float | str | None) -> str:
    return "-" if value is None else (value or "unlabelled") if isinstance(value, str) else f"{value:,.4g}"


def _instead(restated: Sequence[ClaimRestated], answer: Recommendation) -> str:
    if answer.operating_point is None:
        return "There is no live point to compare with."
    if not restated:
        return "For the live point nothing can be said from this sweep."
    return " ".join(_restated(one) for one in restated)


def _restated(one: ClaimRestated) -> str:
    name = f"{one.content or 'unlabelled'}, {'per stream' if one.column == 'per_stream' else 'aggregate'}"
    middle = "not known" if one.ratio_weighted is None else times_sign(one.ratio_weighted)
    ends = "" if one.low is None or one.high is None else f" ({times_sign(one.low)} to {times_sign(one.high)})"
    turn = "" if one.whole_turn is None else f", whole turn {times_sign(one.whole_turn.speedup_ratio)}"
    if one.whole_turn is not None and is_unlikely_to_be_felt(one.whole_turn.speedup_ratio):
        turn += " (unlikely to be felt)"
    return f"Here {name}: {middle}{ends}{turn}: {one.verdict}."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
