"""Several servers behind one address: each of their answers would read as a restart of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opmon.core.model import Attempt, SeriesKey, State
from opmon.core.states import SEVERAL, STEADY_ANSWERS, Step
from tests.core.stage import Stage, epochs_of, watch


def played(seconds: float, *, process_start: float, head_start: float, running: int = 2) -> list[Attempt]:
    """One of the servers, its counters ahead by `head_start` seconds of load."""
    stage = Stage(start_ms=1_000_000)
    stage.process_start = process_start
    for counters in stage.counters.values():
        for name in counters:
            counters[name] += head_start
    return stage.play(seconds, running)


def without_start(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The same answers of servers that do not tell when they began."""
    return [
        replace(one, snapshot=replace(one.snapshot, process_start_seconds=None)) if one.snapshot else one
        for one in attempts
    ]


def chosen(*servers: Sequence[Attempt], order: Sequence[int]) -> list[Attempt]:
    """The answers that a balancer lets through: of the server `order[i]` in stratum i."""
    return [servers[server][stratum] for stratum, server in enumerate(order)]


def states(steps: Sequence[Step]) -> list[str]:
    return [step.row.kind or step.row.state.value for step in steps]


def test_two_servers_that_take_turns_are_not_a_restart_a_second() -> None:
    one, two = played(60, process_start=1.0, head_start=900), played(60, process_start=500.0, head_start=10)
    steps = watch(chosen(one, two, order=[0, 1] * 30))

    assert ["start", "restart"] == [epoch.cause for epoch in epochs_of(steps)]
    assert ["observed"] * 2 + ["several_servers"] * 58 == states(steps)
    assert "watch each by itself" in steps[2].detail


def test_they_are_told_apart_by_falling_counters_where_no_start_is_shown() -> None:
    one, two = played(40, process_start=1.0, head_start=900), played(40, process_start=1.0, head_start=10)
    steps = watch(chosen(one, two, order=[0, 0, 0, 1, 1, 0, 1, 1, 1, 0] * 4))

    assert "several_servers" in states(steps)
    assert not [step for step in steps[6:] if step.row.state is State.OBSERVED]


def test_once_one_server_alone_answers_it_is_observed_again() -> None:
    one, two = played(60, process_start=1.0, head_start=900), played(60, process_start=500.0, head_start=10)
    steps = watch(chosen(one, two, order=[0, 1, 0, 1, *[0] * 56]))

    first_good = 4 + STEADY_ANSWERS
    assert {State.INVALID} == {step.row.state for step in steps[2:first_good]}
    assert {State.OBSERVED} == {step.row.state for step in steps[first_good:]}
    assert ["start", "restart", "restart"] == [epoch.cause for epoch in epochs_of(steps)]


def test_a_server_that_crashes_again_and_again_is_away_between_and_is_no_second_server() -> None:
    stage = Stage(start_ms=1_000_000)
    attempts = []
    for _ in range(4):
        attempts += [*stage.play(3, 1), *stage.fail(2), *stage.restart()]
    steps = watch(attempts)

    assert ["start", "restart", "restart", "restart"] == [epoch.cause for epoch in epochs_of(steps)]
    assert {"observed", "connect"} == set(states(steps))


def test_engines_that_join_one_after_another_are_one_server() -> None:
    keys = [SeriesKey("model", str(index)) for index in range(4)]
    attempts = []
    for count, attempt in enumerate(Stage(start_ms=1_000_000, engines=keys).play(4, 1), 1):
        assert attempt.snapshot is not None
        shown = {key: attempt.snapshot.series[key] for key in keys[:count]}
        attempts.append(replace(attempt, snapshot=replace(attempt.snapshot, series=shown)))
    steps = watch(attempts)

    assert ["observed"] * 4 == states(steps)
    assert ["start", "engines", "engines", "engines"] == [epoch.cause for epoch in epochs_of(steps)]


def test_pages_that_show_one_engine_each_in_turn_never_show_the_whole() -> None:
    servers = []
    for index in "01":
        stage = Stage(start_ms=1_000_000, engines=[SeriesKey("model", index)])
        servers.append(stage.play(40, 3))
    steps = watch(chosen(*servers, order=[0, 1] * 20))

    assert 2 == len(epochs_of(steps))
    assert {"several_servers"} == set(states(steps[2:]))


def test_a_model_that_comes_back_for_good_is_an_epoch_after_ten_answers() -> None:
    servers = []
    for model in "ab":
        stage = Stage(start_ms=1_000_000, engines=[SeriesKey(model, "0")])
        servers.append(stage.play(40, 3))
    steps = watch(chosen(*servers, order=[0] * 5 + [1] * 5 + [0] * 30))

    assert ["start", "models", "models"] == [epoch.cause for epoch in epochs_of(steps)]
    assert ["several_servers"] * STEADY_ANSWERS == states(steps[10 : 10 + STEADY_ANSWERS])
    assert {"observed"} == set(states(steps[10 + STEADY_ANSWERS :]))


def test_a_failed_attempt_says_nothing_of_who_answers() -> None:
    one, two = played(60, process_start=1.0, head_start=900), played(60, process_start=500.0, head_start=10)
    attempts = chosen(one, two, order=[0, 1, 0, 1, *[0] * 56])
    attempts[6] = replace(attempts[6], snapshot=None, kind="timeout")
    steps = watch(attempts)

    assert "timeout" == states(steps)[6]
    assert {State.OBSERVED} == {step.row.state for step in steps[5 + STEADY_ANSWERS :]}


def test_what_was_taken_for_one_server_is_dated_back() -> None:
    """Where they tell no start: one that is told, and the same, is one process."""
    one, two = played(60, process_start=1.0, head_start=900), played(60, process_start=1.0, head_start=90_000)
    steps = watch(without_start(chosen(one, two, order=[0] * 20 + [1, 0] * 20)))

    (relabel,) = [relabel for step in steps for relabel in step.relabels]
    assert State.INVALID is relabel.state
    # The leap itself shows it: a second before, the other server had counted 90,000 s less.
    assert SEVERAL == steps[20].row.kind
    assert (steps[20].row.stratum_ms, steps[0].row.stratum_ms) == (relabel.end_ms, max(relabel.start_ms, 1_000_000))


def test_a_start_that_comes_back_is_another_server_however_slowly_they_take_turns() -> None:
    one, two = played(200, process_start=1.0, head_start=900), played(200, process_start=500.0, head_start=10)
    steps = watch(chosen(one, two, order=([0] * 30 + [1] * 30) * 3))

    assert ["start", "restart"] == [epoch.cause for epoch in epochs_of(steps)]
    assert {"several_servers"} == set(states(steps[60:]))


def test_a_start_that_is_computed_anew_for_each_page_is_one_start() -> None:
    stage = Stage(start_ms=1_000_000)
    attempts = stage.play(30, 2)
    shaky = [
        replace(one, snapshot=replace(one.snapshot, process_start_seconds=1.0 + number % 3 / 100))
        for number, one in enumerate(attempts)
        if one.snapshot is not None
    ]
    assert ["start"] == [epoch.cause for epoch in epochs_of(watch(shaky))]
