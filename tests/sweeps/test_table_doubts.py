"""Hand-made tables that look right and are not: read as they were meant, flagged, or refused with what to write."""

from __future__ import annotations

import pytest

from opmon.core.cells import Cell, SweepImport, has_failures, is_impossible
from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep

HEADER = "config,content,concurrency,aggregate_tok_s"


def read(text: str) -> SweepImport:
    return read_sweep(text.encode(), "made.csv")


def cells(text: str) -> tuple[Cell, ...]:
    return read(text).cells


def refusal(text: str) -> SweepError:
    with pytest.raises(SweepError) as caught:
        read(text)
    return caught.value


# --- a rate beside a limit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["request_rate", "Rate", "QPS", "rps", "req/s target"])
def test_a_finite_rate_beside_a_limit_is_an_open_load_on_no_level(name: str) -> None:
    one = read(f"{HEADER},{name}\nold,code,64,400,2\n")
    (cell,) = one.cells

    assert (None, "unknown", "open") == (cell.concurrency, cell.concurrency_source, cell.load_mode)
    assert {name: "2", "max_concurrency": "64"} == cell.extra
    assert "2 paces the requests, so 64 is their limit" in one.notes[0]


@pytest.mark.parametrize("rate", ["inf", "", "-", "0", "unlimited"])
def test_a_limit_without_a_finite_rate_is_a_level(rate: str) -> None:
    (cell,) = cells(f"{HEADER},request_rate\nold,code,64,400,{rate}\n")

    assert (64, "closed") == (cell.concurrency, cell.load_mode)


def test_the_finite_one_of_two_rates_counts() -> None:
    assert "open" == cells(f"{HEADER},rate,qps\nold,code,64,400,inf,2\n")[0].load_mode


def test_a_row_that_says_it_was_closed_keeps_its_level() -> None:
    (cell,) = cells(f"{HEADER},request_rate,load_mode\nold,code,64,400,2,closed\n")

    assert (64, "closed") == (cell.concurrency, cell.load_mode)


def test_a_rate_that_is_no_number_is_refused_by_its_column() -> None:
    assert (2, "request_rate") == (
        (error := refusal(f"{HEADER},request_rate\nold,code,64,400,fast\n")).row,
        error.field,
    )


# --- numbers that may be two --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["137 194", "1 234 567", "137 194.5", "12 5"])
def test_two_numbers_in_a_field_are_never_one(value: str) -> None:
    error = refusal(f"{HEADER}\nold,code,4,{value}\n")

    assert "may be two numbers" in str(error)
    assert "aggregate_tok_s" == error.field


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2009"])
def test_a_space_that_does_not_break_separates_full_thousands(space: str) -> None:
    assert 137194.0 == cells(f"{HEADER}\nold,code,4,137{space}194\n")[0].aggregate
    assert "aggregate_tok_s" == refusal(f"{HEADER}\nold,code,4,137{space}19\n").field


def test_a_line_break_in_a_field_of_markdown_joins_nothing() -> None:
    table = "| config | c | output tok/s |\n|---|---|---|\n| old | 4 | 137<br>194 |\n"
    error = refusal(table)

    assert (3, "aggregate_tok_s") == (error.row, error.field)


@pytest.mark.parametrize("mark", ["\t", ";"])
def test_three_digits_after_a_comma_are_refused_where_the_table_shows_nothing(mark: str) -> None:
    error = refusal("\n".join([HEADER.replace(",", mark), mark.join(["old", "code", "4", "137,412"])]))

    assert "may be 137.412 or 137412" in str(error)
    assert (2, "aggregate_tok_s") == (error.row, error.field)


@pytest.mark.parametrize(
    ("mark", "other", "expected"),
    [
        (";", "12,5", 137.412),
        (";", "0,412", 137.412),
        (";", "1.074,5", 137.412),
        (";", "12,3456", 137.412),
        (";", "12.5", 137412.0),
        ("\t", "12.5", 137412.0),
        ("\t", "1,234.5", 137412.0),
    ],
)
def test_another_number_of_the_table_shows_what_a_comma_is(mark: str, other: str, expected: float) -> None:
    rows = [HEADER.split(","), ["old", "code", "1", other], ["old", "code", "4", "137,412"]]
    found = cells("\n".join(mark.join(row) for row in rows))

    assert expected == found[1].aggregate


def test_numbers_that_show_both_marks_show_nothing() -> None:
    text = "config;concurrency;aggregate_tok_s\nold;1;12,5\nold;2;12.5\nold;4;137,412\n"

    assert 4 == refusal(text).row


def test_a_point_beside_decimal_commas_is_refused_where_it_may_be_either() -> None:
    error = refusal("config;concurrency;aggregate_tok_s\nold;1;12,5\nold;4;137.412\n")

    assert "may be 137.412 or 137412" in str(error)


def test_a_count_with_a_comma_is_whole() -> None:
    assert 1024 == cells(f'{HEADER},n\nold,code,4,80,"1,024"\n')[0].completed_requests


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("per_stream_tok_s", "137412", "no stream is so fast"),
        ("decode_tok_s", "10001", "no stream is so fast"),
        ("tpot_ms", "0.012", "if it is in seconds, write milliseconds"),
        ("prompt_tokens", "0.2", "if it is in thousands, write tokens"),
        ("output_tokens", "0.999", "if it is in thousands, write tokens"),
    ],
)
def test_a_figure_in_another_unit_is_refused_with_what_to_write(column: str, value: str, words: str) -> None:
    error = refusal(f"{HEADER},{column}\nold,code,4,80,{value}\n")

    assert words in str(error)
    assert (2, column) == (error.row, error.field)


# --- ways of taking a per-stream speed ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["decode only", "Decode-Only", "decode_only", "1/TPOT", "1 / tpot", "ITL", "1/itl"])
def test_a_decode_speed_is_known_however_its_method_is_spelled(text: str) -> None:
    (cell,) = cells(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,1,95,100,{text}\n")

    assert (None, 100) == (cell.per_stream, cell.decode)


@pytest.mark.parametrize("text", ["agg/conc", "Aggregate / Concurrency", "agg over conc", "aggregate-over-concurrency"])
def test_aggregate_over_concurrency_is_left_out_however_it_is_spelled(text: str) -> None:
    (cell,) = cells(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,4,80,20,{text}\n")

    assert (None, "agg_over_conc") == (cell.per_stream, cell.per_stream_method)


def test_a_mean_over_requests_is_end_to_end_and_said() -> None:
    one = read(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,1,95,100,Mean\n")

    assert (100, "mean") == (one.cells[0].per_stream, one.cells[0].per_stream_method)
    assert ("row 2: the per-stream speed is a mean over requests and no median",) == one.notes


def test_a_method_that_is_not_known_is_refused_with_those_that_are() -> None:
    error = refusal(f"{HEADER},per_stream_tok_s,per_stream_method\nold,code,1,95,100,by feel\n")

    assert (2, "per_stream_method") == (error.row, error.field)
    assert "write one of e2e_median, mean," in str(error)


# --- sessions, failures, names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "session"), [("1", None), ("run 2", None), ("Run3", None), ("monday", "monday")])
def test_a_run_that_is_a_small_number_is_a_repeat_and_no_session(value: str, session: str | None) -> None:
    (cell,) = cells(f"{HEADER},run\nold,code,1,95,{value}\n")

    assert (session, {} if session else {"run": value}) == (cell.session, cell.extra)


def test_a_session_that_is_called_so_stays_one() -> None:
    assert "1" == cells(f"{HEADER},session\nold,code,1,95,1\n")[0].session


@pytest.mark.parametrize(
    ("name", "value", "n", "failed", "has_failed"),
    [
        ("Error rate", "20%", "", None, True),
        ("Error rate", "20%", "50", 10, True),
        ("failure rate", "0.2", "50", 10, True),
        ("failed %", "20", "50", 10, True),
        ("failure rate", "0", "50", 0, False),
        ("failure rate", "0.001", "50", 1, True),
        ("success rate", "0.98", "50", 1, True),
        ("success %", "100", "50", 0, False),
        ("Success Rate", "98%", "", None, True),
        ("error rate", "", "50", None, False),
    ],
)
def test_a_share_of_failures_is_a_number_of_failures(
    name: str, value: str, n: str, failed: int | None, has_failed: bool
) -> None:
    (cell,) = cells(f"{HEADER},n,{name}\nold,code,1,95,{n},{value}\n")

    assert (failed, has_failed) == (cell.failed_requests, has_failures(cell))


def test_a_share_of_more_than_all_is_refused() -> None:
    assert "failure_rate" == refusal(f"{HEADER},error rate\nold,code,1,95,120%\n").field


def test_names_that_differ_in_case_or_white_space_are_one() -> None:
    one = read(f"{HEADER}\nold cfg,Code,1,95\nOld  Cfg,code,4,300\n")

    assert [("old cfg", "Code")] * 2 == [(cell.configuration, cell.content) for cell in one.cells]
    assert (
        "the configuration 'Old  Cfg' is taken for 'old cfg'",
        "the content 'code' is taken for 'Code'",
    ) == one.notes


# --- figures that cannot all be right -----------------------------------------------------------------------------


def test_all_streams_together_slower_than_one_carry_no_verdict() -> None:
    one = read(f"{HEADER},per_stream_tok_s\nold,code,1,100,\nold,code,4,60,\nold,code,16,90,\nnew,code,1,100,\n")

    assert [True, True, True, False] == [is_impossible(cell) for cell in one.cells]
    assert "aggregate 60 at concurrency 4 is less than 100 at 1" in one.notes[0]


@pytest.mark.parametrize("aggregate", [90, 91, 400])
def test_an_aggregate_that_does_not_fall_is_evidence(aggregate: int) -> None:
    assert not any(map(is_impossible, cells(f"{HEADER}\nold,code,1,100\nold,code,4,{aggregate}\n")))


def test_an_aggregate_that_falls_with_its_per_stream_speed_is_evidence() -> None:
    found = cells(f"{HEADER},per_stream_tok_s\nold,code,1,100,100\nold,code,4,60,15\n")

    assert not any(map(is_impossible, found))


@pytest.mark.parametrize(("seconds", "expected"), [("10", True), ("2", False), ("1.7", False), ("2.6", True)])
def test_a_per_stream_speed_that_the_elapsed_time_denies_carries_no_verdict(seconds: str, expected: bool) -> None:
    one = read(f"{HEADER},per_stream_tok_s,output_tokens,e2e (s)\nold,code,1,100,100,200,{seconds}\n")

    assert expected == is_impossible(one.cells[0])
    assert expected == bool(one.notes)


def test_quotients_among_speeds_carry_no_verdict() -> None:
    one = read(f"{HEADER}\nold,code,1,100\nold,code,4,320\nnew,code,1,1.50\nnew,code,4,1.5\n")

    assert [False, False, True, True] == [is_impossible(cell) for cell in one.cells]
    assert "aggregate of 'new' is 1.5 to 1.5: are those quotients?" in one.notes[0]


def test_slow_speeds_among_slow_speeds_are_no_quotients() -> None:
    assert not any(map(is_impossible, cells(f"{HEADER}\nold,code,1,15\nnew,code,1,1.5\n")))
