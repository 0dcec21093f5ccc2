"""A quoted speed-up, located in a sweep, compared with the live point axis by axis, and restated for it.

Contains the search among fair pairs and the comparison. What holds at the live point is the recommendation's: nothing
of it is computed again here. The words are `claim_words`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from opmon.core.answers import ContentAnswer, Recommendation
from opmon.core.cells import Cell, Sweep, octaves
from opmon.core.knee import BOTH
from opmon.core.pairs import Pair, is_same_length, pair_cells
from opmon.core.recommend.claim_words import Origin, sentence_of
from opmon.core.recommend.claimed import (
    ABSENT,
    ELSEWHERE,
    EXACT,
    NOT_COMPARABLE,
    WITHIN_NOISE,
    Claim,
    ClaimAxis,
    ClaimPlace,
    ClaimQuotient,
    ClaimRestated,
)
from opmon.core.recommend.columns import COLUMNS, Column
from opmon.core.recommend.quote import ClaimAsk, Quote, check_claim, parse_quote
from opmon.core.recommend.quotients import unfair_quotients
from opmon.core.recommend.ratios import NO_DIFFERENCE, classify

MOST_NEAREST = 3
MOST_PLACES = 20
MOST_LENGTHS = 32
SMALL_GROUP = 100


def claim(sweep: Sweep, ask: ClaimAsk, answer: Recommendation) -> Claim:
    """Where the quoted speed-up comes from, and what holds at the live point of `answer`, the recommendation from the
    same sweep (its configurations are compared; without a live point in it nothing is restated).

    Raises ConfigError for a quote that cannot be read.
    """
    check_claim(ask)
    quote = parse_quote(ask.speedup)
    places = sorted(_places(sweep, ask, quote, answer), key=lambda one: _rank(one, quote))
    hits = tuple(one for one in places if one.exact or (one.within_noise and not one.inverted))
    is_settled = bool(hits) and hits[0].exact and not hits[0].contradicts
    names = (answer.reference, answer.candidate)
    quotients, count = ((), 0) if is_settled else unfair_quotients(sweep.cells, *names, quote)
    found = _found(hits, quotients)
    first = hits[0] if found in (EXACT, WITHIN_NOISE, ELSEWHERE) else None
    nearest = tuple([one for one in places if not one.inverted][:MOST_NEAREST]) if found == ABSENT else ()
    axes = () if first is None else _axes(first, answer)
    restated = _restated(answer, None if first is None else first.content)
    return Claim(
        sweep=sweep.name,
        reference=answer.reference,
        candidate=answer.candidate,
        speedup_ratio=quote.ratio.value,
        quoted=quote.text,
        found=found,
        sentence=sentence_of(quote, found, Origin(first, nearest, quotients, count), axes, restated, answer),
        places=hits[:MOST_PLACES],
        nearest=nearest,
        quotients=quotients,
        quotient_count=count,
        axes=axes,
        operating_point=answer.operating_point,
        restated=restated,
        verdict=answer.verdict,
        warnings=answer.warnings,
    )


# --- where it comes from ------------------------------------------------------------------------------------------


def _found(hits: Sequence[ClaimPlace], quotients: Sequence[ClaimQuotient]) -> str:
    if hits and hits[0].contradicts:
        return ELSEWHERE
    if hits:
        return EXACT if hits[0].exact else WITHIN_NOISE
    return NOT_COMPARABLE if quotients else ABSENT


def _rank(place: ClaimPlace, quote: Quote) -> tuple[object, ...]:
    """What the quote says of itself first, then the direction, then how near the ratio is."""
    away = round(abs(math.log(place.ratio / quote.ratio.value)), 9)
    return len(place.contradicts), place.inverted, not place.exact, away, place.concurrency, place.content


def _places(sweep: Sweep, ask: ClaimAsk, quote: Quote, answer: Recommendation) -> Iterator[ClaimPlace]:
    """Every fair pair in every column, in both directions."""
    for pair in _fair_pairs(sweep.cells, sweep.contents, answer.reference, answer.candidate):
        for column in COLUMNS.values():
            ratio = column.ratio(pair)
            if ratio is None:
                continue
            yield _place(pair, column, ratio, ask, quote, is_inverted=False)
            yield _place(pair, column, 1 / ratio, ask, quote, is_inverted=True)


def _fair_pairs(cells: Sequence[Cell], contents: Iterable[str], reference: str, candidate: str) -> Iterator[Pair]:
    """The fair pairs at every measured length; a recommendation needs only those that are nearest to the live ones."""
    seen = set()
    for content in contents:
        compared = [cell for cell in cells if cell.content == content]
        for group, prompt, output in _groups(compared):
            pairing = pair_cells(group, reference, candidate, content, prompt_tokens=prompt, output_tokens=output)
            for pair in pairing.pairs:
                key = (content, pair.concurrency, id(pair.reference.first), id(pair.candidate.first))
                if key not in seen:
                    seen.add(key)
                    yield pair


def _groups(cells: Sequence[Cell]) -> Iterator[tuple[Sequence[Cell], float | None, float | None]]:
    """(cells, prompt length, output length): each lot of cells that may hold fair pairs, so that none is compared with
    thousands. Output lengths of a pair may differ, but in a large lot only cells of about one are looked at."""
    for prompt in _lengths([cell.prompt_tokens for cell in cells]):
        near = [cell for cell in cells if is_same_length(cell.prompt_tokens, prompt)]
        outputs = _lengths([cell.output_tokens for cell in near])
        for output in outputs:
            is_small = len(outputs) == 1 or len(near) <= SMALL_GROUP
            kept = near if is_small else [cell for cell in near if is_same_length(cell.output_tokens, output)]
            yield kept, prompt, output


def _lengths(lengths: Iterable[float | None]) -> list[float | None]:
    """The lengths that were measured, each once: within 10 % is the same."""
    found: list[float | None] = []
    for length in lengths:
        if len(found) < MOST_LENGTHS and not any(is_same_length(length, one) for one in found):
            found.append(length)
    return found


def _place(pair: Pair, column: Column, ratio: float, ask: ClaimAsk, quote: Quote, *, is_inverted: bool) -> ClaimPlace:
    reference, candidate = pair.reference.value(column.figure), pair.candidate.value(column.figure)
    delta = column.threshold(pair).delta
    away = ratio / quote.ratio.value
    is_near = classify(away, away, delta) == NO_DIFFERENCE
    is_exact = is_near and quote.ratio.holds(ratio)
    if quote.figures is not None:
        over, under = (reference, candidate) if is_inverted != column.is_time else (candidate, reference)
        is_near = is_exact = quote.figures[0].holds(over or 0.0) and quote.figures[1].holds(under or 0.0)
    return ClaimPlace(
        column=column.name,
        content=pair.content,
        concurrency=pair.concurrency,
        prompt_tokens=pair.prompt_tokens,
        output_tokens=pair.output_tokens,
        reference=reference or 0.0,
        candidate=candidate or 0.0,
        ratio=ratio,
        threshold_ratio=delta,
        within_noise=is_near,
        exact=is_exact,
        inverted=is_inverted,
        contradicts=_contradictions(pair, column, ask),
    )


def _contradictions(pair: Pair, column: Column, ask: ClaimAsk) -> tuple[str, ...]:
    """What the quote says of itself and this cell does not; a length that the cell does not state says nothing."""
    said = (
        ("content", ask.content, ask.content is None or pair.content.casefold() == ask.content.casefold()),
        ("column", ask.column, column.name == ask.column),
        ("concurrency", ask.concurrency, pair.concurrency == ask.concurrency),
        ("prompt_tokens", ask.prompt_tokens, _is_length(pair.prompt_tokens, ask.prompt_tokens)),
        ("output_tokens", ask.output_tokens, _is_length(pair.output_tokens, ask.output_tokens)),
    )
    return tuple(name for name, wanted, agrees in said if wanted is not None and not agrees)


def _is_length(cell: float | None, said: float | None) -> bool:
    return cell is None or said is None or is_same_length(cell, said)


# --- beside the live point ----------------------------------------------------------------------------------------


def _axes(place: ClaimPlace, answer: Recommendation) -> tuple[ClaimAxis, ...]:
    """The claim's cell and the live point, axis by axis; empty without a live point."""
    point = answer.operating_point
    if point is None:
        return ()
    there = next((one for one in answer.contents if one.content == place.content), None)
    there = there or next(iter(answer.contents), None)
    return (
        _content_axis(place, answer),
        _concurrency_axis(place, answer, there),
        _length_axis("prompt_tokens", place.prompt_tokens, point.prompt_tokens),
        _length_axis("output_tokens", place.output_tokens, point.output_tokens),
        _column_axis(place, there),
    )


def _content_axis(place: ClaimPlace, answer: Recommendation) -> ClaimAxis:
    served = {one.content: one.share_ratio for one in answer.contents if one.share_ratio is not None}
    other = [str(m.live) for one in answer.contents for m in one.mismatches if m.axis == "content"]
    if not served:
        live = other[0] if other else None
        return ClaimAxis("content", place.content, live, None, live != place.content if live else None)
    is_all = abs(served.get(place.content, 0.0) - 1) < 1e-9
    mix = ",".join(f"{name}={share:.3g}" for name, share in served.items())
    return ClaimAxis("content", place.content, next(iter(served)) if len(served) == 1 else mix, None, not is_all)


def _concurrency_axis(place: ClaimPlace, answer: Recommendation, there: ContentAnswer | None) -> ClaimAxis:
    """The live side is the request-weighted median in system; other than the cell that applies there is different."""
    point = answer.operating_point
    live = point.in_system.request.p50 if point is not None else None
    if not live:
        return ClaimAxis("concurrency", place.concurrency, None, None, None)
    away = octaves(place.concurrency, live)
    cell = there.cell.concurrency if there is not None and there.cell is not None else None
    return ClaimAxis("concurrency", place.concurrency, live, away, place.concurrency != cell if cell else away > 1)


def _length_axis(name: str, cell: float | None, live: float | None) -> ClaimAxis:
    away = octaves(cell, live) if cell and live else None
    return ClaimAxis(name, cell, live, away, None if away is None else away > 1)


def _column_axis(place: ClaimPlace, there: ContentAnswer | None) -> ClaimAxis:
    """Where both columns count, either of them is one that applies."""
    if there is None or there.cell is None:
        return ClaimAxis("column", place.column, None, None, None)
    applies = ("per_stream", "aggregate") if there.column == BOTH else (there.column,)
    return ClaimAxis("column", place.column, there.column, None, place.column not in applies)


def _restated(answer: Recommendation, first: str | None) -> tuple[ClaimRestated, ...]:
    """The recommendation's own figures in the columns that apply, the claim's content first."""
    found = []
    for one in sorted(answer.contents, key=lambda content: content.content != first):
        if one.cell is None:
            continue
        for name in ("per_stream", "aggregate") if one.column == BOTH else (one.column,):
            column = one.columns.per_stream if name == "per_stream" else one.columns.aggregate
            found.append(
                ClaimRestated(
                    content=one.content,
                    share_ratio=one.share_ratio,
                    column=name,
                    ratio_weighted=column.ratio_weighted,
                    low=column.low,
                    high=column.high,
                    evidence_ratio=column.evidence_ratio,
                    proxy=column.proxy,
                    whole_turn=one.whole_turn,
                    verdict=one.verdict,
                )
            )
    return tuple(found)
