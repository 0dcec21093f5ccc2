"""`opmon probe` as a person types it: the paths take turns, one that fails is shown, and a half table says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon.cli.main import cli
from opmon.errors import ConfigError
from opmon.probe import by_path, endpoint, named
from tests.needs import ROOT
from tests.probe.openai_server import Server, Way, serving
from tests.processes import THIS_OPMON

DIRECT = Way(ttft_seconds=0.02, token_seconds=0.005, tokens=21)
GATEWAY = Way(ttft_seconds=0.12, token_seconds=0.01, tokens=21, prepends=400)


@pytest.fixture
def server() -> Server:
    """Asked directly, and through a gateway that prepends and is slower."""
    return Server({"direct": DIRECT, "gateway": GATEWAY})


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    with serving(server) as one:
        yield one


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    file = tmp_path / "prompt.txt"
    file.write_text("What is the answer to this?\n", encoding="utf-8")
    return file


def probe(*options: str | Path) -> Result:
    return CliRunner().invoke(cli, ["probe", *map(str, options)])


def both(url: str, prompt: Path, *more: str) -> tuple[str | Path, ...]:
    return ("--url", f"{url}/direct/v1", "--via", f"gateway={url}/gateway/v1", "--prompt-file", prompt, *more)


def answer(*options: str | Path, status: int = 0) -> dict[str, Any]:
    result = probe(*options, "--format", "json")
    assert status == result.exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_path_is_measured_beside_direct_and_asked_what_it_prepends(url: str, prompt: Path) -> None:
    found = answer(*both(url, prompt, "--requests", "3"))
    direct, gateway = found["paths"]
    assert (True, None, "chat", 3) == (found["is_complete"], found["stopped"], found["api"], found["requests"])
    assert ("direct", "tiny", 3, 0, 6, 21, 3, None) == tuple(
        direct[name]
        for name in ("path", "model", "requests", "failed_requests", "prompt_tokens", "output_tokens", "cached_tokens",
                     "to_direct")
    )  # fmt: skip
    assert (406, 400) == (gateway["prompt_tokens"], gateway["prepended_tokens"])
    # What a machine adds can be anything; what the server waits is the least that it takes.
    assert direct["ttft_seconds"] >= 0.02
    assert gateway["ttft_seconds"] >= 0.12
    assert direct["per_stream_tokens_per_second"] <= 21 / 0.12
    assert gateway["per_stream_tokens_per_second"] <= 21 / 0.32
    assert direct["decode_tokens_per_second"] == pytest.approx(200, rel=0.5)
    ratios = gateway["to_direct"]
    assert ratios["per_stream_ratio"] == pytest.approx(
        gateway["per_stream_tokens_per_second"] / direct["per_stream_tokens_per_second"]
    )
    assert ratios["ttft_ratio"] > 1.5
    assert "ask first how many tokens it prepends; by its own usage 400" in gateway["asks"]
    assert None is direct["asks"]


def test_all_paths_are_warm_and_then_take_turns_with_another_one_first(server: Server, url: str, prompt: Path) -> None:
    found = answer(*both(url, prompt, "--requests", "4", "--max-tokens", "21"))
    assert "dg" + "dg" + "gd" + "dg" + "gd" == server.order()
    assert "which is not counted" in found["method"]
    assert {json.dumps(body, sort_keys=True) for _, body in server.asked} == {
        json.dumps(
            {
                "model": "tiny",
                "max_tokens": 21,
                "temperature": 0.0,
                "stream": True,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "What is the answer to this?\n"}],
            },
            sort_keys=True,
        )
    }


def test_no_more_requests_than_asked_for_are_under_way_and_the_aggregate_counts_them_together(
    server: Server, url: str, prompt: Path
) -> None:
    found = answer(*both(url, prompt, "--requests", "5", "--concurrency", "3"))
    assert 3 == server.most_at_once
    assert "dg" + "dddggg" + "ggdd" == server.order()
    direct = found["paths"][0]
    assert direct["aggregate_tokens_per_second"] > 1.5 * direct["per_stream_tokens_per_second"]
    assert 5 == direct["requests"]


def test_the_table_holds_the_figures_and_the_words_stand_below(url: str, prompt: Path) -> None:
    result = probe(*both(url, prompt, "--requests", "2"))
    assert 0 == result.exit_code
    head, _, names, direct, gateway, *rest = result.stdout.splitlines()
    assert "One prompt through 2 paths: 2 requests a path, 1 at once, up to 256 tokens each" == head
    assert names.split()[:4] == ["path", "answered", "TTFT", "s"]
    assert ("direct", "2/2", "gateway", "2/2") == (*direct.split()[:2], *gateway.split()[:2])
    assert "400" in gateway
    assert any("ask first how many tokens it prepends" in line for line in rest)
    markdown = probe(*both(url, prompt, "--requests", "1", "--format", "md")).stdout
    assert "| direct | 1/1 |" in markdown


def test_a_path_that_fails_is_shown_with_its_reason_and_the_others_go_on(
    server: Server, url: str, prompt: Path
) -> None:
    server.ways["broken"] = Way(status=502)
    server.ways["later"] = Way(fails_from=2)
    options = ("--via", f"broken={url}/broken/v1", "--via", f"later={url}/later/v1", "--requests", "3")
    result = probe(*both(url, prompt, *options, "--format", "json"))
    assert 1 == result.exit_code
    assert "failed: broken, later" in result.stderr
    found = json.loads(result.stdout)
    direct, gateway, broken, later = found["paths"]
    assert (False, 3, 3, 0, 1) == (
        found["is_complete"], direct["requests"], gateway["requests"], broken["requests"], later["requests"],
    )  # fmt: skip
    assert ["not asked further, for the first request failed: HTTP 502: overloaded\\x1b[31m"] == broken["failures"]
    assert ["HTTP 503: overloaded\\x1b[31m", "not asked further, for a whole round failed"] == later["failures"]
    assert None is broken["ttft_seconds"]
    text = probe(*both(url, prompt, *options)).stdout
    assert text.startswith("Not whole, for requests failed")
    assert "broken: failed: not asked further" in text


def test_without_the_direct_path_there_are_no_ratios_and_that_is_said(server: Server, url: str, prompt: Path) -> None:
    server.ways["direct"] = Way(status=401)
    found = answer(*both(url, prompt, "--requests", "1", "--model", "tiny"), status=1)
    gateway = found["paths"][1]
    assert {None} == set(gateway["to_direct"].values())
    assert "the direct path has no answer to compare with" in gateway["notes"]


def test_a_server_that_does_not_know_stream_options_is_asked_without_and_its_tokens_are_not_known(
    server: Server, url: str, prompt: Path
) -> None:
    server.ways["gateway"] = Way(refuses="stream_options")
    found = answer(*both(url, prompt, "--requests", "2"))
    gateway = found["paths"][1]
    assert (2, None, None, None) == (
        gateway["requests"],
        gateway["output_tokens"],
        gateway["per_stream_tokens_per_second"],
        gateway["prepended_tokens"],
    )
    assert gateway["ttft_seconds"] > 0
    assert gateway["notes"][0].startswith("asked without stream_options")
    assert gateway["notes"][1] == "no usage in its answers: tokens are not known, and so no speed"
    assert "-" in probe(*both(url, prompt, "--requests", "1")).stdout


def test_a_path_that_buffers_or_does_not_stream_is_told(server: Server, url: str, prompt: Path) -> None:
    server.ways["gateway"] = Way(tokens=9, tokens_a_piece=9)
    server.ways["whole"] = Way(is_streamed=False)
    found = answer(*both(url, prompt, "--via", f"whole={url}/whole/v1", "--requests", "1"))
    _, gateway, whole = found["paths"]
    assert None is gateway["decode_tokens_per_second"]
    assert any("the path buffers" in note for note in gateway["notes"])
    assert None is whole["ttft_seconds"]
    assert any("not streamed" in note for note in whole["notes"])


def test_a_key_goes_to_the_path_that_it_is_for_alone(server: Server, url: str, prompt: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("sk-secret\n")
    answer(*both(url, prompt, "--requests", "1", "--api-key-file", f"gateway={key}"))
    assert {"direct": None, "gateway": "Bearer sk-secret"} == server.keys
    answer(*both(url, prompt, "--requests", "1", "--api-key-file", str(key)))
    assert {"direct": "Bearer sk-secret", "gateway": "Bearer sk-secret"} == server.keys


def test_the_deadline_ends_it_and_the_table_says_that_it_is_not_whole(server: Server, url: str, prompt: Path) -> None:
    server.ways["gateway"] = Way(hangs_from=1)
    began = time.monotonic()
    result = probe(*both(url, prompt, "--requests", "3", "--deadline", "2s"))
    assert (1, True) == (result.exit_code, time.monotonic() - began < 10)
    assert result.stdout.startswith("The deadline passed: this table is not whole (of 3 requests a path")
    assert "--deadline passed" in result.stderr


def test_ctrl_c_leaves_what_was_answered_and_says_that_it_is_not_whole(server: Server, url: str, prompt: Path) -> None:
    server.ways["gateway"] = Way(hangs_from=1)
    command = [*THIS_OPMON, "probe", *map(str, both(url, prompt, "--requests", "3"))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 30
        while server.order() != "dgdg" and time.monotonic() < deadline:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert 130 == running.returncode
    assert out.startswith("Interrupted: this table is not whole")
    table = [line.split()[:2] for line in out.splitlines()]
    assert ["direct", "1/3"] in table
    assert ["gateway", "0/3"] in table
    assert "Traceback" not in err
    assert "interrupted; what is shown is of the requests that were answered before" in err


@pytest.mark.parametrize(
    ("models", "words"),
    [((), "names none"), (("a", "b"), "names a, b; name the model with --model")],
)
def test_a_model_that_is_not_plain_must_be_named(
    server: Server, url: str, prompt: Path, models: tuple[str, ...], words: str
) -> None:
    server.models = models
    result = probe(*both(url, prompt))
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)
    named_model = answer(*both(url, prompt, "--requests", "1", "--model", "big", "--model", "gateway=alias"))
    assert ["big", "alias"] == [one["model"] for one in named_model["paths"]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://h:8000", ("http://h:8000/v1/chat/completions", "http://h:8000/v1", "chat")),
        ("http://h:8000/", ("http://h:8000/v1/chat/completions", "http://h:8000/v1", "chat")),
        ("https://h/api/v1/", ("https://h/api/v1/chat/completions", "https://h/api/v1", "chat")),
        ("http://[::1]:80/v1/completions", ("http://[::1]:80/v1/completions", "http://[::1]:80/v1", "completions")),
        ("http://h/v1/chat/completions", ("http://h/v1/chat/completions", "http://h/v1", "chat")),
    ],
)
def test_an_address_a_base_and_a_whole_url_lead_to_the_same_place(given: str, expected: tuple[str, str, str]) -> None:
    assert expected == endpoint(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("h:8000", "must begin with http://"),
        ("http://", "must begin with http://"),
        ("http://h:port", "cannot be read"),
        ("http://user:secret@h", "give a key with --api-key-file"),
        ("http://h/v1?key=secret", "has no `\\?`"),
        ("http://169.254.169.254", "never asks"),
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_without_its_secrets(given: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        endpoint(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "via", ["gateway", "=http://h", "gateway=", "http://h/v1", "direct=http://h", "a\x1b=http://h"]
)
def test_a_via_without_a_name_or_with_that_of_another_is_refused(via: str) -> None:
    with pytest.raises(ConfigError, match="--via: "):
        named("http://h", [via])


def test_a_value_is_for_all_paths_or_for_the_named_one() -> None:
    names = ["direct", "gateway"]
    assert {"direct": "a", "gateway": "b"} == by_path("--model", ["a", "gateway=b"], names)
    assert {"gateway": "b"} == by_path("--model", ["gateway=b"], names)
    assert {"direct": "x=y", "gateway": "x=y"} == by_path("--model", ["x=y"], names)
    with pytest.raises(ConfigError, match="--model is given twice for gateway"):
        by_path("--model", ["gateway=a", "gateway=b"], names)


@pytest.mark.parametrize(("content", "words"), [(b"", "no text"), (b" \n", "no text"), (b"\xff\xfe", "as UTF-8")])
def test_a_prompt_file_without_text_is_refused_by_name(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(content)
    result = probe("--url", "http://127.0.0.1:1", "--prompt-file", file)
    assert isinstance(result.exception, ConfigError)
    assert words in str(result.exception)
    assert str(file) in str(result.exception)


def test_the_environment_sends_no_path_through_a_proxy(url: str, prompt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:1")
    assert answer(*both(url, prompt, "--requests", "1"))["is_complete"]
