"""Server-sent events out of bytes, as they come in: whatever way the network cuts them.

Contains no meaning of the data. Lines end with LF, CRLF or CR; comments and unknown fields are skipped; several `data`
lines are one event. An event that ends without an empty line is given by `close`: servers that stop so are common.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

MOST_CHARACTERS = 4 * 1024 * 1024
BYTE_ORDER_MARK = "\ufeff"


class Event(NamedTuple):
    """`name` is empty where the server gave none."""

    name: str
    data: str


class TooLong(ValueError):
    """An event has no end within MOST_CHARACTERS."""


class EventReader:
    """Feed it bytes, and it gives the events that are whole."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._is_begun = False
        self._after_cr = False
        self._name = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes. Raises TooLong."""
        text = self._decode(piece)
        if text and not self._is_begun:
            self._is_begun = True
            text = text.removeprefix(BYTE_ORDER_MARK)
        if text and self._after_cr:
            # The second half of a CRLF that was cut in two.
            text, self._after_cr = text.removeprefix("\n"), False
        self._after_cr = text.endswith("\r") or (self._after_cr and not text)
        *lines, rest = (self._rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = rest
        events = [event for line in lines if (event := self._line(line)) is not None]
        if self._size + len(self._rest) > MOST_CHARACTERS:
            message = f"an event of the stream is longer than {MOST_CHARACTERS} characters"
            raise TooLong(message)
        return events

    def close(self) -> list[Event]:
        """What was left without an empty line after it."""
        rest, self._rest = self._rest, ""
        events = [self._line(rest)] if rest else []
        events.append(self._line(""))
        return [event for event in events if event is not None]

    def _line(self, line: str) -> Event | None:
        if not line:
            event = Event(self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data, self._size = "", [], 0
            return event
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(value)
        elif name == "event":
            self._name = value
        return None
