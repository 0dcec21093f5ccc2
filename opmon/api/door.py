"""What the HTTP surface needs from the rest of opmon, as protocols and one value that carries them.

Contains no implementation. `opmon.service` passes the real ones; tests pass others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, cast

from fastapi import Depends, Request

from opmon.api.conditional import Shared
from opmon.api.runtime import RuntimeInfo
from opmon.api.static_files import StaticFiles
from opmon.core import answers
from opmon.core.answers import Selector
from opmon.core.beside import LevelBeside
from opmon.core.cells import SweepImport
from opmon.core.client_turns import ClientTurn, ClientTurns
from opmon.core.recommend.claimed import Claim
from opmon.core.recommend.quote import ClaimAsk
from opmon.core.saving import Saving, SavingAsk
from opmon.errors import StoreError
from opmon.reports import RecommendationAsk, WindowAsk


def readers_zone() -> str:
    """What stands for the zone of whoever reads the page."""
    return "UTC"


class Reports(Protocol):
    """The one door to every number. Implemented by `opmon.reports.Reports`."""

    @property
    def progress(self) -> Callable[[], float | None]:
        """Called: the share of the demo's simulated hours that is replayed; None when there is nothing to wait for."""
        ...

    def targets(self) -> tuple[answers.TargetStatus, ...]:
        """Every target and how it is, by name."""
        ...

    def operating_point(self, selector: Selector, ask: WindowAsk) -> answers.OperatingPoint:
        """Where the selected servers run. Raises NotFound and InvalidWindow."""
        ...

    def concurrency(self, selector: Selector, ask: WindowAsk, step_ms: int | None) -> answers.ConcurrencySeries:
        """Running and waiting over time."""
        ...

    def curve(self, selector: Selector, ask: WindowAsk) -> tuple[answers.CurvePoint, ...]:
        """The server's own speed at each level."""
        ...

    def curve_beside(self, selector: Selector, ask: WindowAsk, sweep: str) -> tuple[LevelBeside, ...]:
        """The server's own speed beside every cell of a sweep. Raises NotFound."""
        ...

    def recommendation(self, ask: RecommendationAsk) -> answers.Recommendation:
        """Which cell and column apply, and the verdict."""
        ...

    def sweeps(self) -> tuple[answers.SweepAnswer, ...]:
        """The stored sweeps, without their cells."""
        ...

    def sweep(self, name: str) -> answers.SweepAnswer:
        """A stored sweep with its cells. Raises NotFound."""
        ...

    def turn(
        self,
        *,
        ttft_seconds: float,
        decode_seconds: float,
        speedup_ratio: float,
        measured: str = "after",
        ttft_ratio: float = 1.0,
    ) -> answers.Turn:
        """The turn calculator."""
        ...

    def claim(self, ask: RecommendationAsk, quote: ClaimAsk) -> Claim:
        """Where a quoted speed-up comes from, and what holds instead."""
        ...

    def saving(self, ask: SavingAsk) -> Saving:
        """The saving calculator."""
        ...

    def client_turns(self, selector: Selector, ask: WindowAsk) -> ClientTurns:
        """The turns that clients reported, by client."""
        ...

    def version_tag(self, selector: Selector, ask: WindowAsk) -> str:
        """Equal tags mean equal answers."""
        ...

    def now_ms(self) -> int:
        """The instant that relative windows are taken from."""
        ...


def takes_no_turns(turn: ClientTurn) -> None:
    """Where no service runs, nobody keeps turns. Raises StoreError."""
    message = f"this opmon keeps no turns, so that of client {turn.client!r} was not stored"
    raise StoreError(message)


@dataclass(frozen=True, slots=True)
class Operations:
    """What a running service can be told and asked. `reload` raises ConfigError; `config`: without any secret."""

    reload: Callable[[], Awaitable[None]]
    config: Callable[[], dict[str, Any]]
    runtime: Callable[[], RuntimeInfo]


@dataclass(frozen=True, slots=True)
class Parts:
    """All that the routes call. `metrics` takes the Accept header and gives the body and its content type.
    `time_zone`: in which the page shows instants; UTC stands for the reader's own."""

    reports: Reports
    metrics: Callable[[str], tuple[bytes, str]]
    ready: Callable[[], bool]
    sweep_import: Callable[[str, SweepImport], None]
    sweep_delete: Callable[[str], None]
    files: StaticFiles
    operations: Operations | None = None
    time_zone: Callable[[], str] = readers_zone
    turn_report: Callable[[ClientTurn], None] = takes_no_turns
    pages: Shared = field(default_factory=Shared)


def parts_of(request: Request) -> Parts:
    """The parts that `create_app` was given."""
    return cast("Parts", request.app.state.parts)


Door = Annotated[Parts, Depends(parts_of)]
