"""The columns of a hand-made table: their names, the other names people give them, and how each is read.

Contains the table as data and the reading of single values; no file and no row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from opmon.core.names import name_fault, quoted

MOST_TOKENS = MOST_PER_SECOND = MOST_MILLISECONDS = 1e9
MOST_CONCURRENCY = 1e6
MOST_SECONDS = MOST_MILLISECONDS / 1000
MOST_REQUESTS = MOST_DURATION_SECONDS = 1e9
MOST_RATIO = 1e6


@dataclass(frozen=True, slots=True)
class Column:
    """A column that opmon knows: the field of `Cell` it fills, how its text is read, its unit's factor, and the most
    that a number in it may be, as it is written: what is above is a mistake, and would be infinite in a product."""

    field: str
    read: Callable[[str], object]
    factor: float = 1.0
    aliases: tuple[str, ...] = ()
    most: float | None = None


class Unreadable(ValueError):
    """A value that its column cannot hold; the text says what is expected."""


_ENGLISH = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_CONTINENTAL = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?", re.ASCII)


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
        message = (
            f"{quoted(text)} may be a decimal comma or a thousands separator; write 74.1, or separate columns with `;`"
        )
        raise Unreadable(message)
    if not _PLAIN.fullmatch(stripped):
        message = f"{quoted(text)} is not a number"
        raise Unreadable(message)
    number = float(stripped)
    if number < 0 or not math.isfinite(number):
        message = f"{quoted(text)} is not a number of 0 or more"
        raise Unreadable(message)
    return number


def read_count(text: str) -> int:
    """A whole number of 0 or more."""
    number = read_number(text)
    if number != int(number):
        message = f"{quoted(text)} is not a whole number"
        raise Unreadable(message)
    return int(number)


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


def refuse_too_much(text: str, value: object, most: float | None) -> None:
    """Raises Unreadable for a number above what its column holds."""
    if most is not None and isinstance(value, int | float) and value > most:
        message = f"{quoted(text)} is more than can be: at most {most:g}"
        raise Unreadable(message)


_MS = 0.001

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
    ),
    "output_tokens": Column(
        "output_tokens",
        read_number,
        aliases=("osl", "output_len", "completion_tokens", "output_length"),
        most=MOST_TOKENS,
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
        most=MOST_PER_SECOND,
    ),
    "per_stream_method": Column("per_stream_method", read_text),
    "decode_tok_s": Column("decode", read_number, aliases=("decode", "decode_tokens_per_second"), most=MOST_PER_SECOND),
    "ttft_ms": Column(
        "ttft", read_number, _MS, aliases=("ttft_p50_ms", "median_ttft_ms", "p50_ttft_ms"), most=MOST_MILLISECONDS
    ),
    "ttft_seconds": Column("ttft", read_number, aliases=("ttft_s", "ttft_p50_s", "median_ttft_s"), most=MOST_SECONDS),
    "ttft_p95_ms": Column("ttft_p95", read_number, _MS, aliases=("p95_ttft_ms",), most=MOST_MILLISECONDS),
    "ttft_p95_seconds": Column("ttft_p95", read_number, aliases=("ttft_p95_s", "p95_ttft_s"), most=MOST_SECONDS),
    "tpot_ms": Column("tpot", read_number, _MS, aliases=("tpot_p50_ms", "median_tpot_ms"), most=MOST_MILLISECONDS),
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
    "duration_seconds": Column(
        "duration_seconds", read_number, aliases=("duration_s", "duration"), most=MOST_DURATION_SECONDS
    ),
    "date": Column("measured_at", read_instant, aliases=("measured_at", "time", "timestamp")),
    "session": Column("session", read_text, aliases=("run",)),
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
    """A header as its name: lower case, `tok/s` and spaces as underscores, units in brackets kept (`TTFT p95 (ms)`)."""
    lowered = header.strip().strip("\ufeff").lower()
    return re.sub(r"[^a-z0-9]+", "_", lowered).strip("_")


def known_name(header: str) -> str | None:
    """The column that a header means, None if opmon does not know it."""
    return _BY_NAME.get(plain_name(header))
