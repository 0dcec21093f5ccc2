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

WARM_UP_REQUESTS = 10
WARM_UP_TOKENS = 10_000
WARM_UP_DECODED_SECONDS = 60
"""A process that takes over without an outage may have been tried with so much before."""
MOST_REQUESTS_PER_SECOND = 2_000
MOST_TOKENS_PER_SECOND = 100_000
"""What one engine can do at the very most, from its first second on."""


@dataclass(frozen=True, slots=True)
class Change:
    """Why a new epoch begins. `cause` is one word: start, restart, version, kv_blocks, speculation, models, engines,
    clock (it was set back), or the name of another part of the identity. `fallen`: the engines whose counters fell,
    where nothing else tells of the restart."""

    cause: str
    detail: str
    fallen: frozenset[SeriesKey] = frozenset()


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
        return Change(reasons[0].cause, "; ".join(reason.detail for reason in reasons), reasons[0].fallen)

    def too_old(self, snapshot: Snapshot, fallen: Iterable[SeriesKey], seconds: float) -> bool:
        """Whether engines whose counters fell cannot have begun at 0 within the last `seconds`: not this server that
        restarted, but another one. A single counter that fell is a broken one, and tells nothing."""
        for key in fallen:
            sample = snapshot.series[key]
            if len(_names_fallen(self.counters[key], sample.counters)) > 1 and not can_be_new(sample, seconds):
                return True
        return False

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
        fallen: dict[SeriesKey, str] = {}
        for engine, sample in snapshot.series.items():
            before = self.counters.get(engine, {})
            for name in _names_fallen(before, sample.counters)[:1]:
                fallen[engine] = f"{name} fell from {before[name]:g} to {sample.counters[name]:g}"
        if fallen:
            yield Change("restart", next(iter(fallen.values())), frozenset(fallen))

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


def can_be_new(sample: SeriesSample, seconds: float) -> bool:
    """Whether an engine that began at most `seconds` ago can have counted so much. True where nothing tells.

    No request decodes for longer than its engine is there: the sum of inter-token times is at most the number of
    requests times that age (twice, for what engines count a little differently).
    """
    counters = sample.counters
    first_tokens = counters.get("ttft_seconds_count")
    requests = max(first_tokens or 0.0, counters.get("finished_requests", 0.0))
    decoded_seconds = counters.get("itl_seconds_sum", 0.0)
    if first_tokens is not None:
        at_most = 2 * seconds * (requests + (sample.running or 0))
        if decoded_seconds > WARM_UP_DECODED_SECONDS + at_most:
            return False
    tokens = counters.get("generation_tokens", 0.0)
    return (
        requests <= WARM_UP_REQUESTS + MOST_REQUESTS_PER_SECOND * seconds
        and tokens <= WARM_UP_TOKENS + MOST_TOKENS_PER_SECOND * seconds
    )


def engines_of(series: Mapping[SeriesKey, SeriesSample]) -> frozenset[SeriesKey]:
    """The engines that a scrape shows. A series without `running` is none: it may be in one lane only."""
    return frozenset(key for key, sample in series.items() if sample.running is not None)


def names_of(keys: Iterable[SeriesKey]) -> str:
    """Engines in words."""
    return ", ".join(f"engine {key.engine_index or '(one)'} of {key.model_name or '(no name)'}" for key in sorted(keys))


def _names_fallen(old: Mapping[str, float], new: Mapping[str, float]) -> list[str]:
    """The counters that fell. A `_sum` may fall while its `_count` rises: a negative observation, as a clock that was
    set back makes one; no restart."""
    names = []
    for name, value in new.items():
        before = old.get(name)
        if before is None or not fell(before, value):
            continue
        count = name.removesuffix("_sum") + "_count"
        if name.endswith("_sum") and new.get(count, 0.0) > old.get(count, 0.0):
            continue
        names.append(name)
    return names
