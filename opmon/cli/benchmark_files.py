"""Benchmark files named on the command line: files, and folders with all that a tool wrote into them.

Contains the walk and the progress of a large file; what is in a file is `opmon.sweeps`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmon.core.names import escaped
from opmon.errors import ConfigError, SweepError

if TYPE_CHECKING:
    from opmon.core.cells import SweepImport
    from opmon.sweeps.document import Document

MOST_FILES = 10_000
MOST_NAMED = 5
TOLD_EVERY_BYTES = 32 * 1024 * 1024
MOST_FOLDERS = 2
READ_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".yaml", ".yml", ".md", ".txt", ".gz")
PACKED_SUFFIX = ".gz"
JSON_SUFFIXES = frozenset((".json", ".jsonl"))
DAMAGED_SUFFIXES = JSON_SUFFIXES | {PACKED_SUFFIX}


@dataclass(frozen=True, slots=True)
class Said:
    """What a person said beside the files; it stands in where a file does not say it."""

    reader: str = "auto"
    configuration: str | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What one path gave: its imports, and the files of it that hold no cell."""

    path: Path
    imports: list[SweepImport] = field(default_factory=list)
    documents: list[Document] = field(default_factory=list)
    """The file of each import."""
    passed_over: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What a sweep of it is called: a folder's name, or a file's without what says how it is written."""
        if self.path.is_dir():
            return self.path.resolve().name or "sweep"
        path = self.path.with_suffix("") if self.path.suffix.lower() == PACKED_SUFFIX else self.path
        return path.stem

    @property
    def words(self) -> str:
        """What was passed over, in one line; '' where nothing was."""
        if not self.passed_over:
            return ""
        more = len(self.passed_over) - MOST_NAMED
        named = ", ".join(self.passed_over[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return f"{escaped(str(self.path))}: without a cell, and passed over: {named}"


def read_paths(paths: Sequence[Path], said: Said) -> list[Found]:
    """What each path gives. Files that hold no cell by themselves are passed over where there are others.

    Raises ConfigError for what is not there, SweepError for a fault in any file, for a file named that no tool wrote, for
    a folder without any result, and where nothing is left.
    """
    from opmon.sweeps.reading import NoCell

    found, refused = [], []
    for path in paths:
        if path.is_dir():
            found.append(_read_folder(path, said))
            continue
        try:
            document = document_of(path, path.name, _folders(path.parent))
            found.append(Found(path, [_read(document, said)], [document]))
        except NoCell as error:
            refused.append(error)
            found.append(Found(path, passed_over=[escaped(path.name)]))
    if refused and not any(one.imports for one in found):
        raise refused[0]
    _tell_models_apart(found, said)
    return found


def _tell_models_apart(found: Sequence[Found], said: Said) -> None:
    """Where a folder would give one name to several models, each is called by its model: they are no repeats."""
    from opmon.sweeps.naming import guessed_name

    models: dict[tuple[str, str], set[str | None]] = {}
    for cell, folder in (
        (cell, document.folder)
        for one in found
        for document, file in zip(one.documents, one.imports, strict=True)
        for cell in file.cells
    ):
        models.setdefault((folder, cell.configuration), set()).add(cell.model)
    mixed = {key for key, names in models.items() if len(names) > 1 and key[1] == guessed_name(key[0])}
    for one in found if mixed and said.configuration is None else ():
        for place, document in enumerate(one.documents):
            if any((document.folder, cell.configuration) in mixed for cell in one.imports[place].cells):
                one.imports[place] = _read(replace(document, folder=""), said)


def notes_of(imports: Iterable[SweepImport]) -> list[str]:
    """What a person should know of the files; what is said of many is one line."""
    files: dict[str, list[str]] = {}
    for one in imports:
        for note in one.notes:
            files.setdefault(note, []).append(one.file_name)
    return [
        escaped(f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {note}")
        for note, names in files.items()
    ]


def words_of(found: Iterable[Found]) -> list[str]:
    """What was passed over, a line a folder."""
    return [one.words for one in found if one.words]


def _read_folder(folder: Path, said: Said) -> Found:
    """Every file below it that is a benchmark's result."""
    from opmon.sweeps.detect import reader_of
    from opmon.sweeps.reading import NoCell

    found, folders = Found(folder), _folders(folder)
    for file in _files(folder):
        document = document_of(file, file.relative_to(folder).as_posix(), folders)
        _refuse_damaged(document)
        if not document.head.strip() or (said.reader == "auto" and reader_of(document) is None):
            found.passed_over.append(document.file_name)
            continue
        try:
            found.imports.append(_read(document, said))
            found.documents.append(document)
        except NoCell:
            found.passed_over.append(document.file_name)
    if not found.imports:
        raise SweepError("there is no file in it that holds a result of a benchmark", file=escaped(str(folder)))
    return found


def _refuse_damaged(document: Document) -> None:
    """Raises SweepError where a file is called as a result is and holds nothing that could be one: empty, filled with
    NUL bytes, or no JSON by its start. Half a sweep would look like a whole one."""
    suffixes = [suffix.lower() for suffix in Path(document.file_name).suffixes]
    if not suffixes or suffixes[-1] not in DAMAGED_SUFFIXES:
        return
    if not document.head.strip("\0 \t\r\n"):
        what = "holds nothing but NUL bytes" if document.head.strip() else "is empty"
        message = f"the file {what}: a run was cut off, or a copy failed; copy it again, or take it out of the folder"
        raise SweepError(message, file=document.file_name)
    if JSON_SUFFIXES.intersection(suffixes[-2:]) and not document.is_json:
        _ = document.records  # JSON of no object is something else's; what is none says so


def _folders(folder: Path) -> str:
    """The last folders of a path as typed, or the real folder's name where it names none (`.`)."""
    typed = [part for part in folder.parts if part not in (".", "..", "/")]
    return "/".join(escaped(part) for part in (typed or [folder.resolve().name])[-MOST_FOLDERS:])


def _read(document: Document, said: Said) -> SweepImport:
    from opmon.sweeps.detect import read_document

    return read_document(document, reader=said.reader, configuration=said.configuration, content=said.content)


def document_of(path: Path, file_name: str, folder: str = "") -> Document:
    """A file on disk, with the folders above it; what can be read once only, as a pipe, is taken into memory. Raises ConfigError where there is none,
    or it cannot be read, and SweepError for a pipe that is too long."""
    from opmon.sweeps.detect import LARGEST_BYTES
    from opmon.sweeps.document import Document

    def beside(name: str) -> Document | None:
        other = path.parent / name
        return document_of(other, name, folder) if other.is_file() else None

    name = escaped(file_name)
    if not path.is_file():
        data = read_file(path)
        if len(data) > LARGEST_BYTES:
            raise SweepError(f"this is larger than the {LARGEST_BYTES:,} bytes that are read", file=name)
        return Document.of_bytes(data, name)
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise _not_read(path, error) from error
    return Document(name, lambda: path.open("rb"), size, beside, _Progress(path, size).tell, folder)


def read_file(path: Path) -> bytes:
    """The bytes of a file, and one more than is read of any at most. Raises ConfigError naming it."""
    from opmon.sweeps.detect import LARGEST_BYTES

    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise _not_read(path, error) from error


def _not_read(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{escaped(str(path))}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _files(folder: Path) -> list[Path]:
    """The files that may be results, in the order of their names; what begins with a dot is left alone."""
    found = []
    for file in _results_below(folder):
        found.append(file)
        if len(found) > MOST_FILES:
            message = f"the folder holds more than {MOST_FILES:,} files that may be results; name a folder within"
            raise SweepError(message, file=escaped(str(folder)))
    return sorted(found)


def _results_below(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if not is_hidden and file.suffix.lower() in READ_SUFFIXES and file.is_file():
            yield file


class _Progress:
    """Says on a terminal how far the reading of a large file is, in a line of its own that vanishes at the end."""

    def __init__(self, path: Path, size: int) -> None:
        self._name = escaped(path.name)
        self._size = size
        self._is_packed = path.suffix.lower() == PACKED_SUFFIX
        self._last = 0

    def tell(self, done: int) -> None:
        """`done`: how many bytes of what is in the file were read."""
        if done < self._last:
            self._last = 0
        if done - self._last < TOLD_EVERY_BYTES or not sys.stderr.isatty():
            self._end(done)
            return
        self._last = done
        of = "" if self._is_packed else f" of {self._size / 1e6:,.0f}"
        sys.stderr.write(f"\r\x1b[K{self._name}: {done / 1e6:,.0f}{of} MB read")
        self._end(done)
        sys.stderr.flush()

    def _end(self, done: int) -> None:
        if self._last and done >= self._size and not self._is_packed:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
