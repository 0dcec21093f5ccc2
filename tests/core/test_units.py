"""Durations, instants and names as people write them: what is read, and what is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.core.names import escaped, name_fault, quoted, sweep_name_fault
from opmon.core.units import format_duration, format_instant, parse_duration, parse_instant, parse_window
from opmon.errors import InvalidWindow

# Made of what durations and instants are made of, so that more than the first check is reached.
NEARLY = st.text(alphabet="0123456789٣.-+:TZsmhdwe /nf", max_size=500)
ANY_TEXT = st.one_of(st.text(), NEARLY)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("7", 7_000),
        ("0.25", 250),
        (" 90s ", 90_000),
        ("100ms", 100),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
    ],
)
def test_a_duration_is_read_in_every_form_that_is_documented(text: str, milliseconds: int) -> None:
    assert milliseconds == parse_duration(text)


@pytest.mark.parametrize(
    "text", ["9" * 400 + "d", "9" * 400, "1e3s", "٣٠s", "٣٠", "-5s", "", "5 s", "s", "0s", "6000w"]
)
def test_a_text_that_is_no_duration_is_refused_in_a_short_message(text: str) -> None:
    with pytest.raises(InvalidWindow) as caught:
        parse_duration(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1796000000", 1_796_000_000_000),
        ("1796000000.25", 1_796_000_000_250),
        ("2026-11-29T17:00:00Z", 1_795_971_600_000),
        ("2026-11-29T18:00:00+01:00", 1_795_971_600_000),
        ("2026-11-29T17:00:00", 1_795_971_600_000),
        ("2026-11-29", 1_795_910_400_000),
    ],
)
def test_an_instant_without_a_zone_is_utc(text: str, milliseconds: int) -> None:
    assert milliseconds == parse_instant(text)


@pytest.mark.parametrize("text", ["9" * 400, "-1", "yesterday", "١٧٩٦٠٠٠٠٠٠", "0001-01-01", "", "\x00", "2026-13-01"])
def test_a_text_that_is_no_instant_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidWindow):
        parse_instant(text)


@given(ANY_TEXT)
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    try:
        milliseconds = parse_duration(text)
    except InvalidWindow:
        return
    assert 0 < milliseconds <= 100 * 366 * 86_400_000


@given(ANY_TEXT)
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        milliseconds = parse_instant(text)
    except InvalidWindow:
        return
    assert 0 <= milliseconds < 1 << 53


@given(st.integers(1, 100 * 366 * 86_400_000))
def test_a_duration_is_read_back_as_it_was_written(milliseconds: int) -> None:
    assert milliseconds == parse_duration(format_duration(milliseconds))


@given(st.integers(0, 253_402_300_799_999))
def test_an_instant_is_read_back_as_it_was_written(milliseconds: int) -> None:
    assert milliseconds == parse_instant(format_instant(milliseconds))


def test_an_instant_is_shown_as_rfc_3339() -> None:
    assert ("2026-11-29T17:00:00Z", "2026-11-29T17:00:00.250Z", "9007199254740.99") == (
        format_instant(1_795_971_600_000),
        format_instant(1_795_971_600_250),
        format_instant((1 << 53) - 1),
    )


@pytest.mark.parametrize(
    ("window", "start", "end", "words"),
    [
        ("1ms", None, None, "a window of 1ms is too short"),
        ("0.5s", None, None, "a window of 500ms is too short"),
        (None, "1796000000", "1796000000.5", "a window of 500ms is too short"),
        ("1h", "1", "3601", "all three at once"),
    ],
)
def test_a_window_under_a_second_or_given_twice_is_refused(
    window: str | None, start: str | None, end: str | None, words: str
) -> None:
    with pytest.raises(InvalidWindow, match=words):
        parse_window(window, start, end)


def test_a_window_is_its_length_or_its_two_ends() -> None:
    assert (1_000, None, None) == parse_window("1s", None, None)
    assert (None, 1_000, 61_000) == parse_window(None, "1", "61")
    assert (None, None, None) == parse_window(None, None, None)


@pytest.mark.parametrize("name", ["fp8-mtp5", "Ä b", "模型", "a/b", "..", "x" * 200, "emoji 🚀"])
def test_a_name_that_can_be_printed_is_fine(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "at least one"),
        ("x" * 201, "201 characters"),
        (" a", "begins or ends"),
        ("\x1b]0;pwn\x07", r"'\x1b'"),
        ("a\x00b", r"'\x00'"),
        ("a\nb", r"'\n'"),
        ("a\u202eb", r"'\u202e'"),
        ("a\ud800b", r"'\ud800'"),
        ("a\u2028b", r"'\u2028'"),
    ],
)
def test_a_name_that_cannot_be_printed_is_told_with_what_is_wrong(name: str, words: str) -> None:
    fault = name_fault(name)
    assert words in fault
    assert fault.isprintable()


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_sweeps_name_can_stand_in_an_address(name: str) -> None:
    assert "cannot stand in an address" in sweep_name_fault(name)
    assert "" == sweep_name_fault("a b..c")


def test_text_of_others_is_shown_without_anything_that_steers_a_terminal() -> None:
    assert r"a\x1b[2Jb\x00\n\u202e\ud800é模 c" == escaped("a\x1b[2Jb\x00\n\u202e\ud800é模 c")
    assert "a\nb\\t" == escaped("a\nb\t", keep="\n")


@given(st.text())
def test_whatever_is_shown_can_be_written_and_stays_on_its_line(text: str) -> None:
    shown = escaped(text)
    assert not set(shown) & {"\n", "\r", "\x1b", "\x00", "\x9b", "\u2028"}
    assert shown.encode().decode() == shown


def test_a_long_text_is_quoted_by_its_beginning() -> None:
    assert "'" + "9" * 57 + "...'" == quoted("9" * 400)
