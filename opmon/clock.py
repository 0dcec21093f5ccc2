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


class AnchoredClock:
    """The wall clock as an anchor plus the monotonic clock: it never jumps by itself.

    `check` compares it with the real wall clock. Small differences (the clock is being slewed) move the anchor in
    silence; a step of more than STEP_MS moves it too and is returned, so that the caller can record it and reschedule.
    """

    STEP_MS = 1_000

    def __init__(self, system: Clock | None = None) -> None:
        self._system = system or SystemClock()
        self._anchor_ms = self._system.now_ms() - self._system.monotonic_ms()

    def now_ms(self) -> int:
        return self._anchor_ms + self._system.monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._system.monotonic_ms()

    def check(self) -> int | None:
        """Re-anchors, and returns the step in milliseconds (negative: back) if the wall clock stepped, else None."""
        difference_ms = self._system.now_ms() - self.now_ms()
        self._anchor_ms += difference_ms
        return difference_ms if abs(difference_ms) > self.STEP_MS else None


class ManualClock:
    """A clock that stands where it is put: for replays, simulated time and tests."""

    def __init__(self, now_ms: int = 0) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        return self.value_ms

    def monotonic_ms(self) -> int:
        return self.value_ms
