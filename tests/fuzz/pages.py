"""Where fuzzing begins: small pages of the kinds that servers send, the words that matter in them, and mutations.

Contains no oracle and no clock; the mutations are those of a seed.
"""

from __future__ import annotations

import random
from pathlib import Path

FOUND = Path(__file__).parent / "found"

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:generation_tokens_total{engine="0",model_name="m"} 1234.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.796e+09
vllm:prompt_tokens_total{engine="0",model_name="m"} 99.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 4.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 1.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 10.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 12.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 12.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.4
vllm:cache_config_info{block_size="16",num_gpu_blocks="512"} 1.0
process_start_time_seconds 1.796e+09
"""

SEEDS: tuple[str, ...] = (
    PAGE,
    PAGE.replace("vllm:", "ray_vllm_"),
    PAGE.replace("\n", "\r\n"),
    "\ufeff" + PAGE,
    PAGE.replace('model_name="m"', 'model_name="a,b \\"q\\" {x} \\\\ \\n"'),
    'vllm:num_requests_running{model_name="m"} 1\nvllm:num_requests_running{model_name="m"} 99\n',
    '{"vllm:num_requests_running",engine="0",model_name="m"} 2\n',
    'vllm:num_requests_running{pid="1",model_name="m"} 2\nvllm:num_requests_running{pid="2",model_name="m"} 5\n',
    'vllm:num_requests_running{model_name="m"} 3 1500000000000\nvllm:num_requests_waiting{model_name="m"} NaN\n',
    '# TYPE x counter\nx_total 1 # {trace_id="a"} 0.5 1.7e9\nvllm:num_requests_running 1\n# EOF\n',
    "<!DOCTYPE html>\n<html><title>Sign in</title>\n",
    "vllm:num_requests_running{\n",
    "",
)

WORDS: tuple[str, ...] = (
    "vllm:num_requests_running",
    "ray_vllm_num_requests_running",
    '{engine="0",model_name="m"}',
    'pid="7",',
    'le="+Inf"',
    "NaN",
    "+Inf",
    "-Inf",
    "-1",
    "1e400",
    "1.7976931348623157e+308",
    "1.2e+01",
    "0x10",
    "1_000",
    "3,5",
    "2147483648",
    "0.5",
    " 1500000000000",
    ' # {a="b"} 1',
    "\\n",
    '\\"',
    "\\",
    '"',
    "{",
    "}",
    ",",
    "=",
    "#",
    "\n",
    "\r",
    "\t",
    "\x00",
    "\u2028",
    "\uff11",
    "\u00a0",
    "\ufeff",
)


def seeds() -> list[bytes]:
    """Every seed as the oracle takes it, and everything that was once found."""
    found = [path.read_bytes() for path in sorted(FOUND.glob("*.bin"))]
    return [bytes([index % 8]) + seed.encode() for index, seed in enumerate(SEEDS)] + found


def mutated(data: bytes, source: random.Random) -> bytes:
    """One to four changes: a word put in, a stretch removed, a line repeated, moved or cut, a byte changed."""
    for _ in range(source.randint(1, 4)):
        data = source.choice((_word, _cut, _line_twice, _line_moved, _byte, _line_cut))(data, source)
    return data


def _word(data: bytes, source: random.Random) -> bytes:
    at = source.randint(0, len(data))
    return data[:at] + source.choice(WORDS).encode() + data[at + source.choice((0, 0, 1, 3)) :]


def _cut(data: bytes, source: random.Random) -> bytes:
    at = source.randint(0, len(data))
    return data[:at] + data[at + source.randint(1, 12) :]


def _byte(data: bytes, source: random.Random) -> bytes:
    if not data:
        return data
    at = source.randrange(len(data))
    return data[:at] + bytes([source.randrange(256)]) + data[at + 1 :]


def _line_twice(data: bytes, source: random.Random) -> bytes:
    lines = data.split(b"\n")
    return b"\n".join([*lines, source.choice(lines)])


def _line_moved(data: bytes, source: random.Random) -> bytes:
    lines = data.split(b"\n")
    lines.insert(source.randint(0, len(lines)), lines.pop(source.randrange(len(lines))))
    return b"\n".join(lines)


def _line_cut(data: bytes, source: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = source.randrange(len(lines))
    lines[at] = lines[at][: source.randint(0, len(lines[at]))]
    return b"\n".join(lines)
