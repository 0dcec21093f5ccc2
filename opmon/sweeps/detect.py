"""Which reader a benchmark file needs, from its content; and the example sweep that comes with opmon.

Contains no reading of any format; that is one module per format. Never raises anything but SweepError for a file.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from opmon.core.cells import SweepImport
from opmon.core.names import name_fault, quoted
from opmon.errors import SweepError
from opmon.sweeps import table

LARGEST_KEPT_BYTES = 8 * 1024 * 1024
LARGEST_BYTES = 32 * 1024 * 1024
"""The most that a benchmark file may have, wherever it comes from."""
READERS = ("auto", table.READER)
EXAMPLE_NAME = "example-drafters"
SUPPORTED = (
    "a CSV or TSV table with a header (columns config, content, concurrency, aggregate_tok_s, per_stream_tok_s, ...)"
)


def read_sweep(
    data: bytes, file_name: str, *, reader: str = "auto", configuration: str | None = None, content: str | None = None
) -> SweepImport:
    """Reads a benchmark file into cells. `configuration` and `content` stand in where the file does not say them.

    `imported_ms` is left 0: whoever keeps the import knows the time. Raises SweepError.
    """
    if reader not in READERS:
        raise SweepError(f"there is no reader {quoted(reader)}; there are {', '.join(READERS)}", file=file_name)
    if len(data) > LARGEST_BYTES:
        message = f"the file is larger than the {LARGEST_BYTES:,} bytes that are read"
        raise SweepError(message, file=file_name)
    configuration, content = _said("configuration", configuration), _said("content", content)
    text = _text(data, file_name)
    if reader == "auto" and not table.looks_like_table(text):
        raise SweepError(f"this is {_guess(text)}; what can be read is {SUPPORTED}", file=file_name)
    read = table.read_table(text, file_name, configuration=configuration, content=content)
    return SweepImport(
        file_name=file_name,
        sha256=hashlib.sha256(data).hexdigest(),
        reader=table.READER,
        reader_version=table.READER_VERSION,
        size_bytes=len(data),
        cells=read.cells,
        notes=read.notes,
        original=data if len(data) <= LARGEST_KEPT_BYTES else None,
    )


def example_sweep_bytes() -> bytes:
    """The example sweep as a file: two configurations of one model, measured on the same day."""
    return files("opmon.sweeps").joinpath("data", f"{EXAMPLE_NAME}.csv").read_bytes()


def _said(what: str, name: str | None) -> str | None:
    """A name that was given beside the file, trimmed. Raises SweepError."""
    trimmed = name.strip() if name is not None else None
    if trimmed is not None and (fault := name_fault(trimmed)):
        raise SweepError(f"the {what} given beside the file: {fault}")
    return trimmed


def _text(data: bytes, file_name: str) -> str:
    if not data.strip():
        raise SweepError("the file is empty", file=file_name)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"the file is no UTF-8 text (byte {error.start}); what can be read is {SUPPORTED}"
        raise SweepError(message, file=file_name) from error


def _guess(text: str) -> str:
    """What a file that is no table seems to be, in words."""
    start = text.lstrip()[:1]
    if start in ("{", "["):
        return "JSON, as benchmark tools write it, which this version does not read"
    if start == "<":
        return "a web page"
    return "no table that opmon knows (no column `concurrency` or speed in its first line)"
