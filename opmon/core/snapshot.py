"""One exposition, understood: the values of every engine of every model, what identifies the server, what is missing.

A page whose values cannot be used is still an answer: it becomes a `Snapshot` with a `fault`. Only a document that is
no exposition at all raises `ScrapeError`, for then nothing is known of the server.
Contains no names of metrics (they are data in `engines`) and no comparison between two scrapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opmon.core import engines
from opmon.core.engines import Engine, Kind, Located, Planned
from opmon.core.engines.strangers import FOREIGN_CONSTANTS
from opmon.core.engines.table import Constant, Info
from opmon.core.exposition import MOST_HEADS, Page, Reader, Series, parse_value
from opmon.core.model import Buckets, Lane, SeriesKey, SeriesSample, Snapshot
from opmon.core.refusals import no_running, refuse_documents, refuse_unreadable, skipped_words, stranger_on
from opmon.errors import ScrapeError

__all__ = ["MOST_REQUESTS", "ScrapeError", "SnapshotReader", "read_snapshot"]

# A count of requests beyond this is a broken number; it would not fit the database's integers either.
MOST_REQUESTS = 2**31 - 1

Rows = Sequence[tuple[Series, float]]


class _Place(NamedTuple):
    """Where a series belongs: to which engine of which model; where it has a folded label, its other labels; and the
    bound of a bucket."""

    key: SeriesKey
    rest: frozenset[tuple[str, str]] | None
    bound: float | None


class SnapshotReader:
    """Reads the pages of one target, or of several of one fleet; remembers the line heads that it has understood.

    `engine`: `auto` or a name in `engines.ENGINES`. Not safe for two threads at once.
    """

    def __init__(self, engine: str = engines.AUTO) -> None:
        self._setting = engine
        self._pairs = [
            (one, prefix, engines.running_of(one.name, prefix))
            for one in engines.candidates(engine)
            for prefix in one.prefixes
        ]
        self._pages = {lane: Reader(engines.wanted_names(engine, lane)) for lane in Lane}
        self._keys: dict[tuple[str, str], SeriesKey] = {}
        self._places: dict[Series, _Place] = {}
        self._placed_for = ""

    def read(
        self, body: bytes, *, content_type: str | None = None, lane: Lane = Lane.FULL, version: str | None = None
    ) -> Snapshot:
        """What the page says. Raises ScrapeError (`content_type` or `parse`) if it is no exposition.

        `version`, where known, becomes part of the identity and undoes what that version is known to mix up.
        """
        refuse_documents(body, content_type)
        page = self._pages[lane].read(body)
        refuse_unreadable(page, content_type)
        found = self._identify(page)
        stranger = stranger_on(page, self._running(page, found))
        if stranger is not None and stranger.is_refused:
            return _no_engine(page, "not_an_engine", stranger.words)
        if found is None:
            return _no_engine(page, *no_running(body, page, None, self._setting))
        engine, prefix = found
        reading = _Reading(page, engine, prefix, lane, version, self._keys, self._places_for(engine))
        reading.run()
        if stranger is not None:
            reading.facts["note"] = stranger.words
        if "running" in reading.missing:
            reading.faults.insert(0, no_running(body, page, engine, self._setting))
        return reading.snapshot()

    def _identify(self, page: Page) -> tuple[Engine, str] | None:
        """Engine and prefix of a page: the first that shows running requests, else the first that shows anything."""
        for engine, prefix, running in self._pairs:
            if any(part.name in page.samples for source in running for part in source):
                return engine, prefix
        own = [name for name in page.samples if name not in _FOREIGN]
        return next(
            ((engine, prefix) for engine, prefix, _ in self._pairs if any(name.startswith(prefix) for name in own)),
            None,
        )

    def _running(self, page: Page, found: tuple[Engine, str] | None) -> list[tuple[Series, float]]:
        if found is None:
            return []
        sources = engines.running_of(found[0].name, found[1])
        return [row for source in sources for part in source for row in page.samples.get(part.name, ())]

    def _places_for(self, engine: Engine) -> dict[Series, _Place]:
        """The places that are remembered, made anew for another engine and when there are too many."""
        if engine.name != self._placed_for or len(self._places) >= MOST_HEADS:
            self._places = {}
            self._placed_for = engine.name
        return self._places


def read_snapshot(
    body: bytes,
    *,
    content_type: str | None = None,
    engine: str = engines.AUTO,
    lane: Lane = Lane.FULL,
    version: str | None = None,
) -> Snapshot:
    """One page, read once; see `SnapshotReader.read`, which is several times quicker for the pages of one server."""
    return SnapshotReader(engine).read(body, content_type=content_type, lane=lane, version=version)


@dataclass(slots=True)
class _Reading:
    """One page on its way to a snapshot."""

    page: Page
    engine: Engine
    prefix: str
    lane: Lane
    version: str | None
    keys: dict[tuple[str, str], SeriesKey]
    places: dict[Series, _Place]
    series: dict[SeriesKey, SeriesSample] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Reads every signal of the lane, and in a full scrape what identifies the server."""
        renamed = self.engine.swapped.get(self.version or "", {})
        for planned in engines.plan_of(self.engine.name, self.prefix, self.lane):
            self._read_signal(planned, renamed.get(planned.canonical, planned.canonical))
        if self.engine.sleep is not None:
            self._read_sleep(self.prefix + self.engine.sleep.part.name)
        if self.version is not None:
            self.identity["version"] = self.version
        if self.lane is Lane.FULL:
            self.missing += self.engine.absent
            self._read_identity()
            self._read_facts()
            self._read_doubles()

    def snapshot(self) -> Snapshot:
        """The values read so far, with the first fault."""
        fault, detail = self.faults[0] if self.faults else (None, skipped_words(self.page))
        return Snapshot(
            engine=self.engine.name,
            series=self.series,
            process_start_seconds=self._process_start(),
            identity=self.identity,
            facts=self.facts,
            missing=tuple(self.missing),
            skipped_lines=self.page.skipped,
            fault=fault,
            detail=detail,
        )

    # --- series -------------------------------------------------------------------------------------------------------

    def _rows(self, name: str) -> Rows:
        return self.page.samples.get(self.prefix + name, ())

    def _part_rows(self, part: Located, name: str) -> Rows:
        """The series of one part of a source: of its name, and with the label that it asks for."""
        rows = self.page.samples.get(name, ())
        if not part.label:
            return rows
        return [row for row in rows if row[0].labels.get(part.label) in part.values]

    def _place(self, series: Series) -> _Place:
        place = self.places.get(series)
        if place is None:
            labels, engine = series.labels, self.engine
            pair = (labels.get(engine.model_label, ""), labels.get(engine.index_label, ""))
            key = self.keys.get(pair)
            if key is None:
                key = self.keys[pair] = SeriesKey(*pair)
            rest = None
            if not engine.folded_labels.isdisjoint(labels):
                others = [item for item in labels.items() if item[0] not in engine.folded_labels]
                rest = frozenset([("", ""), *others])  # never empty: it also says that something is folded
            place = self.places[series] = _Place(key, rest, _bound(labels.get("le")))
        return place

    def _key(self, series: Series) -> SeriesKey:
        return (self.places.get(series) or self._place(series)).key

    def _fold(self, rows: Rows) -> Rows:
        """Of series that differ only in folded labels (processes, ranks that report the same) the largest."""
        known = self.places.get
        if not any([(known(row[0]) or self._place(row[0]))[1] for row in rows]):  # noqa: C419  # quicker for a few
            return rows
        largest: dict[_Place, tuple[Series, float]] = {}
        for row in rows:
            place = self._place(row[0])
            if place.rest is None:  # without a folded label it still differs by its others
                place = place._replace(rest=frozenset([("", ""), *row[0].labels.items()]))
            if place not in largest or row[1] > largest[place][1]:
                largest[place] = row
        return list(largest.values())

    def _sample(self, key: SeriesKey) -> SeriesSample:
        sample = self.series.get(key)
        if sample is None:
            sample = self.series[key] = SeriesSample()
        return sample

    def _is_incomplete(self, rows: Rows) -> bool:
        """Whether the page has a line of this name that could not be read: a sum without it would be too small."""
        return bool(self.page.skipped_names and rows) and rows[0][0].name in self.page.skipped_names

    # --- signals ------------------------------------------------------------------------------------------------------

    def _read_signal(self, planned: Planned, canonical: str) -> None:
        kind = planned.kind
        source = next((one for one in planned.sources if self._is_present(one, kind)), None)
        if source is None or any(self.page.samples.get(name) for name in planned.voided_by):
            if not planned.optional:
                self.missing.append(canonical)
        elif kind is Kind.HISTOGRAM:
            (part,) = source
            self._read_counter(canonical + "_sum", [self._part_rows(part, part.sum_name)])
            self._read_counter(canonical + "_count", [self._part_rows(part, part.count_name)])
            if self.lane is Lane.FULL:
                self._read_buckets(canonical, self._part_rows(part, part.bucket_name))
        elif kind is Kind.COUNTER:
            self._read_counter(canonical, [self._part_rows(part, part.name) for part in source])
        elif kind is Kind.LEVEL:
            self._read_level(canonical, [self._part_rows(part, part.name) for part in source])
        else:
            self._read_ratio(canonical, [row for part in source for row in self._part_rows(part, part.name)])

    def _is_present(self, source: tuple[Located, ...], kind: Kind) -> bool:
        """Whether all names of a source are on the page. A gauge must show the label asked for, too; a counter of which
        one label value was never counted is there, and at none."""
        samples = self.page.samples
        for part in source:
            if part.name not in samples:
                return False
            if part.label and kind in (Kind.LEVEL, Kind.RATIO) and not self._part_rows(part, part.name):
                return False
        return True

    def _read_level(self, canonical: str, parts: Iterable[Rows]) -> None:
        """A gauge of requests. One unusable value makes the sum over its labels unknown, and is a fault of the page."""
        spoilt: set[SeriesKey] = set()
        totals: dict[SeriesKey, float] = {}
        name = ""
        for rows in parts:
            if self._is_incomplete(rows):
                self.faults.append(("not_finite", skipped_words(self.page)))
                spoilt.update(self._key(series) for series, _ in rows)
            for series, value in rows:
                name = series.name
                fault = _level_fault(series, value, self.page)
                if fault is not None:
                    self.faults.append(fault)
                    spoilt.add(self._key(series))
            for series, value in self._fold(rows):
                key = self._key(series)
                totals[key] = totals.get(key, 0) + value
        for key, total in totals.items():
            sample = self._sample(key)
            if key in spoilt:
                continue
            if total > MOST_REQUESTS:
                self.faults.append(("not_finite", f"{name} adds up to {total:g}, no number of requests"))
            else:
                setattr(sample, canonical, round(total))

    def _read_ratio(self, canonical: str, rows: Rows) -> None:
        largest: dict[SeriesKey, float] = {}
        for series, value in rows:
            if math.isfinite(value) and value >= 0:
                key = self._key(series)
                largest[key] = max(value, largest.get(key, value))
        for key, value in largest.items():
            setattr(self._sample(key), canonical, value)

    def _read_counter(self, canonical: str, parts: Iterable[Rows]) -> None:
        """A counter, summed over its parts and further labels; unknown where one of its values is unusable."""
        spoilt: set[SeriesKey] = set()
        duplicates = self.page.duplicates
        for rows in parts:
            incomplete = self._is_incomplete(rows)
            for series, value in self._fold(rows):
                key = self._key(series)
                counters = self._sample(key).counters
                total = counters.get(canonical, 0.0) + value
                if incomplete or not math.isfinite(total) or series in duplicates:
                    spoilt.add(key)
                else:
                    counters[canonical] = total
        for key in spoilt:
            self.series[key].counters.pop(canonical, None)

    def _read_buckets(self, family: str, rows: Rows) -> None:
        """Cumulative buckets with the page's own bounds, summed over further labels that have the same bounds."""
        counts: dict[SeriesKey, dict[float, list[float]]] = {}
        duplicates = self.page.duplicates
        of_key: SeriesKey | None = None
        by_bound: dict[float, list[float]] = {}
        for series, value in self._fold(rows):
            key, _, bound = self.places[series]
            if bound is None or value - value != 0 or series in duplicates:  # the difference: not finite
                continue
            if key is not of_key:
                of_key, by_bound = key, counts.setdefault(key, {})
            if bound in by_bound:
                by_bound[bound].append(value)
            else:
                by_bound[bound] = [value]
        for key, by_bound in counts.items():
            bounds = tuple(sorted(by_bound))
            if bounds[-1] == math.inf and len(set(map(len, by_bound.values()))) == 1:
                buckets = Buckets(bounds, tuple([sum(by_bound[bound]) for bound in bounds]))
                if all(map(math.isfinite, buckets.counts)):
                    self._sample(key).buckets[family] = buckets

    def _read_sleep(self, name: str) -> None:
        """While an engine sleeps its gauges are left as they were: they say nothing of this time."""
        sleep = self.engine.sleep
        for series, value in self.page.samples.get(name, ()):
            if sleep is not None and value == 0 and series.labels.get(sleep.part.label) in sleep.part.values:
                engine = self._key(series).engine_index
                self.faults.insert(0, ("asleep", f"engine {engine or '(one)'} sleeps; its gauges are from before"))
                return

    # --- the server -----------------------------------------------------------------------------------------------------

    def _read_identity(self) -> None:
        """What never changes while a server runs. Not taken from a page with lines that could not be read."""
        if self.page.skipped:
            return
        for info in self.engine.infos:
            self._read_info(info, info.identity, self.identity)
        for constant in self.engine.constants:
            if constant.is_identity:
                _read_constant(self.page, self.prefix, constant, self.identity)
        for name in self.engine.created:
            for series, value in self._rows(name):
                key = self._key(series)
                self.identity[f"created {key.model_name} {key.engine_index}".rstrip()] = repr(value)
        for counted in self.engine.counted:
            values = {series.labels.get(counted.label) for series, _ in self._rows(counted.name)}
            # A re-export creates series when they are first used: there, none yet is not none.
            if values or self._owns_process():
                self.identity[counted.key] = str(len(values))

    def _read_doubles(self) -> None:
        """Two names of one signal with different values: one of them is not what it is taken for."""
        told = []
        for planned in engines.plan_of(self.engine.name, self.prefix, self.lane):
            if len(planned.sources) < 2 or not planned.is_alias:
                continue
            over = max if planned.kind is Kind.RATIO else sum
            totals: dict[str, float] = {}
            for (part,) in planned.sources:
                rows = self.page.samples.get(part.sum_name if planned.kind is Kind.HISTOGRAM else part.name)
                if rows:
                    totals[part.name.removesuffix(part.suffix)] = over(value for _, value in rows)
            first = next(iter(totals.values()), 0.0)
            if not all(math.isclose(first, total, rel_tol=1e-6, abs_tol=1e-9) for total in totals.values()):
                told.append(", ".join(f"{name} is {total:g}" for name, total in totals.items()))
        if told:
            self.facts["alias_doubles"] = "; ".join(told)

    def _read_facts(self) -> None:
        for info in self.engine.infos:
            self._read_info(info, info.facts, self.facts)
        for constant in self.engine.constants:
            _read_constant(self.page, self.prefix, constant, self.facts)
        for state in self.engine.states:
            names = {series.labels.get(state.label, "") for series, value in self._rows(state.name) if value == 1}
            if names:
                self.facts[state.key] = ",".join(sorted(names))
        for marks, fact, mark in self.engine.marks:
            if any(self._rows(name) for name in marks):
                self.facts[fact] = mark
        for family, fact in self.engine.length_families:
            bounds = [one.buckets[family].bounds for one in self.series.values() if family in one.buckets]
            finite = [bound for some in bounds for bound in some if math.isfinite(bound)]
            if finite:
                self.facts[fact] = f"{max(finite):.0f}"

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
        return self.prefix == self.engine.prefixes[0]

    def _process_start(self) -> float | None:
        """When the server's process began, if the page is the server's own and has one such value."""
        rows = self.page.samples.get(engines.PROCESS_START, [])
        if not self._owns_process() or len(rows) != 1 or not 0 < rows[0][1] < math.inf:
            return None
        return rows[0][1]


_FOREIGN = frozenset(constant.part.name for constant in FOREIGN_CONSTANTS) | {engines.PROCESS_START}


def _no_engine(page: Page, fault: str, words: str) -> Snapshot:
    """The snapshot of an answer that is no engine's: up, and no load known. Never zero load."""
    facts: dict[str, str] = {}
    for constant in FOREIGN_CONSTANTS:
        _read_constant(page, "", constant, facts)
    return Snapshot(engine="", series={}, facts=facts, skipped_lines=page.skipped, fault=fault, detail=words)


def _read_constant(page: Page, prefix: str, constant: Constant, into: dict[str, str]) -> None:
    """A setting that is exposed as a gauge, where all of its series agree on a positive value."""
    part = constant.part
    rows = page.samples.get(prefix + part.name, ())
    values = {value for series, value in rows if not part.label or series.labels.get(part.label) in part.values}
    if len(values) == 1 and 0 < (value := values.pop()) < math.inf:
        into[constant.key] = f"{value:.0f}"


def _level_fault(series: Series, value: float, page: Page) -> tuple[str, str] | None:
    """Why a gauge of requests cannot be used: (kind, words), or None."""
    if series in page.duplicates:
        return "duplicate", f"{series.name} {dict(series.labels)} is given twice"
    if not math.isfinite(value):
        return "not_finite", f"{series.name} is {value}"
    if value < 0:
        return "negative", f"{series.name} is {value:g}"
    if value > MOST_REQUESTS or abs(value - round(value)) > 1e-6:
        return "not_finite", f"{series.name} is {value:g}, which is no number of requests"
    return None


def _bound(text: str | None) -> float | None:
    bound = None if text is None else parse_value(text)
    return None if bound is None or math.isnan(bound) else bound
