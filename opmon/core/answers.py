"""The shapes of opmon's answers, once: the API, the terminal, the pages and the exporter all read these.

Contains no arithmetic. The field names are promises (docs/api.md). What is not known is None, never 0; instants are
Unix seconds (float), durations seconds, shares `_ratio` 0 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from opmon.core.beside import InferredContent, LevelBeside, LookFirst


@dataclass(frozen=True, slots=True)
class Window:
    """`(start, end]`; `requested_seconds` is what was asked before clipping to the first scrape."""

    start: float
    end: float
    seconds: float
    requested_seconds: float


@dataclass(frozen=True, slots=True)
class Selector:
    """What was asked for. None means: not restricted."""

    target: str | None = None
    model: str | None = None
    engine_index: str | None = None
    job: str | None = None
    label: tuple[str, ...] = ()
    fleet: str | None = None
    scope: str = "replica"
    epoch: str = "all"


@dataclass(frozen=True, slots=True)
class Coverage:
    """Seconds per state; the five add up to the window. `ratio` = observed / window."""

    ratio: float
    observed_seconds: float
    down_seconds: float
    invalid_seconds: float
    stalled_seconds: float
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class EpochSpan:
    start: float
    end: float | None
    cause: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CeilingAnswer:
    """`requests` = per-engine limit x engines; `reached_ratio` = share of busy observed time at or above it."""

    requests: int | None = None
    max_num_seqs: int | None = None
    source: str | None = None
    kv_cache_max_concurrency: float | None = None
    reached_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class LevelShare:
    level: int
    seconds: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a distribution under one weighting; all None without weight."""

    mean: float | None = None
    p50: int | None = None
    p90: int | None = None
    p95: int | None = None
    p99: int | None = None
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """An occupancy, and its statistics under the three weightings. `ratio` of a level is of observed time."""

    occupancy: tuple[LevelShare, ...] = ()
    time: Statistics = Statistics()
    busy: Statistics = Statistics()
    request: Statistics = Statistics()


@dataclass(frozen=True, slots=True)
class Queue:
    """Shares of in-system busy time: with requests waiting, limited, and waiting for prefill budget."""

    waiting_ratio: float | None = None
    limited_ratio: float | None = None
    prefill_wait_ratio: float | None = None
    preemptions: float | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    output_tokens_per_second: float | None = None
    busy_output_tokens_per_second: float | None = None
    peak_minute_output_tokens_per_second: float | None = None
    decode_tokens_per_second_per_stream: float | None = None
    requests_per_second: float | None = None
    uncovered_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean (sum / count) and bucket quantiles. `above`: names of quantiles that lie in the +Inf bucket, whose value
    here is the largest finite bound and means "above that"."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lengths:
    prompt_tokens: Spread = Spread()
    output_tokens: Spread = Spread()


@dataclass(frozen=True, slots=True)
class Latency:
    ttft_seconds: Spread = Spread()
    itl_seconds: Spread = Spread()
    tpot_seconds: Spread = Spread()
    e2e_seconds: Spread = Spread()
    queue_seconds: Spread = Spread()
    prefill_seconds: Spread = Spread()
    decode_seconds: Spread = Spread()


@dataclass(frozen=True, slots=True)
class Speculation:
    acceptance_length: float | None = None
    draft_acceptance_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class PrefixCache:
    hit_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Two ways to the same number. `agrees` is None where one of them is not known."""

    code: str
    agrees: bool | None
    sampled: float | None
    counted: float | None
    detail: str


@dataclass(frozen=True, slots=True)
class Warning_:
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Where a server really runs, over one window."""

    window: Window
    selector: Selector
    sentence: str
    coverage: Coverage
    epochs: tuple[EpochSpan, ...]
    ceiling: CeilingAnswer
    running: Distribution
    in_system: Distribution
    waiting: Distribution
    queue: Queue
    throughput: Throughput
    lengths: Lengths
    latency: Latency
    speculation: Speculation | None
    prefix_cache: PrefixCache | None
    checks: tuple[Check, ...] = ()
    warnings: tuple[Warning_, ...] = ()


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The live curve at one level. `used_ratio`: share of the level's observed time that pure pairs cover."""

    level: int
    seconds: float
    used_ratio: float
    aggregate_tokens_per_second: float
    share_tokens_per_second: float
    decode_tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """A line of /api/v1/targets. `skipped_lines`: of the last whole page, those that were no samples; None before."""

    name: str
    url: str
    job: str
    labels: dict[str, str]
    health: str
    state: str
    engine: str
    version: str | None
    models: tuple[str, ...]
    engine_indexes: tuple[str, ...]
    epoch_start: float | None
    last_scrape: float | None
    last_error: str
    missing: tuple[str, ...]
    form: str
    pulse_interval_seconds: float
    full_interval_seconds: float
    last_scrape_seconds: float | None
    last_scrape_bytes: int | None
    ceiling: CeilingAnswer
    skipped_lines: int | None = None


@dataclass(frozen=True, slots=True)
class ConcurrencyPoint:
    """One step over time. `mean` and `max` of running are None where nothing was observed."""

    start: float
    mean: float | None
    max: int | None
    waiting_mean: float | None
    observed_seconds: float
    down_seconds: float
    invalid_seconds: float
    stalled_seconds: float
    gap_seconds: float


@dataclass(frozen=True, slots=True)
class ConcurrencySeries:
    window: Window
    selector: Selector
    step_seconds: float
    points: tuple[ConcurrencyPoint, ...]
    ceiling: CeilingAnswer
    epochs: tuple[EpochSpan, ...]


# --- the recommendation -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OperatingPointSummary:
    """The operating point as a recommendation cites it."""

    sentence: str
    coverage_ratio: float | None
    window_seconds: float
    in_system: Distribution
    limited_ratio: float | None
    prompt_tokens: float | None
    output_tokens: float | None
    ceiling_requests: int | None
    source: str = "live"


@dataclass(frozen=True, slots=True)
class CellRef:
    """A cell of the sweep. `concurrency` None: unlimited, or not stated; such a cell is in no comparison."""

    concurrency: float | None
    content: str
    prompt_tokens: float | None
    output_tokens: float | None


@dataclass(frozen=True, slots=True)
class Knee:
    """`bound`: `exact`, `at_most` (the first cell is past it) or `above` (not reached by the largest cell)."""

    value: float
    bound: str


@dataclass(frozen=True, slots=True)
class KneePair:
    reference: Knee | None = None
    candidate: Knee | None = None


@dataclass(frozen=True, slots=True)
class LiveIsAnswer:
    ratio_weighted: float | None
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class ByLiveIs:
    reference: LiveIsAnswer
    candidate: LiveIsAnswer


@dataclass(frozen=True, slots=True)
class ColumnAnswer:
    """One metric column: the two values at the cell, their ratio, and the ratio over the occupied levels."""

    reference: float | None = None
    candidate: float | None = None
    ratio_at_cell: float | None = None
    ratio_weighted: float | None = None
    low: float | None = None
    high: float | None = None
    evidence_ratio: float = 0.0
    derived: bool = False
    proxy: bool = False
    by_live_is: ByLiveIs | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    per_stream: ColumnAnswer
    aggregate: ColumnAnswer


@dataclass(frozen=True, slots=True)
class WholeTurn:
    speedup_ratio: float
    low: float | None
    high: float | None
    ttft_seconds: float
    decode_seconds: float
    measured: str
    speedup_source: str
    times_source: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class OtherReading:
    reading: str
    concurrency: float
    column: str
    ratio: float
    verdict: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    axis: str
    cell: float | str | None
    live: float | str | None
    octaves: float | None


@dataclass(frozen=True, slots=True)
class Projection:
    """Occupancy after the switch, or `null_reason`."""

    p50: int | None = None
    p95: int | None = None
    idle_ratio: float | None = None
    e2e_speedup_ratio: float | None = None
    cell_concurrency: float | None = None
    null_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ContentAnswer:
    """The whole answer for one content of the sweep."""

    content: str
    share_ratio: float | None
    verdict: str
    reasons: tuple[str, ...]
    cell: CellRef | None
    weight_at_cells_ratio: float | None
    weight_between_ratio: float | None
    weight_outside_ratio: float | None
    column: str
    column_reason: str
    knee_requests: KneePair
    columns: Columns
    threshold_ratio: float
    threshold_source: str
    whole_turn: WholeTurn | None
    other_readings: tuple[OtherReading, ...]
    mismatches: tuple[Mismatch, ...]
    projection: Projection
    live_curve: tuple[LevelBeside, ...] = ()
    look_first: tuple[LookFirst, ...] = ()


@dataclass(frozen=True, slots=True)
class Combined:
    ratio_weighted: float | None
    low: float | None
    high: float | None
    column: str


@dataclass(frozen=True, slots=True)
class UnfairPair:
    cell: CellRef
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MeasureNext:
    concurrency: int
    content: str
    prompt_tokens: int | None
    output_tokens: int | None
    commands: dict[str, str]


@dataclass(frozen=True, slots=True)
class Recommendation:
    operating_point: OperatingPointSummary | None
    sweep: str
    reference: str
    candidate: str
    live_is: str | None
    verdict: str
    reasons: tuple[str, ...]
    combined: Combined | None
    contents: tuple[ContentAnswer, ...]
    unfair_pairs: tuple[UnfairPair, ...] = ()
    measure_next: tuple[MeasureNext, ...] = ()
    warnings: tuple[Warning_, ...] = ()
    inferred_content: InferredContent | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn calculator's answer. `turn_before_seconds` / `turn_after_seconds` = `speedup_ratio`."""

    speedup_ratio: float
    measured: str
    ttft_ratio: float
    turn_before_seconds: float
    turn_after_seconds: float
    ttft_share_ratio: float


@dataclass(frozen=True, slots=True)
class CellAnswer:
    """A cell of a stored sweep, as the surfaces show it; every figure may be missing."""

    configuration: str
    content: str
    concurrency: float | None
    concurrency_source: str
    prompt_tokens: float | None
    output_tokens: float | None
    aggregate_tokens_per_second: float | None
    per_stream_tokens_per_second: float | None
    decode_tokens_per_second: float | None
    ttft_seconds: float | None
    ttft_p95_seconds: float | None
    failed_requests: int | None
    source_row: int | None
    derived: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepImportAnswer:
    file_name: str
    sha256: str
    reader: str
    reader_version: int
    imported: float
    size_bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepAnswer:
    name: str
    configurations: tuple[str, ...]
    contents: tuple[str, ...]
    imports: tuple[SweepImportAnswer, ...]
    cells: tuple[CellAnswer, ...] = field(default_factory=tuple)
