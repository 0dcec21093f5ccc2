"""Reads a hand-made sweep in YAML: `defaults`, `configs` and `cells`, with the columns of a table as keys.

Contains the layers (defaults, then the configuration's own, then the cell) and no meaning of a column: that is `rows`.
A fault is a SweepError that names the line and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from opmon.core.cells import Cell
from opmon.core.names import escaped, quoted
from opmon.errors import SweepError
from opmon.sweeps.columns import COLUMNS, plain_name
from opmon.sweeps.document import Document
from opmon.sweeps.numbers import style_of
from opmon.sweeps.plausible import settled
from opmon.sweeps.reading import Given, Read, Reader
from opmon.sweeps.rows import MOST_HEADER, UNKNOWN_WORDS, Setting, check_columns, is_number, known_column, read_cell
from opmon.sweeps.table import refuse_too_many
from opmon.sweeps.yaml_values import Items, Node, Pairs, Scalar, parse

VERSION = "1"
MOST_KEPT = 50
MOST_KEPT_CHARACTERS = 1_000
FIRST_ROLES, LAST_ROLES = ("old", "reference", "baseline"), ("new", "candidate")
_CELLS = re.compile(r"^(cells\s*:|-\s)", re.MULTILINE)
_FIGURE = re.compile(r"\b(aggregate|per_stream|decode|output_throughput)\w*[\"']?\s*:")
_NUMBER = re.compile(r"[+-]?\d[\d.]*")
_KEYS = ("version", "defaults", "configs", "cells")
Layer = dict[str, tuple[str, int]]
"""Text and line by name: a column of `COLUMNS`, or a name of the file's own in which a dot stands for one level down."""


def read_yaml(text: str, file_name: str, given: Given) -> Read:
    """The cells of a hand-made sweep. Raises SweepError."""
    documents = parse(text, file_name)
    if len(documents) != 1:
        raise SweepError(f"the file holds {len(documents)} YAML documents, and one is read", file=file_name)
    root, setting = documents[0], Setting(file_name, given.configuration, given.content)
    if isinstance(root, Items):
        root = Pairs(root.line, {"cells": root})
    if not isinstance(root, Pairs):
        raise SweepError("the file must be a mapping with `cells`", file=file_name)
    _check_top(root, setting)
    cells = _listed(root.pairs.get("cells"), setting)
    refuse_too_many(len(cells), file_name)
    defaults = _layer(root.pairs.get("defaults"), "defaults", setting)
    configs = _configs(root.pairs.get("configs"), setting)
    rows = [(node.line, _merged(node, defaults, configs, setting)) for node in cells]
    names = {name for _, layer in rows for name in layer}
    check_columns(names & COLUMNS.keys(), names - COLUMNS.keys(), setting)
    setting = replace(setting, style=style_of(text for _, layer in rows for text in _numbers(layer)))
    made = [(_role_rank(layer), _cell(line, layer, setting)) for line, layer in rows]
    made.sort(key=lambda pair: pair[0])
    return Read(settled([cell for _, cell in made], setting.notes), tuple(dict.fromkeys(setting.notes)))


def _numbers(layer: Layer) -> list[str]:
    return [text for name, (text, _) in layer.items() if name in COLUMNS and is_number(name)]


def _check_top(root: Pairs, setting: Setting) -> None:
    version = root.pairs.get("version")
    if version is not None and not (isinstance(version, Scalar) and version.text.strip() == VERSION):
        raise _fault("this version of the form is not known; write `version: 1`", "version", version, setting)
    unused = [escaped(key)[:MOST_HEADER] for key in root.pairs if key not in _KEYS]
    if unused:
        setting.notes.append(f"keys that are not used: {', '.join(unused)}")


def _listed(node: Node | None, setting: Setting) -> list[Pairs]:
    """The cells. Raises SweepError for none, and for one that is no mapping."""
    if not isinstance(node, Items) or not node.items:
        raise _fault("must be a list with a mapping for each measurement", "cells", node, setting)
    for item in node.items:
        if not isinstance(item, Pairs):
            raise _fault("each cell must be a mapping, such as {config: a, concurrency: 1}", "cells", item, setting)
    return [item for item in node.items if isinstance(item, Pairs)]


def _configs(node: Node | None, setting: Setting) -> dict[str, Layer] | None:
    if node is None or _is_unknown(node):
        return None
    if not isinstance(node, Pairs):
        raise _fault("must be a mapping from names to what is true of each", "configs", node, setting)
    return {name: _layer(value, f"configs.{name}", setting) for name, value in node.pairs.items()}


def _merged(node: Pairs, defaults: Layer, configs: dict[str, Layer] | None, setting: Setting) -> Layer:
    """The cell over its configuration over the defaults. What a layer says, null too, goes before those below it."""
    own = _layer(node, "cells", setting)
    below = _over(defaults, {})
    text, line = (own.get("config") or defaults.get("config") or ("", node.line))[:2]
    if configs is not None and text.strip() and text.lower() not in UNKNOWN_WORDS:
        if text not in configs:
            message = f"there is no {quoted(text)} among configs ({', '.join(map(quoted, configs)) or 'none'})"
            raise SweepError(message, file=setting.file_name, row=line, field="config")
        below = _over(configs[text], below)
    return _over(own, below)


def _over(upper: Layer, lower: Layer) -> Layer:
    fields = {COLUMNS[name].field for name in upper if name in COLUMNS}
    kept = {name: value for name, value in lower.items() if name not in COLUMNS or COLUMNS[name].field not in fields}
    return {**kept, **upper}


def _layer(node: Node | None, place: str, setting: Setting) -> Layer:
    """The texts of a mapping by the names of their columns. Raises SweepError for what is no mapping, for a name that
    may mean several things, and for a column that holds more than one value."""
    if node is None or _is_unknown(node):
        return {}
    if not isinstance(node, Pairs):
        raise _fault("must be a mapping", place, node, setting)
    found: Layer = {}
    for key, value in node.pairs.items():
        line = value.line
        if _NUMBER.fullmatch(key.strip()):
            raise _fault("a number stands where a key should; is it behind a decimal comma?", key, value, setting)
        name = known_column(key, setting.file_name, line)
        if name is None:
            for kept, text in _kept(value, key):
                found[kept] = (text, line)
            continue
        if not isinstance(value, Scalar):
            raise _fault("must be a single value", key, value, setting)
        if any(other in COLUMNS and COLUMNS[other].field == COLUMNS[name].field for other in found):
            raise _fault(f"two keys mean {name}", key, value, setting)
        found[name] = (value.text, line)
    if len(found) > MOST_KEPT:
        raise _fault(f"has more than {MOST_KEPT} keys", place, node, setting)
    return found


def _kept(node: Node, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """What opmon does not know, flat: `speculative: {method: draft}` is `speculative.method`."""
    name = escaped(name)[:MOST_HEADER]
    if isinstance(node, Scalar):
        if not _is_unknown(node):
            yield name, node.text[:MOST_KEPT_CHARACTERS]
    elif isinstance(node, Items):
        texts = [item.text for item in node.items if isinstance(item, Scalar)]
        yield name, ", ".join(texts)[:MOST_KEPT_CHARACTERS]
    elif depth < 3:
        for key, value in list(node.pairs.items())[: MOST_KEPT + 1]:
            yield from _kept(value, f"{name}.{key}", depth + 1)


def _cell(line: int, layer: Layer, setting: Setting) -> Cell:
    known = {name: text for name, (text, _) in layer.items() if name in COLUMNS}
    extra = {name: text for name, (text, _) in layer.items() if name not in COLUMNS}
    return read_cell(known, extra, line, setting)


def _role_rank(layer: Layer) -> int:
    """The configuration that is called old comes first: the first one is the reference where nobody says otherwise."""
    role = next((text.strip().lower() for name, (text, _) in layer.items() if plain_name(name) == "role"), "")
    return 0 if role in FIRST_ROLES else 2 if role in LAST_ROLES else 1


def _is_unknown(node: Node) -> bool:
    return isinstance(node, Scalar) and node.is_plain and node.text.strip().lower() in UNKNOWN_WORDS


def _fault(words: str, name: str, node: Node | None, setting: Setting) -> SweepError:
    return SweepError(words, file=setting.file_name, row=None if node is None else node.line, field=name)


def _recognises(document: Document) -> bool:
    if document.is_json:
        return False
    head = document.head
    return bool(_CELLS.search(head) and re.search(r"\b(concurrency|conc|c|request_rate)[\"']?\s*:", head)) and bool(
        _FIGURE.search(head)
    )


def _read(document: Document, given: Given) -> Read:
    return read_yaml(document.text, document.file_name, given)


YAML_TABLE = Reader(
    "yaml",
    1,
    "a YAML file with defaults, configs and cells, keys as the columns of a table",
    _recognises,
    _read,
    is_by_hand=True,
)
