"""Reads InferenceX (InferenceMAX): its client's JSON in seconds, the rows that its CI makes (`agg_*.json`, one or a list),
and the rows of its agentic benchmark (AgentX).

Contains what is per GPU there and what is not, and which of its speeds are decode-only (`*_intvty` is 1 / TPOT).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell, name_from
from opmon.sweeps.speeds import Speed, estimated, quotient
from opmon.sweeps.vllm_record import TOKENS_OF, Beside, Dialect, record_cell
from opmon.sweeps.vllm_runs import read_records, values_in

CLIENT = Dialect("inferencex", "", 1.0)
TOOL = "inferencex"
_KEPT = (
    "image",
    "infmax_model_prefix",
    "framework",
    "precision",
    "spec_decoding",
    "mtp",
    "disagg",
    "is_multinode",
    "tp",
    "pp",
    "ep",
    "dp_attention",
    "prefill_tp",
    "prefill_num_workers",
    "num_prefill_gpu",
    "decode_tp",
    "decode_num_workers",
    "num_decode_gpu",
    "kv_offloading",
    "kv_offload_backend",
    "recipe_fingerprint",
    "isl",
    "osl",
)
_OFF = ("", "none", "false", "off", "0", "1")


def _is_client(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and "output_throughput" in value
        and "model_id" in value
        and bool({"median_ttft", "mean_ttft"} & value.keys())
    )


def _is_row(value: Any) -> bool:
    return isinstance(value, Mapping) and "conc" in value and "hw" in value and "tput_per_gpu" in value


def _is_agentic(value: Any) -> bool:
    return isinstance(value, Mapping) and "conc" in value and isinstance(value.get("request_metrics"), Mapping)


def _recognises(document: Document) -> bool:
    if not document.is_json or not any(mark in document.head for mark in ('"conc"', '_ttft"')):
        return False
    first = next(values_in(document), None)
    return _is_client(first) or _is_row(first) or _is_agentic(first)


def _read(document: Document, given: Given) -> Read:
    return read_records(list(values_in(document)), document, given, _cell)


def _cell(fields: Fields, given: Given) -> Cell:
    if _is_agentic(fields.values):
        return _agentic(fields, given)
    if _is_row(fields.values):
        return _row(fields, given)
    if not _is_client(fields.values):
        raise fields.fault(
            "this is no result of InferenceX: keys such as output_throughput, or conc and hw, are missing"
        )
    return record_cell(fields, given, CLIENT, Beside(content="random"))


def _row(fields: Fields, given: Given) -> Cell:
    """A row of the CI. Its lengths are those that were asked for; the client draws shorter ones at random too."""
    output = fields.number("osl")
    ttft, tpot = fields.number("median_ttft"), fields.number("median_tpot")
    speed = estimated(output, None, ttft, tpot)
    aggregate, formula = _of_all_gpus(fields)
    return cell(
        fields,
        given,
        **_identity(fields),
        **_closed(fields),
        **_speed(fields, speed, {"aggregate": formula} if formula else {}),
        guessed_content="random",
        prompt_tokens=fields.number("isl"),
        output_tokens=output,
        aggregate=aggregate,
        ttft=ttft,
        ttft_p95=fields.number("p95_ttft"),
        tpot=tpot,
        itl=fields.number("median_itl"),
        e2e=fields.number("mean_e2el"),
        token_source=TOKENS_OF,
        streaming=True if tpot else None,
        flags=("lengths_requested_only",),
    )


def _of_all_gpus(fields: Fields) -> tuple[float | None, str | None]:
    """Output tokens per second of the whole server, and how: the row has them per GPU (with disaggregation, per GPU that
    decodes)."""
    each = fields.number("output_tput_per_gpu")
    if each is None:
        fields.note("it has no output_tput_per_gpu; tput_per_gpu counts prompts too and is not taken")
        return None, None
    gpus, words = _gpus(fields)
    if not gpus:
        fields.note("it does not say on how many GPUs it ran, so its tokens per second and GPU are of no use")
        return None, None
    return each * gpus, f"output_tput_per_gpu x {gpus:g} {words}"


def _gpus(fields: Fields) -> tuple[float | None, str]:
    decoding, prefilling = fields.number("num_decode_gpu"), fields.number("num_prefill_gpu")
    if decoding or prefilling:
        return (decoding, "GPUs that decode") if decoding else (prefilling, "GPUs")
    stated = fields.number("num_gpus")
    if stated:
        return stated, "GPUs"
    parallel = fields.number("tp")
    if not parallel:
        return None, ""
    return parallel * (fields.number("pp") or 1) * (fields.number("pcp_size") or 1), "GPUs"


def _agentic(fields: Fields, given: Given) -> Cell:
    """A row of AgentX: sessions that replay an agent's requests, one after the other and with its pauses."""
    metrics = fields.below("request_metrics")
    times, tokens = metrics.below("latency"), metrics.below("tokens")
    seconds = metrics.number("throughput", "duration_seconds")
    aggregate, formula = _of_all_sessions(fields, metrics.below("throughput"))
    completed = fields.count("num_requests_successful")
    return cell(
        fields,
        given,
        **_identity(fields),
        **_closed(fields, "closed_sessions"),
        **_speed(fields, _agentic_speed(times, tokens), {"aggregate": formula} if formula else {}),
        content=fields.word("scenario_type"),
        guessed_content="agentic",
        prompt_tokens=tokens.number("input", "mean"),
        output_tokens=tokens.number("output_actual", "mean"),
        aggregate=aggregate,
        ttft=times.number("ttft", "p50"),
        ttft_p95=times.number("ttft", "p95"),
        tpot=times.number("tpot", "p50") or times.number("itl", "p50"),
        e2e=times.number("e2el", "mean"),
        requests_per_second=quotient(completed, seconds),
        duration_seconds=seconds,
        completed_requests=completed,
        failed_requests=fields.below("request_accounting").count("records_error_dropped"),
        token_source=TOKENS_OF,
        streaming=True if times.number("ttft", "p50") else None,
    )


def _of_all_sessions(fields: Fields, rates: Fields) -> tuple[float | None, str | None]:
    """Output tokens per second. The row says them below a key `output`, which is never kept (other tools have texts
    there): they are what is left of all tokens without the prompts, else the rate per GPU times the GPUs."""
    total, prompts = rates.number("total", "tokens_per_second"), rates.number("input", "tokens_per_second")
    if total and prompts is not None and total > prompts:
        return total - prompts, "total - input tokens per second"
    each, (gpus, _) = rates.number("per_gpu", "output_tput_tps"), _all_gpus(fields)
    return (each * gpus, f"output_tput_tps per GPU x {gpus:g} GPUs") if each and gpus else (None, None)


def _all_gpus(fields: Fields) -> tuple[float | None, str]:
    decoding, prefilling = fields.number("num_decode_gpu"), fields.number("num_prefill_gpu")
    return (decoding + prefilling, "GPUs") if decoding and prefilling else _gpus(fields)


def _agentic_speed(times: Fields, tokens: Fields) -> Speed:
    """Its own median over requests where it has one (`e2e_norm_intvty`, tokens over elapsed time); else of medians: the
    lengths of an agent's answers differ too much for a mean."""
    own = times.number("e2e_norm_intvty", "p50")
    if own:
        return Speed(own, None, "tool_p50")
    length = tokens.number("output_actual", "p50")
    found = estimated(length, None, times.number("ttft", "p50"), times.number("tpot", "p50"))
    return Speed(found.p50, None, found.method, "n / (TTFT + (n - 1) TPOT), all medians") if found.p50 else found


def _speed(fields: Fields, speed: Speed, formulas: Mapping[str, str]) -> dict[str, Any]:
    """The speed of one request, which fields were computed and how, and what else the row states."""
    derived = (*formulas, *(("per_stream",) if speed.formula else ()))
    words = {f"{name}_formula": formula for name, formula in formulas.items()}
    return {**speed.values, "derived": derived, "extra": {**_said(fields), **words, **speed.extra}}


def _closed(fields: Fields, mode: str = "closed") -> dict[str, Any]:
    return {"load_mode": mode, "concurrency": fields.number("conc")}


def _identity(fields: Fields) -> dict[str, Any]:
    """What a row states of the server. Its name is made of all that two servers may differ in."""
    said = _said(fields)
    shape = [f"{key}{said[key]}" for key in ("tp", "pp", "ep") if said.get(key, "1").lower() not in _OFF]
    if "num_decode_gpu" in said:
        shape = [f"{said.get('num_prefill_gpu', '0')}+{said['num_decode_gpu']} GPUs"]
    spec = said.get("spec_decoding") or said.get("mtp") or ""
    parts = (
        fields.word("hw"),
        said.get("framework"),
        said.get("precision"),
        spec if spec.lower() not in _OFF else None,
        *shape,
        "dp-attention" if said.get("dp_attention", "").lower() == "true" else None,
    )
    named = name_from(*parts)
    return {
        "configuration": named[:200].strip() if named else None,
        "model": fields.word("model"),
        "hardware": fields.word("hw"),
        "tool": TOOL,
    }


def _said(fields: Fields) -> dict[str, str]:
    return {key: word for key in _KEPT if (word := fields.word(key))}


INFERENCEX = Reader("inferencex", 1, "InferenceX (client JSON, agg_*.json, AgentX)", _recognises, _read)
