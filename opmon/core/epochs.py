"""Epochs: stretches within which counters may be compared, and what ends one.

Contains no states and no time: it compares what a scrape shows with what is known of the server of this epoch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from opmon.core.increase import fell
from opmon.core.model import Epoch, Row, SeriesKey, SeriesSample, Snapshot

_CAUSE_OF_KEY = {"version": "version", "kv_blocks": "kv_blocks", "speculative_positions": "speculation"}
_CREATED = "created"
START_TOLERANCE_SECONDS = 0.5
"""Starts of a process that lie closer are one start: some exporters compute it anew for each page."""

NEW_REQUESTS, NEW_REQUESTS_PER_SECOND = 5, 500
NEW_TOKENS, NEW_TOKENS_PER_SECOND = 100, 20_000
NEW_DECODED_SECONDS = 2
"""What an engine may have counted that was not there at the last good answer: a few requests that tried it (no engine
counts its own warm-up before it answers), and what one can do in its first seconds."""

MOST_REQUESTS, MOST_REQUESTS_PER_SECOND = 10, 2_000
MOST_TOKENS, MOST_TOKENS_PER_SECOND = 10_000, 100_000
MOST_DECODED_SECONDS = 60
"""What one engine can add between two good answers at the very most."""

LEAP = "leap"

SHORT_MS = 600_000
QUICK_FALL_SECONDS = 3
MOST_QUICK_FALLS = 2
"""A process takes longer than this to start, so its restart shows as failed attempts. Counters that fall faster are of
a server that took over: that happens now and then, but not more often within ten minutes."""

EPOCHS_KEPT = 16
"""Of so many is the start kept. Engines and models that come back twice within so many short epochs are not swapped."""


@dataclass(frozen=True, slots=True)
class Change:
    """Why a new epoch begins. `cause` is one word: start, restart, version, kv_blocks, speculation, models, engines,
    clock (it was set back), leap (counters rose as no engine works), or the name of another part of the identity.
    `fallen`: the engines whose counters fell, where nothing else tells of the restart."""

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
    doubted: set[tuple[SeriesKey, str]] = field(default_factory=set)

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
        reasons = self._reasons(snapshot)
        if not reasons:
            return None
        return Change(reasons[0].cause, "; ".join(reason.detail for reason in reasons), reasons[0].fallen)

    def damaged(self, snapshot: Snapshot) -> str:
        """Which counters of one family fell, in words, where all else goes on: a damaged page and no restart. Empty
        where none did. A fall that the next page with that counter shows again is believed."""
        fallen = self.fallen(snapshot)
        names = {(key, name) for key, found in fallen.items() for name in found}
        if not names:
            self.doubted -= {(key, name) for key, sample in snapshot.series.items() for name in sample.counters}
            return ""
        goes_on = all(self._goes_on(key, found, snapshot.series[key]) for key, found in fallen.items())
        if not goes_on or names & self.doubted or len(self._reasons(snapshot)) > 1:
            return ""
        self.doubted = names
        return f"{', '.join(sorted({name for _, name in names}))} fell, and the other counters go on: a damaged page"

    def fallen(self, snapshot: Snapshot) -> dict[SeriesKey, list[str]]:
        """The counters that fell, of each engine of which any did."""
        found = {key: _names_fallen(self.counters.get(key, {}), one.counters) for key, one in snapshot.series.items()}
        return {key: names for key, names in found.items() if names}

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

    def _goes_on(self, key: SeriesKey, fallen: Sequence[str], sample: SeriesSample) -> bool:
        """Whether only one family fell, while two other counters at least that are above 0 did not."""
        families = {name.removesuffix("_sum").removesuffix("_count") for name in fallen}
        others = [name for name, value in sample.counters.items() if value and self.counters[key].get(name)]
        return len(families) == 1 and len(set(others) - set(fallen)) > 1

    def _reasons(self, snapshot: Snapshot) -> list[Change]:
        return [
            *self._restart(snapshot),
            *self._other_identity(snapshot.identity),
            *self._joined(engines_of(snapshot.series)),
        ]

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
        fallen = self.fallen(snapshot)
        for engine, names in fallen.items():
            before, after = self.counters[engine][names[0]], snapshot.series[engine].counters[names[0]]
            yield Change("restart", f"{names[0]} fell from {before:g} to {after:g}", frozenset(fallen))
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


@dataclass(slots=True)
class Past:
    """What is remembered of earlier epochs, because several servers come back to it and one does not.

    `starts`: of earlier processes, in order. `lineups`: the engines of epochs shorter than `SHORT_MS` since the last
    longer one, those of restarts once. `falls_ms`: strata in which counters fell faster than a process starts.
    """

    starts: deque[float] = field(default_factory=lambda: deque(maxlen=EPOCHS_KEPT))
    lineups: deque[frozenset[SeriesKey]] = field(default_factory=lambda: deque(maxlen=EPOCHS_KEPT))
    falls_ms: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_QUICK_FALLS + 1))

    def end_epoch(self, server: Server, lasted_ms: int) -> None:
        """An epoch of this server is over."""
        if server.process_start_seconds is not None:
            self.starts.append(server.process_start_seconds)
        if lasted_ms >= SHORT_MS:
            self.lineups.clear()
        elif not self.lineups or self.lineups[-1] != server.engines:
            self.lineups.append(server.engines or frozenset())

    def has_start(self, start: float | None, present: float | None) -> bool:
        """Whether an answer shows the start of an earlier process and not the present one's."""
        if start is None or present is None or abs(start - present) <= START_TOLERANCE_SECONDS:
            return False
        return any(abs(start - seen) <= START_TOLERANCE_SECONDS for seen in self.starts)

    def has_lineup(self, engines: frozenset[SeriesKey]) -> bool:
        """Whether these engines come back for the second time, in place of others."""
        return self.lineups.count(engines) > 1

    def falls_again(self, stratum_ms: int) -> bool:
        """Counters fell, too quickly for a process that restarts: whether that came too often."""
        self.falls_ms.append(stratum_ms)
        return len(self.falls_ms) > MOST_QUICK_FALLS and stratum_ms - self.falls_ms[0] <= SHORT_MS


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
        if decoded_seconds > NEW_DECODED_SECONDS + at_most:
            return False
    tokens = counters.get("generation_tokens", 0.0)
    return (
        requests <= NEW_REQUESTS + NEW_REQUESTS_PER_SECOND * seconds
        and tokens <= NEW_TOKENS + NEW_TOKENS_PER_SECOND * seconds
    )


def leap(before: SeriesSample, after: SeriesSample, seconds: float, *, is_live: bool) -> Change | None:
    """The change where an engine cannot have added in `seconds` what its counters rose by: another one answers.

    `is_live`: tokens and inter-token times are counted as they come. Elsewhere each request that was there may bring
    all of its tokens at its end, and nothing is said of the times.
    """
    ended = max(0.0, _rise("finished_requests", before, after))
    load = max(_present(before), _present(after))
    at_most = {
        "generation_tokens": MOST_TOKENS * (1 if is_live else 1 + _present(before)) + MOST_TOKENS_PER_SECOND * seconds,
        "finished_requests": MOST_REQUESTS + MOST_REQUESTS_PER_SECOND * seconds,
        "ttft_seconds_count": MOST_REQUESTS + MOST_REQUESTS_PER_SECOND * seconds,
    }
    if is_live:
        at_most["itl_seconds_sum"] = MOST_DECODED_SECONDS + 2 * seconds * (load + ended)
    for name, most in at_most.items():
        rise = _rise(name, before, after)
        if rise > most:
            return Change(LEAP, f"{name} rose by {rise:g} in {seconds:.1f} s: another server's")
    return None


def _rise(name: str, before: SeriesSample, after: SeriesSample) -> float:
    """By how much a counter rose; 0, which shows nothing, where one of the two does not show it."""
    old, new = before.counters.get(name), after.counters.get(name)
    return 0.0 if old is None or new is None else new - old


def _present(sample: SeriesSample) -> int:
    return (sample.running or 0) + (sample.waiting or 0)


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
