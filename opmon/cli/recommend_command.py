"""`opmon recommend`: the verdict for a live database, or for an occupancy from a file.

Contains the command only; the text is made in `recommend_text`, the answer in `opmon.core.recommend`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.benchmark_files import read_file
from opmon.cli.options import database_option, format_option, selection_options, selector_of, window_of, window_options

if TYPE_CHECKING:
    from opmon.core.answers import Recommendation, Selector
    from opmon.core.cells import Sweep
    from opmon.core.recommend import Ask
    from opmon.reports import WindowAsk

POSITIVE = click.FloatRange(min=0, min_open=True)
# What chooses observations in a database; an occupancy from a file has nothing to choose.
CHOOSING = ("target", "model", "engine_index", "scope", "fleet", "window", "start", "end")


@click.command()
@click.option(
    "--sweep",
    "sweep_names",
    metavar="S",
    required=True,
    multiple=True,
    help="A stored sweep's name, a benchmark file, or a folder of them; several, each with its --sweep, are taken as one.",
)
@click.option("--reference", metavar="C", help="The configuration to compare with. [default: the first of two]")
@click.option("--candidate", metavar="C", help="The configuration on trial. [default: the other of two]")
@click.option("--content", metavar="K|MIX", help="What is served: a content of the sweep, or code=0.3,prose=0.7.")
@click.option("--live-is", type=click.Choice(["reference", "candidate"]), help="What the live server runs.")
@click.option("--occupancy", metavar="FILE", help="A CSV level,seconds instead of the database.")
@click.option("--prompt-tokens", type=POSITIVE, metavar="N", help="Mean prompt length. [default: the live one]")
@click.option("--output-tokens", type=POSITIVE, metavar="N", help="Mean output length. [default: the live one]")
@click.option("--ttft", type=click.FloatRange(min=0), metavar="S", help="TTFT of a typical turn, seconds.")
@click.option("--decode", type=click.FloatRange(min=0), metavar="S", help="Time after the first token, seconds.")
@click.option(
    "--measured",
    type=click.Choice(["after", "before"]),
    help="Whether the times are from after or before the switch. [default: before if live is the reference, else after]",
)
@click.option("--ceiling", type=click.IntRange(min=1), metavar="N", help="The limit of running requests.")
@selection_options
@window_options
@database_option
@format_option
def recommend(  # noqa: PLR0913 - one parameter an option
    *,
    sweep_names: tuple[str, ...],
    reference: str | None,
    candidate: str | None,
    content: str | None,
    live_is: str | None,
    occupancy: str | None,
    prompt_tokens: float | None,
    output_tokens: float | None,
    ttft: float | None,
    decode: float | None,
    measured: str | None,
    ceiling: int | None,
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
    """Which benchmark cell and column apply, what the ratio is there, and whether to switch.

    Reference and candidate may be in a file each: --sweep plain.json --sweep spec.json. With --occupancy and sweeps that
    are files, no database is opened.
    """
    from opmon.cli.output import as_json
    from opmon.cli.recommend_text import render_recommendation
    from opmon.core.recommend import Ask

    ask = Ask(
        reference=reference,
        candidate=candidate,
        content=content,
        live_is=live_is,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        ttft_seconds=ttft,
        decode_seconds=decode,
        measured=measured,
        ceiling=ceiling,
    )
    if occupancy is not None:
        answer = _from_file(sweep_names, occupancy, ask, database)
    else:
        selector = selector_of(target, model, engine_index, scope, fleet)
        answer = _from_database(sweep_names, ask, selector, window_of(window, start, end), database)
    if output == "json":
        click.echo(as_json(answer))
    else:
        click.echo(render_recommendation(answer, output == "md"), nl=False)


def said_options() -> set[str]:
    """The options of this call that somebody wrote, defaults left out."""
    context = click.get_current_context()
    return {
        name for name in context.params if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    }


def refuse_without_effect(said: set[str], *, is_sweep_a_file: bool, has_times: bool) -> None:
    """Raises ConfigError for options that change nothing beside --occupancy: whoever writes them expects otherwise."""
    from opmon.errors import ConfigError

    chosen = [name for name in CHOOSING if name in said]
    if chosen:
        message = (
            f"{_written(chosen)} chooses observations in a database, and --occupancy takes its place: leave out either"
        )
        raise ConfigError(message)
    if "database" in said and is_sweep_a_file:
        raise ConfigError("--database has no effect: the sweep and the occupancy are both files; leave it out")
    if "measured" in said and not has_times:
        raise ConfigError("--measured has no effect without the times that it is about: give --ttft and --decode")


def _written(names: list[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _from_file(names: tuple[str, ...], occupancy: str, ask: Ask, database: str | None) -> Recommendation:
    """The occupancy counts as running and as in system; nothing is known of limits, and there is no capacity stop."""
    from opmon.cli.sweep_files import paths_of, sweep_of
    from opmon.core.recommend import live_point_of, recommend
    from opmon.sweeps.occupancy_table import read_occupancy

    are_files, has_times = all(paths_of(names)), ask.ttft_seconds is not None
    refuse_without_effect(said_options(), is_sweep_a_file=are_files, has_times=has_times)
    path = Path(occupancy)
    live = live_point_of(read_occupancy(read_file(path), path.name), path.name, ask.ceiling)
    return recommend(sweep_of(names, database), live, ask)


def _from_database(
    names: tuple[str, ...], ask: Ask, selector: Selector, window: WindowAsk, database: str | None
) -> Recommendation:
    from opmon.cli.database import open_reports
    from opmon.cli.sweep_files import paths_of, sweep_of
    from opmon.core.recommend import recommend
    from opmon.reports import RecommendationAsk

    is_stored = len(names) == 1 and paths_of(names) == [None]
    sweep = None if is_stored else sweep_of(names, database)
    with open_reports(database) as reports:
        if sweep is not None:
            return recommend(sweep, reports.live_point(selector, window), ask)
        return reports.recommendation(
            RecommendationAsk(
                sweep=names[0],
                reference=ask.reference,
                candidate=ask.candidate,
                content=ask.content,
                live_is=ask.live_is,
                prompt_tokens=ask.prompt_tokens,
                output_tokens=ask.output_tokens,
                ttft_seconds=ask.ttft_seconds,
                decode_seconds=ask.decode_seconds,
                measured=ask.measured,
                ceiling=ask.ceiling,
                selector=selector,
                window=window,
            )
        )


def sweep_from_file(name: str) -> Sweep | None:
    """The sweep in the file or folder of that path; None if it is a stored name. Raises ConfigError for a path to
    nothing, SweepError for what cannot be read."""
    from opmon.cli.sweep_files import paths_of, sweep_of

    return None if paths_of((name,)) == [None] else sweep_of((name,), None)
