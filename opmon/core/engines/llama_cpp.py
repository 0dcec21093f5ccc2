"""The server of llama.cpp, started with `--metrics`.

Contains data alone. Series have no labels. Tokens and times are credited when a slot is released, so there is no live
count of tokens; that the server works is seen by its count of decode calls. `n_busy_slots_per_decode` is a mean since
the start, and the two rate gauges change their meaning from build to build: none of them is read.
"""

from __future__ import annotations

from opmon.core.engines.table import Asked, Engine, Kind, Signal, Told, Words, first_of

_NO_HISTOGRAMS = "llama.cpp has no histograms"
_AT_RELEASE = "tokens are counted when a slot is released, so no speed can be tied to a level"

LLAMA_CPP = Engine(
    name="llama.cpp",
    title="llama.cpp server",
    page="llama-cpp.md",
    prefixes=("llamacpp:",),
    model_label="model",  # some builds and routers; upstream has no labels
    index_label="",
    signals=(
        Signal("running", Kind.LEVEL, first_of("requests_processing"), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of("requests_deferred"), pulse=True),
        Signal("kv_usage_ratio", Kind.RATIO, first_of("kv_cache_usage_ratio"), pulse=True, optional=True),  # to 2025-05
        Signal("prompt_tokens", Kind.COUNTER, first_of("prompt_tokens_total"), pulse=True),
        Signal("iterations", Kind.COUNTER, first_of("n_decode_total"), pulse=True, optional=True),
        Signal("output_length_sum", Kind.COUNTER, first_of("tokens_predicted_total")),
        Signal("decode_seconds_sum", Kind.COUNTER, first_of("tokens_predicted_seconds_total")),
        Signal("drafts", Kind.COUNTER, first_of("spec_decode_num_drafts_total"), optional=True),
        Signal("draft_tokens", Kind.COUNTER, first_of("spec_decode_num_draft_tokens_total"), optional=True),
        Signal("accepted_tokens", Kind.COUNTER, first_of("spec_decode_num_accepted_tokens_total"), optional=True),
    ),
    absent={
        "generation_tokens": _AT_RELEASE,
        "finished_requests": "llama.cpp does not count requests",
        "preemptions": "a slot is never preempted",
        "itl_seconds": _NO_HISTOGRAMS,
        "prefill_seconds": _NO_HISTOGRAMS,
        "ttft_seconds": _NO_HISTOGRAMS,
        "queue_seconds": _NO_HISTOGRAMS,
        "inference_seconds": _NO_HISTOGRAMS,
        "e2e_seconds": _NO_HISTOGRAMS,
        "tpot_seconds": _NO_HISTOGRAMS,
        "prompt_length": "llama.cpp does not count requests, so there is no mean over them",
        "output_length": "llama.cpp does not count requests, so there is no mean over them",
    },
    asks=(
        Asked(
            "/props",
            (
                Told("version", "build_info"),
                Told("max_num_seqs", "total_slots"),
                Told("max_model_len", "default_generation_settings.n_ctx"),
            ),
        ),
        Asked("/v1/models", lists_models=True),
    ),
    words=Words(
        running="requests_processing: busy slots, in prefill or generating",
        tokens="tokens_predicted_total, which jumps when a slot is released: right over a window, not at a level",
        lengths="not exposed: requests are not counted",
        check="none: there is no second way to the number running",
        ceiling="total_slots, from /props",
        notes=(
            "/metrics answers only between two decode calls: allow a timeout of 30 s, and strata of 5 s or more",
            "prompt tokens found in the cache are not in prompt_tokens_total",
        ),
    ),
)
