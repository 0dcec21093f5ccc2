"""Text Generation Inference (TGI). Its counters have no `_total`, and nothing is counted while a request runs.

Contains data alone.
"""

from __future__ import annotations

from opmon.core.engines.table import Asked, Constant, Engine, Kind, Part, Signal, Told, Words, first_of

_PER_BATCH = "TGI measures it per batch, not per request"

TGI = Engine(
    name="tgi",
    title="Text Generation Inference",
    page="tgi.md",
    prefixes=("tgi_",),
    model_label="",
    index_label="",
    signals=(
        Signal("running", Kind.LEVEL, first_of("batch_current_size"), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of("queue_size"), pulse=True),
        Signal("prompt_tokens", Kind.COUNTER, first_of("request_input_length_sum"), pulse=True),
        Signal("finished_requests", Kind.COUNTER, first_of("request_success"), pulse=True),
        # Prefill and decode batches alike: it moves while anything is computed.
        Signal("iterations", Kind.COUNTER, first_of("batch_inference_count"), pulse=True),
        Signal("queue_seconds", Kind.HISTOGRAM, first_of("request_queue_duration")),
        Signal("inference_seconds", Kind.HISTOGRAM, first_of("request_inference_duration")),
        Signal("e2e_seconds", Kind.HISTOGRAM, first_of("request_duration")),
        Signal("tpot_seconds", Kind.HISTOGRAM, first_of("request_mean_time_per_token_duration")),
        Signal("prompt_length", Kind.HISTOGRAM, first_of("request_input_length")),
        Signal("output_length", Kind.HISTOGRAM, first_of("request_generated_tokens")),
    ),
    absent={
        "generation_tokens": "tokens are counted when a request ends, so no speed can be tied to a level",
        "kv_usage_ratio": "TGI does not expose it",
        "preemptions": "TGI does not preempt",
        "itl_seconds": "only a mean per finished request",
        "prefill_seconds": _PER_BATCH,
        "decode_seconds": _PER_BATCH,
        "ttft_seconds": "TGI does not expose it",
    },
    constants=(Constant(Part("batch_max_total_tokens"), "batch_max_total_tokens"),),
    asks=(
        Asked(
            "/info",
            (
                Told("version", "version"),
                Told("models", "model_id"),
                Told("max_num_seqs", "max_batch_size"),
                Told("max_model_len", "max_total_tokens"),
                Told("max_concurrent_requests", "max_concurrent_requests"),
            ),
        ),
    ),
    words=Words(
        running="batch_current_size: the requests in the running batch",
        tokens="request_generated_tokens, which moves when a request ends: right over a window, not at a level",
        lengths="request_input_length and request_generated_tokens",
        check="none: there is no second way to the number running",
        ceiling="max_batch_size from /info, where it is set; else tokens limit the batch (batch_max_total_tokens). "
        "max_concurrent_requests is a limit of its router, not of the batch",
    ),
)
