"""What stands beside a benchmark file and belongs to it: settings of the run that the file itself does not repeat.

Contains the opening; what a tool writes there is the tool's reader's. A file beside that cannot be read costs its words
and nothing else: the figures are in the file itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opmon.errors import OpmonError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields
from opmon.sweeps.yaml_values import parse, plain

LARGEST_SETTINGS_BYTES = 1024 * 1024


def json_beside(fields: Fields, document: Document, name: str) -> Fields:
    """The object in a JSON file beside; empty where there is none, or it is none (with a note)."""
    return _beside(fields, document, name, lambda other: [record.value for record in other.records])


def yaml_beside(fields: Fields, document: Document, name: str) -> Fields:
    """The mapping in a YAML file beside; empty where there is none, or it is none (with a note)."""
    return _beside(fields, document, name, lambda other: [plain(one, name) for one in parse(other.text, name)])


def _beside(fields: Fields, document: Document, name: str, read: Callable[[Document], list[Any]]) -> Fields:
    words, found = "", list[Any]()
    try:
        other = document.beside(name)
        if other is None:
            return Fields({}, name, None, fields.notes)
        if other.size_bytes <= LARGEST_SETTINGS_BYTES:
            found = read(other)
    except (OpmonError, OSError) as error:
        words = str(error)
    if len(found) == 1 and isinstance(found[0], Mapping):
        return Fields(found[0], name, None, fields.notes)
    fields.note(f"the file beside is left out: {words or f'{name} holds no settings'}")
    return Fields({}, name, None, fields.notes)
