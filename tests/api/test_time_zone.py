"""The zone in which the page shows instants."""

from __future__ import annotations

import pytest

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from tests.api.conftest import client_of, metrics
from tests.api.stage import Scene


@pytest.mark.parametrize(
    ("zone", "told"),
    [("UTC", None), ("Europe/Berlin", 'data-zone="Europe/Berlin"')],
    ids=["the reader's", "configured"],
)
async def test_the_page_tells_its_script_a_configured_zone_and_writes_utc_itself(
    scene: Scene, zone: str, told: str | None
) -> None:
    app = create_app(
        scene,
        metrics=metrics,
        ready=lambda: True,
        sweep_import=scene.take_in,
        sweep_delete=scene.remove,
        security=SecuritySettings(),
        time_zone=lambda: zone,
    )
    async with client_of(app) as client:
        for address in ("/", "/nothing"):
            page = (await client.get(address, headers={"Accept": "text/html"})).text
            assert (told is not None) == ("data-zone" in page)
            assert told is None or told in page
        assert " UTC</time>" in (await client.get("/")).text
