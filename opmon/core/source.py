"""Where reports get their numbers from, as a protocol: the store and a Prometheus history both implement it.

Contains no implementation. Everything is sums over windows; no surface knows which implementation answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from opmon.core.model import Epoch, TargetRecord, View
from opmon.core.sums import Sums, TimelinePoint


class Source(Protocol):
    """Read access to what was observed. Windows are `[start_ms, end_ms)` in milliseconds, strata by their start."""

    def targets(self) -> Sequence[TargetRecord]:
        """All targets that are not removed, by name."""
        ...

    def target(self, name: str) -> TargetRecord:
        """One target, removed or not. Raises NotFound naming those that exist."""
        ...

    def window(self, view: View, start_ms: int, end_ms: int) -> Mapping[int, Sums]:
        """Exact sums of the window, per epoch number (0 before the first answer). Empty where nothing was attempted."""
        ...

    def window_bounds(self, view: View, start_ms: int, end_ms: int) -> tuple[int, int]:
        """The window that `window` answers for: the one asked for, or wider where only roll-ups are left."""
        ...

    def finest_step_ms(self, view: View, start_ms: int) -> int:
        """The shortest step for which a timeline from there on is exact."""
        ...

    def timeline(self, view: View, start_ms: int, end_ms: int, step_ms: int) -> Sequence[TimelinePoint]:
        """Sums per step; steps begin at multiples of `step_ms` (clipped to the window); steps without any attempt are
        there, with empty sums."""
        ...

    def epochs(self, target: str, start_ms: int, end_ms: int) -> Sequence[Epoch]:
        """The epochs that overlap the window, in order."""
        ...

    def commit_number(self) -> int:
        """Grows with every change to what can be read; equal numbers mean equal answers."""
        ...
