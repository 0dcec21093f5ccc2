"""The simulated page beside a real one, and the filter by sample name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from opmon.simulator.scenarios import CARD, chat, scripted_hour, steady, two_models
from opmon.simulator.simulation import Scenario, Simulation
from opmon.simulator.traffic import once
from tests.simulator.watching import MINUTE, PLAIN, request

REAL = Path(__file__).parent / "data" / "vllm-0.32.0-families.tsv"
PULSE = (
    "vllm:num_requests_running",
    "vllm:generation_tokens_total",
    "vllm:inter_token_latency_seconds_sum",
    "vllm:inter_token_latency_seconds_count",
    "process_start_time_seconds",
)


def real_families() -> list[tuple[str, str, str, str]]:
    lines = [line.split("\t") for line in REAL.read_text().splitlines() if not line.startswith("#")]
    padded = [[*line, "", ""] for line in lines]
    return [(line[0], line[1], line[2], line[3]) for line in padded]


def test_families_types_labels_bounds_and_order_are_those_of_a_real_server() -> None:
    engine = replace(CARD, draft_positions=4, max_model_len=4096)
    page = Simulation(steady(2, seconds=60, engine=engine)).page(MINUTE).decode()
    simulated = [
        (
            family.name,
            family.type,
            ",".join(sorted({label for sample in family.samples for label in sample.labels} - {"le"})),
            ",".join(dict.fromkeys(sample.labels["le"] for sample in family.samples if "le" in sample.labels)),
        )
        for family in text_string_to_metric_families(page)
        if not family.name.endswith("_created")
    ]

    assert real_families() == simulated


def test_every_counter_histogram_and_summary_of_the_server_has_a_creation_time() -> None:
    families = {f.name: f for f in text_string_to_metric_families(Simulation(chat()).page(MINUTE).decode())}
    moving = [
        name
        for name, family in families.items()
        if family.type in {"counter", "histogram", "summary"} and name.startswith(("vllm:", "http_"))
    ]

    assert len(moving) > 40
    assert [] == [name for name in moving if f"{name}_created" not in families]


@pytest.mark.parametrize("scenario", [chat(), two_models(), scripted_hour()], ids=lambda s: s.name)
def test_the_filtered_page_is_a_subset_of_the_whole_page_at_the_same_instant(scenario: Scenario) -> None:
    simulation = Simulation(scenario, start_ms=1_700_000_000_000)
    at_ms = simulation.start_ms + 5 * MINUTE
    whole = simulation.page(at_ms).decode().splitlines()
    filtered = simulation.page(at_ms, PULSE).decode().splitlines()

    wanted = [line for line in whole if line.split("{")[0].split(" ")[0] in PULSE]
    assert wanted == [line for line in filtered if not line.startswith("#")]
    assert set(filtered) <= set(whole)
    assert len(PULSE) - 1 == sum(line.startswith("# TYPE") for line in filtered)


def test_a_family_name_is_no_sample_name() -> None:
    page = Simulation(chat()).page(MINUTE, ["vllm:inter_token_latency_seconds", "nonsense"])

    assert b"" == page


def test_buckets_are_whole_cumulative_and_end_in_the_count() -> None:
    simulation = Simulation(scripted_hour())
    for at_ms in (0, 5, 13, 18, 22, 30, 35, 41, 50, 59):
        page = simulation.page(at_ms * MINUTE + 777).decode()
        for family in text_string_to_metric_families(page):
            if family.type != "histogram":
                continue
            buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            count = next(sample.value for sample in family.samples if sample.name.endswith("_count"))
            assert sorted(buckets) == buckets, family.name
            assert all(value == int(value) for value in buckets), family.name
            assert count == buckets[-1], family.name


def test_no_counter_falls_within_one_process() -> None:
    simulation = Simulation(scripted_hour(3))
    before: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    compared = 0
    for at_ms in range(0, 35 * MINUTE, 11_711):
        for family in text_string_to_metric_families(simulation.page(at_ms).decode()):
            if family.type == "gauge":
                continue
            for sample in family.samples:
                key = sample.name, tuple(sorted(sample.labels.items()))
                assert before.get(key, 0.0) <= sample.value, key
                before[key] = sample.value
                compared += 1

    assert compared > 30_000


def test_signals_agree_as_they_do_in_a_real_server() -> None:
    simulation = Simulation(chat(7))
    for at_ms in range(MINUTE, 20 * MINUTE, 13_577):
        found = {f.name: f for f in text_string_to_metric_families(simulation.page(at_ms).decode())}

        def total(name: str, suffix: str = "_total", families: Mapping[str, Metric] = MappingProxyType(found)) -> float:
            return float(sum(s.value for s in families[name].samples if s.name == name + suffix))

        tokens = total("vllm:generation_tokens")
        drafts, drafted = total("vllm:spec_decode_num_drafts"), total("vllm:spec_decode_num_draft_tokens")
        accepted = total("vllm:spec_decode_num_accepted_tokens")
        assert 5 * drafts == drafted
        assert accepted <= drafted
        assert tokens == pytest.approx(total("vllm:time_to_first_token_seconds", "_count") + drafts + accepted, abs=12)
        assert total("vllm:prompt_tokens") == total("vllm:prompt_tokens_by_source")
        assert total("vllm:request_success") == total("vllm:e2e_request_latency_seconds", "_count")
        assert total("vllm:request_generation_tokens", "_sum") <= tokens
        assert 0 <= found["vllm:kv_cache_usage_perc"].samples[0].value <= 1


def test_two_models_stand_on_one_page_and_are_told_apart_by_their_labels() -> None:
    page = Simulation(two_models()).page(10 * MINUTE, ["vllm:generation_tokens_total"]).decode()
    lines = [line for line in page.splitlines() if not line.startswith("#")]

    assert [
        'vllm:generation_tokens_total{engine="0",model_name="simulated-27b"}',
        'vllm:generation_tokens_total{engine="1",model_name="simulated-4b"}',
    ] == [line.rsplit(" ", 1)[0] for line in lines]
    assert all(float(line.rsplit(" ", 1)[1]) > 0 for line in lines)


def test_a_plain_engine_has_no_speculative_series() -> None:
    scenario = Scenario("plain", (PLAIN,), lambda: [once(0, request())])

    assert b"spec_decode" not in Simulation(scenario).page(MINUTE)
    assert b"spec_decode" in Simulation(chat()).page(MINUTE)


def test_label_values_are_escaped() -> None:
    named = replace(PLAIN, model_name='a "quoted" \\ name\nin two lines')
    page = Simulation(Scenario("odd", (named,), list)).page(0).decode()
    running = next(f for f in text_string_to_metric_families(page) if f.name == "vllm:num_requests_running")

    assert named.model_name == running.samples[0].labels["model_name"]
