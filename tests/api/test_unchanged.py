"""Tags of lists, which no commit of samples changes; and that every parameter of the API says what it means."""

from __future__ import annotations

import httpx
import pytest

from tests.api.stage import Scene

LISTS = ("/api/v1/sweeps", "/api/v1/sweeps/example-drafters", "/api/v1/targets", "/api/v1/status/buildinfo")


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("address", LISTS)
async def test_a_commit_that_changes_nothing_in_a_list_leaves_its_tag(
    scene: Scene, client: httpx.AsyncClient, address: str, form: str
) -> None:
    query = {"format": form}
    tag = (await client.get(address, params=query)).headers["etag"]
    scene.version += 1
    again = await client.get(address, params=query, headers={"If-None-Match": tag})
    assert (304, tag) == (again.status_code, again.headers["etag"])


async def test_the_list_of_sweeps_has_another_tag_once_a_sweep_is_gone(client: httpx.AsyncClient) -> None:
    tag = (await client.get("/api/v1/sweeps")).headers["etag"]
    assert 204 == (await client.delete("/api/v1/sweeps/example-drafters")).status_code
    again = await client.get("/api/v1/sweeps", headers={"If-None-Match": tag})
    assert 200 == again.status_code
    assert tag != again.headers["etag"]


async def test_every_parameter_says_what_it_means(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    silent = [
        f"{method} {path}: {one['name']}"
        for path, methods in paths.items()
        for method, route in methods.items()
        for one in route.get("parameters", ())
        if not one.get("description")
    ]
    assert [] == silent
