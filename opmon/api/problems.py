"""Errors as RFC 9457 problems, and which status each kind of error has.

Contains no handling of what went wrong. A person with a browser reads the same words on a page.
"""

from __future__ import annotations

import logging
from collections import Counter
from http import HTTPStatus
from typing import Any, cast, get_origin

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response

from opmon import errors
from opmon.api.rendering import render
from opmon.api.security import SECURITY_HEADERS

MEDIA_TYPE = "application/problem+json"
NEVER_A_PAGE = ("/api/", "/-/", "/metrics", "/static/")
log = logging.getLogger("opmon.api")

# Kind of error -> status, name of the problem, title. The first that fits counts.
KINDS: tuple[tuple[type[errors.OpmonError], int, str, str], ...] = (
    (errors.NotFound, 404, "not-found", "Not found"),
    (errors.InvalidWindow, 422, "invalid-window", "Invalid window"),
    (errors.TooMany, 429, "too-many", "More than is kept"),
    (errors.SweepError, 422, "sweep", "The benchmark file or the choice in it cannot be used"),
    (errors.ConfigError, 422, "invalid-request", "Invalid request"),
    (errors.StoreError, 503, "store", "The database cannot be used"),
    (errors.OpmonError, 500, "error", "It failed"),
)


class Problem(BaseModel):
    """What went wrong, as RFC 9457 defines it; `errors` lists single parameters."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, str]] | None = None


def problem(status: int, name: str, title: str, detail: str, **more: Any) -> Response:
    """An answer of the type `urn:opmon:problem:<name>`."""
    body = {"type": f"urn:opmon:problem:{name}", "title": title, "status": status, "detail": detail} | more
    headers = {"Cache-Control": "no-store"} | SECURITY_HEADERS
    return Response(msgspec.json.encode(body), status, headers, MEDIA_TYPE)


def told(request: Request, status: int, name: str, title: str, detail: str, **more: Any) -> Response:
    """A page for a person who asked for one, else a problem."""
    path = request.scope["path"]
    if path.startswith(NEVER_A_PAGE) or "text/html" not in request.headers.get("accept", ""):
        return problem(status, name, title, detail, **more)
    page = render(request, "problem.html", status, status=status, title=title, detail=detail)
    page.headers["Cache-Control"] = "no-store"
    return page


def kind_of(error: errors.OpmonError) -> tuple[int, str, str]:
    """Status, name and title of an error."""
    return next((status, name, title) for kind, status, name, title in KINDS if isinstance(error, kind))


def _opmon_error(request: Request, error: Exception) -> Response:
    status, name, title = kind_of(cast("errors.OpmonError", error))
    if status >= 500:
        log.error("%s: %s", name, error)
    answer = told(request, status, name, title, str(error))
    if (seconds := getattr(error, "retry_after_seconds", None)) is not None:
        answer.headers["Retry-After"] = str(seconds)
    return answer


def _http_error(request: Request, error: Exception) -> Response:
    known = cast("HTTPException", error)
    title = HTTPStatus(known.status_code).phrase.capitalize()
    detail = known.detail if known.detail.capitalize() != title else f"{request.url.path}: {title.lower()}"
    answer = told(request, known.status_code, "http", title, detail)
    answer.headers.update(known.headers or {})
    return answer


def query_models(request: Request) -> list[type[BaseModel]]:
    """What may stand in the query string of the matched route; empty where it cannot be told."""
    dependant = getattr(request.scope.get("route"), "dependant", None)
    models = [getattr(p.field_info, "annotation", None) for p in getattr(dependant, "query_params", [])]
    return [m for m in models if isinstance(m, type) and issubclass(m, BaseModel)]


def query_names(request: Request) -> list[str]:
    """The query parameters that the matched route knows; empty where it cannot be told."""
    return [name for model in query_models(request) for name in model.model_fields]


def refuse_repeated(request: Request) -> None:
    """Refuses a parameter that is given twice and means one thing: which of the two was meant cannot be told.

    Raises RequestValidationError. A dependency of every route with a query.
    """
    fields = {name: field for model in query_models(request) for name, field in model.model_fields.items()}
    given = Counter(name for name, _ in request.query_params.multi_items())
    faults = [
        {"loc": ("query", name), "msg": f"is given {times} times; give it once", "type": "repeated"}
        for name, times in given.items()
        if times > 1 and name in fields and get_origin(fields[name].annotation) is not list
    ]
    if faults:
        raise RequestValidationError(faults)


def _invalid_request(request: Request, error: Exception) -> Response:
    faults = [_fault(one, query_names(request)) for one in cast("RequestValidationError", error).errors()]
    detail = "; ".join(fault["detail"] for fault in faults)
    return told(request, 422, "invalid-request", "Invalid request", detail, errors=faults)


def _fault(one: Any, known: list[str]) -> dict[str, str]:
    """One refused parameter, by name, in words. The value is never repeated: it may be a secret."""
    place, *names = [str(part) for part in one["loc"]]
    name = ".".join(names) or place
    detail = f"{place} parameter {name!r}: {one['msg']}"
    if one["type"] == "extra_forbidden" and place == "body":
        detail = f"unknown field {name!r} in the body"
    elif one["type"] == "extra_forbidden":
        detail = f"unknown query parameter {name!r}; known here: {', '.join(known) or 'none'}"
    return {"name": name, "in": place, "detail": detail}


def _unexpected(request: Request, error: Exception) -> Response:
    """The one place where an unforeseen exception ends; the server logs it, the caller sees no traceback."""
    del error
    return problem(500, "internal", "Internal error", f"{request.method} {request.url.path} failed; see opmon's log")


def install(app: FastAPI) -> None:
    """Makes every error of the application a problem."""
    app.add_exception_handler(errors.OpmonError, _opmon_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(Exception, _unexpected)
