"""Instants of the page in a configured zone, in real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from opmon.api.app import create_app
from opmon.api.security import SecuritySettings
from tests.api.conftest import metrics
from tests.api.stage import Scene
from tests.e2e.conftest import Seen, serving

pytestmark = pytest.mark.needs("chromium")


def test_instants_are_in_the_configured_zone_wherever_the_reader_is(look: Callable[..., tuple[Page, Seen]]) -> None:
    scene = Scene()
    app = create_app(
        scene,
        metrics=metrics,
        ready=lambda: True,
        sweep_import=scene.take_in,
        sweep_delete=scene.remove,
        security=SecuritySettings(),
        time_zone=lambda: "Pacific/Kiritimati",
    )
    with serving(app) as address:
        page, seen = look(address)
        expect(page.locator("#zone")).to_have_text(" · times in Pacific/Kiritimati", use_inner_text=False)
        shown = page.locator("time[datetime]:not([data-ago])").first
        at = datetime.fromisoformat(shown.get_attribute("datetime") or "")
        local = at.astimezone(ZoneInfo("Pacific/Kiritimati"))
        assert (shown.text_content() or "").endswith((local.strftime("%H:%M:%S"), local.strftime("%H:%M")))
        assert [] == seen.console
