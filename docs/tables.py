"""Writes the tables of the documents from what the program declares: settings, options, routes, fields, metrics.

`python docs/tables.py` compares and exits 1 where they differ; `--write` brings them up to date. Each table stands between
two comments, `begin: NAME` and `end: NAME`; everything else on the page is written by hand. Contains no prose of its own.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import click
import fastapi

from opmon.api import v1
from opmon.cli.main import cli
from opmon.config import settings_table
from opmon.core import answers
from opmon.core.client_turns import ClientTurns
from opmon.core.probed import Probe
from opmon.core.recommend.claimed import Claim
from opmon.core.saving import Saving
from opmon.exporter import metrics_table

DOCS = Path(__file__).resolve().parent


def main() -> int:
    """0 when every table is what the program declares, or was written."""
    stale = [page for page in sorted(DOCS.glob("*.md")) if renewed(page) != page.read_text(encoding="utf-8")]
    for page in stale:
        if "--write" in sys.argv:
            page.write_text(renewed(page), encoding="utf-8")
        print(f"docs/{page.name}: {'written' if '--write' in sys.argv else 'differs: make docs'}")  # noqa: T201
    return 1 if stale and "--write" not in sys.argv else 0


def renewed(page: Path) -> str:
    """The page with its tables made anew."""

    def table(match: re.Match[str]) -> str:
        lines = TABLES[match["name"]]()
        return f"<!-- begin: {match['name']} -->\n" + "\n".join(lines) + f"\n<!-- end: {match['name']} -->"

    pattern = re.compile(r"<!-- begin: (?P<name>[a-z]+) -->\n.*?<!-- end: (?P=name) -->", re.DOTALL)
    return pattern.sub(table, page.read_text(encoding="utf-8"))


def rows(head: Iterable[str], body: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table."""
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "| " + " | ".join("---" for _ in head) + " |"
    for row in body:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"


def code(text: str) -> str:
    """Text as it is typed; nothing for nothing."""
    return f"`{text}`" if text else ""


# --- settings -------------------------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    """Every key of opmon.yml."""
    head = ("key", "default", "what", "variable, option", "reload")
    yield from rows(
        head,
        (
            (
                code(row.key),
                "required" if row.required else code(row.default),
                row.description,
                ", ".join(code(name) for name in (row.env, row.option) if name),
                "yes" if row.reloadable else "restart",
            )
            for row in settings_table()
        ),
    )


# --- command line ---------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield from command_section(cli, click.Context(cli, info_name="opmon"))


def command_section(command: click.Command, context: click.Context) -> Iterator[str]:
    """Heading, help and options of a command, then of the commands within it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if inner := command.get_command(context, name):
                yield from command_section(inner, click.Context(inner, info_name=name, parent=context))
        return
    yield f"### {context.command_path}"
    yield ""
    yield code(" ".join([context.command_path, *command.collect_usage_pieces(context)]))
    yield ""
    yield " ".join((command.help or "").split())
    yield ""
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        records = (option.get_help_record(context) for option in options)
        yield from rows(
            ("option", "what"), ((code(record[0]), " ".join(record[1].split())) for record in records if record)
        )
        yield ""


# --- the API --------------------------------------------------------------------------------------------------------


def openapi() -> dict[str, Any]:
    """The description of the API, of its router alone."""
    app = fastapi.FastAPI()
    app.include_router(v1.router)
    return app.openapi()


def routes() -> Iterator[str]:
    """Every path under /api/v1 with its parameters."""
    body = []
    for path, methods in openapi()["paths"].items():
        for method, route in methods.items():
            parameters = [one["name"] for one in route.get("parameters", ()) if one["in"] == "query"]
            body.append(
                (code(f"{method.upper()} {path}"), route["summary"], ", ".join(code(one) for one in parameters))
            )
    yield from rows(("method and path", "what", "parameters"), body)


def parameters() -> Iterator[str]:
    """Every query parameter once, with what it means."""
    known: dict[str, str] = {}
    for methods in openapi()["paths"].values():
        for route in methods.values():
            for one in route.get("parameters", ()):
                if one["in"] == "query":
                    known[one["name"]] = known.get(one["name"]) or one.get("description", "")
    yield from rows(("parameter", "what"), ((code(name), known[name]) for name in sorted(known)))


def fields() -> Iterator[str]:
    """Every answer as the API sends it: the fields of its dataclass, and those within."""
    tops = (
        answers.TargetStatus,
        answers.OperatingPoint,
        answers.ConcurrencySeries,
        answers.CurvePoint,
        answers.Recommendation,
        answers.SweepAnswer,
        answers.Turn,
        Claim,
        Saving,
        ClientTurns,
        Probe,
    )
    seen: set[type] = set()
    for top in tops:
        yield from answer_section(top, seen)


def answer_section(answer: type, seen: set[type]) -> Iterator[str]:
    """One dataclass, then those which its fields name; each once."""
    if answer in seen:
        return
    seen.add(answer)
    hints = typing.get_type_hints(answer)
    yield f"#### {answer.__name__.rstrip('_')}"
    yield ""
    if answer.__doc__ and not answer.__doc__.startswith(answer.__name__):
        yield " ".join(answer.__doc__.split())
        yield ""
    yield from rows(
        ("field", "type"), ((code(one.name), spelled(hints[one.name])) for one in dataclasses.fields(answer))
    )
    yield ""
    for hint in hints.values():
        for inner in dataclasses_in(hint):
            yield from answer_section(inner, seen)


def dataclasses_in(hint: Any) -> Iterator[type]:
    """The dataclasses that a type speaks of."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        yield hint
    for part in typing.get_args(hint):
        yield from dataclasses_in(part)


JSON_NAMES: dict[Any, str] = {str: "text", int: "integer", float: "number", bool: "true or false", type(None): "null"}


def spelled(hint: Any) -> str:
    """A type in words of JSON."""
    if hint in JSON_NAMES:
        return JSON_NAMES[hint]
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(spelled(part) for part in parts)
    if origin in (tuple, list):
        return f"list of {spelled(parts[0])}"
    if origin is dict:
        return f"object of {spelled(parts[1])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "text"
    return str(getattr(hint, "__name__", hint)).rstrip("_")


# --- metrics --------------------------------------------------------------------------------------------------------


def metrics() -> Iterator[str]:
    """Every family of /metrics."""
    head = ("name", "type", "labels", "what")
    yield from rows(
        head,
        (
            (code(family.name), family.kind, ", ".join(code(label) for label in family.labels), family.description)
            for family in metrics_table()
        ),
    )


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "settings": settings,
    "commands": commands,
    "routes": routes,
    "parameters": parameters,
    "fields": fields,
    "metrics": metrics,
}

if __name__ == "__main__":
    sys.exit(main())
