"""From an attempt to what is stored: the one path of the service, the demo's history and a replay.

Contains no scheduling, no HTTP and no SQL: an attempt comes in, what the tracker made of it and the target's new
record come out.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opmon.core.model import Attempt, Ceiling, Epoch, Health, Lane, Row, Snapshot, State, TargetRecord
from opmon.core.names import escaped
from opmon.core.snapshot import SnapshotReader
from opmon.core.states import Step, Tracker
from opmon.errors import ConfigError, ScrapeError

OK_STATUS = 200
MOST_UNIX_SECONDS = 253_402_300_799
"""The end of the year 9999, up to which an instant can be shown as a date."""
MOST_TOOK_SECONDS = 86_400
MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Observation:
    """An attempt with what the tracker made of it: the unit that is stored."""

    attempt: Attempt
    step: Step


class Observer:
    """Follows one target: its tracker and its record. Feed attempts in the order of their strata."""

    def __init__(
        self,
        record: TargetRecord,
        *,
        epoch: Epoch | None = None,
        rows: Sequence[Row] = (),
        starts: Sequence[float] = (),
        expected_model: str | None = None,
    ) -> None:
        """`epoch`, `rows`, `starts`: where the database ends, as `Tracker.restore` wants it. `expected_model`: counted as missing
        while it is not served."""
        self.record = record
        self._expected_model = expected_model
        self.tracker = (
            Tracker.restore(epoch, rows, record.stall_after_ms, starts=starts, kind=record.kind)
            if epoch is not None or rows
            else Tracker.fresh(stall_after_ms=record.stall_after_ms)
        )

    def reconfigure(self, record: TargetRecord, *, expected_model: str | None) -> None:
        """Goes on under another configuration of the same target."""
        self.record = record
        self._expected_model = expected_model

    def clock_stepped(self, step_ms: int) -> None:
        """The wall clock stepped since the last attempt; positive: forward."""
        self.tracker.clock_stepped(step_ms)

    def observe(self, attempt: Attempt) -> Observation:
        """Decides the stratum's state and brings the record up to date."""
        step = self.tracker.advance(attempt)
        self.record = _updated(self.record, attempt, step)
        if self._expected_model is not None and self._expected_model not in self.record.models:
            lacking = f"model {self._expected_model}"
            self.record = replace(self.record, missing=tuple(dict.fromkeys((*self.record.missing, lacking))))
        return Observation(attempt, step)

    def learnt(
        self, *, version: str | None = None, max_num_seqs: int | None = None, source: str = "", at_ms: int
    ) -> None:
        """Takes over what the server said of itself beside its metrics. A ceiling that a person declared stands."""
        record = self.record
        if version is not None and version != record.version:
            record = replace(record, version=version)
        declared = any(ceiling.source == "configured" for ceiling in record.ceilings)
        known = record.ceilings[-1].max_num_seqs if record.ceilings else None
        if max_num_seqs is not None and not declared and max_num_seqs != known:
            # The first ceiling is taken to have held since the beginning: nothing says otherwise.
            since_ms = at_ms if record.ceilings else 0
            record = replace(
                record, ceilings=(*record.ceilings, Ceiling(max_num_seqs, source.strip("/") or "metrics", since_ms))
            )
        self.record = record


def _updated(record: TargetRecord, attempt: Attempt, step: Step) -> TargetRecord:
    """The record after an attempt. A failed one leaves what was known of the server as it was."""
    snapshot = attempt.snapshot
    record = replace(
        record,
        health=Health.DOWN if snapshot is None else Health.UP,
        state=step.row.state,
        kind=step.row.kind,
        last_error=step.detail if step.row.state in (State.DOWN, State.INVALID) else "",
        last_scrape_ms=attempt.at_ms,
        last_took_ms=attempt.took_ms,
        last_size_bytes=attempt.size_bytes,
        first_scrape_ms=(
            attempt.stratum_ms if record.first_scrape_ms is None else min(record.first_scrape_ms, attempt.stratum_ms)
        ),
    )
    return record if snapshot is None or not snapshot.series else _with_facts(record, snapshot, attempt.lane)


def _with_facts(record: TargetRecord, snapshot: Snapshot, lane: Lane) -> TargetRecord:
    """What the page itself says of the server."""
    # What a process in front of the engines counts for all of them belongs to none: it shows no running requests.
    shown = [key for key, sample in snapshot.series.items() if sample.running is not None] or list(snapshot.series)
    models = tuple(sorted({key.model_name for key in shown}))
    engines = tuple(sorted({key.engine_index for key in shown}))
    if (models, engines, snapshot.engine) != (record.models, record.engine_indexes, record.engine):
        record = replace(record, models=models, engine_indexes=engines, engine=snapshot.engine)
    if lane is not Lane.FULL:
        return record
    kv_ceiling = snapshot.facts.get("kv_cache_max_concurrency")
    return replace(
        record,
        missing=snapshot.missing,
        facts={**snapshot.facts, **_skipped(snapshot)},
        kv_cache_max_concurrency=float(kv_ceiling) if kv_ceiling else record.kv_cache_max_concurrency,
    )


def _skipped(snapshot: Snapshot) -> dict[str, str]:
    """How many lines of the page are no samples, and the first of them. 0 is a fact too: the page was read in full."""
    words = {"skipped": snapshot.detail} if snapshot.skipped_lines else {}
    return {"skipped_lines": str(snapshot.skipped_lines), **words}


def read_recording(path: Path) -> Iterator[dict[str, Any]]:
    """The scrapes of a recording, in file order: JSON lines `{t, took, status, body}`, gzipped if it ends in `.gz`.

    Raises ConfigError naming file and line for a line that is none.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _recorded(line, f"{path}, line {number}")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        message = f"{path}: cannot be read as a recording: {error}"
        raise ConfigError(message) from error


def _recorded(line: str, place: str) -> dict[str, Any]:
    try:
        scrape = json.loads(line)
        read: dict[str, Any] = {
            "t": float(scrape["t"]),
            "took": float(scrape.get("took") or 0.0),
            "status": int(scrape["status"]),
            "body": str(scrape["body"]),
        }
        fault = _recording_fault(**read)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        words = f"{type(error).__name__}: {str(error)[:MOST_WORDS]}"
        message = f"{place}: a scrape is a JSON object with t, took, status and body ({words})"
        raise ConfigError(message) from error
    if fault:
        raise ConfigError(f"{place}: {fault}")
    return read


def _recording_fault(*, t: float, took: float, status: int, body: str) -> str:
    """What cannot be in a scrape, in words; empty where nothing is wrong."""
    if not 0 <= t < MOST_UNIX_SECONDS:
        return f"t is {t:g}; it is the instant of the scrape in Unix seconds, from 0 to {MOST_UNIX_SECONDS:,}"
    if not 0 <= took <= MOST_TOOK_SECONDS:
        return f"took is {took:g}; it is how long the scrape took in seconds, from 0 to {MOST_TOOK_SECONDS:,}"
    if not 0 <= status <= 999:
        return f"status is {status:.6g}; it is the HTTP status, or 0 for a connection that failed"
    try:
        body.encode()
    except UnicodeEncodeError:
        return "the body is no text: it holds one half of a surrogate pair"
    return ""


def attempt_of_page(
    body: bytes,
    *,
    at_ms: int,
    took_ms: int,
    interval_ms: int,
    lane: Lane = Lane.FULL,
    reader: SnapshotReader | None = None,
) -> Attempt:
    """The attempt that a page stands for, whoever fetched it: the page is read, or the reason is kept.

    A `reader` that is kept for all pages of one target reads them four times as fast.
    """
    snapshot: Snapshot | None = None
    kind, detail = None, ""
    try:
        snapshot = (reader or SnapshotReader()).read(body, lane=lane)
    except ScrapeError as error:
        kind, detail = error.kind, error.detail
    return Attempt(
        stratum_ms=at_ms - at_ms % interval_ms,
        interval_ms=interval_ms,
        at_ms=at_ms,
        took_ms=took_ms,
        lane=lane,
        snapshot=snapshot,
        kind=kind,
        detail=detail,
        size_bytes=len(body),
    )


def attempt_of_failure(detail: str, *, kind: str, at_ms: int, took_ms: int, interval_ms: int, lane: Lane) -> Attempt:
    """The attempt of a scrape that was not answered with a page."""
    return Attempt(
        stratum_ms=at_ms - at_ms % interval_ms,
        interval_ms=interval_ms,
        at_ms=at_ms,
        took_ms=took_ms,
        lane=lane,
        snapshot=None,
        kind=kind,
        detail=detail,
    )


def attempt_of_recording(scrape: dict[str, Any], *, interval_ms: int, reader: SnapshotReader | None = None) -> Attempt:
    """A recorded scrape as an attempt. Status 0 is a connection that failed, another but 200 an HTTP error."""
    at_ms, took_ms = round(scrape["t"] * 1000), round(scrape["took"] * 1000)
    if scrape["status"] != OK_STATUS:
        kind = "http_status" if scrape["status"] else "connect"
        detail = f"HTTP {scrape['status']}" if scrape["status"] else escaped(scrape["body"][:200])
        return attempt_of_failure(
            detail, kind=kind, at_ms=at_ms, took_ms=took_ms, interval_ms=interval_ms, lane=Lane.FULL
        )
    body = scrape["body"].encode()
    return attempt_of_page(body, at_ms=at_ms, took_ms=took_ms, interval_ms=interval_ms, reader=reader)
