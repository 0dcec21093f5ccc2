"""`opmon sweeps`: benchmark results in and out of the database.

Contains the commands only; reading files is `opmon.sweeps`, keeping them `opmon.store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.benchmark_files import Said, notes_of, read_paths, words_of
from opmon.cli.options import database_option, format_option
from opmon.core.names import escaped

if TYPE_CHECKING:
    from opmon.core.cells import SweepImport
    from opmon.store import Store


@click.group()
def sweeps() -> None:
    """Benchmark results in and out of the database."""


@sweeps.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER...")
@click.option("--sweep", "sweep_name", metavar="S", help="The sweep to add them to. [default: each file's stem]")
@click.option("--config", "configuration", metavar="C", help="The configuration, where a file does not say it.")
@click.option("--content", metavar="K", help="The content, where a file does not say it.")
@click.option(
    "--reader", default="auto", show_default=True, metavar="R", help="How to read the files; auto looks at each."
)
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
    """Adds benchmark files, and folders with all that a tool wrote into them: all of them or none.

    A folder is one sweep, called as the folder is. A run that several files of a sweep tell counts once. The same files
    again change nothing.
    """
    from opmon.cli.database import database_url
    from opmon.clock import SystemClock
    from opmon.store import Store
    from opmon.store.database import Database

    found = read_paths([Path(name) for name in files], Said(reader, configuration, content))
    by_sweep: dict[str, list[SweepImport]] = {}
    for one in (one for one in found if one.imports):
        by_sweep.setdefault(_usable(one.name if sweep_name is None else sweep_name), []).extend(one.imports)
    opened = Database.open(database_url(database), read_only=False, create=True)
    try:
        store = Store(opened)
        kept, told = _gathered(store, by_sweep)
        are_new = store.import_sweeps(kept, SystemClock().now_ms())
    finally:
        opened.close()
    for name in by_sweep:
        pairs = [(file, is_new) for (sweep, file), is_new in zip(kept, are_new, strict=True) if sweep == name]
        click.echo(_imported(name, pairs))
    for words in (*notes_of(file for _, file in kept), *told, *words_of(found)):
        click.echo(words, err=True)


def _gathered(store: Store, by_sweep: dict[str, list[SweepImport]]) -> tuple[list[tuple[str, SweepImport]], list[str]]:
    """What is to be kept of each sweep beside what it holds already, and words for what is not. Raises SweepError where a
    sweep holds a file under other names than are given now."""
    from opmon.errors import NotFound
    from opmon.sweeps.gathering import gathered, refuse_renaming

    kept, told = [], []
    for name, imports in by_sweep.items():
        try:
            known = store.sweep(name).imports
        except NotFound:
            known = ()
        refuse_renaming(imports, known, name)
        left, words = gathered(imports, known)
        kept += [(name, one) for one in left]
        told += words
    return kept, told


def _usable(name: str) -> str:
    """A sweep's name, trimmed. Raises SweepError."""
    from opmon.core.names import sweep_name_fault
    from opmon.errors import SweepError

    trimmed = name.strip()
    if fault := sweep_name_fault(trimmed):
        raise SweepError(f"the sweep's name: {fault}; say another with --sweep")
    return trimmed


def _imported(name: str, files: Sequence[tuple[SweepImport, bool]]) -> str:
    """What became of the files of one sweep. `files`: each with whether it is new."""
    new = [file for file, is_new in files if is_new]
    if not files:
        return f"{name}: its runs are in it already, nothing changed"
    if not new:
        which = files[0][0].file_name + " was" if len(files) == 1 else f"all {len(files)} files were"
        return f"{name}: {which} in it already, nothing changed"
    cells = [cell for file in new for cell in file.cells]
    readers = ", ".join(dict.fromkeys(file.reader for file in new))
    source = new[0].file_name if len(new) == 1 else f"{len(new)} files"
    rest = f", {len(files) - len(new)} more were in it already" if len(files) > len(new) else ""
    configurations = escaped(", ".join(dict.fromkeys(cell.configuration for cell in cells)))
    return f"{name}: {len(cells)} cells from {source} ({readers}){rest}; configurations {configurations}"


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
