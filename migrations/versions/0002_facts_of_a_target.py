"""What a target's page says of its server beside its values, such as two names of one signal that disagree."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds the column; nothing is known of the targets that are there until their next full scrape."""
    op.add_column("targets", sa.Column("facts", sa.Text(), nullable=False, server_default="{}"))
