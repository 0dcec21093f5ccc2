"""Reads everything that vLLM's own benchmarks write: results, summaries of sweeps and of its CI, and the console block.

Contains the order in which the forms are tried, and nothing of any of them.
"""

from __future__ import annotations

from collections.abc import Callable

from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Given, Read, Reader
from opmon.sweeps.vllm_ci import read_page, read_tests, recognises_page, recognises_tests
from opmon.sweeps.vllm_console import read_console, recognises_console
from opmon.sweeps.vllm_others import recognises_other, refuse_other
from opmon.sweeps.vllm_runs import read_runs, recognises_runs
from opmon.sweeps.vllm_sweep import read_summary, recognises_summary

_FORMS: tuple[tuple[Callable[[Document], bool], Callable[[Document, Given], Read]], ...] = (
    (recognises_runs, read_runs),
    (recognises_tests, read_tests),
    (recognises_other, refuse_other),
    (recognises_summary, read_summary),
    (recognises_page, read_page),
    (recognises_console, read_console),
)


def _recognises(document: Document) -> bool:
    return any(recognises(document) for recognises, _ in _FORMS)


def _read(document: Document, given: Given) -> Read:
    for recognises, read in _FORMS:
        if recognises(document):
            return read(document, given)
    raise SweepError("this is nothing that vLLM's benchmarks write", file=document.file_name)


VLLM = Reader(
    "vllm",
    1,
    "vLLM's benchmarks (vllm bench serve, vllm-bench, vllm bench sweep and its CI: JSON, summary.csv, console)",
    _recognises,
    _read,
)
