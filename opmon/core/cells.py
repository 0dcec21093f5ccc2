"""A benchmark's cells: what one row of a sweep says, whatever tool wrote it.

Contains the values and how they pair; reading files is `opmon.sweeps`, judging is `opmon.core.recommend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement. Every figure may be missing (None); speeds are tokens per second, times seconds.

    `concurrency` is what the clients held in flight, None if unlimited or unknown; `concurrency_source` says how it
    is known (`declared`, ...). `per_stream` is end to end; `decode` is without the TTFT. `derived` names fields that
    were computed from others (with the formula in `extra`), `flags` what a verdict must know of (`failed_requests`,
    `ramp`, ...). `configuration_fields` and `extra` keep what else the file said, by its own names.
    """

    configuration: str
    content: str = ""
    concurrency: float | None = None
    concurrency_source: str = "declared"
    load_mode: str | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    aggregate: float | None = None
    per_stream: float | None = None
    per_stream_p50: float | None = None
    per_stream_p95: float | None = None
    decode: float | None = None
    ttft: float | None = None
    ttft_p95: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    requests_per_second: float | None = None
    acceptance_length: float | None = None
    completed_requests: int | None = None
    failed_requests: int | None = None
    duration_seconds: float | None = None
    measured_at: float | None = None
    session: str | None = None
    tool: str | None = None
    tool_version: str | None = None
    model: str | None = None
    hardware: str | None = None
    api: str | None = None
    streaming: bool | None = None
    per_stream_method: str | None = None
    token_source: str | None = None
    temperature: float | None = None
    cache_state: str | None = None
    source_file: str = ""
    source_row: int | None = None
    derived: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SweepImport:
    """One file that was read into a sweep. `original` is the file itself, None if it was too large to keep."""

    file_name: str
    sha256: str
    reader: str
    reader_version: int
    size_bytes: int
    cells: tuple[Cell, ...]
    imported_ms: int = 0
    notes: tuple[str, ...] = ()
    original: bytes | None = None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A named set of imports. Cells of all imports, in file order; configurations in order of first appearance."""

    name: str
    imports: tuple[SweepImport, ...] = ()

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order of their files and rows."""
        return tuple(cell for one in self.imports for cell in one.cells)

    @property
    def configurations(self) -> tuple[str, ...]:
        """Configuration names in order of first appearance."""
        return tuple(dict.fromkeys(cell.configuration for cell in self.cells))

    @property
    def contents(self) -> tuple[str, ...]:
        """Contents in order of first appearance."""
        return tuple(dict.fromkeys(cell.content for cell in self.cells))
