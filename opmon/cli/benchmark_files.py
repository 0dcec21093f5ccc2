"""Benchmark files named on the command line: a file, or a folder with all that a tool wrote into it.

Contains the walk and the progress of a large file; what is in a file is `opmon.sweeps`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from opmon.core.names import escaped
from opmon.errors import ConfigError, SweepError

if TYPE_CHECKING:
    from opmon.core.cells import SweepImport
    from opmon.sweeps.document import Document

MOST_FILES = 10_000
TOLD_EVERY_BYTES = 32 * 1024 * 1024
READ_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".yaml", ".yml", ".md", ".txt", ".gz")


def read_path(
    path: Path, *, reader: str = "auto", configuration: str | None = None, content: str | None = None
) -> tuple[list[SweepImport], list[str]]:
    """The imports of a file, or of every file below a folder that is a benchmark's result; and what was passed over.

    Raises SweepError for a file that is none, for a fault in any file of a folder, and for a folder without any result.
    """
    from opmon.sweeps.detect import read_document, reader_of

    if not path.is_dir():
        document = document_of(path, path.name)
        return [read_document(document, reader=reader, configuration=configuration, content=content)], []
    read, passed_over = [], []
    for file in _files(path):
        document = document_of(file, file.relative_to(path).as_posix())
        if reader == "auto" and reader_of(document) is None:
            passed_over.append(document.file_name)
            continue
        read.append(read_document(document, reader=reader, configuration=configuration, content=content))
    if not read:
        raise SweepError("there is no file in it that a benchmark tool wrote", file=str(path))
    return read, passed_over


def document_of(path: Path, file_name: str) -> Document:
    """A file on disk. Raises ConfigError where there is none, or it cannot be read."""
    from opmon.sweeps.document import Document

    def beside(name: str) -> Document | None:
        other = path.parent / name
        return document_of(other, name) if other.is_file() else None

    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        message = f"{escaped(str(path))}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(message) from error
    return Document(escaped(file_name), lambda: path.open("rb"), size, beside, _progress(path, size))


def _files(folder: Path) -> list[Path]:
    """The files that may be results, in the order of their names; what begins with a dot is left alone."""
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file()
        and file.suffix.lower() in READ_SUFFIXES
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if len(found) > MOST_FILES:
        raise SweepError(
            f"the folder holds {len(found):,} files, and {MOST_FILES:,} are read at most", file=str(folder)
        )
    return found


def _progress(path: Path, size: int) -> Callable[[int], None]:
    """Says on a terminal how far the reading of a large file is."""
    if size < TOLD_EVERY_BYTES or not sys.stderr.isatty():
        return lambda _done: None
    last = [0]

    def tell(done: int) -> None:
        if done - last[0] >= TOLD_EVERY_BYTES:
            last[0] = done
            sys.stderr.write(f"\r{escaped(path.name)}: {done / 1e6:,.0f} MB of {size / 1e6:,.0f} MB read ")
            sys.stderr.flush()

    return tell
