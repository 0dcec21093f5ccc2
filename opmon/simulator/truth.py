"""What really happened: exact milliseconds at each level, and the stretches in which nobody could have seen it.

Contains no sampling and no opinion: the simulation notes each change, this adds them up.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

UP, DOWN, FROZEN = "up", "down", "frozen"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch `[start_ms, end_ms)` in one state: `up`, `down` (no answer) or `frozen` (answers that stand still)."""

    start_ms: int
    end_ms: int
    state: str


@dataclass(frozen=True, slots=True)
class Truth:
    """A stretch of the simulation. The occupancies map a level to milliseconds and cover the time that is `up`.

    `hidden_running` is what ran while the server was down to its watcher, or its gauges were frozen. `spans` cover
    the stretch without holes.
    """

    running: dict[int, int] = field(default_factory=dict)
    waiting: dict[int, int] = field(default_factory=dict)
    in_system: dict[int, int] = field(default_factory=dict)
    hidden_running: dict[int, int] = field(default_factory=dict)
    spans: tuple[Span, ...] = ()

    def state_ms(self, state: str) -> int:
        """Milliseconds in `up`, `down` or `frozen`."""
        return sum(span.end_ms - span.start_ms for span in self.spans if span.state == state)


class Timeline:
    """Running, waiting and state as steps over time, in whole milliseconds."""

    def __init__(self, start_ms: int) -> None:
        self._times = [start_ms]
        self._values = [(0, 0, UP)]

    def note(self, at_ms: int, running: int, waiting: int, state: str) -> None:
        """From `at_ms` on these values hold. Instants must not go back."""
        value = (running, waiting, state)
        if value == self._values[-1]:
            return
        if at_ms <= self._times[-1]:
            self._values[-1] = value
            return
        self._times.append(at_ms)
        self._values.append(value)

    def truth(self, start_ms: int, end_ms: int) -> Truth:
        """The exact sums over `[start_ms, end_ms)`; before the first note nothing ran."""
        truth, spans = Truth(), list[Span]()
        position = max(0, bisect_right(self._times, start_ms) - 1)
        at = start_ms
        while at < end_ms:
            following = self._times[position + 1] if position + 1 < len(self._times) else end_ms
            until = min(end_ms, following)
            running, waiting, state = self._values[position]
            position += 1
            if until <= at:
                continue
            _add(truth, running, waiting, until - at, seen=state == UP)
            if spans and spans[-1].state == state:
                spans[-1] = Span(spans[-1].start_ms, until, state)
            else:
                spans.append(Span(at, until, state))
            at = until
        return Truth(truth.running, truth.waiting, truth.in_system, truth.hidden_running, tuple(spans))


def _add(truth: Truth, running: int, waiting: int, milliseconds: int, *, seen: bool) -> None:
    if not seen:
        truth.hidden_running[running] = truth.hidden_running.get(running, 0) + milliseconds
        return
    for levels, level in ((truth.running, running), (truth.waiting, waiting), (truth.in_system, running + waiting)):
        levels[level] = levels.get(level, 0) + milliseconds
