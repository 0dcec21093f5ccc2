"""What a file's path says where the file itself says nothing: a name for the configuration, a concurrency; and dates.

Contains guesses only, and each is None where the path says nothing. Whoever uses one says so to the person.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opmon.sweeps.reading import Fields

_CONCURRENCY = re.compile(r"(?:max[-_]?)?(?:concurrency|conc|streams|users)[-_=]?(\d+(?:[-_]\d+)*)", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}(?:[-_T]?\d{2}[-_:]?\d{2}(?:[-_:]?\d{2})?)?")
_VERSION = re.compile(r"v?\d+(?:\.\d+)+\w*", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:run|trial|part|stage)[-_=]?\d+", re.IGNORECASE)
_BARE = re.compile(r"(?:c|n|bs)?[-_]?\d+", re.IGNORECASE)
_SUFFIXES = re.compile(r"(?:\.(?:json|jsonl|csv|tsv|yaml|yml|gz|txt|md))+$", re.IGNORECASE)
_GENERIC = frozenset(
    [
        "aggregate",
        "artifacts",
        "benchmark",
        "benchmarks",
        "bench",
        "conc",
        "export",
        "individual",
        "out",
        "output",
        "outputs",
        "profile",
        "report",
        "result",
        "responses",
        "results",
        "run",
        "runs",
        "summary",
        "sweep",
        "trimmed",
        "aiperf",
        "genai",
        "genaiperf",
        "guidellm",
        "llmperf",
        "perf",
        "json",
        "data",
    ]
)


def parts_of(file_name: str) -> list[str]:
    """The folders of a path and the file's own name."""
    return [part for part in file_name.split("/") if part]


def stem_of(file_name: str) -> str:
    """The file's own name without its last ending."""
    name = parts_of(file_name)[-1] if parts_of(file_name) else ""
    return name.rpartition(".")[0] or name


def guessed_name(file_name: str) -> str | None:
    """A configuration's name from the path: the file's own name, else its nearest folder, each without the words that
    tools put there, concurrencies (also a bare `c16` or `16`), versions and dates. None where nothing is left.

    `old-plain/concurrency_4/profile_export_aiperf.json` is `old-plain`.
    """
    for part in reversed(parts_of(file_name)):
        if name := _without_noise(_SUFFIXES.sub("", part)):
            return name
    return None


def concurrency_in(file_name: str) -> float | None:
    """The concurrency that the nearest folder or the file's name states, as `concurrency_16` does; None otherwise."""
    for part in reversed(parts_of(file_name)):
        found = _CONCURRENCY.search(part)
        if found and found[1].isdigit():
            return float(found[1])
    return None


def unix_seconds(fields: Fields, *path: str) -> float | None:
    """A date of a record, as Unix seconds or as ISO 8601. Without a zone it is taken as UTC, with one note a file. None
    where it is absent or no date."""
    value = fields.at(*path)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return fields.number(*path)
    if isinstance(value, datetime):
        read = value
    elif isinstance(value, str):
        try:
            read = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    else:
        return None
    if read.tzinfo is None:
        words = "the file gives its dates without a zone, taken as UTC"
        if words not in fields.notes:
            fields.notes.append(words)
        read = read.replace(tzinfo=UTC)
    try:
        return read.timestamp()
    except (OverflowError, ValueError):
        return None


def is_model_only(name: str | None, model: str | None) -> bool:
    """Whether a guessed name says nothing but which model it was."""
    return not name or (model is not None and name in (model, model.rstrip("/").rsplit("/", 1)[-1]))


def source_of(name: str, file_name: str, folder: str, model: str | None) -> str:
    """What a guessed name was guessed from, in words."""
    if is_model_only(name, model):
        return "the model's name"
    parts = parts_of(file_name)
    if parts and name in parts[-1]:
        return "the file's name"
    if any(name in part for part in (*parts[:-1], *parts_of(folder))):
        return "the folder's name"
    return "the file's name or its settings"


def _without_noise(part: str) -> str:
    if _BARE.fullmatch(part):
        return ""
    for pattern in (_CONCURRENCY, _DATE, _VERSION, _NUMBERED):
        part = pattern.sub(" ", part)
    pieces = [piece for piece in re.split(r"([-_\s]+)", part) if piece]
    kept = [piece for piece in pieces if piece.strip("-_ ").lower() not in _GENERIC]
    text = re.sub(r"\s*([-_])[-_\s]*", r"\1", "".join(kept))
    return re.sub(r"\s+", " ", text).strip("-_ .")
