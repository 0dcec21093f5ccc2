"""Against a real vLLM that serves nobody else: `make live TARGET=http://HOST:PORT`.

Four streams are held for two minutes by a loader of its own, and opmon must see what the loader knows. Takes three minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.needs import ROOT
from tests.processes import THIS_OPMON, service

pytestmark = [pytest.mark.needs("vllm"), pytest.mark.timeout(600)]

STREAMS = 4
LOAD_SECONDS = 120
IDLE_SECONDS = 15
OUTPUT_TOKENS = 512


@pytest.fixture
def vllm() -> str:
    """The server, after two requests at once: with several API servers or engines some gauges are absent before."""
    url = os.environ["OPMON_LIVE_TARGET"].rstrip("/")
    model = httpx.get(f"{url}/v1/models").json()["data"][0]["id"]
    asyncio.run(Loader(url, model).hold(2 * STREAMS, 3))
    time.sleep(2)
    return url


@dataclass
class Loader:
    """Holds a number of streams, and keeps what each of its requests took."""

    url: str
    model: str
    decode_seconds: float = 0.0
    decode_tokens: int = 0
    failures: list[str] = field(default_factory=list)

    async def hold(self, streams: int, seconds: float) -> None:
        """Each stream sends its next request as soon as the last one has ended."""
        deadline = time.monotonic() + seconds
        async with httpx.AsyncClient(timeout=120) as client:
            await asyncio.gather(*(self._stream(client, number, deadline) for number in range(streams)))

    async def _stream(self, client: httpx.AsyncClient, number: int, deadline: float) -> None:
        while time.monotonic() < deadline:
            await self._request(client, f"Stream {number}: count upwards, one number a line.")

    async def _request(self, client: httpx.AsyncClient, prompt: str) -> None:
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": OUTPUT_TOKENS,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        first: float | None = None
        last, tokens = 0.0, 0
        async with client.stream("POST", f"{self.url}/v1/completions", json=body) as response:
            if response.status_code != 200:
                self.failures.append(f"{response.status_code} {(await response.aread())[:200]!r}")
                await asyncio.sleep(1)
                return
            async for line in response.aiter_lines():
                chunk = parsed(line)
                if chunk is None:
                    continue
                tokens = (chunk.get("usage") or {}).get("completion_tokens") or tokens
                if chunk.get("choices"):
                    last = time.monotonic()
                    first = last if first is None else first
        if first is not None and tokens > 1:
            self.decode_seconds += last - first
            self.decode_tokens += tokens - 1

    def decode_speed(self) -> float:
        """Tokens per second of a stream, the first token left out."""
        return self.decode_tokens / self.decode_seconds


def parsed(line: str) -> dict[str, Any] | None:
    """The chunk of a line of server-sent events; None for anything else."""
    data = line.removeprefix("data: ")
    if data in (line, "[DONE]"):
        return None
    found: dict[str, Any] = json.loads(data)
    return found


def test_check_target_knows_a_real_vllm(vllm: str) -> None:
    run = subprocess.run(
        [*THIS_OPMON, "check", "target", vllm], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "vllm" in run.stdout.lower()


def test_four_streams_on_a_real_vllm_read_as_four_with_its_own_speed(vllm: str, tmp_path: Path) -> None:
    model = httpx.get(f"{vllm}/v1/models").json()["data"][0]["id"]
    loader = Loader(vllm, model)
    with service(vllm, tmp_path) as opmon:
        time.sleep(IDLE_SECONDS)
        asyncio.run(loader.hold(STREAMS, LOAD_SECONDS))
        time.sleep(IDLE_SECONDS)
        point = opmon.json("/api/v1/operating-point?window=1h")
        statuses = opmon.json("/api/v1/targets")["targets"]
        print(point["sentence"], point["throughput"], point["checks"], loader.decode_speed())
    assert [] == loader.failures
    running = point["running"]
    assert (STREAMS, STREAMS) == (running["busy"]["p50"], running["busy"]["p95"])
    idle = next(share["seconds"] for share in running["occupancy"] if share["level"] == 0)
    assert idle > IDLE_SECONDS
    assert point["coverage"]["gap_seconds"] <= 2
    check = next(check for check in point["checks"] if check["code"] == "mean_running")
    # A server that sends the whole page each time is looked at every 5 s: 30 looks in all, and each weighs its part.
    (status,) = statuses
    allowed = 0.05 * check["sampled"] if status["pulse_interval_seconds"] == 1 else 0.3
    assert check["counted"] == pytest.approx(check["sampled"], abs=allowed)
    speed = point["throughput"]["decode_tokens_per_second_per_stream"]
    assert speed == pytest.approx(loader.decode_speed(), rel=0.10)
