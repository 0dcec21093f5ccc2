"""A real server on a loopback socket, and a real Chromium that looks at it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, sync_playwright

from tests.needs import NEEDS

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = {390: 800, 1440: 900}


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The application behind uvicorn on a free port of this machine; gives its address."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@dataclass
class Seen:
    """What a page did besides being shown."""

    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def elsewhere(self, address: str) -> list[str]:
        """Requests to any other origin."""
        return [url for url in self.requests if not url.startswith((address, "data:", "blob:"))]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium as the machine has it."""
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=NEEDS["chromium"].find(), args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., tuple[Page, Seen]]]:
    """Opens an address in a fresh profile: `look(url, width=390, scheme="dark", scripts=False)`."""
    contexts = []

    def open_page(url: str, *, width: int = 1440, scheme: Any = "light", scripts: bool = True) -> tuple[Page, Seen]:
        context = browser.new_context(
            viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme, java_script_enabled=scripts
        )
        contexts.append(context)
        page, seen = context.new_page(), Seen()
        page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.console.append(f"exception: {error}"))
        page.on("dialog", lambda dialog: seen.console.append(f"dialog: {dialog.message}"))
        context.on("request", lambda request: seen.requests.append(request.url))
        page.goto(url)
        return page, seen

    yield open_page
    for context in contexts:
        context.close()
