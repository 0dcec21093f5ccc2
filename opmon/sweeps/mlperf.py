"""Reads `mlperf_log_summary.txt` of MLPerf's load generator: a figure of a whole system, and no cell of a sweep.

Contains this format only. Its load is a rate (Server, Interactive) or all at once (Offline), so it lies on no level of
concurrency and decides nothing; it is kept to be shown beside what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell

BANNER = "MLPerf Results Summary"
_NS = 1e-9
_LINE = re.compile(r"^\s*([^:]{1,120}?)\s*:\s*(.*?)\s*$")
_MODES = {"offline": "offline", "server": "open", "interactive": "open", "singlestream": "single"}


def _recognises(document: Document) -> bool:
    return not document.is_json and BANNER in document.head


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """`key : value` of each line, keys in lower case; the first of a name stands."""
    for line in text.splitlines():
        if found := _LINE.match(line[:500]):
            yield found[1].lower(), found[2]


def _read(document: Document, given: Given) -> Read:
    values: dict[str, str] = {}
    for key, value in _pairs(document.text):
        values.setdefault(key, value)
    notes: list[str] = []
    fields = Fields(values, document.file_name, None, notes)
    scenario = (fields.word("scenario") or "").lower()
    if scenario not in _MODES:
        raise SweepError(f"the scenario {scenario!r} is not known", file=document.file_name, field="Scenario")
    notes.append(
        f"MLPerf's {scenario} scenario is no cell of a sweep: nobody held a number of requests in flight, and the prompt"
        " length is not in it; it is kept to be shown, and compared with nothing"
    )
    samples = _first(fields, "completed samples per second", "samples per second")
    tokens = _first(fields, "completed tokens per second", "tokens per second", "tokens per second (inferred)")
    length = tokens / samples if tokens and samples else None
    # With all requests sent at once their latency is the length of the run, which is nobody's speed.
    whole = None if scenario == "offline" else _ns(fields, "50.00 percentile latency (ns)")
    speed = length / whole if length and whole else None
    result = fields.word("result is") or "not stated"
    made = cell(
        fields,
        given,
        guessed_configuration=fields.word("sut name") or guessed_name(document.file_name),
        load_mode=_MODES[scenario],
        concurrency_source="unknown",
        output_tokens=None if scenario == "offline" else length,
        aggregate=tokens,
        requests_per_second=samples,
        per_stream=speed,
        per_stream_method="mean_out_over_median_e2e" if speed else None,
        derived=("per_stream",) if speed else (),
        ttft=_ns(fields, "50.00 percentile first token latency (ns)"),
        ttft_p95=_ns(fields, "95.00 percentile first token latency (ns)"),
        tpot=_ns(fields, *(f"50.00 percentile time {word} output token (ns)" for word in ("to", "per"))),
        e2e=None if scenario == "offline" else _ns(fields, "mean latency (ns)"),
        tool="mlperf-loadgen",
        flags=() if result == "VALID" else ("invalid_run",),
        extra={
            name: word
            for name, word in (
                ("per_stream_formula", "mean output tokens / median e2e" if speed else None),
                ("scenario", fields.word("scenario")),
                ("result", result),
                ("request_rate", fields.word("target_qps")),
            )
            if word
        },
    )
    return Read((made,), tuple(dict.fromkeys(notes)))


def _first(fields: Fields, *names: str) -> float | None:
    return next((value for name in names if (value := fields.number(name)) is not None), None)


def _ns(fields: Fields, *names: str) -> float | None:
    return next((value for name in names if (value := fields.number(name, factor=_NS)) is not None), None)


MLPERF = Reader("mlperf", 1, "mlperf_log_summary.txt of MLPerf's load generator", _recognises, _read)
