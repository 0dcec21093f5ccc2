"""Second ways to the same number: what the counters say against what the samples say.

Each check names its likely cause and what to do where the two disagree. Contains no judgement of the window itself
(coverage, epochs, stalls); that is `doubts`.
"""

from __future__ import annotations

from dataclasses import dataclass

from opmon.core.answers import Check
from opmon.core.model import FIVE_MINUTES_MS
from opmon.core.occupancy import Weighting, busy_ms, mean
from opmon.core.sums import Sums, add_levels

MOST_IDLE_TOKENS_SHARE = 0.9
"""A server whose output comes while both neighbouring samples read 0 was hardly seen working."""
CURVE_SHARE = 0.8
"""So much of the busy time must lie at levels whose speed is known, for the step-weighted mean to be foretold."""

FEWEST_STEPS = 100


@dataclass(frozen=True, slots=True)
class Beside:
    """What the checks need beside the sums. `ceiling`: of running requests, all engines together. `alias_doubles`: the
    names of one signal that disagree, in words; '' where none do, None where no full page was read yet."""

    pulse_interval_ms: int
    engines: int = 1
    ceiling: int | None = None
    alias_doubles: str | None = None


def checks(sums: Sums, beside: Beside) -> tuple[Check, ...]:
    """Every check, whether it can be made or not."""
    return (
        _mean_running(sums, beside.pulse_interval_ms),
        _step_batch(sums, beside.engines),
        _tokens_while_idle(sums),
        _over_ceiling(sums, beside.ceiling),
        _alias_doubles(beside.alias_doubles),
    )


@dataclass(frozen=True, slots=True)
class CountedMean:
    """Mean running by counters: `low` where all that the counters leave out took no time, and `high` where it took the
    most that they allow. The same figure where the prefill time is counted; `high` None where nothing bounds it."""

    low: float
    high: float | None


def counted_mean_running(sums: Sums) -> CountedMean | None:
    """Mean running without sampling: `[inc(ITL sum) + inc(prefill sum)] / T` over the same pairs. None without ITL.

    Each output adds the time since the request's previous one, so the sum is the running integral after the first
    token. Where the prefill time is not counted (SGLang, old vLLM), it is at most the time to the first token less the
    time in the queue, as far as that is known.
    """
    decoding = _per_second(sums, "itl_seconds_sum")
    if decoding is None:
        return None
    prefill = sums.increases.get("prefill_seconds_sum")
    if prefill is not None:
        both = decoding + 1000 * prefill.total / sums.increases["itl_seconds_sum"].elapsed_ms
        return CountedMean(both, both)
    first_token, queue = _per_second(sums, "ttft_seconds_sum"), _per_second(sums, "queue_seconds_sum")
    if first_token is None:
        return CountedMean(decoding, None)
    return CountedMean(decoding, decoding + max(0.0, first_token - (queue or 0.0)))


def _per_second(sums: Sums, name: str) -> float | None:
    """A counter's increase per second of its own pairs; None where there are none."""
    found = sums.increases.get(name)
    return 1000 * found.total / found.elapsed_ms if found is not None and found.elapsed_ms else None


def counted_step_batch(sums: Sums) -> float | None:
    """Mean decoding requests per engine step: `D(ITL count) / D(iterations)`, each by its own elapsed time.

    None without either, or with fewer than `FEWEST_STEPS` steps.
    """
    outputs, steps = sums.increases.get("itl_seconds_count"), sums.increases.get("iterations")
    if outputs is None or steps is None or not outputs.elapsed_ms or steps.total < FEWEST_STEPS:
        return None
    return (outputs.total / outputs.elapsed_ms) / (steps.total / steps.elapsed_ms)


def expected_step_batch(sums: Sums) -> float | None:
    """The same from the samples: a step at level n takes n / A(n), A being the speed of pure pairs at n, so the mean
    over steps is `sum T A / sum (T A / n)`, less the share of running time that is prefill. Where the speeds are not
    known, all steps are taken to be equally long: the busy mean. None without busy time.
    """
    busy = busy_ms(sums.running)
    if not busy:
        return None
    speeds = {
        n: c.output_tokens / c.elapsed_ms for n, c in sums.curve.items() if n and c.elapsed_ms and c.output_tokens
    }
    known = {n: ms for n, ms in sums.running.items() if n in speeds}
    if sum(known.values()) >= CURVE_SHARE * busy:
        per_step = sum(ms * speeds[n] for n, ms in known.items()) / sum(ms * speeds[n] / n for n, ms in known.items())
    else:
        per_step = mean(sums.running, Weighting.BUSY) or 0.0
    decode, prefill = (sums.increases.get(name) for name in ("itl_seconds_sum", "prefill_seconds_sum"))
    if decode is None or prefill is None or decode.total <= 0:
        return per_step
    return per_step * decode.total / (decode.total + prefill.total)


def _mean_running(sums: Sums, pulse_interval_ms: int) -> Check:
    code = "mean_running"
    sampled, mean_counted = mean(sums.running, Weighting.TIME), counted_mean_running(sums)
    if sampled is None or mean_counted is None:
        missing = "no running level was observed" if sampled is None else "the server does not expose what it needs"
        counted = mean_counted.low if mean_counted else None
        return Check(code, None, sampled, counted, f"cannot be checked: {missing}")
    low, high = mean_counted.low, mean_counted.high
    if sums.increases["itl_seconds_sum"].elapsed_ms < FIVE_MINUTES_MS:
        return Check(code, None, sampled, low, "cannot be checked: it needs five minutes of counters")
    both = (sampled, _mean_with_stalled(sums))
    # The bound that is nearer to the samples: they agree with any figure between the two.
    counted = min(max(sampled, low), sampled if high is None else high)
    allowed = max(0.25 * counted, _allowed(pulse_interval_ms))
    agrees = any(low - allowed <= one and (high is None or one <= high + allowed) for one in both)
    words = f"mean running is {sampled:.2f} by samples and {_counted_words(low, high)}"
    if agrees and high is None and sampled > low + allowed:
        detail = f"cannot be checked: {words}, and the server does not expose how long"
        return Check(code, None, sampled, low, detail)
    detail = words if agrees else f"{words}; {_likely(sums, sampled, counted)}"
    return Check(code, agrees=agrees, sampled=sampled, counted=counted if high is not None else low, detail=detail)


def _counted_words(low: float, high: float | None) -> str:
    if high is None:
        return f"{low:.2f} by counters, without the time in prefill"
    if high == low:
        return f"{low:.2f} by counters"
    return f"{low:.2f} to {high:.2f} by counters, which tell the time in prefill only as part of the first token's"


def _allowed(pulse_interval_ms: int) -> float:
    """0.1 requests up to strata of 1 s, 0.3 at 5 s, linear between and beyond."""
    return 0.1 + 0.05 * max(0.0, pulse_interval_ms / 1000 - 1)


def _mean_with_stalled(sums: Sums) -> float:
    """The sampled mean with stalled strata at their gauges. A true stall books its time when it ends, a gauge left
    behind never does: either reading may be the one that the counters bear out."""
    together = dict(sums.running)
    add_levels(together, sums.stalled_running)
    return mean(together, Weighting.TIME) or 0.0


def _likely(sums: Sums, sampled: float, counted: float) -> str:
    if sampled > counted:
        return (
            "likely causes: a gauge left behind by aborted requests, long prefills that are still going on or were "
            "aborted, or counters that leave out an engine; look at the server's own log of running requests, and "
            "restart it if its gauge stays up while nothing runs"
        )
    preempted = sums.increases.get("preemptions")
    if preempted is not None and preempted.total > 0:
        return (
            f"likely cause: {preempted.total:.0f} preemptions, whose time out of the batch the counters include; "
            "trust the samples, and give the server more KV cache"
        )
    return (
        "likely causes: scrapes that are answered when the server is idle (a starved server or network), bursts "
        "shorter than the interval, or a running gauge that leaves out an engine; take the counted mean, and scrape "
        "at a shorter interval from nearer by"
    )


def _step_batch(sums: Sums, engines: int) -> Check:
    """More requests per step than samples ever saw is a finding; fewer is not, for steps may be counted twice."""
    code = "step_batch"
    sampled, counted = expected_step_batch(sums), counted_step_batch(sums)
    if sampled is None or counted is None:
        missing = "nothing was seen running" if sampled is None else "the server does not expose its steps, or made few"
        return Check(code, None, sampled, counted, f"cannot be checked: {missing}")
    if sums.increases["iterations"].elapsed_ms < FIVE_MINUTES_MS:
        return Check(code, None, sampled, counted, "cannot be checked: it needs five minutes of counters")
    words = f"a step of the engine decodes {counted:.2f} requests on average, by samples {sampled:.2f}"
    if engines > 1:
        words += f" over {engines} engines"
    allowed = max(0.25 * sampled, 0.5)
    if counted > sampled + allowed:
        detail = (
            f"{words}; likely causes: a running gauge that leaves out an engine, or bursts shorter than the interval "
            "that no sample met; scrape at a shorter interval, and compare the engines that are shown with those that "
            "were started"
        )
        return Check(code, agrees=False, sampled=sampled, counted=counted, detail=detail)
    if counted < sampled / engines - allowed:
        detail = (
            f"{words}: says nothing; likely causes: several API servers that each count the same step, or steps that "
            "only take in prompts"
        )
        return Check(code, None, sampled, counted, detail)
    return Check(code, agrees=True, sampled=sampled, counted=counted, detail=words)


def _tokens_while_idle(sums: Sums) -> Check:
    code = "tokens_while_idle"
    tokens = sums.increases.get("generation_tokens")
    sampled = mean(sums.running, Weighting.TIME)
    if sampled is None or tokens is None:
        return Check(code, None, sampled, None, "cannot be checked: no running level, or no count of output tokens")
    if sampled == 0 and tokens.total > 0:
        detail = (
            f"{tokens.total:.0f} output tokens were generated while every sample read 0 running; likely causes: "
            "requests shorter than the interval, scrapes answered only when the server is idle, or a dead gauge; take "
            "the counted mean, and scrape at a shorter interval"
        )
        return Check(code, agrees=False, sampled=sampled, counted=tokens.total, detail=detail)
    idle = sums.curve.get(0)
    if idle is not None and idle.output_tokens > MOST_IDLE_TOKENS_SHARE * tokens.total:
        detail = (
            f"{idle.output_tokens:.0f} of {tokens.total:.0f} output tokens were generated between two samples that both "
            "read 0 running; likely causes: a gauge that is dead most of the time, or requests shorter than the "
            "interval; do not trust the levels, and scrape at a shorter interval to tell which"
        )
        return Check(code, agrees=False, sampled=sampled, counted=idle.output_tokens, detail=detail)
    detail = "requests were seen running while tokens were generated, or none were"
    return Check(code, agrees=True, sampled=sampled, counted=tokens.total, detail=detail)


def _over_ceiling(sums: Sums, ceiling: int | None) -> Check:
    """`sampled` is the highest running level, `counted` the ceiling."""
    code = "over_ceiling"
    highest = max((level for level, ms in sums.running.items() if ms), default=None)
    known = None if ceiling is None else float(ceiling)
    if highest is None or ceiling is None:
        missing = "the ceiling is not known" if ceiling is None else "no running level was observed"
        return Check(code, None, highest, known, f"cannot be checked: {missing}")
    if highest <= ceiling:
        return Check(code, agrees=True, sampled=highest, counted=known, detail="no more ran than the ceiling allows")
    detail = (
        f"{highest} requests ran at once, above the ceiling of {ceiling}; likely causes: max_num_seqs is not what is "
        "configured here, or the page adds up several servers; correct max_num_seqs, or watch each server by itself"
    )
    return Check(code, agrees=False, sampled=highest, counted=known, detail=detail)


def _alias_doubles(doubles: str | None) -> Check:
    code = "alias_doubles"
    if doubles is None:
        return Check(
            code, None, None, None, "cannot be checked: no whole page with facts about the server was read yet"
        )
    if not doubles:
        return Check(
            code, agrees=True, sampled=None, counted=None, detail="no signal is shown under two names that differ"
        )
    detail = (
        f"one signal under two names with different values: {doubles}; likely causes: a proxy or sidecar that adds "
        "metrics of its own or of another server; the first name is used: watch the server itself, not what re-exports it"
    )
    return Check(code, agrees=False, sampled=None, counted=None, detail=detail)
