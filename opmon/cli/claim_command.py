"""`opmon claim`: where a quoted speed-up comes from, and what holds where the server runs.

Contains the command only; the text is made in `claim_text`, the answer in `opmon.core.recommend.claim`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.benchmark_files import read_file
from opmon.cli.options import database_option, format_option, selection_options, selector_of, window_of, window_options
from opmon.cli.recommend_command import (
    CHOOSING,
    POSITIVE,
    refuse_without_effect,
    said_options,
    sweep_from_file,
)

if TYPE_CHECKING:
    from opmon.core.cells import Sweep
    from opmon.core.recommend import LivePoint
    from opmon.core.recommend.claimed import Claim
    from opmon.core.recommend.quote import ClaimAsk
    from opmon.reports import RecommendationAsk

EXAMPLE = """\b
Example:
  opmon claim --sweep drafters.csv --speedup 2.58x --occupancy occupancy.csv --live-content prose
"""


@click.command(epilog=EXAMPLE)
@click.option("--sweep", "sweep_name", metavar="S", required=True, help="A stored sweep's name, or a benchmark file.")
@click.option("--speedup", metavar="X", required=True, help="As quoted: 2.58, 2.58x, +158%, 708.4/274.7.")
@click.option("--content", metavar="K", help="The content, if the quote says it.")
@click.option("--column", metavar="NAME", help="The column, if the quote says it: aggregate, per_stream, ttft, ...")
@click.option("--concurrency", type=POSITIVE, metavar="N", help="The concurrency, if the quote says it.")
@click.option("--prompt-tokens", type=POSITIVE, metavar="N", help="The prompt length, if the quote says it.")
@click.option("--output-tokens", type=POSITIVE, metavar="N", help="The output length, if the quote says it.")
@click.option("--reference", metavar="C", help="The configuration to compare with. [default: the first of two]")
@click.option("--candidate", metavar="C", help="The configuration on trial. [default: the other of two]")
@click.option("--occupancy", metavar="FILE", help="A CSV level,seconds instead of the database.")
@click.option("--live-content", metavar="K|MIX", help="What is served: a content, or code=0.3,prose=0.7.")
@click.option("--live-is", type=click.Choice(["reference", "candidate"]), help="What the live server runs.")
@click.option("--live-prompt-tokens", type=POSITIVE, metavar="N", help="Mean prompt length. [default: the live one]")
@click.option("--live-output-tokens", type=POSITIVE, metavar="N", help="Mean output length. [default: the live one]")
@click.option("--ttft", type=click.FloatRange(min=0), metavar="S", help="TTFT of a typical turn, seconds.")
@click.option("--decode", type=click.FloatRange(min=0), metavar="S", help="Time after the first token, seconds.")
@click.option("--measured", type=click.Choice(["after", "before"]), help="On which side of the switch the times are.")
@click.option("--ceiling", type=click.IntRange(min=1), metavar="N", help="The limit of running requests.")
@selection_options
@window_options
@database_option
@format_option
def claim(  # noqa: PLR0913 - one parameter an option
    *,
    sweep_name: str,
    speedup: str,
    content: str | None,
    column: str | None,
    concurrency: float | None,
    prompt_tokens: float | None,
    output_tokens: float | None,
    reference: str | None,
    candidate: str | None,
    occupancy: str | None,
    live_content: str | None,
    live_is: str | None,
    live_prompt_tokens: float | None,
    live_output_tokens: float | None,
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
) -> None:  # long: one parameter an option
    """Which cell and column a quoted speed-up comes from, where that differs from your server, and what holds there.

    With a sweep that is a file, and without a database, it is located all the same.
    """
    from opmon.cli.claim_text import render_claim
    from opmon.cli.output import as_json
    from opmon.core.recommend.quote import ClaimAsk
    from opmon.reports import RecommendationAsk

    quote = ClaimAsk(speedup, content, column, concurrency, prompt_tokens, output_tokens)
    ask = RecommendationAsk(
        sweep=sweep_name,
        reference=reference,
        candidate=candidate,
        content=live_content,
        live_is=live_is,
        prompt_tokens=live_prompt_tokens,
        output_tokens=live_output_tokens,
        ttft_seconds=ttft,
        decode_seconds=decode,
        measured=measured,
        ceiling=ceiling,
        selector=selector_of(target, model, engine_index, scope, fleet),
        window=window_of(window, start, end),
    )
    answer = _from_file(quote, ask, occupancy, database) if occupancy else _from_database(quote, ask, database)
    click.echo(
        as_json(answer) if output == "json" else render_claim(answer, markdown=output == "md"), nl=output == "json"
    )


def _from_file(quote: ClaimAsk, ask: RecommendationAsk, occupancy: str, database: str | None) -> Claim:
    """The live point is an occupancy in a file."""
    from opmon.cli.database import open_store
    from opmon.core.recommend import live_point_of
    from opmon.sweeps.occupancy_table import read_occupancy

    sweep = sweep_from_file(ask.sweep)
    refuse_without_effect(said_options(), is_sweep_a_file=sweep is not None, has_times=ask.ttft_seconds is not None)
    path = Path(occupancy)
    live = live_point_of(read_occupancy(read_file(path), path.name), path.name, ask.ceiling)
    if sweep is None:
        with open_store(database) as store:
            sweep = store.sweep(ask.sweep)
    return _located(sweep, quote, ask, live)


def _from_database(quote: ClaimAsk, ask: RecommendationAsk, database: str | None) -> Claim:
    """The live point of a database; none where there is no database and the sweep needs none."""
    from opmon.cli.database import open_reports
    from opmon.core.recommend import live_point

    sweep = sweep_from_file(ask.sweep)
    if sweep is not None and not said_options() & {*CHOOSING, "database"} and _is_nothing_watched():
        return _located(sweep, quote, ask, None)
    with open_reports(database) as reports:
        if sweep is None:
            return reports.claim(ask, quote)
        point, curve = reports.operating_point(ask.selector, ask.window), reports.curve(ask.selector, ask.window)
        return _located(sweep, quote, ask, live_point(point, curve))


def _is_nothing_watched() -> bool:
    """Whether nobody named a database and there is none in the usual place."""
    from opmon.cli.database import database_url

    scheme, _, path = database_url(None).partition(":///")
    return not os.environ.get("OPMON_DATABASE") and scheme == "sqlite" and not Path(path).exists()


def _located(sweep: Sweep, quote: ClaimAsk, ask: RecommendationAsk, live: LivePoint | None) -> Claim:
    from opmon.core.recommend import recommend
    from opmon.core.recommend.claim import claim as locate
    from opmon.reports.asks import core_ask

    return locate(sweep, quote, recommend(sweep, live, core_ask(ask, None)))
