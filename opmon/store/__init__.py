"""The database: raw rows, roll-ups, targets and sweeps, on SQLite or PostgreSQL."""

from opmon.store.store import Store, StoreStats

__all__ = ["Store", "StoreStats"]
