"""Every way in which a target was seen to answer wrongly, over the production path: what is stored, and what is said."""

from __future__ import annotations

import asyncio
import json
import math

import msgspec
import pytest

from opmon.clock import SystemClock
from opmon.core.model import Form, Lane, SeriesKey, State, TargetRecord, View
from opmon.core.states import SEVERAL
from opmon.pipeline import Observer
from opmon.scrape.scraper import Scraper, ScrapeTarget
from opmon.store import Store
from opmon.watch import Watch
from tests.hostile.badserver import MODES, BadServer, serving
from tests.hostile.cases import CASES, STRATA, Case, pattern
from tests.hostile.watching import INTERVAL_MS, START_MS, stored, watch


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.mode)
async def test_a_hostile_answer_is_read_right_or_refused_with_its_reason(
    case: Case, store: Store, server: BadServer
) -> None:
    watched = await watch(store, server, case.mode, case.strata, timeout_ms=case.timeout_ms)

    assert dict(case.states) == watched.states
    assert (pattern(case.strata) if case.levels is None else dict(case.levels)) == watched.levels
    assert case.causes == watched.causes
    assert case.causes == tuple(epoch.cause for epoch in watched.point.epochs)
    assert case.causes == tuple(epoch.cause for epoch in watched.series.epochs)
    assert any(case.says in detail for detail in watched.details), watched.details[-1]
    if case.models is not None:
        assert case.models == watched.record.models
    assert case.strata == len(watched.rows)
    for row in watched.rows:
        # The values of a stratum that was dated back stay, and are in no level and no rate.
        if row.kind not in (None, SEVERAL):
            assert not row.series
        assert row.kind is None or row.state in (State.DOWN, State.INVALID)


@pytest.mark.parametrize("mode", ["ok", "not_a_number", "infinite", "frozen", "beyond_a_double", "html"])
async def test_the_report_is_json_that_any_parser_reads(mode: str, store: Store, server: BadServer) -> None:
    watched = await watch(store, server, mode, 12)

    def refuse(token: str) -> None:
        raise AssertionError(token)

    answer = json.loads(msgspec.json.encode(watched.point), parse_constant=refuse)
    shares = [answer["coverage"][f"{state.value}_seconds"] for state in State]
    assert math.isclose(12.0, sum(shares))


def test_every_mode_of_the_server_is_a_case_or_has_a_test_of_its_own() -> None:
    own = {"ok", "ten_times_slower", "slow_then_well"}
    assert set(MODES) == {case.mode for case in CASES} | own
    assert len(CASES) == len({case.mode for case in CASES})


async def test_a_target_that_goes_away_is_unknown_for_that_time_and_the_share_is_of_observed_time(store: Store) -> None:
    async with serving() as server:
        port = server.port
        await watch(store, server, "ok", 10)
    observer = Observer(store.target("ok"), epoch=store.current_epoch("ok"), rows=store.recent_rows("ok"))
    scraper = Scraper(ScrapeTarget("ok", f"http://127.0.0.1:{port}/ok", timeout_ms=500), SystemClock())

    async def attempts(first: int, last: int, server: BadServer | None = None) -> list[str]:
        told = []
        for step in range(first, last):
            if server is not None:
                server.step = step
            from_ms = START_MS + step * INTERVAL_MS
            observation = observer.observe(await scraper.scrape(from_ms, INTERVAL_MS, lane=Lane.PULSE))
            store.append("ok", [observation], observer.record)
            told.append(observation.step.detail)
        return told

    await attempts(10, 30)
    async with serving(port=port) as again:
        details = await attempts(30, 40, again)
        await scraper.aclose()
    watched = stored(store, "ok", 40, details)

    assert {"observed": 20, "connect": 20} == watched.states
    assert pattern(20) == watched.levels
    assert 0.5 == watched.point.coverage.ratio
    assert math.isclose(0.6, watched.point.running.occupancy[1].ratio)
    assert "coverage_low" in [warning.code for warning in watched.point.warnings]
    assert ("start",) == watched.causes


async def test_a_mean_is_that_of_the_window_and_not_of_the_servers_whole_life(store: Store, server: BadServer) -> None:
    watched = await watch(store, server, "ten_times_slower", 120)
    steady = stored_mean(store, 0, 60)
    slow = stored_mean(store, 62, 120)

    assert math.isclose(0.01, steady, rel_tol=0.01)
    assert math.isclose(0.10, slow, rel_tol=0.01)
    assert {"observed": 120} == watched.states


def stored_mean(store: Store, first: int, last: int) -> float:
    """Seconds between tokens over some of the played strata."""
    start_ms, end_ms = START_MS + first * INTERVAL_MS, START_MS + last * INTERVAL_MS
    (sums,) = store.window(View("ten_times_slower"), start_ms, end_ms).values()
    return sums.increases["itl_seconds_sum"].total / sums.increases["itl_seconds_count"].total


async def test_two_models_on_one_page_have_levels_of_their_own(store: Store, server: BadServer) -> None:
    await watch(store, server, "two_models", STRATA)
    end_ms = START_MS + STRATA * INTERVAL_MS
    small = store.window(View("two_models", "small"), START_MS, end_ms)
    big = store.window(View("two_models", "big"), START_MS, end_ms)

    assert [{3: STRATA * INTERVAL_MS}] == [sums.running for sums in small.values()]
    assert [{level: strata * INTERVAL_MS for level, strata in pattern().items()}] == [s.running for s in big.values()]


async def test_engines_are_kept_one_by_one_beside_their_sum(store: Store, server: BadServer) -> None:
    watched = await watch(store, server, "engines", 3)

    assert [{"0": 1, "1": 0, "2": 5}] * 2 == [
        {key.engine_index: sample.running for key, sample in row.series.items()} for row in watched.rows[:2]
    ]
    assert SeriesKey("m", "2") in watched.rows[0].series


async def test_a_target_over_ipv6_is_a_target(store: Store) -> None:
    async with serving("::1") as server:
        watched = await watch(store, server, "ok", 5, host="[::1]")

    assert {"observed": 5} == watched.states


async def test_a_filter_that_answers_nothing_is_asked_once_and_never_again(store: Store, server: BadServer) -> None:
    watched = await watch(store, server, "filter_answers_nothing", 10)

    assert 1 == len([path for path in server.paths if "name[]=" in path])
    assert {"observed": 10} == watched.states


async def test_an_attempt_that_outlasts_its_stratum_costs_the_next_one_and_no_more(server: BadServer) -> None:
    clock = SystemClock()
    record = TargetRecord("slow", server.url("slow_then_well"))
    scraper = Scraper(ScrapeTarget("slow", record.url, timeout_ms=1500), clock)
    watching = Watch(Observer(record), scraper, clock, is_pace_fixed=True)
    began_ms = clock.monotonic_ms()
    tasks = []
    for second in range(7):
        await asyncio.sleep(max(0.0, second - (clock.monotonic_ms() - began_ms) / 1000))
        server.step = second
        tasks.append(asyncio.create_task(watching.attempt()))
    observed = [one for one in await asyncio.gather(*tasks) if one is not None]
    await scraper.aclose()

    kinds = [one.step.row.kind for one in observed]
    assert {None, "timeout"} == set(kinds)
    assert None not in kinds[: kinds.count("timeout")], "once it answers, every tick is an answer"
    assert kinds.count(None) >= 3
    strata = [one.step.row.stratum_ms for one in observed]
    assert sorted(set(strata)) == strata
    assert watching.skipped_strata >= 1
    assert Form.UNKNOWN is not scraper.form
