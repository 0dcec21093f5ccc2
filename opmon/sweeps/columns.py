"""The columns of a hand-made table: their names, the other names people give them, and how each is read.

Contains the table as data and the reading of single values; no file and no row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Column:
    """A column that opmon knows: the field of `Cell` it fills, how its text is read, and its unit's factor."""

    field: str
    read: Callable[[str], object]
    factor: float = 1.0
    aliases: tuple[str, ...] = ()


class Unreadable(ValueError):
    """A value that its column cannot hold; the text says what is expected."""


_ENGLISH = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_CONTINENTAL = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")


def read_number(text: str, *, decimal_comma: bool = False) -> float:
    """A number of 0 or more. `1,234.5` has a thousands separator; `74,1` is read only where the table uses decimal
    commas (`decimal_comma`), and otherwise refused: it could be either."""
    stripped = text.strip().replace("\u00a0", "").replace("\u202f", "").replace(" ", "").replace("_", "x")
    if decimal_comma and _CONTINENTAL.fullmatch(stripped):
        stripped = stripped.replace(".", "").replace(",", ".")
    elif decimal_comma and _DECIMAL_COMMA.fullmatch(stripped):
        stripped = stripped.replace(",", ".")
    elif not decimal_comma and _ENGLISH.fullmatch(stripped):
        stripped = stripped.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(stripped):
        message = f"{text!r} may be a decimal comma or a thousands separator; write 74.1, or separate columns with `;`"
        raise Unreadable(message)
    if not _PLAIN.fullmatch(stripped):
        message = f"{text!r} is not a number"
        raise Unreadable(message)
    number = float(stripped)
    if number < 0 or not math.isfinite(number):
        message = f"{text!r} is not a number of 0 or more"
        raise Unreadable(message)
    return number


def read_count(text: str) -> int:
    """A whole number of 0 or more."""
    number = read_number(text)
    if number != int(number):
        message = f"{text!r} is not a whole number"
        raise Unreadable(message)
    return int(number)


def read_ratio(text: str) -> str:
    """A share as it stands; it is kept beside the cell and not computed with."""
    return text.strip()


def read_flag(text: str) -> bool:
    """yes / no, true / false, 1 / 0."""
    word = text.strip().lower()
    if word in ("yes", "true", "1", "y"):
        return True
    if word in ("no", "false", "0", "n"):
        return False
    message = f"{text!r} is neither yes nor no"
    raise Unreadable(message)


def read_instant(text: str) -> float:
    """RFC 3339, a date, or Unix seconds, as Unix seconds; without a zone it is taken as UTC."""
    stripped = text.strip()
    if re.fullmatch(r"\d{9,11}(\.\d+)?", stripped):
        return float(stripped)
    try:
        moment = datetime.fromisoformat(stripped)
    except ValueError as error:
        message = f"{text!r} is no date; write 2026-11-29 or 2026-11-29T17:00:00Z"
        raise Unreadable(message) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_text(text: str) -> str:
    """The text without the space around it."""
    return text.strip()


_MS = 0.001

COLUMNS: dict[str, Column] = {
    "config": Column("configuration", read_text, aliases=("configuration", "label", "setup")),
    "content": Column("content", read_text, aliases=("dataset", "workload", "task")),
    "concurrency": Column(
        "concurrency",
        read_number,
        aliases=("c", "conc", "max_concurrency", "streams", "clients", "concurrent_requests"),
    ),
    "load_mode": Column("load_mode", read_text),
    "prompt_tokens": Column(
        "prompt_tokens", read_number, aliases=("isl", "prompt_len", "input_tokens", "input_len", "prompt_length")
    ),
    "output_tokens": Column(
        "output_tokens", read_number, aliases=("osl", "output_len", "completion_tokens", "output_length")
    ),
    "aggregate_tok_s": Column(
        "aggregate",
        read_number,
        aliases=("aggregate", "output_throughput", "aggregate_tokens_per_second", "output_tok_s", "agg_tok_s"),
    ),
    "per_stream_tok_s": Column(
        "per_stream", read_number, aliases=("per_stream", "per_stream_tokens_per_second", "per_request_tok_s")
    ),
    "per_stream_method": Column("per_stream_method", read_text),
    "decode_tok_s": Column("decode", read_number, aliases=("decode", "decode_tokens_per_second")),
    "ttft_ms": Column("ttft", read_number, _MS, aliases=("ttft_p50_ms", "median_ttft_ms")),
    "ttft_seconds": Column("ttft", read_number, aliases=("ttft_s",)),
    "ttft_p95_ms": Column("ttft_p95", read_number, _MS, aliases=("p95_ttft_ms",)),
    "ttft_p95_seconds": Column("ttft_p95", read_number, aliases=("ttft_p95_s",)),
    "tpot_ms": Column("tpot", read_number, _MS, aliases=("tpot_p50_ms", "median_tpot_ms")),
    "e2e_ms": Column("e2e", read_number, _MS, aliases=("mean_e2e_ms", "mean_e2el_ms")),
    "e2e_seconds": Column("e2e", read_number, aliases=("e2e_s",)),
    "requests_per_second": Column(
        "requests_per_second", read_number, aliases=("request_throughput", "req_s", "requests_per_s")
    ),
    "acceptance_length": Column("acceptance_length", read_number, aliases=("accept_len", "accept_length")),
    "n": Column("completed_requests", read_count, aliases=("completed", "requests", "num_prompts")),
    "failed": Column("failed_requests", read_count, aliases=("failed_requests", "errors", "failures")),
    "duration_seconds": Column("duration_seconds", read_number, aliases=("duration_s", "duration")),
    "date": Column("measured_at", read_instant, aliases=("measured_at", "time", "timestamp")),
    "session": Column("session", read_text, aliases=("run",)),
    "tool": Column("tool", read_text),
    "tool_version": Column("tool_version", read_text),
    "model": Column("model", read_text),
    "hardware": Column("hardware", read_text, aliases=("gpu", "card", "device")),
    "api": Column("api", read_text, aliases=("endpoint",)),
    "streaming": Column("streaming", read_flag, aliases=("stream", "streamed")),
    "token_source": Column("token_source", read_text),
    "temperature": Column("temperature", read_number),
    "cache_state": Column("cache_state", read_text, aliases=("prefix_cache", "cache")),
}

# Names that mean different things to different people, and what to ask.
AMBIGUOUS: dict[str, str] = {
    "throughput": "output tokens only, or prompt and output together? Call it aggregate_tok_s if output only",
    "tps": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tok_s": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tokens_per_second": "of all requests together (aggregate_tok_s) or of one (per_stream_tok_s)?",
    "tok_s_user": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
    "tokens_per_second_per_user": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
    "interactivity": "end to end (per_stream_tok_s) or without the first token (decode_tok_s)?",
}

_BY_NAME = {alias: name for name, column in COLUMNS.items() for alias in (name, *column.aliases)}


def plain_name(header: str) -> str:
    """A header as its name: lower case, `tok/s` and spaces as underscores, units in brackets kept (`TTFT p95 (ms)`)."""
    lowered = header.strip().strip("\ufeff").lower()
    return re.sub(r"[^a-z0-9]+", "_", lowered).strip("_")


def known_name(header: str) -> str | None:
    """The column that a header means, None if opmon does not know it."""
    return _BY_NAME.get(plain_name(header))
