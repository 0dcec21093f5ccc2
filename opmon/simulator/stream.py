"""One engine's configuration, one request, and the request inside the engine.

Contains no scheduling and no books. Tokens are counts, instants float milliseconds of simulated time, and progress is
read from the engine's clock of steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

DUE_STEPS = 1e-7  # rounding that accumulates on the clock of steps
WHOLE_TOKEN = 1e-6


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """One engine as it was started. `step_ms`, `step_ms_per_stream`, `step_ms_per_prompt_token` are a, b and c.

    `draft_positions` 0 means no speculative decoding. `aborts_freeze_gauges`: when everything in flight is aborted at
    once, the gauges keep their last values until the next request (seen in vLLM 0.9.1 to 0.10.1, vllm issue 22545).
    `prompt_kv_at_once`: the KV blocks of a prompt are taken when it is scheduled, not chunk by chunk, so that nothing
    at all moves during a long prefill.
    """

    model_name: str = "simulated-27b"
    engine_index: str = "0"
    max_num_seqs: int = 64
    max_model_len: int = 131_072
    step_ms: float = 28.6
    step_ms_per_stream: float = 5.4
    step_ms_per_prompt_token: float = 0.73
    max_num_batched_tokens: int = 2048
    kv_blocks: int = 65_536
    block_size: int = 16
    draft_positions: int = 0
    aborts_freeze_gauges: bool = False
    prompt_kv_at_once: bool = False

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self.kv_blocks * self.block_size


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, and how it will end. `patience_ms`: the client hangs up after so long, if not None."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    acceptance_length: float = 1.0
    max_tokens: int = 4096
    finish_reason: str = "stop"
    patience_ms: float | None = None


@dataclass(slots=True, eq=False)
class Stream:
    """One request inside the engine. `origin` is the reading of the step clock at which its decoding began."""

    request: Request
    arrived_ms: float
    steps_total: int
    tokens_per_step: float
    accepted_by_position: tuple[float, ...]
    to_compute: int
    scheduled_ms: float | None = None
    first_token_ms: float | None = None
    last_output_ms: float = 0.0
    origin: float = 0.0
    steps_done: int = 0
    preemptions: int = 0
    booked_tokens: int = 0
    booked_chunks: int = 0

    @property
    def end_step(self) -> float:
        return self.origin + self.steps_total

    def chunks(self, steps: float) -> int:
        """Whole steps since the first token when the step clock reads `steps`."""
        return min(self.steps_total, int(steps - self.origin + DUE_STEPS))

    def tokens_after(self, chunks: int) -> int:
        """Output tokens after so many steps; the first token comes from the prefill."""
        return 1 + int(self.tokens_per_step * chunks + WHOLE_TOKEN)


def enter(request: Request, config: EngineConfig, now_ms: float) -> Stream:
    """A request as the engine takes it in: whole steps, and the tokens of a step so that exactly the output results."""
    positions = config.draft_positions
    longest = min(request.acceptance_length, positions + 1.0) if positions else 1.0
    rest = request.output_tokens - 1
    steps = max(1, round(rest / longest), ceil(rest / (positions + 1))) if rest else 0
    per_step = rest / steps if steps else 1.0
    accepted = acceptance_by_position(per_step - 1.0, positions)
    return Stream(request, now_ms, steps, per_step, accepted, max(1, request.prompt_tokens - request.cached_tokens))


@lru_cache(maxsize=4096)
def acceptance_by_position(accepted: float, positions: int) -> tuple[float, ...]:
    """Accepted draft tokens per step at each position, falling geometrically, `accepted` in all."""
    if positions == 0 or accepted <= 0:
        return (0.0,) * positions
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**p for p in range(1, positions + 1)) < accepted else (low, middle)
    shares = [high**p for p in range(1, positions + 1)]
    scale = accepted / sum(shares)
    return tuple(min(1.0, share * scale) for share in shares)
