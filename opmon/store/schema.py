"""The tables of the database, as data.

Contains no queries and no connection. Four column types only: integer (BIGINT on PostgreSQL), text, real (double
precision) and blob; instants and durations are integer milliseconds, times of a turn integer microseconds. Changing a table here needs a migration
beside it (migrations/NOTES.md); a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Integer, LargeBinary, MetaData, Table, Text
from sqlalchemy import UniqueConstraint as Unique
from sqlalchemy.types import REAL, TypeEngine

from opmon.core.model import PULSE_COUNTERS

INTEGER: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
REAL_NUMBER: TypeEngine[float] = Double().with_variant(REAL(), "sqlite")
TEXT = Text()
BLOB = LargeBinary()

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def _integer(name: str, *, null: bool = False) -> Column[int]:
    return Column(name, INTEGER, nullable=null)


def _text(name: str, *, null: bool = False) -> Column[str]:
    return Column(name, TEXT, nullable=null)


def _id() -> Column[int]:
    return Column("id", INTEGER, primary_key=True)


def _key(name: str) -> Column[int]:
    return Column(name, INTEGER, primary_key=True, autoincrement=False)


def _reference(name: str, to: Table, *, key: bool = False) -> Column[int]:
    return Column(name, INTEGER, ForeignKey(to.c.id), primary_key=key, autoincrement=False, nullable=False)


# One number that grows with every change to what can be read.
META = Table("meta", METADATA, Column("key", TEXT, primary_key=True), _integer("value"), sqlite_strict=True)

# `rolled_until_ms`: every 5-minute bucket that ends at or before it is rolled up, unless it is marked in `dirty`.
# `raw_from_ms`, `five_minutes_from_ms`, `hourly_from_ms`: what is older was deleted by retention.
TARGETS = Table(
    "targets",
    METADATA,
    _id(),
    _text("name"),
    _text("url"),
    _text("job"),
    _text("labels"),
    _text("engine"),
    _text("version", null=True),
    _text("models"),
    _text("engine_indexes"),
    _text("health"),
    _text("state"),
    _text("kind", null=True),
    _text("last_error"),
    _integer("last_scrape_ms", null=True),
    _integer("last_took_ms", null=True),
    _integer("last_size_bytes", null=True),
    _integer("pulse_interval_ms"),
    _integer("full_interval_ms"),
    _integer("stall_after_ms"),
    _text("form"),
    _text("missing"),
    _text("content_mix"),
    _text("ceilings"),
    Column("kv_cache_max_concurrency", REAL_NUMBER, nullable=True),
    _integer("first_scrape_ms", null=True),
    _integer("removed_ms", null=True),
    _integer("rolled_until_ms"),
    _integer("raw_from_ms"),
    _integer("five_minutes_from_ms"),
    _integer("hourly_from_ms"),
    Column("facts", TEXT, nullable=False, server_default="{}"),
    Unique("name"),
    sqlite_strict=True,
)

SERIES = Table(
    "series",
    METADATA,
    _id(),
    _reference("target", TARGETS),
    _text("model_name"),
    _text("engine_index"),
    Unique("target", "model_name", "engine_index"),
    sqlite_strict=True,
)

# An epoch ends where the next one begins; the end is not stored, so the two cannot disagree.
EPOCHS = Table(
    "epochs",
    METADATA,
    _reference("target", TARGETS, key=True),
    _key("number"),
    _integer("start_ms"),
    _text("cause"),
    _text("detail"),
    _text("identity"),
    Column("process_start_seconds", REAL_NUMBER, nullable=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# The instant of the scrape is `stratum_ms + offset_ms`: two bytes instead of six, a hundred thousand times a day.
ATTEMPTS = Table(
    "attempts",
    METADATA,
    _reference("target", TARGETS, key=True),
    _key("stratum_ms"),
    _integer("interval_ms"),
    _integer("offset_ms"),
    _integer("took_ms"),
    _integer("lane"),
    _integer("state"),
    _integer("epoch"),
    _text("kind", null=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Counter values, not increases. A whole number in a REAL column is stored by SQLite as an integer of its size.
SAMPLES = Table(
    "samples",
    METADATA,
    _reference("series", SERIES, key=True),
    _key("stratum_ms"),
    _integer("running", null=True),
    _integer("waiting", null=True),
    Column("kv_usage_ratio", REAL_NUMBER, nullable=True),
    *(Column(name, REAL_NUMBER, nullable=True) for name in PULSE_COUNTERS),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# What a full scrape adds to the sample of its stratum (opmon.store.encoding).
FULL = Table(
    "full_samples",
    METADATA,
    _reference("series", SERIES, key=True),
    _key("stratum_ms"),
    Column("payload", BLOB, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Bounds of bucketed families as JSON text, each set of them once.
BOUNDS = Table("bounds", METADATA, _id(), _text("bounds"), Unique("bounds"), sqlite_strict=True)

# `kind`: 0 the whole target, 1 one model of it, 2 one series; names that do not apply are ''.
VIEWS = Table(
    "views",
    METADATA,
    _id(),
    _reference("target", TARGETS),
    _integer("kind"),
    _text("model_name"),
    _text("engine_index"),
    Unique("target", "kind", "model_name", "engine_index"),
    sqlite_strict=True,
)

# Sums only. `as_view`: the same sums as that view has at the same key (a target with one series has them once).
ROLL_UPS = Table(
    "roll_ups",
    METADATA,
    _reference("view", VIEWS, key=True),
    _key("tier_minutes"),
    _key("bucket_ms"),
    _key("epoch"),
    _integer("observed_ms"),
    _integer("stalled_ms"),
    _integer("invalid_ms"),
    _integer("down_ms"),
    Column("as_view", INTEGER, ForeignKey(VIEWS.c.id), nullable=True),
    Column("sums", BLOB, nullable=True),
    sqlite_strict=True,
)

# 5-minute buckets whose raw rows changed after they were rolled up.
DIRTY = Table(
    "dirty",
    METADATA,
    _reference("target", TARGETS, key=True),
    _key("bucket_ms"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# What a source of targets named last, in discovery's own words.
SOURCE_LISTS = Table(
    "source_lists", METADATA, Column("source", TEXT, primary_key=True), _text("list"), sqlite_strict=True
)

# Who reports turns. A client is one with one model of one target.
CLIENTS = Table(
    "clients",
    METADATA,
    _id(),
    _reference("target", TARGETS),
    _text("model_name"),
    _text("client"),
    Unique("target", "model_name", "client"),
    sqlite_strict=True,
)

# A turn as its client saw it, by the instant of the report; `place` tells those of one millisecond apart. The class of
# the prompt's length is stored, so that sums over a window can be grouped by it.
TURNS = Table(
    "turns",
    METADATA,
    _reference("client", CLIENTS, key=True),
    _key("at_ms"),
    _key("place"),
    _integer("prompt_class"),
    _integer("ttft_us"),
    _integer("decode_us"),
    _integer("output_tokens"),
    _integer("prompt_tokens"),
    _integer("typed_tokens", null=True),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

SWEEPS = Table("sweeps", METADATA, _id(), _text("name"), Unique("name"), sqlite_strict=True)

# `original` is the file, compressed; null where it was too large to keep.
IMPORTS = Table(
    "imports",
    METADATA,
    _id(),
    _reference("sweep", SWEEPS),
    _text("sha256"),
    _text("file_name"),
    _text("reader"),
    _integer("reader_version"),
    _integer("size_bytes"),
    _integer("imported_ms"),
    _text("notes"),
    Column("original", BLOB, nullable=True),
    Unique("sweep", "sha256"),
    sqlite_strict=True,
)

# The columns are what a person looks for; `cell` is everything, as JSON, so a later field needs no migration.
CELLS = Table(
    "cells",
    METADATA,
    _reference("import", IMPORTS, key=True),
    _key("position"),
    _integer("source_row", null=True),
    _text("configuration"),
    _text("content"),
    Column("concurrency", REAL_NUMBER, nullable=True),
    _text("cell"),
    sqlite_strict=True,
)
