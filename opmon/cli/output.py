"""How answers leave the terminal as JSON: byte for byte what the API sends.

Contains no rendering for people; that is beside each command.
"""

from __future__ import annotations

from typing import Any

import msgspec


def as_json(answer: Any) -> str:
    """The answer as JSON text, two spaces deep. Figures that are not finite numbers become null."""
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()
