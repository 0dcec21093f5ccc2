"""What each engine's page must be read as: one table of pages, and one of those that are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from opmon.core.engines import ENGINES
from opmon.core.model import Lane, SeriesKey, Snapshot
from opmon.core.snapshot import read_snapshot

PAGES = Path(__file__).parents[1] / "data" / "expositions"


def page(name: str, lane: Lane = Lane.FULL, engine: str = "auto") -> Snapshot:
    return read_snapshot((PAGES / f"{name}.prom").read_bytes(), lane=lane, engine=engine)


@dataclass(frozen=True)
class Expected:
    """`levels`: (model, engine) -> (running, waiting, KV usage). `counters`: summed over all series of the page."""

    engine: str
    levels: dict[tuple[str, str], tuple[int | None, int | None, float | None]]
    counters: dict[str, float | None] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)


EXPECTED = {
    "vllm-v0-0.4": Expected(
        "vllm",
        {("m", ""): (3, 1, 0.125)},
        {
            "generation_tokens": 510,
            "prompt_tokens": 4000,
            "itl_seconds_count": 500,
            "itl_seconds_sum": 11.5,
            "ttft_seconds_count": 10,
            "finished_requests": None,
            "output_length_sum": None,
        },
        {"engine_generation": "V0"},
    ),
    "vllm-v0-0.6": Expected(
        "vllm",
        {("m", ""): (2, 0, 0.25)},
        {
            "generation_tokens": 303,
            "finished_requests": 3,
            "prefill_seconds_sum": 0.24,
            "prompt_length_sum": 600,
            "output_length_count": 3,
            # Misleading on a page of the old engine:
            "accepted_tokens": None,
            "iterations": None,
        },
        {"engine_generation": "V0", "max_model_len_at_least": "500"},
    ),
    "vllm-0.8-no-engine": Expected(
        "vllm",
        {("m", ""): (1, 0, 0.0625)},
        {"generation_tokens": 120, "itl_seconds_count": 118, "prefix_queries": 40, "prefix_hits": 10},
    ),
    "vllm-0.10-both-names": Expected(
        "vllm",
        {("m", "0"): (5, 2, 0.65)},
        {"itl_seconds_count": 631, "itl_seconds_sum": 15.5, "prefix_queries": 700, "prefix_hits": 350},
    ),
    "vllm-lora": Expected(
        "vllm",
        {("m", "0"): (2, 1, None)},
        {"generation_tokens": 50},
        {"lora_running": "sql,law", "lora_limit": "4"},
    ),
    "ray-vllm-0.9": Expected(
        "vllm", {("m", "0"): (4, 0, 0.5)}, {"generation_tokens": 200, "itl_seconds_count": 196, "prompt_tokens": 80}
    ),
    "ray-vllm-0.11": Expected(
        "vllm", {("m", "0"): (4, 0, 0.5)}, {"generation_tokens": 200, "itl_seconds_count": 196, "prompt_tokens": 80}
    ),
    "dynamo-vllm-worker": Expected("vllm", {("m", "0"): (3, 0, None)}, {"generation_tokens": 90}),
    "sglang-dp2-tp2": Expected(
        "sglang",
        {("m", "0"): (6, 4, 0.4), ("m", "1"): (2, 0, 0.1)},
        {
            "generation_tokens": 900 + 300 + 18,  # of one rank of each pair, and the first tokens
            "prompt_tokens": 3000 + 600,
            "finished_requests": 10,
            "itl_seconds_count": 1180,
            "itl_seconds_sum": 23.6,
            "ttft_seconds_count": 18,
            "iterations": 160 + 150,
            "prompt_length_sum": 3300,
            "prompt_length_count": 10,
            "output_length_sum": 700,
            "prefill_seconds_sum": None,
        },
        {"kv_tokens": "20480"},
    ),
    "sglang-without-realtime": Expected(
        "sglang",
        {("m", ""): (7, 0, 0.28)},
        {"generation_tokens": 612, "prompt_tokens": 800, "finished_requests": 5, "output_length_sum": 400},
    ),
    "sglang-priority": Expected("sglang", {("m", ""): (5, 0, None)}, {"generation_tokens": None}),
    "llama-cpp": Expected(
        "llama.cpp",
        {("", ""): (2, 5, None)},
        {
            "generation_tokens": None,
            "output_length_sum": 780,
            "output_length_count": None,
            "prompt_tokens": 3306,
            "iterations": 783,
            "decode_seconds_sum": 27.918,
        },
    ),
    "tgi": Expected(
        "tgi",
        {("", ""): (6, 2, None)},
        {
            "generation_tokens": None,
            "output_length_sum": 610,
            "output_length_count": 5,
            "prompt_length_sum": 2100,
            "prompt_tokens": 2100,
            "finished_requests": 5,
            "iterations": 253,
            "queue_seconds_sum": 0.9,
            "itl_seconds_sum": None,
        },
        {"batch_max_total_tokens": "32000"},
    ),
    "trtllm": Expected(
        "trtllm",
        {("m", ""): (9, 4, 0.75)},
        {
            "generation_tokens": None,
            "output_length_sum": 1300,
            "output_length_count": 10,
            "prompt_length_sum": 2500,
            "finished_requests": 10,
            "ttft_seconds_sum": 0.5,
            "tpot_seconds_sum": 0.12,
            "itl_seconds_sum": None,
            "prefill_seconds_sum": 0.3,
        },
        {"max_num_seqs": "2048", "max_batch_size": "256"},
    ),
    "lmdeploy": Expected(
        "lmdeploy",
        {("m", "0"): (3, 0, 0.2), ("m", "1"): (1, 0, 0.1)},
        {
            "generation_tokens": 510,
            "prompt_tokens": 1000,
            "finished_requests": 2,
            "itl_seconds_sum": 8.3,
            "output_length_sum": 220,
            "iterations": None,
        },
        {"max_num_seqs": "128", "max_model_len": "32768"},
    ),
    "triton-trtllm": Expected(
        "triton",
        {("tensorrt_llm", ""): (7, 2, 0.35)},
        {"generation_tokens": None, "finished_requests": None},
        {"max_num_active_requests": "512"},
    ),
    "llm-d-inference-sim": Expected(
        "vllm",
        {("m", ""): (2, 0, 0.1)},
        {"generation_tokens": 55},
        {"note": "llm-d-inference-sim, a simulator of vLLM: its numbers are made up"},
    ),
}

REFUSED = {
    "vllm-v0-fresh": ("no_known_metrics", "vllm:num_requests_running is described but has no value yet"),
    "vllm-asleep": ("asleep", "engine 0 sleeps"),
    "trtllm-without-iteration-stats": ("no_known_metrics", "enable_iter_perf_stats"),
    "triton-vllm": ("no_known_metrics", "Triton's vLLM backend exposes no number of running requests"),
    "dynamo-frontend": ("not_an_engine", "the frontend of Dynamo"),
    "production-stack-router": ("not_an_engine", "would count every request twice"),
    "gateway-epp": ("not_an_engine", "a router of llm-d or the Gateway API"),
}


def summed(snapshot: Snapshot, name: str) -> float | None:
    values = [one.counters[name] for one in snapshot.series.values() if name in one.counters]
    return sum(values) if values else None


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("lane", Lane)
def test_levels_are_those_of_the_page_in_both_lanes(name: str, lane: Lane) -> None:
    snapshot, expected = page(name, lane), EXPECTED[name]
    shown = {
        (key.model_name, key.engine_index): (one.running, one.waiting, one.kv_usage_ratio)
        for key, one in snapshot.series.items()
        if one.running is not None
    }
    assert (expected.levels, expected.engine, None) == (shown, snapshot.engine, snapshot.fault)


@pytest.mark.parametrize("name", EXPECTED)
def test_counters_and_facts_are_those_of_the_page(name: str) -> None:
    snapshot, expected = page(name), EXPECTED[name]
    assert expected.counters == {counter: summed(snapshot, counter) for counter in expected.counters}
    assert expected.facts == {fact: snapshot.facts.get(fact) for fact in expected.facts}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("lane", Lane)
def test_a_page_that_says_nothing_of_its_engine_is_refused_with_the_reason(name: str, lane: Lane) -> None:
    snapshot = page(name, lane)
    fault, words = REFUSED[name]
    assert fault == snapshot.fault
    assert words in snapshot.detail


def test_every_page_written_by_hand_has_its_expectation() -> None:
    by_hand = {path.stem for path in PAGES.glob("*.prom") if "0.32.0" not in path.stem and "0.28.0" not in path.stem}
    assert by_hand == {*EXPECTED, *REFUSED}


def test_every_engine_has_a_page() -> None:
    assert {engine.name for engine in ENGINES} == {expected.engine for expected in EXPECTED.values()}


@pytest.mark.parametrize("name", EXPECTED)
def test_naming_the_engine_reads_the_same_as_finding_it_out(name: str) -> None:
    assert page(name) == page(name, engine=EXPECTED[name].engine)


def test_another_engine_than_the_named_one_is_refused() -> None:
    snapshot = page("tgi", engine="sglang")
    assert ("no_known_metrics", True) == (snapshot.fault, "none of sglang" in snapshot.detail)


def test_the_frontend_of_dynamo_tells_the_limit_of_its_workers() -> None:
    assert {"max_num_seqs": "256"} == page("dynamo-frontend").facts


def test_the_values_of_a_router_are_nowhere() -> None:
    assert {} == page("production-stack-router").series


def test_a_server_that_woke_up_is_read_again() -> None:
    text = (PAGES / "vllm-asleep.prom").read_text().replace('sleep_state="awake"} 0.0', 'sleep_state="awake"} 1.0')
    assert None is read_snapshot(text.encode()).fault


def test_of_ranks_that_repeat_one_another_the_largest_holds_in_histograms_too() -> None:
    lines = [
        'sglang:num_running_reqs{model_name="m",tp_rank="0"} 1',
        'sglang:num_queue_reqs{model_name="m",tp_rank="0"} 0',
    ]
    for rank, count in ((0, 5), (1, 4)):
        for bound, below in (("1.0", count - 1), ("+Inf", count)):
            lines.append(f'sglang:queue_time_seconds_bucket{{le="{bound}",model_name="m",tp_rank="{rank}"}} {below}')
        lines.append(f'sglang:queue_time_seconds_sum{{model_name="m",tp_rank="{rank}"}} {count}')
        lines.append(f'sglang:queue_time_seconds_count{{model_name="m",tp_rank="{rank}"}} {count}')
    sample = read_snapshot("\n".join(lines).encode()).series[SeriesKey("m", "")]
    assert (5.0, 5.0) == (sample.counters["queue_seconds_count"], sample.counters["queue_seconds_sum"])
    assert (4.0, 5.0) == sample.buckets["queue_seconds"].counts


def test_a_counter_of_which_a_label_was_never_counted_is_none_so_far_and_not_missing() -> None:
    snapshot = read_snapshot(
        b'sglang:num_running_reqs{model_name="m"} 1\n'
        b'sglang:realtime_tokens_total{mode="prefill_compute",model_name="m"} 100\n'
        b'sglang:time_to_first_token_seconds_sum{model_name="m"} 1\n'
        b'sglang:time_to_first_token_seconds_count{model_name="m"} 2\n'
    )
    assert 2.0 == snapshot.series[SeriesKey("m", "")].counters["generation_tokens"]
    assert "generation_tokens" not in snapshot.missing


def test_what_an_engine_never_exposes_is_missing_too() -> None:
    assert {"generation_tokens", "itl_seconds", "kv_usage_ratio"} <= set(page("tgi").missing)
    assert "generation_tokens" not in page("sglang-dp2-tp2").missing
