"""The pages of a played server: right ones, and the same ones broken in a chosen way.

Contains no network. A page is a function of the step, the number of seconds since the server began to play.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

PATTERN = (1, 1, 2, 1, 4, 1, 0, 8, 1, 1)
START = 1_790_000_000.0
TOKENS_PER_STEP = 100


def level(step: int) -> int:
    """How many requests run in a step."""
    return PATTERN[step % len(PATTERN)]


def labels(**pairs: str) -> str:
    """Labels in braces, values escaped as the format asks."""
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for name, value in pairs.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


def page(
    step: int,
    running: Sequence[int | str] | None = None,
    *,
    waiting: int = 0,
    model: str = "m",
    engines: Sequence[str] = (),
    tokens: float | None = None,
    start: float | str | None = START,
    prefix: str = "vllm:",
    old: bool = False,
) -> str:
    """A page of one model. `running` per engine, `PATTERN` of one engine by default; `tokens` stand where given."""
    values = [level(step)] if running is None else list(running)
    names = engines or [str(index) for index in range(len(values))]
    each = [labels(engine=engine, model_name=model) for engine in names]
    count = float(TOKENS_PER_STEP * (step + 1)) if tokens is None else tokens
    kv, tpot = (
        ("gpu_cache_usage_perc", "time_per_output_token") if old else ("kv_cache_usage_perc", "inter_token_latency")
    )
    lines = ["# HELP vllm:num_requests_running Number of requests.", f"# TYPE {prefix}num_requests_running gauge"]
    lines += [f"{prefix}num_requests_running{one} {value}" for one, value in zip(each, values, strict=True)]
    lines += [f"{prefix}num_requests_waiting{one} {waiting}" for one in each]
    lines += [f"{prefix}{kv}{one} 0.25" for one in each]
    lines += [
        f"{prefix}{name}{one} {count}" for name in ("generation_tokens_total", "prompt_tokens_total") for one in each
    ]
    for one in each:
        steady = count / TOKENS_PER_STEP
        lines += [f'{prefix}{tpot}_seconds_bucket{one[:-1]},le="{bound}"}} {count}' for bound in ("0.1", "+Inf")]
        lines += [f"{prefix}{tpot}_seconds_count{one} {count}", f"{prefix}{tpot}_seconds_sum{one} {steady}"]
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    return "\n".join(lines) + "\n"


def running_line(value: str, *, model: str = "m", engine: str = "0") -> str:
    """One line of the gauge, whatever its value."""
    return f"vllm:num_requests_running{labels(engine=engine, model_name=model)} {value}\n"


def login_page() -> str:
    """What a proxy sends to somebody who is not logged in."""
    return "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"


def json_page() -> str:
    """What a server of another kind answers."""
    return json.dumps({"running": 3})
