"""Whose page it is: several engines, or several names of one, on one page."""

from __future__ import annotations

import pytest

from opmon.core.model import INVALID_KINDS, Lane, SeriesKey, Snapshot
from opmon.core.snapshot import read_snapshot

M = SeriesKey("m", "")
VLLM = 'vllm:num_requests_running{model_name="m"} 2\nvllm:generation_tokens_total{model_name="m"} 500\n'
GAUGES = {
    "sglang": 'sglang:num_running_reqs{model_name="m"} 3\n',
    "trtllm": 'trtllm_num_requests_running{model_name="m"} 3\n',
    "lmdeploy": 'lmdeploy:num_requests_running{model_name="m"} 3\n',
    "llama.cpp": "llamacpp:requests_processing 3\n",
    "tgi": "tgi_batch_current_size 3\n",
    "triton": 'nv_trt_llm_request_metrics{model="m",request_type="scheduled"} 3\n',
}


def read(text: str, engine: str = "auto", lane: Lane = Lane.FULL) -> Snapshot:
    return read_snapshot(text.encode(), engine=engine, lane=lane)


def by_ray(prefix: str, running: int, tokens: float) -> str:
    return (
        f'{prefix}num_requests_running{{model_name="m"}} {running}\n'
        f'{prefix}generation_tokens_total{{model_name="m"}} {tokens}\n'
    )


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("other", GAUGES)
def test_a_page_with_requests_of_two_engines_is_refused_and_names_both_and_the_remedy(other: str, lane: Lane) -> None:
    for text in (VLLM + GAUGES[other], GAUGES[other] + VLLM):
        snapshot = read(text, lane=lane)
        assert ("not_an_engine", {}) == (snapshot.fault, snapshot.series)
        assert snapshot.fault in INVALID_KINDS
        assert "vllm (vllm:num_requests_running)" in snapshot.detail
        assert f"`engine: vllm` or `engine: {other}`" in snapshot.detail
        assert "watch each by itself" in snapshot.detail


def test_two_idle_engines_on_one_page_are_refused_too() -> None:
    assert "not_an_engine" == read(VLLM.replace(" 2", " 0") + GAUGES["llama.cpp"].replace(" 3", " 0")).fault


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize(("engine", "running"), [("vllm", 2), ("sglang", 3)])
def test_of_two_engines_the_one_that_the_settings_name_is_read_with_a_note(
    engine: str, running: int, lane: Lane
) -> None:
    snapshot = read(VLLM + GAUGES["sglang"], engine, lane)
    other = {"vllm": "sglang (sglang:num_running_reqs)", "sglang": "vllm (vllm:num_requests_running)"}[engine]
    assert (None, engine, running) == (snapshot.fault, snapshot.engine, snapshot.series[M].running)
    assert f"{other} is on the page too, and not read: the target's settings name {engine}" == snapshot.facts["note"]


def test_families_of_another_engine_without_requests_leave_the_page_as_it_is() -> None:
    snapshot = read(VLLM + 'sglang:token_usage{model_name="m"} 0.5\n')
    assert (None, 2, None) == (snapshot.fault, snapshot.series[M].running, snapshot.facts.get("note"))


@pytest.mark.parametrize("prefix", ["ray_vllm:", "ray_vllm_"])
def test_two_prefixes_of_one_server_are_read_once_with_a_note(prefix: str) -> None:
    snapshot = read(VLLM + by_ray(prefix, 2, 500))
    assert (None, 2) == (snapshot.fault, snapshot.series[M].running)
    assert f"the page shows the same under vllm: and {prefix}; vllm: is read" == snapshot.facts["note"]
    assert "alias_doubles" not in snapshot.facts


@pytest.mark.parametrize(
    ("running", "tokens", "words"),
    [
        (5, 500, "vllm:num_requests_running is 2, ray_vllm_num_requests_running is 5"),
        # At the same level by chance, as two idle servers are, the counters still tell them apart.
        (2, 900, "vllm:generation_tokens_total is 500, ray_vllm_generation_tokens_total is 900"),
    ],
)
def test_two_prefixes_that_disagree_are_neither_added_nor_halved(running: int, tokens: float, words: str) -> None:
    text = VLLM + by_ray("ray_vllm_", running, tokens)
    for lane in Lane:
        refused = read(text, lane=lane)
        assert ("not_an_engine", {}) == (refused.fault, refused.series)
        assert words in refused.detail
        assert "say `engine: vllm`" in refused.detail

    chosen = read(text, "vllm")
    assert (None, 2, words) == (chosen.fault, chosen.series[M].running, chosen.facts["alias_doubles"])
    assert "the page shows under vllm: and ray_vllm_; vllm: is read" == chosen.facts["note"]


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        ('sglang:cache_hit_rate{model_name="m"} 0.5', "sglang"),
        ("# HELP vllm:num_requests_running Running.\n# TYPE vllm:num_requests_running gauge", "vllm"),
        ("tgi_request_count 4", "tgi"),
    ],
)
def test_an_engine_is_named_by_any_of_its_families_and_what_it_lacks_is_missing(line: str, engine: str) -> None:
    snapshot = read(f"up 1\n{line}\n")
    assert ("no_known_metrics", engine) == (snapshot.fault, snapshot.engine)
    assert {"running", "waiting"} <= set(snapshot.missing)
    assert engine in snapshot.detail


def test_a_pulse_says_the_same_of_such_a_page_and_settles_no_engine() -> None:
    text = 'up 1\nsglang:cache_hit_rate{model_name="m"} 0.5\n'
    full, pulse = read(text), read(text, lane=Lane.PULSE)
    assert (full.fault, full.detail, "") == (pulse.fault, pulse.detail, pulse.engine)


def test_another_engine_than_the_named_one_is_told_by_its_name() -> None:
    snapshot = read("tgi_batch_current_size 3\n", "sglang")
    assert "the page shows tgi (tgi_batch_current_size): name that engine" in snapshot.detail
