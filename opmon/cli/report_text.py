"""The operating point as text for a terminal, or as Markdown to paste: the sentence, its coverage, a bar per level.

Contains no arithmetic beyond the length of a bar.
"""

from __future__ import annotations

from datetime import UTC, datetime

from opmon.core.answers import Distribution, OperatingPoint, Spread, Statistics, TargetStatus
from opmon.core.names import escaped
from opmon.core.units import format_duration

BAR_WIDTH = 40
MAX_LEVELS = 24


def render_report(point: OperatingPoint, status: TargetStatus | None = None, *, markdown: bool = False) -> str:
    """The whole report. Figures that are not known are left out or shown as `-`, never as 0."""
    blocks = [
        _heading(point, status, markdown=markdown),
        _coverage(point),
        _fence(_bars(point), markdown=markdown),
        _fence(_statistics(point), markdown=markdown),
        _figures(point),
        _doubts(point),
    ]
    return escaped("\n\n".join(block for block in blocks if block) + "\n", keep="\n")


def _heading(point: OperatingPoint, status: TargetStatus | None, *, markdown: bool) -> str:
    sentence = point.sentence[:1].upper() + point.sentence[1:]
    if not sentence.endswith("."):
        sentence += "."
    if status is None:
        return f"**{sentence}**" if markdown else sentence
    served = ", ".join(status.models) or "no model seen"
    version = f" {status.version}" if status.version else ""
    place = f"{status.name}: {status.engine or 'engine unknown'}{version}, {served}, {status.health}, {status.state}"
    if status.last_error:
        place += f" ({status.last_error})"
    place = escaped(place)  # a line break in what a server said of itself must not look like a line of ours
    return f"**{sentence}**\n\n{place}" if markdown else f"{sentence}\n\n{place}"


def _coverage(point: OperatingPoint) -> str:
    window, coverage = point.window, point.coverage
    start, end = (datetime.fromtimestamp(t, tz=UTC).strftime("%Y-%m-%d %H:%M:%S") for t in (window.start, window.end))
    text = f"{start} to {end} UTC ({_duration(window.end - window.start)}), {_percent(coverage.ratio)} observed"
    rest = {
        "down": coverage.down_seconds,
        "stalled": coverage.stalled_seconds,
        "invalid": coverage.invalid_seconds,
        "gap": coverage.gap_seconds,
    }
    parts = [f"{_duration(seconds)} {state}" for state, seconds in rest.items() if seconds > 0]
    if window.requested_seconds > window.end - window.start + 1:
        parts.append(f"asked for {_duration(window.requested_seconds)}, nothing is known before")
    return "; ".join([text, *parts])


def _bars(point: OperatingPoint) -> str:
    """A bar per running level; the ceiling stands beside the distribution as a mark."""
    levels = point.running.occupancy
    if not levels:
        return ""
    largest = max(share.ratio for share in levels)
    shown = levels[:MAX_LEVELS]
    lines = ["running  share of observed time"]
    lines += [
        f"{share.level:>7}  {'█' * max(round(share.ratio / largest * BAR_WIDTH), 1):<{BAR_WIDTH}} {_percent(share.ratio)}"
        for share in shown
    ]
    if len(levels) > len(shown):
        rest = sum(share.ratio for share in levels[len(shown) :])
        lines.append(f"   {levels[len(shown)].level} to {levels[-1].level}: {_percent(rest)}")
    ceiling = point.ceiling
    if ceiling.requests is not None:
        reached = "never reached" if not ceiling.reached_ratio else f"reached {_percent(ceiling.reached_ratio)} of it"
        lines.append(f"{ceiling.requests:>7}  | ceiling ({ceiling.source}), {reached}")
    return "\n".join(lines)


def _statistics(point: OperatingPoint) -> str:
    if not point.running.occupancy:
        return ""
    lines = [f"{'':<22}{'mean':>8}{'p50':>6}{'p90':>6}{'p95':>6}{'p99':>6}{'max':>6}"]
    lines += _weightings("running", point.running)
    lines += _weightings("in system", point.in_system)
    return "\n".join(lines)


def _weightings(name: str, distribution: Distribution) -> list[str]:
    named = (("time", distribution.time), ("busy", distribution.busy), ("request", distribution.request))
    return [f"{f'{name}, {weighting}':<22}{_row(statistics)}" for weighting, statistics in named]


def _row(statistics: Statistics) -> str:
    quantiles = (statistics.p50, statistics.p90, statistics.p95, statistics.p99, statistics.max)
    mean = "-" if statistics.mean is None else f"{statistics.mean:.2f}"
    return f"{mean:>8}" + "".join(f"{'-' if value is None else value:>6}" for value in quantiles)


def _figures(point: OperatingPoint) -> str:
    throughput, lengths, latency = point.throughput, point.lengths, point.latency
    speculation = point.speculation
    named = (
        ("output tokens/s while busy", _number(throughput.busy_output_tokens_per_second)),
        ("decode speed per stream, tokens/s", _number(throughput.decode_tokens_per_second_per_stream)),
        ("prompt tokens", _spread(lengths.prompt_tokens, "")),
        ("output tokens", _spread(lengths.output_tokens, "")),
        ("TTFT", _spread(latency.ttft_seconds, " s")),
        ("acceptance length", _number(speculation.acceptance_length if speculation else None)),
        ("requests waiting", _percent(point.queue.waiting_ratio)),
        ("limited", _percent(point.queue.limited_ratio)),
    )
    return "\n".join(f"{name}: {value}" for name, value in named if value not in ("-", ""))


def _doubts(point: OperatingPoint) -> str:
    lines = [f"check {check.code}: {check.detail}" for check in point.checks if check.agrees is False]
    lines += [f"warning {warning.code}: {warning.detail}" for warning in point.warnings]
    return "\n".join(lines)


def _fence(block: str, *, markdown: bool) -> str:
    return f"```\n{block}\n```" if markdown and block else block


def _spread(spread: Spread, unit: str) -> str:
    if spread.mean is None:
        return ""
    quantiles = [
        f"{name} {'above ' if name in spread.above else ''}{value:.4g}{unit}"
        for name, value in (("p50", spread.p50), ("p95", spread.p95))
        if value is not None
    ]
    return f"mean {spread.mean:.4g}{unit}" + (f" ({', '.join(quantiles)})" if quantiles else "")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio * 100:.0f} %" if ratio in (0, 1) or ratio >= 0.1 else f"{ratio * 100:.1f} %"


def _duration(seconds: float) -> str:
    return format_duration(round(seconds) * 1000) if seconds >= 1 else f"{seconds:.1f}s"
