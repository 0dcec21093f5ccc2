"""A source's last list as text, to be kept until the next start.

Entries are kept and not targets: what the settings say of a source's targets (credentials, labels) holds as it is
configured now. Contains no keeping.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from opmon.config import SourceSettings
from opmon.discovery.listed import Entry

# What may change without the source being another one.
_BESIDE = {"name", "defaults", "refresh_interval_ms", "auth", "tls"}


class Memory(Protocol):
    """Keeps a text for each source."""

    def recall(self) -> Mapping[str, str]:
        """The texts of before, by source."""
        ...

    def keep(self, source: str, text: str) -> None:
        """Replaces a source's text; an empty one removes it. Does not wait until it is kept, and raises nothing."""
        ...


class NoMemory:
    """Keeps nothing."""

    def recall(self) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def keep(self, source: str, text: str) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The entries of each part of a source. `of`: which source it was."""

    of: str
    parts: dict[str, tuple[Entry, ...]] = field(default_factory=dict)


_DECODER = msgspec.json.Decoder(_Kept)


def to_text(settings: SourceSettings, parts: Mapping[str, tuple[Entry, ...]]) -> str:
    """What to keep of a source."""
    return msgspec.json.encode(_Kept(_which(settings), dict(parts))).decode()


def from_text(settings: SourceSettings, text: str) -> Mapping[str, tuple[Entry, ...]]:
    """What was kept of this source; nothing where the text is of another one, or cannot be read."""
    try:
        kept = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    return kept.parts if kept.of == _which(settings) else {}


def _which(settings: SourceSettings) -> str:
    """Which source it is, in a form that tells no address and no secret in a query."""
    asked = f"{type(settings).__name__} {settings.model_dump_json(exclude=_BESIDE)}"
    return hashlib.sha256(asked.encode()).hexdigest()
