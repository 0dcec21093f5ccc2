"""How the process is now, as the API tells it.

Contains no finding out: the service fills these in.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiscoveryStatus:
    """A source of targets. `listed`: when it was last read in full. `failure`: why it was not since, else empty."""

    source: str
    targets: int
    listed: float | None
    failure: str
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuntimeInfo:
    """The process now. `configuration_is_current` is false when the file that was read last is refused. `left_out`:
    discovered targets whose name belongs to another."""

    started: float
    now: float
    database: str
    targets: int
    configuration_is_current: bool | None
    configuration_loaded: float | None
    discovery: tuple[DiscoveryStatus, ...]
    left_out: tuple[str, ...]
