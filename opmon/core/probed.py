"""What a probe of several paths found: medians of each path, and how they stand to asking directly.

Contains no asking and no clock. Times are seconds from when a request was sent on an open connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median, quantiles

from opmon.core.turn import asks_for_prepended_tokens

DIRECT = "direct"
METHOD = (
    "every path answered the prompt once before, which is not counted: prefix caches are warm for all alike. Then the paths"
    " take turns, one round each, and every round begins with another one, so that drift of the server meets all of them."
    " Times begin when a request is sent on an open connection"
)
MOST_FAILURES_TOLD = 3


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request through a path. `began` and `ended` are readings of one clock, in seconds.

    `ttft_seconds`: to the first piece with a token in it; None where the answer was not streamed. `last_seconds`: to the
    last one, or to the end of the answer. `pieces`: how many had tokens in them. Tokens are as the path's usage says,
    None where it says nothing. `failure`: why it failed, empty where it did not.
    """

    began: float
    ended: float
    ttft_seconds: float | None = None
    last_seconds: float | None = None
    pieces: int = 0
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    has_reasoning: bool = False
    failure: str = ""

    @property
    def per_stream(self) -> float | None:
        """Output tokens per second, end to end."""
        return self.output_tokens / self.last_seconds if self.output_tokens and self.last_seconds else None

    @property
    def decode(self) -> float | None:
        """(output tokens - 1) / (elapsed - TTFT); None for an answer in one piece, where nobody saw it decode."""
        if self.output_tokens is None or self.output_tokens < 2 or self.pieces < 2:
            return None
        if self.ttft_seconds is None or self.last_seconds is None or self.last_seconds <= self.ttft_seconds:
            return None
        return (self.output_tokens - 1) / (self.last_seconds - self.ttft_seconds)


@dataclass(frozen=True, slots=True)
class ToDirect:
    """Path / direct. A speed below 1 and a TTFT above 1 are slower. null where either is not known."""

    ttft_ratio: float | None
    decode_ratio: float | None
    per_stream_ratio: float | None
    aggregate_ratio: float | None


@dataclass(frozen=True, slots=True)
class PathAnswer:
    """One path: medians over its good requests; aggregate over its rounds without a failure.

    Tokens are as the path's usage says, null where it says nothing. `prepended_tokens`: prompt tokens less those that the
    direct path counts for the same prompt.
    """

    path: str
    url: str
    model: str
    requests: int = 0
    failed_requests: int = 0
    ttft_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    per_stream_tokens_per_second: float | None = None
    aggregate_tokens_per_second: float | None = None
    e2e_seconds: float | None = None
    output_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    prepended_tokens: float | None = None
    to_direct: ToDirect | None = None
    asks: str | None = None
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """One prompt through several paths. `is_complete`: every path got all its requests, and all were answered.
    `stopped`: null, or why it ended before (`interrupted`, `deadline`)."""

    api: str
    prompt_characters: int
    max_tokens: int
    temperature: float
    concurrency: int
    requests: int
    is_complete: bool
    stopped: str | None
    method: str
    paths: tuple[PathAnswer, ...]


@dataclass(slots=True)
class Tried:
    """What became of a path so far: `rounds` of requests that were sent together. `dropped`: why it was given up."""

    path: str
    url: str
    model: str
    rounds: list[tuple[Exchange, ...]] = field(default_factory=list)
    dropped: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def good(self) -> list[Exchange]:
        return [one for together in self.rounds for one in together if not one.failure]

    @property
    def failed(self) -> list[Exchange]:
        return [one for together in self.rounds for one in together if one.failure]


def path_answers(tried: Sequence[Tried]) -> tuple[PathAnswer, ...]:
    """The answers of all paths; the first one is the direct one, which the others are compared with."""
    direct, *others = [_alone(one) for one in tried]
    spreads = [_spread(one) for one in tried]
    beside = [_beside(one, direct) for one in others]
    return (direct, *(_doubted(one, own, spreads[0]) for one, own in zip(beside, spreads[1:], strict=True)))


def is_complete(answers: Iterable[PathAnswer], requests: int) -> bool:
    """Whether every path answered all its requests."""
    return all(one.requests == requests and not one.failed_requests and not one.failures for one in answers)


def _alone(tried: Tried) -> PathAnswer:
    good = tried.good
    return PathAnswer(
        path=tried.path,
        url=tried.url,
        model=tried.model,
        requests=len(good),
        failed_requests=len(tried.failed),
        ttft_seconds=_median(one.ttft_seconds for one in good),
        decode_tokens_per_second=_median(one.decode for one in good),
        per_stream_tokens_per_second=_median(one.per_stream for one in good),
        aggregate_tokens_per_second=_aggregate(tried.rounds),
        e2e_seconds=_median(one.last_seconds for one in good),
        output_tokens=_median(one.output_tokens for one in good),
        prompt_tokens=_median(one.prompt_tokens for one in good),
        cached_tokens=_median(one.cached_tokens for one in good),
        failures=tuple(_failures(tried)),
        notes=(*tried.notes, *_notes(good)),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return float(median(known)) if known else None


def _aggregate(rounds: Sequence[tuple[Exchange, ...]]) -> float | None:
    """Output tokens of all streams / seconds from the first request of a round to its last answer, sum / sum."""
    tokens, seconds = 0, 0.0
    for together in rounds:
        if not together or any(one.failure for one in together):
            continue
        counts = [one.output_tokens for one in together]
        if any(count is None for count in counts):
            return None
        tokens += sum(count or 0 for count in counts)
        seconds += max(one.ended for one in together) - min(one.began for one in together)
    return tokens / seconds if tokens and seconds > 0 else None


def _failures(tried: Tried) -> Iterator[str]:
    """The reasons, the most frequent first, each with its number; then why the path was given up."""
    reasons = Counter(one.failure for one in tried.failed)
    for reason, times in reasons.most_common(MOST_FAILURES_TOLD):
        yield f"{reason} ({times} times)" if times > 1 else reason
    if len(reasons) > MOST_FAILURES_TOLD:
        yield f"and {len(reasons) - MOST_FAILURES_TOLD} other reasons"
    if tried.dropped:
        yield tried.dropped


def _notes(good: Sequence[Exchange]) -> Iterator[str]:
    if good and all(one.output_tokens is None for one in good):
        yield "no usage in its answers: tokens are not known, and so no speed"
    elif any(one.output_tokens is None for one in good):
        yield "some answers tell no usage: their tokens are not known and not counted"
    if any(one.ttft_seconds is None and not one.pieces for one in good):
        yield "answers whose tokens have no text: their TTFT is not known"
    if any(one.ttft_seconds is None and one.pieces for one in good):
        yield "answers that were not streamed: their TTFT is not known"
    if any(one.pieces == 1 and (one.output_tokens or 0) > 1 and one.ttft_seconds is not None for one in good):
        yield "several tokens in one piece: the path buffers, its TTFT is the time of the whole answer"
    if any(one.has_reasoning for one in good):
        yield "tokens of reasoning are counted like those of the answer"


def _beside(answer: PathAnswer, direct: PathAnswer) -> PathAnswer:
    prepended = None
    if answer.prompt_tokens is not None and direct.prompt_tokens is not None:
        prepended = answer.prompt_tokens - direct.prompt_tokens
    ratios = ToDirect(
        _ratio(answer.ttft_seconds, direct.ttft_seconds),
        _ratio(answer.decode_tokens_per_second, direct.decode_tokens_per_second),
        _ratio(answer.per_stream_tokens_per_second, direct.per_stream_tokens_per_second),
        _ratio(answer.aggregate_tokens_per_second, direct.aggregate_tokens_per_second),
    )
    beside = replace(
        answer, prepended_tokens=prepended, to_direct=ratios, notes=(*answer.notes, *_unlike(answer, direct))
    )
    return replace(beside, asks=_question(beside))


def _spread(tried: Tried) -> tuple[float, float] | None:
    """The middle half of a path's per-stream speeds, all of them where they are fewer than four; None for fewer than
    two."""
    speeds = sorted(speed for one in tried.good if (speed := one.per_stream) is not None)
    if len(speeds) < 2:
        return None
    if len(speeds) < 4:
        return speeds[0], speeds[-1]
    low, _, high = quantiles(speeds, n=4, method="inclusive")
    return low, high


def _doubted(answer: PathAnswer, own: tuple[float, float] | None, direct: tuple[float, float] | None) -> PathAnswer:
    """The answer with a note where its speeds and those of direct reach into each other."""
    ratio = None if answer.to_direct is None else answer.to_direct.per_stream_ratio
    if own is None or direct is None or ratio is None or 0.95 <= ratio <= 1.05:
        return answer
    if own[1] < direct[0] or direct[1] < own[0]:
        return answer
    words = (
        f"its per-stream speeds ({own[0]:.1f} to {own[1]:.1f} tok/s) reach into those of direct ({direct[0]:.1f} to"
        f" {direct[1]:.1f}): {ratio:.2f}x may be chance; more --requests tell"
    )
    return replace(answer, notes=(*answer.notes, words))


def _ratio(path: float | None, direct: float | None) -> float | None:
    return path / direct if path is not None and direct else None


def _unlike(answer: PathAnswer, direct: PathAnswer) -> Iterator[str]:
    """What makes the comparison lame."""
    outputs = _ratio(answer.output_tokens, direct.output_tokens)
    if outputs is not None and not 0.8 <= outputs <= 1.25:
        yield f"puts out {answer.output_tokens:g} tokens, direct {direct.output_tokens:g}: end-to-end speeds differ by that too"
    if direct.requests == 0 and answer.requests:
        yield "the direct path has no answer to compare with"


def _question(answer: PathAnswer) -> str | None:
    """The first question where a path is much slower than direct; None where it is not, or is not known."""
    ratio = None if answer.to_direct is None else answer.to_direct.per_stream_ratio
    if ratio is None or not asks_for_prepended_tokens(ratio, 1.0):
        return None
    words = f"{answer.path} runs at {ratio:.2f} of direct: ask first how many tokens it prepends"
    if answer.prepended_tokens is None:
        return f"{words}; its usage does not say"
    return f"{words}; by its own usage {answer.prepended_tokens:,.0f}"


def figures(answer: PathAnswer) -> Mapping[str, float | None]:
    """The row of a table: its columns in order."""
    ratios = answer.to_direct
    return {
        "TTFT s": answer.ttft_seconds,
        "decode tok/s": answer.decode_tokens_per_second,
        "per-stream tok/s": answer.per_stream_tokens_per_second,
        "aggregate tok/s": answer.aggregate_tokens_per_second,
        "end to end s": answer.e2e_seconds,
        "output": answer.output_tokens,
        "prompt": answer.prompt_tokens,
        "prepended": answer.prepended_tokens,
        "TTFT x": None if ratios is None else ratios.ttft_ratio,
        "per-stream x": None if ratios is None else ratios.per_stream_ratio,
    }
