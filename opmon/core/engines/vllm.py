"""vLLM: every version from 0.4 on, the old engine (V0) and the new one (V1), itself or re-exported by Ray Serve.

Contains data alone. Names are matched exactly: a family's `..._created` sibling is a gauge that holds a date and must
never be read as the counter, and `iteration_tokens_total` is a histogram in spite of its name.
"""

from __future__ import annotations

from opmon.core.engines.table import (
    Asked,
    Engine,
    Info,
    Kind,
    Labelled,
    Part,
    Signal,
    Sleep,
    Told,
    Words,
    first_of,
)

# Only the old engine shows one of these.
_OLD_ENGINE = ("num_requests_swapped", "cpu_cache_usage_perc", "cpu_prefix_cache_hit_rate")
# With this counter, the old engine's speculation: it adds running totals to its counters, which grow as a square.
_OLD_SPECULATION = ("spec_decode_num_emitted_tokens_total",)

VLLM = Engine(
    name="vllm",
    title="vLLM",
    page="vllm.md",
    # Ray re-exports with its own prefix: a colon until vLLM 0.10.2, an underscore from 0.11.0.
    prefixes=("vllm:", "ray_vllm:", "ray_vllm_"),
    model_label="model_name",
    index_label="engine",  # from 0.8.3
    # 0.9.2 to 0.11.0 show kv_cache_usage_perc once per API server process, all but one of them 0.
    folded_labels=frozenset({"pid"}),
    signals=(
        Signal("running", Kind.LEVEL, first_of("num_requests_running"), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of("num_requests_waiting"), pulse=True),
        # A share of 1 in spite of "perc". 0.9.2 to 0.10.x show both names.
        Signal("kv_usage_ratio", Kind.RATIO, first_of("kv_cache_usage_perc", "gpu_cache_usage_perc"), pulse=True),
        Signal("generation_tokens", Kind.COUNTER, first_of("generation_tokens_total"), pulse=True),
        Signal("prompt_tokens", Kind.COUNTER, first_of("prompt_tokens_total"), pulse=True),
        Signal("finished_requests", Kind.COUNTER, first_of("request_success_total"), pulse=True),
        Signal("preemptions", Kind.COUNTER, first_of("num_preemptions_total"), pulse=True),
        # Before 0.10.2 the old name alone, until 0.11.x both with the same data.
        Signal(
            "itl_seconds",
            Kind.HISTOGRAM,
            first_of("inter_token_latency_seconds", "time_per_output_token_seconds"),
            pulse=True,
        ),
        Signal("prefill_seconds", Kind.HISTOGRAM, first_of("request_prefill_time_seconds"), pulse=True),
        Signal("ttft_seconds", Kind.HISTOGRAM, first_of("time_to_first_token_seconds"), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, first_of("request_queue_time_seconds")),
        Signal("decode_seconds", Kind.HISTOGRAM, first_of("request_decode_time_seconds")),
        Signal("inference_seconds", Kind.HISTOGRAM, first_of("request_inference_time_seconds")),
        Signal("e2e_seconds", Kind.HISTOGRAM, first_of("e2e_request_latency_seconds")),
        Signal("tpot_seconds", Kind.HISTOGRAM, first_of("request_time_per_output_token_seconds")),
        Signal("prompt_length", Kind.HISTOGRAM, first_of("request_prompt_tokens")),
        Signal("output_length", Kind.HISTOGRAM, first_of("request_generation_tokens")),
        Signal(
            "drafts",
            Kind.COUNTER,
            first_of("spec_decode_num_drafts_total"),
            optional=True,
            voided_by=_OLD_SPECULATION,
        ),
        Signal(
            "draft_tokens",
            Kind.COUNTER,
            first_of("spec_decode_num_draft_tokens_total"),
            optional=True,
            voided_by=_OLD_SPECULATION,
        ),
        Signal(
            "accepted_tokens",
            Kind.COUNTER,
            first_of("spec_decode_num_accepted_tokens_total"),
            optional=True,
            voided_by=_OLD_SPECULATION,
        ),
        # Blocks until 0.8.5, tokens since; their quotient is the same. 0.9.2 to 0.10.x show both names.
        Signal(
            "prefix_queries",
            Kind.COUNTER,
            first_of("prefix_cache_queries_total", "gpu_prefix_cache_queries_total"),
            optional=True,
        ),
        Signal(
            "prefix_hits",
            Kind.COUNTER,
            first_of("prefix_cache_hits_total", "gpu_prefix_cache_hits_total"),
            optional=True,
        ),
        # The old engine records every 10 s whether it works or not: its count is no count of steps.
        Signal("iterations", Kind.COUNTER, first_of("iteration_tokens_total_count"), voided_by=_OLD_ENGINE),
    ),
    infos=(
        Info(
            "cache_config_info",
            identity={"kv_blocks": "num_gpu_blocks"},
            facts={
                "kv_cache_max_concurrency": "kv_cache_max_concurrency",
                "kv_cache_size_tokens": "kv_cache_size_tokens",
                "kv_block_size": "block_size",
            },
        ),
        # A new combination of adapters is a new series and the old ones stay; the value is the instant of writing.
        Info(
            "lora_requests_info",
            facts={
                "lora_running": "running_lora_adapters",
                "lora_waiting": "waiting_lora_adapters",
                "lora_limit": "max_lora",
            },
            latest=True,
        ),
    ),
    created=("generation_tokens_created",),
    counted=(Labelled("spec_decode_num_accepted_tokens_per_pos_total", "position", "speculative_positions"),),
    marks=((_OLD_ENGINE, "engine_generation", "V0"),),
    sleep=Sleep(Part("engine_sleep_state", "sleep_state", ("awake",)), "sleep_state"),
    length_families=(("prompt_length", "max_model_len_at_least"),),
    swapped={"0.6.4": {"prefill_seconds": "decode_seconds", "decode_seconds": "prefill_seconds"}},
    asks=(
        Asked("/version", (Told("version", "version"),)),
        Asked("/v1/models", lists_models=True),
        # A server in development mode only. Its shape differs between versions: a tree of fields, or text of them.
        Asked(
            "/server_info?config_format=json",
            (Told("max_num_seqs", "**max_num_active_seqs"), Told("max_num_seqs", "**max_num_seqs")),
        ),
    ),
    filters=True,
    words=Words(
        running="num_requests_running, set at the end of each engine step; a request that is still in prefill counts",
        tokens="generation_tokens_total, as the tokens leave the engine",
        lengths="request_prompt_tokens and request_generation_tokens, of finished requests",
        check="rise of the inter-token latency sum plus the prefill sum, divided by time, is the mean number running",
        ceiling="max_num_seqs, which only a server in development mode tells (/server_info); no metric has it",
        notes=("adapters (LoRA) are counted under their base model",),
        no_running="several API server processes show a gauge only once it was written",
    ),
)
