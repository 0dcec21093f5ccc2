"""Other engines' pages, scrape by scrape, through the tracker and the fold to an operating point."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from opmon.core.answers import CeilingAnswer, OperatingPoint, Selector, Window
from opmon.core.fold import fold
from opmon.core.model import Lane, Row, State, TargetRecord, View
from opmon.core.operating_point import operating_point
from opmon.core.snapshot import SnapshotReader
from opmon.pipeline import Observer, attempt_of_page

INTERVAL_MS = 5000
Page = Callable[[int], str]


def watched(page: Page, seconds: int) -> tuple[Observer, list[Row]]:
    """The server's page every five seconds; every sixth scrape is a full one."""
    observer, reader = Observer(TargetRecord("t", "http://t")), SnapshotReader()
    rows: list[Row] = []
    for number, second in enumerate(range(0, seconds, INTERVAL_MS // 1000)):
        attempt = attempt_of_page(
            page(second).encode(),
            at_ms=second * 1000 + 1,
            took_ms=1,
            interval_ms=INTERVAL_MS,
            lane=Lane.PULSE if number % 6 else Lane.FULL,
            reader=reader,
        )
        step = observer.observe(attempt).step
        for relabel in step.relabels:
            for row in rows:
                if relabel.start_ms <= row.stratum_ms < relabel.end_ms:
                    row.state = relabel.state
        rows.append(step.row)
    return observer, rows


def point(rows: list[Row], seconds: int) -> OperatingPoint:
    return operating_point(
        fold(rows, 0, seconds * 1000, (), View("t")),
        window=Window(0.0, seconds, seconds, seconds),
        selector=Selector(target="t"),
        epochs=(),
        ceiling=CeilingAnswer(),
        pulse_interval_ms=INTERVAL_MS,
    )


def llama(second: int) -> str:
    """Two slots generate for 200 s without an end: only the decode calls move. Then both are released."""
    released = 4000 if second >= 200 else 0
    return (
        f"llamacpp:requests_processing {0 if released else 2}\nllamacpp:requests_deferred 0\n"
        f"llamacpp:prompt_tokens_total 50\nllamacpp:n_decode_total {10 * min(second, 200)}\n"
        f"llamacpp:tokens_predicted_total {released}\n"
    )


def test_a_long_answer_whose_tokens_are_counted_at_its_end_is_no_stall() -> None:
    _, rows = watched(llama, 400)
    assert {State.OBSERVED} == {row.state for row in rows}


def test_a_server_whose_decode_calls_stand_still_is_stalled() -> None:
    _, rows = watched(lambda second: llama(min(second, 50)), 400)
    assert State.STALLED is rows[-1].state


def test_tokens_that_are_counted_at_the_end_give_a_throughput_and_no_speed_at_a_level() -> None:
    found = point(watched(llama, 420)[1], 420)
    throughput = found.throughput
    assert 10.0 == pytest.approx(throughput.output_tokens_per_second, rel=0.1)  # 4000 tokens in 400 s
    assert 20.0 == pytest.approx(throughput.busy_output_tokens_per_second, rel=0.1)
    assert (None, None) == (
        throughput.peak_minute_output_tokens_per_second,
        throughput.decode_tokens_per_second_per_stream,
    )
    assert (None, None) == (found.lengths.prompt_tokens.mean, found.lengths.output_tokens.mean)


def sglang(second: int) -> str:
    """Two data-parallel ranks of two tensor-parallel ranks each: 3 and 1 requests, 20 tokens a second each."""
    lines = []
    for dp, running in ((0, 3), (1, 1)):
        for tp in (2 * dp, 2 * dp + 1):
            labels = f'dp_rank="{dp}",model_name="m",tp_rank="{tp}"'
            lines += [
                f"sglang:num_running_reqs{{{labels}}} {running}",
                f"sglang:num_queue_reqs{{{labels}}} 0",
                f'sglang:realtime_tokens_total{{{labels},mode="decode"}} {20 * running * second}',
            ]
    lines += [
        'sglang:time_to_first_token_seconds_sum{model_name="m"} 1',
        'sglang:time_to_first_token_seconds_count{model_name="m"} 4',
        f'sglang:inter_token_latency_seconds_sum{{model_name="m"}} {4 * second}',
        f'sglang:inter_token_latency_seconds_count{{model_name="m"}} {80 * second}',
    ]
    return "\n".join(lines) + "\n"


def test_ranks_that_repeat_one_another_count_once_and_those_of_data_parallelism_add_up() -> None:
    observer, rows = watched(sglang, 600)
    found = point(rows, 600)
    assert [(4, 1.0)] == [(level.level, level.ratio) for level in found.running.occupancy]
    assert 80.0 == pytest.approx(found.throughput.output_tokens_per_second)
    assert 20.0 == pytest.approx(found.throughput.decode_tokens_per_second_per_stream)
    assert [("mean_running", True)] == [(one.code, one.agrees) for one in found.checks if one.code == "mean_running"]
    # What is counted in front of the ranks belongs to none of them, and is no third engine for the ceiling.
    assert ("0", "1") == observer.record.engine_indexes


def test_time_asleep_is_neither_load_nor_idle() -> None:
    def page(second: int) -> str:
        awake = not 100 <= second < 200
        return (
            'vllm:num_requests_running{engine="0",model_name="m"} 2\n'
            f'vllm:engine_sleep_state{{engine="0",model_name="m",sleep_state="awake"}} {int(awake)}\n'
            f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {second if awake else 100}\n'
        )

    observer, rows = watched(page, 300)
    found = point(rows, 300)
    assert ({"asleep"}, 20) == ({row.kind for row in rows if row.kind}, sum(row.kind == "asleep" for row in rows))
    assert (200.0, 100.0) == (found.coverage.observed_seconds, found.coverage.invalid_seconds)
    assert State.OBSERVED is observer.record.state
