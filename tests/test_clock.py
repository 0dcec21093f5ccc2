"""Clocks: an anchored one never jumps by itself."""

from __future__ import annotations

from opmon.clock import AnchoredClock, ManualClock, SystemClock


class SteppingClock(ManualClock):
    """Wall time and monotonic time apart."""

    def __init__(self) -> None:
        super().__init__(1_800_000_000_000)
        self.monotonic = 0

    def monotonic_ms(self) -> int:
        return self.monotonic


def test_an_anchored_clock_follows_the_monotonic_clock() -> None:
    system = SteppingClock()
    clock = AnchoredClock(system)
    system.monotonic += 500
    assert clock.now_ms() == 1_800_000_000_500


def test_a_step_of_the_wall_clock_is_told_once_and_taken_over() -> None:
    system = SteppingClock()
    clock = AnchoredClock(system)
    system.value_ms -= 3_600_000
    assert clock.now_ms() == 1_800_000_000_000
    assert clock.check() == -3_600_000
    assert clock.now_ms() == 1_800_000_000_000 - 3_600_000
    assert clock.check() is None


def test_slewing_moves_the_anchor_in_silence() -> None:
    system = SteppingClock()
    clock = AnchoredClock(system)
    system.value_ms += 40
    assert clock.check() is None
    assert clock.now_ms() == 1_800_000_000_040


def test_the_system_clock_tells_milliseconds() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
