"""`opmon report`: the operating point in words and a bar per level.

Contains the command only; the text is made in `report_text`, the numbers in `opmon.reports`.
"""

from __future__ import annotations

import click

from opmon.cli.options import database_option, format_option, selection_options, selector_of, window_of, window_options


@click.command()
@selection_options
@window_options
@database_option
@format_option
def report(  # noqa: PLR0913 - one parameter an option
    *,
    target: str | None,
    model: str | None,
    engine_index: str | None,
    scope: str,
    fleet: str | None,
    window: str | None,
    start: str | None,
    end: str | None,
    database: str | None,
    output: str,
) -> None:
    """Where the server really runs: the distribution of running concurrency, with its coverage.

    Reads the database of a running or stopped `opmon serve`; changes nothing in it.
    """
    from opmon.cli.database import open_reports
    from opmon.cli.output import as_json
    from opmon.cli.report_text import render_report

    selector = selector_of(target, model, engine_index, scope, fleet)
    with open_reports(database) as reports:
        point = reports.operating_point(selector, window_of(window, start, end))
        statuses = reports.targets() if target is None else (reports.target(target),)
    if output == "json":
        click.echo(as_json(point))
    else:
        status = statuses[0] if len(statuses) == 1 else None
        click.echo(render_report(point, status, markdown=output == "md"), nl=False)
