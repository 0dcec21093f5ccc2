"""Reads evalscope perf: `benchmark_summary.json` with the percentiles and arguments beside it.

Contains this format only. Keys are texts for people and changed between versions, so they are read by their words and
the unit in brackets. The summary's latencies are means; medians are in `benchmark_percentile.json`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell

PERCENTILES, ARGUMENTS = "benchmark_percentile.json", "benchmark_args.json"
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_KEY = re.compile(r"^(.*?)\s*(?:\(([^()]*)\))?$")
_RUN_FOLDER = re.compile(r"(?:sla_)?(?:parallel|rate)_-?[\d.]+(?:_number_\d+)?(?:_run_\d+)?$")
_STAMP = re.compile(r"(20\d{6})_(\d{6})")
# What a key of a later or an earlier version is called here.
_WORDS = {"average": "avg", "time to first token": "ttft", "time per output token": "tpot", "succeed": "success"}
_DROPPED_WORDS = ("token ", " per request", "number of ")


def _plain(key: str) -> tuple[str, str]:
    """A key as its words and its unit: `Average time to first token (s)` is (`avg ttft`, `s`)."""
    found = _KEY.match(key.strip())
    words, unit = (found[1].lower(), (found[2] or "").lower()) if found else (key.lower(), "")
    for said, meant in _WORDS.items():
        words = words.replace(said, meant)
    for dropped in _DROPPED_WORDS:
        words = words.replace(dropped, "")
    return re.sub(r"\s+", " ", words).strip(), unit


class _Keys:
    """Figures of an object whose keys are texts with a unit, by their words."""

    def __init__(self, values: Mapping[str, Any], fields: Fields) -> None:
        self._names = {_plain(str(key))[0]: str(key) for key in reversed(list(values))}
        self._fields = Fields(values, fields.file_name, fields.row, fields.notes)

    def has(self, *names: str) -> bool:
        """Whether all of the names are there."""
        return all(name in self._names for name in names)

    def number(self, *names: str) -> float | None:
        """The first of these that is there."""
        key = next((self._names[name] for name in names if name in self._names), None)
        return None if key is None else self._fields.number(key)

    def count(self, *names: str) -> int | None:
        """The first of these that is there, as a whole number."""
        key = next((self._names[name] for name in names if name in self._names), None)
        return None if key is None else self._fields.count(key)

    def seconds(self, name: str) -> float | None:
        """A time, by the unit of its key."""
        key = self._names.get(name)
        factor = None if key is None else UNITS.get(_plain(key)[1])
        return None if key is None or factor is None else self._fields.number(key, factor=factor)

    def signed(self, name: str) -> float | None:
        """A figure that is -1 where there is none."""
        value = self._fields.at(self._names.get(name, ""))
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
            return None
        return self.number(name)


def _is_summary(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    names = {_plain(str(key))[0] for key in value}
    return {"concurrency", "output throughput"} <= names and bool({"avg latency", "avg ttft"} & names)


def _is_percentiles(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, Mapping) and "Percentiles" in first


def _recognises(document: Document) -> bool:
    head = document.head
    if not document.is_json or not ('oncurrency"' in head or '"Percentiles"' in head):
        return False
    value = document.records[0].value if document.records else None
    return _is_summary(value) or _is_percentiles(value)


def _read(document: Document, given: Given) -> Read:
    value = document.records[0].value
    if _is_percentiles(value):
        message = "percentiles belong to the benchmark_summary.json beside them; give that file, or the folder"
        raise NoCell(message, file=document.file_name)
    if not _is_summary(value):
        raise SweepError("this is no summary of evalscope perf", file=document.file_name)
    notes: list[str] = []
    fields = Fields(value, document.file_name, None, notes)
    made = _cell(fields, _percentiles(document, fields), _arguments(document, fields), given)
    return Read((made,), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, percentiles: dict[str, _Keys], arguments: Fields, given: Given) -> Cell:
    found = _Keys(fields.values, fields)
    half, tail = percentiles.get("50"), percentiles.get("95")
    slowest = percentiles.get("5")
    speed = half.number("output") if half else None
    if half is None:
        fields.note(f"there is no {PERCENTILES} beside it, so medians and the per-stream speed are not known")
    return cell(
        fields,
        given,
        **_load(found),
        configuration=arguments.word("name"),
        guessed_configuration=_folder_name(fields.file_name) or arguments.word("model"),
        content=arguments.word("dataset"),
        prompt_tokens=found.number("avg input tokens"),
        output_tokens=found.number("avg output tokens"),
        aggregate=found.number("output throughput"),
        per_stream=speed,
        per_stream_method="tool_p50" if speed else None,
        per_stream_p95=slowest.number("output") if slowest else None,
        decode=half.number("decode") if half else None,
        ttft=half.seconds("ttft") if half else None,
        ttft_p95=tail.seconds("ttft") if tail else None,
        tpot=half.seconds("tpot") if half else None,
        itl=half.seconds("itl") if half else None,
        e2e=found.seconds("avg latency"),
        requests_per_second=found.number("request throughput", "req throughput", "qps"),
        acceptance_length=found.number("avg decoded tok/iter", "avg decoded tokens/iter", "decoded tok/iter"),
        completed_requests=found.count("success requests"),
        failed_requests=found.count("failed requests"),
        duration_seconds=found.seconds("time taken for tests") or found.seconds("test duration"),
        measured_at=_instant(fields),
        tool="evalscope",
        model=arguments.word("model"),
        api=arguments.word("api"),
        streaming=arguments.at("stream") if isinstance(arguments.at("stream"), bool) else None,
        extra=_extra(fields, arguments, found),
    )


def _load(found: _Keys) -> dict[str, Any]:
    """A rate is an open loop; -1 says that there is none."""
    if found.signed("request rate"):
        return {"load_mode": "open", "concurrency_source": "unknown"}
    held = found.signed("concurrency")
    if held:
        return {"load_mode": "closed", "concurrency": held}
    return {"load_mode": "unlimited", "concurrency_source": "unlimited"}


def _extra(fields: Fields, arguments: Fields, found: _Keys) -> dict[str, str]:
    words = {
        "ttft_mean_seconds": found.seconds("avg ttft"),
        "tpot_mean_seconds": found.seconds("avg tpot"),
        "request_rate": found.signed("request rate"),
        "acceptance_ratio": found.number("spec. accept rate", "approx spec. accept rate"),
    }
    kept = {name: f"{value:g}" for name, value in words.items() if value is not None}
    asked = {name: word for name in ("max_tokens", "min_tokens", "dataset_path") if (word := arguments.word(name))}
    del fields
    return {**kept, **asked}


# --- what stands beside -------------------------------------------------------------------------------------------


def _percentiles(document: Document, fields: Fields) -> dict[str, _Keys]:
    """The rows of the percentiles beside it by their number (`50`); of both shapes, a list of rows or lists by column."""
    value = _beside(document, PERCENTILES, fields)
    if isinstance(value, Mapping):
        columns = {key: column for key, column in value.items() if isinstance(column, list)}
        labels = columns.get("Percentiles", [])
        value = [{key: column[n] for key, column in columns.items() if n < len(column)} for n in range(len(labels))]
    if not isinstance(value, list):
        return {}
    rows = [row for row in value if isinstance(row, Mapping)]
    return {str(row.get("Percentiles")).strip().rstrip("%"): _Keys(_finite(row), fields) for row in rows}


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not defined, which the tool writes as NaN."""
    return {key: value for key, value in row.items() if not (isinstance(value, float) and math.isnan(value))}


def _arguments(document: Document, fields: Fields) -> Fields:
    value = _beside(document, ARGUMENTS, fields)
    return Fields(value if isinstance(value, Mapping) else {}, fields.file_name, fields.row, fields.notes)


def _beside(document: Document, name: str, fields: Fields) -> Any:
    """The value of a file beside; None, with a note, where it cannot be read."""
    other = document.beside(name)
    if other is None:
        return None
    try:
        return other.records[0].value if other.records else None
    except SweepError as error:
        fields.note(f"the file beside is left out: {error}")
        return None


def _folder_name(file_name: str) -> str | None:
    """The nearest folder that is not the one of a single run, as `outputs/20260316_110205/model/parallel_2_number_8`."""
    folders = [part for part in file_name.split("/")[:-1] if part and not _RUN_FOLDER.match(part)]
    return guessed_name(folders[-1]) if folders else None


def _instant(fields: Fields) -> float | None:
    """When the run began, by the folder that the tool names so; without a zone, taken as UTC."""
    found = _STAMP.search(fields.file_name)
    if found is None:
        return None
    try:
        moment = datetime.strptime(found[1] + found[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    fields.note("the date is that of the folder, without a zone, taken as UTC")
    return moment.timestamp()


EVALSCOPE = Reader(
    "evalscope",
    1,
    "benchmark_summary.json of evalscope perf",
    _recognises,
    _read,
)
