"""Stored sweeps as text for a terminal, or as Markdown.

Contains no arithmetic; pure. What was not measured is printed as `-`, never as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from opmon.cli.recommend_text import Page
from opmon.core.answers import CellAnswer, SweepAnswer, SweepImportAnswer


def render_list(sweeps: Sequence[SweepAnswer], *, markdown: bool) -> str:
    """A line per sweep."""
    page = Page(markdown=markdown)
    if not sweeps:
        page.paragraph("No sweep is stored; opmon sweeps import FILE adds one.")
        return page.text().rstrip("\n")
    rows = [
        (
            sweep.name,
            ", ".join(sweep.configurations),
            ", ".join(content or "unlabelled" for content in sweep.contents),
            str(len(sweep.imports)),
        )
        for sweep in sweeps
    ]
    page.table(("sweep", "configurations", "contents", "files"), rows)
    return page.text().rstrip("\n")


def render_sweep(sweep: SweepAnswer, *, markdown: bool) -> str:
    """A sweep: where it comes from, and a line per cell."""
    page = Page(markdown=markdown)
    page.title(sweep.name)
    page.facts(
        [
            ("configurations", ", ".join(sweep.configurations)),
            ("contents", ", ".join(content or "unlabelled" for content in sweep.contents)),
            *(("file", _file(one)) for one in sweep.imports),
        ]
    )
    page.items("", (note for one in sweep.imports for note in one.notes))
    header = (
        "configuration",
        "content",
        "concurrency",
        "prompt",
        "output",
        "aggregate",
        "per-stream",
        "decode",
        "flags",
    )
    page.table(header, [_cell(cell) for cell in sweep.cells])
    return page.text().rstrip("\n")


def _file(one: SweepImportAnswer) -> str:
    imported = f"{datetime.fromtimestamp(one.imported, tz=UTC):%Y-%m-%d %H:%M} UTC"
    read = f"read as {one.reader} {one.reader_version}"
    return f"{one.file_name}, {one.size_bytes:,} bytes, {read}, {imported}, sha256 {one.sha256[:12]}"


def _cell(cell: CellAnswer) -> tuple[str, ...]:
    figures = (
        cell.concurrency,
        cell.prompt_tokens,
        cell.output_tokens,
        cell.aggregate_tokens_per_second,
        cell.per_stream_tokens_per_second,
        cell.decode_tokens_per_second,
    )
    shown = ("-" if figure is None else f"{figure:,.6g}" for figure in figures)
    return (cell.configuration, cell.content or "unlabelled", *shown, ", ".join(cell.flags))
