"""What one engine has written down since its process started: counters and histograms, under vLLM's own names.

Contains no time and no scheduling: the engine says what happened, the books only add. Histograms accept fractions of
an observation, because the engine moves as a fluid between events; what they show is always whole and never falls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

SECONDS_PER_OUTPUT = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
SECONDS_TO_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)  # fmt: skip
SECONDS_PER_REQUEST = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
TOKENS_PER_ITERATION = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
)  # fmt: skip
PREEMPTIONS_PER_REQUEST = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CHOICES_PER_REQUEST = (1.0, 2.0, 5.0, 10.0, 20.0)
HTTP_SECONDS_FINE = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0,
)  # fmt: skip
HTTP_SECONDS_COARSE = (0.1, 0.5, 1.0)

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")
_WHOLE = 1e-6  # an observation that is complete but for rounding counts


def token_bounds(max_model_len: int) -> tuple[float, ...]:
    """The bounds 1, 2, 5, 10, 20, 50, ... up to the largest that is at most `max_model_len` tokens."""
    bounds: list[float] = []
    decade = 1
    while decade <= max_model_len:
        bounds += [float(decade * step) for step in (1, 2, 5) if decade * step <= max_model_len]
        decade *= 10
    return tuple(bounds)


class Histogram:
    """Observations by bound, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0.0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: float = 1.0) -> None:
        """Adds `times` observations of `value`."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def cumulative(self, count: int | None = None) -> list[int]:
        """Whole observations at or below each bound; the last is the count.

        With `count` given the histogram shows exactly so many in all: the fraction of an observation under way is
        not shown yet.
        """
        total, shown = 0.0, []
        for fraction in self.counts:
            total += fraction
            whole = int(total + _WHOLE)
            shown.append(whole if count is None else min(whole, count))
        if count is not None:
            shown[-1] = count
        return shown


@dataclass(slots=True)
class Books:
    """The counters of one engine in one process. Tokens and requests are counts, sums of time are seconds.

    `output_tokens` and `chunks` (outputs after a request's first) cover what has left the engine and is no longer
    running; the engine adds what its running streams have put out.
    """

    max_model_len: int
    draft_positions: int = 0
    output_tokens: int = 0
    chunks: int = 0
    prompt_tokens: int = 0
    prompt_tokens_cached: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISH_REASONS, 0))
    accepted_by_position: list[float] = field(default_factory=list)
    ttft: Histogram = field(default_factory=lambda: Histogram(SECONDS_TO_FIRST_TOKEN))
    itl: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_OUTPUT))
    tpot: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_OUTPUT))
    e2e: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_REQUEST))
    queue: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_REQUEST))
    inference: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_REQUEST))
    prefill: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_REQUEST))
    decode: Histogram = field(default_factory=lambda: Histogram(SECONDS_PER_REQUEST))
    iterations: Histogram = field(default_factory=lambda: Histogram(TOKENS_PER_ITERATION))
    request_preemptions: Histogram = field(default_factory=lambda: Histogram(PREEMPTIONS_PER_REQUEST))
    choices: Histogram = field(default_factory=lambda: Histogram(CHOICES_PER_REQUEST))
    http_fine: Histogram = field(default_factory=lambda: Histogram(HTTP_SECONDS_FINE))
    http_coarse: Histogram = field(default_factory=lambda: Histogram(HTTP_SECONDS_COARSE))
    prompt_length: Histogram = field(init=False)
    output_length: Histogram = field(init=False)
    max_output_length: Histogram = field(init=False)
    max_tokens: Histogram = field(init=False)
    prefill_computed: Histogram = field(init=False)

    def __post_init__(self) -> None:
        bounds = token_bounds(self.max_model_len)
        self.accepted_by_position = [0.0] * self.draft_positions
        self.prompt_length = Histogram(bounds)
        self.output_length = Histogram(bounds)
        self.max_output_length = Histogram(bounds)
        self.max_tokens = Histogram(bounds)
        self.prefill_computed = Histogram(bounds)
