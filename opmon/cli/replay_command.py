"""`opmon replay`: recorded scrapes through the production path, then the report of their time.

Contains the command and its wiring; what becomes of a scrape is `opmon.pipeline`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import format_option
from opmon.errors import ConfigError

if TYPE_CHECKING:
    from opmon.core.answers import OperatingPoint, TargetStatus
    from opmon.core.model import Attempt, Row, TargetRecord
    from opmon.pipeline import Observer
    from opmon.reports import WindowAsk
    from opmon.store import Store

BATCH = 600
READ_AHEAD_MS = 600_000
FILE = "file:"
"""With this the address of a target begins that was replayed, and of no other."""


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--database", metavar="URL", help="Keep what was replayed here. [default: a temporary store]")
@click.option("--target", default="recording", show_default=True, help="The name under which the scrapes are kept.")
@click.option("--interval", default="1s", show_default=True, help="The interval at which they were taken.")
@click.option("--max-num-seqs", type=click.IntRange(min=1), help="The server's ceiling per engine, if it is known.")
@click.option("--start", metavar="T", help="Report from here: RFC 3339 or Unix seconds. [default: the first scrape]")
@click.option("--end", metavar="T", help="Report up to here. [default: the last scrape]")
@format_option
def replay(
    *,
    files: tuple[Path, ...],
    database: str | None,
    target: str,
    interval: str,
    max_num_seqs: int | None,
    start: str | None,
    end: str | None,
    output: str,
) -> None:
    """Replays recorded scrapes, in the order given, and reports where that server ran.

    FILES hold JSON lines `{t, took, status, body}`, gzipped if they end in .gz; status 0 is a failed connection.
    """
    from opmon.cli.output import as_json
    from opmon.cli.report_text import render_report
    from opmon.core.units import parse_duration, parse_instant
    from opmon.reports import WindowAsk

    interval_ms = parse_duration(interval)
    if 300_000 % interval_ms:
        message = f"--interval {interval}: an interval divides 300 s (1s, 2s, 5s, 10s, 15s, 30s, ...)"
        raise ConfigError(message)
    ask = WindowAsk(None, parse_instant(start) if start else None, parse_instant(end) if end else None)
    with tempfile.TemporaryDirectory(prefix="opmon-replay-") as folder:
        url = database or str(Path(folder) / "replay.db")
        point, status = _replay_into(url, files, target, interval_ms, max_num_seqs, ask)
    if output == "json":
        click.echo(as_json(point))
    else:
        click.echo(render_report(point, status, markdown=output == "md"), nl=False)


def _replay_into(
    url: str, files: tuple[Path, ...], target: str, interval_ms: int, max_num_seqs: int | None, ask: WindowAsk
) -> tuple[OperatingPoint, TargetStatus]:
    from opmon.cli.database import database_url
    from opmon.clock import ManualClock
    from opmon.core.answers import Selector
    from opmon.reports import Reports
    from opmon.store import Store
    from opmon.store.database import Database

    opened = Database.open(database_url(url), read_only=False, create=True)
    try:
        store = Store(opened)
        first_ms, last_ms = _store_scrapes(store, files, target, interval_ms, max_num_seqs)
        reports = Reports(store, ManualClock(last_ms))
        window = type(ask)(None, ask.start_ms or first_ms, ask.end_ms or last_ms)
        point = reports.operating_point(Selector(target=target), window)
        status = reports.target(target)
    finally:
        opened.close()
    return point, status


def _store_scrapes(
    store: Store, files: tuple[Path, ...], target: str, interval_ms: int, max_num_seqs: int | None
) -> tuple[int, int]:
    """Feeds the files through observer and store; the first stratum's start and the last one's end.

    What is stored already, of this recording, is passed over; what comes after all that is stored goes on from there.
    """
    stored = _Stored(store, target)
    observer, batch, first_ms, last_ms = None, [], None, 0
    for attempt in _attempts(files, interval_ms):
        first_ms = attempt.stratum_ms if first_ms is None else first_ms
        last_ms = attempt.stratum_ms + interval_ms
        if stored.has(attempt):
            continue
        if observer is None:
            observer = stored.go_on(_record(stored.record, target, files, interval_ms, max_num_seqs, first_ms))
        batch.append(observer.observe(attempt))
        if len(batch) >= BATCH:
            store.append(target, batch)
            batch = []
    if first_ms is None:
        message = f"{', '.join(map(str, files))}: no scrape in it"
        raise ConfigError(message)
    if observer is None:
        store.save_target(_record(stored.record, target, files, interval_ms, max_num_seqs, first_ms))
    else:
        store.append(target, batch, observer.record)
    store.roll_up(last_ms)
    return first_ms, last_ms


def _attempts(files: tuple[Path, ...], interval_ms: int) -> Iterator[Attempt]:
    """The scrapes of the files, one a stratum, in the order of time."""
    from opmon.core.snapshot import SnapshotReader
    from opmon.pipeline import attempt_of_recording, read_recording

    reader, last_ms = SnapshotReader(), 0
    for file in files:
        for scrape in read_recording(file):
            attempt = attempt_of_recording(scrape, interval_ms=interval_ms, reader=reader)
            if attempt.stratum_ms < last_ms:
                click.echo(f"{file}: a second scrape in the stratum of {scrape['t']:.3f} is left out", err=True)
                continue
            last_ms = attempt.stratum_ms + interval_ms
            yield attempt


class _Stored:
    """What the database keeps under the name already: its history goes on, or it is left alone."""

    def __init__(self, store: Store, target: str) -> None:
        """Raises ConfigError for the name of a server that is watched: two would begin its epochs."""
        self.record = store.find(target)
        self._store = store
        self._target = target
        if self.record is not None and self.record.removed_ms is None and not self.record.url.startswith(FILE):
            message = f"--target {target}: that is what was observed at {self.record.url}; give another --target"
            raise ConfigError(message)
        self._end_ms = (store.end_ms(target) if self.record else None) or 0
        self._known: dict[int, Row] = {}
        self._known_until_ms = 0

    def has(self, attempt: Attempt) -> bool:
        """Whether this very scrape is stored. Raises ConfigError for another one from before the end of what is."""
        from opmon.core.units import format_instant

        if attempt.stratum_ms >= self._end_ms:
            return False
        row = self._row(attempt.stratum_ms)
        this = (attempt.interval_ms, attempt.at_ms, attempt.took_ms)
        if row is not None and this == (row.interval_ms, row.at_ms, row.took_ms):
            return True
        message = (
            f"the scrape of {format_instant(attempt.at_ms)} comes before the end of what is kept under the name "
            f"{self._target!r} ({format_instant(self._end_ms)}) and is not a part of it; give another --target, or replay "
            "recordings in the order of time"
        )
        raise ConfigError(message)

    def go_on(self, record: TargetRecord) -> Observer:
        """An observer that goes on where the database ends; its record is stored."""
        from opmon.pipeline import Observer

        epoch = self._store.current_epoch(self._target) if self.record else None
        rows = self._store.recent_rows(self._target) if self.record else ()
        starts = self._store.earlier_starts(self._target) if self.record else ()
        self._store.save_target(record)
        return Observer(record, epoch=epoch, rows=rows, starts=starts)

    def _row(self, stratum_ms: int) -> Row | None:
        from opmon.core.model import View

        if stratum_ms >= self._known_until_ms:
            self._known_until_ms = stratum_ms + READ_AHEAD_MS
            rows = self._store.rows(View(self._target), stratum_ms, self._known_until_ms, context=False)
            self._known = {row.stratum_ms: row for row in rows}
        return self._known.get(stratum_ms)


def _record(
    known: TargetRecord | None,
    target: str,
    files: tuple[Path, ...],
    interval_ms: int,
    max_num_seqs: int | None,
    first_ms: int,
) -> TargetRecord:
    """The record to go on with. Another ceiling holds from the recording's begin, the first since the beginning."""
    from opmon.core.model import Ceiling, TargetRecord

    base = known or TargetRecord(name=target, url="")
    ceilings = base.ceilings
    if max_num_seqs and (not ceilings or ceilings[-1].max_num_seqs != max_num_seqs):
        is_first = base.first_scrape_ms is None or first_ms <= base.first_scrape_ms or not ceilings
        since_ms = 0 if is_first else first_ms
        earlier = tuple(ceiling for ceiling in ceilings if ceiling.since_ms < since_ms)
        ceilings = (*earlier, Ceiling(max_num_seqs, "option", since_ms))
    return replace(
        base, url=f"{FILE}{files[0].name}", pulse_interval_ms=interval_ms, ceilings=ceilings, removed_ms=None
    )
