"""What each source of targets named last, so that a source that fails at a start goes on with it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds the table; it is filled when a source is next asked."""
    op.create_table(
        "source_lists",
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("list", sa.Text(), nullable=False),
        sqlite_strict=True,
    )
