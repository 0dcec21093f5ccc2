"""LMDeploy's API server, started with metrics.

Contains data alone. Its gauges are written every 10 s: a pulse that comes more often reads copies.
"""

from __future__ import annotations

from opmon.core.engines.table import Asked, Engine, Info, Kind, Signal, Words, first_of

LMDEPLOY = Engine(
    name="lmdeploy",
    title="LMDeploy",
    page="lmdeploy.md",
    prefixes=("lmdeploy:",),
    model_label="model_name",
    index_label="engine",
    signals=(
        Signal("running", Kind.LEVEL, first_of("num_requests_running"), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of("num_requests_waiting"), pulse=True),
        Signal("kv_usage_ratio", Kind.RATIO, first_of("gpu_cache_usage_perc"), pulse=True),
        Signal("generation_tokens", Kind.COUNTER, first_of("generation_tokens_total"), pulse=True),
        Signal("prompt_tokens", Kind.COUNTER, first_of("prompt_tokens_total"), pulse=True),
        Signal("finished_requests", Kind.COUNTER, first_of("request_success_total"), pulse=True),
        # The older name alone meant the time since the output before, too.
        Signal(
            "itl_seconds",
            Kind.HISTOGRAM,
            first_of("iter_token_latency", "time_per_output_token_seconds"),
            pulse=True,
            is_alias=False,
        ),
        Signal("prefill_seconds", Kind.HISTOGRAM, first_of("request_prefill_time_seconds"), pulse=True),
        Signal("ttft_seconds", Kind.HISTOGRAM, first_of("time_to_first_token_seconds"), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, first_of("request_queue_time_seconds")),
        Signal("decode_seconds", Kind.HISTOGRAM, first_of("request_decode_time_seconds")),
        Signal("inference_seconds", Kind.HISTOGRAM, first_of("request_inference_time_seconds")),
        Signal("e2e_seconds", Kind.HISTOGRAM, first_of("e2e_request_latency_seconds")),
        Signal("prompt_length", Kind.HISTOGRAM, first_of("request_prompt_tokens")),
        Signal("output_length", Kind.HISTOGRAM, first_of("request_generation_tokens")),
        Signal("drafts", Kind.COUNTER, first_of("spec_decode_num_drafts_total"), optional=True),
        Signal("draft_tokens", Kind.COUNTER, first_of("spec_decode_num_draft_tokens_total"), optional=True),
        Signal("accepted_tokens", Kind.COUNTER, first_of("spec_decode_num_accepted_tokens_total"), optional=True),
    ),
    absent={
        "tpot_seconds": "per output, not per request",
        "preemptions": "LMDeploy does not expose it",
        "iterations": "its iteration_tokens_total is observed once for each output of a request, not once a step",
    },
    infos=(Info("backend_config_info", facts={"max_num_seqs": "max_batch_size", "max_model_len": "session_len"}),),
    asks=(Asked("/v1/models", lists_models=True),),
    words=Words(
        running="num_requests_running, written every 10 s",
        tokens="generation_tokens_total, as the tokens leave the engine",
        lengths="request_prompt_tokens and request_generation_tokens, of finished requests",
        check="rise of the inter-token latency sum plus the prefill sum, divided by time, is the mean number running",
        ceiling="max_batch_size, a label of backend_config_info",
        notes=("the gauges are written every 10 s: set pulse_interval to 10s, anything quicker reads copies",),
    ),
)
