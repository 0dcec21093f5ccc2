"""Whether a page that was read is the whole page, and of now.

Contains no reading: what a page says is judged elsewhere.
"""

from __future__ import annotations

from opmon.core.model import Snapshot
from opmon.errors import ScrapeError
from opmon.scrape.fetch import Fetched

STALE_PAGE = "stale_page"
LEAST_AGE_SECONDS = 5
"""A copy of this age is always taken for the present: a cache of a second before many scrapers is in use."""

_OPENMETRICS = "application/openmetrics-text"
_EOF = b"# EOF"


def refuse_cut_off(fetched: Fetched) -> None:
    """Raises ScrapeError (`truncated`) for a page whose end is missing, as far as its form tells."""
    body = fetched.body.rstrip(b" \t\r\n")
    if (fetched.content_type or "").partition(";")[0].strip().lower() == _OPENMETRICS:
        if body.rpartition(b"\n")[2].strip() != _EOF:
            raise ScrapeError("truncated", "the answer is cut off: it is OpenMetrics, and does not end with # EOF")
    elif fetched.is_ended_by_close and body and b"\n" not in fetched.body[len(body) :]:
        words = "its last line has no end, and the server told no length"
        raise ScrapeError("truncated", f"the answer is cut off: {words}")


def as_of_now(snapshot: Snapshot, fetched: Fetched, interval_ms: int) -> Snapshot:
    """The snapshot; without its values, and with the fault, where a cache answered with what was before."""
    most_seconds = max(LEAST_AGE_SECONDS, interval_ms / 1000)
    if fetched.age_seconds <= most_seconds and not fetched.is_said_stale:
        return snapshot
    told = f"its Age is {fetched.age_seconds} s" if fetched.age_seconds > most_seconds else "its Warning says so"
    words = f"a cache stands before the target and answers with an old page ({told}); ask the server itself"
    return Snapshot(snapshot.engine, {}, fault=STALE_PAGE, detail=words)
