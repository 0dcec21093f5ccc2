"""Reads llm-d Benchmark Reports 0.1, 0.2 and 0.2.1 (YAML or JSON): one report is one cell.

Contains this format only. Every statistic carries its unit, which is honoured; latencies that nobody's server has in
that unit are left out, and told (an example of 0.1 labels seconds as milliseconds).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell
from opmon.sweeps.yaml_values import parse, plain

VERSIONS = ("0.1", "0.2", "0.2.1")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
FASTEST_STREAM = 5_000.0
"""Tokens per second of one request from end to end that no server makes: beyond it a unit is mislabelled."""
_YAML_HEAD = re.compile(r"^(version|results|metrics|scenario|run)\s*:", re.MULTILINE)
_PARTIAL = re.compile(r"\.partial\.stage_(\d+)\.ya?ml$")
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_LATENCIES = ("time_to_first_token", "time_per_output_token", "normalized_time_per_output_token", "request_latency")


def _records(document: Document) -> list[Any]:
    if document.is_json:
        return [record.value for record in document.records]
    return [plain(node, document.file_name) for node in parse(document.text, document.file_name)]


def _is_report(value: Any) -> bool:
    if not isinstance(value, Mapping) or str(value.get("version")) not in VERSIONS:
        return False
    fields = Fields(value, "")
    return fields.has("results", "request_performance") or fields.has("metrics", "latency")


def _recognises(document: Document) -> bool:
    head = document.head
    if document.is_json:
        if '"request_performance"' not in head and '"scenario"' not in head:
            return False
        return bool(document.records) and _is_report(document.records[0].value)
    if len(set(_YAML_HEAD.findall(head))) < 2 or not re.search(
        r"^\s+(request_performance|latency)\s*:", head, re.MULTILINE
    ):
        return False
    try:
        return any(map(_is_report, _records(document)))
    except SweepError:
        return "request_performance" in head  # damaged, and its own reader says where


def _read(document: Document, given: Given) -> Read:
    _refuse_partial(document)
    values = [value for value in _records(document) if value is not None]
    if not values:
        raise SweepError("the file holds no report", file=document.file_name)
    cells, notes = [], list[str]()
    for number, value in enumerate(values, 1):
        fields = Fields(value if isinstance(value, Mapping) else {}, document.file_name, _row(number, values), notes)
        if not _is_report(value):
            raise fields.fault(f"this is no Benchmark Report of version {', '.join(VERSIONS)}", "version")
        cells.append(_cell(fields, given))
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _refuse_partial(document: Document) -> None:
    """inference-perf writes a report of each stage beside the stage's own file, which says more."""
    found = _PARTIAL.search(document.file_name)
    name = f"stage_{found[1]}_lifecycle_metrics.json" if found else ""
    if name and document.beside(name) is not None:
        raise NoCell(f"the same stage stands in {name} beside it, which is read", file=document.file_name)


def _row(number: int, values: Sequence[Any]) -> int | None:
    return number if len(values) > 1 else None


def _cell(fields: Fields, given: Given) -> Cell:
    is_old = fields.has("metrics")
    found = fields.below("metrics") if is_old else fields.below("results", "request_performance", "aggregate")
    load = fields.below("scenario", "load") if is_old else fields.below("scenario", "load", "standardized")
    output_tokens = found.number("requests", "output_length", "mean")
    times = _times(found, output_tokens)
    total, failed = found.count("requests", "total"), found.count("requests", "failures")
    speed, method, formula = _per_stream(times, output_tokens)
    return cell(
        fields,
        given,
        **_load(fields, load),
        **_identity(fields, is_old=is_old),
        guessed_configuration=guessed_name(fields.file_name),
        content=fields.word("scenario", "load", "native", "config", "data", "type"),
        prompt_tokens=found.number("requests", "input_length", "mean"),
        output_tokens=output_tokens,
        aggregate=_rate(found, "output_token_rate", "output_tokens_per_sec"),
        requests_per_second=_rate(found, "request_rate", "requests_per_sec"),
        per_stream=speed,
        per_stream_method=method,
        derived=("per_stream",) if speed else (),
        ttft=times.get("time_to_first_token.p50"),
        ttft_p95=times.get("time_to_first_token.p95"),
        tpot=times.get("time_per_output_token.p50"),
        e2e=times.get("request_latency.mean"),
        completed_requests=None if total is None else max(total - (failed or 0), 0),
        failed_requests=failed,
        duration_seconds=_duration(fields, is_old=is_old),
        measured_at=unix_seconds(fields, *(("metrics", "time", "start") if is_old else ("run", "time", "start"))),
        tool=load.word("name") if is_old else load.word("tool"),
        tool_version=load.word("tool_version"),
        extra=_extra(fields, load, formula, is_old=is_old),
    )


def _load(fields: Fields, load: Fields) -> dict[str, Any]:
    """Closed where clients held a number in flight and no rate was set; a rate with or without a ceiling is open."""
    rate = None if load.is_unlimited("rate_qps") else load.number("rate_qps")
    held = None if load.is_unlimited("concurrency") else load.number("concurrency")
    if rate:
        return {"load_mode": "open", "concurrency_source": "unknown"}
    if held:
        return {"load_mode": "closed", "concurrency": held}
    if load.is_unlimited("concurrency"):
        return {"load_mode": "unlimited", "concurrency_source": "unlimited"}
    fields.note("the report does not say how many requests the clients held in flight, so the cell is on no level")
    return {"concurrency_source": "unknown"}


def _identity(fields: Fields, *, is_old: bool) -> dict[str, str | None]:
    """Model and hardware of the engines; several are joined."""
    if is_old:
        cards = fields.at("scenario", "host", "accelerator")
        return {"model": fields.word("scenario", "model", "name"), "hardware": _joined(cards, "model", fields)}
    engines = [
        one.get("standardized")
        for one in _mappings(fields.at("scenario", "stack"))
        if Fields(one, "").word("standardized", "kind") == "inference_engine"
    ]
    models = [engine.get("model") for engine in _mappings(engines)]
    cards = [engine.get("accelerator") for engine in _mappings(engines)]
    return {"model": _joined(models, "name", fields), "hardware": _joined(cards, "model", fields)}


def _joined(values: Any, key: str, fields: Fields) -> str | None:
    words = [Fields(value, fields.file_name).word(key) for value in _mappings(values)]
    return " + ".join(dict.fromkeys(word for word in words if word))[:200] or None


def _mappings(values: Any) -> list[Mapping[str, Any]]:
    return [value for value in values if isinstance(value, Mapping)] if isinstance(values, list) else []


def _extra(fields: Fields, load: Fields, formula: str | None, *, is_old: bool) -> dict[str, str]:
    words = {
        "per_stream_formula": formula,
        "request_rate": load.word("rate_qps"),
        "stage": load.word("stage"),
        "description": fields.word("scenario", "description") if is_old else fields.word("run", "description"),
        "experiment": fields.word("run", "eid"),
        "report_version": fields.word("version"),
        "quantization": fields.word("scenario", "model", "quantization"),
    }
    return {name: word for name, word in words.items() if word}


# --- figures and units --------------------------------------------------------------------------------------------


def _rate(found: Fields, name: str, old_name: str) -> float | None:
    return (
        found.number("throughput", name, "mean")
        if found.has("throughput", name)
        else found.number("throughput", old_name)
    )


def _times(found: Fields, output_tokens: float | None) -> dict[str, float]:
    """Latencies in seconds by `name.statistic`; empty where they cannot be in the unit that is written."""
    times: dict[str, float] = {}
    for name in _LATENCIES:
        statistic = found.below("latency", name)
        factor = _factor(statistic, name)
        for key in ("mean", "p50", "p95"):
            value = None if factor is None else statistic.number(key, factor=factor)
            if value:
                times[f"{name}.{key}"] = value
    whole = times.get("request_latency.mean")
    each = times.get("normalized_time_per_output_token.mean") or (
        whole / output_tokens if whole and output_tokens else None
    )
    if each is not None and 1 / each > FASTEST_STREAM:
        found.note(
            f"the latencies would make {1 / each:,.0f} tokens per second of a single request: their units are"
            " mislabelled, and they are left out"
        )
        return {}
    return times


def _factor(statistic: Fields, name: str) -> float | None:
    """What makes seconds of the statistic's unit. None, with a note, for a unit that is not known or not there."""
    if not statistic.values:
        return None
    unit = (statistic.word("units") or "").split("/")[0].strip()
    if unit not in SECONDS:
        statistic.note(f"{name} is in {unit!r}, which is no unit of time that is known; left out")
        return None
    return SECONDS[unit]


def _per_stream(times: Mapping[str, float], tokens: float | None) -> tuple[float | None, str | None, str | None]:
    """Speed, method, formula: what the report's medians say of a whole request."""
    each, whole = times.get("normalized_time_per_output_token.p50"), times.get("request_latency.p50")
    if each:
        return 1 / each, "inv_median_ntpot", "1 / median(e2e / output tokens)"
    if whole and tokens:
        return tokens / whole, "mean_out_over_median_e2e", "mean output tokens / median e2e"
    first, rest = times.get("time_to_first_token.p50"), times.get("time_per_output_token.p50")
    if first and rest and tokens and tokens > 1:
        return tokens / (first + rest * (tokens - 1)), "ttft_plus_tpot", "n / (TTFT + (n - 1) TPOT), medians"
    return None, None, None


def _duration(fields: Fields, *, is_old: bool) -> float | None:
    """The length of the run: seconds, or ISO 8601 such as PT49.97S."""
    path = ("metrics", "time", "duration") if is_old else ("run", "time", "duration")
    text = fields.at(*path)
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None:
        return fields.number(*path)
    if not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


LLMD_REPORT = Reader(
    "llm-d",
    1,
    "an llm-d Benchmark Report (YAML or JSON, 0.1 to 0.2.1)",
    _recognises,
    _read,
)
