"""How a page of metrics is put together as text: families, their lines, and the filter by sample name.

Contains no family and no number of its own. The filter does what the Python client's ASGI application does with
`name[]`: single samples of a family remain, with the family's header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.utils import floatToGoString

from opmon.simulator.engine import Engine, Gauges, Reading

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"
# A number as Go, and so Prometheus, writes it.
number: Callable[[float], str] = floatToGoString


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one scrape reads of one engine, taken once for all lines."""

    engine: Engine
    gauges: Gauges
    reading: Reading


Read = Callable[[Scrape], Sequence[float]]
Values = Callable[[Sequence[Scrape], float], Sequence[float]]  # of all engines, and the uptime in seconds


@dataclass(frozen=True, slots=True)
class Lines:
    """Sample lines that get their values together: the text before each value, and whence the values come."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    values: Values


@dataclass(frozen=True, slots=True)
class Family:
    """HELP and TYPE, and the lines below them."""

    header: str
    lines: tuple[Lines, ...]


@dataclass(slots=True)
class _Plan:
    """The families that a set of names leaves; each line group with the indexes that remain."""

    families: list[tuple[str, list[tuple[Lines, Sequence[int]]]]] = field(default_factory=list)


class Page:
    """The families of one process, ready to be written at any instant."""

    def __init__(self, engines: Sequence[Engine], families: Sequence[Family]) -> None:
        self._engines = tuple(engines)
        self._families = tuple(families)
        self._plans: dict[tuple[str, ...] | None, _Plan] = {}

    def text(self, uptime_seconds: float, names: Sequence[str] | None = None) -> bytes:
        """The page, UTF-8; with `names` only samples with one of these names. Unknown names leave nothing."""
        key = None if names is None else tuple(names)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(self._families, key)
        scrapes = [Scrape(engine, engine.gauges(), engine.read()) for engine in self._engines]
        parts: list[str] = []
        for header, groups in plan.families:
            parts.append(header)
            for lines, kept in groups:
                values = lines.values(scrapes, uptime_seconds)
                parts.extend(f"{lines.prefixes[index]}{number(values[index])}\n" for index in kept)
        return "".join(parts).encode()


def _plan(families: Iterable[Family], names: tuple[str, ...] | None) -> _Plan:
    plan = _Plan()
    for family in families:
        groups: list[tuple[Lines, Sequence[int]]] = []
        for lines in family.lines:
            kept = [index for index, name in enumerate(lines.names) if names is None or name in names]
            if kept:
                groups.append((lines, kept))
        if groups or names is None:
            plan.families.append((family.header, groups))
    return plan


def label_text(labels: Mapping[str, str]) -> str:
    """Labels as text, sorted by name, escaped."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in sorted(labels.items())) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def header(name: str, kind: str, text: str) -> str:
    """The HELP and TYPE lines."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
