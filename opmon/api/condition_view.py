"""What a person must know before they read a number: nothing is watched, the server is down, the data is old.

Contains the words and the next step for each; the facts come from the target and its operating point.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.api.wording import duration
from opmon.core.answers import OperatingPoint, TargetStatus

# With less than this observed, the page says that it has only begun.
FIRST_MINUTE_SECONDS = 60.0
OLD_AFTER_INTERVALS = 10
OLD_AFTER_SECONDS = 30.0

DOWN_HINTS = {
    "timeout": "It answers too slowly. Look at its load, or raise scrape_timeout.",
    "connect": "Nothing listens there. Is the server started, and are host and port right?",
    "not_asked": "opmon does not ask it: its address is one that is never asked, or its secret cannot be read.",
    "protocol": "It answers, but not in HTTP/1.1. Is this the server's port, and is it http or https?",
    "truncated": "Its answer ends before its end. Does the server or a proxy before it break off long answers?",
    "tls": "The TLS handshake failed. Look at the certificate, or set tls.ca_file for this target.",
    "http_status": "It answers with an error. Does it ask for a token (auth), or is the path another one?",
    "redirect": "It redirects to another place. Give the final address as the target.",
    "content_type": "What it sends is no metrics page. Is this the server's own port, and not a proxy's login page?",
    "parse": "What it sends cannot be read as metrics.",
    "too_large": "Its metrics page is larger than opmon accepts.",
    "encoding": "It sends a compression that was not asked for.",
}
INVALID_HINT = "It answers, but the values cannot be used, so they count towards no level."


@dataclass(frozen=True, slots=True)
class Condition:
    """A banner. `tone`: note, caution or alarm. `commands` are what to type next."""

    tone: str
    title: str
    detail: str
    commands: tuple[str, ...] = ()


def nothing_watched() -> Condition:
    """opmon runs without a target."""
    return Condition(
        "note",
        "No server is watched yet",
        "opmon needs the address of a server that exposes Prometheus metrics, as vLLM does at /metrics. "
        "Start it with that address, or look at the built-in demo first.",
        ("opmon serve --target http://HOST:8000", "opmon demo"),
    )


def old_after_seconds(target: TargetStatus) -> float:
    """After how long without an attempt the page must say that its data is old."""
    return max(OLD_AFTER_SECONDS, OLD_AFTER_INTERVALS * target.pulse_interval_seconds)


def _down(target: TargetStatus) -> Condition:
    kind = target.last_error.partition(":")[0].strip()
    hint = DOWN_HINTS.get(kind, "Its last scrape failed.")
    return Condition(
        "alarm",
        f"{target.name} does not answer",
        f"{target.last_error or 'no reason was given'}. {hint} This time counts as down, not as idle.",
        (f"opmon check target {target.url}",),
    )


def _first_minute(target: TargetStatus, observed_seconds: float) -> Condition:
    if target.last_scrape is None:
        return Condition("note", f"Waiting for the first answer of {target.name}", f"opmon asks {target.url} now.")
    return Condition(
        "note",
        "The first minute",
        f"{duration(observed_seconds)} are observed so far. The figures below are right for that time, "
        "and say little about a day.",
    )


def conditions(target: TargetStatus, point: OperatingPoint | None, now: float) -> list[Condition]:
    """What holds now, the worst first."""
    found = []
    if target.health == "down":
        found.append(_down(target))
    age = now - target.last_scrape if target.last_scrape is not None else None
    if age is not None and age > old_after_seconds(target):
        text = "opmon made no attempt since then: it is stopped, blocked or behind. What you see is from that time."
        found.append(Condition("alarm", f"The data is {duration(age)} old", text, ("curl -s localhost:8917/-/ready",)))
    if target.state == "stalled":
        text = "It reports running requests, but nothing moves: no token, no finished request. This time is no load."
        found.append(Condition("caution", f"{target.name} is stalled", text))
    if target.state == "invalid" and target.health == "up":
        found.append(Condition("caution", "The values cannot be used", f"{target.last_error}. {INVALID_HINT}"))
    observed = point.coverage.observed_seconds if point is not None else 0.0
    window = point.window.requested_seconds if point is not None else 0.0
    if target.health != "down" and observed < FIRST_MINUTE_SECONDS <= window:
        found.append(_first_minute(target, observed))
    return found
