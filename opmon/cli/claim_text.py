"""The claim as text for a terminal, or as Markdown to paste into an issue: the sentences first, then the axes.

Contains no arithmetic; pure.
"""

from __future__ import annotations

from opmon.cli.recommend_text import Page
from opmon.core.recommend.claim_words import AXES, place_in_words
from opmon.core.recommend.claimed import Claim, ClaimAxis, ClaimPlace, ClaimRestated

SHOWN_PLACES = 5


def render_claim(answer: Claim, *, markdown: bool) -> str:
    """The whole answer. What is not known is printed as `-`, never as 0."""
    page = Page(markdown=markdown)
    page.paragraph(answer.sentence)
    if answer.axes:
        page.table(("axis", "claim", "here", "octaves", ""), [_axis(one) for one in answer.axes])
    others = answer.places[1:] if answer.found != "not_comparable" else answer.places
    page.items("Also within the noise of this ratio:", (_place(one) for one in others[:SHOWN_PLACES]))
    quotients = answer.quotients[1:] if answer.found == "not_comparable" else answer.quotients
    page.items("Cells that are no fair pair and give it too:", (one.detail for one in quotients))
    if answer.restated:
        page.table(
            ("content", "share", "ratio", "interval", "evidence", "whole turn", "column, verdict"),
            [_restated(one) for one in answer.restated],
        )
    page.facts([("compared", f"{answer.candidate} (candidate) / {answer.reference} (reference)"), *_live(answer)])
    return page.text()


def _live(answer: Claim) -> list[tuple[str, str]]:
    point = answer.operating_point
    if point is None:
        return [("sweep", answer.sweep)]
    source = "" if point.source == "live" else f" (from {point.source})"
    return [("sweep", answer.sweep), ("live", f"{point.sentence}{source}")]


def _axis(one: ClaimAxis) -> tuple[str, ...]:
    differs = {True: "differs", False: "", None: "not known"}[one.differs]
    return (
        AXES[one.axis],
        _value(one.claim),
        _value(one.live),
        "-" if one.octaves is None else f"{one.octaves:.1f}",
        differs,
    )


def _value(value: float | str | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:,.4g}"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _place(one: ClaimPlace) -> str:
    direction = ", reference over candidate" if one.inverted else ""
    return f"{one.ratio:.2f}x: {place_in_words(one)}{direction}"


def _restated(one: ClaimRestated) -> tuple[str, ...]:
    ends = "-" if one.low is None or one.high is None else f"{_times(one.low)} to {_times(one.high)}"
    turn = None if one.whole_turn is None else one.whole_turn.speedup_ratio
    proxy = " (proxy)" if one.proxy else ""
    return (
        one.content or "unlabelled",
        "-" if one.share_ratio is None else f"{100 * one.share_ratio:.0f} %",
        _times(one.ratio_weighted),
        ends,
        f"{100 * one.evidence_ratio:.0f} %",
        _times(turn),
        f"{one.column}{proxy}, {one.verdict}",
    )
