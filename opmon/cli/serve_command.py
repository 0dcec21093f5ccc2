"""`opmon serve`: the service.

Contains the command and how a process becomes the service; what the service is made of is `opmon.service`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import DATABASE_HELP
from opmon.errors import ConfigError

if TYPE_CHECKING:
    from opmon.config import Settings
    from opmon.service import Service

# A thread that answers a long question gives way to the timers this often; by Python's 5 ms each wait of the loop costs
# that much, and a pulse is a dozen waits.
GIVES_WAY_SECONDS = 0.001


@click.command()
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings, usually opmon.yml.")
@click.option("--target", "targets", multiple=True, metavar="URL", help="Watch this server too; may be repeated.")
@click.option("--database", metavar="URL", help=DATABASE_HELP)
@click.option(
    "--listen", metavar="HOST:PORT", help="Address of the page, the API and /metrics. [default: 127.0.0.1:8917]"
)
@click.option("--insecure", is_flag=True, default=None, help="Serve other machines without a token.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What of opmon's own log is printed to stderr.",
)
def serve(
    *,
    config: Path | None,
    targets: tuple[str, ...],
    database: str | None,
    listen: str | None,
    insecure: bool | None,
    log_level: str,
) -> None:
    """Watches the targets, keeps what they show, and serves the page, the API and /metrics.

    With --target alone no file is needed. The address is http://127.0.0.1:8917/ unless --listen says otherwise.
    """
    from opmon import log
    from opmon.config import load
    from opmon.service import Service

    log.set_up(log_level)
    options = {"targets": targets, "storage.url": database, "web.listen": listen, "web.insecure": insecure}

    def read() -> Settings:
        """The file, the variables and the options; a reload reads the file again. Raises ConfigError."""
        settings = load(config, options)
        if not settings.targets and not settings.discovery.is_set:
            message = "nothing to watch: give --target http://HOST:PORT, or a file with targets (--config opmon.yml)"
            raise ConfigError(message)
        return settings

    run(Service(read(), reread=read))


def run(service: Service) -> None:
    """Runs the service to its end; what a person needs to know at the start goes to stderr."""

    def say(url: str) -> None:
        names = ", ".join(service.watching.names) or "what discovery finds"
        click.echo(f"opmon watches {names}\n  page      {url}\n  database  {service.database.name}", err=True)
        # What is there now stays to the end: the collector need not go through it again, 0.1 s each time.
        gc.collect()
        gc.freeze()

    sys.setswitchinterval(GIVES_WAY_SECONDS)
    asyncio.run(service.run(say))
