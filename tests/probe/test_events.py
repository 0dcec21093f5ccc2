"""Server-sent events come out the same whatever way the network cut them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.probe import events
from opmon.probe.events import Event, EventReader, TooLong


def read(*pieces: bytes) -> list[tuple[str, str]]:
    """All events of these pieces, the unfinished one too."""
    reader = EventReader()
    found = [event for piece in pieces for event in reader.feed(piece)]
    return [(event.name, event.data) for event in (*found, *reader.close())]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b": ping\n\ndata: a\n: within\n\n", [("", "a")]),
        (b"data:a\ndata:  b\n\n", [("", "a\n b")]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [("error", "x"), ("", "y")]),
        (b"id: 7\nretry: 10\nnonsense\ndata: a\n\n", [("", "a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"\n\n\r\n", []),
        (b"data: a", [("", "a")]),
        (b"data: a\n", [("", "a")]),
        (b"event: ping\n\ndata\n\n", [("", "")]),
        ("data: é€😀\n\n".encode(), [("", "é€😀")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
    ],
)
def test_a_stream_is_read_alike_in_one_piece_and_byte_by_byte(stream: bytes, expected: list[tuple[str, str]]) -> None:
    assert expected == read(stream)
    assert expected == read(*(stream[n : n + 1] for n in range(len(stream))))


@given(
    st.lists(st.sampled_from([b"data: a", b"data:\xc3\xa9", b": c", b"event: e", b"", b"x", b"data"]), max_size=12),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_no_cut_of_a_stream_changes_its_events(lines: list[bytes], end: bytes, cuts: list[int]) -> None:
    stream = b"".join(line + end for line in lines)
    places = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    assert read(stream) == read(*(stream[a:b] for a, b in pairwise(places)))


def test_an_event_is_given_as_soon_as_it_is_whole() -> None:
    reader = EventReader()
    assert [] == reader.feed(b"data: a\r\n")
    assert [Event("", "a")] == reader.feed(b"\r")
    assert [] == reader.feed(b"\n")
    assert [Event("", "b")] == reader.feed(b"data: b\n\n")


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_CHARACTERS", 100)
    with pytest.raises(TooLong, match="longer than 100 characters"):
        EventReader().feed(20 * b"data: 0123456789\n")
    with pytest.raises(TooLong):
        EventReader().feed(b"x" * 101)
