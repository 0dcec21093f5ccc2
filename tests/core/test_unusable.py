"""Values that repeat, split a total, contradict one another or cannot be: which hold, and which are not known."""

from __future__ import annotations

import pytest

from opmon.core.model import Lane, SeriesKey, Snapshot
from opmon.core.snapshot import read_snapshot

M = SeriesKey("m", "0")
LABELS = 'engine="0",model_name="m"'


def read(*lines: str, lane: Lane = Lane.FULL) -> Snapshot:
    return read_snapshot("\n".join(lines).encode() + b"\n", lane=lane)


def vllm(*lines: str, lane: Lane = Lane.FULL) -> Snapshot:
    return read(f"vllm:num_requests_running{{{LABELS}}} 1", *lines, lane=lane)


# --- parts of a total -----------------------------------------------------------------------------------------------


def sglang(*running: tuple[str, int], rank: str = "0") -> list[str]:
    return [f'sglang:num_running_reqs{{model_name="m",tp_rank="{rank}"{labels}}} {value}' for labels, value in running]


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ([(',priority="1"', 3), (',priority="2"', 2)], 5),
        ([(',priority=""', 5), (',priority="1"', 3), (',priority="2"', 2)], 5),
        ([(',priority="1"', 3), (',priority="2"', 2), ("", 5)], 5),
        ([(',priority=""', 0), (',priority="1"', 4)], 0),  # the total is the newer of the two
        ([(',priority="None"', 4)], 4),
    ],
)
def test_parts_by_priority_add_up_where_no_total_is_there(
    series: list[tuple[str, int]], expected: int, lane: Lane
) -> None:
    of_two_ranks = sglang(*series) + sglang(*series, rank="1")
    assert expected == read(*of_two_ranks, lane=lane).series[SeriesKey("m", "")].running


def test_of_two_engine_types_only_the_one_with_a_total_leaves_its_parts_out() -> None:
    snapshot = read(
        'sglang:num_running_reqs{model_name="m",engine_type="prefill",priority=""} 3',
        'sglang:num_running_reqs{model_name="m",engine_type="prefill",priority="1"} 3',
        'sglang:num_running_reqs{model_name="m",engine_type="decode",priority="1"} 4',
    )
    assert 7 == snapshot.series[SeriesKey("m", "")].running


def test_what_is_counted_once_under_its_priority_adds_up_with_what_has_none() -> None:
    counts = {"": 5, "1": 3, "2": 2}
    lines = [f'sglang:num_requests_total{{model_name="m",priority="{name}"}} {n}' for name, n in counts.items()]
    snapshot = read(*sglang(("", 1)), *lines)
    assert 10.0 == snapshot.series[SeriesKey("m", "")].counters["finished_requests"]


# --- values that cannot be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [("0", 0.0), ("1", 1.0), ("1.004", 1.0), ("0.65", 0.65)])
def test_a_share_of_the_cache_is_at_most_1(text: str, expected: float) -> None:
    snapshot = vllm(f"vllm:kv_cache_usage_perc{{{LABELS}}} {text}")
    assert (expected, None) == (snapshot.series[M].kv_usage_ratio, snapshot.facts.get("unusable"))


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize("text", ["1.7", "65", "-0.5"])
def test_a_share_of_the_cache_that_is_none_is_not_known_and_told(text: str, lane: Lane) -> None:
    good = f'vllm:kv_cache_usage_perc{{{LABELS},pid="1"}} 0.5'
    snapshot = vllm(f"vllm:kv_cache_usage_perc{{{LABELS}}} {text}", good, lane=lane)
    told = f"vllm:kv_cache_usage_perc is {text}, no share from 0 to 1: not used"
    assert (None, None) == (snapshot.fault, snapshot.series[M].kv_usage_ratio)
    assert (told if lane is Lane.FULL else None) == snapshot.facts.get("unusable")


def test_a_counter_below_0_is_not_known_and_told() -> None:
    snapshot = vllm(
        f"vllm:generation_tokens_total{{{LABELS}}} -5",
        f'vllm:request_success_total{{{LABELS},finished_reason="stop"}} 9',
        f'vllm:request_success_total{{{LABELS},finished_reason="abort"}} -1',
        f"vllm:prompt_tokens_total{{{LABELS}}} 7",
        f"vllm:inter_token_latency_seconds_sum{{{LABELS}}} -0.5",
        f"vllm:inter_token_latency_seconds_count{{{LABELS}}} 3",
    )
    assert {"prompt_tokens": 7.0, "itl_seconds_count": 3.0} == snapshot.series[M].counters
    assert "vllm:generation_tokens_total is -5, below 0: not used" in snapshot.facts["unusable"]
    assert "vllm:inter_token_latency_seconds_sum is -0.5" in snapshot.facts["unusable"]
    assert snapshot.fault is None


def test_buckets_below_0_are_left_out_as_a_whole() -> None:
    name = "vllm:inter_token_latency_seconds"
    bad = [f'{name}_bucket{{{LABELS},le="{bound}"}} {count}' for bound, count in (("0.1", -1), ("+Inf", 3))]
    snapshot = vllm(*bad, f"{name}_sum{{{LABELS}}} 1", f"{name}_count{{{LABELS}}} 3")
    assert {} == snapshot.series[M].buckets


# --- sleep ------------------------------------------------------------------------------------------------------------


def state(name: str, value: int, more: str = "") -> str:
    return f'vllm:engine_sleep_state{{{LABELS}{more},sleep_state="{name}"}} {value}'


def process(pid: int, *, awake: bool) -> list[str]:
    more = f',pid="{pid}"'
    return [state("awake", int(awake), more), state("discard_all", int(not awake), more)]


@pytest.mark.parametrize(
    ("processes", "fact", "fault"),
    [
        ((True, True), "awake", None),
        ((False, False), "discard_all", "asleep"),
        ((True, False), "not known", "asleep"),
        ((False, True), "not known", "asleep"),
    ],
)
def test_the_fact_and_the_verdict_on_sleep_are_one(processes: tuple[bool, bool], fact: str, fault: str | None) -> None:
    lines = [line for pid, awake in enumerate(processes) for line in process(pid, awake=awake)]
    snapshot = vllm(*lines)
    assert (fact, fault) == (snapshot.facts["sleep_state"], snapshot.fault)
    assert ("contradict" in snapshot.detail) is (fact == "not known")
    assert fault == vllm(*lines, lane=Lane.PULSE).fault


def test_a_sleep_is_told_where_only_its_name_is_shown() -> None:
    snapshot = vllm(state("weights_offloaded", 1))
    assert ("weights_offloaded", "asleep") == (snapshot.facts["sleep_state"], snapshot.fault)


# --- several numbers of one engine ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", Lane)
@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ('pod="a"', 'pod="b"', "pod"),
        ('exported_instance="a"', 'exported_instance="b"', "exported_instance"),
        ('Instance="a",zone="x"', 'Instance="b",zone="y"', "Instance and zone"),
        ('part="all"', "", "part"),
    ],
)
def test_numbers_of_one_engine_that_differ_in_labels_of_others_are_nobodys_sum(
    first: str, second: str, named: str, lane: Lane
) -> None:
    running = "vllm:num_requests_running{%s} %d"
    snapshot = read(running % (f"{LABELS},{first}", 5), running % (f"{LABELS},{second}".rstrip(","), 5), lane=lane)
    assert "not_an_engine" == snapshot.fault
    assert f"differ in {named}:" in snapshot.detail


def test_a_label_that_stands_on_every_number_alike_is_no_split() -> None:
    running = 'vllm:num_requests_running{model_name="m",engine="%d",pod="a"} %d'
    assert None is read(running % (0, 2), running % (1, 3)).fault
