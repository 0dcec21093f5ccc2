from __future__ import annotations

from opmon.core.increase import bucket_increases, counter_increases
from opmon.core.model import Buckets, SeriesKey, SeriesSample
from opmon.core.sums import BucketIncrease

ONE, TWO = SeriesKey("m", "0"), SeriesKey("m", "1")
NAMES = ("generation_tokens", "itl_seconds_sum")
INF = float("inf")


def shown(**counters: float) -> SeriesSample:
    return SeriesSample(1, 0, None, counters)


def test_increases_add_over_the_series_of_both_scrapes() -> None:
    earlier = {ONE: shown(generation_tokens=10), TWO: shown(generation_tokens=100)}
    later = {ONE: shown(generation_tokens=15), TWO: shown(generation_tokens=107)}

    assert {"generation_tokens": 12.0} == counter_increases(earlier, later, NAMES)


def test_a_counter_that_only_one_scrape_shows_has_no_increase() -> None:
    assert {} == counter_increases({ONE: shown()}, {ONE: shown(generation_tokens=15)}, NAMES)
    assert {} == counter_increases({ONE: shown(generation_tokens=15)}, {ONE: shown()}, NAMES)


def test_a_series_that_only_one_scrape_shows_has_no_increase() -> None:
    both = {ONE: shown(generation_tokens=1), TWO: shown(generation_tokens=999)}

    assert {"generation_tokens": 0.0} == counter_increases({ONE: shown(generation_tokens=1)}, both, NAMES)


def test_a_sum_that_fell_is_left_out_rather_than_negative() -> None:
    assert {} == counter_increases({ONE: shown(itl_seconds_sum=5.0)}, {ONE: shown(itl_seconds_sum=4.5)}, NAMES)


def test_a_sum_that_was_only_rounded_otherwise_stood_still() -> None:
    earlier, later = {ONE: shown(itl_seconds_sum=298.8333650000001)}, {ONE: shown(itl_seconds_sum=298.833365)}

    assert {"itl_seconds_sum": 0.0} == counter_increases(earlier, later, NAMES)


def test_only_the_asked_counters_are_told() -> None:
    assert {} == counter_increases({ONE: shown(drafts=1)}, {ONE: shown(drafts=2)}, NAMES)


def buckets(bounds: tuple[float, ...], counts: tuple[float, ...]) -> dict[SeriesKey, SeriesSample]:
    return {ONE: SeriesSample(1, 0, None, {}, {"e2e_seconds": Buckets(bounds, counts)})}


def test_buckets_rise_bound_by_bound() -> None:
    found = bucket_increases(buckets((1.0, INF), (1, 2)), buckets((1.0, INF), (4, 9)))

    assert [("e2e_seconds", BucketIncrease((1.0, INF), [3, 7]))] == found


def test_buckets_with_other_bounds_are_not_compared() -> None:
    assert [] == bucket_increases(buckets((1.0, INF), (1, 2)), buckets((2.0, INF), (4, 9)))


def test_a_family_that_was_not_shown_before_has_no_increase() -> None:
    assert [] == bucket_increases({ONE: SeriesSample(1)}, buckets((1.0, INF), (4, 9)))
    assert [] == bucket_increases({}, buckets((1.0, INF), (4, 9)))
