"""What every reader of a tool's files needs: figures out of records with their place in words, and cells that are sound.

Contains no format. A reader takes figures by name, says what they are, and gets a cell in which 0 of a failed run is
missing, failures and ramps are flagged, and columns that contradict each other are marked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from opmon.core.cells import INCONSISTENT_TABLE, Cell, has_failures, is_ramp, per_stream_speed
from opmon.core.names import escaped, name_fault
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, is_model_only, source_of

MOST_FIGURE = 1e12
MOST_WORDS = 200
MANY_TOKENS_A_CHUNK_RATIO = 1.3
CONSISTENT_LATENCY = (0.8, 1.25)
FEWEST_OF_ONE_STREAM, MOST_OF_ONE_STREAM = 0.5, 1.25
"""Aggregate / per-stream at concurrency 1, as for tables by hand."""
SHORTEST_SECONDS = 30.0
_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_SECRET = re.compile(
    r"(?i)((?:api[-_]?key|token|authorization|password|secret)[\"']?(?:\s*[=:]\s*|\s+))(?:bearer\s+)?[\"']?[^\s\"',]+"
)
_USER_INFO = re.compile(r"(?<=://)[^/\s@]+@")


@dataclass(frozen=True, slots=True)
class Given:
    """What a person said beside the file; it stands in where the file does not say it."""

    configuration: str | None = None
    content: str | None = None
    folder: str = ""
    """The folders above the file, with `/`: what a configuration is called where only the model would be left."""
    is_model_a_name: bool = True
    """Whether the model alone may name a configuration; False where no folder is known, as for an upload."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader made of a file. `notes` are for a person: what was left out, guessed or odd, with its place."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One tool's format. `recognises` looks at the content and is never wrong on another's file; `read` raises
    SweepError. `version` grows when the same file gives other cells. `what` names the files for a person."""

    name: str
    version: int
    what: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, Given], Read]
    is_by_hand: bool = False
    """A person wrote such a file: it holds nobody's prompts, and is kept with its cells."""


class NoCell(SweepError):
    """A sound file of a tool that holds no cell by itself: settings, percentiles, a mean over several loads. Named alone
    it is refused in these words; in a folder it is passed over, and told."""


@dataclass(slots=True)
class Fields:
    """The fields of one record. `row`: its number for a person (record, stage, row), None for a file with one."""

    values: Mapping[str, Any]
    file_name: str
    row: int | None = None
    notes: list[str] = field(default_factory=list)

    def has(self, *path: str) -> bool:
        """Whether there is something at the path that is not null."""
        return self.at(*path) is not None

    def at(self, *path: str) -> Any:
        """What is at the path of keys; None where any part is absent."""
        value: Any = self.values
        for key in path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def below(self, *path: str) -> Fields:
        """The fields of an object below; empty where there is none."""
        value = self.at(*path)
        return Fields(value if isinstance(value, Mapping) else {}, self.file_name, self.row, self.notes)

    def number(self, *path: str, factor: float = 1.0) -> float | None:
        """A figure of 0 or more, times `factor`. None where it is absent, null, empty or not finite (with a note), or
        negative (with a note: clocks of tools do that). Text that is a number counts as one.

        Raises SweepError naming the field for anything else.
        """
        value, name = self.at(*path), ".".join(path)
        if isinstance(value, str):
            value = self._parsed(value.strip(), name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(f"{_short(value)} is not a number", name)
        try:
            number = float(value) * factor
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.note(f"{name} is {_short(value)}, taken as not measured")
            return None
        if number < 0:
            self.note(f"{name} is {_short(value)}, below 0, taken as not measured")
            return None
        if number > MOST_FIGURE:
            raise self.fault(f"{_short(value)} is more than can be", name)
        return number

    def count(self, *path: str) -> int | None:
        """A whole number of 0 or more; as `number` otherwise."""
        number = self.number(*path)
        if number is None:
            return None
        if number != int(number):
            raise self.fault(f"{number:g} is not a whole number", ".".join(path))
        return int(number)

    def is_unlimited(self, *path: str) -> bool:
        """Whether a limit is there and says that there is none: null, `inf`, Infinity."""
        value = self.at(*path)
        if value is None:
            return isinstance(self.at(*path[:-1]), Mapping) and path[-1] in self.at(*path[:-1])
        return (isinstance(value, float) and math.isinf(value)) or str(value).strip().lower() in ("inf", "infinity")

    def word(self, *path: str) -> str | None:
        """A text that may stand beside names, without space around it and without secrets; None where it is absent."""
        value = self.at(*path)
        if value is None or isinstance(value, Mapping | list):
            return None
        text = redacted(str(value).strip())[:MOST_WORDS]
        return escaped(text) or None

    def numbers(self, *path: str) -> list[float | None]:
        """A list of figures, None for what is none; empty where there is no list."""
        values = self.at(*path)
        if not isinstance(values, Sequence) or isinstance(values, str):
            return []
        return [
            float(one)
            if isinstance(one, int | float) and not isinstance(one, bool) and 0 <= one <= MOST_FIGURE
            else None
            for one in values
        ]

    def note(self, words: str) -> None:
        """Something that a person should know of this record."""
        self.notes.append(f"{self.place}{words}")

    def fault(self, words: str, name: str = "") -> SweepError:
        """The error for this record."""
        return SweepError(words, file=self.file_name, row=self.row, field=name)

    @property
    def place(self) -> str:
        """The record in words, for a note."""
        return "" if self.row is None else f"row {self.row}: "

    def _parsed(self, text: str, name: str) -> float | None:
        lowered = text.lower()
        if lowered in ("", "null", "none", "n/a", "nan", "-"):
            return None
        if lowered in ("inf", "+inf", "infinity", "-inf", "-infinity"):
            return math.inf
        if not _NUMBER.fullmatch(text):
            raise self.fault(f"{_short(text)} is not a number", name)
        return float(text.replace(",", ""))


def cell(fields: Fields, given: Given, **values: Any) -> Cell:
    """A cell of these values, sound: the one way in which readers of tools make one.

    The configuration is `values["configuration"]` where the file states it, else the given one, else
    `values["guessed_configuration"]` with a note; SweepError without any. The content alike, and it may be unknown. `itl`
    is the median gap between chunks, which is nobody's speed and only tells of several tokens a chunk. A speed or a time
    of 0 is missing. Without any completed request nothing was measured. Flags are added for failures, ramps, times
    that contradict each other, several tokens a chunk, and a short run.
    """
    values = {key: value for key, value in values.items() if value is not None}
    flags = list(values.pop("flags", ()))
    itl = values.pop("itl", None)
    _name(fields, given, values)
    if not values["configuration"]:
        raise fields.fault("the file does not say which configuration was measured; say it with --config")
    for name in ("configuration", "content"):
        if values[name] and (fault := name_fault(values[name])):
            raise fields.fault(fault, name)
    if values.get("concurrency") == 0:
        raise fields.fault("a concurrency of 0 measures nothing", "concurrency")
    for name in _ZERO_IS_MISSING:
        if values.get(name) == 0:
            del values[name]
    if values.get("completed_requests") == 0:
        for name in _ZERO_IS_MISSING:
            values.pop(name, None)
        flags.append("no_success")
        fields.note("no request succeeded, so nothing was measured")
    if "concurrency" not in values and "concurrency_source" not in values:
        values["concurrency_source"] = "unknown"
    made = Cell(**values, source_file=fields.file_name, source_row=fields.row)
    return _flagged(made, flags, itl)


def _name(fields: Fields, given: Given, values: dict[str, Any]) -> None:
    """Says who and what was measured: as stated, else as given beside the file, else as guessed, with a note."""
    model = values.get("model")
    for name, said in (("configuration", given.configuration), ("content", given.content)):
        guessed, stated = values.pop(f"guessed_{name}", None), values.get(name)
        source = "the file's name or its settings"
        if name == "configuration" and not stated and not said:
            if is_model_only(guessed, model):
                guessed = guessed_name(given.folder) or guessed
            if guessed and is_model_only(guessed, model) and not given.is_model_a_name:
                message = (
                    f"nothing but the model ({_short(guessed)}) says which configuration was measured, and every other"
                    " configuration of it would be called the same: name it (`config`, --config)"
                )
                raise fields.fault(message)
            source = source_of(guessed or "", fields.file_name, given.folder, model)
        values[name] = stated or said or guessed or ""
        if guessed and values[name] == guessed and not said:
            words = f"the {name} {guessed!r} is guessed from {source}"
            fields.notes.extend([] if words in fields.notes else [words])


def median_speed(tokens: Sequence[float | None], seconds: Sequence[float | None]) -> float | None:
    """The median over requests of tokens / elapsed time, end to end (DEFINITIONS 3); None without such requests."""
    speeds = [n / t for n, t in zip(tokens, seconds, strict=False) if n and t]
    return median(speeds) if speeds else None


def redacted(text: str) -> str:
    """The text without keys, tokens and passwords."""
    return _USER_INFO.sub("", _SECRET.sub(r"\1[hidden]", text))


def name_from(*parts: object) -> str | None:
    """A name made of what is known of parts, with spaces between; None of nothing."""
    known = [str(part).strip() for part in parts if part not in (None, "")]
    return " ".join(known) or None


_ZERO_IS_MISSING = (
    "aggregate",
    "per_stream",
    "per_stream_p50",
    "per_stream_p95",
    "decode",
    "ttft",
    "ttft_p95",
    "tpot",
    "e2e",
    "requests_per_second",
    "acceptance_length",
    "prompt_tokens",
    "output_tokens",
    "duration_seconds",
)


def _flagged(made: Cell, flags: list[str], itl: float | None) -> Cell:
    if has_failures(made):
        flags.append("failed_requests")
    if is_ramp(made):
        flags.append("ramp")
    if made.ttft and made.tpot and made.e2e and made.output_tokens and made.output_tokens > 1:
        ratio = (made.ttft + made.tpot * (made.output_tokens - 1)) / made.e2e
        if not CONSISTENT_LATENCY[0] <= ratio <= CONSISTENT_LATENCY[1]:
            flags.append("inconsistent_latency")
    if _is_inconsistent(made):
        flags.append(INCONSISTENT_TABLE)
    if itl and made.tpot and itl > MANY_TOKENS_A_CHUNK_RATIO * made.tpot:
        flags.append("multi_token_chunks")
    if made.duration_seconds is not None and made.duration_seconds < SHORTEST_SECONDS:
        flags.append("short_run")
    return replace(made, flags=tuple(dict.fromkeys(flags)))


def _is_inconsistent(made: Cell) -> bool:
    """Whether one request at a time has an aggregate that its own speed cannot make; a ramp explains a low one."""
    speed = per_stream_speed(made)
    if made.concurrency != 1 or not made.aggregate or not speed:
        return False
    share = made.aggregate / speed
    return share > MOST_OF_ONE_STREAM or (share < FEWEST_OF_ONE_STREAM and not is_ramp(made))


def _short(value: object) -> str:
    text = repr(value)
    return escaped(text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}...")
