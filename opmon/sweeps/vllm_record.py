"""One run of vLLM's benchmark client, or of a client that was made from it, as a cell.

Contains what the keys mean, in every version from 0.4 on, and the load. Where the records lie is the readers' part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.naming import unix_seconds
from opmon.sweeps.reading import Fields, Given, cell
from opmon.sweeps.speeds import quotient
from opmon.sweeps.vllm_names import configuration_of, content_of, guessed_configuration, hardware_of, said_besides
from opmon.sweeps.vllm_speeds import Rows, rows_of, speed_of

AGREE_WITHIN_RATIO = 0.01
TOKENS_OF = "usage_or_tokenizer"
"""Who counted the output tokens: the server where it says so, else the client, of the text."""
ONE_TOKEN_A_CHUNK_RATIO = 1.1
_APIS = {
    "openai": "completions",
    "openai-comp": "completions",
    "vllm": "completions",
    "lmdeploy": "completions",
    "openai-chat": "chat",
    "openai-responses": "responses",
}
_KEPT = ("tokenizer_id", "num_prompts", "request_rate", "burstiness", "request_goodput", "ramp_up_strategy", "mode")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a client writes its times, and its own name."""

    tool: str
    suffix: str = "_ms"
    second: float = 0.001

    def time(self, fields: Fields, *names: str) -> float | None:
        """The first of the named times that is there, in seconds."""
        found = (fields.number(name + self.suffix, factor=self.second) for name in names)
        return next((time for time in found if time is not None), None)


SERVE = Dialect("vllm bench serve")
RUST = Dialect("vllm-bench")


@dataclass(frozen=True, slots=True)
class Beside:
    """What other files say of a run: stands in where its record does not."""

    content: str | None = None
    hardware: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Throughput:
    """Figures of all requests together, and the seconds that they were measured over."""

    aggregate: float | None
    requests: float | None
    seconds: float | None
    formula: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


def record_cell(fields: Fields, given: Given, dialect: Dialect = SERVE, beside: Beside | None = None) -> Cell:
    """A record as a cell. Raises SweepError naming record and field."""
    beside = beside or Beside()
    completed = fields.count("completed")
    output = _mean_length(fields, "total_output_tokens", completed)
    rows, middle = rows_of(fields), _medians(fields, dialect)
    speed = speed_of(rows, output, middle["ttft"], middle["tpot"], dialect.time(fields, "median_e2el", "p50_e2el"))
    together = _throughput(fields, output)
    e2e, e2e_formula = _mean_e2e(fields, rows, output, dialect)
    formulas = {"aggregate": together.formula, "e2e": e2e_formula, "per_stream": speed.formula}
    p95 = dialect.time(fields, "p95_ttft", "p95.0_ttft")
    return cell(
        fields,
        given,
        **_identity(fields, given, beside),
        **_load(fields),
        **middle,
        tool=dialect.tool,
        streaming=True if middle["itl"] or middle["tpot"] else None,
        prompt_tokens=_mean_length(fields, "total_input_tokens", completed),
        output_tokens=output,
        aggregate=together.aggregate,
        requests_per_second=together.requests,
        duration_seconds=together.seconds,
        per_stream=speed.p50,
        per_stream_p95=speed.p95,
        per_stream_method=speed.method,
        ttft_p95=p95 if p95 is not None else rows.ttft_p95,
        e2e=e2e,
        acceptance_length=fields.number("spec_decode_acceptance_length"),
        completed_requests=completed,
        failed_requests=_failed(fields, completed),
        measured_at=unix_seconds(fields, "date"),
        token_source=TOKENS_OF,
        derived=tuple(name for name, formula in formulas.items() if formula),
        extra={
            **_extra(fields),
            **beside.extra,
            **together.extra,
            **{f"{name}_formula": formula for name, formula in formulas.items() if formula},
        },
    )


def has_speed(made: Cell) -> bool:
    """Whether a cell says how fast anything was, or that nothing succeeded, which is worth knowing."""
    speeds = (made.aggregate, made.per_stream, made.decode, made.tpot)
    return any(one is not None for one in speeds) or made.completed_requests == 0


def _identity(fields: Fields, given: Given, beside: Beside) -> dict[str, Any]:
    """Who and what was measured, and over which API."""
    model, backend = fields.word("model_id"), fields.word("backend") or fields.word("endpoint_type")
    return {
        "configuration": configuration_of(fields, given),
        "guessed_configuration": guessed_configuration(fields.file_name, model),
        "content": content_of(fields),
        "guessed_content": beside.content,
        "model": model,
        "hardware": hardware_of(fields) or beside.hardware,
        "api": _APIS.get(backend, backend) if backend else None,
    }


def _medians(fields: Fields, dialect: Dialect) -> dict[str, float | None]:
    """Median times in seconds, by the names of a cell."""
    return {name: dialect.time(fields, f"median_{name}", f"p50_{name}") for name in ("ttft", "tpot", "itl")}


def _mean_length(fields: Fields, key: str, completed: int | None) -> float | None:
    return quotient(fields.number(key), completed)


def _failed(fields: Fields, completed: int | None) -> int | None:
    """Stated since 0.11; before, what was sent and did not complete."""
    stated = fields.count("failed")
    if stated is not None or completed is None:
        return stated
    sent = fields.count("num_prompts")
    return None if sent is None or sent < completed else sent - completed


def _mean_e2e(fields: Fields, rows: Rows, output: float | None, dialect: Dialect) -> tuple[float | None, str | None]:
    """The mean elapsed time in seconds, and its formula where it is an estimate."""
    stated = dialect.time(fields, "mean_e2el")
    if stated:
        return stated, None
    if rows.latencies or rows.seconds:
        return fmean(rows.latencies or rows.seconds), None
    first, gap = dialect.time(fields, "mean_ttft"), dialect.time(fields, "mean_tpot")
    if not first or gap is None or not output or output < 1:
        return None, None
    return first + (output - 1) * gap, "mean TTFT + (mean output tokens - 1) mean TPOT"


# --- all requests together ----------------------------------------------------------------------------------------


def _throughput(fields: Fields, output: float | None) -> _Throughput:
    """Of the run's steady part where the client names one (the Rust client), else of the whole run."""
    return _steady(fields, output) or _whole(fields)


def _whole(fields: Fields) -> _Throughput:
    seconds, tokens = fields.number("duration"), fields.number("total_output_tokens")
    stated, counted = fields.number("output_throughput"), quotient(tokens, seconds)
    requests = fields.number("request_throughput")
    if requests is None:
        requests = quotient(fields.count("completed"), seconds)
    if not stated:
        return _Throughput(counted, requests, seconds, "output tokens / duration" if counted else None)
    if counted and abs(stated - counted) > AGREE_WITHIN_RATIO * counted:
        fields.note(
            f"output_throughput is {stated:g}, but its tokens over its duration are {counted:g}: the latter is taken"
        )
        return _Throughput(counted, requests, seconds, "output tokens / duration")
    return _Throughput(stated, requests, seconds)


def _steady(fields: Fields, output: float | None) -> _Throughput | None:
    """The window in which the clients held at least 95 % of their requests in flight. Its tokens are counted by chunk,
    so where a chunk holds several the requests that completed are taken times the mean length."""
    steady = fields.below("steady_state")
    seconds, requests = steady.number("window", "duration_s"), steady.number("request_throughput")
    stated = steady.number("output_throughput")
    if not seconds or not requests or not stated or steady.has("window", "warning"):
        if steady.has("window", "warning"):
            fields.note("its steady part is too short to speak for it, so figures are of the whole run")
        return None
    extra = {"window": f"steady state, {seconds:g} s of {fields.number('duration') or 0:g} s"}
    if _is_one_token_a_chunk(fields):
        return _Throughput(stated, requests, seconds, extra=extra)
    if not output:
        return None
    words = "requests per second of the steady part x mean output tokens"
    return _Throughput(requests * output, requests, seconds, words, extra)


def _is_one_token_a_chunk(fields: Fields) -> bool:
    if fields.has("spec_decode_num_drafts"):
        return False
    gap, token = fields.number("mean_itl_ms"), fields.number("mean_tpot_ms")
    return bool(gap and token and gap <= ONE_TOKEN_A_CHUNK_RATIO * token)


# --- the load -----------------------------------------------------------------------------------------------------


def _load(fields: Fields) -> dict[str, Any]:
    """Closed only where nothing but the limit paces the clients. With a rate the limit is a ceiling."""
    if fields.at("mode") == "multi_turn":
        sessions = fields.number("multi_turn_concurrency")
        return {"load_mode": "closed_sessions", "concurrency": sessions}
    if fields.has("request_rate") and not fields.is_unlimited("request_rate"):
        has_rate = fields.number("request_rate") is not None
        return {"load_mode": "open" if has_rate else None, "concurrency_source": "unknown"}
    if fields.is_unlimited("max_concurrency"):
        return {"load_mode": "unlimited", "concurrency_source": "unlimited"}
    limit = fields.number("max_concurrency")
    if limit is None:
        fields.note("the record does not say max_concurrency, so the cell is kept and compared with no other")
        return {"concurrency_source": "unknown"}
    return {"load_mode": "closed", "concurrency": float(limit)}


def _extra(fields: Fields) -> dict[str, str]:
    kept = {name: fields.word(name) for name in _KEPT}
    kept["acceptance_rate_percent"] = fields.word("spec_decode_acceptance_rate")
    if not (fields.is_unlimited("request_rate") or fields.at("request_rate") is None):
        kept["max_concurrency"] = fields.word("max_concurrency")
    return {**said_besides(fields), **{name: word for name, word in kept.items() if word}}
