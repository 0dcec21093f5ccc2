"""Whose page it is: which engine shows how many requests run, and what to do where several do.

Contains no values of engines but the totals by which two names of one server are told from two servers.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from opmon.core import engines
from opmon.core.engines import Engine, Kind
from opmon.core.engines.strangers import FOREIGN_CONSTANTS
from opmon.core.exposition import Page, Series
from opmon.core.model import Lane
from opmon.core.places import rows_of

_FOREIGN = frozenset(constant.part.name for constant in FOREIGN_CONSTANTS) | {engines.PROCESS_START}


class Named(NamedTuple):
    """An engine under one of its prefixes, with the name of its gauge of running requests where the page shows it."""

    engine: Engine
    prefix: str
    gauge: str


@dataclass(frozen=True, slots=True)
class Found:
    """Whose page it is. `refused`: why it cannot be read as that engine's alone, in words; `note`: what else is on it;
    `doubles`: the names of one signal that disagree, where the setting says to read the first all the same."""

    engine: Engine
    prefix: str
    note: str = ""
    refused: str = ""
    doubles: str = ""


class Recogniser:
    """Recognises pages as a target's setting allows: `auto`, or the name of an engine."""

    def __init__(self, setting: str) -> None:
        self._setting = setting
        self._allowed = {one.name for one in engines.candidates(setting)}

    def find(self, page: Page) -> Found | None:
        """The engine of a page: one that shows running requests, else the first that shows anything."""
        shown = _with_running(page)
        own = [one for one in shown if one.engine.name in self._allowed]
        if not own:
            return self._by_names(page)
        first = own[0]
        others = [one for one in shown if one.engine is not first.engine]
        if others and self._setting == engines.AUTO:
            return Found(first.engine, first.prefix, refused=_several_engines(first, others))
        notes = [f"{_listed(others)} is on the page too, and not read: the target's settings name {first.engine.name}"]
        return self._of_prefixes(page, own, notes if others else [])

    def others(self, page: Page) -> str:
        """The gauges of running requests of engines that the setting does not allow, in words; '' if there are none."""
        return _listed([one for one in _with_running(page) if one.engine.name not in self._allowed])

    def by_text(self, body: bytes) -> Engine | None:
        """The engine of which any family is in the text, with a value or only described."""
        return next((one for one in engines.candidates(self._setting) if _family(one.name).search(body)), None)

    def _of_prefixes(self, page: Page, own: list[Named], notes: list[str]) -> Found:
        """One engine, under one prefix or several: of one server they agree, of two they do not for long."""
        first, *more = own
        doubles = [words for one in more if (words := _difference(page, first, one))]
        if doubles and self._setting == engines.AUTO:
            return Found(first.engine, first.prefix, refused=_several_prefixes(first, more, doubles))
        if more:
            equal = "" if doubles else " the same"
            notes.append(f"the page shows{equal} under {_prefixes(own)}; {first.prefix} is read")
        return Found(first.engine, first.prefix, note="; ".join(notes), doubles="; ".join(doubles))

    def _by_names(self, page: Page) -> Found | None:
        own = [name for name in page.samples if name not in _FOREIGN]
        return next(
            (
                Found(engine, prefix)
                for engine in engines.candidates(self._setting)
                for prefix in engine.prefixes
                if any(name.startswith(prefix) for name in own)
            ),
            None,
        )


def running_rows(page: Page, engine: Engine, prefix: str) -> list[tuple[Series, float]]:
    """The series of an engine's gauges of running requests."""
    sources = engines.running_of(engine.name, prefix)
    return [row for source in sources for part in source for row in page.samples.get(part.name, ())]


def _with_running(page: Page) -> list[Named]:
    """Every engine and prefix whose gauge of running requests is on the page, in the order of the table."""
    found: dict[tuple[str, str], Named] = {}
    for engine, prefix, name in _gauges():
        if name in page.samples:
            found.setdefault((engine.name, prefix), Named(engine, prefix, name))
    return list(found.values())


@lru_cache(maxsize=1)
def _gauges() -> tuple[tuple[Engine, str, str], ...]:
    return tuple(
        (engine, prefix, part.name)
        for engine in engines.ENGINES
        for prefix in engine.prefixes
        for source in engines.running_of(engine.name, prefix)
        for part in source
    )


@lru_cache(maxsize=64)
def _family(engine: str) -> re.Pattern[bytes]:
    """A line that begins with a family of the engine, or describes one."""
    prefixes = b"|".join(re.escape(prefix.encode()) for prefix in engines.BY_NAME[engine].prefixes)
    return re.compile(rb"^(?:# (?:HELP|TYPE) )?(?:%s)\w" % prefixes, re.MULTILINE)


def _difference(page: Page, first: Named, other: Named) -> str:
    """What two prefixes of one engine say differently, in words; '' where they agree.

    Counters are compared too: gauges agree whenever two servers are idle, and what is told apart only while busy would
    leave nothing but idle time in the sample.
    """
    mine, theirs = _totals(page, first), _totals(page, other)
    told = [
        f"{mine[name][0]} is {mine[name][1]:g}, {theirs[name][0]} is {theirs[name][1]:g}"
        for name in mine
        if name in theirs and not math.isclose(mine[name][1], theirs[name][1], rel_tol=1e-6, abs_tol=1e-9)
    ]
    return told[0] if told else ""


def _totals(page: Page, named: Named) -> dict[str, tuple[str, float]]:
    """Canonical level or counter of a pulse -> exposed name and its total over all series."""
    found: dict[str, tuple[str, float]] = {}
    for planned in engines.plan_of(named.engine.name, named.prefix, Lane.PULSE):
        if planned.kind not in (Kind.LEVEL, Kind.COUNTER):
            continue
        source = next((one for one in planned.sources if all(part.name in page.samples for part in one)), ())
        if source:
            total = math.fsum(value for part in source for _, value in rows_of(page, part, part.name))
            found[planned.canonical] = (source[0].name, total)
    return found


def _several_engines(first: Named, others: list[Named]) -> str:
    names = dict.fromkeys(one.engine.name for one in others)
    either = " or ".join(f"`engine: {name}`" for name in (first.engine.name, *names))
    return (
        f"the page shows requests of several engines, {_listed([first, *others])}: watch each by itself, or say which "
        f"one to read ({either} in the target's settings)"
    )


def _several_prefixes(first: Named, more: list[Named], doubles: list[str]) -> str:
    return (
        f"the page shows {first.engine.name} under {_prefixes([first, *more])}, and they disagree ({'; '.join(doubles)})"
        f": two servers, or a copy that comes late; watch the server itself, or say `engine: {first.engine.name}` in the "
        f"target's settings to read {first.prefix} alone"
    )


def _listed(named: list[Named]) -> str:
    return " and ".join(f"{one.engine.name} ({one.gauge})" for one in named)


def _prefixes(named: list[Named]) -> str:
    return " and ".join(dict.fromkeys(one.prefix for one in named))
