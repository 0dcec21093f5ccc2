"""What speaks against an operating point: second ways to the same number, and warnings with their values.

Contains no way to the numbers themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from opmon.core.answers import CeilingAnswer, Check, Coverage, EpochSpan, Warning_, Window
from opmon.core.model import FIVE_MINUTES_MS
from opmon.core.occupancy import Weighting, mean
from opmon.core.sentence import percent
from opmon.core.sums import Sums, add_levels

MISSING_FACTOR = 1.5
"""Running while unobserved, over this many times the observed mean, makes the operating point a lower bound."""

MATERIAL_SHARE = 0.01
"""... if what was missed is at least this share of all running time: one lost second in a week is no doubt. The same
share of output tokens outside all rates is worth a warning."""

LOW_COVERAGE = 0.9


def checks(sums: Sums, pulse_interval_ms: int) -> tuple[Check, ...]:
    """Both checks: the mean running by the counters, and tokens that no sample explains."""
    return (_mean_running(sums, pulse_interval_ms), _tokens_while_idle(sums))


def counted_mean_running(sums: Sums) -> float | None:
    """Mean running without sampling: `[inc(ITL sum) + inc(prefill sum)] / T` over the same pairs.

    Each output adds the time since the request's previous one, so the sum is the running integral. None without ITL.
    """
    itl, prefill = sums.increases.get("itl_seconds_sum"), sums.increases.get("prefill_seconds_sum")
    if itl is None or not itl.elapsed_ms:
        return None
    return 1000 * (itl.total + (prefill.total if prefill else 0.0)) / itl.elapsed_ms


def missing_while_busy(sums: Sums) -> tuple[float, float] | None:
    """Mean running while unobserved and while observed, if the first shows the point to be a lower bound."""
    if not sums.spanned_ms:
        return None
    missed = 1000 * sums.spanned_running_seconds / sums.spanned_ms
    observed = mean(sums.running, Weighting.TIME) or 0.0
    seen_seconds = sum(level * ms for level, ms in sums.running.items()) / 1000
    material = sums.spanned_running_seconds >= MATERIAL_SHARE * (seen_seconds + sums.spanned_running_seconds)
    return (missed, observed) if missed > MISSING_FACTOR * observed and material else None


def warnings(
    sums: Sums,
    window: Window,
    coverage: Coverage,
    epochs: Sequence[EpochSpan],
    ceiling: CeilingAnswer,
    found: Sequence[Check],
) -> tuple[Warning_, ...]:
    """All that a reader must know beside the figures, each with its values."""
    told = [
        _epochs(window, epochs),
        _coverage(coverage),
        _missing(sums),
        _uncovered(sums),
        _stalled(coverage),
        _over_ceiling(sums, ceiling),
        _bounds(sums),
        *(Warning_(check.code, check.detail) for check in found if check.agrees is False),
    ]
    return tuple(warning for warning in told if warning is not None)


def _mean_running(sums: Sums, pulse_interval_ms: int) -> Check:
    code = "mean_running"
    sampled, counted = mean(sums.running, Weighting.TIME), counted_mean_running(sums)
    if sampled is None or counted is None:
        missing = "no running level was observed" if sampled is None else "the server does not expose what it needs"
        return Check(code, None, sampled, counted, f"cannot be checked: {missing}")
    if sums.increases["itl_seconds_sum"].elapsed_ms < FIVE_MINUTES_MS:
        return Check(code, None, sampled, counted, "cannot be checked: it needs five minutes of counters")
    allowed = max(0.25 * counted, _allowed(pulse_interval_ms))
    agrees = min(abs(one - counted) for one in (sampled, _mean_with_stalled(sums))) <= allowed
    words = f"mean running is {sampled:.2f} by samples and {counted:.2f} by counters"
    detail = words if agrees else f"{words}; {_likely(sums, sampled, counted)}"
    return Check(code, agrees=agrees, sampled=sampled, counted=counted, detail=detail)


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
            "aborted, or counters that leave out an engine"
        )
    preempted = sums.increases.get("preemptions")
    if preempted is not None and preempted.total > 0:
        return f"likely cause: {preempted.total:.0f} preemptions, whose time out of the batch the counters include"
    return (
        "likely causes: scrapes that are answered when the server is idle (a starved server or network), bursts "
        "shorter than the interval, or a running gauge that leaves out an engine"
    )


def _tokens_while_idle(sums: Sums) -> Check:
    code = "tokens_while_idle"
    tokens = sums.increases.get("generation_tokens")
    sampled = mean(sums.running, Weighting.TIME)
    if sampled is None or tokens is None:
        return Check(code, None, sampled, None, "cannot be checked: no running level, or no count of output tokens")
    if sampled == 0 and tokens.total > 0:
        detail = (
            f"{tokens.total:.0f} output tokens were generated while every sample read 0 running; likely causes: "
            "requests shorter than the interval, scrapes answered only when the server is idle, or a dead gauge"
        )
        return Check(code, agrees=False, sampled=sampled, counted=tokens.total, detail=detail)
    detail = "requests were seen running, or no output token was generated"
    return Check(code, agrees=True, sampled=sampled, counted=tokens.total, detail=detail)


def _epochs(window: Window, epochs: Sequence[EpochSpan]) -> Warning_ | None:
    begun = [epoch for epoch in epochs if epoch.start > window.start and epoch.cause != "start"]
    if not begun:
        return None
    words = ", ".join(f"{epoch.cause} at {_instant(epoch.start)}" for epoch in begun[:5])
    more = f" and {len(begun) - 5} more" if len(begun) > 5 else ""
    return Warning_("epochs", f"the window spans {len(begun) + 1} epochs of the server: {words}{more}")


def _coverage(coverage: Coverage) -> Warning_ | None:
    if coverage.ratio >= LOW_COVERAGE:
        return None
    return Warning_("coverage_low", f"only {percent(coverage.ratio)} of the window was observed")


def _missing(sums: Sums) -> Warning_ | None:
    found = missing_while_busy(sums)
    if found is None:
        return None
    missed, observed = found
    detail = (
        f"by the counters {missed:.2f} requests ran on average over {sums.spanned_ms / 1000:.0f} s that were not "
        f"observed, against {observed:.2f} while observed: the operating point is a lower bound"
    )
    return Warning_("missing_while_busy", detail)


def _uncovered(sums: Sums) -> Warning_ | None:
    tokens = sums.increases.get("generation_tokens")
    total = sums.uncovered_tokens + (tokens.total if tokens else 0.0)
    if sums.uncovered_tokens <= 0 or sums.uncovered_tokens < MATERIAL_SHARE * total:
        return None
    detail = f"{sums.uncovered_tokens:.0f} output tokens were generated while nothing was observed; they are in no rate"
    return Warning_("uncovered_tokens", detail)


def _stalled(coverage: Coverage) -> Warning_ | None:
    if coverage.stalled_seconds <= 0:
        return None
    detail = f"requests stood still for {coverage.stalled_seconds:.0f} s without any progress; that is not load"
    return Warning_("stalled", detail)


def _over_ceiling(sums: Sums, ceiling: CeilingAnswer) -> Warning_ | None:
    highest = max((level for level, ms in sums.running.items() if ms), default=0)
    if ceiling.requests is None or highest <= ceiling.requests:
        return None
    detail = f"{highest} requests ran at once, above the ceiling of {ceiling.requests}: the ceiling is not what is set"
    return Warning_("over_ceiling", detail)


def _bounds(sums: Sums) -> Warning_ | None:
    changed = sorted(name for name, families in sums.buckets.items() if len(families) > 1)
    if not changed:
        return None
    detail = f"quantiles of {', '.join(changed)} join buckets with different bounds, at the bounds that all have"
    return Warning_("bounds_changed", detail)


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
