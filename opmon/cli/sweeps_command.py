"""`opmon sweeps`: benchmark results in and out of the database.

Contains the commands only; reading files is `opmon.sweeps`, keeping them `opmon.store`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import database_option, format_option
from opmon.core.names import escaped

if TYPE_CHECKING:
    from opmon.core.cells import SweepImport


@click.group()
def sweeps() -> None:
    """Benchmark results in and out of the database."""


@sweeps.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--sweep", "sweep_name", metavar="S", help="The sweep to add them to. [default: each file's stem]")
@click.option("--config", "configuration", metavar="C", help="The configuration, where a file does not say it.")
@click.option("--content", metavar="K", help="The content, where a file does not say it.")
@click.option("--reader", default="auto", show_default=True, metavar="R", help="How to read the files: auto or table.")
@database_option
def import_(
    *,
    files: tuple[str, ...],
    sweep_name: str | None,
    configuration: str | None,
    content: str | None,
    reader: str,
    database: str | None,
) -> None:
    """Adds benchmark files. All are read before the first one is kept; the same file again changes nothing."""
    from opmon.cli.database import database_url
    from opmon.cli.recommend_command import read_file
    from opmon.clock import SystemClock
    from opmon.store import Store
    from opmon.store.database import Database
    from opmon.sweeps.detect import read_sweep

    paths = [Path(name) for name in files]
    names = [_usable(path.stem if sweep_name is None else sweep_name) for path in paths]
    read = [
        read_sweep(read_file(path), escaped(path.name), reader=reader, configuration=configuration, content=content)
        for path in paths
    ]
    opened = Database.open(database_url(database), read_only=False, create=True)
    try:
        store = Store(opened)
        for name, one in zip(names, read, strict=True):
            is_new = store.import_sweep(name, one, SystemClock().now_ms())
            click.echo(_imported(name, one, is_new=is_new))
            for note in one.notes:
                click.echo(escaped(f"{one.file_name}: {note}"), err=True)
    finally:
        opened.close()


def _usable(name: str) -> str:
    """A sweep's name, trimmed. Raises SweepError."""
    from opmon.core.names import sweep_name_fault
    from opmon.errors import SweepError

    trimmed = name.strip()
    if fault := sweep_name_fault(trimmed):
        raise SweepError(f"the sweep's name: {fault}; say another with --sweep")
    return trimmed


def _imported(name: str, one: SweepImport, *, is_new: bool) -> str:
    if not is_new:
        return f"{name}: {one.file_name} was in it already, nothing changed"
    configurations = ", ".join(dict.fromkeys(cell.configuration for cell in one.cells))
    return (
        f"{name}: {len(one.cells)} cells from {one.file_name} ({one.reader}); configurations {escaped(configurations)}"
    )


@sweeps.command("list")
@database_option
@format_option
def list_(*, database: str | None, output: str) -> None:
    """The stored sweeps."""
    from opmon.cli.database import open_reports
    from opmon.cli.output import as_json
    from opmon.cli.sweeps_text import render_list

    with open_reports(database) as reports:
        answer = reports.sweeps()
    click.echo(as_json(answer) if output == "json" else render_list(answer, markdown=output == "md"))


@sweeps.command("show")
@click.argument("sweep_name", metavar="S")
@database_option
@format_option
def show(*, sweep_name: str, database: str | None, output: str) -> None:
    """A stored sweep with its cells."""
    from opmon.cli.database import open_reports
    from opmon.cli.output import as_json
    from opmon.cli.sweeps_text import render_sweep

    with open_reports(database) as reports:
        answer = reports.sweep(sweep_name)
    click.echo(as_json(answer) if output == "json" else render_sweep(answer, markdown=output == "md"))


@sweeps.command("delete")
@click.argument("sweep_name", metavar="S")
@database_option
def delete(*, sweep_name: str, database: str | None) -> None:
    """Deletes a stored sweep with its cells and the kept files."""
    from opmon.cli.database import database_url
    from opmon.store import Store
    from opmon.store.database import Database

    opened = Database.open(database_url(database), read_only=False, create=False)
    try:
        Store(opened).delete_sweep(sweep_name)
    finally:
        opened.close()
    click.echo(f"{sweep_name}: deleted")
