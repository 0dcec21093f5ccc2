from __future__ import annotations

import pytest

from opmon.core import engines
from opmon.core.engines import ENGINES, PULSE_NAMES, VLLM, Engine, Kind, exposed_names, may_filter, wanted_names
from opmon.core.model import BUCKET_FAMILIES, FULL_COUNTERS, PULSE_COUNTERS, Lane
from opmon.errors import ConfigError


def counters(lane: Lane) -> set[str]:
    """The canonical counters that a lane can give."""
    names: set[str] = set()
    for signal in VLLM.signals_of(lane):
        if signal.kind is Kind.COUNTER:
            names.add(signal.canonical)
        if signal.kind is Kind.HISTOGRAM:
            names |= {signal.canonical + "_sum", signal.canonical + "_count"}
    return names


def test_each_lane_gives_exactly_the_counters_that_the_model_names() -> None:
    assert set(PULSE_COUNTERS) == counters(Lane.PULSE)
    assert {*PULSE_COUNTERS, *FULL_COUNTERS} == counters(Lane.FULL)


def test_every_bucket_family_of_the_model_is_a_histogram_of_the_table() -> None:
    histograms = {signal.canonical for signal in VLLM.signals if signal.kind is Kind.HISTOGRAM}
    assert set(BUCKET_FAMILIES) <= histograms


def test_the_pulse_asks_for_single_samples_of_histograms_and_for_no_bucket() -> None:
    assert "vllm:inter_token_latency_seconds_sum" in PULSE_NAMES
    assert "process_start_time_seconds" in PULSE_NAMES
    assert "vllm:engine_sleep_state" in PULSE_NAMES
    assert not [name for name in PULSE_NAMES if name.endswith("_bucket")]
    assert len(PULSE_NAMES) == len(set(PULSE_NAMES))


def test_the_address_of_a_filtered_pulse_stays_short_enough_for_any_server() -> None:
    assert len("&".join(f"name[]={name}" for name in PULSE_NAMES)) < 2_000


def test_no_date_of_creation_is_read_as_a_counter() -> None:
    for signal in VLLM.signals:
        assert not [name for name in signal.names if name.endswith("_created")]
    dates = {name for name in wanted_names("vllm", Lane.FULL) if name.endswith("_created")}
    assert {prefix + name for prefix in VLLM.prefixes for name in VLLM.created} == dates


def test_the_step_histogram_is_counted_by_its_count_in_spite_of_its_name() -> None:
    names = exposed_names(VLLM, "vllm:", Lane.FULL)
    assert "vllm:iteration_tokens_total_count" in names
    assert "vllm:iteration_tokens_total" not in names


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_no_source_carries_two_signals_of_one_kind(engine: Engine) -> None:
    # A histogram's sum may be a counter as well, as the first tokens are; but not two levels, nor two histograms.
    for kind in (Kind.LEVEL, Kind.RATIO, Kind.HISTOGRAM):
        sources = [source for signal in engine.signals if signal.kind is kind for source in signal.sources]
        assert len(sources) == len(set(sources))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_every_signal_of_an_engine_is_one_that_the_model_names(engine: Engine) -> None:
    for signal in engine.signals:
        if signal.kind is Kind.COUNTER:
            assert signal.canonical in {*PULSE_COUNTERS, *FULL_COUNTERS}
        elif signal.kind is Kind.HISTOGRAM:
            assert signal.canonical + "_sum" in {*PULSE_COUNTERS, *FULL_COUNTERS}
        else:
            assert signal.canonical in ("running", "waiting", "kv_usage_ratio")
        assert signal.pulse or signal.canonical not in ("running", "waiting", *PULSE_COUNTERS)


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_what_an_engine_does_not_expose_is_listed_with_its_reason(engine: Engine) -> None:
    said = {signal.canonical.removesuffix("_sum").removesuffix("_count") for signal in engine.signals}
    expected = {signal.canonical for signal in VLLM.signals if not signal.optional}
    assert expected <= said | set(engine.absent)
    at_release = {"output_length"} if engine.name == "llama.cpp" else set()
    decode = {"decode_seconds"} if engine.name == "llama.cpp" else set()
    assert (said & set(engine.absent)) <= at_release | decode
    assert all(engine.absent.values())


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_a_histogram_has_sources_of_one_name_each(engine: Engine) -> None:
    for signal in engine.signals:
        if signal.kind is Kind.HISTOGRAM:
            assert {1} == {len(source) for source in signal.sources}


def test_only_vllm_is_asked_for_a_filtered_pulse() -> None:
    assert ["vllm"] == [engine.name for engine in ENGINES if may_filter(engine.name)]
    assert may_filter("auto")
    assert may_filter("")


def test_an_engine_that_is_not_in_the_table_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match="allowed are: auto, vllm"):
        engines.candidates("ollama")
