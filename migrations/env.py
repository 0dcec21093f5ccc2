"""How Alembic runs opmon's migrations: always on a connection that opmon hands over, in its transaction.

Contains no address and no settings; `opmon migrate` and `opmon serve` are the ways in.
"""

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    message = "run `opmon migrate`: opmon's migrations need the connection that it opens"
    raise RuntimeError(message)
context.configure(connection=connection, transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
