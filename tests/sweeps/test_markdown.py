"""Hand-made tables in Markdown: found among text, read as CSV is, faults by line and column."""

from __future__ import annotations

import random

import pytest

from opmon.core.cells import Cell, SweepImport
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep

GOOD = """\
# Results of the week

Measured with `vllm bench serve` | see below.

| card | memory |
|------|--------|
| one  | 64 GB  |

| Config | Content | Concurrency | Aggregate (tok/s) | Per-stream (tok/s) | TTFT p95 (ms) | note |
|:-------|---------|------------:|:-----------------:|--------------------|---------------|------|
| plain  | code | 1  | **388.4**  | 433.6 | 40 | a \\| b |
| plain  | code | 32 | `6,433.3`  | 208.4 | -  |
| [spec4](https://example.org/x) | code | 1 | 467.3 | 502.2 | | |

And that is all.
"""


def read(text: str, **said: str) -> SweepImport:
    return read_sweep(text.encode(), "README.md", **said)


def cells(text: str, **said: str) -> tuple[Cell, ...]:
    return read(text, **said).cells


def test_a_table_among_text_is_read_by_its_columns() -> None:
    one = read(GOOD)

    assert "markdown" == one.reader
    assert [
        ("plain", 1, 388.4, 433.6, 0.04, 11),
        ("plain", 32, 6433.3, 208.4, None, 12),
        ("spec4", 1, 467.3, 502.2, None, 13),
    ] == [
        (cell.configuration, cell.concurrency, cell.aggregate, cell.per_stream, cell.ttft_p95, cell.source_row)
        for cell in one.cells
    ]
    assert {"note": "a | b"} == one.cells[0].extra
    assert (
        "tables without a concurrency and a speed, passed over: in line 5",
        "columns kept but not used: note",
    ) == one.notes
    assert GOOD.encode() == one.original


def test_a_table_quoted_in_an_issue_without_outer_pipes_is_read() -> None:
    text = "> config | conc | output tok/s\r\n> --- | :-: | ---:\r\n> a | 4 | 70\r\n> \r\n> thanks\r\n"

    assert [("a", 4, 70)] == [(cell.configuration, cell.concurrency, cell.aggregate) for cell in cells(text)]


def test_headings_name_the_configurations_of_tables_that_do_not() -> None:
    table = "| Concurrency | Aggregate tok/s |\n|---|---|\n| 1 | 100 |\n"
    one = read(f"## plain\n\n{table}\n**with drafts:**\n\n{table.replace('100', '150')}")

    assert [("plain", 100), ("with drafts", 150)] == [(cell.configuration, cell.aggregate) for cell in one.cells]
    assert "line 9: the configuration 'with drafts' is a heading above the table" in one.notes


def test_one_table_without_a_configuration_asks_for_it() -> None:
    text = "## Results\n\n| Concurrency | Aggregate tok/s |\n|---|---|\n| 1 | 100 |\n"

    with pytest.raises(SweepError, match="no column `config`"):
        read(text)
    assert "given" == cells(text, configuration="given")[0].configuration


def test_columns_in_several_tables_may_stand_in_any_order() -> None:
    text = (
        "| config | concurrency | aggregate_tok_s |\n|-|-|-|\n| a | 1 | 5 |\n\n"
        "| ttft_seconds | aggregate_tok_s | c | label |\n|-|-|-|-|\n| 0.2 | 7 | 2 | b |\n"
    )

    assert [("a", 1, 5, None), ("b", 2, 7, 0.2)] == [
        (cell.configuration, cell.concurrency, cell.aggregate, cell.ttft) for cell in cells(text)
    ]


@pytest.mark.parametrize("name", ["tok/s", "Throughput", "Throughput (tok/s)", "t/s", "tok/s/user", "TPS"])
def test_a_column_that_may_mean_several_things_is_asked_about(name: str) -> None:
    with pytest.raises(SweepError, match="what does this column hold") as caught:
        read(f"text\n\n| config | concurrency | {name} |\n|--|--|--|\n| a | 1 | 5 |\n")

    assert ("README.md", 3, name) == (caught.value.file, caught.value.row, caught.value.field)


@pytest.mark.parametrize(
    ("old", "new", "row", "field"),
    [
        ("388.4", "388,4", 11, "aggregate_tok_s"),
        ("388.4", "fast", 11, "aggregate_tok_s"),
        ("| 32 |", "| many |", 12, "concurrency"),
        ("| 32 |", "| 0 |", 12, "concurrency"),
        ("208.4 | -  |", "208.4 | - | b | c |", 12, ""),
        ("| note |", "| Aggregate tok/s |", 9, "Aggregate tok/s"),
    ],
)
def test_a_fault_names_file_line_and_column(old: str, new: str, row: int, field: str) -> None:
    with pytest.raises(SweepError) as caught:
        read(GOOD.replace(old, new, 1))

    assert ("README.md", row, field) == (caught.value.file, caught.value.row, caught.value.field)


@pytest.mark.parametrize(
    "text",
    [
        "Only text, with a | pipe.\n",
        "| model | size | t/s |\n|---|---|---|\n| llama | 1 GB | 12 |\n",
        "| config | concurrency | aggregate_tok_s |\n| a | 1 | 5 |\n",
        "| config | concurrency | aggregate_tok_s |\n|---|---|\n| a | 1 | 5 |\n",
    ],
    ids=["no table", "no concurrency", "no dashes", "dashes of another table"],
)
def test_markdown_without_a_sweep_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(SweepError, match="what can be read is"):
        read(text)
    with pytest.raises(SweepError, match="no table in it has a column `concurrency`"):
        read(text, reader="markdown")


def test_long_lines_take_no_time() -> None:
    text = GOOD + "# " + "#" * 300_000 + "x\n" + "|" * 300_000 + "\n" + "-" * 300_000 + "\n" + "*" * 100_000

    assert 3 == len(cells(text))


def test_mutations_of_a_good_file_are_read_or_refused_and_nothing_else() -> None:
    rng, pieces = random.Random(7), ["|", "-", "\n", ":", "#", "\\", "`", "**", "nan", "1e308", "-5", "\x00", "[", "]("]
    outcomes = set()
    for _ in range(1500):
        text = list(GOOD)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 3)] = rng.choice(pieces)
        try:
            read_sweep("".join(text).encode(), "README.md", reader="markdown")
            outcomes.add("read")
        except SweepError:
            outcomes.add("refused")

    assert {"read", "refused"} == outcomes


# --- headings within headings -------------------------------------------------------------------------------------


def nested(outer: tuple[str, str], inner: tuple[str, str], header: str = "c | output tok/s") -> str:
    """Four tables, each under one heading within another, with 1, 2, 3 and 4 tok/s."""
    parts, speed = ["# Results"], 0
    for above in outer:
        parts.append(f"## {above}")
        for below in inner:
            speed += 1
            parts.append(f"### {below}\n| {header} |\n|---|---|\n| 1 | {speed} |\n")
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [(("Baseline", "EAGLE"), ("Code", "Prose")), (("A", "B"), ("Code", "Essays")), (("fp8", "x"), ("one", "two"))],
)
def test_a_heading_that_returns_under_configurations_is_the_content(
    outer: tuple[str, str], inner: tuple[str, str]
) -> None:
    found = [(cell.configuration, cell.content, cell.aggregate) for cell in cells(nested(outer, inner))]

    pairs = [(above, below) for above in outer for below in inner]
    assert [(*pair, speed) for speed, pair in enumerate(pairs, 1)] == found


def test_a_heading_that_returns_under_contents_is_the_configuration() -> None:
    found = [(cell.configuration, cell.content) for cell in cells(nested(("Code", "Prose"), ("Baseline", "EAGLE")))]

    assert [("Baseline", "Code"), ("EAGLE", "Code"), ("Baseline", "Prose"), ("EAGLE", "Prose")] == found


@pytest.mark.parametrize("inner", [("one", "two"), ("Code with eagle", "Prose")])
def test_headings_of_which_nothing_says_what_they_name_are_refused(inner: tuple[str, str]) -> None:
    with pytest.raises(SweepError, match="add a column `config`") as caught:
        read(nested(("Monday", "Tuesday"), inner))

    assert 4 == caught.value.row


def test_a_heading_that_all_tables_have_names_nothing() -> None:
    found = [cell.configuration for cell in cells(nested(("A", "B"), ("Results", "Results")))]

    assert ["A", "A", "B", "B"] == found


def test_tables_at_different_depths_are_refused() -> None:
    table = "| c | output tok/s |\n|---|---|\n| 1 | 100 |\n"
    with pytest.raises(SweepError, match="it cannot be told which"):
        read(f"## plain\n{table}\n## eagle\n### code\n{table}")


def test_what_was_given_goes_before_headings() -> None:
    found = cells(nested(("Monday", "Tuesday"), ("one", "two")), configuration="given")

    assert {"given"} == {cell.configuration for cell in found}
