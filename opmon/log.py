"""The log: one line of key=value pairs per event, to stderr.

Contains the set-up of the standard library's logging and nothing else. A value is one token or quoted, and a line end
within it is escaped: what a watched server says can never forge a line.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_HANDLER = "opmon"
LEVELS = ("debug", "info", "warning", "error")


def set_up(level: str = "info", stream: TextIO | None = None) -> None:
    """Sends every log to `stream` (stderr). opmon's own from `level` up, libraries' from warning up. May be repeated."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.set_name(_HANDLER)
    handler.setFormatter(KeyValueFormatter())
    root = logging.getLogger()
    for old in [one for one in root.handlers if one.get_name() == _HANDLER]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("opmon").setLevel(level.upper())


def fields(**pairs: object) -> dict[str, Any]:
    """Pairs for one line: `logger.info("target is down", extra=fields(target=name, kind=kind))`."""
    return {"fields": pairs}


class KeyValueFormatter(logging.Formatter):
    """`time=... level=... logger=... message="..." key=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        pairs: dict[str, object] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            pairs["exception"] = self.formatException(record.exc_info)
        return " ".join(f"{key}={_value(value)}" for key, value in pairs.items())


def _value(value: object) -> str:
    text = "" if value is None else str(value)
    plain = text.isascii() and text.isprintable() and not any(character in text for character in ' ="\\')
    return text if plain and text else json.dumps(text, ensure_ascii=False)
