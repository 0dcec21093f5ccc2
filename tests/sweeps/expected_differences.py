"""Where our reading of a real file differs from the table beside it, and why: one argued line each."""

from __future__ import annotations

ARGUED: dict[tuple[str, str], str] = {}
"""(file or tool, column of the table): the reason."""

REFUSED: dict[str, str] = {}
"""Files that are refused: a part of the words that say why."""
