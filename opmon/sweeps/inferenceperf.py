"""Reads a stage of inference-perf, of every version since 0.2: one JSON file a load, with `config.yaml` beside it.

Contains the format. A summary is a mean over stages of different loads, and what Prometheus saw or what single requests
did belongs to a stage's file: none of them is a cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.beside import yaml_beside
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name, unix_seconds
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell
from opmon.sweeps.speeds import FASTEST, Speed, estimated

_STAGE = re.compile(r"(?i)stage[-_]?(\d+)")
_OWN_NAME = re.compile(r"(?:^|/)(?:[^/]*[-_])?stage_\d+_lifecycle_metrics\.json(?:\.gz)?$")
_TOOL = re.compile(r"(?i)(?<![^/])inference[-_]?perf[-_.]?")
_LOAD = ("requested_rate", "achieved_rate", "concurrency", "send_duration")
_PROMETHEUS = ("rate", "queue_len", "kv_cache_usage_percentage")
_API = {"completion": "completions", "completions": "completions", "chat": "chat"}
BLANK_LINE_GAP_RATIO = 0.1
"""Where a median gap is under a tenth of the time per token, blank lines of the stream were stamped as tokens."""
FORMULA = "1 / median of (elapsed time / output tokens)"


def _recognises(document: Document) -> bool:
    if not document.is_json:
        return False
    if document.head.lstrip().startswith("["):
        return '"start_time"' in document.head and _is_rows(document.records[0].value)
    if '"load_summary"' not in document.head:
        return False
    value = document.records[0].value
    return isinstance(value, Mapping) and {"load_summary", "successes", "failures"} <= value.keys()


def _is_rows(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, Mapping) and {"start_time", "end_time", "info"} <= first.keys()


def _read(document: Document, given: Given) -> Read:
    fields = Fields({}, document.file_name)
    value = document.records[0].value
    if _is_rows(value):
        raise _no_cell(fields, "these are the single requests of all stages; the stages' own files hold the cells")
    if not isinstance(value, Mapping) or len(document.records) > 1:
        raise fields.fault("this is no stage: one object with `load_summary` is expected")
    fields.values = value
    if not fields.below("successes").has("throughput") and any(fields.has("successes", one) for one in _PROMETHEUS):
        raise _no_cell(
            fields, "this is what Prometheus saw of the server during a stage; its lifecycle file is the cell"
        )
    if not any(fields.has("load_summary", one) for one in _LOAD):
        raise _no_cell(
            fields, "this is the summary of all stages, whose loads differ; the stages' own files are the cells"
        )
    return Read((_cell(fields, document, given),), tuple(dict.fromkeys(fields.notes)))


def _no_cell(fields: Fields, words: str) -> NoCell:
    return NoCell(f"{words} (stage_N_lifecycle_metrics.json)", file=fields.file_name)


def _cell(fields: Fields, document: Document, given: Given) -> Cell:
    good, config = fields.below("successes"), yaml_beside(fields, document, "config.yaml")
    times, rates = good.below("latency"), good.below("throughput")
    output = _first(good, "output_tokens", "output_len")
    ttft, tpot = (times.number(name, "median") for name in ("time_to_first_token", "time_per_output_token"))
    itl = times.number("inter_token_latency", "median")
    if is_stamped_twice := itl is not None and tpot is not None and itl < BLANK_LINE_GAP_RATIO * tpot:
        fields.note("the tool took blank lines for tokens, so its time per token is about half of it, and is left out")
        tpot = None
    speed = _speed(times, fields)
    if speed.p50 is None:
        speed = estimated(output, times.number("request_latency", "median"), ttft, tpot)
    stage = _STAGE.search(fields.file_name.rsplit("/", 1)[-1])
    return cell(
        fields,
        given,
        **_identity(fields, config),
        **_load(fields, config, stage),
        **speed.values,
        prompt_tokens=_first(good, "prompt_tokens", "prompt_len"),
        output_tokens=output,
        aggregate=rates.number("output_tokens_per_sec"),
        ttft=ttft,
        ttft_p95=times.number("time_to_first_token", "p95"),
        tpot=tpot,
        itl=itl,
        e2e=times.number("request_latency", "mean"),
        requests_per_second=rates.number("requests_per_sec"),
        completed_requests=good.count("count"),
        failed_requests=fields.count("failures", "count"),
        duration_seconds=fields.number("benchmark_time_seconds"),
        measured_at=_began(fields, document, stage),
        streaming=_flag(config, "api", "streaming") if config.values else (True if ttft and itl else None),
        flags=("inconsistent_latency",) if is_stamped_twice else (),
        extra={**_extra(fields, config, stage), **speed.extra},
    )


def _first(good: Fields, *names: str) -> float | None:
    return next((mean for name in names if (mean := good.number(name, "mean")) is not None), None)


def _speed(times: Fields, fields: Fields) -> Speed:
    """The median is turned over: 1 / x keeps the order. Requests without output stand in it as 0, which is said."""
    per_token = times.below("normalized_time_per_output_token")
    middle = per_token.number("median")
    if per_token.number("min") == 0:
        fields.note("requests without any output stand among the speeds, so the median is a little high")
    if not middle or 1 / middle > FASTEST:
        return Speed()
    return Speed(1 / middle, None, "inv_median_ntpot", FORMULA)


def _load(fields: Fields, config: Fields, stage: re.Match[str] | None) -> dict[str, Any]:
    """Closed where the stage, or the settings beside it, name a concurrency; else requests came at a rate."""
    level = fields.number("load_summary", "concurrency")
    stages = config.at("load", "stages")
    if level is None and config.at("load", "type") == "concurrent" and stage and isinstance(stages, list):
        number = int(stage[1][:6])
        mine = stages[number] if number < len(stages) else None
        level = Fields(mine if isinstance(mine, Mapping) else {}, "config.yaml").number("concurrency_level")
        if level is None:
            return {"load_mode": "closed", "concurrency_source": "unknown"}
    if level is not None:
        return {"load_mode": "closed", "concurrency": level}
    return {"load_mode": "open", "concurrency_source": "unknown"}


def _identity(fields: Fields, config: Fields) -> dict[str, Any]:
    path = fields.file_name
    outer = path.rpartition("/")[0] if _OWN_NAME.search(path) else path
    by_server = config.at("report", "request_lifecycle", "use_server_output_tokens") is True
    model = config.word("server", "model_name")
    return {
        "guessed_configuration": (guessed_name(_TOOL.sub("", outer)) if outer else None) or model,
        "content": config.word("data", "type"),
        "model": model,
        "tool": "inference-perf",
        "api": _API.get(str(config.at("api", "type"))),
        "token_source": "server_usage" if by_server else "retokenized",
    }


def _began(fields: Fields, document: Document, stage: re.Match[str] | None) -> float | None:
    """When the stage began: only the report that the tool writes beside it says so."""
    if stage is None:
        return None
    report = yaml_beside(fields, document, f"inference-perf.partial.stage_{stage[1][:6]}.yaml")
    return unix_seconds(report, "run", "time", "start")


def _flag(config: Fields, *path: str) -> bool | None:
    value = config.at(*path)
    return value if isinstance(value, bool) else None


def _extra(fields: Fields, config: Fields, stage: re.Match[str] | None) -> dict[str, str]:
    kept = {
        "stage": stage[1] if stage else None,
        "request_rate": fields.word("load_summary", "requested_rate"),
        "achieved_rate": fields.word("load_summary", "achieved_rate"),
        "server": config.word("server", "type"),
        "ignore_eos": config.word("server", "ignore_eos"),
    }
    return {name: word for name, word in kept.items() if word}


INFERENCE_PERF = Reader("inference-perf", 1, "a stage of inference-perf (JSON)", _recognises, _read)
