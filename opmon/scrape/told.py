"""What a server tells of itself in JSON beside its metrics, found as the engine's table says.

Contains no engine and no HTTP. An answer may have any shape: what is not where it should be is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opmon.core.engines.table import Asked, Told

# More items of a list than this are no list of engines or models.
MOST_ITEMS = 10_000
_EVERY = "*"
_ANYWHERE = "**"


@dataclass(slots=True)
class Hearing:
    """What was told so far. The first answer to a question holds; of several limits the smallest."""

    version: str | None = None
    models: tuple[str, ...] = ()
    max_num_seqs: int | None = None
    ceiling_source: str = ""
    facts: dict[str, str] = field(default_factory=dict)

    def wants(self, asked: Asked) -> bool:
        """Whether a path could tell something that is not known yet."""
        if asked.lists_models:
            return not self.models or "max_model_len" not in self.facts
        return any(not self._knows(told.key) for told in asked.tells)

    def take(self, asked: Asked, answer: Any) -> None:
        """Takes in the answer of a path."""
        if asked.lists_models:
            self._take_models(answer)
        limits: list[int] = []
        for told in asked.tells:
            values = list(found(answer, told))
            if told.key == "max_num_seqs":
                limits += [limit for value in values if (limit := _limit(value, told, answer)) is not None]
            elif values and not self._knows(told.key):
                self.hear(told.key, values[0], asked.path)
        if limits and self.max_num_seqs is None:
            self.hear("max_num_seqs", min(limits), asked.path)

    def hear(self, key: str, value: Any, source: str) -> None:
        """Takes over one value, if it is of a kind that the key can have."""
        if key == "max_num_seqs":
            number = _positive(value)
            if number is not None:
                self.max_num_seqs, self.ceiling_source = number, source.partition("?")[0]
        elif key == "version":
            self.version = value if isinstance(value, str) and value else self.version
        elif key == "models":
            self.models = (value,) if isinstance(value, str) and value else self.models
        elif (number := _positive(value)) is not None:
            self.facts[key] = str(number)

    def _knows(self, key: str) -> bool:
        known = {"version": self.version, "models": self.models, "max_num_seqs": self.max_num_seqs}
        return bool(known[key]) if key in known else key in self.facts

    def _take_models(self, answer: Any) -> None:
        """Served models (an adapter names its parent and is left out), and their context length where all agree."""
        listed = answer.get("data") if isinstance(answer, dict) else None
        models = [one for one in listed[:MOST_ITEMS] if isinstance(one, dict)] if isinstance(listed, list) else []
        models = [one for one in models if isinstance(one.get("id"), str) and not one.get("parent")]
        lengths = {one["max_model_len"] for one in models if _positive(one.get("max_model_len")) is not None}
        self.models = self.models or tuple(one["id"] for one in models)
        if len(lengths) == 1:
            self.facts.setdefault("max_model_len", str(lengths.pop()))


def found(answer: Any, told: Told) -> Iterator[Any]:
    """The values in an answer at the place that a table names; `**name` looks everywhere, in text as well."""
    if told.at.startswith(_ANYWHERE):
        yield from _anywhere(answer, told.at.removeprefix(_ANYWHERE))
    else:
        yield from _at(answer, told.at.split("."))


def _at(item: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        yield item
    elif path[0] == _EVERY:
        for one in item[:MOST_ITEMS] if isinstance(item, list) else ():
            yield from _at(one, path[1:])
    elif isinstance(item, dict) and item.get(path[0]) is not None:
        yield from _at(item[path[0]], path[1:])


_OF_ANOTHER_MODEL = re.compile("specul|draft")


def _anywhere(answer: Any, name: str) -> Iterator[Any]:
    """A name, but for what is said of a draft model, in a tree of fields, or in a text such as `Config(name=8, ...)`: its shape differs between versions."""
    in_text = re.compile(rf"\b{re.escape(name)}['\"]?\s*[=:]\s*(\d+)(?![\w.])")
    waiting = [answer]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            if _positive(item.get(name)) is not None:
                yield item[name]
            waiting += [value for key, value in item.items() if not _OF_ANOTHER_MODEL.search(str(key))]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str) and (match := in_text.search(item)):
            yield int(match[1])


def _limit(value: Any, told: Told, answer: Any) -> int | None:
    """A limit per engine. Where it is shared and the number of engines is not told, one engine has it alone."""
    limit = _positive(value)
    if limit is None or not told.shared_by:
        return limit
    engines = next(iter(found(answer, Told("", told.shared_by))), None)
    return max(limit // (_positive(engines) or 1), 1)


def _positive(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:18])
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
