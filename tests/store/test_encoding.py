"""Blobs give back exactly what went into them."""

from __future__ import annotations

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from opmon.core.model import BUCKET_FAMILIES, FULL_COUNTERS, PULSE_COUNTERS, Buckets, SeriesSample
from opmon.core.sums import BucketIncrease, CurveLevel, Increase, Sums
from opmon.store import encoding

BOUNDS = (0.001, 1.0, math.inf)
NUMBERS = st.one_of(
    st.floats(allow_nan=False), st.integers(0, 2**60).map(float), st.sampled_from((0.0, 2.0**53, -1.5, 1e300))
)
LEVELS = st.dictionaries(st.integers(0, 3000), st.integers(1, 10**13), max_size=5)


@given(
    counters=st.dictionaries(st.sampled_from((*FULL_COUNTERS, "a_counter_of_tomorrow")), NUMBERS),
    families=st.dictionaries(st.sampled_from((*BUCKET_FAMILIES, "a_family_of_tomorrow")), st.tuples(*[NUMBERS] * 3)),
)
def test_a_full_sample_comes_back_as_it_was(
    counters: dict[str, float], families: dict[str, tuple[float, float, float]]
) -> None:
    buckets = {name: Buckets(BOUNDS, counts) for name, counts in families.items()}
    sample = SeriesSample()
    encoding.decode_full(encoding.encode_full(counters, buckets, {BOUNDS: 9}), sample, {9: BOUNDS})
    assert counters == sample.counters
    assert buckets == sample.buckets


@given(
    levels=st.tuples(*[LEVELS] * 5),
    milliseconds=st.tuples(*[st.integers(0, 10**12)] * 8),
    numbers=st.tuples(*[NUMBERS] * 6),
    peak=st.none() | NUMBERS,
)
def test_sums_come_back_as_they_were(
    levels: tuple[dict[int, int], ...],
    milliseconds: tuple[int, ...],
    numbers: tuple[float, ...],
    peak: float | None,
) -> None:
    sums = Sums(
        observed_ms=milliseconds[0],
        stalled_ms=milliseconds[1],
        invalid_ms=milliseconds[2],
        down_ms=milliseconds[3],
        running=levels[0],
        waiting=levels[1],
        in_system=levels[2],
        limited_ms=milliseconds[4],
        prefill_wait_ms=milliseconds[5],
        flat_wait_ms=levels[3],
        curve={4: CurveLevel(milliseconds[6], *numbers[:3])},
        mixed_ms=milliseconds[7],
        increases={"drafts": Increase(numbers[3], 5), "iterations": Increase(2.0, 5), "new": Increase(0.5, 6)},
        buckets={"itl_seconds": [BucketIncrease(BOUNDS, [1.0, 1.0, 4.0]), BucketIncrease(BOUNDS[1:], [0.5, 7.0])]},
        uncovered_tokens=numbers[4],
        spanned_ms=milliseconds[0],
        spanned_running_seconds=numbers[5],
        peak_minute_tokens_per_second=peak,
        stalled_running=levels[4],
    )
    payload = encoding.encode_sums(sums, {BOUNDS: 1, BOUNDS[1:]: 2})
    read = encoding.decode_sums(
        payload, (milliseconds[0], milliseconds[1], milliseconds[2], milliseconds[3]), {1: BOUNDS, 2: BOUNDS[1:]}
    )
    for families in read.buckets.values():
        families.sort(key=lambda family: family.bounds)
    assert sums == read


def test_no_field_of_sums_is_forgotten() -> None:
    states = {"observed_ms", "stalled_ms", "invalid_ms", "down_ms"}
    kept = {name.replace("families", "buckets") for name in encoding.SumsBlob.__struct_fields__}
    assert {field.name for field in dataclasses.fields(Sums)} == states | kept


def test_every_canonical_name_has_its_place() -> None:
    assert set(encoding.COUNTER_NAMES) >= {*PULSE_COUNTERS, *FULL_COUNTERS}
    assert set(encoding.FAMILY_NAMES) >= set(BUCKET_FAMILIES)
    for names in (encoding.COUNTER_NAMES, encoding.FAMILY_NAMES):
        assert len(names) == len(set(names))


def test_equal_sums_give_equal_bytes_whatever_the_order_they_were_made_in() -> None:
    one = Sums(running={0: 1, 2: 3}, increases={"drafts": Increase(1.0, 2), "iterations": Increase(3.0, 2)})
    other = Sums(running={2: 3, 0: 1}, increases={"iterations": Increase(3.0, 2), "drafts": Increase(1.0, 2)})
    assert encoding.encode_sums(one, {}) == encoding.encode_sums(other, {})


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True, max_size=30))
def test_bounds_come_back_as_they_were(finite: list[float]) -> None:
    bounds = (*sorted(finite), math.inf)
    assert bounds == encoding.read_bounds(encoding.bounds_text(bounds))
