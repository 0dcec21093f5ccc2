"""Which reader a benchmark file needs, from its content; and the example sweep that comes with opmon.

Contains no reading of any format; that is one module per format. Never raises anything but SweepError for a file.
"""

from __future__ import annotations

from importlib.resources import files

from opmon.core.cells import SweepImport
from opmon.core.names import name_fault, quoted
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.readers import READERS as ALL_READERS
from opmon.sweeps.reading import Given, Reader

LARGEST_KEPT_BYTES = 8 * 1024 * 1024
LARGEST_BYTES = 32 * 1024 * 1024
"""The most that a file may have that comes over the network; see `document` for files on disk."""
READERS = ("auto", *(reader.name for reader in ALL_READERS))
EXAMPLE_NAME = "example-drafters"


def read_sweep(
    data: bytes,
    file_name: str,
    *,
    reader: str = "auto",
    configuration: str | None = None,
    content: str | None = None,
) -> SweepImport:
    """Reads a benchmark file that is in memory; see `read_document`."""
    given = Given(_said("configuration", configuration), _said("content", content))
    return _read(_in_memory(data, file_name), reader, given)


def read_upload(
    data: bytes, file_name: str, *, reader: str, configuration: str | None, content: str | None
) -> SweepImport:
    """The same of a file whose folder nobody knows: nothing but the model is no name for its configuration, and the file
    is refused."""
    given = Given(_said("configuration", configuration), _said("content", content), is_model_a_name=False)
    return _read(_in_memory(data, file_name), reader, given)


def _in_memory(data: bytes, file_name: str) -> Document:
    if len(data) > LARGEST_BYTES:
        message = f"the file is larger than the {LARGEST_BYTES:,} bytes that are read"
        raise SweepError(message, file=file_name)
    return Document.of_bytes(data, file_name)


def read_document(
    document: Document,
    *,
    reader: str = "auto",
    configuration: str | None = None,
    content: str | None = None,
) -> SweepImport:
    """Reads a benchmark file into cells. `configuration` and `content` stand in where the file does not say them.

    `imported_ms` is left 0: whoever keeps the import knows the time. Raises SweepError.
    """
    given = Given(_said("configuration", configuration), _said("content", content), document.folder)
    return _read(document, reader, given)


def _read(document: Document, reader: str, given: Given) -> SweepImport:
    if reader not in READERS:
        message = f"there is no reader {quoted(reader)}; there are {', '.join(READERS)}"
        raise SweepError(message, file=document.file_name)
    if not document.head.strip():
        raise SweepError("the file is empty", file=document.file_name)
    chosen = reader_of(document) if reader == "auto" else next(one for one in ALL_READERS if one.name == reader)
    if chosen is None:
        if not document.is_json:
            _ = document.text  # what is no text says so
        message = f"this is {_guess(document)}; what can be read is {supported()}"
        raise SweepError(message, file=document.file_name)
    read = chosen.read(document, given)
    return SweepImport(
        file_name=document.file_name,
        sha256=document.sha256,
        reader=chosen.name,
        reader_version=chosen.version,
        size_bytes=document.size_bytes,
        cells=read.cells,
        notes=read.notes,
        original=_original(document, chosen),
    )


def reader_of(document: Document) -> Reader | None:
    """The reader that knows the file's content; None where none does. Raises SweepError for damaged JSON."""
    return next((one for one in ALL_READERS if one.recognises(document)), None)


def supported() -> str:
    """What can be read, for a person."""
    return "; ".join(reader.what for reader in ALL_READERS)


def _original(document: Document, reader: Reader) -> bytes | None:
    """The file itself, where a person wrote it; what a tool wrote may hold texts of users, and keys."""
    is_kept = reader.is_by_hand and not document.is_packed and document.size_bytes <= LARGEST_KEPT_BYTES
    return document.data if is_kept else None


def example_sweep_bytes() -> bytes:
    """The example sweep as a file: two configurations of one model, measured on the same day."""
    return files("opmon.sweeps").joinpath("data", f"{EXAMPLE_NAME}.csv").read_bytes()


def _said(what: str, name: str | None) -> str | None:
    """A name that was given beside the file, trimmed. Raises SweepError."""
    trimmed = name.strip() if name is not None else None
    if trimmed is not None and (fault := name_fault(trimmed)):
        raise SweepError(f"the {what} given beside the file: {fault}")
    return trimmed


def _guess(document: Document) -> str:
    """What a file that nobody knows seems to be, in words."""
    start = document.head.lstrip("\ufeff \r\n\t")[:1]
    if start in ("{", "["):
        return "JSON of no benchmark tool that opmon knows"
    if start == "<":
        return "a web page"
    return "no table that opmon knows (no column `concurrency` or speed in its first line)"
