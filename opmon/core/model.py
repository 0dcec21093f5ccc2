"""The values that everything else speaks of: states, samples, snapshots, attempts, rows, targets.

Contains no arithmetic and no I/O. All instants are integer milliseconds since the Unix epoch, all durations
integer milliseconds unless the name says otherwise. What is not known is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MINUTE_MS = 60_000
FIVE_MINUTES_MS = 300_000
HOUR_MS = 3_600_000


class State(StrEnum):
    """What is known of one stratum of time. Exactly one holds; only `observed` counts towards levels."""

    OBSERVED = "observed"
    STALLED = "stalled"
    INVALID = "invalid"
    DOWN = "down"
    GAP = "gap"


class Health(StrEnum):
    """`up` when the last attempt was answered, whatever the answer was worth."""

    UNKNOWN = "unknown"
    UP = "up"
    DOWN = "down"


class Lane(StrEnum):
    """`pulse`: a few series, each interval. `full`: everything that is used, histograms included."""

    PULSE = "pulse"
    FULL = "full"


class Form(StrEnum):
    """How a target answers the pulse: the filtered page, or only the whole one."""

    UNKNOWN = "unknown"
    FILTERED = "filtered"
    WHOLE = "whole"


DOWN_KINDS = (
    "timeout",
    "connect",
    "not_asked",
    "protocol",
    "truncated",
    "tls",
    "http_status",
    "redirect",
    "too_large",
    "encoding",
    "content_type",
    "parse",
)
INVALID_KINDS = (
    "late",
    "not_finite",
    "negative",
    "duplicate",
    "engine_absent",
    "several_servers",
    "no_known_metrics",
    "not_an_engine",
    "asleep",
    "stale_page",
)

# Canonical counters. Those of the pulse lane are in every scrape, the rest in full scrapes only.
PULSE_COUNTERS = (
    "generation_tokens",
    "prompt_tokens",
    "finished_requests",
    "preemptions",
    "itl_seconds_sum",
    "itl_seconds_count",
    "prefill_seconds_sum",
    "prefill_seconds_count",
    "ttft_seconds_sum",
    "ttft_seconds_count",
)
FULL_COUNTERS = (
    "queue_seconds_sum",
    "queue_seconds_count",
    "decode_seconds_sum",
    "decode_seconds_count",
    "inference_seconds_sum",
    "inference_seconds_count",
    "e2e_seconds_sum",
    "e2e_seconds_count",
    "tpot_seconds_sum",
    "tpot_seconds_count",
    "prompt_length_sum",
    "prompt_length_count",
    "output_length_sum",
    "output_length_count",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "prefix_queries",
    "prefix_hits",
    "iterations",
)
# Canonical bucketed families, in full scrapes only.
BUCKET_FAMILIES = (
    "ttft_seconds",
    "itl_seconds",
    "tpot_seconds",
    "e2e_seconds",
    "queue_seconds",
    "prefill_seconds",
    "decode_seconds",
    "prompt_length",
    "output_length",
)


@dataclass(frozen=True, slots=True, order=True)
class SeriesKey:
    """One engine of one model on a target. `engine_index` is the exposition's label `engine`, '' where there is none."""

    model_name: str
    engine_index: str


@dataclass(frozen=True, slots=True)
class Buckets:
    """A cumulative bucketed family: `counts[i]` observations at or below `bounds[i]`; the last bound is +Inf."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]


@dataclass(slots=True)
class SeriesSample:
    """What one series showed in one scrape: gauges and cumulative counter values, absent ones left out."""

    running: int | None = None
    waiting: int | None = None
    kv_usage_ratio: float | None = None
    counters: dict[str, float] = field(default_factory=dict)
    buckets: dict[str, Buckets] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One exposition, understood.

    `fault` is one of INVALID_KINDS (or None): the answer was a page, but its values cannot be used; `detail` says why.
    `identity` holds what never changes while a server keeps running (version, KV blocks, number of speculative
    positions, creation instants, ...): a change of any value in it is a new epoch.
    """

    engine: str
    series: Mapping[SeriesKey, SeriesSample]
    process_start_seconds: float | None = None
    identity: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    skipped_lines: int = 0
    fault: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to scrape one target in one stratum, as the scraper or a recording hands it over.

    Failed: `snapshot` is None and `kind` is one of DOWN_KINDS. `first_byte_ms` is the time from the start of the
    request to the first byte of the answer; None where it is not known (a recording: `took_ms` is taken).
    """

    stratum_ms: int
    interval_ms: int
    at_ms: int
    took_ms: int
    lane: Lane
    snapshot: Snapshot | None
    kind: str | None = None
    detail: str = ""
    first_byte_ms: int | None = None
    size_bytes: int = 0


@dataclass(slots=True)
class Row:
    """One stored attempt, as one view of the target sees it (the view chooses which series are in `series`).

    A series without `running` is in no level. Rows of failed attempts have no series. `epoch` is the database's
    number of the epoch, 0 before the first answer.
    """

    stratum_ms: int
    interval_ms: int
    at_ms: int
    lane: Lane
    state: State
    epoch: int
    series: dict[SeriesKey, SeriesSample] = field(default_factory=dict)
    kind: str | None = None
    took_ms: int = 0


@dataclass(frozen=True, slots=True)
class Epoch:
    """A stretch within which counters may be compared. `end_ms` is None for the current one."""

    number: int
    start_ms: int
    end_ms: int | None
    cause: str
    detail: str = ""
    identity: Mapping[str, str] = field(default_factory=dict)
    process_start_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The limit of running requests from `since_ms` on. `max_num_seqs` is per engine; `source` says how it is known."""

    max_num_seqs: int
    source: str
    since_ms: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """Which series of which target: a target (all None), a model of it, or one engine of it."""

    target: str
    model_name: str | None = None
    engine_index: str | None = None

    def includes(self, key: SeriesKey) -> bool:
        """Whether a series belongs to the view."""
        return self.model_name in (None, key.model_name) and self.engine_index in (None, key.engine_index)


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """What the database keeps of a target besides its samples; every surface reads it from here."""

    name: str
    url: str
    job: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    engine: str = ""
    version: str | None = None
    models: tuple[str, ...] = ()
    engine_indexes: tuple[str, ...] = ()
    health: Health = Health.UNKNOWN
    state: State = State.GAP
    kind: str | None = None
    last_error: str = ""
    last_scrape_ms: int | None = None
    last_took_ms: int | None = None
    last_size_bytes: int | None = None
    pulse_interval_ms: int = 1000
    full_interval_ms: int = 30_000
    stall_after_ms: int = 120_000
    form: Form = Form.UNKNOWN
    missing: tuple[str, ...] = ()
    content_mix: Mapping[str, float] = field(default_factory=dict)
    ceilings: tuple[Ceiling, ...] = ()
    kv_cache_max_concurrency: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    first_scrape_ms: int | None = None
    removed_ms: int | None = None
