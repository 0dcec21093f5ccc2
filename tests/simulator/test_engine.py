"""The engine's books against what it was given to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.simulator.engine import Engine
from opmon.simulator.stream import EngineConfig, Request, acceptance_by_position
from tests.simulator.watching import PLAIN, SECOND, request, run

SPECULATIVE = replace(PLAIN, draft_positions=5)
FULL = replace(PLAIN, kv_blocks=40, block_size=16, max_model_len=640)
REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 300), st.integers(1, 300), st.floats(1.0, 6.0), st.floats(0, 4000), st.floats(0, 1).map(round)
    ),
    min_size=1,
    max_size=30,
)


def play(config: EngineConfig, load: list[tuple[int, int, float, float, int]]) -> Engine:
    """Submits the load in the order of its instants and runs until all is done."""
    engine = Engine(config, 0.0)
    for prompt, output, acceptance, at_ms, cached in sorted(load, key=lambda item: item[3]):
        run(engine, at_ms)
        engine.submit(Request(prompt, output, prompt if cached else 0, acceptance))
        run(engine, at_ms)
        assert engine.running <= config.max_num_seqs
    run(engine, 1e9)
    return engine


@given(load=REQUESTS, config=st.sampled_from([PLAIN, SPECULATIVE, FULL]))
def test_every_token_that_was_asked_for_is_booked_once(
    load: list[tuple[int, int, float, float, int]], config: EngineConfig
) -> None:
    engine = play(config, load)
    books, reading = engine.books, engine.read()

    assert sum(output for _, output, *_ in load) == reading.output_tokens
    assert sum(prompt for prompt, *_ in load) == books.prompt_tokens
    assert len(load) == sum(books.finished.values()) == books.ttft.cumulative()[-1] == books.e2e.cumulative()[-1]
    assert (0, 0) == (engine.running, len(engine.waiting))
    assert engine.gauges().kv_usage_ratio == 0.0


@given(load=REQUESTS, config=st.sampled_from([PLAIN, SPECULATIVE]))
def test_without_aborts_latency_and_prefill_sums_are_the_running_integral(
    load: list[tuple[int, int, float, float, int]], config: EngineConfig
) -> None:
    engine = play(config, load)
    books = engine.books

    assert engine.running_integral_ms / SECOND == pytest.approx(books.itl.sum + books.prefill.sum, abs=1e-6)
    assert books.inference.sum == pytest.approx(books.prefill.sum + books.decode.sum, abs=1e-6)
    assert books.e2e.sum == pytest.approx(books.queue.sum + books.inference.sum, abs=1e-6)


def test_the_running_integral_counts_every_request_for_as_long_as_it_runs() -> None:
    engine = Engine(PLAIN, 0.0)
    for _ in range(4):
        engine.submit(request(output=100_000))
    run(engine, 60 * SECOND)

    assert 240.0 == pytest.approx(engine.running_integral_ms / SECOND, abs=0.2)
    assert 240.0 == pytest.approx(engine.books.itl.sum, rel=0.01)


def test_every_output_of_a_plain_engine_is_one_token() -> None:
    engine = play(PLAIN, [(100, 60, 1.0, 0.0, 0), (50, 1, 1.0, 10.0, 0), (80, 200, 1.0, 90.0, 0)])

    assert engine.read().output_tokens - engine.books.ttft.cumulative()[-1] == engine.read().chunks


def test_a_speculative_engine_books_outputs_not_tokens() -> None:
    engine = play(SPECULATIVE, [(100, 1 + 3 * 100, 3.0, 0.0, 0)])
    reading = engine.read()

    assert 100 == reading.chunks
    assert 200 == pytest.approx(sum(reading.accepted_by_position), abs=5)
    assert list(reading.accepted_by_position) == sorted(reading.accepted_by_position, reverse=True)
    assert max(reading.accepted_by_position) <= reading.chunks


def test_accepted_tokens_by_position_add_up_to_the_acceptance_length() -> None:
    for accepted in (0.0, 0.3, 1.1, 3.6, 5.0):
        assert accepted == pytest.approx(sum(acceptance_by_position(accepted, 5)), abs=1e-3)


def test_decoding_slows_as_the_batch_grows() -> None:
    def tokens_per_second(streams: int) -> float:
        engine = Engine(PLAIN, 0.0)
        for _ in range(streams):
            engine.submit(request(prompt=1, output=10_000))
        run(engine, 10 * SECOND)
        return engine.read().output_tokens / 10

    one, eight = tokens_per_second(1), tokens_per_second(8)
    assert 1000 / 22 == pytest.approx(one, rel=0.02)
    assert 8 * 1000 / 36 == pytest.approx(eight, rel=0.02)


def test_no_more_requests_run_than_the_ceiling_allows_and_the_rest_waits() -> None:
    engine = Engine(PLAIN, 0.0)
    for _ in range(20):
        engine.submit(request(prompt=10, output=1000))
    run(engine, SECOND)

    assert (8, 12) == (engine.gauges().running, engine.gauges().waiting)


def test_the_queue_is_first_come_first_served() -> None:
    engine = Engine(replace(PLAIN, max_num_seqs=1), 0.0)
    streams = [engine.submit(request(output=5)) for _ in range(4)]

    assert streams == run(engine, 60 * SECOND)


def test_prompt_tokens_and_ttft_are_booked_when_the_prefill_ends_and_not_before() -> None:
    engine = Engine(PLAIN, 0.0)
    engine.submit(request(prompt=20_000, output=10))
    run(engine, 2 * SECOND)
    assert (0, 0, 0) == (engine.books.prompt_tokens, engine.read().output_tokens, engine.books.ttft.cumulative()[-1])
    assert 1 == engine.gauges().running

    run(engine, 2.5 * SECOND)
    assert 20_000 == engine.books.prompt_tokens
    assert 2.2 == pytest.approx(engine.books.ttft.sum, abs=0.01)


def test_a_request_that_comes_during_a_prefill_waits_for_the_budget_of_prompt_tokens() -> None:
    engine = Engine(PLAIN, 0.0)
    engine.submit(request(prompt=20_000, output=10))
    run(engine, SECOND)
    engine.submit(request())

    assert (1, 1) == (engine.gauges().running, engine.gauges().waiting)


def test_cached_prompt_tokens_cost_no_prefill_but_are_prompt_tokens() -> None:
    engine = play(PLAIN, [(300, 5, 1.0, 0.0, 1)])

    assert (300, 300, 300, 300) == (
        engine.books.prompt_tokens,
        engine.books.prompt_tokens_cached,
        engine.books.prefix_queries,
        engine.books.prefix_hits,
    )
    assert engine.books.ttft.sum < 0.03


def test_an_abort_keeps_what_was_put_out_and_books_no_success() -> None:
    engine = Engine(PLAIN, 0.0)
    stream = engine.submit(request(prompt=100, output=1000))
    run(engine, 10 * SECOND)
    before = engine.read()
    engine.abort([stream])
    after = engine.read()

    assert before.output_tokens == after.output_tokens > 300
    assert before.chunks == after.chunks
    assert 9.9 < engine.books.itl.sum < 10.0
    assert (0, 0, 0) == (
        sum(engine.books.finished.values()),
        engine.books.e2e.cumulative()[-1],
        engine.books.output_length.cumulative()[-1],
    )


def test_an_abort_of_everything_freezes_the_gauges_of_an_old_version_until_the_next_request() -> None:
    engine = Engine(replace(PLAIN, aborts_freeze_gauges=True), 0.0)
    for _ in range(10):
        engine.submit(request(output=1000))
    run(engine, SECOND)
    left = engine.gauges()
    engine.abort(engine.everything())
    run(engine, 3600 * SECOND)
    assert left == engine.gauges()
    assert (8, 2, 0) == (left.running, left.waiting, engine.running)

    engine.submit(request())
    run(engine, 3601 * SECOND)
    assert (1, 0) == (engine.gauges().running, engine.gauges().waiting)


def test_an_abort_of_everything_leaves_the_gauges_of_a_new_version_at_zero() -> None:
    engine = Engine(PLAIN, 0.0)
    engine.submit(request(output=1000))
    run(engine, SECOND)
    engine.abort(engine.everything())

    assert (0, 0, 0.0) == (engine.gauges().running, engine.gauges().waiting, engine.gauges().kv_usage_ratio)


def test_a_full_cache_preempts_the_youngest_and_loses_no_token() -> None:
    load = [(100, 300, 1.0, float(number), 0) for number in range(6)]
    engine = play(FULL, load)

    assert engine.books.preemptions > 0
    assert engine.books.preemptions == engine.books.request_preemptions.sum
    assert 1800 == engine.read().output_tokens
    assert 600 == engine.books.prompt_tokens


def test_a_halted_engine_shows_its_last_gauges_and_books_the_wait_when_it_goes_on() -> None:
    engine = Engine(PLAIN, 0.0)
    for _ in range(3):
        engine.submit(request(output=2000))
    run(engine, 5 * SECOND)
    tokens, latency = engine.read().output_tokens, engine.books.itl.sum
    engine.halt(halted=True)
    run(engine, 305 * SECOND)
    assert (tokens, latency, 3) == (engine.read().output_tokens, engine.books.itl.sum, engine.gauges().running)

    engine.halt(halted=False)
    assert latency + 900 == pytest.approx(engine.books.itl.sum)


def test_a_request_that_can_never_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit into 640"):
        Engine(FULL, 0.0).submit(request(prompt=600, output=100))
    with pytest.raises(ValueError, match="at least one"):
        Engine(FULL, 0.0).submit(request(output=0))


def test_a_faster_clock_reports_shorter_seconds() -> None:
    slow, fast = Engine(PLAIN, 0.0), Engine(PLAIN, 0.0, second_ms=10_000.0)
    for engine in (slow, fast):
        engine.submit(request(output=100))
        run(engine, 60 * SECOND)

    assert slow.books.e2e.sum == pytest.approx(10 * fast.books.e2e.sum)
    assert slow.books.itl.sum == pytest.approx(10 * fast.books.itl.sum)
