"""What some tests cannot do without, how to find it, and the command that brings it.

`@pytest.mark.needs("chromium")` reads this table (tests/conftest.py). Contains no test and starts nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Need(NamedTuple):
    """`find` gives the path (or address) of the thing, or None; `bring` is what a person types."""

    find: Callable[[], str | None]
    bring: str


def program(*names: str) -> str | None:
    """The first of these programs that is on PATH."""
    return next((found for name in names if (found := shutil.which(name))), None)


def postgres() -> str | None:
    """A `postgres` on PATH, or the newest where Debian keeps it (off PATH)."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return program("postgres") or next((str(path) for path in reversed(debian)), None)


def shared() -> str | None:
    """Recordings that are not part of this repository: a folder named by OPMON_SHARED, or `shared` beside this one."""
    folder = Path(os.environ.get("OPMON_SHARED") or ROOT.parent / "shared")
    return str(folder) if (folder / "data").is_dir() else None


def faketime() -> str | None:
    """The library that gives one process a wall clock of its own; the one for programs with threads."""
    found = sorted(
        path for folder in ("/usr/lib", "/usr/local/lib") for path in Path(folder).glob("**/libfaketimeMT.so.1")
    )
    return str(found[0]) if found else None


def chart() -> str | None:
    """The chart's npm package, where the build put it."""
    library = ROOT / "opmon" / "ui" / "static" / "vendor" / "uplot" / "uPlot.esm.js"
    return str(library) if library.is_file() else None


NEEDS = {
    "alertmanager": Need(lambda: program("prometheus-alertmanager", "alertmanager"), "make peers"),
    "chart": Need(chart, "make clean run (the build brings uPlot from npm)"),
    "chromium": Need(lambda: program("chromium", "chromium-browser", "google-chrome"), "make peers"),
    "faketime": Need(faketime, "make peers"),
    "npm": Need(lambda: program("npm"), "apt-get install npm"),
    "postgres": Need(postgres, "make peers"),
    "prometheus": Need(lambda: program("prometheus") and program("promtool"), "make peers"),
    "shared": Need(shared, "OPMON_SHARED=FOLDER make test"),
    "vllm": Need(lambda: os.environ.get("OPMON_LIVE_TARGET") or None, "make live TARGET=http://HOST:PORT"),
}

# Not to be had by installing something: `OPMON_REQUIRE=all` asks for them only where they are there.
OPTIONAL = frozenset({"shared", "vllm"})


def missing(name: str) -> str | None:
    """None where the thing is there, else one line that says how to bring it."""
    need = NEEDS[name]
    return None if need.find() else f"needs {name}: {need.bring}"


def is_required(name: str, required: str) -> bool:
    """Whether missing is a failure. `required` is the value of OPMON_REQUIRE: `all`, or names between commas."""
    names = {part.strip() for part in required.split(",")}
    return name in names or ("all" in names and name not in OPTIONAL)
