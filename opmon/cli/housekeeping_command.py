"""`opmon migrate` and `opmon version`.

Contains the commands only; how a database is migrated is `opmon.store.migrations`.
"""

from __future__ import annotations

import platform
import sys

import click

from opmon import __version__
from opmon.cli.options import database_option


@click.command()
@database_option
@click.option("--check", is_flag=True, help="Only say whether the database is up to date; exit 2 if it is not.")
def migrate(*, database: str | None, check: bool) -> None:
    """Creates the database or brings its schema up to date, after a backup. `opmon serve` does the same at start."""
    from opmon.cli.database import database_url
    from opmon.store.database import Database

    url = database_url(database)
    if check:
        Database.open(url, read_only=True, create=False).close()
        click.echo(f"{url}: up to date")
        return
    Database.open(url, read_only=False, create=True).close()
    click.echo(f"{url}: up to date")


@click.command()
def version() -> None:
    """The version of opmon, Python and SQLite."""
    import sqlite3

    click.echo(f"opmon {__version__}")
    click.echo(f"Python {platform.python_version()} ({sys.platform})")
    click.echo(f"SQLite {sqlite3.sqlite_version}")
