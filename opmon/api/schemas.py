"""The bodies that are not answers of `opmon.core.answers`: the envelopes of lists, and the build.

Contains no conversion; the answers themselves are documented straight from their dataclasses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opmon.api.problems import Problem
from opmon.core.answers import CellAnswer, CurvePoint, SweepAnswer, TargetStatus
from opmon.core.beside import LevelBeside

Responses = dict[int | str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class TargetList:
    targets: tuple[TargetStatus, ...]


@dataclass(frozen=True, slots=True)
class SweepList:
    """Without the cells; those are at /api/v1/sweeps/{name}."""

    sweeps: tuple[SweepAnswer, ...]


@dataclass(frozen=True, slots=True)
class CurveAnswer:
    """The live curve of the current epoch, beside the cells of the named sweep: `beside` says how far they differ."""

    points: tuple[CurvePoint, ...]
    sweep: str | None
    cells: tuple[CellAnswer, ...]
    beside: tuple[LevelBeside, ...]


@dataclass(frozen=True, slots=True)
class BuildInfo:
    version: str
    python: str
    sqlite: str
    platform: str


@dataclass(frozen=True, slots=True)
class ConfigAnswer:
    """The sections of opmon.yml."""

    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReportedTurn:
    """A turn that was stored, as it was reported, and the instant that it counts at."""

    target: str
    model: str
    client: str
    ttft_seconds: float
    decode_seconds: float
    output_tokens: int
    prompt_tokens: int
    typed_tokens: int | None
    reported: float


PROBLEMS = {
    304: "Not changed since the given ETag",
    404: "No such target, sweep or address",
    422: "A parameter that is unknown or cannot be used, named",
    503: "The database cannot be used",
}


def reading(model: type) -> Responses:
    """How a reading route is documented: JSON of `model`, its table as CSV, or a problem."""
    described: Responses = {200: {"model": model, "content": {"text/csv": {"schema": {"type": "string"}}}}}
    for status, text in PROBLEMS.items():
        described[status] = {"description": text}
        if status >= 400:
            described[status]["content"] = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return described


def telling(model: type) -> Responses:
    """How a route that tells of this moment is documented: JSON of `model`, or a problem."""
    described = reading(model)
    del described[200]["content"]["text/csv"], described[304]
    return described


def taking(model: type) -> Responses:
    """How a route that stores something is documented: JSON of `model`, or a problem."""
    described: Responses = {201: {"model": model}, 429: {"description": "More than is kept, with Retry-After"}}
    return described | {status: one for status, one in telling(model).items() if status in (404, 422, 503)}
