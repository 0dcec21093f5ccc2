"""One exposition, understood: the values of every engine of every model, what identifies the server, what is missing.

A page whose values cannot be used is still an answer: it becomes a `Snapshot` with a `fault`. Only a document that is
no exposition at all raises `ScrapeError`, for then nothing is known of the server.
Contains no names of metrics (they are data in `engines`) and no comparison between two scrapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from opmon.core import engines
from opmon.core.engines import Kind, Located, Planned
from opmon.core.engines.strangers import FOREIGN_CONSTANTS, Stranger
from opmon.core.exposition import Page, Reader, Series
from opmon.core.facts import AWAKE, NOT_KNOWN, About, read_constant
from opmon.core.model import Buckets, Lane, SeriesKey, SeriesSample, Snapshot
from opmon.core.places import Places, Rows, rows_of
from opmon.core.recognise import Found, Recogniser, running_rows
from opmon.core.refusals import (
    clue_on,
    joined,
    no_running,
    refuse_documents,
    refuse_unreadable,
    skipped_words,
    stranger_on,
)
from opmon.errors import ScrapeError

__all__ = ["MOST_REQUESTS", "ScrapeError", "SnapshotReader", "read_snapshot"]

# A count of requests beyond this is a broken number; it would not fit the database's integers either.
MOST_REQUESTS = 2**31 - 1

MOST_RATIO = 1.01
"""A share a little above 1 is rounding, or blocks that are counted twice for a moment; beyond it is no share."""


class SnapshotReader:
    """Reads the pages of one target, or of several of one fleet; remembers the line heads that it has understood.

    `engine`: `auto` or a name in `engines.ENGINES`. Not safe for two threads at once.
    """

    def __init__(self, engine: str = engines.AUTO) -> None:
        self._setting = engine
        self._recogniser = Recogniser(engine)
        self._pages = {lane: Reader(engines.wanted_names(engine, lane)) for lane in Lane}
        self._places: Places | None = None

    def read(
        self, body: bytes, *, content_type: str | None = None, lane: Lane = Lane.FULL, version: str | None = None
    ) -> Snapshot:
        """What the page says. Raises ScrapeError (`content_type` or `parse`) if it is no exposition.

        `version`, where known, becomes part of the identity and undoes what that version is known to mix up.
        """
        refuse_documents(body, content_type)
        page = self._pages[lane].read(body)
        refuse_unreadable(page, content_type)
        found = self._recogniser.find(page)
        stranger = stranger_on(page, running_rows(page, found.engine, found.prefix) if found else [])
        if stranger is not None and stranger.is_refused:
            return _no_engine(page, "not_an_engine", stranger.words)
        if found is None:
            return self._unnamed(body, page, lane)
        if found.refused:
            return _no_engine(page, "not_an_engine", found.refused)
        return self._named(body, page, found, lane, version, stranger)

    def _named(
        self, body: bytes, page: Page, found: Found, lane: Lane, version: str | None, stranger: Stranger | None
    ) -> Snapshot:
        """A page whose engine is known."""
        reading = _Reading(page, found.prefix, lane, version, self._places_for(found))
        reading.run()
        notes = [found.note, stranger.words if stranger else ""]
        if lane is Lane.FULL:
            reading.tell("alias_doubles", found.doubles)
        reading.tell("note", "; ".join(filter(None, notes)))
        if "running" in reading.missing:
            others = self._recogniser.others(page)
            reading.faults.insert(0, no_running(body, page, found.engine, self._setting, others))
        return reading.snapshot()

    def _unnamed(self, body: bytes, page: Page, lane: Lane) -> Snapshot:
        """A page without a value that opmon uses: a gateway, something else, or an engine that only describes itself."""
        clue = clue_on(body, None)
        engine = None if clue else self._recogniser.by_text(body)
        fault = clue or no_running(body, page, engine, self._setting, self._recogniser.others(page))
        if engine is None or lane is not Lane.FULL:  # a pulse sees too little to settle whose page it is
            return _no_engine(page, *fault)
        reading = _Reading(page, engine.prefixes[0], lane, None, Places(engine))
        reading.run()
        reading.faults.insert(0, fault)
        return reading.snapshot()

    def _places_for(self, found: Found) -> Places:
        """The places that are remembered, made anew for another engine and when there are too many."""
        if self._places is None or self._places.engine is not found.engine or self._places.is_full:
            self._places = Places(found.engine)
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
    prefix: str
    lane: Lane
    version: str | None
    places: Places
    series: dict[SeriesKey, SeriesSample] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Reads every signal of the lane, and in a full scrape what identifies the server."""
        engine, about = self.places.engine, self._about()
        renamed = engine.swapped.get(self.version or "", {})
        for planned in engines.plan_of(engine.name, self.prefix, self.lane):
            self._read_signal(planned, renamed.get(planned.canonical, planned.canonical))
        self._read_sleep(about)
        if self.version is not None:
            self.identity["version"] = self.version
        if self.lane is Lane.FULL:
            self.missing += engine.absent
            self.identity.update(about.identity())
            self.facts.update(about.facts(self.series.values()))
            self.tell("unusable", "; ".join(self.unusable.values()))

    def tell(self, fact: str, words: str) -> None:
        """Adds words to a fact; no words, no fact."""
        if words:
            self.facts[fact] = f"{self.facts[fact]}; {words}" if fact in self.facts else words

    def snapshot(self) -> Snapshot:
        """The values read so far, with the first fault."""
        fault, detail = self.faults[0] if self.faults else (None, skipped_words(self.page))
        return Snapshot(
            engine=self.places.engine.name,
            series=self.series,
            process_start_seconds=self._about().process_start(),
            identity=self.identity,
            facts=self.facts,
            missing=tuple(self.missing),
            skipped_lines=self.page.skipped,
            fault=fault,
            detail=detail,
        )

    def _about(self) -> About:
        return About(self.page, self.prefix, self.places)

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
            self._read_counter(canonical + "_sum", [rows_of(self.page, part, part.sum_name)])
            self._read_counter(canonical + "_count", [rows_of(self.page, part, part.count_name)])
            if self.lane is Lane.FULL:
                self._read_buckets(canonical, rows_of(self.page, part, part.bucket_name))
        elif kind is Kind.COUNTER:
            self._read_counter(canonical, [rows_of(self.page, part, part.name) for part in source])
        elif kind is Kind.LEVEL:
            self._read_level(canonical, [rows_of(self.page, part, part.name) for part in source])
        else:
            self._read_ratio(canonical, [row for part in source for row in rows_of(self.page, part, part.name)])

    def _is_present(self, source: tuple[Located, ...], kind: Kind) -> bool:
        """Whether all names of a source are on the page. A gauge must show the label asked for, too; a counter of which
        one label value was never counted is there, and at none."""
        samples = self.page.samples
        for part in source:
            if part.name not in samples:
                return False
            if part.label and kind in (Kind.LEVEL, Kind.RATIO) and not rows_of(self.page, part, part.name):
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
                spoilt.update(self.places.key(series) for series, _ in rows)
            for series, value in rows:
                name = series.name
                fault = _level_fault(series, value, self.page)
                if fault is not None:
                    self.faults.append(fault)
                    spoilt.add(self.places.key(series))
            kept = self.places.fold(rows, has_totals=True)
            if canonical == "running" and self.prefix == self.places.engine.prefixes[0]:
                self.faults += joined(kept, self.places)
            for series, value in kept:
                key = self.places.key(series)
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
        """A share of 1. One that is none (a percentage, a broken gauge) is not known rather than shown as a fact."""
        spoilt: set[SeriesKey] = set()
        largest: dict[SeriesKey, float] = {}
        for series, value in rows:
            key = self.places.key(series)
            if not 0 <= value <= MOST_RATIO:
                if math.isfinite(value):
                    spoilt.add(key)
                    self.unusable.setdefault(canonical, f"{series.name} is {value:g}, no share from 0 to 1: not used")
            else:
                largest[key] = max(min(value, 1.0), largest.get(key, 0.0))
        for key, value in largest.items():
            if key not in spoilt:
                setattr(self._sample(key), canonical, value)

    def _read_counter(self, canonical: str, parts: Iterable[Rows]) -> None:
        """A counter, summed over its parts and further labels; unknown where one of its values is unusable."""
        spoilt: set[SeriesKey] = set()
        duplicates = self.page.duplicates
        for rows in parts:
            incomplete = self._is_incomplete(rows)
            for series, value in self.places.fold(rows, has_totals=False):
                key = self.places.key(series)
                counters = self._sample(key).counters
                total = counters.get(canonical, 0.0) + value
                if incomplete or not math.isfinite(total) or series in duplicates:
                    spoilt.add(key)
                elif value < 0:
                    spoilt.add(key)
                    self.unusable.setdefault(canonical, f"{series.name} is {value:g}, below 0: not used")
                else:
                    counters[canonical] = total
        for key in spoilt:
            self.series[key].counters.pop(canonical, None)

    def _read_buckets(self, family: str, rows: Rows) -> None:
        """Cumulative buckets with the page's own bounds, summed over further labels that have the same bounds."""
        spoilt: set[SeriesKey] = set()
        counts: dict[SeriesKey, dict[float, list[float]]] = {}
        duplicates = self.page.duplicates
        of_key: SeriesKey | None = None
        by_bound: dict[float, list[float]] = {}
        for series, value in self.places.fold(rows, has_totals=False):
            key, _, _, bound = self.places.of(series)
            if value < 0:
                spoilt.add(key)
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
            if key not in spoilt and bounds[-1] == math.inf and len(set(map(len, by_bound.values()))) == 1:
                buckets = Buckets(bounds, tuple([sum(by_bound[bound]) for bound in bounds]))
                if all(map(math.isfinite, buckets.counts)):
                    self._sample(key).buckets[family] = buckets

    def _read_sleep(self, about: About) -> None:
        """While an engine sleeps its gauges are left as they were: they say nothing of this time."""
        for index, state in about.sleep().items():
            if state == NOT_KNOWN:
                words = f"the processes of engine {index or '(one)'} contradict one another on whether it sleeps"
                self.faults.insert(0, ("asleep", f"{words}, and so its gauges are not trusted: restart the server"))
            elif state != AWAKE:
                self.faults.insert(0, ("asleep", f"engine {index or '(one)'} sleeps; its gauges are from before"))


def _no_engine(page: Page, fault: str, words: str) -> Snapshot:
    """The snapshot of an answer that is no engine's: up, and no load known. Never zero load."""
    facts: dict[str, str] = {}
    for constant in FOREIGN_CONSTANTS:
        read_constant(page, "", constant, facts)
    return Snapshot(engine="", series={}, facts=facts, skipped_lines=page.skipped, fault=fault, detail=words)


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
