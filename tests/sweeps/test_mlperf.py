"""MLPerf's load generator: kept to be shown, on no level, and said to be no cell of a sweep."""

from __future__ import annotations

import random

import pytest

from opmon.errors import SweepError
from opmon.sweeps.detect import read_sweep
from tests.sweeps.mutating import assert_sound

SERVER = """\
================================================
MLPerf Results Summary
================================================
SUT name : MySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 80.00
Completed tokens per second: 24000.0
Result is : VALID
  Min duration satisfied : Yes

================================================
Additional Stats
================================================
Mean latency (ns)               : 43000000000
50.00 percentile latency (ns)   : 40000000000
Completed tokens per second                 : 24000.0
50.00 percentile first token latency (ns)   : 875000000
95.00 percentile first token latency (ns)   : 1588000000
50.00 percentile time to output token (ns)   : 151000000

================================================
Test Parameters Used
================================================
target_qps : 83.5
"""
OFFLINE = """\
================================================
MLPerf Results Summary
================================================
SUT name : MySUT
Scenario : Offline
Samples per second: 90.0
Tokens per second: 27000
Result is : INVALID
50.00 percentile latency (ns)   : 2653473271079
"""


def test_a_server_run_is_on_no_level_and_says_that_it_is_no_cell() -> None:
    one = read_sweep(SERVER.encode(), "mlperf_log_summary.txt")
    (cell,) = one.cells

    assert "mlperf" == one.reader
    assert ("MySUT", None, "open", 24000, 300, 7.5, 0.875, 1.588, 0.151) == (
        cell.configuration,
        cell.concurrency,
        cell.load_mode,
        cell.aggregate,
        cell.output_tokens,
        cell.per_stream,
        cell.ttft,
        cell.ttft_p95,
        round(cell.tpot or 0, 6),
    )
    assert () == cell.flags
    assert "is no cell of a sweep" in one.notes[0]


def test_an_offline_run_has_no_speed_of_a_request_and_an_invalid_one_is_flagged() -> None:
    (cell,) = read_sweep(OFFLINE.encode(), "mlperf_log_summary.txt").cells

    assert ("offline", 27000, None, None, ("invalid_run",)) == (
        cell.load_mode,
        cell.aggregate,
        cell.per_stream,
        cell.e2e,
        cell.flags,
    )


@pytest.mark.parametrize("scenario", ["", "Streamed"])
def test_a_scenario_that_is_not_known_is_refused(scenario: str) -> None:
    with pytest.raises(SweepError, match="is not known"):
        read_sweep(SERVER.replace("Server", scenario).encode(), "mlperf_log_summary.txt")


def test_mutations_are_read_or_refused() -> None:
    rng, seen = random.Random(3), set()
    for _ in range(400):
        text = list(SERVER)
        place = rng.randrange(len(text))
        text[place : place + rng.randint(0, 4)] = rng.choice(["", "nan", "-", "1e308", ":", "\n", "x"])
        try:
            read = read_sweep("".join(text).encode(), "mlperf_log_summary.txt", reader="mlperf")
        except SweepError:
            seen.add("refused")
            continue
        seen.add("read")
        assert_sound(read.cells[0])

    assert {"read", "refused"} == seen
