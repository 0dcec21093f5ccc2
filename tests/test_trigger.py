"""When a target is scraped: strata, offsets, ownership."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from opmon.trigger import (
    BLOCK,
    LATE_TOLERANCE_MS,
    StratumTrigger,
    fire_ms,
    next_fire_ms,
    offset_ms,
    owned_stratum,
    stratum_start,
)

INTERVALS = st.sampled_from([1000, 2000, 5000, 15_000, 60_000])
INSTANTS = st.integers(min_value=1_700_000_000_000, max_value=1_900_000_000_000)
NAMES = st.text(min_size=1, max_size=12)


@given(NAMES, INSTANTS, INTERVALS)
def test_a_due_instant_lies_inside_its_stratum(name: str, at_ms: int, interval_ms: int) -> None:
    stratum = stratum_start(at_ms, interval_ms)
    assert 0 <= offset_ms(name, stratum, interval_ms) < interval_ms


def test_offsets_are_uniform_over_strata() -> None:
    offsets = [offset_ms("a", stratum * 1000, 1000) for stratum in range(20_000)]
    tenths = [sum(1 for offset in offsets if offset // 100 == tenth) for tenth in range(10)]
    # Standard deviation of each count is 42; five of them are beyond chance.
    assert all(abs(count - 2000) < 5 * 42 for count in tenths), tenths


@given(NAMES, st.integers(min_value=0, max_value=10_000_000), INTERVALS)
def test_a_block_of_strata_visits_every_part_of_the_interval_once(name: str, block: int, interval_ms: int) -> None:
    strata = [(block * BLOCK + number) * interval_ms for number in range(BLOCK)]
    parts = {offset_ms(name, stratum, interval_ms) * BLOCK // interval_ms for stratum in strata}
    # A part ends between two milliseconds, so a rounded instant may fall to its neighbour.
    assert len(parts) > BLOCK * 0.9


def test_the_same_stratum_of_every_minute_is_visited_uniformly() -> None:
    offsets = [offset_ms("a", minute * 60_000, 1000) for minute in range(20_000)]
    tenths = [sum(1 for offset in offsets if offset // 100 == tenth) for tenth in range(10)]
    assert all(abs(count - 2000) < 5 * 42 for count in tenths), tenths


def test_two_targets_are_not_scraped_in_step() -> None:
    same = sum(offset_ms("a", s * 1000, 1000) == offset_ms("b", s * 1000, 1000) for s in range(2000))
    assert same < 20


@given(NAMES, INSTANTS, INTERVALS)
def test_each_stratum_fires_exactly_once(name: str, at_ms: int, interval_ms: int) -> None:
    first = next_fire_ms(name, interval_ms, at_ms)
    fired = [first]
    for _ in range(5):
        fired.append(next_fire_ms(name, interval_ms, fired[-1]))
    strata = [stratum_start(instant, interval_ms) for instant in fired]
    assert [strata[0] + number * interval_ms for number in range(6)] == strata


def test_the_trigger_skips_strata_that_passed_while_the_loop_was_blocked() -> None:
    trigger = StratumTrigger("a", 1000)
    now = datetime.fromtimestamp(1_800_000_100.5, tz=UTC)
    before = datetime.fromtimestamp(1_800_000_000.5, tz=UTC)
    due = trigger.get_next_fire_time(before, now)
    assert now < due
    assert (due - now).total_seconds() < 2


def test_the_trigger_is_independent_of_the_run_before() -> None:
    trigger = StratumTrigger("a", 1000)
    now = datetime.fromtimestamp(1_800_000_100, tz=UTC)
    assert trigger.get_next_fire_time(None, now) == trigger.get_next_fire_time(now, now)


@given(NAMES, INSTANTS, INTERVALS)
def test_an_attempt_at_its_due_instant_owns_its_stratum(name: str, at_ms: int, interval_ms: int) -> None:
    stratum = stratum_start(at_ms, interval_ms)
    assert owned_stratum(name, interval_ms, fire_ms(name, stratum, interval_ms), stratum) == stratum


def _stratum_due_late(interval_ms: int = 1000) -> tuple[int, int]:
    """A stratum whose successor is due well after its own start."""
    for number in range(1_800_000_000, 1_800_001_000):
        stratum = number * interval_ms
        if offset_ms("a", stratum + interval_ms, interval_ms) > 2 * LATE_TOLERANCE_MS:
            return stratum, stratum + interval_ms
    raise AssertionError


def test_an_attempt_just_after_its_stratum_still_belongs_to_it() -> None:
    stratum, end = _stratum_due_late()
    assert owned_stratum("a", 1000, end + LATE_TOLERANCE_MS - 1, stratum) == stratum


def test_an_attempt_later_than_the_tolerance_belongs_to_the_next_stratum() -> None:
    stratum, end = _stratum_due_late()
    assert owned_stratum("a", 1000, end + LATE_TOLERANCE_MS + 1, stratum) == end


def test_a_stratum_that_had_its_attempt_is_not_given_twice() -> None:
    stratum, end = _stratum_due_late()
    assert owned_stratum("a", 1000, stratum + 500, end) is None
