"""JSON that vLLM's tools write and that holds no cell: it is named, and the person told which file has one.

Contains no reading. In a folder such files are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from opmon.sweeps.document import Document
from opmon.sweeps.reading import Given, NoCell, redacted
from opmon.sweeps.vllm_runs import values_in

_MARKS = ('"extra_info"', '"elapsed_time"', '"avg_latency"', '"error_type"', '"client_command"', '"request_throughput"')
_SERVE = "measure with vllm bench serve --save-result"
_KINDS: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset(("benchmark", "metric", "model")),
        "this is the side file for PyTorch's benchmarks, a metric a record; give the result beside it, {sibling}",
    ),
    (
        frozenset(("elapsed_time", "num_requests", "tokens_per_second")),
        f"this is vllm bench throughput: an offline run whose tokens per second count prompts too, and no times; {_SERVE}",
    ),
    (
        frozenset(("avg_latency", "latencies", "percentiles")),
        f"this is vllm bench latency: one batch of fixed size without a server or clients; {_SERVE}",
    ),
    (
        frozenset(("error_type", "error", "serve_overrides")),
        "this run of the sweep failed and measured nothing: {error}",
    ),
    (
        frozenset(("server_command", "client_command")),
        "these are the commands of a test of vLLM's CI; give the result beside them",
    ),
    (
        frozenset(("total_input_tokens", "request_throughput", "completed", "model_id")),
        "this is a run of a model that generates no tokens",
    ),
)
"""The keys that tell a kind, and what is said of it."""


def recognises_other(document: Document) -> bool:
    """Whether it is one of these."""
    if not document.is_json or not any(mark in document.head for mark in _MARKS):
        return False
    return _words(next(values_in(document), None)) is not None


def refuse_other(document: Document, _given: Given) -> NoReturn:
    """Raises NoCell with the words for this kind."""
    value = next(values_in(document), None)
    sibling = re.sub(r"(?i)\.pytorch(?=\.json)", "", document.file_name.rsplit("/", 1)[-1])
    error = redacted(str(value.get("error") if isinstance(value, Mapping) else None))[:200]
    words = _words(value) or "this is nothing that holds a cell"
    raise NoCell(words.replace("{sibling}", sibling).replace("{error}", error), file=document.file_name)


def _words(value: Any) -> str | None:
    if not isinstance(value, Mapping) or "output_throughput" in value:
        return None
    return next((words for keys, words in _KINDS if keys <= value.keys()), None)
