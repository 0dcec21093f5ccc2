"""`opmon probe` against a real vLLM: `make live TARGET=http://HOST:PORT`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.needs import ROOT
from tests.processes import THIS_OPMON

pytestmark = [pytest.mark.needs("vllm"), pytest.mark.timeout(600)]

TOKENS = 64


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_two_paths_to_one_server_are_measured_alike_and_prepend_nothing(api: str, tmp_path: Path) -> None:
    url = os.environ["OPMON_LIVE_TARGET"].rstrip("/")
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Count upwards from one, one number a line, and never stop.", encoding="utf-8")
    command = [
        *THIS_OPMON,
        "probe",
        "--url",
        url,
        "--via",
        f"again={url}/v1",
        "--prompt-file",
        str(prompt),
        "--api",
        api,
    ]
    options = ["--requests", "6", "--concurrency", "2", "--max-tokens", str(TOKENS), "--format", "json"]
    run = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert 0 == run.returncode, run.stdout + run.stderr
    print(run.stdout)
    found = json.loads(run.stdout)
    direct, again = found["paths"]
    assert found["is_complete"]
    for one in (direct, again):
        assert (6, 0) == (one["requests"], one["failed_requests"])
        assert 0 < one["output_tokens"] <= TOKENS
        assert 0 < one["ttft_seconds"] < one["e2e_seconds"]
        assert one["per_stream_tokens_per_second"] < one["decode_tokens_per_second"]
        assert one["aggregate_tokens_per_second"] > one["per_stream_tokens_per_second"]
    assert 0 == again["prepended_tokens"]
