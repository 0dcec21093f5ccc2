"""The routes of `/api/v1`: the query becomes an ask, reports answer, the answer leaves as JSON or CSV.

Contains no numbers of its own. Routes are plain `def`, so that the store is read in the thread pool and never on the
event loop.
"""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from fastapi import APIRouter, Depends, File, Path, Query, Request, UploadFile
from fastapi.routing import APIRoute
from starlette.responses import Response

from opmon import __version__
from opmon.api import asks, export, schemas
from opmon.api.conditional import conditional, conditional_by_content, entity_tag
from opmon.api.door import Door, Operations, Parts
from opmon.api.export import Row, as_csv, flat
from opmon.api.problems import refuse_repeated
from opmon.api.runtime import RuntimeInfo
from opmon.api.turn_report import TurnReport
from opmon.core import answers
from opmon.core.client_turns import ClientTurns
from opmon.core.names import MOST_CHARACTERS, sweep_name_fault
from opmon.core.recommend.claimed import Claim
from opmon.core.saving import Saving
from opmon.errors import NotFound, SweepError
from opmon.sweeps.detect import LARGEST_BYTES, read_upload

PREFIX = "/api/v1"
router = APIRouter(prefix=PREFIX, default_response_class=Response, dependencies=[Depends(refuse_repeated)])
SweepName = Annotated[str, Path(description="a stored sweep's name")]


def json_answer(answer: Any, status: int = 200) -> Response:
    """The answer as JSON; what is no finite number becomes null."""
    return Response(msgspec.json.encode(answer), status, media_type="application/json")


def csv_answer(rows: list[Row], name: str) -> Response:
    """The rows as a CSV file of that name."""
    disposition = f"inline; filename*=UTF-8''{quote(name, safe='')}.csv"
    return Response(as_csv(rows), headers={"Content-Disposition": disposition}, media_type="text/csv; charset=utf-8")


def reply(
    request: Request,
    parts: Parts,
    asked: asks.FormatQuery,
    compute: Callable[[], Any],
    rows: Callable[[Any], list[Row]],
) -> Response:
    """304 where nothing changed, else the computed answer in the form asked for."""

    def build() -> Response:
        answer = compute()
        if asked.format == "json":
            return json_answer(answer)
        return csv_answer(rows(answer), request.url.path.removeprefix("/api/v1/").replace("/", "-"))

    if not isinstance(asked, asks.SelectorQuery):
        return conditional_by_content(request, build())
    version = parts.reports.version_tag(asked.selector(), asked.window_ask())
    return conditional(request, entity_tag(request, version), build)


@router.get("/targets", responses=schemas.reading(schemas.TargetList), summary="Targets and how they are")
def targets(request: Request, asked: Annotated[asks.FormatQuery, Query()], parts: Door) -> Response:
    """Health, state, engine, version, models, epoch, last scrape, last error, missing signals, form, ceiling."""
    return reply(
        request,
        parts,
        asked,
        lambda: schemas.TargetList(parts.reports.targets()),
        lambda answer: [flat(target) for target in answer.targets],
    )


@router.get("/operating-point", responses=schemas.reading(answers.OperatingPoint), summary="Where a server runs")
def operating_point(request: Request, asked: Annotated[asks.SelectorQuery, Query()], parts: Door) -> Response:
    """The distribution of concurrency over a window, in one sentence and in numbers."""
    return reply(
        request,
        parts,
        asked,
        lambda: parts.reports.operating_point(asked.selector(), asked.window_ask()),
        export.operating_point_rows,
    )


@router.get("/concurrency", responses=schemas.reading(answers.ConcurrencySeries), summary="Concurrency over time")
def concurrency(request: Request, asked: Annotated[asks.ConcurrencyQuery, Query()], parts: Door) -> Response:
    """Mean and max running, waiting and seconds per state of each step; null where nothing was observed."""
    return reply(
        request,
        parts,
        asked,
        lambda: parts.reports.concurrency(asked.selector(), asked.window_ask(), asked.step_ms()),
        lambda answer: [flat(point) for point in answer.points],
    )


@router.get("/curve", responses=schemas.reading(schemas.CurveAnswer), summary="Live speed at each level")
def curve(request: Request, asked: Annotated[asks.CurveQuery, Query()], parts: Door) -> Response:
    """The live curve of the current epoch, beside the cells of a sweep."""

    def compute() -> schemas.CurveAnswer:
        points = parts.reports.curve(asked.selector(), asked.window_ask())
        cells = parts.reports.sweep(asked.sweep).cells if asked.sweep is not None else ()
        beside = (
            parts.reports.curve_beside(asked.selector(), asked.window_ask(), asked.sweep)
            if asked.sweep is not None
            else ()
        )
        return schemas.CurveAnswer(points, asked.sweep, cells, beside)

    return reply(request, parts, asked, compute, lambda answer: [flat(point) for point in answer.points])


@router.get("/recommendation", responses=schemas.reading(answers.Recommendation), summary="Cell, column and verdict")
def recommendation(request: Request, asked: Annotated[asks.RecommendationQuery, Query()], parts: Door) -> Response:
    """Which cell and column of the sweep apply to the live server, and what a switch would gain."""
    return reply(
        request,
        parts,
        asked,
        lambda: parts.reports.recommendation(asked.ask(asked.sweep)),
        export.recommendation_rows,
    )


@router.get("/turn", responses=schemas.reading(answers.Turn), summary="The turn calculator")
def turn(request: Request, asked: Annotated[asks.TurnQuery, Query()], parts: Door) -> Response:
    """What a decode speed-up is worth over the whole turn."""
    inputs = asked.model_dump(exclude={"format"})
    return reply(request, parts, asked, lambda: parts.reports.turn(**inputs), lambda answer: [flat(answer)])


@router.get("/claim", responses=schemas.reading(Claim), summary="Where a quoted speed-up comes from")
def claim(request: Request, asked: Annotated[asks.ClaimQuery, Query()], parts: Door) -> Response:
    """The cell and column that a quoted speed-up is read from, how they differ from the live server, what holds there."""
    ask, quote = asked.ask(), asked.quote()
    return reply(request, parts, asked, lambda: parts.reports.claim(ask, quote), export.claim_rows)


@router.get("/saving", responses=schemas.reading(Saving), summary="The saving calculator")
def saving(request: Request, asked: Annotated[asks.SavingQuery, Query()], parts: Door) -> Response:
    """What bytes that a step no longer reads are worth at most."""
    ask = asked.ask()
    return reply(request, parts, asked, lambda: parts.reports.saving(ask), lambda answer: [flat(answer)])


@router.get("/turns", responses=schemas.reading(ClientTurns), summary="Turns as clients report them")
def client_turns(request: Request, asked: Annotated[asks.SelectorQuery, Query()], parts: Door) -> Response:
    """Means by client, target and model, and what a client costs beside asking directly."""
    return reply(
        request,
        parts,
        asked,
        lambda: parts.reports.client_turns(asked.selector(), asked.window_ask()),
        lambda answer: [flat(one) for one in answer.clients],
    )


@router.post(
    "/turns", status_code=201, responses=schemas.taking(schemas.ReportedTurn), summary="Report a client's turn"
)
def report_turn(report: TurnReport, asked: Annotated[asks.Query, Query()], parts: Door) -> Response:
    """Stores one turn at the instant of the report. 429 beyond what is kept of a target a minute."""
    del asked
    turn = report.turn(parts.reports.now_ms())
    parts.turn_report(turn)
    return now_answer(schemas.ReportedTurn(**report.model_dump(), reported=turn.at_ms / 1000), 201)


@router.get("/status/buildinfo", responses=schemas.reading(schemas.BuildInfo), summary="Which opmon this is")
def buildinfo(request: Request, asked: Annotated[asks.FormatQuery, Query()], parts: Door) -> Response:
    """Version of opmon, Python and SQLite."""
    info = schemas.BuildInfo(__version__, platform.python_version(), sqlite3.sqlite_version, platform.platform())
    return reply(request, parts, asked, lambda: info, lambda answer: [flat(answer)])


@router.get("/status/config", responses=schemas.telling(schemas.ConfigAnswer), summary="The settings in force")
def status_config(asked: Annotated[asks.Query, Query()], parts: Door) -> Response:
    """By the keys of the file, defaults included. Files with secrets are named, secrets in addresses are `<secret>`."""
    del asked
    return now_answer(schemas.ConfigAnswer(operations_of(parts).config()))


@router.get("/status/runtimeinfo", responses=schemas.telling(RuntimeInfo), summary="How the process is")
def runtimeinfo(asked: Annotated[asks.Query, Query()], parts: Door) -> Response:
    """Start, database, the last reload, and each source of targets with what it fails by."""
    del asked
    return now_answer(operations_of(parts).runtime())


@router.get("/sweeps", responses=schemas.reading(schemas.SweepList), summary="The stored sweeps")
def sweeps(request: Request, asked: Annotated[asks.FormatQuery, Query()], parts: Door) -> Response:
    """Every sweep with its imports, configurations and contents, without cells."""
    return reply(
        request,
        parts,
        asked,
        lambda: schemas.SweepList(parts.reports.sweeps()),
        lambda answer: [flat(replace(one, imports=tuple(i.file_name for i in one.imports))) for one in answer.sweeps],
    )


@router.get("/sweeps/{name}", responses=schemas.reading(answers.SweepAnswer), summary="One sweep with its cells")
def sweep(name: SweepName, request: Request, asked: Annotated[asks.FormatQuery, Query()], parts: Door) -> Response:
    """The cells as the benchmark wrote them, in file order."""
    return reply(request, parts, asked, lambda: parts.reports.sweep(name), export.sweep_rows)


@router.post(
    "/sweeps",
    status_code=201,
    responses={201: {"model": answers.SweepAnswer}, 200: {"model": answers.SweepAnswer}},
    summary="Import a benchmark file",
)
def import_sweep(
    request: Request,
    file: Annotated[list[UploadFile], File(min_length=1)],
    asked: Annotated[asks.ImportQuery, Query()],
    parts: Door,
) -> Response:
    """A file of any supported tool. 201 if it was taken in, 200 if the same file was there already.

    One file at a time. A browser's form is sent on to the page that shows the sweep (303).
    """
    upload = only_file(file)
    file_name = usable_file_name(upload.filename)
    name = usable_name(PurePosixPath(file_name).stem if asked.sweep is None else asked.sweep)
    read = read_upload(
        upload.file.read(LARGEST_BYTES + 1),
        file_name,
        reader=asked.reader,
        configuration=asked.config,
        content=asked.content,
    )
    known = read.sha256 in imported_hashes(parts, name)
    parts.sweep_import(name, replace(read, imported_ms=parts.reports.now_ms()))
    if "text/html" in request.headers.get("accept", ""):
        return Response(status_code=303, headers={"Location": f"../../?sweep={quote(name, safe='')}"})
    answer = json_answer(parts.reports.sweep(name), 200 if known else 201)
    answer.headers["Location"] = f"sweeps/{quote(name, safe='')}"
    return answer


@router.delete("/sweeps/{name}", status_code=204, summary="Delete a sweep")
def delete_sweep(name: SweepName, asked: Annotated[asks.Query, Query()], parts: Door) -> Response:
    """Removes the sweep with all its imports."""
    del asked
    parts.sweep_delete(name)
    return Response(status_code=204)


def now_answer(answer: Any, status: int = 200) -> Response:
    """The answer of this moment, kept by nobody."""
    reply = json_answer(answer, status)
    reply.headers["Cache-Control"] = "no-store"
    return reply


def operations_of(parts: Parts) -> Operations:
    """What a running service can be asked. Raises NotFound where there is none."""
    if parts.operations is None:
        raise NotFound("this opmon has no settings to show")
    return parts.operations


def imported_hashes(parts: Parts, name: str) -> set[str]:
    """The hashes of the files that a sweep was read from; none where it does not exist yet."""
    try:
        return {one.sha256 for one in parts.reports.sweep(name).imports}
    except NotFound:
        return set()


def only_file(files: list[UploadFile]) -> UploadFile:
    """The one file of a form. Raises SweepError for several: a sweep's name belongs to one."""
    if len(files) != 1:
        names = ", ".join(usable_file_name(one.filename) for one in files[:5])
        message = f"the form has {len(files)} parts `file` ({names}); send one file at a time"
        raise SweepError(message)
    return files[0]


def usable_file_name(given: str | None) -> str:
    """The last part of a path, whatever system sent it, without control characters."""
    last = PurePosixPath((given or "").replace("\\", "/")).name
    return "".join(c for c in last if c.isprintable())[:MOST_CHARACTERS] or "upload"


def usable_name(name: str) -> str:
    """A sweep's name, trimmed. Raises SweepError."""
    trimmed = name.strip()
    if fault := sweep_name_fault(trimmed):
        raise SweepError(f"the sweep's name: {fault}")
    return trimmed


def answer_head() -> None:
    """Whatever answers GET answers HEAD: the server sends the same headers and leaves the body out."""
    for route in list(router.routes):
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            path = route.path.removeprefix(PREFIX)
            router.add_api_route(path, route.endpoint, methods=["HEAD"], include_in_schema=False)


answer_head()
