from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.cells import Cell, is_impossible
from opmon.errors import SweepError
from opmon.sweeps.columns import COLUMNS, refuse_beyond
from opmon.sweeps.detect import LARGEST_BYTES, example_sweep_bytes, read_sweep
from opmon.sweeps.numbers import Unreadable, read_number

HEADER = "config,content,concurrency,aggregate_tok_s"


def read(text: str, **said: str) -> tuple[Cell, ...]:
    return read_sweep(text.encode(), "made.csv", **said).cells


def test_the_example_sweep_is_read_with_what_was_not_measured_missing() -> None:
    one = read_sweep(example_sweep_bytes(), "example-drafters.csv")
    first, second = one.cells[:2]

    assert (16, "table") == (len(one.cells), one.reader)
    assert ("fp8-mtp5", "code", 1, 33, 122.6, 137.4, None) == (
        first.configuration,
        first.content,
        first.concurrency,
        first.prompt_tokens,
        first.aggregate,
        first.per_stream,
        first.ttft_p95,
    )
    assert (None, 2.472, None, None) == (
        second.per_stream,
        second.ttft_p95,
        second.output_tokens,
        second.failed_requests,
    )
    assert 2 == first.source_row


def test_the_hash_is_of_the_file() -> None:
    one = read_sweep(example_sweep_bytes(), "a.csv")
    other = read_sweep(example_sweep_bytes() + b"\n", "a.csv")

    assert 64 == len(one.sha256)
    assert one.sha256 != other.sha256
    assert example_sweep_bytes() == one.original


def test_a_hand_made_table_with_comments_and_thousands_is_read(tmp_path: Path) -> None:
    del tmp_path
    text = (
        "# rounded from my notes\n"
        "concurrency,content,prompt_tokens,output_tokens,config,aggregate_tok_s,per_stream_tok_s,"
        "per_stream_method,ttft_p95_ms,n,failed,date,note\n"
        '32,random,131,256,spec4,"9,212.1",314.4,e2e_median,,640,0,2026-11-29,on purpose\n'
    )
    (cell,) = read(text)

    assert (9212.1, 314.4, "e2e_median", 640, 0) == (
        cell.aggregate,
        cell.per_stream,
        cell.per_stream_method,
        cell.completed_requests,
        cell.failed_requests,
    )
    assert 1795910400.0 == cell.measured_at
    assert {"note": "on purpose"} == cell.extra
    assert 3 == cell.source_row


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("prefix", ["", "\ufeff", "# a comment\n", "\n\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_separators_marks_and_line_ends_do_not_matter(separator: str, prefix: str, end: str) -> None:
    lines = [HEADER.replace(",", separator), separator.join(["old", "code", "4", "74.1"])]

    (cell,) = read(prefix + end.join(lines) + end)

    assert ("old", "code", 4, 74.1) == (cell.configuration, cell.content, cell.concurrency, cell.aggregate)


def test_a_utf_16_file_from_a_spreadsheet_is_read() -> None:
    assert 1 == len(read_sweep(f"{HEADER}\nold,code,1,5\n".encode("utf-16"), "made.csv").cells)


def test_decimal_commas_are_read_where_columns_are_separated_by_semicolons() -> None:
    cells = read("config;content;concurrency;aggregate_tok_s\nold;code;1;74,1\nnew;code;1;1.074,5\nnew;code;8;12\n")

    assert [74.1, 1074.5, 12.0] == [cell.aggregate for cell in cells]


def test_a_point_stays_a_point_in_a_semicolon_table_without_decimal_commas() -> None:
    (cell,) = read("config;content;concurrency;aggregate_tok_s\nold;code;1;1.234\n")

    assert 1.234 == cell.aggregate


@pytest.mark.parametrize("value", ["74,1", "1,23,4", "fast", "-5", "inf", "1_000", "0x10"])
def test_a_value_that_is_no_number_is_refused_by_file_row_and_column(value: str) -> None:
    with pytest.raises(SweepError) as caught:
        read(f'{HEADER}\nold,code,1,5\n\nold,code,4,"{value}"\n')

    assert ("made.csv", 4, "aggregate_tok_s") == (caught.value.file, caught.value.row, caught.value.field)


@pytest.mark.parametrize("word", ["", "-", "n/a", "NaN", "null", "?"])
def test_words_for_not_measured_are_missing_and_never_zero(word: str) -> None:
    (cell,) = read(f"{HEADER},per_stream_tok_s\nold,code,1,5,{word}\n")

    assert cell.per_stream is None


def test_a_speed_of_zero_is_not_measured_and_said() -> None:
    one = read_sweep(f"{HEADER},per_stream_tok_s\nold,code,1,5,0\n".encode(), "made.csv")

    assert one.cells[0].per_stream is None
    assert "per_stream is 0" in one.notes[0]


def test_unlimited_load_is_no_concurrency() -> None:
    (cell,) = read(f"{HEADER}\nold,code,inf,5\n")

    assert (None, "unlimited") == (cell.concurrency, cell.concurrency_source)


@pytest.mark.parametrize(
    ("header", "field"),
    [
        ("label,dataset,max_concurrency,output_throughput", "aggregate"),
        ("Configuration,Workload,Conc,Aggregate tok/s", "aggregate"),
        ("CONFIG,CONTENT,C,per-stream tok/s", "per_stream"),
        ("config,content,streams,decode_tok_s", "decode"),
    ],
)
def test_other_names_of_the_columns_are_known(header: str, field: str) -> None:
    (cell,) = read(f"{header}\nold,code,4,74.1\n")

    assert ("old", "code", 4, 74.1) == (cell.configuration, cell.content, cell.concurrency, getattr(cell, field))


@pytest.mark.parametrize("name", ["throughput", "TPS", "tok/s", "tok/s/user"])
def test_a_column_that_may_mean_several_things_is_asked_about(name: str) -> None:
    with pytest.raises(SweepError, match="what does this column hold") as caught:
        read(f"config,content,concurrency,aggregate_tok_s,{name}\nold,code,1,5,5\n")

    assert name == caught.value.field


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        (HEADER, "no rows"),
        ("config,content,aggregate_tok_s\nold,code,5\n", "concurrency"),
        ("config,content,concurrency\nold,code,5\n", "no speed"),
        ("content,concurrency,aggregate_tok_s\ncode,1,5\n", "config"),
        (f"{HEADER}\n,code,1,5\n", "which configuration"),
        (f"{HEADER}\nold,code,0,5\n", "concurrency of 0"),
        (f"{HEADER}\nold,code,1,5,6\n", "5 fields"),
        (f"{HEADER},aggregate\nold,code,1,5,6\n", "two columns"),
        ('{"max_concurrency": 4}', "JSON"),
        ("<html><body>hi</body></html>", "web page"),
        ("once upon a time\n", "no table"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(text: str, words: str) -> None:
    with pytest.raises(SweepError, match=words):
        read(text)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(SweepError, match="no UTF-8"):
        read_sweep(b"\x00\xff\xfe\x81" * 10, "made.bin")


def test_a_reader_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SweepError, match="no reader"):
        read_sweep(b"x", "made.csv", reader="abacus")


def test_what_the_file_does_not_say_may_be_said_beside_it() -> None:
    (cell,) = read("concurrency,aggregate_tok_s\n4,74.1\n", configuration="old", content="code")

    assert ("old", "code") == (cell.configuration, cell.content)


def test_a_decode_only_per_stream_column_becomes_decode_speed() -> None:
    (cell,) = read(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,1,5,80,decode_only\n")

    assert (None, 80.0) == (cell.per_stream, cell.decode)


def test_aggregate_over_concurrency_is_left_out() -> None:
    one = read_sweep(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,4,80,20,agg_over_conc\n".encode(), "a.csv")

    assert one.cells[0].per_stream is None
    assert "not a per-stream speed" in one.notes[0]


def test_failed_requests_are_flagged() -> None:
    cells = read(f"{HEADER},failed\nold,code,1,5,0\nold,code,4,5,12\nold,code,8,5,\n")

    assert [(0, ()), (12, ("failed_requests",)), (None, ())] == [(cell.failed_requests, cell.flags) for cell in cells]


def test_repeats_of_a_row_are_all_kept() -> None:
    assert 2 == len(read(f"{HEADER}\nold,code,1,5\nold,code,1,5\n"))


def outcome(data: bytes, reader: str = "auto") -> tuple[str, tuple[Cell, ...]]:
    """The words of the refusal, or the cells."""
    try:
        return "", read_sweep(data, "any", reader=reader).cells
    except SweepError as error:
        return str(error), ()


def told(data: bytes) -> str:
    """The words of the refusal, or the names of the configurations that were read."""
    words, cells = outcome(data)
    return words or " ".join(cell.configuration for cell in cells)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_words(data: bytes) -> None:
    assert told(data)


@given(st.lists(st.lists(st.text(max_size=8), max_size=6), max_size=6))
def test_any_rows_below_a_header_are_read_or_refused_in_words(rows: list[list[str]]) -> None:
    body = "\n".join(",".join(row) for row in rows)

    assert told(f"{HEADER},per_stream_tok_s\n{body}\n".encode("utf-8", "surrogatepass"))


@given(st.floats(0, 1e9))
def test_a_number_is_read_as_it_was_written(value: float) -> None:
    assert value == read_number(repr(value))


@pytest.mark.parametrize("text", ["1,2", "", "one", "--1", "1e999", "nan"])
def test_a_number_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        read_number(text)


def test_a_table_of_single_requests_is_refused_in_words() -> None:
    rows = "".join(f"a,code,{1 + number % 8},100.0\n" for number in range(10_001))
    with pytest.raises(SweepError, match="at most 10000"):
        read_sweep(f"config,content,concurrency,aggregate_tok_s\n{rows}".encode(), "requests.csv")


def test_a_quote_that_is_never_closed_is_refused_by_its_row() -> None:
    with pytest.raises(SweepError, match="never closed") as caught:
        read(f'{HEADER}\nold,code,1,5\n"new,code,1,5\nnew,code,4,5\nnew,code,8,5\n')

    assert 3 == caught.value.row


def test_a_field_longer_than_a_reader_takes_is_refused_by_its_row() -> None:
    with pytest.raises(SweepError) as caught:
        read(f"{HEADER}\nold,code,1,5\n{'x' * 131_073},code,4,5\n")

    assert ("made.csv", 3) == (caught.value.file, caught.value.row)


@pytest.mark.parametrize("row", ["old,code,1", "old,code,1,5,6"])
def test_a_row_that_is_shorter_or_longer_than_the_header_is_refused(row: str) -> None:
    with pytest.raises(SweepError, match="and the header 4") as caught:
        read(f"{HEADER}\nold,code,1,5\n{row}\n")

    assert 3 == caught.value.row


def test_a_line_break_within_quotes_belongs_to_the_field_and_the_row_begins_where_it_begins() -> None:
    cells = read(f'{HEADER},note\nold,code,1,5,"two\nlines"\nold,code,4,6,\n')

    assert [(2, {"note": r"two\nlines"}), (4, {})] == [(cell.source_row, cell.extra) for cell in cells]


@pytest.mark.parametrize(
    ("column", "most"),
    [
        ("aggregate_tok_s", 1e9),
        ("per_stream_tok_s", 1e4),
        ("decode_tok_s", 1e4),
        ("prompt_tokens", 1e9),
        ("output_tokens", 1e9),
        ("ttft_ms", 1e9),
        ("tpot_ms", 1e9),
        ("n", 1e9),
    ],
)
def test_a_number_above_what_can_be_is_refused(column: str, most: float) -> None:
    speed = "decode_tok_s" if column == "aggregate_tok_s" else "aggregate_tok_s"
    assert 1 == len(read(f"config,concurrency,{speed},{column}\nold,1,5,{most:.0f}\n"))
    with pytest.raises(SweepError, match=f"at most {most:g}".replace("+", r"\+")) as caught:
        read(f"config,concurrency,{speed},{column}\nold,1,5,1e300\n")

    assert (2, column) == (caught.value.row, caught.value.field)


def test_a_concurrency_above_a_million_is_refused() -> None:
    assert 1e6 == read(f"{HEADER}\nold,code,1000000,5\n")[0].concurrency
    with pytest.raises(SweepError, match="at most 1e\\+06"):
        read(f"{HEADER}\nold,code,1000001,5\n")


def test_a_speed_that_is_not_a_number_is_missing_and_said() -> None:
    one = read_sweep(f"{HEADER}\nold,code,1,NaN\n".encode(), "made.csv")

    assert one.cells[0].aggregate is None
    assert ("row 2: aggregate_tok_s is nan, taken as not measured",) == one.notes


def test_a_missing_concurrency_is_unknown_and_said() -> None:
    one = read_sweep(f"{HEADER}\nold,code,,5\n".encode(), "made.csv")

    assert (None, "unknown") == (one.cells[0].concurrency, one.cells[0].concurrency_source)
    assert "row 2: the concurrency is not known" in one.notes[0]


@pytest.mark.parametrize("column", ["config", "content", "session", "tool", "model", "hardware"])
@pytest.mark.parametrize("name", ["\x1b]0;pwn\x07", "a\x00b", '"a\nb"', "a\x1cb", "a\u202eb", "x" * 201])
def test_a_name_that_cannot_be_printed_is_refused_by_row_and_column(column: str, name: str) -> None:
    names = {"config": "old", "content": "code", "session": "s", "tool": "t", "model": "m", "hardware": "h"}
    values = {**names, column: name}
    with pytest.raises(SweepError) as caught:
        read(f"{','.join(values)},concurrency,aggregate_tok_s\n{','.join(values.values())},1,5\n")

    assert (2, column) == (caught.value.row, caught.value.field)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("said", [{"configuration": "a\nb"}, {"content": "\x1b[2J"}, {"configuration": "  "}])
def test_a_name_that_is_said_beside_the_file_follows_the_same_rule(said: dict[str, str]) -> None:
    with pytest.raises(SweepError, match="given beside the file"):
        read(f"{HEADER}\nold,code,1,5\n", **said)


def test_what_a_column_of_ones_own_holds_is_kept_without_what_steers_a_terminal() -> None:
    (cell,) = read(f"{HEADER},my\x1b[1mnote\nold,code,1,5,bell\x07\n")

    assert {r"my\x1b[1mnote": r"bell\x07"} == cell.extra


@given(
    st.lists(
        st.lists(
            st.sampled_from(["", '"', "1e300", "nan", "inf", "4", "٤", "\x00", "\r", "old", "# x", "9" * 400]),
            max_size=8,
        ),
        max_size=6,
    ),
    st.sampled_from(["auto", "table"]),
    st.sampled_from([",", ";", "\t"]),
)
def test_any_table_of_awkward_values_is_read_or_refused_in_words(
    rows: list[list[str]], reader: str, separator: str
) -> None:
    header = ["config", "concurrency", "aggregate_tok_s", "ttft_ms", "date", "streaming"]
    text = "\n".join(separator.join(row) for row in [header, *rows])
    words, cells = outcome(text.encode(), reader)
    assert bool(words) != bool(cells)
    assert words.isprintable()
    assert all(cell.configuration.isprintable() and 0 < len(cell.configuration) <= 200 for cell in cells)


@given(st.text())
def test_any_text_that_is_called_a_table_is_read_or_refused_in_words(text: str) -> None:
    words, cells = outcome(text.encode("utf-8", "replace"), "table")
    assert bool(words) != bool(cells)


@given(st.text())
def test_any_text_in_any_column_is_read_or_refused(text: str) -> None:
    for column in COLUMNS.values():
        try:
            value = column.read(text)
            refuse_beyond(text, value, column)
        except Unreadable:
            continue
        assert isinstance(value, str | float | int)


def test_a_file_above_the_one_limit_is_refused() -> None:
    with pytest.raises(SweepError, match="larger than the 33,554,432 bytes"):
        read_sweep(b"x" * (LARGEST_BYTES + 1), "made.csv")


# --- columns that cannot both be right ----------------------------------------------------------------------------

BOTH = f"{HEADER},per_stream_tok_s"


@pytest.mark.parametrize(
    ("concurrency", "aggregate", "per_stream", "flags", "told"),
    [
        (1, 388.4, 433.6, (), ""),
        (32, 6433.3, 208.4, (), ""),
        (1, 80, 100, (), "at 1 they are the same but for the pauses"),
        (1, 120, 100, (), "at 1 they are the same but for the pauses"),
        (8, 1000, 100, (), ""),
        (8, 1001, 100, ("inconsistent_table",), "so many streams would make 800"),
        (8, 400, 100, (), ""),
        (8, 399, 100, ("inconsistent_table",), "so many streams would make 800"),
        (4, 70, 100, ("inconsistent_table",), "so many streams would make 400"),
        (1.5, 76, 100, (), "all streams together are slower than one of them"),
    ],
)
def test_an_aggregate_that_so_many_streams_cannot_make_is_kept_without_a_verdict(
    concurrency: float, aggregate: float, per_stream: float, flags: tuple[str, ...], told: str
) -> None:
    one = read_sweep(f"{BOTH}\nold,code,{concurrency},{aggregate},{per_stream}\n".encode(), "made.csv")

    assert flags == one.cells[0].flags
    assert bool(told) == bool(one.notes)
    assert told in " ".join(one.notes)
    assert bool(flags) == is_impossible(one.cells[0])


def test_a_decode_only_column_says_nothing_about_the_aggregate() -> None:
    one = read_sweep(f"{BOTH},per_stream_method\nold,code,32,100,100,decode_only\n".encode(), "made.csv")

    assert () == one.cells[0].flags


def test_a_table_with_a_request_rate_and_no_concurrency_is_kept_and_placed_nowhere() -> None:
    one = read_sweep(b"config,request_rate,aggregate_tok_s\nold,5,100\n", "made.csv")

    assert (None, "open", "5") == (
        one.cells[0].concurrency,
        one.cells[0].load_mode,
        one.cells[0].extra["request_rate"],
    )
    assert "compared with no other" in one.notes[0]


@pytest.mark.parametrize("name", ["t/s", "tokens/s", "Throughput (tok/s)"])
def test_a_unit_alone_says_not_whose_speed_it_is(name: str) -> None:
    with pytest.raises(SweepError, match="what does this column hold"):
        read(f"{HEADER},{name}\nold,code,1,5,5\n")
