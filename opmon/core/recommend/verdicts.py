"""From numbers with their doubt to one of the verdict's words, with reasons that a person understands.

Contains the class of a number, the rule for two columns, the capacity stop and the precedence (DEFINITIONS 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opmon.core.knee import AGGREGATE, PER_STREAM
from opmon.core.recommend.ratios import NO_DIFFERENCE, STAY, SWITCH, UNDECIDED, classify, edge_of
from opmon.core.turn import is_unlikely_to_be_felt

NOT_COMPARABLE, NO_DATA = "not_comparable", "no_data"
FEWEST_EVIDENCE_RATIO = 0.5
CAPACITY_RATIO = 0.8

NAMES = {PER_STREAM: "per-stream speed", AGGREGATE: "aggregate throughput per card time", "turn": "whole turn"}
WORDS = {
    SWITCH: "the candidate is better by more than the noise",
    STAY: "the candidate is worse by more than the noise",
    NO_DIFFERENCE: "any difference is within the noise",
    UNDECIDED: "the interval reaches across the noise limit, so it decides nothing",
}


@dataclass(frozen=True, slots=True)
class Number:
    """A ratio that is judged. `kind`: `per_stream`, `aggregate` or `turn`. `middle` is None where nothing is known.

    `proxy_ratio`: the aggregate ratio that stands in for a per-stream ratio which was not measured at the cell.
    """

    kind: str
    low: float
    high: float
    middle: float | None
    evidence_ratio: float
    delta: float
    proxy_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and why."""

    verdict: str
    reasons: tuple[str, ...] = ()

    def capped(self, *reasons: str) -> Finding:
        """At most undecided, for these reasons; unchanged without any."""
        if not reasons:
            return self
        verdict = self.verdict if self.verdict in (NO_DATA, NOT_COMPARABLE) else UNDECIDED
        return Finding(verdict, (*self.reasons, *reasons))


def times_sign(ratio: float) -> str:
    """A ratio as people write it: `1.42x`."""
    return f"{ratio:.2f}x"


def judge_number(number: Number) -> Finding:
    """The class of one number; a proxy or too little evidence is `undecided`."""
    name = NAMES[number.kind]
    parts = [] if number.middle is None else [times_sign(number.middle)]
    if number.low != number.high or not parts:
        parts.append(f"between {times_sign(number.low)} and {times_sign(number.high)}")
    words = ", ".join(parts)
    verdict = classify(number.low, number.high, number.delta)
    noise = f"differences under {100 * number.delta:.1f} % (up to {edge_of(number.delta):.3f}x) are noise"
    reasons = [f"{name}: {words}; {noise}: {WORDS[verdict]}"]
    if number.kind == "turn" and is_unlikely_to_be_felt(number.middle or number.high):
        reasons.append(
            f"whole turn {times_sign(number.middle or number.high)}: measurable, unlikely to be felt (under 1.2x)"
        )
    if number.proxy_ratio is not None:
        verdict = UNDECIDED
        reasons.append(
            "the per-stream speed was not measured at this cell; the aggregate ratio of"
            f" {times_sign(number.proxy_ratio)} stands in for it (proxy), which cannot carry a verdict"
        )
    if number.evidence_ratio < FEWEST_EVIDENCE_RATIO:
        verdict = UNDECIDED
        reasons.append(
            f"only {100 * number.evidence_ratio:.0f} % of the weight lies at levels whose ratio is known in this column (50 %"
            " needed)"
        )
    return Finding(verdict, tuple(reasons))


def judge_numbers(numbers: Sequence[Number]) -> Finding:
    """One number: its class. Two columns: the class they share; one `no_difference`: that; opposite: `undecided`."""
    findings = [judge_number(number) for number in numbers]
    if not findings:
        return Finding(UNDECIDED, ("no ratio is known in the column that counts",))
    reasons = tuple(reason for finding in findings for reason in finding.reasons)
    words = {finding.verdict for finding in findings}
    if len(words) == 1:
        return Finding(findings[0].verdict, reasons)
    if UNDECIDED in words:
        return Finding(UNDECIDED, (*reasons, "both columns count here, and one of them decides nothing"))
    if NO_DIFFERENCE in words:
        return Finding(NO_DIFFERENCE, (*reasons, "both columns count here, and one of them shows no difference"))
    return Finding(UNDECIDED, (*reasons, "both columns count here, and they say opposite things"))


def agree(findings: Sequence[Finding], disagreement: str) -> Finding:
    """The first finding if all have its verdict, else `undecided` with the reason."""
    words = {finding.verdict for finding in findings}
    return findings[0] if len(words) == 1 else findings[0].capped(disagreement)


def apply_capacity(
    finding: Finding, peak: float | None, reference_largest: float | None, candidate_largest: float | None
) -> Finding:
    """The capacity stop: the best live minute against 80 % of what each configuration can do at most (tok/s).

    Above the candidate's: never `switch`. Above the candidate's and not the reference's: `stay`.
    """
    if peak is None or candidate_largest is None or peak <= CAPACITY_RATIO * candidate_largest:
        return finding
    words = (
        f"capacity: the busiest minute produced {peak:.0f} tok/s, above 80 % of the candidate's largest measured"
        f" aggregate ({candidate_largest:.0f} tok/s)"
    )
    if reference_largest is not None and peak <= CAPACITY_RATIO * reference_largest:
        words += f", which the reference still carries ({reference_largest:.0f} tok/s)"
        verdict = finding.verdict if finding.verdict in (NO_DATA, NOT_COMPARABLE) else STAY
        return Finding(verdict, (*finding.reasons, words))
    if finding.verdict == SWITCH:
        return finding.capped(words)
    return Finding(finding.verdict, (*finding.reasons, words))
