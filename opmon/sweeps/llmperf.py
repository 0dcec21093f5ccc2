"""Reads LLMPerf's results: the summary of a run, or its single responses where the summary is lost.

Contains what the tool means by its names: its inter-token latency is elapsed time / tokens with the first one in it, so
it is no TPOT; a request's throughput is end to end; tokens are counted with one Llama tokenizer whatever the model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import concurrency_in, guessed_name, parts_of, unix_seconds
from opmon.sweeps.perf_metrics import value_beside
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell
from opmon.sweeps.request_rows import mean_of, quantile_of
from opmon.sweeps.speeds import Speed, estimated, measured, quotient

_SPEED = "request_output_throughput_token_per_s"
_SUMMARY_MARK = "num_concurrent_requests"
_NAMES = (("individual_responses", "summary"), ("individual", "summary"))
_CONFIGURATION_KEYS = ("config", "configuration", "label")
_CONTENT_KEYS = ("content", "workload", "dataset")
_OWN_KEYS = frozenset(
    {
        "version",
        "name",
        "model",
        "mean_input_tokens",
        "stddev_input_tokens",
        "mean_output_tokens",
        "stddev_output_tokens",
        "num_concurrent_requests",
        "timestamp",
    }
)
_MOST_EXTRA = 30


def _recognises(document: Document) -> bool:
    if not document.is_json or not any(mark in document.head for mark in (_SUMMARY_MARK, _SPEED)):
        return False
    value = document.records[0].value if document.records else None
    return _is_summary(value) or _is_responses(value)


def _is_summary(value: Any) -> bool:
    return (
        isinstance(value, Mapping) and _SUMMARY_MARK in value and any(str(key).startswith("results_") for key in value)
    )


def _is_responses(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, Mapping) and _SPEED in first and "end_to_end_latency_s" in first


def _read(document: Document, given: Given) -> Read:
    notes = ["the last record is cut off and left out"] if document.is_torn else []
    first = document.records[0].value if document.records else None
    if _is_responses(first):
        name = _other_name(document, *zip(*_NAMES, strict=True))
        if name is not None and _is_summary(value_beside(document, name)):
            raise NoCell(f"the same run stands in {name} beside it, which is read", file=document.file_name)
        made = _of_responses(first, Fields({}, document.file_name, None, notes), given)
        return Read((made,), tuple(dict.fromkeys(notes)))
    found = [record for record in document.records if _is_summary(record.value)]
    if not found:
        raise NoCell("this is none of LLMPerf's results; give its summary.json", file=document.file_name)
    cells = [
        _of_summary(
            Fields(one.value, document.file_name, one.number if len(found) > 1 else None, notes), document, given
        )
        for one in found
    ]
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _other_name(document: Document, old: Sequence[str], new: Sequence[str]) -> str | None:
    """The name of the file that belongs to this one; None where the name is not LLMPerf's."""
    name = parts_of(document.file_name)[-1]
    return next((name.replace(a, b) for a, b in zip(old, new, strict=True) if a in name), None)


def _of_summary(fields: Fields, document: Document, given: Given) -> Cell:
    errors, per_minute = fields.count("results_number_errors"), fields.number("results_num_completed_requests_per_min")
    completed = fields.count("results_num_completed_requests")
    seconds = quotient(completed, per_minute)
    speed = _per_stream(fields, document)
    values = {
        **speed.values,
        **_identity(fields),
        "concurrency": fields.number(_SUMMARY_MARK),
        "load_mode": "closed",
        "prompt_tokens": fields.number("results_number_input_tokens_mean"),
        "output_tokens": fields.number("results_number_output_tokens_mean"),
        "aggregate": fields.number("results_mean_output_throughput_token_per_s"),
        "ttft": fields.number("results_ttft_s_quantiles_p50"),
        "ttft_p95": fields.number("results_ttft_s_quantiles_p95"),
        "e2e": fields.number("results_end_to_end_latency_s_mean"),
        "requests_per_second": None if per_minute is None else per_minute / 60,
        "completed_requests": completed,
        "failed_requests": errors,
        "duration_seconds": None if seconds is None else seconds * 60,
        "measured_at": unix_seconds(fields, "timestamp"),
    }
    return cell(fields, given, **values, extra={**_extra(fields), **speed.extra})


def _per_stream(fields: Fields, document: Document) -> Speed:
    """The tool's median; what 95 % reach is in the single responses beside, if they are there."""
    middle = fields.number(f"results_{_SPEED}_quantiles_p50")
    if middle is None:
        tokens = fields.number("results_number_output_tokens_mean")
        return estimated(tokens, fields.number("results_end_to_end_latency_s_quantiles_p50"))
    listed = None
    for old, new in _NAMES:
        name = parts_of(document.file_name)[-1].replace(new, old)
        listed = listed or value_beside(document, name)
    rows = _rows(listed, Fields({}, document.file_name)) if _is_responses(listed) else []
    good = [row for row in rows if not _has_failed(row)]
    slowest = _speed_of(good).p95 if len(good) == fields.count("results_num_completed_requests") else None
    return Speed(middle, slowest, "tool_p50")


def _identity(fields: Fields) -> dict[str, Any]:
    lengths = [fields.word(key) for key in ("mean_input_tokens", "mean_output_tokens")]
    name = re.sub(r"(_\d+){2}(_summary)?$", "", fields.word("name") or "")
    return {
        "configuration": next((word for key in _CONFIGURATION_KEYS if (word := fields.word(key))), None),
        "content": next((word for key in _CONTENT_KEYS if (word := fields.word(key))), None),
        "guessed_configuration": name or guessed_name(fields.file_name) or fields.word("model"),
        "guessed_content": " ".join(("sonnet", "/".join(word for word in lengths if word))).strip(),
        "tool": "llmperf",
        "tool_version": fields.word("version"),
        "model": fields.word("model"),
        "token_source": "fixed_tokenizer",
        "streaming": True,
    }


def _extra(fields: Fields) -> dict[str, str]:
    """What a person gave with `--metadata`, and what was started."""
    named = (*_CONFIGURATION_KEYS, *_CONTENT_KEYS)
    own = [
        key
        for key in fields.values
        if key not in _OWN_KEYS and not str(key).startswith("results_") and key not in named
    ]
    found = {str(key)[:60]: word for key in own[:_MOST_EXTRA] if (word := fields.word(key))}
    started = fields.word("results_num_requests_started")
    return {**found, "requests_started": started} if started else found


def _rows(listed: Any, fields: Fields) -> list[Fields]:
    return [
        Fields(one if isinstance(one, Mapping) else {}, fields.file_name, row, fields.notes)
        for row, one in enumerate(listed, start=1)
    ]


def _has_failed(row: Fields) -> bool:
    return row.at("error_code") not in (None, "", 0) or not row.number("end_to_end_latency_s")


def _speed_of(rows: Sequence[Fields]) -> Speed:
    """Of the speed that each response states. Published files exist whose other columns are not of the same response."""
    return measured([row.number(_SPEED) for row in rows], [1.0] * len(rows))


def _of_responses(listed: Any, fields: Fields, given: Given) -> Cell:
    """A cell of single responses. They do not say when they ran, so there is no aggregate."""
    rows = _rows(listed, fields)
    good = [row for row in rows if not _has_failed(row)]
    firsts = [row.number("ttft_s") for row in good]
    level = concurrency_in(fields.file_name)
    if level is None:
        fields.note("single responses say neither concurrency nor aggregate; give LLMPerf's summary.json")
    values = {
        **_speed_of(good).values,
        "concurrency": level,
        "concurrency_source": "unknown" if level is None else "path",
        "load_mode": "closed",
        "prompt_tokens": mean_of([row.number("number_input_tokens") for row in good]),
        "output_tokens": mean_of([row.number("number_output_tokens") for row in good]),
        "ttft": quantile_of(firsts, 0.5),
        "ttft_p95": quantile_of(firsts, 0.95),
        "e2e": mean_of([row.number("end_to_end_latency_s") for row in good]),
        "completed_requests": len(good),
        "failed_requests": len(rows) - len(good),
        "tool": "llmperf",
        "token_source": "fixed_tokenizer",
        "streaming": True,
        "guessed_configuration": guessed_name(fields.file_name),
    }
    return cell(fields, given, **values)


LLMPERF = Reader(
    "llmperf",
    1,
    "LLMPerf's ..._summary.json or ..._individual_responses.json",
    _recognises,
    _read,
)
