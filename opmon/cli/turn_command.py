"""`opmon turn`: what a faster decode is worth to somebody who also waits for the first token.

Contains the command only; the formula is `opmon.core.turn`.
"""

from __future__ import annotations

import click

from opmon.cli.options import format_option

POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@click.option("--ttft", type=click.FloatRange(min=0), required=True, metavar="S", help="Time to first token, seconds.")
@click.option("--decode", type=click.FloatRange(min=0), required=True, metavar="S", help="Time after it, seconds.")
@click.option("--speedup", type=POSITIVE, required=True, metavar="X", help="How much faster the decoding is.")
@click.option(
    "--measured",
    type=click.Choice(["after", "before"]),
    default="after",
    show_default=True,
    help="Whether the times were taken after or before the change.",
)
@click.option(
    "--ttft-ratio", type=POSITIVE, default=1.0, show_default=True, metavar="T", help="How much faster the TTFT is."
)
@format_option
def turn(*, ttft: float, decode: float, speedup: float, measured: str, ttft_ratio: float, output: str) -> None:
    """The speed-up of a whole turn: (TTFT + decode) before / after. Opens no database."""
    from opmon.cli.output import as_json
    from opmon.core.turn import is_unlikely_to_be_felt
    from opmon.core.turn import turn as compute

    answer = compute(ttft, decode, speedup, measured, ttft_ratio)
    if output == "json":
        click.echo(as_json(answer))
        return
    felt = "; measurable, unlikely to be felt" if is_unlikely_to_be_felt(answer.speedup_ratio) else ""
    bold = "**" if output == "md" else ""
    click.echo(f"{bold}Whole turn {answer.speedup_ratio:.2f}x{bold}{felt}.")
    if output == "md":
        click.echo("")
    click.echo(
        f"{answer.turn_before_seconds:.3f} s before, {answer.turn_after_seconds:.3f} s after; the first token takes"
        f" {100 * answer.ttft_share_ratio:.0f} % of the measured turn (times from {answer.measured} the change)."
    )
