"""Reads genai-perf's exports: `profile_export_genai_perf.json`, and the client's `profile_export.json` where it is alone.

Contains what differs from AIPerf, which writes the same metrics: nothing counts failures, no speed is end to end, and
the client's file holds texts and instants but no tokens. With outputs of one length its latencies give the speed exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.aiperf import is_run as is_aiperf_run
from opmon.sweeps.aiperf_settings import Settings
from opmon.sweeps.document import Document
from opmon.sweeps.naming import concurrency_in, guessed_name, stem_of
from opmon.sweeps.perf_metrics import Metrics, has_metrics, value_beside
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell
from opmon.sweeps.request_rows import mean_of, quantile_of
from opmon.sweeps.speeds import Speed, measured, quotient

SUMMARY = "profile_export_genai_perf.json"
_SUFFIX = "_genai_perf"


def _recognises(document: Document) -> bool:
    if not document.is_json:
        return False
    if not any(hint in document.head for hint in ('"request_latency"', '"request_throughput"', '"experiments"')):
        return False
    value = document.records[0].value if document.records else None
    return _is_summary(value) or _is_client(value)


def _is_summary(value: Any) -> bool:
    return has_metrics(value) and not is_aiperf_run(value) and isinstance(value.get("input_config"), Mapping)


def _is_client(value: Any) -> bool:
    """Whether a JSON value is the client's (perf_analyzer's) file of instants."""
    listed = value.get("experiments") if isinstance(value, Mapping) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    return isinstance(first, Mapping) and isinstance(first.get("experiment"), Mapping) and "requests" in first


def _read(document: Document, given: Given) -> Read:
    first: Any = document.records[0].value if document.records else None
    notes: list[str] = []
    if _is_client(first):
        stem = stem_of(document.file_name)
        for name in (f"{stem}{_SUFFIX}.json", SUMMARY):
            if _is_summary(value_beside(document, name)):
                raise NoCell(f"the same run stands in {name} beside it, which is read", file=document.file_name)
        listed = first["experiments"]
        cells = [
            _of_client(Fields(one, document.file_name, row if len(listed) > 1 else None, notes), given)
            for row, one in enumerate(listed, start=1)
            if isinstance(one, Mapping)
        ]
        return Read(tuple(cells), tuple(dict.fromkeys(notes)))
    if not _is_summary(first):
        raise NoCell(f"this is none of genai-perf's results; give {SUMMARY}", file=document.file_name)
    fields = Fields(first, document.file_name, None, notes)
    return Read((_of_summary(fields, document, given),), tuple(dict.fromkeys(notes)))


# --- the summary --------------------------------------------------------------------------------------------------


def _of_summary(fields: Fields, document: Document, given: Given) -> Cell:
    metrics, config = Metrics(fields), fields.below("input_config")
    settings = Settings(config, Fields({}, fields.file_name))
    instants = _instants_beside(document, fields)
    speed = _per_stream(metrics, instants)
    extra = dict(speed.extra)
    identity = {**settings.identity(), "tool": "genai-perf"}
    values = {
        **metrics.common(),
        **speed.values,
        **_load(config, document, instants, extra),
        **identity,
        "api": config.word("endpoint", "type") or config.word("endpoint_type"),
        "streaming": _flag(config, ("endpoint", "streaming"), ("streaming",)),
        "token_source": "retokenized",
        "completed_requests": metrics.count("request_count"),
        "duration_seconds": _duration(metrics),
        "guessed_configuration": guessed_name(document.file_name) or settings.model(),
    }
    return cell(fields, given, **values, extra=extra)


def _duration(metrics: Metrics) -> float | None:
    return quotient(metrics.count("request_count"), metrics.figure("request_throughput"))


def _flag(config: Fields, *ways: Sequence[str]) -> bool | None:
    return next((value for way in ways if isinstance(value := config.at(*way), bool)), None)


def _per_stream(metrics: Metrics, instants: Fields) -> Speed:
    """Of latencies beside, where all outputs were of one length; the old tool's own median; else an estimate."""
    low, high = metrics.figure("output_sequence_length", "min"), metrics.figure("output_sequence_length", "max")
    latencies = [one.seconds for one in _requests(instants)]
    if low and low == high and latencies:
        speed = measured([low] * len(latencies), latencies)
        return Speed(speed.p50, speed.p95, "const_out_latency_rows")
    own = metrics.figure("output_token_throughput_per_request", "p50")
    return Speed(own, None, "tool_p50") if own else metrics.estimated()


def _load(config: Fields, document: Document, instants: Fields, extra: dict[str, str]) -> dict[str, Any]:
    """The stimulus: of the client's file, the settings of either family, else the folder's name."""
    mode, value = instants.word("experiment", "mode"), instants.number("experiment", "value")
    stimulus = config.below("perf_analyzer", "stimulus")
    for key in ("concurrency", "request_rate"):
        if mode is None and (stimulus.has(key) or config.has(key)):
            mode, value = key, stimulus.number(key) if stimulus.has(key) else config.number(key)
    return _load_of(mode, value, config, document.file_name, extra)


def _load_of(
    mode: str | None, value: float | None, fields: Fields, file_name: str, extra: dict[str, str]
) -> dict[str, Any]:
    if mode == "request_rate" and value is not None:
        extra["request_rate"] = f"{value:g}"
        return {"concurrency_source": "unknown", "load_mode": "open"}
    if mode == "concurrency" and value is not None:
        return {"concurrency": value, "load_mode": "closed"}
    named = concurrency_in(file_name)
    if mode is None and named is not None:
        fields.notes.append(f"the concurrency {named:g} is read from the file's path")
        return {"concurrency": named, "concurrency_source": "path", "load_mode": "closed"}
    return {"concurrency_source": "unknown", "load_mode": mode}


# --- the client's instants ----------------------------------------------------------------------------------------


def _instants_beside(document: Document, fields: Fields) -> Fields:
    """The one experiment of the client's file beside; empty where there is none, or several."""
    stem = stem_of(document.file_name)
    value: Any = value_beside(document, f"{stem.removesuffix(_SUFFIX)}.json") if stem.endswith(_SUFFIX) else None
    listed = value["experiments"] if _is_client(value) else []
    only = listed[0] if len(listed) == 1 else {}
    return Fields(only, document.file_name, None, fields.notes)


@dataclass(frozen=True, slots=True)
class _Request:
    """When a request began (Unix seconds), how long it took to its last answer and to its first."""

    begun: float
    seconds: float
    ttft: float | None


def _requests(experiment: Fields) -> list[_Request]:
    """The requests whose instants are sound, in the order of the file."""
    listed = experiment.at("requests")
    found = []
    for one in listed if isinstance(listed, list) else []:
        begun: Any = one.get("timestamp") if isinstance(one, Mapping) else None
        answers = one.get("response_timestamps") if isinstance(one, Mapping) else None
        if not _is_instant(begun) or not isinstance(answers, list) or not answers or not all(map(_is_instant, answers)):
            continue
        seconds = _between(begun, answers[-1])
        if seconds is not None:
            found.append(_Request(begun / 1e9, seconds, _between(begun, answers[0])))
    return found


def _is_instant(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 63


def _between(begun: int, ended: int) -> float | None:
    return (ended - begun) / 1e9 if ended > begun else None


def _of_client(experiment: Fields, given: Given) -> Cell:
    """A cell without any speed: the file holds no tokens."""
    requests = _requests(experiment)
    seconds, firsts = [one.seconds for one in requests], [one.ttft for one in requests]
    begun = min((one.begun for one in requests), default=None)
    duration = None if begun is None else max(one.begun + one.seconds for one in requests) - begun
    experiment.note(f"genai-perf's client file holds no tokens, so the cell has no speed; give {SUMMARY}")
    extra: dict[str, str] = {}
    values = {
        **_load_of(
            experiment.word("experiment", "mode"),
            experiment.number("experiment", "value"),
            experiment,
            experiment.file_name,
            extra,
        ),
        "ttft": quantile_of(firsts, 0.5),
        "ttft_p95": quantile_of(firsts, 0.95),
        "e2e": mean_of(seconds),
        "requests_per_second": quotient(len(requests), duration),
        "completed_requests": len(requests),
        "duration_seconds": duration,
        "measured_at": begun,
        "tool": "genai-perf",
        "guessed_configuration": guessed_name(experiment.file_name),
    }
    return cell(experiment, given, **values, extra=extra)


GENAI_PERF = Reader(
    "genai-perf",
    1,
    "genai-perf's profile_export_genai_perf.json",
    _recognises,
    _read,
)
