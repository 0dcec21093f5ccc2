"""The first schema: targets, raw rows, roll-ups and sweeps."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import REAL

revision = "0001"
down_revision = None

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
REAL_NUMBER: sa.types.TypeEngine[float] = sa.Double().with_variant(REAL(), "sqlite")
TEXT = sa.Text()
BLOB = sa.LargeBinary()


def upgrade() -> None:
    """Creates every table, and the commit number at 0."""
    op.create_table(
        "bounds",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("bounds", TEXT, nullable=False),
        sa.UniqueConstraint("bounds", name="uq_bounds_bounds"),
        sqlite_strict=True,
    )
    op.create_table(
        "meta",
        sa.Column("key", TEXT, primary_key=True),
        sa.Column("value", INTEGER, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "sweeps",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.UniqueConstraint("name", name="uq_sweeps_name"),
        sqlite_strict=True,
    )
    op.create_table(
        "targets",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("url", TEXT, nullable=False),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("labels", TEXT, nullable=False),
        sa.Column("engine", TEXT, nullable=False),
        sa.Column("version", TEXT, nullable=True),
        sa.Column("models", TEXT, nullable=False),
        sa.Column("engine_indexes", TEXT, nullable=False),
        sa.Column("health", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=True),
        sa.Column("last_error", TEXT, nullable=False),
        sa.Column("last_scrape_ms", INTEGER, nullable=True),
        sa.Column("last_took_ms", INTEGER, nullable=True),
        sa.Column("last_size_bytes", INTEGER, nullable=True),
        sa.Column("pulse_interval_ms", INTEGER, nullable=False),
        sa.Column("full_interval_ms", INTEGER, nullable=False),
        sa.Column("stall_after_ms", INTEGER, nullable=False),
        sa.Column("form", TEXT, nullable=False),
        sa.Column("missing", TEXT, nullable=False),
        sa.Column("content_mix", TEXT, nullable=False),
        sa.Column("ceilings", TEXT, nullable=False),
        sa.Column("kv_cache_max_concurrency", REAL_NUMBER, nullable=True),
        sa.Column("first_scrape_ms", INTEGER, nullable=True),
        sa.Column("removed_ms", INTEGER, nullable=True),
        sa.Column("rolled_until_ms", INTEGER, nullable=False),
        sa.Column("raw_from_ms", INTEGER, nullable=False),
        sa.Column("five_minutes_from_ms", INTEGER, nullable=False),
        sa.Column("hourly_from_ms", INTEGER, nullable=False),
        sa.UniqueConstraint("name", name="uq_targets_name"),
        sqlite_strict=True,
    )
    op.create_table(
        "attempts",
        sa.Column(
            "target",
            INTEGER,
            sa.ForeignKey("targets.id", name="fk_attempts_target"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("stratum_ms", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("interval_ms", INTEGER, nullable=False),
        sa.Column("offset_ms", INTEGER, nullable=False),
        sa.Column("took_ms", INTEGER, nullable=False),
        sa.Column("lane", INTEGER, nullable=False),
        sa.Column("state", INTEGER, nullable=False),
        sa.Column("epoch", INTEGER, nullable=False),
        sa.Column("kind", TEXT, nullable=True),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "dirty",
        sa.Column(
            "target",
            INTEGER,
            sa.ForeignKey("targets.id", name="fk_dirty_target"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("bucket_ms", INTEGER, primary_key=True, autoincrement=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "epochs",
        sa.Column(
            "target",
            INTEGER,
            sa.ForeignKey("targets.id", name="fk_epochs_target"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("number", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("start_ms", INTEGER, nullable=False),
        sa.Column("cause", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("identity", TEXT, nullable=False),
        sa.Column("process_start_seconds", REAL_NUMBER, nullable=True),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "imports",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("sweep", INTEGER, sa.ForeignKey("sweeps.id", name="fk_imports_sweep"), nullable=False),
        sa.Column("sha256", TEXT, nullable=False),
        sa.Column("file_name", TEXT, nullable=False),
        sa.Column("reader", TEXT, nullable=False),
        sa.Column("reader_version", INTEGER, nullable=False),
        sa.Column("size_bytes", INTEGER, nullable=False),
        sa.Column("imported_ms", INTEGER, nullable=False),
        sa.Column("notes", TEXT, nullable=False),
        sa.Column("original", BLOB, nullable=True),
        sa.UniqueConstraint("sweep", "sha256", name="uq_imports_sweep_sha256"),
        sqlite_strict=True,
    )
    op.create_table(
        "series",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("target", INTEGER, sa.ForeignKey("targets.id", name="fk_series_target"), nullable=False),
        sa.Column("model_name", TEXT, nullable=False),
        sa.Column("engine_index", TEXT, nullable=False),
        sa.UniqueConstraint("target", "model_name", "engine_index", name="uq_series_target_model_name_engine_index"),
        sqlite_strict=True,
    )
    op.create_table(
        "views",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("target", INTEGER, sa.ForeignKey("targets.id", name="fk_views_target"), nullable=False),
        sa.Column("kind", INTEGER, nullable=False),
        sa.Column("model_name", TEXT, nullable=False),
        sa.Column("engine_index", TEXT, nullable=False),
        sa.UniqueConstraint(
            "target", "kind", "model_name", "engine_index", name="uq_views_target_kind_model_name_engine_index"
        ),
        sqlite_strict=True,
    )
    op.create_table(
        "cells",
        sa.Column(
            "import",
            INTEGER,
            sa.ForeignKey("imports.id", name="fk_cells_import"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("position", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("source_row", INTEGER, nullable=True),
        sa.Column("configuration", TEXT, nullable=False),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("concurrency", REAL_NUMBER, nullable=True),
        sa.Column("cell", TEXT, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "full_samples",
        sa.Column(
            "series",
            INTEGER,
            sa.ForeignKey("series.id", name="fk_full_samples_series"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("stratum_ms", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("payload", BLOB, nullable=False),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "roll_ups",
        sa.Column(
            "view", INTEGER, sa.ForeignKey("views.id", name="fk_roll_ups_view"), primary_key=True, autoincrement=False
        ),
        sa.Column("tier_minutes", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("bucket_ms", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("epoch", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("observed_ms", INTEGER, nullable=False),
        sa.Column("stalled_ms", INTEGER, nullable=False),
        sa.Column("invalid_ms", INTEGER, nullable=False),
        sa.Column("down_ms", INTEGER, nullable=False),
        sa.Column("as_view", INTEGER, sa.ForeignKey("views.id", name="fk_roll_ups_as_view"), nullable=True),
        sa.Column("sums", BLOB, nullable=True),
        sqlite_strict=True,
    )
    op.create_table(
        "samples",
        sa.Column(
            "series",
            INTEGER,
            sa.ForeignKey("series.id", name="fk_samples_series"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("stratum_ms", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("running", INTEGER, nullable=True),
        sa.Column("waiting", INTEGER, nullable=True),
        sa.Column("kv_usage_ratio", REAL_NUMBER, nullable=True),
        sa.Column("generation_tokens", REAL_NUMBER, nullable=True),
        sa.Column("prompt_tokens", REAL_NUMBER, nullable=True),
        sa.Column("finished_requests", REAL_NUMBER, nullable=True),
        sa.Column("preemptions", REAL_NUMBER, nullable=True),
        sa.Column("itl_seconds_sum", REAL_NUMBER, nullable=True),
        sa.Column("itl_seconds_count", REAL_NUMBER, nullable=True),
        sa.Column("prefill_seconds_sum", REAL_NUMBER, nullable=True),
        sa.Column("prefill_seconds_count", REAL_NUMBER, nullable=True),
        sa.Column("ttft_seconds_sum", REAL_NUMBER, nullable=True),
        sa.Column("ttft_seconds_count", REAL_NUMBER, nullable=True),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    meta = sa.table("meta", sa.column("key"), sa.column("value"))
    op.bulk_insert(meta, [{"key": "commit", "value": 0}])
