"""`opmon saving`: what a claimed saving ("2.7 GB less read per step") can be worth at most.

Contains the command and its few lines of text; the formula and the reading of units are `opmon.core.saving`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from opmon.cli.options import format_option

if TYPE_CHECKING:
    from opmon.core.saving import Measurement, Saving

EXAMPLE = """\b
Example:
  opmon saving --bytes 2.7GB --bandwidth 1133GB/s --step-time 17.6ms --speed 185.5
"""


@click.command(epilog=EXAMPLE)
@click.option("--bytes", "size", required=True, metavar="N", help="Bytes that a step no longer reads: 2.7GB, 2.5GiB.")
@click.option("--bandwidth", required=True, metavar="N", help="Bytes a second that the memory delivers: 1133GB/s.")
@click.option("--step-time", required=True, metavar="S", help="Time of a decoding step before the change: 17.6ms.")
@click.option("--share", default="1", show_default=True, metavar="R", help="How much of it is realised: 0.37 or 37%.")
@click.option(
    "--fits", type=click.Choice(["yes", "no"]), help="Whether the weights fit into memory without the saving."
)
@click.option(
    "--kind",
    type=click.Choice(["bandwidth", "capacity"]),
    default="bandwidth",
    show_default=True,
    help="bandwidth: bytes no longer read; capacity: memory no longer filled, worth nothing where the weights fit.",
)
@click.option(
    "--stage-time", metavar="S", help="Time of the stage of a step in which the bytes are read. [default: all]"
)
@click.option("--speed", type=float, metavar="N", help="Tokens a second of one stream before the change.")
@click.option("--speed-after", type=float, metavar="N", help="The same, measured after it: says what was realised.")
@click.option("--acceptance", type=float, metavar="N", help="Tokens a step before the change (speculative decoding).")
@click.option("--acceptance-after", type=float, metavar="N", help="Tokens a step after it.")
@format_option
def saving(  # noqa: PLR0913 - one parameter an option
    *,
    size: str,
    bandwidth: str,
    step_time: str,
    share: str,
    fits: str | None,
    kind: str,
    stage_time: str | None,
    speed: float | None,
    speed_after: float | None,
    acceptance: float | None,
    acceptance_after: float | None,
    output: str,
) -> None:
    """What a claimed saving is worth at most: per step, and as a speed-up. Opens no database."""
    from opmon.cli.output import as_json
    from opmon.core.saving import SavingAsk, parse_bandwidth, parse_bytes, parse_seconds, parse_share
    from opmon.core.saving import saving as compute

    answer = compute(
        SavingAsk(
            bytes=parse_bytes(size, "--bytes"),
            bandwidth=parse_bandwidth(bandwidth, "--bandwidth"),
            step_seconds=parse_seconds(step_time, "--step-time"),
            share_ratio=parse_share(share, "--share"),
            fits=None if fits is None else fits == "yes",
            kind=kind,
            stage_seconds=None if stage_time is None else parse_seconds(stage_time, "--stage-time"),
            speed_tokens_per_second=speed,
            speed_after_tokens_per_second=speed_after,
            acceptance_length=acceptance,
            acceptance_length_after=acceptance_after,
        )
    )
    click.echo(as_json(answer) if output == "json" else render_saving(answer, markdown=output == "md"))


def render_saving(answer: Saving, *, markdown: bool) -> str:
    """The bound first, then what it is made of, then what was measured of it."""
    head = _bound(answer)
    lines = [f"**{head}**", ""] if markdown else [head]
    lines.append(f"{_capital(answer.detail)}.")
    if answer.measured is not None:
        lines += [*([""] if markdown else []), _measured(answer, answer.measured)]
    return "\n".join(lines)


def _bound(answer: Saving) -> str:
    if answer.saved_seconds is None:
        return "No bound."
    step = f"{1000 * answer.saved_seconds:.3f} ms of a step of {1000 * answer.step_seconds:.4g} ms"
    if answer.speedup_bound_ratio is None:
        return f"At most {step} saved; the speed-up has no bound."
    speed = answer.speed_bound_tokens_per_second
    tokens = "" if speed is None else f" ({speed:.1f} tok/s)"
    return f"At most {step} saved: at most {answer.speedup_bound_ratio:.3f}x{tokens}."


def _measured(answer: Saving, measured: Measurement) -> str:
    steps = f"{1000 * measured.step_before_seconds:.2f} to {1000 * measured.step_after_seconds:.2f} ms a step"
    words = (
        f"Measured: {measured.speedup_ratio:.3f}x = steps {measured.step_ratio:.3f}x ({steps}) x acceptance"
        f" {measured.acceptance_ratio:.3f}x; {1000 * abs(measured.saved_seconds):.2f} ms a step"
    )
    if measured.saved_seconds < 0:
        return f"{words} lost: nothing of the saving arrived."
    words += " saved"
    if measured.realised_ratio is None:
        return f"{words}."
    return f"{words}, {100 * measured.realised_ratio:.0f} % of the {1000 * answer.figure_seconds:.3f} ms claimed."


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
