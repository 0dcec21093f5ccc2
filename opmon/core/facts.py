"""What a page says of the server itself: what identifies it, its limits and state, whether it sleeps, when it began.

Contains no load and no judgement of it; the names are data in `engines`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from opmon.core import engines
from opmon.core.engines import Engine, Kind
from opmon.core.engines.table import Constant, Info
from opmon.core.exposition import Page
from opmon.core.model import Lane, SeriesSample
from opmon.core.places import Places, Rows

AWAKE = "awake"
NOT_KNOWN = "not known"


class About:
    """One page of one engine, asked about the server. `places`: of that engine's series."""

    def __init__(self, page: Page, prefix: str, places: Places) -> None:
        self._page = page
        self._prefix = prefix
        self._places = places
        self._engine: Engine = places.engine

    def _rows(self, name: str) -> Rows:
        return self._page.samples.get(self._prefix + name, ())

    def identity(self) -> dict[str, str]:
        """What never changes while a server runs. Empty for a page with lines that could not be read."""
        found: dict[str, str] = {}
        if self._page.skipped:
            return found
        for info in self._engine.infos:
            self._read_info(info, info.identity, found)
        for constant in self._engine.constants:
            if constant.is_identity:
                read_constant(self._page, self._prefix, constant, found)
        for name in self._engine.created:
            for series, value in self._rows(name):
                key = self._places.key(series)
                found[f"created {key.model_name} {key.engine_index}".rstrip()] = repr(value)
        for counted in self._engine.counted:
            values = {series.labels.get(counted.label) for series, _ in self._rows(counted.name)}
            # A re-export creates series when they are first used: there, none yet is not none.
            if values or self._owns_process():
                found[counted.key] = str(len(values))
        return found

    def facts(self, samples: Iterable[SeriesSample]) -> dict[str, str]:
        """Limits and states; `samples`: the values of the page, for the bounds of its buckets."""
        found: dict[str, str] = {}
        for info in self._engine.infos:
            self._read_info(info, info.facts, found)
        for constant in self._engine.constants:
            read_constant(self._page, self._prefix, constant, found)
        if self._engine.sleep is not None and (states := set(self.sleep().values())):
            found[self._engine.sleep.key] = ",".join(sorted(states))
        marks = self._engine.marks
        found |= {fact: mark for names, fact, mark in marks if any(self._rows(name) for name in names)}
        samples = list(samples)
        for family, fact in self._engine.length_families:
            bounds = [one.buckets[family].bounds for one in samples if family in one.buckets]
            finite = [bound for some in bounds for bound in some if math.isfinite(bound)]
            if finite:
                found[fact] = f"{max(finite):.0f}"
        if doubles := self._doubles():
            found["alias_doubles"] = doubles
        return found

    def sleep(self) -> dict[str, str]:
        """The state of each engine by its index: `awake`, the name of its sleep, or `not known` where its processes
        contradict one another. Empty where the page says nothing of it."""
        asked = self._engine.sleep
        if asked is None:
            return {}
        part = asked.part
        awake: dict[str, set[bool]] = {}
        names: dict[str, set[str]] = {}
        for series, value in self._rows(part.name):
            state, index = series.labels.get(part.label, ""), self._places.key(series).engine_index
            if state in part.values and value in (0, 1):
                awake.setdefault(index, set()).add(value == 1)
            elif state not in part.values and value == 1:
                names.setdefault(index, set()).add(state)
        return {index: _state(awake.get(index, set()), names.get(index, set())) for index in {**awake, **names}}

    def process_start(self) -> float | None:
        """When the server's process began, if the page is the server's own and has one such value."""
        rows = self._page.samples.get(engines.PROCESS_START, [])
        if not self._owns_process() or len(rows) != 1 or not 0 < rows[0][1] < math.inf:
            return None
        return rows[0][1]

    def _doubles(self) -> str:
        """Two names of one signal with different values: one of them is not what it is taken for."""
        told = []
        for planned in engines.plan_of(self._engine.name, self._prefix, Lane.FULL):
            if len(planned.sources) < 2 or not planned.is_alias:
                continue
            over = max if planned.kind is Kind.RATIO else sum
            totals: dict[str, float] = {}
            for (part,) in planned.sources:
                rows = self._page.samples.get(part.sum_name if planned.kind is Kind.HISTOGRAM else part.name)
                if rows:
                    totals[part.name.removesuffix(part.suffix)] = over(value for _, value in rows)
            first = next(iter(totals.values()), 0.0)
            if not all(math.isclose(first, total, rel_tol=1e-6, abs_tol=1e-9) for total in totals.values()):
                told.append(", ".join(f"{name} is {total:g}" for name, total in totals.items()))
        return "; ".join(told)

    def _read_info(self, info: Info, wanted: Mapping[str, str], into: dict[str, str]) -> None:
        """Label values on which all series of an info gauge agree; vLLM writes None for what it does not know."""
        rows = [row for row in self._rows(info.name) if math.isfinite(row[1])]
        if info.latest and rows:
            rows = [max(rows, key=lambda row: row[1])]
        for key, label in wanted.items():
            values = {series.labels.get(label, "None") for series, _ in rows} - {"None", ""}
            if len(values) == 1:
                into[key] = values.pop()

    def _owns_process(self) -> bool:
        return self._prefix == self._engine.prefixes[0]


def read_constant(page: Page, prefix: str, constant: Constant, into: dict[str, str]) -> None:
    """A setting that is exposed as a gauge, where all of its series agree on a positive value."""
    part = constant.part
    rows = page.samples.get(prefix + part.name, ())
    values = {value for series, value in rows if not part.label or series.labels.get(part.label) in part.values}
    if len(values) == 1 and 0 < (value := values.pop()) < math.inf:
        into[constant.key] = f"{value:.0f}"


def _state(awake: set[bool], names: set[str]) -> str:
    """One state of what an engine's processes say: the sample of being awake decides, a sleep has its name."""
    if len(awake) > 1:
        return NOT_KNOWN
    return AWAKE if True in awake else ",".join(sorted(names)) or "asleep"
