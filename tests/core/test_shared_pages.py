"""Pages of other servers and versions, kept beside the repository: each is read right, or refused with the reason.

The generated ones come from a driver whose truth is known: after all of its requests (`loaded`) tokens and
request-seconds must come out, in between (`mid`) the level.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opmon.core.model import Lane, SeriesKey, SeriesSample, Snapshot
from opmon.core.snapshot import read_snapshot
from tests.needs import NEEDS

pytestmark = pytest.mark.needs("shared")

Levels = dict[str, tuple[int, int | None]]


def folder() -> Path:
    return Path(NEEDS["shared"].find() or "") / "data"


def read(name: str, lane: Lane = Lane.FULL) -> Snapshot:
    return read_snapshot((folder() / name).read_bytes(), lane=lane)


def one(name: str) -> SeriesSample:
    (sample,) = (sample for sample in read(name).series.values() if sample.running is not None)
    return sample


# --- generated: (tokens generated, prompt tokens, requests, steps, seconds of requests) after all were served ------------

V0 = (9740, 68240, 60, 219.969)
V1 = (10217, 88720, 60, 232.85)
V1_NEWER = (10091, 82120, 60, 228.32)
TRUTH = {
    "0.4.0-v0": V0,
    "0.4.3-v0": V0,
    "0.5.5-v0": V0,
    "0.6.6-v0": V0,
    "0.7.3-v0": V0,
    "0.8.5": V1,
    "0.9.2": V1,
    "0.10.0": V1,
    "0.16.0": (9626, 63840, 60, 216.64),
    "0.23.0": V1_NEWER,
    "main-20260817": V1_NEWER,
}
# (running, tokens) in the middle of the load.
MIDDLE = {
    "0.4.0-v0": (4, 5854),
    "0.4.3-v0": (4, 5854),
    "0.5.5-v0": (4, 5854),
    "0.6.6-v0": (4, 5854),
    "0.7.3-v0": (4, 5854),
    "0.8.5": (4, 5369),
    "0.9.2": (4, 5369),
    "0.10.0": (4, 5369),
    "0.16.0": (3, 5435),
    "0.23.0": (6, 5729),
    "main-20260817": (6, 5729),
    "main-20260817-spec3": (2, 4133),
}
STEPS = {"0.8.5": 2701, "0.9.2": 2701, "0.10.0": 2701, "0.16.0": 2751, "0.23.0": 2710, "main-20260817": 2710}


@pytest.mark.parametrize("revision", TRUTH)
def test_after_all_requests_the_counters_are_those_of_the_driver(revision: str) -> None:
    tokens, prompt_tokens, requests, _ = TRUTH[revision]
    sample = one(f"generated/vllm-{revision}-loaded.prom")
    counters = sample.counters
    assert (0, 0) == (sample.running, sample.waiting)
    assert (tokens, prompt_tokens) == (counters["generation_tokens"], counters["prompt_tokens"])
    # Every output but a request's first is one inter-token latency; every request has one first token.
    assert (tokens - requests, requests) == (counters["itl_seconds_count"], counters["ttft_seconds_count"])
    if revision != "0.4.0-v0":  # which exposes neither lengths nor finished requests
        assert (requests, tokens) == (counters["finished_requests"], counters["output_length_sum"])
        assert (requests, prompt_tokens) == (counters["prompt_length_count"], counters["prompt_length_sum"])
    assert sample.kv_usage_ratio is not None


@pytest.mark.parametrize("revision", [one for one in TRUTH if one not in ("0.4.0-v0", "0.4.3-v0", "0.5.5-v0")])
def test_the_counted_request_seconds_are_those_of_the_driver(revision: str) -> None:
    counters = one(f"generated/vllm-{revision}-loaded.prom").counters
    counted = counters["itl_seconds_sum"] + counters["prefill_seconds_sum"]
    assert TRUTH[revision][3] == pytest.approx(counted, abs=0.01)


@pytest.mark.parametrize("revision", MIDDLE)
@pytest.mark.parametrize("lane", Lane)
def test_in_the_middle_of_the_load_the_level_is_that_of_the_driver(revision: str, lane: Lane) -> None:
    snapshot = read(f"generated/vllm-{revision}-mid.prom", lane)
    (sample,) = snapshot.series.values()
    running, tokens = MIDDLE[revision]
    assert (running, 0, tokens) == (sample.running, sample.waiting, sample.counters["generation_tokens"])
    assert snapshot.fault is None


@pytest.mark.parametrize("revision", TRUTH)
def test_before_the_first_step_the_old_engine_says_nothing_and_the_new_one_is_idle(revision: str) -> None:
    snapshot = read(f"generated/vllm-{revision}-idle.prom")
    if revision.endswith("-v0"):
        assert "no_known_metrics" == snapshot.fault
        assert "described but has no value yet" in snapshot.detail
    else:
        assert (None, [0]) == (snapshot.fault, [sample.running for sample in snapshot.series.values()])


@pytest.mark.parametrize("revision", TRUTH)
def test_steps_are_counted_by_the_new_engine_alone(revision: str) -> None:
    counters = one(f"generated/vllm-{revision}-loaded.prom").counters
    assert STEPS.get(revision) == counters.get("iterations")


def test_speculation_is_that_of_the_driver() -> None:
    counters = one("generated/vllm-main-20260817-spec3-loaded.prom").counters
    assert (3886, 11658, 4620, 8507) == tuple(
        counters[name] for name in ("drafts", "draft_tokens", "accepted_tokens", "generation_tokens")
    )
    assert 10922 == one("generated/vllm-0.8.5-spec3-loaded.prom").counters["generation_tokens"]
    assert "3" == read("generated/vllm-main-20260817-spec3-mid.prom").identity["speculative_positions"]


@pytest.mark.parametrize("revision", ["0.10.0", "main-20260817"])
def test_a_gauge_that_was_never_written_is_no_idle_engine(revision: str) -> None:
    series = read(f"generated/vllm-{revision}-multiproc3-dp2.prom").series
    levels = {key.engine_index: sample.running for key, sample in series.items()}
    assert {"0": 0, "1": None} == levels
    # Three processes served the driver's requests each.
    assert 180 == series[SeriesKey("org/test-model", "0")].counters["finished_requests"]


def test_every_generated_page_is_in_a_test() -> None:
    names = {path.stem.removeprefix("vllm-") for path in (folder() / "generated").glob("*.prom")}
    loaded = {f"{one}-loaded" for one in TRUTH} | {f"{one}-idle" for one in TRUTH}
    others = {"main-20260817-spec3-loaded", "0.8.5-spec3-loaded"}
    pools = {"0.10.0-multiproc3-dp2", "main-20260817-multiproc3-dp2"}
    assert names == loaded | {f"{one}-mid" for one in MIDDLE} | others | pools


# --- a real vLLM: engine -> (running, waiting); (tokens, finished) ---------------------------------------------------------

REAL: dict[str, tuple[Levels, tuple[int, int]]] = {
    "0.28.0-idle-start": ({"0": (0, 0)}, (0, 0)),
    "0.28.0-load-4streams": ({"0": (4, 0)}, (8180, 9)),
    "0.28.0-idle-after": ({"0": (0, 0)}, (16008, 21)),
    "0.32.0-idle-start": ({"0": (0, 0)}, (0, 0)),
    "0.32.0-load-4streams": ({"0": (4, 0)}, (7966, 4)),
    "0.32.0-idle-after": ({"0": (0, 0)}, (16000, 16)),
    "0.32.0-queue-load-20streams": ({"0": (6, 14)}, (14901, 7)),
    "0.32.0-queue-idle-after": ({"0": (0, 0)}, (21021, 11)),
    "0.32.0-spec-idle-start": ({"0": (0, 0)}, (0, 0)),
    "0.32.0-spec-load-4streams": ({"0": (4, 0)}, (16138, 15)),
    "0.32.0-spec-idle-after": ({"0": (0, 0)}, (35000, 35)),
    "0.32.0-spec-small-idle-after": ({"0": (0, 0)}, (55296, 288)),
    "0.32.0-api2-load-4streams": ({"0": (4, 0)}, (7638, 4)),
    "0.32.0-api2-idle-after": ({"0": (0, 0)}, (12000, 12)),
    "0.32.0-dp2-load-5streams": ({"0": (2, 0), "1": (3, 0)}, (5349, 5)),
    "0.32.0-dp2-idle-after": ({"0": (0, 0), "1": (0, 0)}, (10000, 10)),
}
REAL_REFUSED = {
    "0.32.0-disable-log-stats": "--disable-log-stats",
    "0.32.0-api2-idle-start": "has no value yet",
    "0.32.0-dp2-idle-start": "has no value yet",
}


@pytest.mark.parametrize("name", REAL)
def test_a_real_page_is_read_right(name: str) -> None:
    snapshot = read(f"expositions/vllm-{name}.prom")
    levels, (tokens, finished) = REAL[name]
    assert levels == {key.engine_index: (sample.running, sample.waiting) for key, sample in snapshot.series.items()}
    assert (None, ()) == (snapshot.fault, snapshot.missing)
    for counter, expected in (("generation_tokens", tokens), ("finished_requests", finished)):
        assert expected == sum(sample.counters[counter] for sample in snapshot.series.values())
    outputs = sum(sample.counters["itl_seconds_count"] for sample in snapshot.series.values())
    first = sum(sample.counters["ttft_seconds_count"] for sample in snapshot.series.values())
    if "spec" not in name:  # the processes of one server are read one after the other
        assert tokens == pytest.approx(outputs + first, rel=0.002)


@pytest.mark.parametrize("name", REAL_REFUSED)
def test_a_real_page_without_the_gauge_is_refused(name: str) -> None:
    snapshot = read(f"expositions/vllm-{name}.prom")
    assert "no_known_metrics" == snapshot.fault
    assert REAL_REFUSED[name] in snapshot.detail


def test_every_real_page_is_in_a_test() -> None:
    names = {path.stem.removeprefix("vllm-") for path in (folder() / "expositions").glob("*.prom")}
    assert names == {*REAL, *REAL_REFUSED}


# --- public material: file -> (engine, levels by engine index, some counters) ----------------------------------------------

PUBLIC: dict[str, tuple[str, Levels, dict[str, float | None]]] = {
    "vllm-0.5.0-datadog-opt125m.prom": (
        "vllm",
        {"": (0, 0)},
        {"generation_tokens": 7, "prompt_tokens": 5, "itl_seconds_count": 6, "finished_requests": 1},
    ),
    "vllm-mixed-datadog-fixture-full.prom": ("vllm", {"": (0, 0)}, {"itl_seconds_count": 144}),
    "vllm-0.7.0-v0-aibrix-qwen-coder-1.5b.prom": (
        "vllm",
        {"": (0, 0)},
        {"generation_tokens": 955, "prompt_tokens": 148, "finished_requests": 4, "iterations": None},
    ),
    "vllm-0.7-v1-designdoc-excerpt.prom": (
        "vllm",
        {"": (8, None)},
        {"generation_tokens": 27453, "finished_requests": 132, "ttft_seconds_count": 140},
    ),
    "vllm-0.8.0-v1-noengine-excerpt.prom": ("vllm", {"": (0, 0)}, {}),
    "vllm-dp2-gaie2950-excerpt.prom": ("vllm", {"0": (0, None), "1": (0, None)}, {}),
    "ray-vllm-0.5.5-0.6.2-ray2.32-datadog-llama70b.prom": (
        "vllm",
        {"": (0, 0)},
        {"generation_tokens": 300, "prompt_tokens": 58, "itl_seconds_count": 299, "output_length_sum": 300},
    ),
    # Before it was called inter-token latency it counted a request that is not streamed once: no live tokens.
    "sglang-0.4.3-docs-llama8b-idle.prom": (
        "sglang",
        {"": (0, 0)},
        {"generation_tokens": None, "output_length_sum": 8, "prompt_tokens": 7, "ttft_seconds_count": 1},
    ),
    "sglang-0.4x-docs-llama8b-busy.prom": (
        "sglang",
        {"": (162, 2826)},
        {
            "generation_tokens": None,
            "output_length_sum": 7557572,
            "itl_seconds_count": 7400757,
            "prompt_tokens": 8128902,
            "finished_requests": 11228,
        },
    ),
    "sglang-0.4.4-pr4444-excerpt.prom": ("sglang", {"": (0, None)}, {}),
    "sglang-0.5.1-issue13485-excerpt.prom": ("sglang", {"": (1, None)}, {}),
    "llamacpp-2025-idle-after-load.prom": (
        "llama.cpp",
        {"": (0, None)},
        {"output_length_sum": 7801, "prompt_tokens": 33065, "iterations": 7831},
    ),
    "llamacpp-ik-2025-08-kvcache.prom": ("llama.cpp", {"": (0, None)}, {"output_length_sum": 3469}),
    "tgi-ibm-tgis-adapter-2024-excerpt.prom": ("tgi", {"": (0, 0)}, {}),
}
NO_GAUGE = "none says how many requests run"
PUBLIC_REFUSED = {
    "vllm-0.16-0.20-datadog-opt125m-partial.prom": NO_GAUGE,
    "vllm-0.10.0-glm45-created-excerpt.prom": NO_GAUGE,
    "vllm-0.11-multiapi8-kv-pid-excerpt.prom": NO_GAUGE,
    "vllm-0.7-lora-stale-series-excerpt.prom": NO_GAUGE,
    "vllm-0.26.0-families.txt": "no samples",
    "sglang-0.5-dp8-aibrix1614-excerpt.prom": NO_GAUGE,
    "llamacpp-b4687-nan.prom": NO_GAUGE,
    "trtllm-1.1.0rc5-dynamo-docs-illustrative.prom": "enable_iter_perf_stats",
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_page_is_read_right(name: str) -> None:
    snapshot = read(f"public/{name}")
    engine, levels, counters = PUBLIC[name]
    shown = {key.engine_index: (sample.running, sample.waiting) for key, sample in snapshot.series.items()}
    assert (engine, levels, None) == (snapshot.engine, shown, snapshot.fault)
    (first, *_) = snapshot.series.values()
    assert counters == {counter: first.counters.get(counter) for counter in counters}


@pytest.mark.parametrize("name", PUBLIC_REFUSED)
def test_a_public_page_without_the_gauge_is_refused(name: str) -> None:
    snapshot = read(f"public/{name}")
    assert "no_known_metrics" == snapshot.fault
    assert PUBLIC_REFUSED[name] in snapshot.detail


def test_of_what_public_excerpts_show_nothing_is_lost() -> None:
    (sample,) = read("public/vllm-0.11-multiapi8-kv-pid-excerpt.prom").series.values()
    assert 0.653 == pytest.approx(sample.kv_usage_ratio, abs=0.001)
    assert "test-lora" == read("public/vllm-0.7-lora-stale-series-excerpt.prom").facts["lora_running"]
    assert "alias_doubles" in read("public/vllm-mixed-datadog-fixture-full.prom").facts


def test_every_public_page_is_in_a_test() -> None:
    assert {path.name for path in (folder() / "public").iterdir()} == {*PUBLIC, *PUBLIC_REFUSED}
