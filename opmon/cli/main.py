"""The entry: which command lives in which module, and what becomes of an error.

Contains no command. Modules are imported only when their command is used, so that `opmon --version` stays quick.
"""

from __future__ import annotations

import importlib
import os
import sys

import click

from opmon import __version__
from opmon.core.names import escaped
from opmon.errors import ConfigError, InvalidWindow, NotFound, OpmonError, SweepError

# Command -> module and attribute, in the order of the help page.
COMMANDS = {
    "serve": "opmon.cli.serve_command:serve",
    "demo": "opmon.cli.demo:demo",
    "report": "opmon.cli.report_command:report",
    "recommend": "opmon.cli.recommend_command:recommend",
    "sweeps": "opmon.cli.sweeps_command:sweeps",
    "claim": "opmon.cli.claim_command:claim",
    "turn": "opmon.cli.turn_command:turn",
    "saving": "opmon.cli.saving_command:saving",
    "probe": "opmon.cli.probe_command:probe",
    "check": "opmon.cli.check_command:check",
    "replay": "opmon.cli.replay_command:replay",
    "migrate": "opmon.cli.housekeeping_command:migrate",
    "version": "opmon.cli.housekeeping_command:version",
}
TRACEBACK = "OPMON_TRACEBACK"
MOST_WORDS = 200
LINE_END = "\n"
USAGE_ERRORS = (ConfigError, InvalidWindow, NotFound, SweepError)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module_name, attribute = place.split(":")
        command = getattr(importlib.import_module(module_name), attribute)
        return command if isinstance(command, click.Command) else None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="opmon", message="%(prog)s %(version)s")
def cli() -> None:
    """Watches a language-model server and says where it really runs: at which concurrency, which benchmark cell and
    column apply, and what a change of configuration gains."""


def exit_status(error: OpmonError) -> int:
    """2 for wrong usage or configuration, 1 for what failed."""
    return 2 if isinstance(error, USAGE_ERRORS) else 1


def main() -> None:
    """Runs the command line; an error that opmon raised on purpose is told in words, without a traceback."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OpmonError as error:
        # What a file or a server said may stand in it.
        click.echo(f"opmon: {escaped(str(error), keep=LINE_END)}", err=True)
        sys.exit(exit_status(error))
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        click.echo(unexpected(error), err=True)
        sys.exit(1)


def unexpected(error: Exception) -> str:
    """The last resort, for what nobody foresaw: one line, and how to see the rest."""
    said = escaped(str(error))
    words = f": {said[: MOST_WORDS - 3]}..." if len(said) > MOST_WORDS else f": {said}" if said else ""
    return f"opmon: unexpected {type(error).__name__}{words} (a fault of opmon; {TRACEBACK}=1 shows where)"
