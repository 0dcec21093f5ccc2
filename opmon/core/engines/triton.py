"""The TensorRT-LLM backend of Triton: gauges alone, on Triton's metrics port.

Contains data alone. Triton's vLLM backend is not here: it exposes vLLM's names without a running gauge.
"""

from __future__ import annotations

from opmon.core.engines.table import Constant, Engine, Kind, Part, Signal, Words, first_of

_GAUGES_ALONE = "the backend exposes gauges alone"

TRITON = Engine(
    name="triton",
    title="Triton with the TensorRT-LLM backend",
    page="triton.md",
    prefixes=("nv_trt_llm_",),
    model_label="model",
    index_label="",
    signals=(
        Signal("running", Kind.LEVEL, first_of(Part("request_metrics", "request_type", ("scheduled",))), pulse=True),
        Signal("waiting", Kind.LEVEL, first_of(Part("request_metrics", "request_type", ("waiting",))), pulse=True),
        Signal(
            "kv_usage_ratio",
            Kind.RATIO,
            first_of(Part("kv_cache_block_metrics", "kv_cache_block_type", ("fraction",))),
            pulse=True,
        ),
    ),
    absent=dict.fromkeys(
        (
            "generation_tokens",
            "prompt_tokens",
            "finished_requests",
            "preemptions",
            "itl_seconds",
            "prefill_seconds",
            "ttft_seconds",
            "queue_seconds",
            "decode_seconds",
            "inference_seconds",
            "e2e_seconds",
            "tpot_seconds",
            "prompt_length",
            "output_length",
            "iterations",
        ),
        _GAUGES_ALONE,
    ),
    # A limit of active requests, of which those scheduled are a part: no ceiling of running.
    constants=(Constant(Part("request_metrics", "request_type", ("max",)), "max_num_active_requests"),),
    words=Words(
        running='request_metrics{request_type="scheduled"}',
        tokens="not exposed",
        lengths="not exposed",
        check="none: there is no second way to the number running",
        ceiling="not exposed: set max_num_seqs to the model's max_batch_size",
        notes=("a stall is noticed only by the use of the KV cache",),
    ),
)
