"""TensorRT-LLM behind `trtllm-serve`, or re-exported by a worker of Dynamo.

Contains data alone. The gauges need `enable_iter_perf_stats`, what is counted per request `return_perf_metrics`.
"""

from __future__ import annotations

from opmon.core.engines.table import Asked, Constant, Engine, Kind, Part, Signal, Told, Words, first_of

_FINISHED = first_of("request_success_total", "num_requests_completed_total")

TRTLLM = Engine(
    name="trtllm",
    title="TensorRT-LLM (trtllm-serve)",
    page="trtllm.md",
    prefixes=("trtllm_",),
    model_label="model_name",
    index_label="",
    signals=(
        Signal("running", Kind.LEVEL, first_of("num_requests_running"), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of("num_requests_waiting"), pulse=True),
        Signal("kv_usage_ratio", Kind.RATIO, first_of("kv_cache_utilization"), pulse=True),
        Signal("prompt_tokens", Kind.COUNTER, first_of("prompt_tokens_total"), pulse=True),
        Signal("finished_requests", Kind.COUNTER, _FINISHED, pulse=True, is_alias=False),
        Signal("prefill_seconds", Kind.HISTOGRAM, first_of("request_prefill_time_seconds"), pulse=True),
        Signal("ttft_seconds", Kind.HISTOGRAM, first_of("time_to_first_token_seconds"), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, first_of("request_queue_time_seconds")),
        Signal("decode_seconds", Kind.HISTOGRAM, first_of("request_decode_time_seconds")),
        Signal("inference_seconds", Kind.HISTOGRAM, first_of("request_inference_time_seconds")),
        Signal("e2e_seconds", Kind.HISTOGRAM, first_of("e2e_request_latency_seconds")),
        # Per finished request, in spite of the name that vLLM gave to something else.
        Signal("tpot_seconds", Kind.HISTOGRAM, first_of("time_per_output_token_seconds")),
        Signal("prompt_length_sum", Kind.COUNTER, first_of("prompt_tokens_total")),
        Signal("prompt_length_count", Kind.COUNTER, _FINISHED, is_alias=False),
        Signal("output_length_sum", Kind.COUNTER, first_of("generation_tokens_total")),
        Signal("output_length_count", Kind.COUNTER, _FINISHED, is_alias=False),
        Signal("draft_tokens", Kind.COUNTER, first_of("spec_decode_num_draft_tokens_total"), optional=True),
        Signal("accepted_tokens", Kind.COUNTER, first_of("spec_decode_num_accepted_tokens_total"), optional=True),
    ),
    absent={
        "generation_tokens": "tokens are counted when a request ends, so no speed can be tied to a level",
        "itl_seconds": "only a mean per finished request",
        "preemptions": "TensorRT-LLM shows paused requests as a gauge, not as a counter",
        "iterations": "the time of the last iteration is a gauge; iterations are not counted",
    },
    # What it calls running are its active requests, so this is their limit.
    constants=(
        Constant(Part("max_num_active_requests"), "max_num_seqs"),
        Constant(Part("max_batch_size_static"), "max_batch_size"),
        Constant(Part("kv_cache_max_blocks"), "kv_blocks", is_identity=True),
    ),
    asks=(
        Asked("/version", (Told("version", "version"),)),
        Asked("/v1/models", lists_models=True),
    ),
    words=Words(
        running="num_requests_running: the executor's active requests",
        tokens="generation_tokens_total, which moves when a request ends: right over a window, not at a level",
        lengths="tokens of finished requests divided by finished requests; without buckets",
        check="none: there is no second way to the number running",
        ceiling="max_num_active_requests, a gauge on the page",
        no_running="the gauges need enable_iter_perf_stats: true",
    ),
)
