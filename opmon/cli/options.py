"""Options that several commands share: the database, the window, the selection, the format.

Contains no command and no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from opmon.core.answers import Selector
    from opmon.reports import WindowAsk

Command = TypeVar("Command", bound=Callable[..., Any])

DATABASE_HELP = "Database: a path or an SQLAlchemy URL. [default: OPMON_DATABASE, else the state directory]"


def database_option(command: Command) -> Command:
    """`--database`."""
    return click.option("--database", metavar="URL", help=DATABASE_HELP)(command)


def format_option(command: Command) -> Command:
    """`--format text|json|md`."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(["text", "json", "md"]),
        default="text",
        show_default=True,
        help="How the answer is printed; json is the body that the API sends.",
    )(command)


def selection_options(command: Command) -> Command:
    """`--target`, `--model`, `--engine-index`, `--scope`, `--fleet`."""
    for option in (
        click.option("--fleet", metavar="FLEET", help="A fleet named in the configuration (not in this version)."),
        click.option(
            "--scope",
            type=click.Choice(["replica", "fleet"]),
            default="replica",
            show_default=True,
            help="replica: what one server sees, the targets' occupancies added.",
        ),
        click.option("--engine-index", metavar="E", help="One engine (data-parallel rank) only."),
        click.option("--model", metavar="M", help="One model only."),
        click.option("--target", metavar="T", help="One target only; all are added otherwise."),
    ):
        command = option(command)
    return command


def window_options(command: Command) -> Command:
    """`--window`, `--start`, `--end`."""
    for option in (
        click.option("--end", metavar="T", help="End of the window: RFC 3339 or Unix seconds. [default: now]"),
        click.option("--start", metavar="T", help="Start of the window: RFC 3339 or Unix seconds."),
        click.option("--window", metavar="DURATION", help="How far back, at least 1s: 90s, 15m, 6h, 7d. [default: 7d]"),
    ):
        command = option(command)
    return command


def selector_of(
    target: str | None, model: str | None, engine_index: str | None, scope: str, fleet: str | None
) -> Selector:
    """The selector that the options describe. Raises NotFound for an empty name: nothing is called so."""
    from opmon.core.answers import Selector
    from opmon.errors import NotFound

    for option, name in (("--target", target), ("--model", model), ("--engine-index", engine_index)):
        if name == "":
            message = f"{option} is given and empty: nothing is called ''; leave it out to select all"
            raise NotFound(message)
    return Selector(target=target, model=model, engine_index=engine_index, scope=scope, fleet=fleet)


def window_of(window: str | None, start: str | None, end: str | None) -> WindowAsk:
    """The window that the options describe. Raises InvalidWindow."""
    from opmon.core.units import parse_window
    from opmon.reports import WindowAsk

    return WindowAsk(*parse_window(window, start, end))
