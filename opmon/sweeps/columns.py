"""The columns of a hand-made table: their names, the other names people give them, and how each is read.

Contains the table as data and the reading of single values; no file and no row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from opmon.core.names import name_fault, quoted
from opmon.sweeps.numbers import Unreadable, read_count, read_number, read_share

MOST_TOKENS = MOST_PER_SECOND = MOST_MILLISECONDS = 1e9
MOST_CONCURRENCY = 1e6
MOST_SECONDS = MOST_MILLISECONDS / 1000
MOST_REQUESTS = MOST_DURATION_SECONDS = 1e9
MOST_RATIO = 1e6
MOST_OF_ONE_STREAM = 10_000
"""Tokens per second; more is a token in less than 0.1 ms, which no stream gets: a mark or a unit was misread."""
LEAST_TPOT_MILLISECONDS = 1000 / MOST_OF_ONE_STREAM


@dataclass(frozen=True, slots=True)
class Column:
    """A column that opmon knows: the field of `Cell` it fills, how its text is read, its unit's factor, and the most
    and the least (but for 0) that a number in it may be, as it is written: what is beyond is a mistake, such as another
    unit, and might be infinite in a product. `doubt` says which mistake is likely."""

    field: str
    read: Callable[[str], object]
    factor: float = 1.0
    aliases: tuple[str, ...] = ()
    most: float | None = None
    least: float | None = None
    doubt: str = ""


def read_flag(text: str) -> bool:
    """yes / no, true / false, 1 / 0."""
    word = text.strip().lower()
    if word in ("yes", "true", "1", "y"):
        return True
    if word in ("no", "false", "0", "n"):
        return False
    message = f"{quoted(text)} is neither yes nor no"
    raise Unreadable(message)


def read_instant(text: str) -> float:
    """RFC 3339, a date, or Unix seconds, as Unix seconds; without a zone it is taken as UTC."""
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{9,11}(\.[0-9]+)?", stripped):
        return float(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        message = f"{quoted(text)} is no date; write 2026-11-29 or 2026-11-29T17:00:00Z"
        raise Unreadable(message) from error


def read_text(text: str) -> str:
    """The text without the space around it; it must be printable, as it becomes a name or stands beside one."""
    stripped = text.strip()
    if fault := name_fault(stripped):
        raise Unreadable(fault)
    return stripped


def refuse_beyond(text: str, value: object, column: Column) -> None:
    """Raises Unreadable for a number above or below what its column holds."""
    if not isinstance(value, int | float):
        return
    doubt = f"; {column.doubt}" if column.doubt else ""
    if column.most is not None and value > column.most:
        message = f"{quoted(text)} is more than can be: at most {column.most:g}{doubt}"
        raise Unreadable(message)
    if column.least is not None and 0 < value < column.least:
        message = f"{quoted(text)} is less than can be: at least {column.least:g}{doubt}"
        raise Unreadable(message)


_MS = 0.001
_THOUSANDS = "if it is in thousands, write tokens"
_NO_STREAM = "no stream is so fast; is a decimal mark or a unit misread?"


def _shares(*words: str) -> tuple[str, ...]:
    """Names of a share of requests: `error_rate`, `errors_pct`, `failed_requests_pct`."""
    units = ("rate", "pct", "ratio", "share", "percent", "percentage")
    return tuple(f"{word}{of}_{unit}" for word in words for of in ("", "_requests", "_request") for unit in units)


COLUMNS: dict[str, Column] = {
    "config": Column("configuration", read_text, aliases=("configuration", "label", "setup")),
    "content": Column("content", read_text, aliases=("dataset", "workload", "task")),
    "concurrency": Column(
        "concurrency",
        read_number,
        aliases=("c", "conc", "max_concurrency", "streams", "clients", "concurrent_requests"),
        most=MOST_CONCURRENCY,
    ),
    "load_mode": Column("load_mode", read_text, aliases=("load",)),
    "prompt_tokens": Column(
        "prompt_tokens",
        read_number,
        aliases=("isl", "prompt_len", "input_tokens", "input_len", "prompt_length"),
        most=MOST_TOKENS,
        least=1,
        doubt=_THOUSANDS,
    ),
    "output_tokens": Column(
        "output_tokens",
        read_number,
        aliases=("osl", "output_len", "completion_tokens", "output_length"),
        most=MOST_TOKENS,
        least=1,
        doubt=_THOUSANDS,
    ),
    "aggregate_tok_s": Column(
        "aggregate",
        read_number,
        aliases=(
            "aggregate",
            "output_throughput",
            "output_throughput_tok_s",
            "output_token_throughput_tok_s",
            "aggregate_tokens_per_second",
            "output_tok_s",
            "agg_tok_s",
        ),
        most=MOST_PER_SECOND,
    ),
    "per_stream_tok_s": Column(
        "per_stream",
        read_number,
        aliases=("per_stream", "per_stream_tokens_per_second", "per_request_tok_s"),
        most=MOST_OF_ONE_STREAM,
        doubt=_NO_STREAM,
    ),
    "per_stream_method": Column("per_stream_method", read_text),
    "decode_tok_s": Column(
        "decode",
        read_number,
        aliases=("decode", "decode_tokens_per_second"),
        most=MOST_OF_ONE_STREAM,
        doubt=_NO_STREAM,
    ),
    "ttft_ms": Column(
        "ttft", read_number, _MS, aliases=("ttft_p50_ms", "median_ttft_ms", "p50_ttft_ms"), most=MOST_MILLISECONDS
    ),
    "ttft_seconds": Column("ttft", read_number, aliases=("ttft_s", "ttft_p50_s", "median_ttft_s"), most=MOST_SECONDS),
    "ttft_p95_ms": Column("ttft_p95", read_number, _MS, aliases=("p95_ttft_ms",), most=MOST_MILLISECONDS),
    "ttft_p95_seconds": Column("ttft_p95", read_number, aliases=("ttft_p95_s", "p95_ttft_s"), most=MOST_SECONDS),
    "tpot_ms": Column(
        "tpot",
        read_number,
        _MS,
        aliases=("tpot_p50_ms", "median_tpot_ms"),
        most=MOST_MILLISECONDS,
        least=LEAST_TPOT_MILLISECONDS,
        doubt="if it is in seconds, write milliseconds",
    ),
    "e2e_ms": Column("e2e", read_number, _MS, aliases=("mean_e2e_ms", "mean_e2el_ms"), most=MOST_MILLISECONDS),
    "e2e_seconds": Column("e2e", read_number, aliases=("e2e_s",), most=MOST_SECONDS),
    "requests_per_second": Column(
        "requests_per_second",
        read_number,
        aliases=("request_throughput", "request_throughput_req_s", "req_s", "requests_per_s", "requests_s"),
        most=MOST_PER_SECOND,
    ),
    "acceptance_length": Column(
        "acceptance_length", read_number, aliases=("accept_len", "accept_length"), most=MOST_RATIO
    ),
    "n": Column("completed_requests", read_count, aliases=("completed", "requests", "num_prompts"), most=MOST_REQUESTS),
    "failed": Column(
        "failed_requests", read_count, aliases=("failed_requests", "errors", "failures"), most=MOST_REQUESTS
    ),
    "failure_rate": Column(
        "failure_share", read_share, aliases=_shares("error", "errors", "failure", "failed", "fail")
    ),
    "success_rate": Column("success_share", read_share, aliases=_shares("success", "succeeded", "successful")),
    "duration_seconds": Column(
        "duration_seconds", read_number, aliases=("duration_s", "duration"), most=MOST_DURATION_SECONDS
    ),
    "date": Column("measured_at", read_instant, aliases=("measured_at", "time", "timestamp")),
    "session": Column("session", read_text),
    "run": Column("session", read_text),
    "tool": Column("tool", read_text),
    "tool_version": Column("tool_version", read_text),
    "model": Column("model", read_text),
    "hardware": Column("hardware", read_text, aliases=("gpu", "card", "device")),
    "api": Column("api", read_text, aliases=("endpoint",)),
    "streaming": Column("streaming", read_flag, aliases=("stream", "streamed")),
    "token_source": Column("token_source", read_text),
    "temperature": Column("temperature", read_number, most=MOST_RATIO),
    "cache_state": Column("cache_state", read_text, aliases=("prefix_cache", "cache")),
}

# Names that mean different things to different people, and what to ask.
AMBIGUOUS: dict[str, str] = {
    "throughput": "output tokens only, or prompt and output together? Call it aggregate_tok_s if output only",
    "tps": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tok_s": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "throughput_tok_s": "output tokens only, or prompt and output together? Call it aggregate_tok_s if output only",
    "t_s": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tokens_s": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tokens_per_second": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tok_s_user": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
    "user_tok_s": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
    "tokens_per_second_per_user": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
    "interactivity": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
}

_BY_NAME = {alias: name for name, column in COLUMNS.items() for alias in (name, *column.aliases)}


def plain_name(header: str) -> str:
    """A header as its name: lower case, `tok/s` and spaces as underscores, units in brackets kept (`TTFT p95 (ms)`), `%`
    as `pct`."""
    lowered = header.strip().strip("\ufeff").lower().replace("%", " pct ")
    return re.sub(r"[^a-z0-9]+", "_", lowered).strip("_")


def known_name(header: str) -> str | None:
    """The column that a header means, None if opmon does not know it."""
    return _BY_NAME.get(plain_name(header))
