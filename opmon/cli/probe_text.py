"""How a probe looks in a terminal, or as Markdown: a table, and the words that belong to it.

Contains no figures of its own. What a server said is shown with control characters as escapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from opmon.core.names import escaped
from opmon.core.probed import PathAnswer, Probe, figures

STOPPED = {"interrupted": "Interrupted", "deadline": "The deadline passed"}
UNKNOWN = "-"


def render_probe(answer: Probe, *, markdown: bool) -> str:
    """A head that says whether the table is whole, the table, and what is to be said of each path."""
    head = _head(answer)
    rows = list(_rows(answer))
    lines = [f"**{head}**" if markdown else head, "", *(_markdown(rows) if markdown else _aligned(rows)), ""]
    bullet = "* " if markdown else "  "
    words = [line for one in answer.paths for line in _words(one)]
    lines += [f"{bullet}{line}" for line in words]
    lines += [""] if words else []
    lines.append(f"How: {answer.method}.")
    return "\n".join(escaped(line) for line in lines)


def _head(answer: Probe) -> str:
    asked = f"{answer.requests} requests a path, {answer.concurrency} at once, up to {answer.max_tokens} tokens each"
    if answer.stopped is not None:
        return f"{STOPPED.get(answer.stopped, answer.stopped)}: this table is not whole (of {asked})"
    if not answer.is_complete:
        return f"Not whole, for requests failed: {asked}"
    return f"One prompt through {len(answer.paths)} paths: {asked}" if len(answer.paths) > 1 else f"One path: {asked}"


def _rows(answer: Probe) -> Iterator[list[str]]:
    yield ["path", "answered", *figures(answer.paths[0])]
    for one in answer.paths:
        row = [one.path, f"{one.requests}/{answer.requests}"]
        yield [*row, *(_number(name, value) for name, value in figures(one).items())]


def _number(name: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if name.endswith(" x"):
        return f"{value:.2f}x"
    if name.endswith(" s"):
        return f"{value:.3f}"
    return f"{value:.1f}" if name.endswith("tok/s") else f"{value:,.0f}"


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join((first, *rest)).rstrip()


def _markdown(rows: list[list[str]]) -> Iterator[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    head, *body = rows
    yield line(head)
    yield line(["---", *(["---:"] * (len(head) - 1))])
    yield from (line(row) for row in body)


def _words(one: PathAnswer) -> Iterator[str]:
    """What a row cannot hold."""
    yield from (f"{one.path}: failed: {words}" for words in one.failures)
    if one.asks is not None:
        yield one.asks
    yield from (f"{one.path}: {words}" for words in one.notes)
