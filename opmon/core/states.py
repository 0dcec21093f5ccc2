"""Attempts to rows: the state of every stratum, epochs, stalls dated back, and what has become final.

Contains no clock, no storage and no arithmetic on levels. One tracker follows one target, attempt by attempt, in the
order of their strata; after a restart of opmon it goes on from the database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opmon.core.epochs import (
    LEAP,
    QUICK_FALL_SECONDS,
    Alternation,
    Change,
    Past,
    Server,
    can_be_new,
    engines_of,
    leap,
    names_of,
)
from opmon.core.model import Attempt, Epoch, Row, SeriesKey, SeriesSample, Snapshot, State
from opmon.core.standing import Levels, Relabel, Standing, add_final, progressed

__all__ = ["REMOVED_AFTER_STRATA", "Relabel", "Step", "Tracker"]

STEADY_ANSWERS = 10
"""So many answers in a row must one server give before it is taken for the only one behind its address again; and a
second change of server within so many answers, without an outage between, shows that there are several."""

MOST_STEADY_ANSWERS = 600
"""Where a change proves by itself that there are several servers, the same is asked of four times as many answers each
time, up to so many. Where counters or engines prove it, as many answers are dated back: among them one server's counters
may have leapt up to another's, and looked like work."""

FORGOTTEN_AFTER_MS = 30_000
"""A process may restart, and another be started, in an outage of so long; in a shorter one only if its start is told."""

SEVERAL = "several_servers"

REMOVED_AFTER_STRATA = 10
"""So many strata may an expected engine be absent, while others progress, before it counts as removed."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one attempt amounts to.

    `new_epoch` begins with this row. `learnt_epoch` is the present one with more of its identity (a full scrape shows
    what a pulse does not); it replaces the stored one. `relabels` change the state of earlier good rows.
    `final`: milliseconds per running level that can no longer change, for the whole target (None) and each model.
    """

    row: Row
    detail: str = ""
    new_epoch: Epoch | None = None
    relabels: tuple[Relabel, ...] = ()
    final: Mapping[str | None, Mapping[int, int]] = field(default_factory=dict)
    learnt_epoch: Epoch | None = None


class Tracker:
    """Follows one target. Make it with `fresh` or `restore`."""

    def __init__(self, stall_after_ms: int) -> None:
        self.epoch: Epoch | None = None
        self._server = Server()
        self._standing = Standing(stall_after_ms)
        self._absent_strata = 0
        self._seen_last: Mapping[SeriesKey, SeriesSample] = {}
        self._set_back: Change | None = None
        self._carried: Levels = {}
        self._answers_since_change: int | None = None
        self._alternation: Alternation | None = None
        self._is_dated_back = False
        self._past = Past()
        self._proof: Change | None = None
        self._dated_back_answers = STEADY_ANSWERS
        self._steady_answers = STEADY_ANSWERS
        self._seen_at_ms: int | None = None

    @classmethod
    def fresh(cls, *, stall_after_ms: int) -> Tracker:
        """For a target that was never scraped."""
        return cls(stall_after_ms)

    @classmethod
    def restore(
        cls,
        epoch: Epoch | None,
        rows: Sequence[Row],
        stall_after_ms: int,
        *,
        starts: Sequence[float] = (),
        kind: str | None = None,
    ) -> Tracker:
        """Goes on where the database ends.

        `epoch` is the current one (or the last), None if there was no answer yet. `rows` are the latest ones of the
        whole target, in order: at least back to the last full scrape and over `stall_after_ms`, and over all of a
        stalled stretch at the end. Without rows the identity alone tells whether the server is still the same.
        `starts`: those of the processes of earlier epochs, in order. `kind`: that of the target's last attempt; where
        several servers answered, they are taken to answer still.
        """
        tracker = cls(stall_after_ms)
        if epoch is None:
            return tracker
        good = [
            row
            for row in rows
            if row.epoch == epoch.number and row.state in (State.OBSERVED, State.STALLED) and row.series
        ]
        tracker.epoch = epoch
        tracker._server = Server.of_epoch(epoch, good)
        for row in good:
            tracker._standing.restore(row)
        tracker._seen_last = tracker._standing.last
        tracker._seen_at_ms = good[-1].at_ms if good else None
        tracker._past.starts.extend(starts)
        if kind == SEVERAL:
            tracker._alternation, tracker._is_dated_back = Alternation(), True
        return tracker

    def advance(self, attempt: Attempt) -> Step:
        """The next attempt: its row, and what it changes."""
        snapshot = attempt.snapshot
        if snapshot is None:
            self._away(attempt)
            return self._without_value(attempt, State.DOWN, attempt.kind or "connect", attempt.detail)
        fault = _fault(attempt, snapshot) or self._engine_fault(snapshot)
        if fault is not None:
            return self._without_value(attempt, State.INVALID, *fault)
        change = self._change(snapshot)
        absent = self._server.absent(snapshot)
        if change is None and not absent:
            change = self._leap(attempt, snapshot)
        if self._alternates(attempt, snapshot, change, absent):
            return self._of_several_servers(attempt)
        change = change or self._proof
        if change is None and absent:
            self._absent_strata += progressed(self._seen_last, snapshot.series)
            self._seen_last = snapshot.series
            if self._absent_strata <= REMOVED_AFTER_STRATA:
                return self._without_value(attempt, State.INVALID, "engine_absent", f"not shown: {names_of(absent)}")
            change = self._server.removal(snapshot)
        return self._good(attempt, snapshot, change)

    def _engine_fault(self, snapshot: Snapshot) -> tuple[str, str] | None:
        """Why an answer's counters cannot be used, given those before: (kind, words)."""
        silent = self._server.silent(snapshot)
        if silent:
            return "engine_absent", f"works, and shows no number of running requests: {names_of(silent)}"
        damaged = self._server.damaged(snapshot) if self._alternation is None else ""
        return ("negative", damaged) if damaged else None

    def _away(self, attempt: Attempt) -> None:
        """A failed attempt: a server that is away long enough may have been exchanged, so a change tells nothing."""
        away_ms = FORGOTTEN_AFTER_MS if self._seen_at_ms is None else attempt.at_ms - self._seen_at_ms
        if away_ms >= FORGOTTEN_AFTER_MS or self._server.process_start_seconds is not None:
            self._answers_since_change = None

    def _leap(self, attempt: Attempt, snapshot: Snapshot) -> Change | None:
        """Whether counters rose since the last good answer as those of one server cannot. The process that began at the
        very same instant is the same, whatever its counters do."""
        start = snapshot.process_start_seconds
        if self._seen_at_ms is None or (start is not None and start == self._server.process_start_seconds):
            return None
        # Counters that stood still while requests were there may come in one piece: a cached page, or the end of a batch.
        anchor_ms = self._seen_at_ms if self._standing.anchor_ms is None else self._standing.anchor_ms
        seconds = _seconds(attempt, min(anchor_ms, self._seen_at_ms))
        is_live = snapshot.engine == "vllm"
        pairs = [(self._standing.last[key], one) for key, one in snapshot.series.items() if key in self._standing.last]
        return next(filter(None, (leap(before, after, seconds, is_live=is_live) for before, after in pairs)), None)

    def _alternates(
        self, attempt: Attempt, snapshot: Snapshot, change: Change | None, absent: Collection[SeriesKey]
    ) -> bool:
        """Whether several servers answer. An engine that joins while none is absent is no other server."""
        if self._alternation is None:
            since = self._answers_since_change
            self._answers_since_change = None if since is None or since >= STEADY_ANSWERS else since + 1
            self._proof = None
            if change is None or (change.cause in ("engines", "models", "clock") and not absent):
                return False
            proven = self._proven_answers(attempt, snapshot, change)
            if not proven and since is None:
                return False
            if since is None or proven > STEADY_ANSWERS:
                self._steady_answers = min(4 * self._steady_answers, MOST_STEADY_ANSWERS)
            self._alternation, self._proof = Alternation(), change
            self._dated_back_answers = proven or STEADY_ANSWERS
        self._alternation.take(snapshot)
        if self._alternation.calm <= self._steady_answers:
            return True
        self._alternation = None
        return False

    def _proven_answers(self, attempt: Attempt, snapshot: Snapshot, change: Change) -> int:
        """Over how many answers back a change proves by itself that there are several servers; 0 where it does not.

        One that restarts never goes back to an earlier start, begins to count at 0 after its last good answer, and
        takes a while to be there again; and nobody swaps models every few minutes.
        """
        if self._past.has_start(snapshot.process_start_seconds, self._server.process_start_seconds):
            return STEADY_ANSWERS
        is_swapped_back = change.cause in ("engines", "models") and self._past.has_lineup(engines_of(snapshot.series))
        if change.cause == LEAP or is_swapped_back or self._is_too_old(attempt, snapshot, change):
            return MOST_STEADY_ANSWERS
        if self._is_quick_fall(attempt, change) and self._past.falls_again(attempt.stratum_ms):
            # Their turns are longer than ten answers, and nothing else tells them apart: the next leap up would be load.
            self._steady_answers = MOST_STEADY_ANSWERS
            return MOST_STEADY_ANSWERS
        return 0

    def _is_too_old(self, attempt: Attempt, snapshot: Snapshot, change: Change) -> bool:
        """Whether counters fell to what cannot have been done since the last good answer."""
        if self._seen_at_ms is None:
            return False
        # A single counter that fell is a broken one, and tells nothing.
        names = self._server.fallen(snapshot)
        fallen = [key for key in change.fallen if len(names[key]) > 1]
        seconds = _seconds(attempt, self._seen_at_ms)
        return not all(can_be_new(snapshot.series[key], seconds) for key in fallen)

    def _is_quick_fall(self, attempt: Attempt, change: Change) -> bool:
        """Whether counters fell since the last good answer faster than a process starts."""
        if self._seen_at_ms is None or not change.fallen:
            return False
        return _seconds(attempt, self._seen_at_ms) <= QUICK_FALL_SECONDS

    def _of_several_servers(self, attempt: Attempt) -> Step:
        """The row of an answer from one of several servers. What was taken for one server is dated back, and is not
        exported: the present epoch, and the answers just before it; further where more is proven."""
        detail = "answers come from more than one server: watch each by itself, not the balancer before them"
        step = self._without_value(attempt, State.INVALID, SEVERAL, detail)
        if self._is_dated_back or self.epoch is None:
            return step
        self._is_dated_back = True
        self._standing.close()
        self._carried = {}
        since_ms = self.epoch.start_ms - STEADY_ANSWERS * attempt.interval_ms
        if self._dated_back_answers > STEADY_ANSWERS:
            since_ms = attempt.stratum_ms - self._dated_back_answers * attempt.interval_ms
        return replace(step, relabels=(Relabel(since_ms, attempt.stratum_ms, State.INVALID, SEVERAL),))

    def clock_stepped(self, step_ms: int) -> None:
        """The wall clock stepped since the last attempt; positive: forward.

        The time between the two is not known, so nothing is said to have stood still over it. After a step back,
        instants come a second time, and a counter would seem to leap between two that only look like neighbours: a
        new epoch begins, and nothing is compared across it.
        """
        self._carried = add_final(self._carried, self._standing.close())
        self._seen_at_ms = None
        if step_ms < 0 and self.epoch is not None:
            self._set_back = Change("clock", f"the clock was set back by {-step_ms / 1000:g} s")

    def _change(self, snapshot: Snapshot) -> Change | None:
        if self.epoch is None:
            return Change("start", "")
        return self._server.change(snapshot) or self._set_back

    def _good(self, attempt: Attempt, snapshot: Snapshot, change: Change | None) -> Step:
        """An answer whose values count."""
        final = self._carried
        self._carried = {}
        new_epoch = learnt_epoch = None
        self._is_dated_back = False
        if change is not None:
            final = add_final(final, self._standing.close())
            if self.epoch is not None:
                self._past.end_epoch(self._server, attempt.stratum_ms - self.epoch.start_ms)
            self._server = Server()
            self._set_back = None
        learnt = self._server.learn(snapshot)
        if change is not None:
            new_epoch = self.epoch = self._begin(attempt, change)
            self._answers_since_change = None if change.cause in ("start", "clock") else 0
        elif learnt:
            learnt_epoch = self.epoch = self._with_identity()
        self._absent_strata, self._seen_last = 0, snapshot.series
        row = self._row(attempt, State.OBSERVED, dict(snapshot.series))
        judgement = self._standing.take(row)
        row.state = judgement.state
        self._seen_at_ms = attempt.at_ms
        final = add_final(final, judgement.final)
        if self._answers_since_change is not None:
            # While a change is fresh it may turn out to be the first of several servers: what is exported stays.
            self._carried, final = final, {}
        return Step(
            row=row,
            detail=change.detail if change else snapshot.detail,
            new_epoch=new_epoch,
            relabels=judgement.relabels,
            final=final,
            learnt_epoch=learnt_epoch,
        )

    def _begin(self, attempt: Attempt, change: Change) -> Epoch:
        return Epoch(
            number=self.epoch.number + 1 if self.epoch else 1,
            start_ms=attempt.stratum_ms,
            end_ms=None,
            cause=change.cause,
            detail=change.detail,
            identity=dict(self._server.identity),
            process_start_seconds=self._server.process_start_seconds,
        )

    def _with_identity(self) -> Epoch | None:
        epoch = self.epoch
        if epoch is None:
            return None
        identity, start = dict(self._server.identity), self._server.process_start_seconds
        return Epoch(epoch.number, epoch.start_ms, epoch.end_ms, epoch.cause, epoch.detail, identity, start)

    def _without_value(self, attempt: Attempt, state: State, kind: str, detail: str) -> Step:
        row = self._row(attempt, state, {})
        row.kind = kind
        return Step(row=row, detail=detail)

    def _row(self, attempt: Attempt, state: State, series: dict[SeriesKey, SeriesSample]) -> Row:
        return Row(
            stratum_ms=attempt.stratum_ms,
            interval_ms=attempt.interval_ms,
            at_ms=attempt.at_ms,
            lane=attempt.lane,
            state=state,
            epoch=self.epoch.number if self.epoch else 0,
            series=series,
            took_ms=attempt.took_ms,
        )


def _seconds(attempt: Attempt, since_ms: int) -> float:
    """From an instant to the end of an answer, at least a second."""
    return max(attempt.at_ms - since_ms + attempt.took_ms, 1000) / 1000


def _fault(attempt: Attempt, snapshot: Snapshot) -> tuple[str, str] | None:
    """Why an answer's values cannot be used: (kind, words). A slow answer comes when the server is idle: biased."""
    if snapshot.fault is not None:
        return snapshot.fault, snapshot.detail
    waited = attempt.took_ms if attempt.first_byte_ms is None else attempt.first_byte_ms
    if waited > attempt.interval_ms:
        return "late", f"answered after {waited} ms, in strata of {attempt.interval_ms} ms"
    if not any(sample.running is not None for sample in snapshot.series.values()):
        return "no_known_metrics", snapshot.detail or "nothing says how many requests run"
    return None
