"""Where a server really runs, over one window: every figure of the answer, from sums.

Contains no reading of rows, no clock and no choice of windows. Words about the result are in `sentence`, doubts about
it in `doubts`. All rates are increases over the elapsed time of the same pairs, never lifetime averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from opmon.core import doubts, sentence
from opmon.core.answers import (
    CeilingAnswer,
    Coverage,
    EpochSpan,
    Latency,
    Lengths,
    OperatingPoint,
    PrefixCache,
    Queue,
    Selector,
    Speculation,
    Spread,
    Throughput,
    Window,
)
from opmon.core.buckets import spread
from opmon.core.checks import Beside, checks
from opmon.core.occupancy import busy_ms, distribution
from opmon.core.sums import Sums, add


def operating_point(
    per_epoch: Mapping[int, Sums],
    *,
    window: Window,
    selector: Selector,
    epochs: Sequence[EpochSpan],
    ceiling: CeilingAnswer,
    pulse_interval_ms: int,
    engines: int = 1,
    alias_doubles: str | None = None,
) -> OperatingPoint:
    """The answer for a window, from its sums per epoch. Without any observed time all figures are None, with a reason.

    `epochs` are those that overlap the window, for the answer and its warning. `ceiling` comes without
    `reached_ratio`, which is filled in here. `engines` and `alias_doubles`: as `checks.Beside` has them. Where the sums of several targets were added up, so are their windows.
    """
    sums = Sums()
    for one in per_epoch.values():
        add(sums, one)
    covered = coverage(sums, window)
    reached = replace(ceiling, reached_ratio=reached_ratio(sums, ceiling.requests))
    found = queue(sums)
    checked = checks(sums, Beside(pulse_interval_ms, engines, ceiling.requests, alias_doubles))
    lower_bound = doubts.missing_while_busy(sums, doubts.unobserved_seconds(covered))
    return OperatingPoint(
        window=window,
        selector=selector,
        sentence=sentence.sentence(sums, covered, reached, lower_bound=lower_bound is not None),
        coverage=covered,
        epochs=tuple(epochs),
        ceiling=reached,
        running=distribution(sums.running, sums.observed_ms),
        in_system=distribution(sums.in_system, sums.observed_ms),
        waiting=distribution(sums.waiting, sums.observed_ms),
        queue=found,
        throughput=throughput(sums),
        lengths=lengths(sums),
        latency=latency(sums),
        speculation=speculation(sums),
        prefix_cache=prefix_cache(sums),
        checks=checked,
        warnings=doubts.warnings(sums, window, covered, epochs, checked),
    )


def coverage(sums: Sums, window: Window) -> Coverage:
    """Seconds per state; what no attempt accounts for is `gap`, so that the five add up to the window."""
    total_ms = max(round(window.seconds * 1000), sums.known_ms)
    return Coverage(
        ratio=sums.observed_ms / total_ms if total_ms else 0.0,
        observed_seconds=sums.observed_ms / 1000,
        down_seconds=sums.down_ms / 1000,
        invalid_seconds=sums.invalid_ms / 1000,
        stalled_seconds=sums.stalled_ms / 1000,
        gap_seconds=(total_ms - sums.known_ms) / 1000,
    )


def reached_ratio(sums: Sums, ceiling: int | None) -> float | None:
    """Share of busy observed time at or above the ceiling; None without a ceiling or without busy time."""
    busy = busy_ms(sums.running)
    if ceiling is None or not busy:
        return None
    return sum(ms for level, ms in sums.running.items() if level >= max(ceiling, 1)) / busy


def limited_ms(sums: Sums) -> int:
    """Milliseconds limited. Where the ceiling was not known, the window's largest running level stands in for it, as
    far as it was held flat with requests waiting."""
    return sums.limited_ms + (sums.flat_wait_ms.get(max(sums.running), 0) if sums.running else 0)


def queue(sums: Sums) -> Queue:
    """Shares of in-system busy time; None where waiting is not known or nothing was in the system."""
    preemptions = total_of(sums, "preemptions")
    busy = busy_ms(sums.in_system)
    if not busy:
        return Queue(preemptions=preemptions)
    limited = limited_ms(sums)
    return Queue(
        waiting_ratio=busy_ms(sums.waiting) / busy,
        limited_ratio=limited / busy,
        prefill_wait_ratio=(sums.limited_ms + sums.prefill_wait_ms - limited) / busy,
        preemptions=preemptions,
    )


def throughput(sums: Sums) -> Throughput:
    """Rates by pairs. The busy rate's denominator is the elapsed time times the share of busy strata."""
    tokens = sums.increases.get("generation_tokens")
    known = tokens is not None or sums.uncovered_tokens > 0
    # Some engines count tokens only at the end of a request: right over a window, at no level and in no minute.
    output = "generation_tokens" if known else "output_length_sum"
    return Throughput(
        output_tokens_per_second=rate_of(sums, output),
        busy_output_tokens_per_second=busy_rate(sums, output),
        peak_minute_output_tokens_per_second=sums.peak_minute_tokens_per_second,
        decode_tokens_per_second_per_stream=decode_speed(sums),
        requests_per_second=rate_of(sums, "finished_requests"),
        uncovered_tokens=sums.uncovered_tokens if known else None,
    )


def rate_of(sums: Sums, name: str) -> float | None:
    """Increase per second over its own pairs; None without a pair."""
    increase = sums.increases.get(name)
    return 1000 * increase.total / increase.elapsed_ms if increase is not None and increase.elapsed_ms else None


def busy_rate(sums: Sums, name: str) -> float | None:
    """Increase per busy second. Stalled strata have pairs too and are not busy; None without busy time."""
    rate = rate_of(sums, name)
    busy, paired = busy_ms(sums.running), sums.observed_ms + sums.stalled_ms
    return rate * paired / busy if rate is not None and busy else None


def decode_speed(sums: Sums) -> float | None:
    """Tokens per second of one stream while it decodes: (output - first tokens) / rise of the ITL sum."""
    output = total_of(sums, "generation_tokens")
    first = total_of(sums, "ttft_seconds_count")
    seconds = total_of(sums, "itl_seconds_sum")
    if output is None or first is None or not seconds:
        return None
    return max(output - first, 0.0) / seconds


def lengths(sums: Sums) -> Lengths:
    """Prompt and output tokens of finished requests."""
    return Lengths(_spread(sums, "prompt_length"), _spread(sums, "output_length"))


def latency(sums: Sums) -> Latency:
    """Mean and bucket quantiles of every latency family."""
    return Latency(
        ttft_seconds=_spread(sums, "ttft_seconds"),
        itl_seconds=_spread(sums, "itl_seconds"),
        tpot_seconds=_spread(sums, "tpot_seconds"),
        e2e_seconds=_spread(sums, "e2e_seconds"),
        queue_seconds=_spread(sums, "queue_seconds"),
        prefill_seconds=_spread(sums, "prefill_seconds"),
        decode_seconds=_spread(sums, "decode_seconds"),
    )


def speculation(sums: Sums) -> Speculation | None:
    """Acceptance length (1 + accepted / drafts) and share of draft tokens accepted; None without speculation."""
    drafts = total_of(sums, "drafts")
    accepted, proposed = total_of(sums, "accepted_tokens"), total_of(sums, "draft_tokens")
    if drafts is None or accepted is None:
        return None
    return Speculation(
        acceptance_length=1 + accepted / drafts if drafts else None,
        draft_acceptance_ratio=accepted / proposed if proposed else None,
    )


def prefix_cache(sums: Sums) -> PrefixCache | None:
    """Share of asked prompt tokens that were in the prefix cache; None where it is not exposed."""
    asked, found = total_of(sums, "prefix_queries"), total_of(sums, "prefix_hits")
    if asked is None or found is None:
        return None
    return PrefixCache(hit_ratio=found / asked if asked else None)


def total_of(sums: Sums, name: str) -> float | None:
    """A counter's increase over all its pairs; None without a pair."""
    increase = sums.increases.get(name)
    return increase.total if increase is not None else None


def _spread(sums: Sums, family: str) -> Spread:
    total, count = total_of(sums, family + "_sum"), total_of(sums, family + "_count")
    return spread(total, count, sums.buckets.get(family, ()))
