"""A YAML file as plain values that remember where they stand.

Contains no knowledge of any key. Every fault of the text (bad YAML, a key given twice, an unknown tag) is a
ConfigError that names file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import yaml

from opmon.config.files import MOST_YAML_BYTES, read_regular
from opmon.errors import ConfigError

Key = str | int
Location = tuple[Key, ...]

_DEEPEST = 20
_MOST_NODES = 100_000
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was written: a file with a line, or the name of an option or variable (line None)."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(slots=True)
class Document:
    """Plain values (dict, tuple, scalars) and the place of each, by its path of keys and indexes."""

    source: str
    values: dict[str, object] = field(default_factory=dict)
    places: dict[Location, Place] = field(default_factory=dict)

    def place(self, location: Location) -> Place:
        """The place of a value, or of the nearest thing around it that was written down."""
        for length in range(len(location), 0, -1):
            if (found := self.places.get(location[:length])) is not None:
                return found
        return Place(self.source)


def read_document(path: Path) -> Document:
    """Reads a YAML file. An empty file has no values. Raises ConfigError."""
    try:
        content = read_regular(path, MOST_YAML_BYTES)
        if len(content) > MOST_YAML_BYTES:
            message = f"{path}: is larger than {MOST_YAML_BYTES} bytes; list many targets in a JSON file (`file_sd`)"
            raise ConfigError(message)
        text = content.decode("utf-8-sig")
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = f"{path}:{line}: is not UTF-8 text"
        raise ConfigError(message) from error
    return parse_document(text, str(path))


def parse_document(text: str, source: str) -> Document:
    """Reads YAML text; `source` is the name that messages give it. Raises ConfigError."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text[: int(error.position)].count("\n") + 1
        message = f"{source}:{line}: not valid YAML: a character that YAML does not allow (code {error.character})"
        raise ConfigError(message) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_yaml_message(error, source)) from error
    document = Document(source)
    if root is None or (isinstance(root, yaml.ScalarNode) and root.value == ""):
        return document
    if not isinstance(root, yaml.MappingNode):
        message = f"{source}:{root.start_mark.line + 1}: the file must be a mapping of sections (`targets:`, ...)"
        raise ConfigError(message)
    document.values = _Reader(document).mapping(root, ())
    return document


def _yaml_message(error: yaml.MarkedYAMLError, source: str) -> str:
    mark = error.problem_mark or error.context_mark
    line = f":{mark.line + 1}" if mark is not None else ""
    context = f" ({error.context})" if error.context else ""
    return f"{source}{line}: not valid YAML: {error.problem or 'it cannot be read'}{context}"


class _Reader:
    """Turns nodes into values. Depth and size are bounded: aliases can make a small file endless."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._constructor = yaml.constructor.SafeConstructor()
        self._nodes = 0

    def value(self, node: yaml.Node, location: Location) -> object:
        self._nodes += 1
        if len(location) > _DEEPEST or self._nodes > _MOST_NODES:
            self._refuse(node, location, "is nested too deeply or too large (an alias within itself?)")
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            return tuple(self._item(item, (*location, index)) for index, item in enumerate(node.value))
        try:
            constructed: object = self._constructor.construct_object(node)
        except (yaml.MarkedYAMLError, ValueError) as error:
            problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else str(error)
            self._refuse(node, location, f"cannot be understood: {problem}")
        return constructed

    def mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, object]:
        found: dict[str, object] = {}
        first_lines: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged.append(value_node)
                continue
            key = self._key(key_node, location)
            line = key_node.start_mark.line + 1
            if key in found:
                self._refuse(key_node, (*location, key), f"is given twice (first in line {first_lines[key]})")
            first_lines[key] = line
            self._document.places[(*location, key)] = Place(self._document.source, line)
            found[key] = self.value(value_node, (*location, key))
        for value_node in merged:
            found = {**self._merge(value_node, location), **found}
        return found

    def _merge(self, node: yaml.Node, location: Location) -> Mapping[str, object]:
        """What `<<: *name` brings in; keys written in place win over it."""
        value = self.value(node, (*location, "<<"))
        parts = value if isinstance(value, tuple) else (value,)
        merged: dict[str, object] = {}
        for part in parts:
            if not isinstance(part, dict):
                self._refuse(node, (*location, "<<"), "must refer to a mapping")
            merged = {**part, **merged}
        return merged

    def _item(self, node: yaml.Node, location: Location) -> object:
        self._document.places[location] = Place(self._document.source, node.start_mark.line + 1)
        return self.value(node, location)

    def _key(self, node: yaml.Node, location: Location) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self._refuse(node, location, "has a key that is no plain word")
        return str(node.value)

    def _refuse(self, node: yaml.Node, location: Location, problem: str) -> NoReturn:
        place = Place(self._document.source, node.start_mark.line + 1)
        message = f"{place}: {spell(location)}: {problem}"
        raise ConfigError(message)


def spell(location: Location) -> str:
    """A path as people write it: `targets[0].auth.basic`; `(top)` for the whole file."""
    text = ""
    for key in location:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text or "(top)"
