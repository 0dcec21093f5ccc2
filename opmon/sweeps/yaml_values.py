"""YAML as a benchmark reader needs it: the texts of a file with their lines, never an object of anybody's making.

Contains the parsing with its limits (depth, size, aliases) and no knowledge of any format. Nothing is constructed from a
tag; a scalar stays the text that was written, and `plain` makes of it what JSON would have.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from opmon.core.names import quoted
from opmon.errors import SweepError

LARGEST_YAML_BYTES = 8 * 1024 * 1024
MOST_NODES = 300_000
MOST_ALIASES = 1_000
DEEPEST = 40
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[+-]?\d{1,300}", re.ASCII)
_FLOAT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?\.inf", re.IGNORECASE)
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False, ".nan": math.nan}


@dataclass(slots=True)
class Scalar:
    """A value as it was written. `is_plain`: without quotes, so that it may be a number."""

    text: str
    line: int
    is_plain: bool = True


@dataclass(slots=True)
class Items:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Pairs:
    """Keys with their values, in the order of the file."""

    line: int
    pairs: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = Scalar | Items | Pairs


def parse(text: str, file_name: str) -> list[Node]:
    """The documents of a text. Raises SweepError that names the line: for what is no YAML, a key given twice, what is
    nested too deeply, too large, or refers to itself."""
    if len(text) > LARGEST_YAML_BYTES:
        message = f"the file has more than the {LARGEST_YAML_BYTES:,} bytes that are read of YAML; give it as JSON"
        raise SweepError(message, file=file_name)
    builder = _Builder(file_name)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.reader.ReaderError as error:
        line = text[: int(error.position)].count("\n") + 1
        message = f"this is no YAML: a character that YAML does not allow (line {line})"
        raise SweepError(message, file=file_name) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line_words = "" if mark is None else f" (line {mark.line + 1})"
        message = f"this is no YAML: {error.problem or 'it cannot be read'}{line_words}"
        raise SweepError(message, file=file_name) from error
    except RecursionError as error:
        raise SweepError("this is no YAML: nested too deeply", file=file_name) from error
    return builder.documents


class _Builder:
    """Makes nodes of events, without recursion: nothing in a file can exhaust a stack."""

    def __init__(self, file_name: str) -> None:
        self.documents: list[Node] = []
        self._file_name = file_name
        self._open: list[Items | Pairs] = []
        self._keys: list[str | None] = []
        self._merged: list[dict[str, Node]] = []
        self._anchors: dict[str, Node] = {}
        self._nodes = self._aliases = 0

    def take(self, event: yaml.Event) -> None:
        """One event of the parser."""
        mark = event.start_mark
        line = 0 if mark is None else mark.line + 1
        match event:
            case yaml.DocumentStartEvent():
                self._anchors = {}
            case yaml.ScalarEvent():
                node = Scalar(event.value, line, is_plain=event.implicit[0])
                self._name(event.anchor, node)
                self._put(node, line)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                made: Items | Pairs = Items(line) if isinstance(event, yaml.SequenceStartEvent) else Pairs(line)
                self._name(event.anchor, made)
                self._put(made, line)
                self._open.append(made)
                self._keys.append(None)
                self._merged.append({})
                if len(self._open) > DEEPEST:
                    raise self._fault("nested too deeply", line)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._keys.pop()
                closed, merged = self._open.pop(), self._merged.pop()
                if isinstance(closed, Pairs) and merged:
                    closed.pairs = {**merged, **closed.pairs}
            case yaml.AliasEvent():
                self._put(self._meant(event.anchor, line), line)

    def _name(self, anchor: str | None, node: Node) -> None:
        if anchor is not None:
            self._anchors[anchor] = node

    def _meant(self, anchor: str | None, line: int) -> Node:
        self._aliases += 1
        node = self._anchors.get(anchor or "")
        if node is None:
            raise self._fault(f"nothing is called &{anchor} before this line", line)
        if self._aliases > MOST_ALIASES or any(node is one for one in self._open):
            raise self._fault("too many aliases, or one within itself", line)
        return node

    def _put(self, node: Node, line: int) -> None:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise self._fault(f"more than {MOST_NODES:,} values", line)
        if not self._open:
            self.documents.append(node)
            return
        around = self._open[-1]
        if isinstance(around, Items):
            around.items.append(node)
            return
        key = self._keys[-1]
        if key is not None:
            self._keys[-1] = None
            self._fill(around, key, node)
        elif isinstance(node, Scalar):
            if node.text in around.pairs:
                raise self._fault(f"{quoted(node.text)} is given twice", line)
            self._keys[-1] = node.text
        else:
            raise self._fault("a key that is no plain word", line)

    def _fill(self, around: Pairs, key: str, node: Node) -> None:
        """`<<: *name` brings in what is not written in place."""
        if key != "<<":
            around.pairs[key] = node
            return
        for part in node.items if isinstance(node, Items) else [node]:
            if not isinstance(part, Pairs):
                raise self._fault("`<<` must refer to a mapping", node.line)
            self._merged[-1] = {**part.pairs, **self._merged[-1]}

    def _fault(self, words: str, line: int) -> SweepError:
        return SweepError(f"this YAML cannot be read: {words} (line {line})", file=self._file_name)


def plain(node: Node, file_name: str) -> Any:
    """The node as JSON would have it: dict, list, text, number, true, null. What aliases repeat is counted each time.

    Raises SweepError where that is too much.
    """
    return _plain(node, [0], file_name)


def _plain(node: Node, count: list[int], file_name: str) -> Any:
    count[0] += 1
    if count[0] > MOST_NODES:
        message = f"this YAML cannot be read: aliases make more than {MOST_NODES:,} values of it (line {node.line})"
        raise SweepError(message, file=file_name)
    if isinstance(node, Pairs):
        return {key: _plain(value, count, file_name) for key, value in node.pairs.items()}
    if isinstance(node, Items):
        return [_plain(value, count, file_name) for value in node.items]
    return _scalar(node)


def _scalar(node: Scalar) -> Any:
    if not node.is_plain:
        return node.text
    word = node.text.lower()
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(node.text):
        return int(node.text)
    if _FLOAT.fullmatch(node.text):
        return float(node.text)
    if _INFINITE.fullmatch(node.text):
        return -math.inf if word.startswith("-") else math.inf
    return node.text
