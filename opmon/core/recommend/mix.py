"""From one answer per content to one verdict: a declared content, a mix, or an unknown content.

Contains "Content" of DEFINITIONS 5; what a content says by itself is `content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opmon.core.answers import Combined
from opmon.core.knee import AGGREGATE, BOTH, PER_STREAM
from opmon.core.recommend.case import Setting
from opmon.core.recommend.content import ContentResult
from opmon.core.recommend.missing import lead, not_in_the_sweep, together
from opmon.core.recommend.ratios import UNDECIDED, combine, within
from opmon.core.recommend.verdicts import (
    NO_DATA,
    NOT_COMPARABLE,
    Finding,
    Number,
    agree,
    apply_capacity,
    judge_numbers,
)


def unknown_content(results: Sequence[ContentResult]) -> Finding:
    """One answer per content; if they differ, the content decides, and it is not known. What to do comes first."""
    if len(results) == 1:
        return Finding(results[0].answer.verdict, (*leading(results), *results[0].answer.reasons))
    words = {result.answer.verdict for result in results}
    each = each_content(results)
    if len(words) > 1:
        unknown = "content_unknown: the contents differ; say which you serve (for example code=0.3,prose=0.7)"
        return Finding(UNDECIDED, (unknown, *each))
    verdict = results[0].answer.verdict
    names = together([result.answer.content or "unlabelled" for result in results])
    return Finding(verdict, (*(leading(results) or (f"{verdict} for {names} alike",)), *each))


def each_content(results: Sequence[ContentResult]) -> tuple[str, ...]:
    """Every content with its verdict."""
    return tuple(f"{result.answer.content or 'unlabelled'}: {result.answer.verdict}" for result in results)


def leading(results: Sequence[ContentResult]) -> tuple[str, ...]:
    """What is missing for the contents that are undecided, as one sentence; none where none is."""
    missing = [
        (result.answer.content, result.missing)
        for result in results
        if result.answer.verdict == UNDECIDED and result.missing
    ]
    return (lead(missing),) if missing else ()


def mixed(
    setting: Setting, results: Mapping[str, ContentResult], tokens: Mapping[str, float]
) -> tuple[Finding, Combined | None]:
    """The verdict of a mix. `tokens`: the declared share of output tokens of every content, measured or not."""
    measured = [result for result in results.values() if result.numbers]
    if not measured:
        words = {result.answer.verdict for result in results.values()}
        verdict = NO_DATA if NO_DATA in words or not words else NOT_COMPARABLE
        return Finding(verdict, tuple(reason for one in results.values() for reason in one.answer.reasons)), None
    column = _column(measured)
    columns = (PER_STREAM, AGGREGATE) if column == BOTH else (column,)
    findings, combined = [], None
    for reading in setting.readings:
        shares = _time_shares(measured, tokens, reading)
        if shares is None:
            reason = "the mix cannot be weighted: the running configuration's aggregate is not known at every cell"
            return Finding(UNDECIDED, (reason,)), None
        numbers = [_combine(measured, shares, one, reading) for one in columns]
        known = [number for number in numbers if number is not None]
        findings.append(judge_numbers(known))
        if combined is None and known:
            combined = _combined(known, column)
    finding = agree(findings, "it is not known which configuration the live server runs, and the verdict depends on it")
    peak = setting.live.peak_minute_tokens_per_second
    finding = apply_capacity(finding, peak, _largest(measured, tokens, 0), _largest(measured, tokens, 1))
    unmeasured = _unmeasured(results, tokens, setting.sweep.contents)
    finding = finding.capped(*(f"{one.answer.content}: {cap}" for one in results.values() for cap in one.caps))
    finding = finding.capped(*unmeasured[:1])
    first = (*unmeasured, *(leading(list(results.values())) if finding.verdict == UNDECIDED else ()))
    reasons = tuple(dict.fromkeys((*first, *finding.reasons)))
    return Finding(finding.verdict, reasons), None if unmeasured else combined


def _column(results: Sequence[ContentResult]) -> str:
    columns = {result.answer.column for result in results}
    return columns.pop() if len(columns) == 1 else BOTH


def _time_shares(results: Sequence[ContentResult], tokens: Mapping[str, float], live_is: str) -> list[float] | None:
    """Time is spent in proportion to tokens / speed of the running configuration at the cell."""
    speeds = [result.running_aggregate.get(live_is) for result in results]
    times = [
        tokens[result.answer.content] / speed
        for result, speed in zip(results, speeds, strict=True)
        if speed is not None
    ]
    return [time / sum(times) for time in times] if len(times) == len(results) else None


def _combine(results: Sequence[ContentResult], shares: Sequence[float], column: str, live_is: str) -> Number | None:
    """Lows, middles and highs of the contents by the rule for levels, weights = time shares; None where a content has
    no number of the kind that the others have. The middle is known only if it is known of every content."""
    numbers = [result.numbers[live_is].get(column) for result in results]
    present = [(number, share) for number, share in zip(numbers, shares, strict=True) if number is not None]
    if len(present) != len(results):
        return None
    kinds = {number.kind for number, _ in present}
    if len(kinds) > 1:
        return None  # a whole turn and a speed of one stream have no mean
    weights = [share for _, share in present]
    low, high = (
        combine(ends, weights, live_is) for ends in zip(*((one.low, one.high) for one, _ in present), strict=True)
    )
    middles = [number.middle for number, _ in present if number.middle is not None]
    return Number(
        kind=kinds.pop(),
        low=low,
        high=high,
        # The interval is of all contents, so a middle of some of them would be of something else.
        middle=within(combine(middles, weights, live_is), low, high) if len(middles) == len(present) else None,
        evidence_ratio=sum(number.evidence_ratio * share for number, share in present),
        delta=max(number.delta for number, _ in present),
        proxy_ratio=next((number.proxy_ratio for number, _ in present if number.proxy_ratio is not None), None),
    )


def _combined(numbers: Sequence[Number], column: str) -> Combined:
    if len(numbers) == 1:
        number = numbers[0]
        return Combined(number.middle, number.low, number.high, column)
    return Combined(None, min(one.low for one in numbers), max(one.high for one in numbers), column)


def _largest(results: Sequence[ContentResult], tokens: Mapping[str, float], side: int) -> float | None:
    """The largest aggregate that a configuration makes of the mix, tok/s: tokens add, times add."""
    largest = [result.largest[side] for result in results]
    seconds = sum(
        tokens[result.answer.content] / speed for result, speed in zip(results, largest, strict=True) if speed
    )
    total = sum(tokens[result.answer.content] for result in results)
    return total / seconds if seconds and all(largest) else None


def _unmeasured(
    results: Mapping[str, ContentResult], tokens: Mapping[str, float], there: Sequence[str]
) -> tuple[str, ...]:
    """The parts of the mix that the numbers do not cover; with one of them nothing is said of all contents together."""
    return tuple(
        f"{100 * share:.0f} % of the output tokens have no fair pair: "
        + (f"content {name!r}" if name in there else not_in_the_sweep(name, there))
        for name, share in tokens.items()
        if name not in results or not results[name].numbers
    )
