"""`opmon replay`: recorded scrapes through the production path, then the report of their time.

Contains the command and its wiring; what becomes of a scrape is `opmon.pipeline`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import format_option
from opmon.errors import ConfigError

if TYPE_CHECKING:
    from opmon.core.answers import OperatingPoint, TargetStatus
    from opmon.reports import WindowAsk
    from opmon.store import Store

BATCH = 600


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
        status = next(s for s in reports.targets() if s.name == target)
    finally:
        opened.close()
    return point, status


def _store_scrapes(
    store: Store, files: tuple[Path, ...], target: str, interval_ms: int, max_num_seqs: int | None
) -> tuple[int, int]:
    """Feeds the files through observer and store; the first stratum's start and the last one's end."""
    from opmon.core.model import Ceiling, TargetRecord
    from opmon.core.snapshot import SnapshotReader
    from opmon.pipeline import Observer, attempt_of_recording, read_recording

    ceilings = (Ceiling(max_num_seqs, "option"),) if max_num_seqs else ()
    observer = Observer(
        TargetRecord(name=target, url=f"file:{files[0].name}", pulse_interval_ms=interval_ms, ceilings=ceilings)
    )
    store.save_target(observer.record)
    reader = SnapshotReader()
    batch, first_ms, last_ms = [], None, 0
    for file in files:
        for scrape in read_recording(file):
            attempt = attempt_of_recording(scrape, interval_ms=interval_ms, reader=reader)
            if attempt.stratum_ms < last_ms:
                click.echo(f"{file}: a second scrape in the stratum of {scrape['t']:.3f} is left out", err=True)
                continue
            first_ms = attempt.stratum_ms if first_ms is None else first_ms
            last_ms = attempt.stratum_ms + interval_ms
            batch.append(observer.observe(attempt))
            if len(batch) >= BATCH:
                store.append(target, batch)
                batch = []
    if first_ms is None:
        message = f"{', '.join(map(str, files))}: no scrape in it"
        raise ConfigError(message)
    store.append(target, batch)
    store.save_target(observer.record)
    store.roll_up(last_ms)
    return first_ms, last_ms
