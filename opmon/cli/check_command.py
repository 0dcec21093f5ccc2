"""`opmon check`: is the configuration right, what does a target show, is the database sound.

Contains the commands and their words; what is checked is done by the same code that the service uses.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import database_option
from opmon.core.engines import AUTO, BY_NAME
from opmon.core.names import escaped
from opmon.errors import ConfigError, OpmonError

if TYPE_CHECKING:
    from opmon.config import Target
    from opmon.core.model import Attempt, Form
    from opmon.scrape.scraper import Learnt


class CheckFailed(OpmonError):
    """The check was made, and its answer is no: exit status 1."""


@click.group()
def check() -> None:
    """Checks a configuration, a target or a database, and says in words what was found."""


@check.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def config(*, file: Path) -> None:
    """Reads FILE as `opmon serve --config FILE` would; exit 2 names file, line and key of what is wrong."""
    from opmon.clock import SystemClock
    from opmon.config import load
    from opmon.discovery import usable_sources

    settings = load(file)
    usable_sources(settings, SystemClock())
    click.echo(f"{file}: fine; {len(settings.targets)} target(s), {len(settings.comparisons)} comparison(s)")
    for target in settings.targets:
        click.echo(f"  {target.name}  {target.url}")


@check.command()
@click.argument("url")
@click.option("--timeout", default="4s", show_default=True, help="Deadline of each request.")
@click.option(
    "--engine",
    type=click.Choice([AUTO, *BY_NAME]),
    default=AUTO,
    show_default=True,
    help="Read the page as this engine's, as a target's setting `engine` does.",
)
def target(*, url: str, timeout: str, engine: str) -> None:
    """Asks the server at URL once and says its engine and version, where its figures come from, and what is missing."""
    from opmon.cli.target_text import render_target
    from opmon.core.units import parse_duration

    full, pulse, form, learnt = asyncio.run(_look(_checked(url, engine), parse_duration(timeout)))
    if full.snapshot is None:
        message = f"{url}: {full.kind}: {full.detail}"
        raise CheckFailed(message)
    for line in render_target(full, pulse, form, learnt):
        click.echo(escaped(line))
    if full.snapshot.fault:
        message = f"{url}: this page cannot be used: {full.snapshot.fault}: {full.snapshot.detail}"
        raise CheckFailed(message)


def _checked(url: str, engine: str) -> Target:
    """The target at that URL. Raises ConfigError where it is none, without repeating it: it may hold a password."""
    from pydantic import ValidationError

    from opmon.config import Target

    try:
        return Target.model_validate({"url": url, "engine": engine}).named()
    except ValidationError as error:
        words = "; ".join(str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors())
        message = f"the URL of the target {words}"
        raise ConfigError(message) from None


async def _look(checked: Target, timeout_ms: int) -> tuple[Attempt, Attempt, Form, Learnt]:
    """A full scrape, a pulse, and what the server says of itself."""
    from opmon.clock import SystemClock
    from opmon.core.model import Lane
    from opmon.scrape.scraper import Scraper, ScrapeTarget

    scraper = Scraper(
        ScrapeTarget(
            str(checked.name),
            checked.url,
            engine=checked.engine,
            timeout_ms=timeout_ms,
            authorization=checked.authorization,
        ),
        SystemClock(),
    )
    try:
        now_ms = SystemClock().now_ms()
        full = await scraper.scrape(now_ms, timeout_ms, Lane.FULL)
        pulse = await scraper.scrape(now_ms + timeout_ms, timeout_ms, Lane.PULSE)
        return full, pulse, scraper.form, await scraper.learn()
    finally:
        await scraper.aclose()


@check.command()
@database_option
def database(*, database: str | None) -> None:
    """Opens the database read-only, checks its schema and its pages, and says what is in it."""
    from opmon.cli.database import open_store

    with open_store(database) as store:
        faults = store.faults()
        if faults:
            message = (
                f"{store.database.name}: damaged: {'; '.join(faults[:5])}; restore a backup, or move the file aside"
            )
            raise CheckFailed(message)
        targets = store.targets()
        click.echo(f"{store.database.name}: sound; {len(targets)} target(s), {len(store.sweeps())} sweep(s)")
        for record in targets:
            click.echo(f"  {record.name}  {record.url}  {record.health.value}")
