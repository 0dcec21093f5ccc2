"""Epochs: stretches within which counters may be compared, and what ends one.

Contains no states and no time: it compares what a scrape shows with what is known of the server of this epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opmon.core.increase import fell
from opmon.core.model import Epoch, Row, SeriesKey, SeriesSample, Snapshot

_CAUSE_OF_KEY = {"version": "version", "kv_blocks": "kv_blocks", "speculative_positions": "speculation"}
_CREATED = "created"
START_TOLERANCE_SECONDS = 0.5
"""Starts of a process that lie closer are one start: some exporters compute it anew for each page."""


@dataclass(frozen=True, slots=True)
class Change:
    """Why a new epoch begins. `cause` is one word: start, restart, version, kv_blocks, speculation, models, engines,
    clock (it was set back), or the name of another part of the identity."""

    cause: str
    detail: str


@dataclass(slots=True)
class Server:
    """What is known of the server of the present epoch.

    The lanes show different parts of it, so everything is kept from whichever scrape showed it last, and only what
    both sides show is compared. `engines` None: not known yet.
    """

    process_start_seconds: float | None = None
    identity: dict[str, str] = field(default_factory=dict)
    engines: frozenset[SeriesKey] | None = None
    counters: dict[SeriesKey, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def of_epoch(cls, epoch: Epoch, rows: Iterable[Row]) -> Server:
        """As the database knows it: the epoch's identity, and its good rows."""
        server = cls(epoch.process_start_seconds, dict(epoch.identity))
        for row in rows:
            server.engines = engines_of(row.series)
            server._learn_counters(row.series)
        return server

    def learn(self, snapshot: Snapshot) -> bool:
        """Takes in a good scrape; says whether something about the identity was learnt."""
        before = (self.process_start_seconds, len(self.identity))
        if snapshot.process_start_seconds is not None:
            self.process_start_seconds = snapshot.process_start_seconds
        self.identity.update(snapshot.identity)
        self.engines = engines_of(snapshot.series)
        self._learn_counters(snapshot.series)
        return before != (self.process_start_seconds, len(self.identity))

    def change(self, snapshot: Snapshot) -> Change | None:
        """What ends the epoch, if anything does: a restart first, then the identity, then models and engines."""
        reasons = [
            *self._restart(snapshot),
            *self._other_identity(snapshot.identity),
            *self._joined(engines_of(snapshot.series)),
        ]
        if not reasons:
            return None
        return Change(reasons[0].cause, "; ".join(reason.detail for reason in reasons))

    def absent(self, snapshot: Snapshot) -> frozenset[SeriesKey]:
        """Expected engines that the scrape does not show."""
        return (self.engines or frozenset()) - engines_of(snapshot.series)

    def silent(self, snapshot: Snapshot) -> frozenset[SeriesKey]:
        """Engines whose tokens rise while they show no number of running requests: a sum without them is too small.

        Only of vLLM, where every engine shows the same families, and where all are labelled; elsewhere another process
        may count the tokens.
        """
        is_labelled = all(key.engine_index for key in engines_of(snapshot.series))
        if snapshot.engine != "vllm" or not is_labelled:
            return frozenset()
        working = set[SeriesKey]()
        for key, sample in snapshot.series.items():
            tokens = sample.counters.get("generation_tokens")
            if sample.running is not None or tokens is None or not key.engine_index:
                continue
            known = self.counters.setdefault(key, {})
            if tokens > known.get("generation_tokens", tokens):
                working.add(key)
            known["generation_tokens"] = tokens
        return frozenset(working)

    def removal(self, snapshot: Snapshot) -> Change:
        """The change when absent engines are given up."""
        gone = self.absent(snapshot)
        models = {key.model_name for key in gone} - {key.model_name for key in engines_of(snapshot.series)}
        return Change("models" if models else "engines", f"no longer shown: {names_of(gone)}")

    def _learn_counters(self, series: Mapping[SeriesKey, SeriesSample]) -> None:
        for key, sample in series.items():
            self.counters.setdefault(key, {}).update(sample.counters)

    def _restart(self, snapshot: Snapshot) -> Iterable[Change]:
        old, new = self.process_start_seconds, snapshot.process_start_seconds
        if old is not None and new is not None and abs(old - new) > START_TOLERANCE_SECONDS:
            yield Change("restart", f"the process started {new - old:+.0f} s from the one before")
        for key, value in snapshot.identity.items():
            if key.startswith(_CREATED) and self.identity.get(key, value) != value:
                yield Change("restart", "its counters were created anew")
                break
        for engine, sample in snapshot.series.items():
            fallen = _fallen(self.counters.get(engine, {}), sample.counters)
            if fallen is not None:
                yield Change("restart", fallen)
                break

    def _other_identity(self, identity: Mapping[str, str]) -> Iterable[Change]:
        for key, value in identity.items():
            known = self.identity.get(key, value)
            if known != value and not key.startswith(_CREATED):
                yield Change(_CAUSE_OF_KEY.get(key, key), f"{key} {known} became {value}")

    def _joined(self, present: frozenset[SeriesKey]) -> Iterable[Change]:
        if self.engines is None:
            return
        joined = present - self.engines
        if joined:
            others = {key.model_name for key in joined} - {key.model_name for key in self.engines}
            yield Change("models" if others else "engines", f"new: {names_of(joined)}")


@dataclass(slots=True)
class Alternation:
    """Answers of several servers behind one address, as a balancer in front of replicas gives them.

    Each would read as a restart of the other, an epoch a second. One server that restarts is away for a while, and
    does not come back as another within a few answers. `calm`: so many answers in a row came from one server.
    """

    latest: Server = field(default_factory=Server)
    calm: int = 0

    def take(self, snapshot: Snapshot) -> None:
        """The next answer: from the server of the one before, or from another."""
        if self.latest.change(snapshot) is not None or self.latest.absent(snapshot):
            self.latest, self.calm = Server(), 0
        self.latest.learn(snapshot)
        self.calm += 1


def engines_of(series: Mapping[SeriesKey, SeriesSample]) -> frozenset[SeriesKey]:
    """The engines that a scrape shows. A series without `running` is none: it may be in one lane only."""
    return frozenset(key for key, sample in series.items() if sample.running is not None)


def names_of(keys: Iterable[SeriesKey]) -> str:
    """Engines in words."""
    return ", ".join(f"engine {key.engine_index or '(one)'} of {key.model_name or '(no name)'}" for key in sorted(keys))


def _fallen(old: Mapping[str, float], new: Mapping[str, float]) -> str | None:
    """The counter that fell, in words. A `_sum` may fall while its `_count` rises: a negative observation, as a
    clock that was set back makes one; no restart."""
    for name, value in new.items():
        before = old.get(name)
        if before is None or not fell(before, value):
            continue
        count = name.removesuffix("_sum") + "_count"
        if name.endswith("_sum") and new.get(count, 0.0) > old.get(count, 0.0):
            continue
        return f"{name} fell from {before:g} to {value:g}"
    return None
