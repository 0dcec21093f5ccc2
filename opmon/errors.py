"""The exceptions of opmon, as one tree; every message names what is wrong and what to do.

    OpmonError
    ├── ConfigError      wrong usage or configuration; exit status 2
    ├── ScrapeError      a scrape that failed; becomes a row, never stops the loop
    ├── DiscoveryError   a source of targets that cannot be read; its last list stays
    ├── StoreError       the database cannot be used as it is
    ├── SweepError       a benchmark file cannot be read; names file, row and field
    ├── DeliveryError    a notice was not delivered; `permanent` says whether to retry
    ├── NotFound         no such target, sweep, ...
    ├── TooMany          more than is kept; `retry_after_seconds` says when it may pass
    └── InvalidWindow    a window that ends before it starts, or cannot be read

Contains no handling: each surface decides how it tells the person.
"""

from __future__ import annotations


class OpmonError(Exception):
    """Base of every error that opmon raises on purpose."""


class ConfigError(OpmonError):
    """Wrong usage or configuration. The text names file, line and key, and what is allowed there."""


class ScrapeError(OpmonError):
    """A failed attempt to scrape. `kind` is one of the words in `opmon.core.model.DOWN_KINDS`."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class DiscoveryError(OpmonError):
    """A list of targets that cannot be had or read. The text names the place and what is wrong there."""


class StoreError(OpmonError):
    """The database is absent, older, newer or damaged. The text names its path and the remedy."""


class SweepError(OpmonError):
    """A benchmark file that cannot be read, or a choice in it that does not exist."""

    def __init__(self, message: str, *, file: str = "", row: int | None = None, field: str = "") -> None:
        place = ", ".join(
            part
            for part in (file, f"row {row}" if row is not None else "", f"field {field!r}" if field else "")
            if part
        )
        super().__init__(f"{place}: {message}" if place else message)
        self.file = file
        self.row = row
        self.field = field


class DeliveryError(OpmonError):
    """A notice that was not delivered. `permanent`: trying again cannot help."""

    def __init__(self, message: str, *, permanent: bool) -> None:
        super().__init__(message)
        self.permanent = permanent


class NotFound(OpmonError):
    """The named target, sweep or configuration does not exist. The text lists what does."""


class TooMany(OpmonError):
    """More than opmon keeps of something. `retry_after_seconds`: when asking again can help; None: it cannot."""

    def __init__(self, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class InvalidWindow(OpmonError):
    """A window that cannot be read, or that ends before it starts."""
