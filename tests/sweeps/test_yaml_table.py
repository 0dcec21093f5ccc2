"""Hand-made sweeps in YAML: layers, limits, and faults by line and key."""

from __future__ import annotations

import random

import pytest

from opmon.core.cells import Cell, SweepImport
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep

GOOD = """\
# rounded from my notes
version: 1
defaults: {content: random, prompt_tokens: 131, output_tokens: 256, date: 2026-11-29, load: closed}
configs:
  plain: {role: old, model: tiny, engine: vllm 0.32.0, hardware: cpu}
  spec4: {role: new, model: tiny, engine: vllm 0.32.0, hardware: cpu, speculative: {method: draft, num_tokens: 4}}
cells:
  - {config: spec4, concurrency: 1, aggregate_tok_s: 467.3, per_stream_tok_s: 502.2, n: 40, failed: 0}
  - config: plain
    concurrency: 32
    aggregate_tok_s: "6,433.3"
    per_stream_tok_s: 208.4
    content: code
    prompt_tokens: null
"""


def read(text: str, **said: str) -> SweepImport:
    return read_sweep(text.encode(), "made.yaml", **said)


def cells(text: str, **said: str) -> tuple[Cell, ...]:
    return read(text, **said).cells


def test_defaults_and_the_configurations_own_stand_under_every_cell() -> None:
    one = read(GOOD)
    plain, spec = one.cells

    assert ("yaml", ()) == (one.reader, one.notes)
    assert ("spec4", 1, 467.3, 502.2, 40, 0, "random", 131, 1795910400.0, "closed") == (
        spec.configuration,
        spec.concurrency,
        spec.aggregate,
        spec.per_stream,
        spec.completed_requests,
        spec.failed_requests,
        spec.content,
        spec.prompt_tokens,
        spec.measured_at,
        spec.load_mode,
    )
    assert ("tiny", "cpu", "draft") == (spec.model, spec.hardware, spec.extra["speculative.method"])
    assert ("plain", 6433.3, "code", None, 256) == (
        plain.configuration,
        plain.aggregate,
        plain.content,
        plain.prompt_tokens,
        plain.output_tokens,
    )
    assert GOOD.encode() == one.original


def test_the_configuration_that_is_called_old_is_the_first_one_and_lines_stay_those_of_the_file() -> None:
    assert [("plain", 9), ("spec4", 8)] == [(cell.configuration, cell.source_row) for cell in cells(GOOD)]


def test_a_bare_list_of_cells_is_a_sweep() -> None:
    (cell,) = cells("- config: a\n  conc: 4\n  aggregate: 70\n")

    assert ("a", 4, 70, "") == (cell.configuration, cell.concurrency, cell.aggregate, cell.content)


def test_what_is_said_beside_the_file_stands_in_and_what_the_file_says_stays() -> None:
    text = "cells:\n- {concurrency: 1, aggregate_tok_s: 5}\n- {config: mine, concurrency: 1, aggregate_tok_s: 6}\n"

    assert [("given", "code"), ("mine", "code")] == [
        (cell.configuration, cell.content) for cell in cells(text, configuration="given", content="code")
    ]


def test_infinite_load_is_unlimited_and_no_concurrency() -> None:
    (cell,) = cells("cells: [{config: a, concurrency: .inf, aggregate_tok_s: 5}]")

    assert (None, "unlimited") == (cell.concurrency, cell.concurrency_source)


def test_a_request_rate_alone_is_an_open_load_without_a_level() -> None:
    (cell,) = cells("cells: [{config: a, request_rate: 5, aggregate_tok_s: 5}]")

    assert (None, "unknown", "open", "5") == (
        cell.concurrency,
        cell.concurrency_source,
        cell.load_mode,
        cell.extra["request_rate"],
    )


def test_anchors_and_merges_are_read() -> None:
    text = (
        "base: &base {config: a, content: code}\n"
        "cells:\n- {<<: *base, concurrency: 1, aggregate_tok_s: 5}\n- {<<: *base, content: prose, concurrency: 2, aggregate_tok_s: 9}\n"
    )
    one = read(text)

    assert [("a", "code"), ("a", "prose")] == [(cell.configuration, cell.content) for cell in one.cells]
    assert ("keys that are not used: base",) == one.notes


@pytest.mark.parametrize(
    ("old", "new", "row", "field", "words"),
    [
        ("concurrency: 1,", "concurrency: one,", 8, "concurrency", "'one' is not a number"),
        ("467.3", "467,3", 8, "3", "decimal comma"),
        ("467.3", "[1, 2]", 8, "aggregate_tok_s", "single value"),
        ("467.3", "{a: 1}", 8, "aggregate_tok_s", "single value"),
        ("467.3", "-4", 8, "aggregate_tok_s", "0 or more"),
        ("467.3", "1e300", 8, "aggregate_tok_s", "more than can be"),
        ("config: spec4", "config: spec5", 8, "config", "no 'spec5' among configs"),
        ("concurrency: 1,", "concurrency: 1, c: 2,", 8, "c", "two keys mean concurrency"),
        ("aggregate_tok_s: 467.3", "throughput: 467.3", 8, "throughput", "what does this column hold"),
        ("version: 1", "version: 2", 2, "version", "not known"),
        ("date: 2026-11-29", "date: yesterday", 8, "date", "no date"),
        ("  - config: plain", "  - plain\n  - config: plain", 9, "cells", "must be a mapping"),
        ("configs:", "configs: 7\nothers:", 4, "configs", "must be a mapping"),
    ],
)
def test_a_fault_names_file_line_and_key(old: str, new: str, row: int, field: str, words: str) -> None:
    with pytest.raises(SweepError) as caught:
        read(GOOD.replace(old, new, 1))

    assert ("made.yaml", row, field) == (caught.value.file, caught.value.row, caught.value.field)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("plain: {", "plain: {{"), "line"),
        (GOOD.replace("n: 40", "n: 40, n: 41"), "'n' is given twice (line 8)"),
        (GOOD + "---\n" + GOOD, "2 YAML documents"),
        (GOOD + "more: &a [*a]\n", "one within itself"),
        (GOOD + "more: *b\n", "nothing is called &b"),
        (GOOD + "more: " + "[" * 100 + "]" * 100, "nested too deeply"),
        (GOOD + "more: " + "[" * 50_000, "nest"),
        (GOOD + "more: !!python/object/apply:os.system [ls]\ncells2: {<<: 3}", "must refer to a mapping"),
        (GOOD + 'more: "\x07"\n', "line 15"),
        ("cells: []\nconcurrency: 1\naggregate_tok_s: 4", "must be a list"),
        ("cells: [{concurrency: 1, aggregate_tok_s: 5}]", "no column `config`"),
        (
            "cells: [{config: a, concurrency: 1, aggregate_tok_s: 5}, {config: ~, concurrency: 1}]",
            "which configuration",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(SweepError) as caught:
        read(text)

    assert words in str(caught.value)


def test_aliases_cannot_make_a_small_file_endless() -> None:
    lines = ["a0: &a0 {x: 1}"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    text = "\n".join(lines) + "\ncells:\n- {config: a, concurrency: 1, aggregate_tok_s: 5, note: *a11}\n"

    assert 1 == len(cells(text))


def test_a_tag_constructs_nothing(tmp_path: object) -> None:
    (cell,) = cells("cells:\n- {config: a, concurrency: 1, aggregate_tok_s: 5, note: !!python/name:os.system x}\n")

    assert "x" == cell.extra["note"]
    del tmp_path


def test_columns_that_cannot_both_be_right_are_flagged_and_told() -> None:
    one = read("cells: [{config: a, concurrency: 8, aggregate_tok_s: 400, per_stream_tok_s: 10}]")

    assert ("inconsistent_table",) == one.cells[0].flags
    assert "so many streams would make 80" in one.notes[0]


def test_mutations_of_a_good_file_are_read_or_refused_and_nothing_else() -> None:
    rng, pieces = random.Random(7), ["{", "}", "[", "]", ":", "-", "&a", "*a", "null", ".nan", "1e308", "\n", "\t", '"']
    outcomes = set()
    for _ in range(1500):
        text = list(GOOD)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 3)] = rng.choice(pieces)
        try:
            read_sweep("".join(text).encode(), "made.yaml", reader="yaml")
            outcomes.add("read")
        except SweepError:
            outcomes.add("refused")

    assert {"read", "refused"} == outcomes
