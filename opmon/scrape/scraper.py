"""One target's scrapes: the pulse by the filtered form where the server has it, the full page where not.

vLLM's metrics app answers `/metrics/?name[]=A&name[]=B` (with the slash) with those samples alone, a hundredth of the
page. Not every server does: one ignores the filter, another answers it with nothing. Which is found out, not assumed;
an empty filtered answer is never taken for an idle server. Engines of which the table says that they do not filter are
not asked.
Contains no scheduling, no judgement of states (an attempt goes to the caller, whatever became of it), and no names of
any engine: what to ask a server beside its metrics is data in `core.engines`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

from opmon.clock import Clock
from opmon.config.secrets import basic_header
from opmon.config.settings import Tls
from opmon.core import engines
from opmon.core.engines import AUTO, PROCESS_START, PULSE_NAMES
from opmon.core.exposition import Reader
from opmon.core.model import Attempt, Form, Lane, Snapshot
from opmon.core.snapshot import SnapshotReader
from opmon.errors import ConfigError, ScrapeError
from opmon.scrape.fetch import ACCEPT_JSON, MOST_BYTES, Fetched, Fetcher
from opmon.scrape.judged import STALE_PAGE, as_of_now, refuse_cut_off
from opmon.scrape.told import Hearing

LEARN_DEADLINE_MS = 2_000
# Reading a page of this size takes tens of milliseconds: it is done beside the event loop, not in it.
LARGE_PAGE_BYTES = 512 * 1024

# Failures that tell of the server rather than of the form in which it was asked: asking once more would not help.
_SERVER_KINDS = frozenset({"timeout", "connect", "not_asked", "protocol", "truncated", "tls", "too_large"})
# After these, what answers next may be another server.
_BREAKS = frozenset({"connect", "protocol", "truncated"})


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """What a scraper needs of a target.

    `url`: the server's base (`http://host:8000`) or its metrics page; path prefixes are kept. User info in it becomes
    basic authentication unless `authorization` gives the header; it is called before each request.
    `timeout_ms` is the deadline of a whole attempt.
    """

    name: str
    url: str
    engine: str = AUTO
    timeout_ms: int = 4_000
    max_bytes: int = MOST_BYTES
    authorization: Callable[[], str | None] | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Learnt:
    """What a server says of itself beside its metrics; None and empty where it does not say.

    `models`: served names, adapters left out. `max_num_seqs` is per engine; `ceiling_source` is the path that told it.
    `facts`: `max_model_len` and what else the engine's table asks for.
    """

    version: str | None = None
    models: tuple[str, ...] = ()
    form: Form = Form.UNKNOWN
    max_num_seqs: int | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    ceiling_source: str = ""


@dataclass(frozen=True, slots=True)
class _Places:
    """The addresses of one server, without user info."""

    whole: str
    filtered: str
    root: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """A page that was fetched and read, with the time from the attempt's start to its first and its last byte.

    `shown`: those names of the pulse that are on the page.
    """

    snapshot: Snapshot
    body: bytes
    first_byte_ms: int
    took_ms: int
    size_bytes: int
    shown: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Begun:
    """An attempt under way."""

    started_ms: int
    interval_ms: int


class Scraper:
    """Scrapes one target, one attempt at a time. `form` is what is known of the server's answer to a filtered pulse."""

    def __init__(self, target: ScrapeTarget, clock: Clock, *, reader: SnapshotReader | None = None) -> None:
        self.target = target
        self.form = Form.UNKNOWN
        self._clock = clock
        self._places, url_authorization = _places(target.url)
        self._authorization = target.authorization or (lambda: url_authorization)
        self._reader = reader or SnapshotReader(target.engine)
        self._names = Reader(PULSE_NAMES)
        self._shown_whole: frozenset[str] | None = None
        self._fetcher = self._new_fetcher()
        self._must_probe = True
        self._version: str | None = None
        self._process_start: float | None = None
        self._engine = "" if target.engine == AUTO else target.engine
        self._page_ceiling: str | None = None

    @property
    def slowed(self) -> bool:
        """Whether each pulse costs the server its whole page, so that pulses should come every 5 s."""
        return self.form is Form.WHOLE

    async def scrape(self, stratum_ms: int, interval_ms: int, lane: Lane) -> Attempt:
        """One attempt. Faults of the target are in the attempt (`kind`, `detail`), never raised.

        A pulse that has to be repeated as a full page is one attempt: its times count from its first request.
        """
        at_ms, started_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        snapshot, kind, detail, first_byte_ms, size_bytes = None, None, "", None, 0
        try:
            answer = await self._ask(lane, _Begun(started_ms, interval_ms))
        except ScrapeError as error:
            kind, detail = error.kind, error.detail
            took_ms = self._clock.monotonic_ms() - started_ms
            if kind in _BREAKS:
                self.reprobe()
        else:
            snapshot, detail = answer.snapshot, answer.snapshot.detail
            first_byte_ms, took_ms, size_bytes = answer.first_byte_ms, answer.took_ms, answer.size_bytes
        return Attempt(stratum_ms, interval_ms, at_ms, took_ms, lane, snapshot, kind, detail, first_byte_ms, size_bytes)

    def reprobe(self) -> None:
        """After a restart: the version is unknown until `learn`, and the next pulse finds the form out anew."""
        self._must_probe = True
        self._version = None

    async def learn(self) -> Learnt:
        """Asks the server for its version, models and configuration. What it does not answer stays unknown.

        What the engine's table says is asked; of an engine that is not known yet, the first that the setting allows.
        A limit on the metrics page (of the last full scrape) goes before one that is told elsewhere. Uses a connection
        of its own, so that scrapes do not wait for it.
        """
        hearing = Hearing()
        if self._page_ceiling is not None:
            hearing.hear("max_num_seqs", self._page_ceiling, "/metrics")
        fetcher = self._new_fetcher()
        try:
            for asked in engines.candidates(self._engine or self.target.engine)[0].asks:
                if hearing.wants(asked):
                    hearing.take(asked, await self._json(fetcher, asked.path))
        finally:
            await fetcher.aclose()
        self._version = hearing.version or self._version
        return Learnt(
            self._version, hearing.models, self.form, hearing.max_num_seqs, hearing.facts, hearing.ceiling_source
        )

    async def aclose(self) -> None:
        """Closes the target's connection."""
        await self._fetcher.aclose()

    def _new_fetcher(self) -> Fetcher:
        return Fetcher(
            self._clock,
            tls=self.target.tls,
            authorization=self._authorization,
            max_bytes=self.target.max_bytes,
        )

    async def _ask(self, lane: Lane, begun: _Begun) -> _Answer:
        may_filter = engines.may_filter(self._engine)
        if lane is Lane.FULL or not may_filter or (self.form is Form.WHOLE and not self._must_probe):
            answer = await self._fetch(self._places.whole, lane, begun)
            if not may_filter:
                self._settle(Form.WHOLE)
        else:
            answer = await self._pulse(begun)
        if answer.snapshot.fault == STALE_PAGE:
            return answer
        if lane is Lane.FULL and answer.shown:
            self._shown_whole = answer.shown
        self._note(answer.snapshot, lane)
        return self._told_of_restart(answer)

    def _note(self, snapshot: Snapshot, lane: Lane) -> None:
        """Which engine answers, and the ceiling that its page tells."""
        if snapshot.engine and self._engine != snapshot.engine:
            self._must_probe = self._must_probe or bool(self._engine)
            self._engine = snapshot.engine
        if lane is Lane.FULL:
            self._page_ceiling = snapshot.facts.get("max_num_seqs")
            if snapshot.fault == "not_an_engine":  # a filtered pulse would show one engine's part of it
                self._settle(Form.WHOLE)

    async def _pulse(self, begun: _Begun) -> _Answer:
        """A pulse by the filtered form; by the whole page where the filtered answer is of no use, shows less than the
        whole page last showed, or cannot be compared yet."""
        filtered: _Answer | None = None
        try:
            filtered = await self._fetch(self._places.filtered, Lane.PULSE, begun)
        except ScrapeError as error:
            if error.kind in _SERVER_KINDS:
                raise
        if filtered is not None and filtered.snapshot.fault == STALE_PAGE:
            return filtered
        if filtered is not None and filtered.snapshot.fault != "no_known_metrics":
            if self._must_probe and not _is_filtered(filtered.body):
                self._settle(Form.WHOLE)
                return filtered
            if self._shown_whole is not None and filtered.shown >= self._shown_whole:
                if self._must_probe:
                    self._settle(Form.FILTERED)
                return filtered
        whole = await self._fetch(self._places.whole, Lane.PULSE, begun)
        self._compare(filtered, whole)
        return whole

    def _compare(self, filtered: _Answer | None, whole: _Answer) -> None:
        """Which form is of use, from both answers of one attempt. A whole page of no engine settles nothing."""
        if not whole.snapshot.engine or whole.snapshot.fault == STALE_PAGE:
            return
        self._shown_whole = whole.shown
        if filtered is None or not filtered.snapshot.engine or not filtered.shown >= whole.shown:
            self._settle(Form.WHOLE)
        elif filtered.snapshot.fault != "no_known_metrics":
            self._settle(Form.FILTERED)

    def _settle(self, form: Form) -> None:
        self.form = form
        self._must_probe = False

    async def _fetch(self, url: str, lane: Lane, begun: _Begun) -> _Answer:
        """Fetches and reads one page within what is left of the attempt's deadline."""
        before_ms = self._clock.monotonic_ms() - begun.started_ms
        deadline_ms = self.target.timeout_ms - before_ms
        if deadline_ms <= 0:
            raise ScrapeError("timeout", f"{self.target.timeout_ms / 1000:g} s were over before the whole page")
        fetched = await self._fetcher.get(url, deadline_ms=deadline_ms)
        snapshot, shown = await self._read(fetched, lane)
        refuse_cut_off(fetched)
        return _Answer(
            as_of_now(snapshot, fetched, begun.interval_ms),
            fetched.body,
            before_ms + fetched.first_byte_ms,
            before_ms + fetched.took_ms,
            fetched.size_bytes,
            shown,
        )

    async def _read(self, fetched: Fetched, lane: Lane) -> tuple[Snapshot, frozenset[str]]:
        """What the page says, and which names of the pulse it shows: none where it is not compared with another."""

        def read() -> tuple[Snapshot, frozenset[str]]:
            snapshot = self._reader.read(
                fetched.body, content_type=fetched.content_type, lane=lane, version=self._version
            )
            is_settled = self.form is Form.WHOLE and not self._must_probe and snapshot.engine == self._engine
            if is_settled or not engines.may_filter(snapshot.engine or self._engine):
                return snapshot, frozenset()
            return snapshot, frozenset(self._names.read(fetched.body).samples)

        return await asyncio.to_thread(read) if len(fetched.body) > LARGE_PAGE_BYTES else read()

    def _told_of_restart(self, answer: _Answer) -> _Answer:
        """Another start of the process may be another version, which must not be reported under the old one's name."""
        snapshot = answer.snapshot
        start, before = snapshot.process_start_seconds, self._process_start
        self._process_start = before if start is None else start
        if start is None or before in (None, start):
            return answer
        self.reprobe()
        identity = {key: value for key, value in snapshot.identity.items() if key != "version"}
        return replace(answer, snapshot=replace(snapshot, identity=identity))

    async def _json(self, fetcher: Fetcher, path: str) -> Any:
        """A JSON answer beside the metrics page; None if there is none."""
        try:
            fetched = await fetcher.get(self._places.root + path, deadline_ms=LEARN_DEADLINE_MS, accept=ACCEPT_JSON)
            return json.loads(fetched.body)
        except (ScrapeError, ValueError, RecursionError):
            return None


def _places(url: str) -> tuple[_Places, str | None]:
    """The addresses behind a target's URL, and the header for user info in it. Raises ConfigError for no address."""
    parts = _parts(url)
    authority = parts.netloc.rpartition("@")[2]
    root = parts.path.rstrip("/").removesuffix("/metrics")
    names = "&".join(f"name[]={name}" for name in PULSE_NAMES)
    query = f"{parts.query}&{names}" if parts.query else names
    places = _Places(
        whole=urlunsplit((parts.scheme, authority, f"{root}/metrics", parts.query, "")),
        filtered=urlunsplit((parts.scheme, authority, f"{root}/metrics/", query, "")),
        root=urlunsplit((parts.scheme, authority, root, "", "")),
    )
    return places, basic_header(parts.username, parts.password or "") if parts.username else None


def _parts(url: str) -> SplitResult:
    """The address in its parts, `http` where no scheme is given. Raises ConfigError, without any password in it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:  # a port that is none, a bracket that does not close
        pass
    raise ConfigError(f"{url.rpartition('@')[2]!r}: a target is http://HOST[:PORT][/PREFIX][/metrics], or https")


def _is_filtered(body: bytes) -> bool:
    """Whether an answer holds nothing but what the pulse asked for."""
    return set(Reader().read(body).samples) <= {*PULSE_NAMES, PROCESS_START}
