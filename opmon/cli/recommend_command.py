"""`opmon recommend`: the verdict for a live database, or for an occupancy from a file.

Contains the command only; the text is made in `recommend_text`, the answer in `opmon.core.recommend`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import database_option, format_option, selection_options, selector_of, window_of, window_options

if TYPE_CHECKING:
    from opmon.core.answers import Recommendation, Selector
    from opmon.core.cells import Sweep
    from opmon.core.recommend import Ask
    from opmon.reports import WindowAsk

FILE_SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".gz", ".yaml", ".yml")
POSITIVE = click.FloatRange(min=0, min_open=True)
# What chooses observations in a database; an occupancy from a file has nothing to choose.
CHOOSING = ("target", "model", "engine_index", "scope", "fleet", "window", "start", "end")


@click.command()
@click.option("--sweep", "sweep_name", metavar="S", required=True, help="A stored sweep's name, or a benchmark file.")
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
    sweep_name: str,
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

    With --occupancy and a sweep that is a file, no database is opened.
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
        answer = _from_file(sweep_name, occupancy, ask, database)
    else:
        selector = selector_of(target, model, engine_index, scope, fleet)
        answer = _from_database(sweep_name, ask, selector, window_of(window, start, end), database)
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


def _from_file(sweep_name: str, occupancy: str, ask: Ask, database: str | None) -> Recommendation:
    """The occupancy counts as running and as in system; nothing is known of limits, and there is no capacity stop."""
    from opmon.cli.database import open_store
    from opmon.core.recommend import live_point_of, recommend
    from opmon.sweeps.occupancy_table import read_occupancy

    is_file, has_times = Path(sweep_name).is_file(), ask.ttft_seconds is not None
    refuse_without_effect(said_options(), is_sweep_a_file=is_file, has_times=has_times)
    path = Path(occupancy)
    live = live_point_of(read_occupancy(read_file(path), path.name), path.name, ask.ceiling)
    sweep = sweep_from_file(sweep_name)
    if sweep is None:
        with open_store(database) as store:
            sweep = store.sweep(sweep_name)
    return recommend(sweep, live, ask)


def _from_database(
    sweep_name: str, ask: Ask, selector: Selector, window: WindowAsk, database: str | None
) -> Recommendation:
    from opmon.cli.database import open_reports
    from opmon.core.recommend import live_point, recommend
    from opmon.reports import RecommendationAsk

    sweep = sweep_from_file(sweep_name)
    with open_reports(database) as reports:
        if sweep is not None:
            live = live_point(reports.operating_point(selector, window), reports.curve(selector, window))
            return recommend(sweep, live, ask)
        return reports.recommendation(
            RecommendationAsk(
                sweep=sweep_name,
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
    """The sweep in the file of that path; None if it is a stored name. Raises ConfigError for a path to no file."""
    from opmon.core.cells import Sweep
    from opmon.errors import ConfigError
    from opmon.sweeps.detect import read_sweep

    path = Path(name)
    if not path.is_file():
        if "/" in name or path.suffix.lower() in FILE_SUFFIXES:
            message = f"{name}: there is no such file; give a benchmark file, or the name of a stored sweep"
            raise ConfigError(message)
        return None
    return Sweep(path.stem, (read_sweep(read_file(path), path.name),))


def read_file(path: Path) -> bytes:
    """The bytes of a file, and one more than is read of any at most. Raises ConfigError naming it."""
    from opmon.errors import ConfigError
    from opmon.sweeps.detect import LARGEST_BYTES

    try:
        with path.open("rb") as file:
            return file.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        message = f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(message) from error
