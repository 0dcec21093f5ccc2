"""JSON that is too large for one text, read piece by piece; memory holds what is kept of it, never the file.

Contains the lenient tokens that tools write (NaN, Infinity) and no knowledge of any tool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ijson

from opmon.errors import SweepError

_NOT_FINITE = re.compile(rb"(?<=[\[,:\s])(?:-?Infinity|NaN)(?=[\s,\]}])")
_BEFORE_TOKENS = (b"[", b",", b":", b" ", b"\n", b"\r", b"\t")
_LONGEST_TOKEN = 16


def streamed(
    pieces: Iterable[bytes], dropped: frozenset[str], summed: Mapping[str, str], file_name: str
) -> Iterator[Any]:
    """The values of a stream of JSON. Texts and lists below the keys `dropped` are read over; what is not finite is None.
    A list of lists of numbers below a key of `summed` becomes a list of their sums, below the name that it gives.

    Raises SweepError for what is no JSON.
    """
    try:
        yield from _values(pieces, dropped, summed)
    except (ijson.JSONError, UnicodeDecodeError) as error:
        raise SweepError(f"this is no JSON: {str(error)[:200]}", file=file_name) from error


def gap_sum(gaps: Sequence[Any]) -> float | None:
    """The sum of a request's gaps in their unit; None where one of them is no finite number."""
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in gaps):
        return None
    try:
        total = math.fsum(gaps)
    except (OverflowError, ValueError):
        return None
    return total if math.isfinite(total) else None


def _values(pieces: Iterable[bytes], dropped: frozenset[str], summed: Mapping[str, str]) -> Iterator[Any]:
    builder, depth, skipping, key_is_dropped = ijson.ObjectBuilder(), 0, 0, False
    for event, value in _summing(ijson.basic_parse(_Finite(pieces), use_float=True, multiple_values=True), summed):
        begins, ends = event in ("start_map", "start_array"), event in ("end_map", "end_array")
        if skipping:
            skipping += begins - ends
            continue
        if key_is_dropped:
            key_is_dropped = False
            if begins or event == "string":
                skipping = int(begins)
                builder.event("null", None)
                continue
        builder.event(event, value)
        key_is_dropped = event == "map_key" and value in dropped
        depth += begins - ends
        if depth == 0 and event != "map_key":
            yield builder.value
            builder = ijson.ObjectBuilder()


def _summing(events: Iterator[tuple[str, Any]], summed: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The events, with a list of lists below a key of `summed` as a list of the inner ones' sums."""
    for event, value in events:
        if event != "map_key" or value not in summed:
            yield event, value
            continue
        after = next(events, None)
        if after is None or after[0] != "start_array":
            yield event, value
            if after is not None:
                yield after
            continue
        yield event, summed[value]
        yield after
        yield from _sums(events)


def _sums(events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """What follows the start of a list, to its end: one number for each of its values, null where that is no list of
    numbers."""
    depth, gaps = 1, list[Any]()
    for event, value in events:
        begins, ends = event in ("start_map", "start_array"), event in ("end_map", "end_array")
        depth += begins - ends
        if depth == 0:
            yield event, value
            return
        if depth == 1:
            total = gap_sum(gaps) if event == "end_array" else None
            yield ("null", None) if total is None else ("number", total)
            gaps = []
        elif begins:
            gaps += [None] if depth > 2 or event == "start_map" else []
        elif not ends:
            gaps.append(value if event == "number" else None)


class _Finite:
    """A stream to read from, in which NaN and Infinity are null. A token may lie across two pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._ready = b""
        self._held = b""
        self._is_over = False

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; empty at the end."""
        while not self._is_over and len(self._ready) < max(size, 1):
            self._more()
        taken, self._ready = (self._ready, b"") if size < 0 else (self._ready[:size], self._ready[size:])
        return taken

    def _more(self) -> None:
        piece = next(self._pieces, b"")
        self._is_over = not piece
        text = _NOT_FINITE.sub(b"null", self._held + piece)
        # What stands before a token says that it is one, so both are held back together.
        last = max(text.rfind(mark, max(len(text) - _LONGEST_TOKEN, 0)) for mark in _BEFORE_TOKENS)
        cut = len(text) if self._is_over else last if last >= 0 else max(len(text) - _LONGEST_TOKEN, 0)
        self._ready, self._held = self._ready + text[:cut], text[cut:]
