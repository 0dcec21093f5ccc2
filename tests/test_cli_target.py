from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opmon.cli.main import cli
from opmon.core.engines import ENGINES

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "tests" / "data" / "expositions"


@contextmanager
def server(page: str | bytes, answers: Mapping[str, str] | None = None) -> Iterator[str]:
    """A server that ignores filters, with JSON beside its metrics. `page`: its text, or the name of one."""
    body = page if isinstance(page, bytes) else (PAGES / f"{page}.prom").read_bytes()
    said = {path: text.encode() for path, text in (answers or {}).items()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            found = body if path.startswith("/metrics") else said.get(path)
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "text/plain" if path.startswith("/metrics") else "application/json")
            self.send_header("Content-Length", str(len(found or b"")))
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: object) -> None:
            return

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{served.server_port}"
    finally:
        served.shutdown()
        thread.join(timeout=10)
        served.server_close()


def check(page: str | bytes, answers: Mapping[str, str] | None = None, *options: str) -> Result:
    with server(page, answers) as url:
        return CliRunner().invoke(cli, ["check", "target", url, *options])


@pytest.mark.parametrize(
    ("page", "answers", "words"),
    [
        (
            "sglang-dp2-tp2",
            {"/server_info": '{"version": "0.5.18", "max_running_requests": 256, "dp_size": 2}'},
            ("sglang 0.5.18", "m engine 0: 6 running, 4 waiting", "128 per engine (/server_info)"),
        ),
        (
            "llama-cpp",
            {"/props": '{"total_slots": 4, "build_info": "b10408-abc"}', "/v1/models": '{"data": [{"id": "q"}]}'},
            ("llama.cpp b10408-abc", "models     q", "4 per engine (/props)", "has no histograms"),
        ),
        ("trtllm", {}, ("trtllm (version not told)", "2048 per engine (/metrics)", "only a mean per finished request")),
        ("lmdeploy", {}, ("lmdeploy", "128 per engine (/metrics)", "written every 10 s")),
        (
            "tgi",
            {"/info": '{"version": "3.3.6", "model_id": "o/m", "max_batch_size": 32}'},
            ("tgi 3.3.6", "o/m", "32 per"),
        ),
        ("triton-trtllm", {}, ("triton", "7 running, 2 waiting", "gauges alone")),
        ("vllm-v0-0.4", {}, ("vllm (version not told), V0", "12.5% of the KV cache used", "not on this page")),
        ("llm-d-inference-sim", {}, ("a simulator of vLLM",)),
        ("vllm-lora", {}, ("lora_running sql,law",)),
    ],
)
def test_check_target_says_where_the_figures_come_from(
    page: str, answers: dict[str, str], words: tuple[str, ...]
) -> None:
    result = check(page, answers)
    assert 0 == result.exit_code, result.output
    said = " ".join(result.output.split())
    assert [] == [one for one in words if " ".join(one.split()) not in said]


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("production-stack-router", "not_an_engine: a router"),
        ("dynamo-frontend", "not_an_engine: the frontend of Dynamo"),
        ("triton-vllm", "no_known_metrics: Triton's vLLM backend"),
        ("vllm-v0-fresh", "no_known_metrics: vllm:num_requests_running is described"),
        ("vllm-asleep", "asleep: engine 0 sleeps"),
    ],
)
def test_check_target_says_why_a_page_cannot_be_used(page: str, words: str) -> None:
    result = check(page)
    assert 1 == result.exit_code
    assert words in str(result.exception)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'sglang:cache_hit_rate{model_name="m"} 0.5\n', ("engine sglang", "missing running, waiting", "lengths")),
        (b"# HELP vllm:num_requests_running Running.\n", ("engine vllm", "missing running, waiting")),
        (b'vllm:num_requests_waiting{model_name="m"} 1\n', ("engine vllm", "missing running,")),
    ],
)
def test_check_target_names_the_engine_of_a_page_without_running_requests_and_what_it_lacks(
    body: bytes, words: tuple[str, ...]
) -> None:
    result = check(body)
    said = " ".join(result.output.split())
    assert (1, []) == (result.exit_code, [one for one in words if one not in said])
    assert "no_known_metrics" in str(result.exception)


TWO = b'vllm:num_requests_running{model_name="m"} 2\nsglang:num_running_reqs{model_name="m"} 3\n'


def test_check_target_reads_the_engine_that_is_named_and_notes_the_other() -> None:
    assert "vllm (vllm:num_requests_running) and sglang (sglang:num_running_reqs)" in str(check(TWO).exception)
    result = check(TWO, None, "--engine", "sglang")
    said = " ".join(result.output.split())
    assert 0 == result.exit_code, result.output
    assert "m: 3 running" in said
    assert "vllm (vllm:num_requests_running) is on the page too, and not read" in said


def test_check_target_refuses_an_engine_that_is_not_in_the_table() -> None:
    result = CliRunner().invoke(cli, ["check", "target", "http://127.0.0.1:9", "--engine", "ollama"])
    assert 2 == result.exit_code
    assert "llama.cpp" in result.output


def test_check_target_tells_values_that_cannot_be() -> None:
    body = b'vllm:num_requests_running{model_name="m"} 2\nvllm:kv_cache_usage_perc{model_name="m"} 1.7\n'
    said = " ".join(check(body).output.split())
    assert "doubt vllm:kv_cache_usage_perc is 1.7, no share from 0 to 1: not used" in said
    assert "% of the KV cache" not in said


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_engine_has_a_page_in_the_documents_that_names_its_setting_and_its_names(engine: object) -> None:
    (found,) = (one for one in ENGINES if one is engine)
    text = (ROOT / "docs" / "engines" / found.page).read_text()
    assert f"`engine: {found.name}`" in text
    for signal in found.signals:
        if signal.canonical in ("running", "waiting", "generation_tokens", "output_length", "output_length_sum"):
            assert [] == [part.name for source in signal.sources for part in source if part.name not in text]
