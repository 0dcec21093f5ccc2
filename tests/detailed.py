"""A detailed file of `vllm bench serve` of any size, written without holding it: what people said is most of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

OUTPUT_TOKENS, PROMPT_TOKENS, CONCURRENCY, E2E_SECONDS = 256, 131, 8, 2.56
BYTES_A_REQUEST = 11_000


def summary(requests: int, **other: Any) -> dict[str, Any]:
    """The plain part of the file: 8 clients at once, each request 2.56 s, 100 tokens per second each."""
    per_second = CONCURRENCY / E2E_SECONDS
    return {
        "date": "20261129-100000",
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": None,
        "model_id": "tiny",
        "tokenizer_id": "tiny",
        "num_prompts": requests,
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": CONCURRENCY,
        "duration": requests / per_second,
        "completed": requests,
        "failed": 0,
        "total_input_tokens": PROMPT_TOKENS * requests,
        "total_output_tokens": OUTPUT_TOKENS * requests,
        "request_throughput": per_second,
        "output_throughput": OUTPUT_TOKENS * per_second,
        "total_token_throughput": (OUTPUT_TOKENS + PROMPT_TOKENS) * per_second,
        "mean_ttft_ms": 40.0,
        "median_ttft_ms": 40.0,
        "mean_tpot_ms": 9.882,
        "median_tpot_ms": 9.882,
        "median_itl_ms": 9.882,
        "p99_ttft_ms": 50.0,
        **other,
    }


def write_detailed(path: Path, size_bytes: int) -> int:
    """Writes a file of about that size; how many requests are in it."""
    requests = max(size_bytes // BYTES_A_REQUEST, 100)
    gaps = json.dumps([(E2E_SECONDS - 0.04) / (OUTPUT_TOKENS - 1)] * (OUTPUT_TOKENS - 1))
    said = json.dumps('a "word" \u00e9 ' * 350)
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(summary(requests))[:-1])
        for name, value in (("input_lens", PROMPT_TOKENS), ("output_lens", OUTPUT_TOKENS), ("ttfts", 0.04)):
            file.write(f', "{name}": {json.dumps([value] * requests)}')
        for name, one in (("itls", gaps), ("generated_texts", said)):
            file.write(f', "{name}": [')
            for number in range(requests):
                file.write(f"{', ' if number else ''}{one}")
            file.write("]")
        file.write(f', "errors": {json.dumps([""] * requests)}}}\n')
    return requests
