"""A scenario running: clients, engines and incidents on one queue of events, seen through pages at chosen instants.

The only clock is the caller's: `advance_to` and `page` take the instant (integer milliseconds since the Unix epoch)
and go there. With `speed` the scenario runs so many times faster, as a faster server under faster traffic would:
every second that is reported is a second of the caller's clock. Contains no network; `server` puts this on a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import inf

from opmon.simulator.engine import Engine
from opmon.simulator.exposition import exposition
from opmon.simulator.stream import EngineConfig, Stream
from opmon.simulator.traffic import Call, Client
from opmon.simulator.truth import DOWN, FROZEN, UP, Timeline, Truth


class Down(Exception):
    """Nobody answers at this instant."""


@dataclass(frozen=True, slots=True)
class Outage:
    """The server cannot be reached, but goes on working behind it. Milliseconds from the start of the simulation."""

    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Restart:
    """The process dies, answers nobody for `down_ms`, and comes back with empty books."""

    at_ms: float
    down_ms: float


@dataclass(frozen=True, slots=True)
class AbortStorm:
    """Every client hangs up at once, and does not come back."""

    at_ms: float


@dataclass(frozen=True, slots=True)
class Hang:
    """The engine stands still while its frontend goes on answering with the last values."""

    start_ms: float
    end_ms: float


Incident = Outage | Restart | AbortStorm | Hang


@dataclass(frozen=True, slots=True)
class Scenario:
    """Engines, who calls them, and what goes wrong. `clients` makes fresh clients for each simulation."""

    name: str
    engines: tuple[EngineConfig, ...]
    clients: Callable[[], Iterable[Client]]
    incidents: tuple[Incident, ...] = ()
    length_ms: int = 3_600_000
    version: str = "0.32.0"

    def models(self) -> tuple[str, ...]:
        """The models served, each once, in order."""
        return tuple(dict.fromkeys(config.model_name for config in self.engines))


class Simulation:
    """One run of a scenario that began at `start_ms`. Instants handed in must not go back."""

    def __init__(self, scenario: Scenario, *, start_ms: int = 0, speed: float = 1.0) -> None:
        self.scenario = scenario
        self.start_ms = start_ms
        self.now_ms = start_ms
        self.speed = speed
        self.process_start_ms = start_ms
        self.restarts = 0
        self.engines: list[Engine] = []
        self._now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._callers: dict[Stream, Client] = {}
        self._outages = 0
        self._up_again: float | None = None
        self._timeline = Timeline(start_ms)
        self._by_engine = [Timeline(start_ms) for _ in scenario.engines]
        self._boot()
        for incident in scenario.incidents:
            self._arrange(incident)
        for client in scenario.clients():
            self._resume(client, None)

    # --- for those who watch ---------------------------------------------------------------------------------------

    def advance_to(self, at_ms: int) -> None:
        """Lets everything happen up to `at_ms`. Raises ValueError for an instant that has passed."""
        if at_ms < self.now_ms:
            message = f"the simulation is at {self.now_ms} ms already, past {at_ms} ms"
            raise ValueError(message)
        self.now_ms = at_ms
        until = (at_ms - self.start_ms) * self.speed
        while (due := min(self._next_action(), self._next_event())) <= until:
            self._move(due)
            while self._queue and self._queue[0][0] <= due:
                heappop(self._queue)[2]()
            self._note()
        self._move(until)

    def page(self, at_ms: int, names: Sequence[str] | None = None) -> bytes:
        """The exposition at `at_ms`: whole, or only the samples called one of `names`. Raises Down."""
        self.advance_to(at_ms)
        if self.is_down():
            message = "connection refused"
            raise Down(message)
        return self._page.text((at_ms - self.process_start_ms) / 1000, names)

    def is_down(self) -> bool:
        """Whether nobody answers now."""
        return self._outages > 0 or self._up_again is not None

    def truth(self, start_ms: int, end_ms: int, *, engine: int | None = None) -> Truth:
        """Exact occupancies over `[start_ms, end_ms)`, of the target or of one engine. Advances to `end_ms`."""
        if end_ms > self.now_ms:
            self.advance_to(end_ms)
        timeline = self._timeline if engine is None else self._by_engine[engine]
        return timeline.truth(start_ms, end_ms)

    def end_ms(self) -> int:
        """When the scripted part ends."""
        return self.start_ms + round(self.scenario.length_ms / self.speed)

    # --- time ------------------------------------------------------------------------------------------------------

    def _next_action(self) -> float:
        return self._queue[0][0] if self._queue else inf

    def _next_event(self) -> float:
        return min((engine.next_event_ms for engine in self.engines), default=inf)

    def _move(self, to: float) -> None:
        self._now = max(self._now, to)
        for engine in self.engines:
            for stream in engine.advance(self._now):
                self._answer(stream)

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heappush(self._queue, (max(when, self._now), next(self._order), action))

    def _note(self) -> None:
        at_ms = self.start_ms + round(self._now / self.speed)
        running = waiting = 0
        frozen = any(engine.halted or engine.frozen for engine in self.engines)
        state = DOWN if self.is_down() else FROZEN if frozen else UP
        for engine, timeline in zip(self.engines, self._by_engine, strict=False):
            timeline.note(at_ms, engine.running, len(engine.waiting), state)
            running += engine.running
            waiting += len(engine.waiting)
        if not self.engines:
            for timeline in self._by_engine:
                timeline.note(at_ms, 0, 0, state)
        self._timeline.note(at_ms, running, waiting, state)

    # --- clients ---------------------------------------------------------------------------------------------------

    def _resume(self, client: Client, value: float | None) -> None:
        """Tells a client when it was answered, and takes its next call."""
        try:
            call = next(client) if value is None else client.send(value)
        except StopIteration:
            return
        self._at(call.at_ms, partial(self._deliver, client, call))

    def _deliver(self, client: Client, call: Call) -> None:
        if self._up_again is not None:
            back = self._up_again if call.waits else self._now
            self._at(back, partial(self._resume, client, back))
            return
        engine = self.engines[call.engine]
        stream = engine.submit(call.request)
        if call.request.patience_ms is not None:
            self._at(self._now + call.request.patience_ms, partial(self._hang_up, engine, stream))
        if call.waits:
            self._callers[stream] = client
        else:
            self._resume(client, self._now)

    def _answer(self, stream: Stream) -> None:
        client = self._callers.pop(stream, None)
        if client is not None:
            self._resume(client, self._now)

    def _hang_up(self, engine: Engine, stream: Stream) -> None:
        """One client loses patience, if its answer is not complete yet; it goes on with its next turn."""
        if engine in self.engines and stream in engine.everything():
            engine.abort([stream])
            self._answer(stream)

    # --- incidents -------------------------------------------------------------------------------------------------

    def _arrange(self, incident: Incident) -> None:
        match incident:
            case Outage(start_ms, end_ms):
                self._at(start_ms, partial(self._reachable, 1))
                self._at(end_ms, partial(self._reachable, -1))
            case Restart(at_ms, down_ms):
                self._at(at_ms, partial(self._die, at_ms + down_ms))
                self._at(at_ms + down_ms, self._boot)
            case AbortStorm(at_ms):
                self._at(at_ms, self._storm)
            case Hang(start_ms, end_ms):
                self._at(start_ms, partial(self._halt, halted=True))
                self._at(end_ms, partial(self._halt, halted=False))

    def _reachable(self, change: int) -> None:
        self._outages += change

    def _die(self, back: float) -> None:
        """All that is in flight is lost; who waited tries again when the server is back."""
        self._up_again = back
        self.engines = []
        callers, self._callers = list(self._callers.values()), {}
        for client in callers:
            self._at(back, partial(self._resume, client, back))

    def _boot(self) -> None:
        """A new process: engines and books from nothing."""
        self.restarts += self._up_again is not None
        self._up_again = None
        self.process_start_ms = self.start_ms + round(self._now / self.speed)
        second_ms = 1000.0 * self.speed
        self.engines = [Engine(config, self._now, second_ms=second_ms) for config in self.scenario.engines]
        self._page = exposition(self.engines, self.process_start_ms / 1000)

    def _storm(self) -> None:
        for engine in self.engines:
            engine.abort(engine.everything())
        for client in self._callers.values():
            client.close()
        self._callers.clear()

    def _halt(self, *, halted: bool) -> None:
        for engine in self.engines:
            engine.halt(halted=halted)
