"""Which readers there are, in the order in which they are asked.

Contains the list and nothing else. A reader's `recognises` must be true of its own files only, so the order matters for
speed alone; but tables by hand come last, because tools write tables too whose columns have such names.
"""

from __future__ import annotations

from opmon.sweeps.aiperf import AIPERF
from opmon.sweeps.evalscope import EVALSCOPE
from opmon.sweeps.genaibench import GENAI_BENCH
from opmon.sweeps.genaiperf import GENAI_PERF
from opmon.sweeps.guidellm import GUIDELLM
from opmon.sweeps.hf_benchmarker import HF_BENCHMARKER
from opmon.sweeps.inferenceperf import INFERENCE_PERF
from opmon.sweeps.inferencex import INFERENCEX
from opmon.sweeps.llamabatched import LLAMA_BATCHED_BENCH
from opmon.sweeps.llamabench import LLAMA_BENCH
from opmon.sweeps.llamabenchy import LLAMA_BENCHY
from opmon.sweeps.llm_optimizer import LLM_OPTIMIZER
from opmon.sweeps.llmd_report import LLMD_REPORT
from opmon.sweeps.llmperf import LLMPERF
from opmon.sweeps.markdown import MARKDOWN
from opmon.sweeps.mlperf import MLPERF
from opmon.sweeps.reading import Reader
from opmon.sweeps.sglang import SGLANG
from opmon.sweeps.table import TABLE
from opmon.sweeps.vllm import VLLM
from opmon.sweeps.yaml_table import YAML_TABLE

READERS: tuple[Reader, ...] = (
    VLLM,
    INFERENCEX,
    AIPERF,
    GENAI_PERF,
    GUIDELLM,
    LLMPERF,
    SGLANG,
    GENAI_BENCH,
    INFERENCE_PERF,
    LLAMA_BENCH,
    LLAMA_BATCHED_BENCH,
    LLAMA_BENCHY,
    EVALSCOPE,
    HF_BENCHMARKER,
    LLM_OPTIMIZER,
    LLMD_REPORT,
    MLPERF,
    TABLE,
    MARKDOWN,
    YAML_TABLE,
)
