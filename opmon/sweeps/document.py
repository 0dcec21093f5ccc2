"""A benchmark file as readers see it: its name, its text, its JSON records, and the files beside it.

Contains the lenient reading of JSON that every tool's files need (NaN, several objects in one file, a torn last line)
and no knowledge of any tool. What people said and were answered is dropped as it is read: no cell needs it, and it is
most of a large file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import Any, BinaryIO

from opmon.errors import SweepError
from opmon.sweeps.streaming import gap_sum, streamed

LARGEST_TEXT_BYTES = 32 * 1024 * 1024
"""The most that is read as one text; larger files are read as a stream, and only if they are JSON."""
LARGEST_FILE_BYTES = 1024 * 1024 * 1024
"""The most that a benchmark file may have, packed and unpacked."""
MOST_RECORDS = 100_000
HEAD_BYTES = 64 * 1024
GZIP = b"\x1f\x8b"

DROPPED_KEYS = frozenset(
    {
        "generated_texts",
        "itls",
        "output_token_times",
        "request",
        "request_args",
        "response",
        "prompt",
        "prompts",
        "text",
        "texts",
        "output",
        "outputs_text",
        "pdf",
        "cumulative_distribution_function",
        "probability_density_function",
    }
)
"""Keys of texts, of one figure a token, and of distributions: read over wherever they stand, unless they hold a single
figure."""
GAPS, GAP_SUMS = "itls", "itl_sums"
"""A list of gaps for each request, and what stands for it in a record: a list of their sums, so that an elapsed time is
`ttft + sum of itl` without a figure a token in memory."""


@dataclass(frozen=True, slots=True)
class Record:
    """One JSON value of a file. `number` counts from 1; `line` is where it begins (0 in a file read as a stream)."""

    value: Any
    number: int
    line: int = 0


@dataclass(frozen=True)
class Document:
    """A file. `file_name` is its path below what was given, with `/`; `beside` opens another file of the same folder by
    its name, and gives None where there is none. `told` hears how many bytes were read of a large one. `folder`: the
    folders above what was given, with `/`, '' where none is known; only guesses look at it."""

    file_name: str
    opener: Callable[[], BinaryIO]
    size_bytes: int
    beside: Callable[[str], Document | None] = field(default=lambda _name: None)
    told: Callable[[int], None] = field(default=lambda _bytes: None)
    folder: str = ""

    @classmethod
    def of_bytes(cls, data: bytes, file_name: str, others: Mapping[str, bytes] | None = None) -> Document:
        """A file that is in memory; `others`: files beside it by name."""

        def beside(name: str) -> Document | None:
            found = (others or {}).get(name)
            return None if found is None else cls.of_bytes(found, name)

        return cls(file_name, lambda: BytesIO(data), len(data), beside)

    @cached_property
    def sha256(self) -> str:
        """The hash of the file as it is."""
        digest = hashlib.sha256()
        for piece in _pieces(self._open(), self.file_name, LARGEST_FILE_BYTES):
            digest.update(piece)
        return digest.hexdigest()

    @cached_property
    def is_packed(self) -> bool:
        """Whether it is gzip."""
        with self._open() as stream:
            return stream.read(2) == GZIP

    @cached_property
    def head(self) -> str:
        """The first 64 KiB, unpacked, for a look at what it is; what is no text is replaced."""
        with self._unpacked() as stream:
            try:
                start = stream.read(HEAD_BYTES)
            except (OSError, EOFError, zlib.error) as error:
                raise _unreadable(error, self.file_name) from error
        encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        return start.decode(encoding, errors="replace")

    @property
    def is_json(self) -> bool:
        """Whether it begins as a JSON object or list does."""
        return self.head.lstrip()[:1] in ("{", "[")

    @cached_property
    def data(self) -> bytes:
        """All of it, unpacked. Raises SweepError where that is more than LARGEST_TEXT_BYTES."""
        return b"".join(_pieces(self._unpacked(), self.file_name, LARGEST_TEXT_BYTES))

    @cached_property
    def text(self) -> str:
        """All of it as text. Raises SweepError where it is none, empty or too large."""
        data = self.data
        if not data.strip():
            raise SweepError("the file is empty", file=self.file_name)
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        try:
            return data.decode(encoding)
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            message = f"the file is no UTF-8 text (line {line}, byte {error.start}): save it as UTF-8"
            raise SweepError(message, file=self.file_name) from error

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Every JSON value of the file: one document, several behind each other, or one a line. A list at the top is
        one value. NaN and infinities are floats here. Raises SweepError that names the line.

        A last value that is cut off is left out where others came before it; `is_torn` says so.
        """
        return self._read[0]

    @property
    def is_torn(self) -> bool:
        """Whether the last record was cut off and left out."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[tuple[Record, ...], bool]:
        if self.size_bytes > LARGEST_TEXT_BYTES or (self.is_packed and self._unpacked_is_large()):
            values = streamed(self._counted(), DROPPED_KEYS, {GAPS: GAP_SUMS}, self.file_name)
            return tuple(Record(value, number) for number, value in enumerate(values, 1)), False
        return _parsed(self.text, self.file_name)

    def _unpacked_is_large(self) -> bool:
        total = 0
        for piece in _pieces(self._unpacked(), self.file_name, LARGEST_FILE_BYTES):
            total += len(piece)
            if total > LARGEST_TEXT_BYTES:
                return True
        return False

    def _counted(self) -> Iterator[bytes]:
        done = 0
        for piece in _pieces(self._unpacked(), self.file_name, LARGEST_FILE_BYTES):
            done += len(piece)
            self.told(done)
            yield piece

    def _open(self) -> BinaryIO:
        try:
            return self.opener()
        except (OSError, ValueError) as error:
            raise _unreadable(error, self.file_name) from error

    def _unpacked(self) -> BinaryIO:
        stream = self._open()
        if not self.is_packed:
            return stream
        return _Unpacking(stream)  # type: ignore[return-value]  # reads as one does


class _Unpacking(gzip.GzipFile):
    """A packed file; closing it closes the file beneath, which gzip leaves open."""

    def __init__(self, beneath: BinaryIO) -> None:
        super().__init__(fileobj=beneath)
        self._beneath = beneath

    def close(self) -> None:
        """Closes both."""
        super().close()
        self._beneath.close()


def _pieces(stream: BinaryIO, file_name: str, most: int) -> Iterator[bytes]:
    """The stream in pieces of 1 MiB; more than `most` bytes in all is refused."""
    total = 0
    with stream:
        while True:
            try:
                piece = stream.read(1 << 20)
            except (OSError, EOFError, zlib.error) as error:
                raise _unreadable(error, file_name) from error
            if not piece:
                return
            total += len(piece)
            if total > most:
                raise SweepError(
                    f"the file has more than the {most:,} bytes that are read of such a file", file=file_name
                )
            yield piece


def _unreadable(error: Exception, file_name: str) -> SweepError:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return SweepError(f"cannot be read: {words}", file=file_name)


_SPACE = re.compile(r"[\s,]*")


def _parsed(text: str, file_name: str) -> tuple[tuple[Record, ...], bool]:
    """The values of a text, one behind the other."""
    decoder = json.JSONDecoder(object_hook=_without_texts)
    found: list[Record] = []
    place, line, counted = _SPACE.match(text).end(), 1, 0  # type: ignore[union-attr]  # matches always
    while place < len(text):
        line, counted = line + text.count("\n", counted, place), place
        try:
            value, end = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            if found and isinstance(error, json.JSONDecodeError) and _is_cut_off(text, place, error):
                return tuple(found), True
            words = _fault_words(error)
            fault_line = error.lineno if isinstance(error, json.JSONDecodeError) else line
            raise SweepError(f"this is no JSON: {words} (line {fault_line})", file=file_name) from error
        found.append(Record(value, len(found) + 1, line))
        if len(found) > MOST_RECORDS:
            raise SweepError(f"the file has more than {MOST_RECORDS:,} records", file=file_name)
        place = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return tuple(found), False


def _fault_words(error: Exception) -> str:
    """What is wrong with a text that no JSON value could be read from."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else "a number with too many digits"


_HALF_A_TOKEN = re.compile(r"[\w.+\\-]*[\0\s]*")


def _is_cut_off(text: str, place: int, error: json.JSONDecodeError) -> bool:
    """Whether the value that begins at `place` is sound up to the end of the text, where it stops: between two tokens, in
    a text, or within a number or a word."""
    if text[place] not in "{[":
        return False
    return error.msg.startswith("Unterminated string") or bool(_HALF_A_TOKEN.fullmatch(text, error.pos))


def _without_texts(value: dict[str, Any]) -> dict[str, Any]:
    """The object without what DROPPED_KEYS name, where that is more than a figure; the sums of gaps stand for them."""
    if isinstance(value.get(GAPS), list):
        value[GAP_SUMS] = [gap_sum(one) if isinstance(one, list) else None for one in value[GAPS]]
    for key in DROPPED_KEYS.intersection(value):
        if isinstance(value[key], str | list | dict):
            del value[key]
    return value
