"""Why an answer cannot be read as an engine's page: another document, no engine at all, or an engine that says nothing.

Contains the reasons in words and how they are recognised; what is known of the pages of others is data in
`engines.strangers`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from opmon.core import engines
from opmon.core.engines.strangers import CLUES, STRANGERS, Stranger
from opmon.core.engines.table import Engine
from opmon.core.exposition import Page, Series
from opmon.core.model import SeriesKey
from opmon.core.places import Places, Rows
from opmon.errors import ScrapeError

_OTHER_DOCUMENTS = ("text/html", "application/xhtml", "application/json", "application/vnd.google.protobuf", "image/")
_EXPOSITION_TYPES = ("", "text/plain", "application/openmetrics-text")


def refuse_documents(body: bytes, content_type: str | None) -> None:
    """Raises ScrapeError for a login page, a JSON answer and the like."""
    kind = _media_type(content_type)
    if kind.startswith(_OTHER_DOCUMENTS):
        raise ScrapeError("content_type", f"the answer is {kind}, not metrics")
    if body[:64].lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise ScrapeError("content_type", f"the answer looks like HTML, not metrics (sent as {kind or 'no type'})")


def refuse_unreadable(page: Page, content_type: str | None) -> None:
    """Raises ScrapeError for a text of which not one line is a sample or a comment."""
    if not page.skipped or page.sample_lines or page.comment_lines:
        return
    kind = _media_type(content_type)
    detail = f"no line of {page.skipped} is a sample; the first: {page.first_skipped!r}"
    if kind not in _EXPOSITION_TYPES:
        raise ScrapeError("content_type", f"the answer is {kind}, and {detail}")
    raise ScrapeError("parse", detail)


def stranger_on(page: Page, running: list[tuple[Series, float]]) -> Stranger | None:
    """What shows an engine's names without being one; `running` are the page's gauges of running requests."""
    for stranger in STRANGERS:
        if any(name in page.samples for name in stranger.names):
            return stranger
        if stranger.label and any(stranger.label in series.labels for series, _ in running):
            return stranger
    return None


def joined(running: Rows, places: Places) -> list[tuple[str, str]]:
    """(kind, words) where one engine shows several numbers of running requests that differ in labels which are not the
    engine's own: pages that were joined, or a total beside its parts. Their sum is nobody's number."""
    first: dict[SeriesKey, Series] = {}
    for series, _ in running:
        key = places.key(series)
        other = first.setdefault(key, series)
        if other is series:
            continue
        labels = series.labels.items() ^ other.labels.items()
        named = " and ".join(sorted({name for name, _ in labels})) or "nothing"
        words = (
            f"{series.name} is shown several times for one engine, which differ in {named}: a page that joins several"
            " servers, or a total beside its parts, and their sum is nobody's number; name the servers as targets"
        )
        return [("not_an_engine", words)]
    return []


def clue_on(body: bytes, engine: Engine | None) -> tuple[str, str] | None:
    """(kind, words) where the page gives away why nothing can be said. `engine`: whose names are on it, if any."""
    name = engine.name if engine else None
    for clue in CLUES:
        if clue.engine == name and clue.start.search(body):
            return ("not_an_engine" if clue.is_refused else "no_known_metrics"), clue.words
    return None


def no_running(body: bytes, page: Page, engine: Engine | None, setting: str, others: str = "") -> tuple[str, str]:
    """(kind, words) for a page that does not say how many requests run. `engine`: whose names are on it, if any;
    `others`: the engines that the setting leaves out and that do say it."""
    words = _nothing_words(body, page, engine, setting)
    if others:
        words = f"{words}; the page shows {others}: name that engine in the target's settings, or `auto`"
    return clue_on(body, engine) or ("no_known_metrics", words)


def skipped_words(page: Page) -> str:
    """The lines that could not be read, in words; '' if there are none."""
    if not page.skipped:
        return ""
    return f"lines that could not be read: {page.skipped}, the first: {page.first_skipped!r}"


def _nothing_words(body: bytes, page: Page, engine: Engine | None, setting: str) -> str:
    named = None if page.skipped else _named_only(setting).search(body)
    if named is not None:
        return f"{named[1].decode()} is described but has no value yet, as until the first record of a new server"
    if not page.sample_lines:
        return "the answer has no samples"
    if engine is not None:
        words = f"metrics of {engine.name}, but none says how many requests run"
        why = skipped_words(page) or engine.words.no_running
        return f"{words}; {why}" if why else words
    whose = "a known engine" if setting == engines.AUTO else setting
    return f"{page.sample_lines} samples, none of {whose} (is it started with metrics, without --disable-log-stats?)"


@lru_cache(maxsize=16)
def _named_only(setting: str) -> re.Pattern[bytes]:
    """A comment about an engine's gauge of running requests."""
    names = (
        part.name
        for engine in engines.candidates(setting)
        for prefix in engine.prefixes
        for source in engines.running_of(engine.name, prefix)
        for part in source
    )
    return re.compile(rb"^# (?:HELP|TYPE) (%s)\b" % b"|".join(re.escape(one.encode()) for one in names), re.MULTILINE)


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()
