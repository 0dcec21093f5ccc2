"""The metric objects that AIPerf and genai-perf share: `{"unit": "ms", "avg": 1.2, "p50": 1.1, ...}` by name.

Contains units and the figures that mean the same in both tools. A time in a unit that is not known is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields
from opmon.sweeps.speeds import Speed, estimated

_SECONDS = {
    "ns": 1e-9,
    "nanoseconds": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "microseconds": 1e-6,
    "ms": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "minutes": 60.0,
}
CORE = ("request_throughput", "request_latency", "time_to_first_token", "output_token_throughput", "request_count")
_STATISTICS = ("avg", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "min", "max")


@dataclass(frozen=True, slots=True)
class Metrics:
    """The metrics of one run."""

    fields: Fields

    def figure(self, metric: str, statistic: str = "avg") -> float | None:
        """A figure in the unit that every version has it in (tokens, tokens per second, requests)."""
        return self.fields.number(metric, statistic)

    def seconds(self, metric: str, statistic: str = "avg") -> float | None:
        """A time in seconds, by the metric's own unit. None, with a note, where the unit is not known."""
        if not self.fields.has(metric, statistic):
            return None
        unit = str(self.fields.at(metric, "unit") or "").strip().lower()
        if unit not in _SECONDS:
            self.fields.note(f"{metric} is in {unit!r}, which is no unit of time that is known, taken as not measured")
            return None
        return self.fields.number(metric, statistic, factor=_SECONDS[unit])

    def count(self, metric: str) -> int | None:
        """A number of requests."""
        return self.fields.count(metric, "avg")

    def common(self) -> dict[str, Any]:
        """What a cell takes from the metrics of both tools."""
        return {
            "aggregate": self.figure("output_token_throughput"),
            "decode": self.figure("output_token_throughput_per_user", "p50"),
            "prompt_tokens": self.figure("input_sequence_length"),
            "output_tokens": self.figure("output_sequence_length"),
            "ttft": self.seconds("time_to_first_token", "p50"),
            "ttft_p95": self.seconds("time_to_first_token", "p95"),
            "tpot": self.seconds("inter_token_latency", "p50"),
            "e2e": self.seconds("request_latency"),
            "requests_per_second": self.figure("request_throughput"),
        }

    def end_to_end(self) -> Speed | None:
        """The tool's own end-to-end speed of a request, with the speed that 95 % reach or exceed; None without it."""
        name = "e2e_output_token_throughput"
        middle = self.figure(name, "p50")
        return Speed(middle, self.figure(name, "p5"), "tool_p50") if middle else None

    def estimated(self) -> Speed:
        """An estimate from the mean length and medians; no speed where they do not suffice."""
        medians = (
            self.seconds(name, "p50") for name in ("request_latency", "time_to_first_token", "inter_token_latency")
        )
        return estimated(self.figure("output_sequence_length"), *medians)

    def acceptance_length(self) -> float | None:
        """Tokens per step of speculative decoding; None where the server told none."""
        pooled = self.figure("spec_decode_token_weighted_acceptance_length")
        return pooled if pooled is not None else self.figure("spec_decode_acceptance_length")


def has_metrics(value: Any) -> bool:
    """Whether a JSON value holds at least one of the metrics that both tools always write."""
    if not isinstance(value, Mapping):
        return False
    return any(isinstance(one := value.get(name), Mapping) and "avg" in one and "unit" in one for name in CORE)


def nested(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of an aggregate over runs in the shape of a single run's.

    Two shapes are known: `{"request_latency": {"mean": ..., "p50": ..., "unit": ...}}`, and one object a statistic,
    `{"request_latency_p50": {"mean": ..., "unit": ...}}`, in which `mean` is the mean over the runs.
    """
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        if not isinstance(value, Mapping):
            continue
        metric, _, statistic = str(name).rpartition("_")
        if metric and statistic in _STATISTICS and "mean" in value and statistic not in value:
            one = found.setdefault(metric, {"unit": value.get("unit")})
            one[statistic] = value["mean"]
            if statistic == "avg":
                one.update({key: value[key] for key in ("std", "ci_low", "ci_high") if key in value})
        else:
            found[str(name)] = {"avg": value.get("mean"), **value}
    return found


def value_beside(document: Document, name: str) -> Any:
    """The first JSON value of a file beside; None where there is none, or it cannot be read."""
    other = document.beside(name)
    try:
        return other.records[0].value if other is not None and other.is_json and other.records else None
    except SweepError:
        return None
