"""The turns that clients report, by target, model and client."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Adds both tables; they are filled when a client reports."""
    op.create_table(
        "clients",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("target", INTEGER, sa.ForeignKey("targets.id", name="fk_clients_target"), nullable=False),
        sa.Column("model_name", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.UniqueConstraint("target", "model_name", "client", name="uq_clients_target_model_name_client"),
        sqlite_strict=True,
    )
    op.create_table(
        "turns",
        sa.Column(
            "client",
            INTEGER,
            sa.ForeignKey("clients.id", name="fk_turns_client"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("at_ms", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("place", INTEGER, primary_key=True, autoincrement=False),
        sa.Column("prompt_class", INTEGER, nullable=False),
        sa.Column("ttft_us", INTEGER, nullable=False),
        sa.Column("decode_us", INTEGER, nullable=False),
        sa.Column("output_tokens", INTEGER, nullable=False),
        sa.Column("prompt_tokens", INTEGER, nullable=False),
        sa.Column("typed_tokens", INTEGER, nullable=True),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
