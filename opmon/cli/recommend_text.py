"""The recommendation as text for a terminal, or as Markdown to paste into an issue: the verdict first, then why.

Contains no arithmetic; pure. Both columns are always printed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from opmon.core.answers import (
    CellRef,
    ColumnAnswer,
    ContentAnswer,
    Knee,
    MeasureNext,
    Projection,
    Recommendation,
    WholeTurn,
)
from opmon.core.names import escaped

WIDTH = 110
SHOWN_COMMANDS = 3
VERDICTS = {
    "switch": "switch to the candidate",
    "stay": "stay with the reference",
    "no_difference": "no difference that could be told from noise",
    "undecided": "undecided: the numbers do not carry a decision",
    "not_comparable": "not comparable: the cells were not measured alike",
    "no_data": "no data",
}
READINGS = {
    "ceiling": "at the ceiling",
    "peak": "at your peak",
    "best_cell": "at its best-looking cell",
}


def render_recommendation(answer: Recommendation, markdown: bool = False) -> str:  # noqa: FBT001, FBT002 - the one switch
    """The whole recommendation. What is not known is printed as `-`, never as 0."""
    page = Page(markdown=markdown)
    page.title(f"{answer.verdict}: {VERDICTS[answer.verdict].removeprefix('undecided: ')}")
    page.facts(_facts(answer))
    page.items("", _reasons_above(answer))
    if answer.combined is not None and len(answer.contents) > 1:
        combined = answer.combined
        unknown = "two columns count" if combined.column == "both" else "not known for all of them"
        middle = unknown if combined.ratio_weighted is None else _times(combined.ratio_weighted)
        page.paragraph(
            f"All contents together ({combined.column}): {middle}, interval {_interval(combined.low, combined.high)}"
        )
    is_ceiling_known = answer.operating_point is not None and answer.operating_point.ceiling_requests is not None
    for content in answer.contents:
        _content(page, content, is_ceiling_known=is_ceiling_known)
    if answer.unfair_pairs:
        page.section("Refused pairs")
        page.items("", (f"{_cell(pair.cell)}: {', '.join(pair.fields)}" for pair in answer.unfair_pairs))
    _measure_next(page, answer.measure_next, answer.reference)
    if answer.warnings:
        page.section("Doubts")
        page.items("", (warning.detail for warning in answer.warnings))
    return page.text()


def _reasons_above(answer: Recommendation) -> list[str]:
    """The reasons of the whole answer, but for those that the only content says below."""
    below = answer.contents[0].reasons if len(answer.contents) == 1 else ()
    return [reason for reason in answer.reasons if reason not in below]


class Page:
    """Blocks of text, as a terminal or as Markdown."""

    def __init__(self, *, markdown: bool) -> None:
        self.markdown = markdown
        self._blocks: list[str] = []

    def text(self) -> str:
        """The page; what names and notes of others hold cannot steer the terminal."""
        return escaped("\n\n".join(block for block in self._blocks if block) + "\n", keep="\n")

    def title(self, words: str) -> None:
        self._blocks.append(f"## {_escaped(words)}" if self.markdown else words)

    def section(self, words: str) -> None:
        self._blocks.append(f"### {_escaped(words)}" if self.markdown else f"{words}\n{'-' * len(words)}")

    def paragraph(self, words: str) -> None:
        self._blocks.append(_escaped(words) if self.markdown else textwrap.fill(words, WIDTH))

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Name and words, one below the other."""
        known = [(name, words) for name, words in facts if words]
        if self.markdown:
            self._blocks.append("\n".join(f"- **{name}**: {_escaped(words)}" for name, words in known))
            return
        width = max((len(name) for name, _ in known), default=0) + 2
        self._blocks.append("\n".join(_hanging(f"{name:<{width}}", words) for name, words in known))

    def items(self, head: str, items: Iterable[str]) -> None:
        listed = list(items)
        if not listed:
            return
        if self.markdown:
            lines = [f"- {_escaped(item)}" for item in listed]
        else:
            lines = [_hanging("- ", item) for item in listed]
        self._blocks.append("\n".join([*([head, *([""] if self.markdown else [])] if head else []), *lines]))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """First and last column to the left, the rest to the right."""
        if self.markdown:
            lines = [_row(header), _row(["---", *["---:"] * (len(header) - 2), "---"]), *(_row(row) for row in rows)]
        else:
            widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
            lines = [_aligned(row, widths) for row in (header, *rows)]
        self._blocks.append("\n".join(lines))

    def code(self, head: str, command: str) -> None:
        if self.markdown:
            self._blocks.append(f"{_escaped(head)}\n\n```sh\n{command}\n```")
        else:
            self._blocks.append(f"{head}\n  {command}")


def _escaped(words: str) -> str:
    """Names come from files; in Markdown they must not become markup."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|" else letter for letter in words)


def _row(cells: Sequence[str]) -> str:
    return (
        "| " + " | ".join(cell if set(cell) <= set("-:") and cell != "-" else _escaped(cell) for cell in cells) + " |"
    )


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, last = f"{cells[0]:<{widths[0]}}", f"{cells[-1]:<{widths[-1]}}"
    rest = [f"{cell:>{width}}" for cell, width in zip(cells[1:-1], widths[1:-1], strict=True)]
    return "  ".join([first, *rest, last]).rstrip()


def _hanging(head: str, words: str) -> str:
    return textwrap.fill(words, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}x"


def _speed(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.0%}".replace("%", " %")


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.2f}x to {high:.2f}x"


def _cell(cell: CellRef | None) -> str:
    if cell is None:
        return ""
    lengths = _lengths(cell.prompt_tokens, cell.output_tokens)
    concurrency = "concurrency not known" if cell.concurrency is None else f"concurrency {cell.concurrency:g}"
    return ", ".join([concurrency, cell.content or "unlabelled content", *lengths])


def _facts(answer: Recommendation) -> list[tuple[str, str]]:
    point = answer.operating_point
    running = "not declared which of the two the live server runs"
    if answer.live_is is not None:
        running = f"the live server runs the {answer.live_is}"
    facts = [("compared", f"{answer.candidate} (candidate) / {answer.reference} (reference); {running}")]
    facts.append(("sweep", answer.sweep))
    if point is not None:
        facts.append(("live", f"{point.sentence} (from {point.source})" if point.source != "live" else point.sentence))
        if point.coverage_ratio is not None:
            facts.append(("coverage", f"{_percent(point.coverage_ratio)} of the window observed"))
        facts.append(("lengths", ", ".join(_lengths(point.prompt_tokens, point.output_tokens))))
    if answer.inferred_content is not None:
        facts.append(("content", f"{answer.inferred_content.words}; a reading, which decides nothing"))
    return facts


def _content(page: Page, one: ContentAnswer, *, is_ceiling_known: bool) -> None:
    share = "" if one.share_ratio in (None, 1.0) else f" ({_percent(one.share_ratio)} of the output tokens)"
    page.section(f"{one.content or 'unlabelled'}{share}: {one.verdict}")
    page.items("", one.reasons)
    if one.cell is None:
        return
    weight = (
        f"weight at measured levels {_percent(one.weight_at_cells_ratio)}, between"
        f" {_percent(one.weight_between_ratio)}, outside {_percent(one.weight_outside_ratio)}"
    )
    knees = f"reference {_knee(one.knee_requests.reference)}, candidate {_knee(one.knee_requests.candidate)}"
    page.facts(
        [
            ("cell", f"{_cell(one.cell)}; {weight}"),
            ("column", f"{one.column}: {one.column_reason}"),
            ("knee", knees),
            ("threshold", f"{one.threshold_ratio:.1%} ({one.threshold_source})".replace("%", " %")),
            ("whole turn", _whole_turn(one.whole_turn)),
            ("after", _projection(one.projection)),
        ]
    )
    page.table(
        ("column", "reference", "candidate", "at the cell", "weighted", "interval", "evidence", ""),
        [_column(name, column, _judged(name, one)) for name, column in _columns(one)],
    )
    _live_curve(page, one)
    names = READINGS if is_ceiling_known else {**READINGS, "ceiling": "at the largest cell (ceiling not known)"}
    readings = [
        (names[reading.reading], f"{reading.concurrency:g}", reading.column, _times(reading.ratio), reading.verdict)
        for reading in one.other_readings
    ]
    if readings:
        page.paragraph("What the wrong cell would have said:")
        page.table(("read", "concurrency", "column", "ratio", "verdict"), readings)


def _live_curve(page: Page, one: ContentAnswer) -> None:
    """The server's own speed beside the sweep, at the levels where it was seen at all; and where to look first."""
    if not any(level.live_seconds for level in one.live_curve):
        return
    page.paragraph("The server's own decode beside the sweep, tok/s of all requests:")
    rows = [
        (
            level.configuration,
            f"{level.concurrency:g}",
            _speed(level.live_tokens_per_second),
            _speed(level.cell_decode_tokens_per_second),
            _speed(level.cell_aggregate_tokens_per_second),
            level.words,
        )
        for level in one.live_curve
    ]
    page.table(("configuration", "concurrency", "live", "sweep, without prefill", "sweep, as stated", ""), rows)
    page.items("Where they differ, look in this order:", (axis.words for axis in one.look_first))


def _columns(one: ContentAnswer) -> list[tuple[str, ColumnAnswer]]:
    return [("per_stream", one.columns.per_stream), ("aggregate", one.columns.aggregate)]


def _judged(name: str, one: ContentAnswer) -> str:
    if one.column not in (name, "both"):
        return ""
    return "judged, as part of the whole turn" if name == "per_stream" and one.whole_turn is not None else "judged"


def _column(name: str, column: ColumnAnswer, judged_words: str) -> tuple[str, ...]:
    notes = [judged_words] if judged_words else []
    notes += ["proxy: the aggregate ratio"] if column.proxy else []
    notes += ["computed, not measured (per_stream_formula of the cells)"] if column.derived else []
    if column.by_live_is is not None:
        other = column.by_live_is.candidate
        notes.append(f"if live is the candidate {_times(other.ratio_weighted)}, {_interval(other.low, other.high)}")
    return (
        name,
        _speed(column.reference),
        _speed(column.candidate),
        _times(column.ratio_at_cell),
        _times(column.ratio_weighted),
        _interval(column.low, column.high),
        _percent(column.evidence_ratio),
        "; ".join(notes),
    )


def _knee(knee: Knee | None) -> str:
    if knee is None:
        return "not known"
    return {"exact": "", "at_most": "at or below ", "above": "not reached, above "}[knee.bound] + f"{knee.value:.3g}"


def _whole_turn(turn: WholeTurn | None) -> str:
    if turn is None:
        return "not known: give the TTFT and the decode time of a typical turn (--ttft, --decode)"
    side = "the candidate" if turn.measured == "after" else "the reference"
    return (
        f"{_times(turn.speedup_ratio)}, interval {_interval(turn.low, turn.high)}: TTFT {turn.ttft_seconds:.3f} s and"
        f" decode {turn.decode_seconds:.3f} s measured on {side} ({turn.times_source}); {turn.detail}"
    )


def _projection(projection: Projection) -> str:
    if projection.null_reason is not None:
        return f"occupancy after a switch not projected: {projection.null_reason}"
    cell = "not known" if projection.cell_concurrency is None else f"{projection.cell_concurrency:g}"
    return (
        f"after a switch busy p50 {projection.p50}, p95 {projection.p95}, idle {_percent(projection.idle_ratio)},"
        f" requests {_times(projection.e2e_speedup_ratio)} as fast, cell {cell}"
    )


def _measure_next(page: Page, levels: Sequence[MeasureNext], reference: str) -> None:
    if not levels:
        return
    page.section("Measure next")
    page.paragraph(
        f"These levels decide most. Run each command once for each configuration (CONFIG={reference!r} for the"
        " reference). Set BASE_URL and MODEL where the defaults do not fit, and PROMPTS (or DATA) to prompts of your"
        " own: random text has the right length but tells nothing about speculative decoding."
    )
    for one in levels[:SHOWN_COMMANDS]:
        for tool, command in one.commands.items():
            page.code(f"{_place(one)} ({tool}):", command)
    if rest := levels[SHOWN_COMMANDS:]:
        page.items("Then, with the same command (whole ones: --format json):", (_place(one) for one in rest))


def _place(one: MeasureNext) -> str:
    return ", ".join(
        [
            f"{one.content or 'unlabelled'} at concurrency {one.concurrency}",
            *_lengths(one.prompt_tokens, one.output_tokens),
        ]
    )


def _lengths(prompt_tokens: float | None, output_tokens: float | None) -> list[str]:
    return [
        f"{tokens:,.0f} {kind} tokens"
        for kind, tokens in (("prompt", prompt_tokens), ("output", output_tokens))
        if tokens is not None
    ]
