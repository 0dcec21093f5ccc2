"""A client of the application over a scene, without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio
from fastapi import FastAPI

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from tests.api.stage import Scene

HOST = "http://127.0.0.1:8917"
EXPOSITION = b"# HELP opmon_build_info x\n"


def metrics(accept: str) -> tuple[bytes, str]:
    """Plays the exporter: the form follows Accept."""
    if "openmetrics" in accept:
        return EXPOSITION + b"# EOF\n", "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return EXPOSITION, "text/plain; version=0.0.4; charset=utf-8"


def application(
    scene: Scene, security: SecuritySettings | None = None, *, prefix: str = "", is_ready: bool = True
) -> FastAPI:
    """The application over a scene."""
    return create_app(
        scene,
        metrics=metrics,
        ready=lambda: is_ready,
        sweep_import=scene.take_in,
        sweep_delete=scene.remove,
        security=security or SecuritySettings(),
        path_prefix=prefix,
    )


def client_of(app: FastAPI, host: str = HOST) -> httpx.AsyncClient:
    """A client of an application, without a socket. What the application raises is answered, not raised."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=host)


@pytest_asyncio.fixture
async def scene() -> Scene:
    """One healthy target and the example sweep."""
    return Scene()


@pytest_asyncio.fixture
async def client(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the scene."""
    async with client_of(application(scene)) as one:
        yield one
