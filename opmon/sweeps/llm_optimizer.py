"""Reads llm-optimizer: a run a line (JSONL), a run a file, or all runs with the best ones (`test_results`).

Contains this format only. Its figures have the names that SGLang's benchmark gives them; what it varied of the server
is the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, NoCell, Read, Reader, cell

TOKENS_AGREE_RATIO = 0.05
MOST_SETTINGS = 12
_MS = 1e-3
_UNKNOWN = ("unknown", "none", "null")


def _is_run(value: Any) -> bool:
    if not isinstance(value, Mapping) or not isinstance(value.get("results"), Mapping):
        return False
    settings = value.get("config")
    return isinstance(settings, Mapping) and ("server_args" in settings or "client_args" in settings)


def _runs(value: Any) -> Iterator[Any]:
    """The runs of one JSON value: itself, a list of them, or the list below `test_results`."""
    if isinstance(value, Mapping) and isinstance(value.get("test_results"), list):
        yield from value["test_results"]
    elif isinstance(value, list):
        yield from value
    else:
        yield value


def _recognises(document: Document) -> bool:
    if not document.is_json or not any(
        name in document.head for name in ('"client_args"', '"server_args"', '"test_results"')
    ):
        return False
    return any(_is_run(run) for record in document.records[:1] for run in _runs(record.value))


def _read(document: Document, given: Given) -> Read:
    cells, notes = [], list[str]()
    runs = [run for record in document.records for run in _runs(record.value)]
    for number, run in enumerate(runs, 1):
        row = number if len(runs) > 1 else None
        fields = Fields(run if isinstance(run, Mapping) else {}, document.file_name, row, notes)
        if not _is_run(run):
            raise fields.fault("this is no run: it has no config with server_args or client_args, or no results")
        if not fields.at("results"):
            fields.note("the run has no results, and is passed over")
            continue
        cells.append(_cell(fields, given))
    if document.is_torn:
        notes.append("the last line was cut off, and is left out")
    if not cells:
        raise NoCell("no run in it has results", file=document.file_name)
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _cell(fields: Fields, given: Given) -> Cell:
    found = fields.below("results")
    done = found.count("completed")
    tokens, scale, source = _tokens(found)
    output_tokens = tokens / done if tokens is not None and done else None
    prompt = found.number("total_input_tokens")
    aggregate = found.number("output_throughput")
    median = found.number("median_e2e_latency_ms", factor=_MS)
    speed = output_tokens / median if output_tokens and median else None
    flags = ("tokens_disagree",) if scale != 1 else ()
    return cell(
        fields,
        given,
        **_load(fields),
        configuration=_settings(fields),
        guessed_configuration=guessed_name(fields.file_name) or fields.word("metadata", "model_tag"),
        content=found.word("dataset_name") or fields.word("config", "client_args", "dataset_name"),
        prompt_tokens=prompt / done if prompt is not None and done else None,
        output_tokens=output_tokens,
        aggregate=None if aggregate is None else aggregate * scale,
        per_stream=speed,
        per_stream_method="mean_out_over_median_e2e" if speed else None,
        derived=("per_stream",) if speed else (),
        ttft=found.number("median_ttft_ms", factor=_MS),
        ttft_p95=found.number("p95_ttft_ms", factor=_MS),
        tpot=found.number("median_tpot_ms", factor=_MS),
        itl=found.number("median_itl_ms", factor=_MS),
        e2e=found.number("mean_e2e_latency_ms", factor=_MS),
        requests_per_second=found.number("request_throughput"),
        acceptance_length=found.number("accept_length"),
        completed_requests=done,
        duration_seconds=found.number("duration"),
        tool="llm-optimizer",
        model=fields.word("metadata", "model_tag"),
        hardware=_known(fields.word("metadata", "gpu_type")),
        token_source=source,
        flags=flags,
        extra=_extra(fields, has_speed=speed is not None),
    )


def _tokens(found: Fields) -> tuple[float | None, float, str | None]:
    """Output tokens, what makes the claimed throughput that of these tokens, and who counted: counted anew from the
    text where the two differ by more than 5 %, for the claim may be the length that was asked for."""
    claimed, counted = found.number("total_output_tokens"), found.number("total_output_tokens_retokenized")
    if not claimed or not counted:
        return claimed, 1.0, None
    if abs(claimed / counted - 1) <= TOKENS_AGREE_RATIO:
        return claimed, 1.0, "server_usage"
    found.note(f"{claimed:,.0f} output tokens are claimed and the texts have {counted:,.0f}; the latter are taken")
    return counted, counted / claimed, "retokenized"


def _load(fields: Fields) -> dict[str, Any]:
    held = fields.number("results", "max_concurrency") or fields.number("config", "client_args", "max_concurrency")
    rate = next(
        (
            fields.number(*place)
            for place in (("config", "client_args", "request_rate"), ("results", "request_rate"))
            if not fields.is_unlimited(*place) and fields.has(*place) and fields.at(*place) != "trace"
        ),
        None,
    )
    if rate:
        return {"load_mode": "open", "concurrency_source": "unknown"}
    if held:
        return {"load_mode": "closed", "concurrency": held}
    return {"load_mode": "unlimited", "concurrency_source": "unlimited"}


def _settings(fields: Fields) -> str | None:
    """What was varied of the server, as a name."""
    settings = fields.below("config", "server_args")
    parts = [f"{name}={settings.word(name)}" for name in list(settings.values)[:MOST_SETTINGS] if settings.has(name)]
    return " ".join(parts)[:200].strip() or None


def _known(word: str | None) -> str | None:
    return None if word is None or word.lower() in _UNKNOWN else word


def _extra(fields: Fields, *, has_speed: bool) -> dict[str, str]:
    words = {
        "per_stream_formula": "mean output tokens / median e2e" if has_speed else None,
        "gpu_count": fields.word("metadata", "gpu_count"),
        "framework": fields.word("metadata", "framework"),
        "request_rate": fields.word("config", "client_args", "request_rate"),
        "command": fields.word("cmd"),
    }
    return {name: word for name, word in words.items() if word}


LLM_OPTIMIZER = Reader("llm-optimizer", 1, "JSON or JSONL of llm-optimizer", _recognises, _read)
