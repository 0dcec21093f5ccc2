"""The shapes of the answer about a claimed speed-up; the field names are promises, as in `opmon.core.answers`.

Contains no arithmetic. What is not known is None, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.core.answers import OperatingPointSummary, Warning_, WholeTurn

EXACT, WITHIN_NOISE, ELSEWHERE, NOT_COMPARABLE, ABSENT = (
    "exact",
    "within_noise",
    "elsewhere",
    "not_comparable",
    "absent",
)


@dataclass(frozen=True, slots=True)
class ClaimPlace:
    """A fair pair and column with about the quoted ratio. `exact`: equal as far as the quote is rounded;
    `within_noise`: as far as repeats would differ (`threshold_ratio`). `inverted`: the reference over the candidate.
    `contradicts`: what the quote says of itself and the cell does not. Speeds are tokens per second, times seconds."""

    column: str
    content: str
    concurrency: float
    prompt_tokens: float | None
    output_tokens: float | None
    reference: float
    candidate: float
    ratio: float
    threshold_ratio: float
    within_noise: bool
    exact: bool
    inverted: bool
    contradicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimCell:
    """One side of a quotient that is no fair pair."""

    configuration: str
    content: str
    concurrency: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    column: str
    value: float
    source_row: int | None


@dataclass(frozen=True, slots=True)
class ClaimField:
    """A field in which the two sides differ, or that one of them does not state (null)."""

    field: str
    candidate: str | None
    reference: str | None


@dataclass(frozen=True, slots=True)
class ClaimQuotient:
    """Two figures of the sweep whose quotient is the quoted ratio, and why they are no pair."""

    candidate: ClaimCell
    reference: ClaimCell
    ratio: float
    fields: tuple[ClaimField, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class ClaimAxis:
    """One axis of the claim's cell beside the live point. `octaves`: doublings between two numbers; `differs` is null
    where either side is not known."""

    axis: str
    claim: float | str | None
    live: float | str | None
    octaves: float | None
    differs: bool | None


@dataclass(frozen=True, slots=True)
class ClaimRestated:
    """What holds at the live point, for one content and a column that applies there: as the recommendation has it."""

    content: str
    share_ratio: float | None
    column: str
    ratio_weighted: float | None
    low: float | None
    high: float | None
    evidence_ratio: float
    proxy: bool
    whole_turn: WholeTurn | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Claim:
    """Where a quoted speed-up comes from, and what holds at the live point instead.

    `found`: `exact`, `within_noise`, `elsewhere` (only in cells that contradict the quote), `not_comparable` (only as a
    quotient of two cells that are no fair pair) or `absent`. `nearest`: the three nearest places where it is absent. `quotient_count`: how many unfair
    quotients give the ratio, of which at most three are listed; many mean chance.
    """

    sweep: str
    reference: str
    candidate: str
    speedup_ratio: float
    quoted: str
    found: str
    sentence: str
    places: tuple[ClaimPlace, ...]
    nearest: tuple[ClaimPlace, ...]
    quotients: tuple[ClaimQuotient, ...]
    quotient_count: int
    axes: tuple[ClaimAxis, ...]
    operating_point: OperatingPointSummary | None
    restated: tuple[ClaimRestated, ...]
    verdict: str
    warnings: tuple[Warning_, ...] = ()
