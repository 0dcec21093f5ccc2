"""Scenarios: what they promise, what they show, and how fast they run."""

from __future__ import annotations

import time
from random import Random

import pytest

from opmon.simulator.scenarios import CARD, DAY_MS, WIDE, chat, demo_day, phase_locked, scripted_hour, steady
from opmon.simulator.simulation import AbortStorm, Down, Hang, Outage, Restart, Scenario, Simulation
from opmon.simulator.stream import Request
from opmon.simulator.traffic import caller, once
from opmon.simulator.truth import Span, Truth
from tests.simulator.watching import MINUTE, PLAIN, SECOND, at, samples

HOUR = 60 * MINUTE
NEW_YEAR = 1_767_225_600_000
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting", "process_start_time_seconds")


def streams(count: int, until_ms: int = HOUR) -> Scenario:
    return steady(count, seconds=until_ms // 1000, engine=PLAIN)


def with_incidents(scenario: Scenario, *incidents: Outage | Restart | AbortStorm | Hang) -> Scenario:
    return Scenario(scenario.name, scenario.engines, scenario.clients, incidents, scenario.length_ms)


def shares(levels: dict[int, int]) -> dict[int, float]:
    total = sum(levels.values())
    return {level: milliseconds / total for level, milliseconds in levels.items()}


def sampled(simulation: Simulation, start_ms: int, end_ms: int, seed: int = 1) -> dict[int, int]:
    """One look a second at a random instant within it, as a monitor takes it; unanswered looks are left out."""
    random, levels = Random(seed), dict[int, int]()
    for second in range(start_ms, end_ms, SECOND):
        try:
            page = simulation.page(second + random.randrange(SECOND), GAUGES)
        except Down:
            continue
        level = int(samples(page)["vllm:num_requests_running"])
        levels[level] = levels.get(level, 0) + SECOND
    return levels


def worst_difference(levels: dict[int, int], truth: dict[int, int]) -> float:
    seen, true = shares(levels), shares(truth)
    return max(abs(seen.get(level, 0.0) - true.get(level, 0.0)) for level in seen | true)


def test_steady_streams_run_at_their_level_and_idle_is_level_zero() -> None:
    simulation = Simulation(steady(4, seconds=130, engine=PLAIN, idle_seconds=10))

    assert {0: 10_000} == simulation.truth(0, 10_000).running
    assert simulation.truth(10_000, 130_000).running[4] > 119_000
    assert {0: 10_000} == simulation.truth(145_000, 155_000).running


def test_the_truth_of_two_stretches_is_the_truth_of_both() -> None:
    simulation = Simulation(scripted_hour())
    parts = [simulation.truth(start, start + 7 * MINUTE + 11) for start in range(0, 50 * MINUTE, 7 * MINUTE + 11)]
    whole = simulation.truth(0, len(parts) * (7 * MINUTE + 11))

    for level in whole.running:
        assert whole.running[level] == sum(part.running.get(level, 0) for part in parts)
    assert sum(span.end_ms - span.start_ms for span in whole.spans) == len(parts) * (7 * MINUTE + 11)
    assert sum(whole.running.values()) == whole.state_ms("up")


def test_the_counters_give_the_true_mean_running() -> None:
    simulation = Simulation(steady(5, seconds=600, engine=CARD))
    before = samples(simulation.page(60 * SECOND))
    after = samples(simulation.page(560 * SECOND))
    truth = simulation.truth(60 * SECOND, 560 * SECOND).running

    names = ("vllm:inter_token_latency_seconds_sum", "vllm:request_prefill_time_seconds_sum")
    counted = sum(after[name] - before[name] for name in names) / 500
    assert sum(level * ms for level, ms in truth.items()) / 500_000 == pytest.approx(counted, abs=0.01)


def test_the_same_seed_gives_the_same_pages_and_another_seed_others() -> None:
    def pages(seed: int) -> list[bytes]:
        simulation = Simulation(scripted_hour(seed), start_ms=NEW_YEAR)
        return [simulation.page(NEW_YEAR + at_ms) for at_ms in (5 * MINUTE, 13 * MINUTE, 34 * MINUTE, 59 * MINUTE)]

    assert pages(1) == pages(1)
    assert pages(1) != pages(2)


def test_looking_changes_nothing() -> None:
    often, once_only = Simulation(scripted_hour()), Simulation(scripted_hour())
    for at_ms in range(0, 30 * MINUTE, 997):
        often.page(at_ms, GAUGES)

    assert samples(once_only.page(30 * MINUTE)) == pytest.approx(samples(often.page(30 * MINUTE)), abs=1e-6)


def test_an_instant_that_has_passed_is_refused() -> None:
    simulation = Simulation(chat(), start_ms=NEW_YEAR)
    simulation.page(NEW_YEAR + 10)

    with pytest.raises(ValueError, match="already"):
        simulation.page(NEW_YEAR + 9)


def test_an_outage_answers_nobody_while_the_engine_works_on() -> None:
    simulation = Simulation(with_incidents(streams(2), Outage(MINUTE, 2 * MINUTE)))
    before = samples(simulation.page(MINUTE - 1))
    with pytest.raises(Down):
        simulation.page(MINUTE)
    with pytest.raises(Down):
        simulation.page(2 * MINUTE - 1)
    after = samples(simulation.page(2 * MINUTE))

    assert after["process_start_time_seconds"] == before["process_start_time_seconds"]
    assert after["vllm:generation_tokens_total"] > before["vllm:generation_tokens_total"] + 2_000
    truth = simulation.truth(0, 3 * MINUTE)
    assert Span(MINUTE, 2 * MINUTE, "down") == truth.spans[1]
    assert 2 * MINUTE == sum(truth.running.values())
    assert 0.99 * MINUTE < truth.hidden_running[2]


def test_a_restart_empties_the_books_and_tells_a_new_start() -> None:
    simulation = Simulation(with_incidents(streams(2), Restart(5 * MINUTE + 300, 20_000)), start_ms=NEW_YEAR)
    before = samples(simulation.page(NEW_YEAR + 5 * MINUTE))
    with pytest.raises(Down):
        simulation.page(NEW_YEAR + 5 * MINUTE + 20_299)
    after = samples(simulation.page(NEW_YEAR + 5 * MINUTE + 25_000))

    assert NEW_YEAR / 1000 == before["process_start_time_seconds"]
    assert NEW_YEAR / 1000 + 320.3 == after["process_start_time_seconds"]
    assert before["vllm:generation_tokens_created"] < after["vllm:generation_tokens_created"]
    assert 0 < after["vllm:generation_tokens_total"] < before["vllm:generation_tokens_total"] / 10
    assert 1 == simulation.restarts
    assert {0: 20_000} == simulation.truth(NEW_YEAR + 5 * MINUTE + 300, NEW_YEAR + 5 * MINUTE + 20_300).hidden_running


def test_an_abort_storm_leaves_the_gauge_up_while_nothing_runs() -> None:
    burst = Scenario(
        "burst",
        (WIDE,),
        lambda: [*(once(0, Request(64, 4000)) for _ in range(106)), once(10 * MINUTE, Request(64, 10))],
        (AbortStorm(MINUTE),),
    )
    simulation = Simulation(burst)
    frozen = [samples(simulation.page(at_ms)) for at_ms in range(MINUTE, 10 * MINUTE, 20_000)]
    after = samples(simulation.page(10 * MINUTE + 1))

    assert {106.0} == {page["vllm:num_requests_running"] for page in frozen}
    assert 1 == len({page["vllm:generation_tokens_total"] for page in frozen})
    assert 0.0 == frozen[-1]["vllm:request_success_total"]
    assert 1.0 == after["vllm:num_requests_running"]
    assert (Span(MINUTE, 10 * MINUTE, "frozen"),) == simulation.truth(MINUTE, 10 * MINUTE).spans
    assert {0: 9 * MINUTE} == simulation.truth(MINUTE, 10 * MINUTE).hidden_running


def test_a_hung_engine_keeps_its_level_and_puts_out_nothing() -> None:
    simulation = Simulation(with_incidents(streams(3), Hang(MINUTE, 5 * MINUTE)))
    first, last = samples(simulation.page(MINUTE)), samples(simulation.page(5 * MINUTE - 1))

    assert 3.0 == first["vllm:num_requests_running"] == last["vllm:num_requests_running"]
    assert first["vllm:generation_tokens_total"] == last["vllm:generation_tokens_total"]
    assert samples(simulation.page(6 * MINUTE))["vllm:generation_tokens_total"] > last["vllm:generation_tokens_total"]
    assert 4 * MINUTE == simulation.truth(0, 6 * MINUTE).state_ms("frozen")


def test_who_loses_patience_is_booked_neither_as_success_nor_in_request_times() -> None:
    asked = Request(64, 4000, patience_ms=5_000)
    page = at(Scenario("impatient", (PLAIN,), lambda: [once(0, asked)]), MINUTE)

    assert 0.0 == page["vllm:num_requests_running"]
    assert 0.0 == page["vllm:request_success_total"] == page["vllm:e2e_request_latency_seconds_count"]
    assert 1.0 == page["vllm:time_to_first_token_seconds_count"]
    assert 5.0 == pytest.approx(
        page["vllm:inter_token_latency_seconds_sum"] + page["vllm:time_to_first_token_seconds_sum"], abs=0.01
    )


def test_a_faster_simulation_is_a_faster_server_in_the_callers_seconds() -> None:
    simulation = Simulation(streams(4), speed=10.0)
    before, after = samples(simulation.page(MINUTE)), samples(simulation.page(2 * MINUTE))
    latency = after["vllm:inter_token_latency_seconds_sum"] - before["vllm:inter_token_latency_seconds_sum"]
    prefill = after["vllm:request_prefill_time_seconds_sum"] - before["vllm:request_prefill_time_seconds_sum"]
    tokens = after["vllm:generation_tokens_total"] - before["vllm:generation_tokens_total"]

    assert 4.0 == pytest.approx((latency + prefill) / 60, abs=0.02)
    assert 10 * 4 * 1000 / 28 == pytest.approx(tokens / 60, rel=0.05)
    assert MINUTE == sum(simulation.truth(MINUTE, 2 * MINUTE).running.values())


@pytest.fixture(scope="module")
def hour() -> Simulation:
    simulation = Simulation(scripted_hour())
    simulation.advance_to(HOUR)
    return simulation


def stretch(simulation: Simulation, start: float, end: float) -> Truth:
    return simulation.truth(round(start * MINUTE), round(end * MINUTE))


def test_the_scripted_hour_has_everything_that_it_promises(hour: Simulation) -> None:
    assert {0, 1, 2} == set(stretch(hour, 1, 9).running)
    assert 6 == max(stretch(hour, 10, 15).running)
    assert {128: 2 * MINUTE} == stretch(hour, 17, 19).running
    assert {22: 2 * MINUTE} == stretch(hour, 17, 19).waiting
    assert {150: 2 * MINUTE} == stretch(hour, 17, 19).in_system
    assert {1: 150_000} == stretch(hour, 21, 23.5).running
    assert stretch(hour, 27, 32).state_ms("frozen") > 240_000
    assert {0} == set(stretch(hour, 28, 31).hidden_running)
    assert 80_000 == stretch(hour, 0, 60).state_ms("down")
    assert (Span(42 * MINUTE, 43 * MINUTE, "down"),) == stretch(hour, 42, 43).spans
    assert 0.46 < shares(stretch(hour, 47, 57).running)[4] < 0.5
    assert {0: 3 * MINUTE} == stretch(hour, 57, 60).running


def test_nothing_at_all_moves_during_the_long_prefill_of_the_scripted_hour() -> None:
    simulation = Simulation(scripted_hour())
    first, last = samples(simulation.page(21 * MINUTE + 500)), samples(simulation.page(21 * MINUTE + 149_000))
    still = [name for name in first if name.startswith("vllm:") and first[name] != last[name]]
    after = samples(simulation.page(24 * MINUTE))

    assert [] == still
    assert 1.0 == last["vllm:num_requests_running"]
    assert 200_000 == after["vllm:prompt_tokens_total"] - last["vllm:prompt_tokens_total"]


def test_one_look_a_second_finds_the_true_occupancy_of_the_scripted_hour() -> None:
    simulation = Simulation(scripted_hour())
    levels = sampled(simulation, 0, HOUR)
    truth = simulation.truth(0, HOUR)
    levels[106] -= truth.state_ms("frozen") // SECOND * SECOND

    assert worst_difference(levels, truth.running) < 0.02


def test_a_load_in_step_with_the_second_is_half_the_time_at_its_level() -> None:
    simulation = Simulation(phase_locked())
    levels = sampled(simulation, 0, HOUR)

    assert 0.48 < shares(simulation.truth(0, HOUR).running)[4] < 0.52
    assert worst_difference(levels, simulation.truth(0, HOUR).running) < 0.02


def test_a_day_of_the_demo_runs_in_under_three_seconds_of_processor_time() -> None:
    started = time.process_time()
    simulation = Simulation(demo_day(), start_ms=0)
    simulation.advance_to(DAY_MS)
    spent = time.process_time() - started

    assert spent < 3.0
    assert samples(simulation.page(DAY_MS))["vllm:generation_tokens_total"] > 1e6


@pytest.mark.parametrize(("seed", "hour_of_day"), [(1, 0), (1, 13), (2, 7), (3, 20)])
def test_a_day_of_the_demo_is_mostly_one_or_two_at_once(seed: int, hour_of_day: int) -> None:
    start_ms = NEW_YEAR + hour_of_day * HOUR
    simulation = Simulation(demo_day(seed, start_ms=start_ms), start_ms=start_ms)
    running = simulation.truth(start_ms, start_ms + DAY_MS).running
    busy = shares({level: ms for level, ms in running.items() if level > 0})

    assert busy[1] > 0.5
    assert busy[1] + busy[2] > 0.7
    assert sum(share for level, share in busy.items() if level <= 4) > 0.95
    assert 5 <= max(busy) <= 12
    assert 0.5 < shares(running)[0] < 0.9


def test_somebody_is_there_when_the_demo_day_ends() -> None:
    simulation = Simulation(demo_day(), start_ms=0)
    running = simulation.truth(DAY_MS, DAY_MS + 2 * MINUTE).running

    assert sum(ms for level, ms in running.items() if level > 0) > 20_000


def test_the_demo_day_has_the_prompts_and_the_speeds_of_its_story() -> None:
    page = at(demo_day(), DAY_MS)
    finished = page["vllm:request_prompt_tokens_count"]
    chunks = page["vllm:inter_token_latency_seconds_count"]
    decode = page["vllm:generation_tokens_total"] - page["vllm:time_to_first_token_seconds_count"]

    assert finished > 500
    assert 8_112 < page["vllm:request_prompt_tokens_sum"] / finished < 17_000
    assert 0.7 < page["vllm:prefix_cache_hits_total"] / page["vllm:prefix_cache_queries_total"] < 0.97
    assert 2.0 < decode / chunks < 4.6
    assert 40 < decode / page["vllm:inter_token_latency_seconds_sum"] < 140


def test_the_card_gives_the_story_s_speeds_alone() -> None:
    prose = Scenario(
        "prose",
        (CARD,),
        lambda: [caller(0, MINUTE, prompt_tokens=33, output_tokens=400, acceptance_length=2.1)],
    )
    page = at(prose, MINUTE)

    assert 62.2 == pytest.approx(page["vllm:generation_tokens_total"] / 60, rel=0.05)
    cold = at(Scenario("cold", (CARD,), lambda: [once(0, Request(8112, 377, 0, 2.1))]), MINUTE)
    assert 6.084 == pytest.approx(cold["vllm:time_to_first_token_seconds_sum"], rel=0.03)
