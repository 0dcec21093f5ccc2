"""Reads what SGLang's `bench_serving` appends to its file: a JSON object a run, of every version since 0.3.

Contains the format. The tool counts the tokens that it asked for where the server does not tell; what it counted again
from the texts tells such runs apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import GAP_SUMS, Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell, name_from
from opmon.sweeps.speeds import NO_SPEED, Speed, estimated, measured, quotient

_MS = 0.001
_AGAIN = "total_output_tokens_retokenized"
TOKENS_AGREE_WITHIN_RATIO = 0.05
_OWN_NAME = re.compile(r"(?i)(^|/)[a-z-]+_\d{4}_\d+_[^/]*\.jsonl(\.gz)?$")
"""What the tool calls a file: backend, month and day, requests, content. None of it is a configuration."""
_TOOL = re.compile(r"(?i)(?<![^/])sglang[-_.]?|(?<=[-_./])details(?=\.)")
_API = {"sglang": "generate", "sglang-native": "generate", "sglang-oai": "completions", "vllm": "completions"}
_SETTINGS = (
    "version",
    "tp_size",
    "dp_size",
    "ep_size",
    "pp_size",
    "quantization",
    "kv_cache_dtype",
    "attention_backend",
    "max_running_requests",
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_num_draft_tokens",
)
_KEPT = (
    "backend",
    "request_rate",
    "max_concurrency",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
    "sharegpt_output_len",
    _AGAIN,
)


def _runs(document: Document) -> Iterator[Fields]:
    """Each run of the file; a list holds runs too."""
    values = [
        one
        for record in document.records
        for one in (record.value if isinstance(record.value, list) else [record.value])
    ]
    notes: list[str] = []
    for number, value in enumerate(values, 1):
        fields = Fields({}, document.file_name, number if len(values) > 1 else None, notes)
        if not isinstance(value, Mapping):
            raise fields.fault("this is no run: an object with the tool's figures is expected")
        fields.values = value
        yield fields


def _recognises(document: Document) -> bool:
    if not document.is_json or f'"{_AGAIN}"' not in document.head or '"dataset_name"' not in document.head:
        return False
    first = document.records[0].value
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, Mapping) and "dataset_name" in first and _AGAIN in first


def _read(document: Document, given: Given) -> Read:
    cells, notes = [], list[str]()
    for fields in _runs(document):
        notes = fields.notes
        cells.append(_cell(fields, given))
    if document.is_torn:
        notes.append("the last record is cut off and left out")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, given: Given) -> Cell:
    completed = fields.count("completed")
    ttft, tpot = fields.number("median_ttft_ms", factor=_MS), fields.number("median_tpot_ms", factor=_MS)
    median_e2e = fields.number("median_e2e_latency_ms", factor=_MS)
    tokens = _Tokens.of(fields)
    if not tokens.agree:
        tpot = None
    output = tokens.output / completed if tokens.output and completed else None
    speed = _from_rows(fields) if tokens.agree else NO_SPEED
    speed = speed if speed.p50 else estimated(output, median_e2e, ttft, tpot)
    prompt = fields.number("total_input_tokens")
    return cell(
        fields,
        given,
        **_identity(fields),
        **_load(fields),
        **speed.values,
        prompt_tokens=prompt / completed if prompt and completed else None,
        output_tokens=output,
        aggregate=tokens.aggregate,
        ttft=ttft,
        ttft_p95=fields.number("p95_ttft_ms", factor=_MS),
        tpot=tpot,
        itl=fields.number("median_itl_ms", factor=_MS) if tokens.agree else None,
        e2e=fields.number("mean_e2e_latency_ms", factor=_MS),
        requests_per_second=_requests_per_second(fields, completed),
        acceptance_length=fields.number("accept_length"),
        completed_requests=completed,
        failed_requests=_failed(fields),
        duration_seconds=fields.number("duration"),
        streaming=True if ttft and median_e2e and ttft < 0.99 * median_e2e else None,
        token_source=tokens.source,
        flags=() if tokens.agree else ("tokens_disagree",),
        extra={**_extra(fields), **speed.extra},
    )


class _Tokens:
    """How many output tokens there were, of all requests together, and who counted them."""

    def __init__(self, output: float | None, aggregate: float | None, source: str, *, agree: bool) -> None:
        self.output, self.aggregate, self.source, self.agree = output, aggregate, source, agree

    @classmethod
    def of(cls, fields: Fields) -> _Tokens:
        """The tool's own count, or the one from the texts where the two differ by more than 5 %: then the first is what
        was asked for. Where no text came back at all, nothing is known."""
        claimed, again = fields.number("total_output_tokens"), fields.number(_AGAIN)
        seconds, aggregate = fields.number("duration"), fields.number("output_throughput")
        if not claimed or again is None or abs(again - claimed) <= TOKENS_AGREE_WITHIN_RATIO * min(claimed, again):
            source = "server_usage" if fields.at("backend") == "sglang" else "usage_or_requested"
            rate = quotient(claimed, seconds) if aggregate is None else aggregate
            return cls(claimed, rate, source, agree=True)
        fields.note(
            f"the tool counted {claimed:,.0f} output tokens and found {again:,.0f} in the texts: the first are what it"
            " asked for; speeds are of the second, and the time per token is left out"
        )
        return cls(again or None, quotient(again, seconds), "retokenized", agree=False)


def _from_rows(fields: Fields) -> Speed:
    """From `--output-details`: an elapsed time is the TTFT and the gaps after it."""
    tokens, ttfts, gaps = (fields.numbers(name) for name in ("output_lens", "ttfts", GAP_SUMS))
    if not len(tokens) == len(ttfts) == len(gaps):
        fields.note("the lists of single requests differ in length, so the medians of the tool are used")
        return NO_SPEED
    seconds = [first + rest if first and rest is not None else None for first, rest in zip(ttfts, gaps, strict=True)]
    return measured(tokens, seconds)


def _load(fields: Fields) -> dict[str, Any]:
    """Closed only where nothing but the limit paces the clients; a rate with a limit is open, its limit a ceiling."""
    limit = fields.number("max_concurrency")
    if fields.at("request_rate") == "trace":
        return {"load_mode": "open", "concurrency_source": "unknown"}
    if not fields.is_unlimited("request_rate"):
        has_rate = fields.number("request_rate") is not None
        return {"load_mode": "open" if has_rate else None, "concurrency_source": "unknown"}
    if limit is None:
        return {"load_mode": "unlimited", "concurrency_source": "unlimited"}
    return {"load_mode": "closed", "concurrency": limit}


def _requests_per_second(fields: Fields, completed: int | None) -> float | None:
    stated = fields.number("request_throughput")
    return quotient(completed, fields.number("duration")) if stated is None else stated


def _failed(fields: Fields) -> int | None:
    """The tool does not count failures; `--output-details` lists what each request said."""
    errors = fields.at("errors")
    return sum(bool(one) for one in errors) if isinstance(errors, list) else None


def _identity(fields: Fields) -> dict[str, Any]:
    """Who was measured: the tag, else the file's name, else what the server said of itself."""
    backend = fields.word("backend")
    server = fields.below("server_info")
    model = server.word("served_model_name") or server.word("model_path")
    spec, quantization, parallel = (server.word(n) for n in ("speculative_algorithm", "quantization", "tp_size"))
    short = model.rstrip("/").rsplit("/", 1)[-1] if model else None
    said = name_from(short, quantization, spec, f"tp{parallel}" if parallel else None) if model else None
    named = None if _OWN_NAME.search(fields.file_name) else guessed_name(_TOOL.sub("", fields.file_name))
    return {
        "configuration": fields.word("tag"),
        "guessed_configuration": named or said or backend,
        "content": fields.word("dataset_name"),
        "model": model,
        "tool": "sglang",
        "api": _API.get(backend or "", "chat" if (backend or "").endswith("-chat") else None),
    }


def _extra(fields: Fields) -> dict[str, str]:
    kept = {name: fields.word(name) for name in _KEPT}
    kept |= {f"server {name}": fields.below("server_info").word(name) for name in _SETTINGS}
    if fields.has("accept_length"):
        kept["acceptance_scope"] = "since the server started"
    return {name: word for name, word in kept.items() if word}


SGLANG = Reader("sglang", 1, "SGLang bench_serving (JSONL)", _recognises, _read)
