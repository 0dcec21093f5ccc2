"""SGLang, started with `--enable-metrics`.

Contains data alone. Every scheduler rank reports: those of tensor, pipeline and expert parallelism say the same thing
and are folded, those of data parallelism are engines of their own. What the tokenizer process counts has no rank.
"""

from __future__ import annotations

from opmon.core.engines.table import Asked, Constant, Engine, Kind, Part, Signal, Told, Words, added, first_of

_FIRST_TOKENS = "time_to_first_token_seconds_count"
_FINISHED = first_of("num_requests_total", "e2e_request_latency_seconds_count")

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    page="sglang.md",
    prefixes=("sglang:",),
    model_label="model_name",
    index_label="dp_rank",
    folded_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
    # The schedulers' gauges have a total with an empty `priority`; what is counted in front is counted once, under its own.
    totalled_labels=frozenset({"priority"}),
    signals=(
        Signal("running", Kind.LEVEL, first_of("num_running_reqs"), pulse=True),
        Signal(
            "waiting",
            Kind.LEVEL,
            first_of(added("num_queue_reqs", "num_grammar_queue_reqs"), "num_queue_reqs"),
            pulse=True,
            is_alias=False,
        ),
        Signal("kv_usage_ratio", Kind.RATIO, first_of("token_usage"), pulse=True),
        # Neither live counter has a request's first token. `generation_tokens_total` moves only at the end of a request,
        # and under its old name the inter-token latency has one observation for a whole request that is not streamed.
        Signal(
            "generation_tokens",
            Kind.COUNTER,
            first_of(
                added(Part("realtime_tokens_total", "mode", ("decode",)), _FIRST_TOKENS),
                added("inter_token_latency_seconds_count", _FIRST_TOKENS),
            ),
            pulse=True,
            is_alias=False,
        ),
        Signal(
            "prompt_tokens",
            Kind.COUNTER,
            first_of(
                Part("realtime_tokens_total", "mode", ("prefill_compute", "prefill_cache")), "prompt_tokens_total"
            ),
            pulse=True,
            is_alias=False,
        ),
        Signal("finished_requests", Kind.COUNTER, _FINISHED, pulse=True, is_alias=False),
        # A streamed chunk adds its whole interval to the sum and its number of tokens to the count.
        Signal(
            "itl_seconds",
            Kind.HISTOGRAM,
            first_of("inter_token_latency_seconds", "time_per_output_token_seconds"),
            pulse=True,
        ),
        Signal("ttft_seconds", Kind.HISTOGRAM, first_of("time_to_first_token_seconds"), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, first_of("queue_time_seconds")),
        Signal("e2e_seconds", Kind.HISTOGRAM, first_of("e2e_request_latency_seconds")),
        Signal("prompt_length_sum", Kind.COUNTER, first_of("prompt_tokens_total")),
        Signal("prompt_length_count", Kind.COUNTER, _FINISHED, is_alias=False),
        Signal("output_length_sum", Kind.COUNTER, first_of("generation_tokens_total")),
        Signal("output_length_count", Kind.COUNTER, _FINISHED, is_alias=False),
        Signal(
            "iterations",
            Kind.COUNTER,
            first_of(Part("cuda_graph_passes_total", "mode", ("decode_cuda_graph", "decode_none"))),
            optional=True,
        ),
    ),
    absent={
        "prefill_seconds": "SGLang splits a request's time into stages of its own instead",
        "decode_seconds": "SGLang splits a request's time into stages of its own instead",
        "inference_seconds": "SGLang splits a request's time into stages of its own instead",
        "tpot_seconds": "its old name time_per_output_token_seconds is the inter-token latency",
        "preemptions": "retracted requests are a gauge, not a counter",
    },
    constants=(
        Constant(Part("max_running_requests"), "max_num_seqs"),  # builds of 2024
        Constant(Part("context_len"), "max_model_len"),
        Constant(Part("max_total_num_tokens"), "kv_tokens", is_identity=True),
    ),
    asks=(
        Asked(
            "/server_info",
            (
                Told("version", "version"),
                Told("max_num_seqs", "internal_states.*.effective_max_running_requests_per_dp"),
                Told("max_num_seqs", "max_running_requests", shared_by="dp_size"),
                Told("max_model_len", "context_length"),
            ),
        ),
        Asked(
            "/get_server_info",  # its name until 2025
            (
                Told("version", "version"),
                Told("max_num_seqs", "internal_states.*.effective_max_running_requests_per_dp"),
                Told("max_num_seqs", "max_running_requests", shared_by="dp_size"),
                Told("max_model_len", "context_length"),
            ),
        ),
        Asked("/v1/models", lists_models=True),
    ),
    words=Words(
        running="num_running_reqs: one per data-parallel rank, the largest of its other ranks; up to 40 decode steps old",
        tokens='realtime_tokens_total{mode="decode"} of one rank plus first tokens; where it is absent, the count of '
        "inter-token latencies (which here counts tokens) plus first tokens",
        lengths="tokens of finished requests divided by finished requests; without buckets",
        check="rise of the inter-token latency sum, divided by time, is the mean number decoding; prefill is at most the "
        "time to the first token less the time in the queue",
        ceiling="max_running_requests per data-parallel rank, from /server_info",
        notes=("the running gauge may stay for up to 30 s after the last request (until July 2026)",),
    ),
)
