"""When a target is scraped: once in each stratum of time, at an instant that looks random and is the same every time.

Contains no scheduler and no clock. Strata are aligned to Unix time. The instant inside a stratum is a pure function
of the target's name and the stratum, never of the run before, so a late run delays nothing.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from random import Random

from apscheduler.triggers.base import BaseTrigger

# A request that starts this little after its stratum still belongs to it: the instants stay uniform (all are shifted
# alike by the scheduler's latency), where cutting the end of each stratum off would blind opmon to it. A collection of
# garbage and an import take up to 0.2 s, and never more than a fifth of the interval is granted.
LATE_TOLERANCE_MS = 200
LATE_SHARE = 5
BLOCK = 60
_FRACTIONS = 1 << 64


def stratum_start(at_ms: int, interval_ms: int) -> int:
    """The start of the stratum that contains an instant."""
    return at_ms - at_ms % interval_ms


def offset_ms(name: str, stratum_ms: int, interval_ms: int) -> int:
    """The instant inside the stratum, 0 to interval - 1: uniform, and independent between targets.

    Each BLOCK of strata visits every one of BLOCK equal parts of the interval once, in a shuffled order, at a random
    instant within the part. Every single instant is uniform, so nothing is biased; but load that is locked to the
    clock is read with a fifth of the error that independent instants would make.
    """
    number = stratum_ms // interval_ms
    part = _order(name, interval_ms, number // BLOCK)[number % BLOCK]
    return (part * _FRACTIONS + _fraction(name, stratum_ms)) * interval_ms // (BLOCK * _FRACTIONS)


def _fraction(name: str, stratum_ms: int) -> int:
    """A number from 0 to _FRACTIONS - 1 that looks random."""
    return int.from_bytes(hashlib.blake2b(f"{name}\0{stratum_ms}".encode(), digest_size=8).digest(), "big")


@lru_cache(maxsize=4096)
def _order(name: str, interval_ms: int, block: int) -> tuple[int, ...]:
    """In which order a block of strata visits the parts of the interval."""
    parts = list(range(BLOCK))
    Random(f"{name}\0{interval_ms}\0{block}").shuffle(parts)
    return tuple(parts)


def fire_ms(name: str, stratum_ms: int, interval_ms: int) -> int:
    """When the stratum's attempt is due."""
    return stratum_ms + offset_ms(name, stratum_ms, interval_ms)


def next_fire_ms(name: str, interval_ms: int, after_ms: int) -> int:
    """The first due instant strictly after `after_ms`."""
    stratum = stratum_start(after_ms, interval_ms)
    due = fire_ms(name, stratum, interval_ms)
    return due if due > after_ms else fire_ms(name, stratum + interval_ms, interval_ms)


def late_tolerance_ms(interval_ms: int) -> int:
    """How long after the end of its stratum an attempt may start."""
    return min(LATE_TOLERANCE_MS, interval_ms // LATE_SHARE)


def owned_stratum(name: str, interval_ms: int, at_ms: int, free_from_ms: int) -> int | None:
    """The stratum that an attempt starting now belongs to, None if that one has had its attempt.

    Strata before `free_from_ms` (the end of the last stratum that had one) are taken. An attempt that starts at most
    LATE_TOLERANCE_MS, or a fifth of the interval, after the end of its own stratum still belongs to that one.
    """
    stratum = stratum_start(at_ms, interval_ms)
    tolerance_ms = late_tolerance_ms(interval_ms)
    is_early = fire_ms(name, stratum, interval_ms) > at_ms
    if at_ms - stratum <= tolerance_ms and is_early and stratum - interval_ms >= free_from_ms:
        return stratum - interval_ms
    return stratum if stratum >= free_from_ms else None


class StratumTrigger(BaseTrigger):
    """Fires once in each stratum of one target."""

    def __init__(self, name: str, interval_ms: int) -> None:
        self.name = name
        self.interval_ms = interval_ms

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The due instant of the next stratum after the later of the two times; strata that passed are skipped."""
        after_ms = int(now.timestamp() * 1000)
        if previous_fire_time is not None:
            after_ms = max(after_ms, int(previous_fire_time.timestamp() * 1000 + 0.5))
        due_ms = next_fire_ms(self.name, self.interval_ms, after_ms)
        return datetime.fromtimestamp(due_ms / 1000, tz=UTC)
