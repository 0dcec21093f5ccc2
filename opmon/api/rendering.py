"""Templates and what every page needs: its root, the digest of the static files, the filters.

Contains no choice of what a page shows. Everything that is written into a page is escaped; there is no `|safe`.
"""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from opmon import __version__
from opmon.api import verdict_view, wording
from opmon.api.door import parts_of, readers_zone


@cache
def environment() -> Environment:
    """The templates of the installed package, with the filters of `wording`."""
    made = Environment(
        loader=PackageLoader("opmon.ui", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(wording.FILTERS)
    made.filters["segment"] = lambda text: quote(text, safe="")
    made.filters["interval"] = verdict_view.interval_words
    made.filters["because"] = verdict_view.because
    made.filters["known"] = verdict_view.known
    made.filters["reading"] = verdict_view.reading_words
    made.globals.update(
        UNKNOWN=wording.UNKNOWN,
        COLUMNS=wording.COLUMNS,
        STATES=wording.STATES,
        WEIGHTINGS=wording.WEIGHTINGS,
        VERDICTS=wording.VERDICTS,
        SYMBOLS=verdict_view.SYMBOLS,
        version=__version__,
    )
    return made


def root_of(request: Request) -> str:
    """The way from the requested address to the top, as a relative path.

    Relative, so that every link holds below any prefix that a proxy puts in front. Counted on the raw path: a browser
    takes an encoded slash for a part of the name, and so must we.
    """
    raw = request.scope.get("raw_path") or request.url.path.encode()
    return "../" * (raw.partition(b"?")[0].count(b"/") - 1) or "./"


def render(request: Request, template: str, status_code: int = 200, /, **context: Any) -> HTMLResponse:
    """The page as an answer."""
    parts = parts_of(request)
    files, zone = parts.files, parts.time_zone()
    root = root_of(request)
    shared = {"root": root, "static": f"{root}static/{files.digest}", "has_chart": files.has_chart_library}
    shared["zone"] = "" if zone == readers_zone() else zone
    return HTMLResponse(environment().get_template(template).render(shared | context), status_code)
