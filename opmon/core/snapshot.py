"""One exposition, understood: the values of every engine of every model, what identifies the server, what is missing.

A page whose values cannot be used is still an answer: it becomes a `Snapshot` with a `fault`. Only a document that is
no exposition at all raises `ScrapeError`, for then nothing is known of the server.
Contains no names of metrics (they are data in `engines`) and no comparison between two scrapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opmon.core import engines
from opmon.core.engines import Engine, Kind, Signal
from opmon.core.exposition import Page, Reader, Series
from opmon.core.model import Buckets, Lane, SeriesKey, SeriesSample, Snapshot
from opmon.errors import ScrapeError

# A count of requests beyond this is a broken number; it would not fit the database's integers either.
MOST_REQUESTS = 2**31 - 1

_OTHER_DOCUMENTS = ("text/html", "application/xhtml", "application/json", "application/vnd.google.protobuf", "image/")
_EXPOSITION_TYPES = ("", "text/plain", "application/openmetrics-text")


class SnapshotReader:
    """Reads the pages of one target, or of several of one fleet; remembers the line heads that it has understood.

    `engine`: `auto` or a name in `engines.ENGINES`. Not safe for two threads at once.
    """

    def __init__(self, engine: str = engines.AUTO) -> None:
        self._candidates = engines.candidates(engine)
        self._pages = {lane: Reader(engines.wanted_names(engine, lane)) for lane in Lane}
        self._keys: dict[tuple[str, str], SeriesKey] = {}

    def read(
        self, body: bytes, *, content_type: str | None = None, lane: Lane = Lane.FULL, version: str | None = None
    ) -> Snapshot:
        """What the page says. Raises ScrapeError (`content_type` or `parse`) if it is no exposition.

        `version`, where known, becomes part of the identity and undoes what that version is known to mix up.
        """
        _refuse_documents(body, content_type)
        page = self._pages[lane].read(body)
        _refuse_unreadable(page, content_type)
        found = _identify(page, self._candidates)
        if found is None:
            return _nothing_known(page)
        engine, prefix = found
        reading = _Reading(page, engine, prefix, lane, version, self._keys)
        reading.run()
        return reading.snapshot()


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
    series: dict[SeriesKey, SeriesSample] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    identity: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Reads every signal of the lane, and in a full scrape what identifies the server."""
        renamed = self.engine.swapped.get(self.version or "", {})
        for signal in self.engine.signals_of(self.lane):
            self._read_signal(signal, renamed.get(signal.canonical, signal.canonical))
        if self.version is not None:
            self.identity["version"] = self.version
        if self.lane is Lane.FULL:
            self._read_identity()
            self._read_facts()
            self._read_doubles()

    def snapshot(self) -> Snapshot:
        """The values read so far, with the first fault."""
        if "running" in self.missing:
            self.faults.insert(0, ("no_known_metrics", _nothing_detail(self.page, self.engine.name)))
        fault, detail = self.faults[0] if self.faults else (None, _skipped_detail(self.page))
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

    def _rows(self, name: str) -> list[tuple[Series, float]]:
        return self.page.samples.get(self.prefix + name, [])

    def _is_incomplete(self, rows: list[tuple[Series, float]]) -> bool:
        """Whether the page has a line of this name that could not be read: a sum without it would be too small."""
        return bool(self.page.skipped_names and rows) and rows[0][0].name in self.page.skipped_names

    def _sample_of(self, series: Series) -> SeriesSample:
        return self.series.setdefault(self._key(series), SeriesSample())

    def _key(self, series: Series) -> SeriesKey:
        labels = series.labels
        pair = (labels.get(self.engine.model_label, ""), labels.get(self.engine.index_label, ""))
        key = self.keys.get(pair)
        if key is None:
            key = self.keys[pair] = SeriesKey(*pair)
        return key

    def _read_signal(self, signal: Signal, canonical: str) -> None:
        suffix = "_count" if signal.kind is Kind.HISTOGRAM else ""
        name = next((one for one in signal.names if self.prefix + one + suffix in self.page.samples), None)
        if name is None or any(self._rows(other) for other in signal.voided_by):
            if not signal.optional:
                self.missing.append(canonical)
        elif signal.kind is Kind.LEVEL:
            self._read_level(canonical, self._rows(name))
        elif signal.kind is Kind.RATIO:
            self._read_ratio(canonical, self._rows(name))
        elif signal.kind is Kind.COUNTER:
            self._read_counter(canonical, self._rows(name))
        else:
            self._read_counter(canonical + "_sum", self._rows(name + "_sum"))
            self._read_counter(canonical + "_count", self._rows(name + "_count"))
            self._read_buckets(canonical, self._rows(name + "_bucket"))

    def _read_level(self, canonical: str, rows: list[tuple[Series, float]]) -> None:
        """A gauge of requests. One unusable value makes the sum over its labels unknown, and is a fault of the page."""
        spoilt: set[SeriesKey] = set()
        if self._is_incomplete(rows):
            self.faults.append(("not_finite", _skipped_detail(self.page)))
            spoilt.update(self._key(series) for series, _ in rows)
        for series, value in rows:
            fault = _level_fault(series, value, self.page)
            if fault is not None:
                self.faults.append(fault)
                spoilt.add(self._key(series))
        for key, value in self._combine(rows, sum).items():
            sample = self.series.setdefault(key, SeriesSample())
            if value > MOST_REQUESTS and key not in spoilt:
                self.faults.append(("not_finite", f"{rows[0][0].name} adds up to {value:g}, no number of requests"))
            elif key not in spoilt:
                setattr(sample, canonical, round(value))

    def _read_ratio(self, canonical: str, rows: list[tuple[Series, float]]) -> None:
        usable = [(series, value) for series, value in rows if math.isfinite(value) and value >= 0]
        for key, value in self._combine(usable, max).items():
            setattr(self.series.setdefault(key, SeriesSample()), canonical, value)

    def _combine(
        self, rows: list[tuple[Series, float]], over: Callable[[list[float]], float]
    ) -> dict[SeriesKey, float]:
        """One value per engine of a model: the largest over the processes that report it, then `over` other labels."""
        keys = [self._key(series) for series, _ in rows]
        if len(set(keys)) == len(rows):
            return {key: value for key, (_, value) in zip(keys, rows, strict=True)}
        processes = self.engine.process_labels
        groups: dict[SeriesKey, dict[frozenset[tuple[str, str]], float]] = {}
        for key, (series, value) in zip(keys, rows, strict=True):
            rest = frozenset(item for item in series.labels.items() if item[0] not in processes)
            group = groups.setdefault(key, {})
            group[rest] = max(value, group.get(rest, value))
        return {key: over(list(group.values())) for key, group in groups.items()}

    def _read_counter(self, canonical: str, rows: list[tuple[Series, float]]) -> None:
        """A counter, summed over further labels; unknown where one of its values is unusable."""
        spoilt: set[SeriesKey] = set()
        incomplete = self._is_incomplete(rows)
        for series, value in rows:
            counters = self._sample_of(series).counters
            if incomplete or not math.isfinite(value) or series in self.page.duplicates:
                spoilt.add(self._key(series))
            else:
                counters[canonical] = counters.get(canonical, 0.0) + value
                if math.isinf(counters[canonical]):
                    spoilt.add(self._key(series))
        for key in spoilt:
            self.series[key].counters.pop(canonical, None)

    def _read_buckets(self, family: str, rows: list[tuple[Series, float]]) -> None:
        """Cumulative buckets with the page's own bounds, summed over further labels that have the same bounds."""
        counts: dict[SeriesKey, dict[float, list[float]]] = {}
        for series, value in rows:
            bound = _bound(series)
            if bound is not None and math.isfinite(value) and series not in self.page.duplicates:
                counts.setdefault(self._key(series), {}).setdefault(bound, []).append(value)
        for key, by_bound in counts.items():
            bounds = tuple(sorted(by_bound))
            if bounds[-1] == math.inf and len({len(values) for values in by_bound.values()}) == 1:
                buckets = Buckets(bounds, tuple(map(sum, (by_bound[bound] for bound in bounds))))
                if all(map(math.isfinite, buckets.counts)):
                    self.series.setdefault(key, SeriesSample()).buckets[family] = buckets

    def _read_identity(self) -> None:
        """What never changes while a server runs. Not taken from a page with lines that could not be read."""
        if self.page.skipped:
            return
        for info in self.engine.infos:
            self._read_info(info.name, info.identity, self.identity)
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
        for signal in self.engine.signals_of(self.lane):
            suffix = "_sum" if signal.kind is Kind.HISTOGRAM else ""
            over = max if signal.kind is Kind.RATIO else sum
            totals = {
                name: over(value for _, value in rows) for name in signal.names if (rows := self._rows(name + suffix))
            }
            first = next(iter(totals.values()), 0.0)
            if not all(math.isclose(first, total, rel_tol=1e-6, abs_tol=1e-9) for total in totals.values()):
                told.append(", ".join(f"{self.prefix}{name} is {total:g}" for name, total in totals.items()))
        if told:
            self.facts["alias_doubles"] = "; ".join(told)

    def _read_facts(self) -> None:
        for info in self.engine.infos:
            self._read_info(info.name, info.facts, self.facts)
        for state in self.engine.states:
            names = {series.labels.get(state.label, "") for series, value in self._rows(state.name) if value == 1}
            if names:
                self.facts[state.key] = ",".join(sorted(names))
        for family, fact in self.engine.length_families:
            bounds = [one.buckets[family].bounds for one in self.series.values() if family in one.buckets]
            finite = [bound for some in bounds for bound in some if math.isfinite(bound)]
            if finite:
                self.facts[fact] = f"{max(finite):.0f}"

    def _read_info(self, name: str, wanted: Mapping[str, str], into: dict[str, str]) -> None:
        """Label values on which all series of an info gauge agree; vLLM writes None for what it does not know."""
        for key, label in wanted.items():
            values = {series.labels.get(label, "None") for series, _ in self._rows(name)} - {"None", ""}
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


def _refuse_documents(body: bytes, content_type: str | None) -> None:
    """Raises for a login page, a JSON answer and the like."""
    kind = _media_type(content_type)
    if kind.startswith(_OTHER_DOCUMENTS):
        raise ScrapeError("content_type", f"the answer is {kind}, not metrics")
    if body[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise ScrapeError("content_type", f"the answer looks like HTML, not metrics (sent as {kind or 'no type'})")


def _refuse_unreadable(page: Page, content_type: str | None) -> None:
    """Raises for a text of which not one line is a sample or a comment."""
    if not page.skipped or page.sample_lines or page.comment_lines:
        return
    kind = _media_type(content_type)
    detail = f"no line of {page.skipped} is a sample; the first: {page.first_skipped!r}"
    if kind not in _EXPOSITION_TYPES:
        raise ScrapeError("content_type", f"the answer is {kind}, and {detail}")
    raise ScrapeError("parse", detail)


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _identify(page: Page, candidates: tuple[Engine, ...]) -> tuple[Engine, str] | None:
    """Engine and prefix of a page: the first that shows running requests, else the first that shows anything."""
    pairs = [(engine, prefix) for engine in candidates for prefix in engine.prefixes]
    for engine, prefix in pairs:
        names = next(signal.names for signal in engine.signals if signal.canonical == "running")
        if any(prefix + name in page.samples for name in names):
            return engine, prefix
    return next((pair for pair in pairs if any(name.startswith(pair[1]) for name in page.samples)), None)


def _nothing_known(page: Page) -> Snapshot:
    """The snapshot of an answer that shows no known engine: up, and no load known. Never zero load."""
    return Snapshot(
        engine="",
        series={},
        skipped_lines=page.skipped,
        fault="no_known_metrics",
        detail=_nothing_detail(page, ""),
    )


def _nothing_detail(page: Page, engine: str) -> str:
    if not page.sample_lines:
        return "the answer has no samples"
    if engine:
        words = f"metrics of {engine}, but none says how many requests run"
        return f"{words}; {_skipped_detail(page)}" if page.skipped else words
    return f"{page.sample_lines} samples, none of a known engine (is it started with --disable-log-stats?)"


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


def _bound(series: Series) -> float | None:
    try:
        bound = float(series.labels["le"])
    except (KeyError, ValueError):
        return None
    return None if math.isnan(bound) else bound


def _skipped_detail(page: Page) -> str:
    if not page.skipped:
        return ""
    return f"lines that could not be read: {page.skipped}, the first: {page.first_skipped!r}"
