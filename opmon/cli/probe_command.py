"""`opmon probe`: one prompt through several paths, timed piece by piece.

Contains the command only; asking is `opmon.probe`, the figures are `opmon.core.probed`, the text is `probe_text`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.options import format_option

if TYPE_CHECKING:
    from opmon.core.probed import Probe
    from opmon.probe import Path as ProbePath
    from opmon.probe import Runner

MOST_PROMPT_BYTES = 8 * 1024 * 1024
INTERRUPTED_STATUS = 130
EXAMPLE = """\b
Example:
  opmon probe --url http://127.0.0.1:8000 --via gateway=https://gateway.example/v1 \\
      --api-key-file gateway=key.txt --prompt-file question.txt --concurrency 4 --requests 20
"""


@click.command(epilog=EXAMPLE)
@click.option("--url", required=True, metavar="URL", help="The server itself: its address, .../v1, or the whole URL.")
@click.option("--via", "vias", multiple=True, metavar="NAME=URL", help="Another path to it; may be repeated.")
@click.option(
    "--prompt-file",
    required=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is asked: a text in UTF-8.",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 256), default=1, show_default=True, help="Requests of a path at once."
)
@click.option("--requests", type=click.IntRange(1, 10_000), default=5, show_default=True, help="Requests of each path.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="[NAME=]M",
    help="The model, of one path if named. [default: the only one]",
)
@click.option("--max-tokens", type=click.IntRange(1, 1_000_000), default=256, show_default=True, help="Of an answer.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="Of the sampling.")
@click.option("--api", type=click.Choice(["chat", "completions"]), help="Which of the two. [default: chat]")
@click.option(
    "--api-key-file",
    "key_files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="A key, sent to all paths or to the named one.",
)
@click.option("--timeout", default="2m", show_default=True, metavar="DURATION", help="Deadline of each request.")
@click.option("--deadline", default="15m", show_default=True, metavar="DURATION", help="Deadline of it all.")
@format_option
def probe(  # noqa: PLR0913 - one parameter an option
    *,
    url: str,
    vias: tuple[str, ...],
    prompt_file: Path,
    concurrency: int,
    requests: int,
    models: tuple[str, ...],
    max_tokens: int,
    temperature: float,
    api: str | None,
    key_files: tuple[str, ...],
    timeout: str,
    deadline: str,
    output: str,
) -> None:
    """One prompt through several paths: what a gateway or a client costs beside asking the server directly.

    All paths answer once before it counts, then they take turns. Exit status 1 if a path failed or time ran out.
    """
    from opmon.cli.output import as_json
    from opmon.cli.probe_text import render_probe
    from opmon.core.units import parse_duration
    from opmon.probe import Ask, Runner

    paths, chosen = _paths(url, vias, api, models, key_files)
    ask = Ask(_prompt(prompt_file), chosen, max_tokens, temperature, concurrency, requests)
    runner = Runner(
        paths, ask, timeout_seconds=parse_duration(timeout) / 1000, deadline_seconds=parse_duration(deadline) / 1000
    )
    answer = asyncio.run(_run(runner))
    click.echo(as_json(answer) if output == "json" else render_probe(answer, markdown=output == "md"))
    _end(answer)


def _end(answer: Probe) -> None:
    """The exit status, with a word on stderr where it is not 0."""
    if answer.is_complete:
        return
    if answer.stopped == "interrupted":
        click.echo("opmon: interrupted; what is shown is of the requests that were answered before", err=True)
        sys.exit(INTERRUPTED_STATUS)
    if answer.stopped is not None:
        click.echo("opmon: --deadline passed; what is shown is of the requests that were answered before", err=True)
    failed = ", ".join(one.path for one in answer.paths if one.failures or one.failed_requests)
    if failed:
        click.echo(f"opmon: failed: {failed}", err=True)
    sys.exit(1)


async def _run(runner: Runner) -> Probe:
    with _stopped_by_signals(runner):
        return await runner.run()


@contextmanager
def _stopped_by_signals(runner: Runner) -> Iterator[None]:
    """The first signal ends the probe in order; a second one ends the process."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def told() -> None:
        for one in signals:
            loop.remove_signal_handler(one)
        runner.stop()

    for one in signals:
        loop.add_signal_handler(one, told)
    try:
        yield
    finally:
        for one in signals:
            loop.remove_signal_handler(one)


def _paths(
    url: str, vias: Sequence[str], api: str | None, models: Sequence[str], key_files: Sequence[str]
) -> tuple[list[ProbePath], str]:
    """Every path, the direct one first, and the API of all. Raises ConfigError."""
    from opmon.errors import ConfigError
    from opmon.probe import Path as ProbePath
    from opmon.probe import by_path, endpoint, named

    urls = named(url, vias)
    names = list(urls)
    model_of, file_of = by_path("--model", models, names), by_path("--api-key-file", key_files, names)
    keys = _keys(file_of)
    found = {name: endpoint(one, api) for name, one in urls.items()}
    # A whole URL says which API it is, and then the bare addresses beside it are asked by the same.
    said = {endpoint(one)[2] for one in urls.values() if one.rstrip("/").endswith("completions")}
    if len(said) > 1:
        raise ConfigError("the URLs are of two APIs, chat and completions; a probe compares like with like")
    chosen = api or next(iter(said), "chat")
    found = {name: endpoint(one, chosen) for name, one in urls.items()}
    paths = [
        ProbePath(name, address, base, model_of.get(name, ""), keys.get(name))
        for name, (address, base, _) in found.items()
    ]
    return paths, chosen


def _keys(files: Mapping[str, str]) -> dict[str, str]:
    from opmon.config.secrets import read_token
    from opmon.errors import ConfigError

    keys = {}
    for name, file in files.items():
        key = read_token(Path(file))
        if not (key.isascii() and key.isprintable()):
            message = f"--api-key-file: {file}: a key has printable ASCII characters only"
            raise ConfigError(message)
        keys[name] = key
    return keys


def _prompt(file: Path) -> str:
    """The text of the file. Raises ConfigError where it is none."""
    from opmon.errors import ConfigError

    try:
        with file.open("rb") as opened:
            body = opened.read(MOST_PROMPT_BYTES + 1)
        text = body.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        message = f"--prompt-file: {file}: cannot be read as UTF-8: {getattr(error, 'strerror', None) or error}"
        raise ConfigError(message) from error
    if len(body) > MOST_PROMPT_BYTES:
        message = f"--prompt-file: {file}: longer than {MOST_PROMPT_BYTES} bytes"
        raise ConfigError(message)
    if not text.strip():
        message = f"--prompt-file: {file}: there is no text in it"
        raise ConfigError(message)
    return text
