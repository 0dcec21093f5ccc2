"""The store as the rest of opmon sees it: every method is one transaction, or a run of small ones where it says so.

Contains no SQL: the modules beside it hold that. Reading is safe from several threads; writing takes turns by itself,
but belongs on the one writer thread of the service (opmon.store.writer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, text

from opmon.core.cells import Sweep, SweepImport
from opmon.core.client_turns import ClientTurn, TurnSums
from opmon.core.epochs import EPOCHS_KEPT
from opmon.core.model import Epoch, Row, TargetRecord, View
from opmon.core.states import Step
from opmon.core.sums import Sums, TimelinePoint
from opmon.store import epochs, lists, retention, rollups, samples, sweeps, targets, turns
from opmon.store.database import Database
from opmon.store.retention import Retention
from opmon.store.samples import Appended, Observed
from opmon.store.schema import META, METADATA

ROLL_UP_BATCH = 12
"""Buckets per transaction: the write lock is held for a fraction of a second, whatever there is to catch up with."""


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Sizes in bytes (the write-ahead log is None on PostgreSQL), and what this process wrote since it began."""

    size_bytes: int
    wal_bytes: int | None
    appended_rows: int
    duplicate_rows: int
    too_old_rows: int
    rolled_up_buckets: int
    deleted_rows: int


class Store:
    """Keeps what was observed, and answers for it (`opmon.core.source.Source`)."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.appended_rows = 0
        self.duplicate_rows = 0
        self.too_old_rows = 0
        self.rolled_up_buckets = 0
        self.deleted_rows = 0

    # --- targets --------------------------------------------------------------------------------------------------

    def save_target(self, record: TargetRecord) -> None:
        """Inserts or replaces a target, but for its first scrape: the earliest stays. Where its ceilings changed, what
        hangs on them is computed again."""
        with self.database.writing() as connection:
            _save_target(connection, record)

    def remove_target(self, name: str, at_ms: int) -> None:
        """The target is watched no more; what was observed stays. Raises NotFound."""
        with self.database.writing() as connection:
            targets.remove(connection, name, at_ms)

    def targets(self) -> Sequence[TargetRecord]:
        """All targets that are not removed, by name."""
        with self.database.reading() as connection:
            return targets.read_all(connection)

    def target(self, name: str) -> TargetRecord:
        """One target, removed or not. Raises NotFound naming those that exist."""
        with self.database.reading() as connection:
            return targets.read(connection, name)

    def find(self, name: str) -> TargetRecord | None:
        """One target, removed or not; None where there is none. Whoever writes goes on from it, never from a blank."""
        with self.database.reading() as connection:
            return targets.find(connection, name)

    def end_ms(self, name: str) -> int | None:
        """From here on new rows of a target follow what is stored; None before the first. Raises NotFound."""
        with self.database.reading() as connection:
            front = rollups.frontiers(connection, name)
            last_end_ms = samples.last_end(connection, front.target)
            return None if last_end_ms is None else max(last_end_ms, front.raw_from_ms)

    # --- what was observed ----------------------------------------------------------------------------------------

    def append(self, target: str, batch: Sequence[Observed | Step], record: TargetRecord | None = None) -> Appended:
        """Stores a target's rows, epochs and relabelled stretches, and its new record if given. Raises NotFound."""
        return self.append_all({target: batch}, {} if record is None else {target: record})

    def append_all(
        self, batches: Mapping[str, Sequence[Observed | Step]], records: Mapping[str, TargetRecord] | None = None
    ) -> Appended:
        """The same for several targets in one transaction: a commit costs more than a row."""
        outcomes = []
        with self.database.writing() as connection:
            for record in (records or {}).values():
                _save_target(connection, record)
            for name, batch in batches.items():
                steps = [item if isinstance(item, Step) else item.step for item in batch]
                outcomes.append(samples.append(connection, targets.target_id(connection, name), steps))
        total = Appended(
            sum(outcome.stored for outcome in outcomes),
            sum(outcome.duplicates for outcome in outcomes),
            sum(outcome.too_old for outcome in outcomes),
        )
        self.appended_rows += total.stored
        self.duplicate_rows += total.duplicates
        self.too_old_rows += total.too_old
        return total

    def rows(self, view: View, start_ms: int, end_ms: int, *, context: bool = True) -> list[Row]:
        """The raw rows of `[start_ms, end_ms)`, preceded by the context that a fold of them needs."""
        with self.database.reading() as connection:
            target = targets.target_id(connection, view.target)
            return samples.read(connection, target, view, start_ms, end_ms, context=context)

    def recent_rows(self, target: str) -> list[Row]:
        """The rows from which `Tracker.restore` goes on. Empty where nothing good was ever seen."""
        with self.database.reading() as connection:
            number, record = targets.target_id(connection, target), targets.read(connection, target)
            return samples.recent(connection, number, record.stall_after_ms)

    def current_epoch(self, target: str) -> Epoch | None:
        """The epoch that began last; None before the first answer."""
        with self.database.reading() as connection:
            return epochs.current(connection, targets.target_id(connection, target))

    def earlier_starts(self, target: str) -> list[float]:
        """The starts of the processes of the last epochs before the current one, in order, for `Tracker.restore`."""
        with self.database.reading() as connection:
            known = epochs.latest(connection, targets.target_id(connection, target), EPOCHS_KEPT + 1)[:-1]
            return [one.process_start_seconds for one in known if one.process_start_seconds is not None]

    def epochs(self, target: str, start_ms: int, end_ms: int) -> Sequence[Epoch]:
        """The epochs that overlap the window, in order."""
        with self.database.reading() as connection:
            return epochs.read(connection, targets.target_id(connection, target), start_ms, end_ms)

    def window(self, view: View, start_ms: int, end_ms: int) -> Mapping[int, Sums]:
        """Exact sums of the window, per epoch number; of `window_bounds` where its edges are older than raw rows."""
        with self.database.reading() as connection:
            front = rollups.frontiers(connection, view.target)
            return rollups.window(connection, front, view, start_ms, end_ms)

    def window_bounds(self, view: View, start_ms: int, end_ms: int) -> tuple[int, int]:
        """The window that `window` answers for: the one asked for, or wider where only buckets are left."""
        with self.database.reading() as connection:
            return rollups.window_bounds(rollups.frontiers(connection, view.target), view, start_ms, end_ms)

    def timeline(self, view: View, start_ms: int, end_ms: int, step_ms: int) -> Sequence[TimelinePoint]:
        """Sums per step, steps beginning at multiples of `step_ms` and clipped to the window."""
        with self.database.reading() as connection:
            front = rollups.frontiers(connection, view.target)
            points = rollups.timeline(connection, front, view, (start_ms, end_ms), step_ms)
        return [TimelinePoint(*point) for point in points]

    def finest_step_ms(self, view: View, start_ms: int) -> int:
        """The shortest step for which a timeline from there on is exact: 1, or the bucket that is left."""
        with self.database.reading() as connection:
            return rollups.finest_step_ms(rollups.frontiers(connection, view.target), start_ms)

    def commit_number(self) -> int:
        """Grows with every change to what can be read."""
        with self.database.reading() as connection:
            return int(connection.execute(select(META.c.value).where(META.c.key == "commit")).scalar_one())

    def source_lists(self) -> Mapping[str, str]:
        """What was kept of each source of targets."""
        with self.database.reading() as connection:
            return lists.read_all(connection)

    def keep_source_list(self, source: str, text: str) -> None:
        """Keeps what a source named last; an empty text removes it. No answer changes by it."""
        with self.database.writing(advance=False) as connection:
            lists.save(connection, source, text)

    # --- upkeep: runs of small transactions -----------------------------------------------------------------------

    def roll_up(self, now_ms: int, *, limit: int | None = None) -> int:
        """Rolls up what has settled by `now_ms` and what changed since; how many buckets. Stops after about `limit`.

        Doing it again, or after a crash in the middle, gives the same: a bucket is replaced as a whole.
        """
        done = 0
        for name in self._names():
            while limit is None or done < limit:
                rolled = self._roll_up_some(name, now_ms)
                done += rolled
                if rolled == 0:
                    break
        self.rolled_up_buckets += done
        return done

    def retain(self, now_ms: int, keep: Retention | None = None) -> int:
        """Deletes what is older than `keep` says, never what is not rolled up yet; how many rows."""
        done = 0
        for name in self._names():
            with self.database.reading() as connection:
                front = rollups.frontiers(connection, name)
                limits = retention.limits(connection, front, now_ms, keep or Retention())
            if limits != front:
                with self.database.writing() as connection:
                    retention.advance(connection, limits)
            done += self._delete_behind(limits)
        self.deleted_rows += done
        return done

    def stats(self) -> StoreStats:
        """What /metrics tells of the store; cheap enough for every evaluation."""
        size_bytes, wal_bytes = self._sizes()
        return StoreStats(
            size_bytes,
            wal_bytes,
            self.appended_rows,
            self.duplicate_rows,
            self.too_old_rows,
            self.rolled_up_buckets,
            self.deleted_rows,
        )

    def faults(self) -> list[str]:
        """What the database itself finds wrong with its pages; empty where nothing is. Reads all of it."""
        if self.database.dialect != "sqlite":
            return []
        with self.database.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check").scalars()
            return [line for line in found if line != "ok"]

    def count_rows(self) -> dict[str, int]:
        """The rows of every table. Reads them all: for a person who asks, not for /metrics."""
        with self.database.reading() as connection:
            return {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in METADATA.sorted_tables
            }

    # --- sweeps ---------------------------------------------------------------------------------------------------

    def import_sweep(self, name: str, one: SweepImport, at_ms: int) -> bool:
        """Adds a file's cells to a sweep, wholly or not at all. False: the file was in it already."""
        with self.database.writing() as connection:
            return sweeps.save(connection, name, one, at_ms)

    def import_sweeps(self, files: Sequence[tuple[str, SweepImport]], at_ms: int) -> list[bool]:
        """Adds each file's cells to the sweep of that name: all of them or, whatever happens, none. False for one that
        was in its sweep already."""
        with self.database.writing() as connection:
            return [sweeps.save(connection, name, one, at_ms) for name, one in files]

    def sweeps(self) -> Sequence[Sweep]:
        """All sweeps, by name."""
        with self.database.reading() as connection:
            return [sweeps.read(connection, name) for name in sweeps.names(connection)]

    def sweep(self, name: str) -> Sweep:
        """One sweep, without the original files; raises NotFound naming those that exist."""
        with self.database.reading() as connection:
            return sweeps.read(connection, name)

    def sweep_original(self, name: str, sha256: str) -> bytes | None:
        """An imported file itself; None where it was too large to keep. Raises NotFound."""
        with self.database.reading() as connection:
            return sweeps.original(connection, name, sha256)

    def delete_sweep(self, name: str) -> None:
        """Deletes a sweep with its cells and files. Raises NotFound."""
        with self.database.writing() as connection:
            sweeps.remove(connection, name)

    # --- what clients report --------------------------------------------------------------------------------------

    def report_turn(self, turn: ClientTurn) -> None:
        """Stores a turn that a client reports. Raises NotFound, and TooMany beyond what is kept."""
        with self.database.writing() as connection:
            turns.save(connection, turn)

    def turn_sums(self, target: str, start_ms: int, end_ms: int, model: str | None = None) -> Sequence[TurnSums]:
        """Exact sums over the turns received in the window, by client, model and class of prompt length."""
        with self.database.reading() as connection:
            return turns.sums(connection, target, start_ms, end_ms, model)

    # --- how ------------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        with self.database.reading() as connection:
            return [record.name for record in targets.read_all(connection, removed=True)]

    def _roll_up_some(self, name: str, now_ms: int) -> int:
        """One batch. Rolling up changes no answer, so the commit number stays."""
        with self.database.reading() as connection:
            if not rollups.is_due(connection, rollups.frontiers(connection, name), now_ms):
                return 0
        with self.database.writing(advance=False) as connection:
            return rollups.roll_up(connection, rollups.frontiers(connection, name), now_ms, ROLL_UP_BATCH)

    def _delete_behind(self, limits: rollups.Frontiers) -> int:
        done = 0
        while True:
            with self.database.writing(advance=False) as connection:
                deleted = retention.delete_batch(connection, limits)
            if deleted == 0:
                return done
            done += deleted

    def _sizes(self) -> tuple[int, int | None]:
        path = self.database.path
        if path is not None:
            log = path.with_name(path.name + "-wal")
            return path.stat().st_size, log.stat().st_size if log.exists() else 0
        with self.database.reading() as connection:
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()), None


def _save_target(connection: Connection, record: TargetRecord) -> None:
    """Ceilings decide what counts as limited: buckets since the first that differs are marked, as far as raw reaches."""
    known = targets.find(connection, record.name)
    number = targets.save(connection, record)
    if known is None or known.ceilings == record.ceilings:
        return
    differing = set(known.ceilings) ^ set(record.ceilings)
    front = rollups.frontiers(connection, record.name)
    since_ms = min((ceiling.since_ms for ceiling in differing), default=0)
    if since_ms < front.rolled_until_ms:
        samples.mark_dirty(connection, number, max(since_ms, front.raw_from_ms), front.rolled_until_ms)
