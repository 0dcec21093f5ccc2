"""Pages that look like an engine's and are none, and why a page that names an engine may still say nothing.

A router that shows an engine's names beside the engine itself would count every request twice. Contains data alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opmon.core.engines.table import Constant, Part


@dataclass(frozen=True, slots=True)
class Stranger:
    """Something that shows an engine's names and is no engine.

    `names`: one of these, exposed exactly so, gives it away; `label`: or this label on the gauge of running requests.
    `is_refused`: its values are those of engines which are watched themselves; else they are read, with `words` beside.
    """

    title: str
    words: str
    names: tuple[str, ...] = ()
    label: str = ""
    is_refused: bool = True


@dataclass(frozen=True, slots=True)
class Clue:
    """Why nothing can be said: a line that begins so (a sample, or a comment about it), and the words.

    `engine`: only on a page of this engine, None: only on a page of no engine. `is_refused`: it is no engine at all.
    """

    start: re.Pattern[bytes]
    words: str
    engine: str | None = None
    is_refused: bool = False


def _line(*starts: str) -> re.Pattern[bytes]:
    return re.compile(
        rb"^(?:# (?:HELP|TYPE) )?(?:%s)" % b"|".join(re.escape(one.encode()) for one in starts), re.MULTILINE
    )


STRANGERS: tuple[Stranger, ...] = (
    Stranger(
        "a router (vLLM production-stack)",
        "a router that shows its engines' requests under their own names: reading it beside them would count every "
        "request twice; name the engines as targets instead",
        names=(
            "vllm:current_qps",
            "vllm:healthy_pods_total",
            "vllm:num_incoming_requests_total",
            "vllm:avg_decoding_length",
            "vllm:num_prefill_requests",
            "vllm:num_decoding_requests",
        ),
        label="server",
    ),
    *(
        Stranger(
            "a page that joins several servers",
            f"its gauges carry the label {label}, as a federating Prometheus or a balancer adds it: such a page hides "
            "the restart of each part, and would count what is watched itself twice; name the servers as targets",
            label=label,
        )
        for label in ("instance", "backend", "upstream", "worker")
    ),
    Stranger(
        "llm-d-inference-sim",
        "llm-d-inference-sim, a simulator of vLLM: its numbers are made up",
        names=("vllm:prefix_cache_hits", "vllm:max_num_generation_tokens_count"),
        is_refused=False,
    ),
)

# The first that fits is told.
CLUES: tuple[Clue, ...] = (
    Clue(
        _line("nv_inference_", "nv_gpu_", "nv_cpu_", "nv_model_"),
        "Triton's vLLM backend exposes no number of running requests",
        engine="vllm",
    ),
    Clue(
        _line("dynamo_frontend_"),
        "the frontend of Dynamo, no engine: it counts what passes through it; name the system port of each worker "
        "(DYN_SYSTEM_PORT) as a target instead",
        is_refused=True,
    ),
    Clue(
        _line("llm_d_epp_", "inference_pool_", "inference_objective_", "inference_extension_"),
        "a router of llm-d or the Gateway API, no engine: its view is that of a pool; name the engines instead",
        is_refused=True,
    ),
    Clue(_line("litellm_"), "a LiteLLM gateway, no engine; name the engines behind it instead", is_refused=True),
    Clue(
        _line("aibrix:"),
        "the aibrix runtime, which renames its engine's metrics; name the engine's own port instead",
        is_refused=True,
    ),
    Clue(_line("nv_inference_"), "Triton with a backend that does not say how many requests run"),
)

# What such pages tell of the engines behind them, under its exposed name.
FOREIGN_CONSTANTS: tuple[Constant, ...] = (Constant(Part("dynamo_frontend_model_max_num_seqs"), "max_num_seqs"),)
