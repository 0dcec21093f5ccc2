"""Whether opmon lives and can answer, what Prometheus scrapes, and the order to read the configuration again.

Contains no evaluation: `/metrics` hands out the last one.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from opmon.api.door import parts_of
from opmon.api.problems import problem
from opmon.errors import ConfigError


def healthy(request: Request) -> Response:
    """The process answers."""
    del request
    return PlainTextResponse("opmon is healthy.\n", headers={"Cache-Control": "no-store"})


def ready(request: Request) -> Response:
    """Started and the database usable: 200; else 503."""
    is_ready = parts_of(request).ready()
    text = "opmon is ready.\n" if is_ready else "opmon is not ready.\n"
    return PlainTextResponse(text, 200 if is_ready else 503, {"Cache-Control": "no-store"})


def metrics(request: Request) -> Response:
    """Text 0.0.4 or OpenMetrics, by Accept."""
    body, content_type = parts_of(request).metrics(request.headers.get("accept", ""))
    return Response(body, headers={"Content-Type": content_type, "Cache-Control": "no-store", "Vary": "Accept"})


async def reload(request: Request) -> Response:
    """Reads the configuration again: 200 when it is in force, 422 with the faults when the one before stays."""
    operations = parts_of(request).operations
    if operations is None:
        return problem(503, "no-service", "Nothing to reload", "this opmon has no configuration to read again")
    try:
        await operations.reload()
    except ConfigError as error:
        return problem(422, "configuration", "The configuration was refused; the one before stays", str(error))
    return PlainTextResponse("opmon has taken up its configuration.\n", headers={"Cache-Control": "no-store"})


# `/metrics/` answers as `/metrics` does: a redirect would cost every scrape a second request, or fail it.
ROUTES = [
    Route("/-/healthy", healthy, include_in_schema=False),
    Route("/livez", healthy, include_in_schema=False),
    Route("/-/ready", ready, include_in_schema=False),
    Route("/readyz", ready, include_in_schema=False),
    Route("/-/reload", reload, methods=["POST", "PUT"], include_in_schema=False),
    Route("/metrics", metrics, include_in_schema=False),
    Route("/metrics/", metrics, include_in_schema=False),
]
