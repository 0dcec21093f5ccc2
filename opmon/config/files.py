"""Files that settings name, read without ever waiting for another process: pipes and devices are refused.

Contains no knowledge of what is in a file.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_YAML_BYTES = 1024 * 1024
"""YAML takes a hundred times its size in memory, and seconds for a megabyte."""


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """What is in a file, of a larger one `most_bytes` + 1 bytes. Raises OSError, also for what is no regular file."""
    refuse_irregular(path)
    # Between the look and the opening the file may have become another: an opened pipe must not wait for its writer.
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(number, "rb") as file:
        _refuse_mode(os.fstat(number).st_mode)
        return file.read(most_bytes + 1)


def refuse_irregular(path: str | Path) -> None:
    """Raises OSError for a path at which there is no regular file: opening another may wait for ever, or do something."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its path has a null character")
    _refuse_mode(Path(path).stat().st_mode)


def _refuse_mode(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is no regular file (a pipe, a socket or a device)")
