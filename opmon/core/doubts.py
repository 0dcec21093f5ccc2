"""What speaks against an operating point: warnings with their values, those of failed checks among them.

Contains no way to the numbers themselves; the second ways are `checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from opmon.core.answers import Check, Coverage, EpochSpan, Warning_, Window
from opmon.core.occupancy import Weighting, mean
from opmon.core.sentence import percent
from opmon.core.sums import Sums

MISSING_FACTOR = 1.5
"""Running while unobserved, over this many times the observed mean, makes the operating point a lower bound."""

MATERIAL_SHARE = 0.01
"""... if what was missed is at least this share of all running time: one lost second in a week is no doubt. The same
share of output tokens outside all rates is worth a warning."""

LOW_COVERAGE = 0.9


def missing_while_busy(sums: Sums, unobserved_seconds: float) -> tuple[float, float] | None:
    """Mean running while unobserved and while observed, if the first shows the point to be a lower bound.

    Only the part of what was missed that lies in the window counts: see `inside_ratio`.
    """
    if not sums.spanned_ms:
        return None
    missed = 1000 * sums.spanned_running_seconds / sums.spanned_ms
    observed = mean(sums.running, Weighting.TIME) or 0.0
    seen_seconds = sum(level * ms for level, ms in sums.running.items()) / 1000
    lost_seconds = sums.spanned_running_seconds * inside_ratio(sums, unobserved_seconds)
    material = lost_seconds > 0 and lost_seconds >= MATERIAL_SHARE * (seen_seconds + lost_seconds)
    return (missed, observed) if missed > MISSING_FACTOR * observed and material else None


def inside_ratio(sums: Sums, unobserved_seconds: float) -> float:
    """The share of the spanned time that the window itself did not observe.

    A pair belongs to the window of its later scrape, so the first one may span hours before the window; and each
    spans a bit of observed time at both of its ends.
    """
    return min(1.0, 1000 * unobserved_seconds / sums.spanned_ms) if sums.spanned_ms else 1.0


def unobserved_seconds(coverage: Coverage) -> float:
    """How much of the window nobody saw."""
    return coverage.gap_seconds + coverage.down_seconds + coverage.invalid_seconds


def warnings(
    sums: Sums,
    window: Window,
    coverage: Coverage,
    epochs: Sequence[EpochSpan],
    found: Sequence[Check],
) -> tuple[Warning_, ...]:
    """All that a reader must know beside the figures, each with its values."""
    told = [
        _epochs(window, epochs),
        _coverage(coverage),
        _missing(sums, unobserved_seconds(coverage)),
        _uncovered(sums, unobserved_seconds(coverage)),
        _stalled(coverage),
        _bounds(sums),
        *(Warning_(check.code, check.detail) for check in found if check.agrees is False),
    ]
    return tuple(warning for warning in told if warning is not None)


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


def _missing(sums: Sums, unobserved: float) -> Warning_ | None:
    found = missing_while_busy(sums, unobserved)
    if found is None:
        return None
    missed, observed = found
    detail = (
        f"by the counters {missed:.2f} requests ran on average over {min(sums.spanned_ms / 1000, unobserved):.0f} s that were not "
        f"observed, against {observed:.2f} while observed: the operating point is a lower bound"
    )
    return Warning_("missing_while_busy", detail)


def _uncovered(sums: Sums, unobserved: float) -> Warning_ | None:
    tokens = sums.increases.get("generation_tokens")
    inside = inside_ratio(sums, unobserved)
    # Where less than half of the spanned time is the window's, its larger part lies before the window.
    missed = sums.uncovered_tokens * (inside if inside < 0.5 else 1.0)
    if missed <= 0 or missed < MATERIAL_SHARE * (missed + (tokens.total if tokens else 0.0)):
        return None
    detail = f"{missed:.0f} output tokens were generated while nothing was observed; they are in no rate"
    return Warning_("uncovered_tokens", detail)


def _stalled(coverage: Coverage) -> Warning_ | None:
    if coverage.stalled_seconds <= 0:
        return None
    detail = f"requests stood still for {coverage.stalled_seconds:.0f} s without any progress; that is not load"
    return Warning_("stalled", detail)


def _bounds(sums: Sums) -> Warning_ | None:
    changed = sorted(name for name, families in sums.buckets.items() if len(families) > 1)
    if not changed:
        return None
    detail = f"quantiles of {', '.join(changed)} join buckets with different bounds, at the bounds that all have"
    return Warning_("bounds_changed", detail)


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
