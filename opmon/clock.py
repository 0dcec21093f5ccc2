"""Where time comes from: one protocol, the system's clock, and a clock for simulated time.

Contains no timers and no sleeping. Wall-clock instants are integer milliseconds since the Unix epoch.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the wall clock and a clock that never steps."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds of a clock that only goes forward."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands where it is put: for replays, simulated time and tests."""

    def __init__(self, now_ms: int = 0) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic_ms(self) -> int:
        return self.value_ms
