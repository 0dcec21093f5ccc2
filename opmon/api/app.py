"""The web application: which routes there are and what stands around them.

Contains no route of its own and no server: `opmon.service` runs it.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from opmon import __version__
from opmon.api import health, pages, problems, static_route, v1
from opmon.api.door import Operations, Parts, Reports, readers_zone, takes_no_turns
from opmon.api.security import Guard, SecuritySettings
from opmon.api.static_files import StaticFiles, packaged_files
from opmon.core.cells import SweepImport
from opmon.core.client_turns import ClientTurn

COMPRESS_FROM_BYTES = 1024
COMPRESS_LEVEL = 5


def create_app(  # noqa: PLR0913  # an argument for each part of the service that a route calls
    reports: Reports,
    *,
    metrics: Callable[[str], tuple[bytes, str]],
    ready: Callable[[], bool],
    sweep_import: Callable[[str, SweepImport], None],
    sweep_delete: Callable[[str], None],
    security: SecuritySettings,
    operations: Operations | None = None,
    time_zone: Callable[[], str] = readers_zone,
    turn_report: Callable[[ClientTurn], None] = takes_no_turns,
    path_prefix: str = "",
    files: StaticFiles | None = None,
) -> FastAPI:
    """The application over these parts. `path_prefix` (`/opmon`): for a proxy that does not take it off. `files`: the
    page's styles and modules, those of the package unless given."""
    prefix = path_prefix.rstrip("/")
    app = FastAPI(
        title="opmon",
        version=__version__,
        description="Where a language-model server really runs, and which benchmark cell applies.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": prefix or "/"}],
        redirect_slashes=False,
    )
    app.state.parts = Parts(
        reports,
        metrics,
        ready,
        sweep_import,
        sweep_delete,
        files or packaged_files(),
        operations,
        time_zone,
        turn_report,
    )
    app.include_router(v1.router)
    app.include_router(pages.router)
    app.router.routes.extend([*health.ROUTES, static_route.ROUTE])
    problems.install(app)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESS_FROM_BYTES, compresslevel=COMPRESS_LEVEL)
    # Added last, so it stands outermost: nothing else sees a request that is refused.
    app.add_middleware(Guard, settings=security, path_prefix=prefix)
    return app
