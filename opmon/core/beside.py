"""The shapes of the live curve beside a sweep: one level, and where to look when the two differ.

Contains values only; how they come about is `opmon.core.recommend.live_curve` and `look_first`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LevelBeside:
    """The server's own speed at one level beside a cell of a sweep (output tokens of all requests per second).

    `cell_aggregate`: as the sweep states it, median of repeats. `cell_decode`: with the time of the prefill taken out,
    which is what `live` is compared with: pure pairs of scrapes hold none. `live` is None, and `difference_ratio`
    (live / cell - 1) with it, under 30 s of pure pairs. `agrees` is None where there is no difference to judge.
    """

    content: str
    configuration: str
    concurrency: float
    live_seconds: float
    live_tokens_per_second: float | None
    cell_aggregate_tokens_per_second: float | None
    cell_decode_tokens_per_second: float | None
    difference_ratio: float | None
    agrees: bool | None
    words: str


@dataclass(frozen=True, slots=True)
class LookFirst:
    """One axis on which live server and cell may differ, the likeliest first. `octaves`: None where one is not known."""

    axis: str
    cell: float | str | None
    live: float | str | None
    octaves: float | None
    words: str


@dataclass(frozen=True, slots=True)
class InferredContent:
    """What the live acceptance length says of the content, within one configuration. A reading: it decides nothing.

    `shares`: of output tokens, by content, None where two contents cannot be told apart. `acceptance_lengths`: of the
    configuration's cells, by content.
    """

    configuration: str
    live_acceptance_length: float
    acceptance_lengths: dict[str, float]
    nearest: str | None
    shares: dict[str, float] | None
    words: str
