"""The turns of clients over a selection: whose, and from when to when.

Contains no summing beyond what the source gives, and no judgement: those are `opmon.core.client_turns`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opmon.core.answers import Selector
from opmon.core.client_turns import TurnSums
from opmon.core.model import Epoch, TargetRecord
from opmon.reports.asks import WindowAsk


class TurnSource(Protocol):
    """Where the turns of clients come from."""

    def turn_sums(self, target: str, start_ms: int, end_ms: int, model: str | None = None) -> Sequence[TurnSums]:
        """Exact sums over the turns received in `[start_ms, end_ms)`, by client, model and class of prompt length."""
        ...

    def epochs(self, target: str, start_ms: int, end_ms: int) -> Sequence[Epoch]:
        """The epochs that overlap the window, in order."""
        ...


def turns_until(ask: WindowAsk, end_ms: int, now_ms: int) -> int:
    """The end of a window for turns: up to this moment where the ask is. A report is whole when it comes in, so it does
    not wait for the grid, which is for samples."""
    is_open = ask.end_ms is None and (ask.start_ms is None or ask.window_ms is None)
    return max(now_ms + 1, end_ms) if is_open else end_ms


def turns_of(
    source: TurnSource, targets: Sequence[TargetRecord], selector: Selector, start_ms: int, end_ms: int
) -> list[TurnSums]:
    """The sums of the selected targets and model. Of one engine alone there are none: a client does not know which one
    answered."""
    if selector.engine_index is not None:
        return []
    found: list[TurnSums] = []
    for target in targets:
        since_ms = start_ms
        if selector.epoch == "current":
            epochs = source.epochs(target.name, start_ms, end_ms)
            since_ms = max(start_ms, epochs[-1].start_ms) if epochs else start_ms
        found += source.turn_sums(target.name, since_ms, end_ms, selector.model)
    return found
