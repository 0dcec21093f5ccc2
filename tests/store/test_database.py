"""Opening: what is created, migrated, copied or refused, and what readers and writers see of each other."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import UniqueConstraint, create_engine, inspect
from sqlalchemy.exc import OperationalError

from opmon.core.model import TargetRecord
from opmon.errors import ConfigError, StoreError
from opmon.store import Store, migrations
from opmon.store.database import Database, is_busy, parse_url
from opmon.store.schema import METADATA
from tests.needs import ROOT

RECORD = TargetRecord("one", "http://one:8000/metrics")


def create(path: Path) -> None:
    Database.open(str(path), read_only=False, create=True).close()


def set_revision(path: Path, revision: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()


def test_reading_never_creates_a_database_and_names_the_path_and_the_remedy(path: Path) -> None:
    with pytest.raises(ConfigError, match=r"opmon\.db; .*`opmon migrate`") as caught:
        Database.open(str(path), read_only=True)
    assert isinstance(caught.value, StoreError)
    assert not path.exists()


def test_reading_never_migrates_an_empty_file(path: Path) -> None:
    path.touch()
    with pytest.raises(ConfigError, match="there is no opmon database"):
        Database.open(str(path), read_only=True)
    assert 0 == path.stat().st_size


def test_an_older_schema_is_refused_for_reading_and_names_the_remedy(path: Path) -> None:
    create(path)
    set_revision(path, "0000")
    with pytest.raises(ConfigError, match=r"schema 0000, this opmon needs \d+; run `opmon migrate`"):
        Database.open(str(path), read_only=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_schema_is_refused_in_words(path: Path, read_only: bool) -> None:
    create(path)
    set_revision(path, "9999")
    with pytest.raises(ConfigError, match="written by a newer opmon"):
        Database.open(str(path), read_only=read_only, create=not read_only)


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(ConfigError, match="tables that are not opmon's"):
        Database.open(str(path), read_only=False, create=True)


def test_a_file_that_is_no_database_is_refused_in_words(path: Path) -> None:
    path.write_text("level,seconds\n" * 100)
    for read_only in (True, False):
        with pytest.raises(StoreError, match="not a database"):
            Database.open(str(path), read_only=read_only, create=not read_only)


def test_a_folder_that_cannot_be_made_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot make the folder"):
        Database.open(str(tmp_path / "file" / "opmon.db"), read_only=False, create=True)


def test_the_folder_of_a_new_database_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "opmon.db"
    create(path)
    assert path.is_file()


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://", "sqlite:///:memory:", "nonsense://"])
def test_urls_that_opmon_cannot_use_are_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        parse_url(url)


def test_messages_never_show_the_password_of_a_url() -> None:
    database = Database(parse_url("postgresql://opmon:hunter2@host/name"), read_only=True)
    assert "hunter2" not in database.name
    assert "postgresql+psycopg://opmon:***@host/name" == database.name


STEP = f"""
import sqlalchemy as sa
from alembic import op
revision, down_revision = "9998", "{migrations.HEAD_REVISION}"
def upgrade():
    op.add_column("targets", sa.Column("color", sa.Text()))
"""


def steps_with(tmp_path: Path, text: str) -> Path:
    """The project's steps and one more."""
    folder = tmp_path / "steps"
    shutil.copytree(migrations.folder(), folder)
    (folder / "versions" / "9998_color.py").write_text(text)
    return folder


def columns(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    names = [row[1] for row in connection.execute("PRAGMA table_info('targets')")]
    connection.close()
    return names


def test_migrating_an_existing_database_makes_a_copy_first(path: Path, tmp_path: Path) -> None:
    create(path)
    steps = steps_with(tmp_path, STEP)
    with Database.open(str(path), read_only=False) as database:
        Store(database).save_target(RECORD)
        copy = migrations.upgrade(database, head="9998", steps=steps)
        assert migrations.upgrade(database, head="9998", steps=steps) is None
    assert copy == path.with_name(f"opmon.db.before-9998-from-{migrations.HEAD_REVISION}")
    assert "color" in columns(path)
    with Database.open(str(copy), read_only=True) as database:
        assert [RECORD] == list(Store(database).targets())


def test_a_migration_that_fails_changes_nothing_and_leaves_no_copy(path: Path, tmp_path: Path) -> None:
    create(path)
    steps = steps_with(tmp_path, STEP + "    raise RuntimeError('no')\n")
    with Database.open(str(path), read_only=False) as database, pytest.raises(RuntimeError):
        migrations.upgrade(database, head="9998", steps=steps)
    assert "color" not in columns(path)
    assert [] == list(tmp_path.glob("opmon.db.before-*"))
    Database.open(str(path), read_only=True).close()


def test_many_at_once_create_one_database(path: Path) -> None:
    program = (
        "import sys; from opmon.store.database import Database;"
        "Database.open(sys.argv[1], read_only=False, create=True).close()"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT) for _ in range(4)]
    assert [0, 0, 0, 0] == [process.wait(60) for process in processes]
    with Database.open(str(path), read_only=True) as database:
        assert 0 == Store(database).commit_number()


def test_the_migrations_lead_to_the_schema(path: Path) -> None:
    create(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert [] == compare_metadata(context, METADATA)
        constraints = {name: inspect(connection).get_unique_constraints(name) for name in METADATA.tables}
        assert {
            name: {
                tuple(column.name for column in one.columns)
                for one in table.constraints
                if isinstance(one, UniqueConstraint)
            }
            for name, table in METADATA.tables.items()
        } == {name: {tuple(one["column_names"]) for one in found} for name, found in constraints.items()}
    engine.dispose()


def test_the_last_migration_is_the_one_that_opmon_asks_for() -> None:
    assert migrations.HEAD_REVISION == ScriptDirectory(str(migrations.folder())).get_current_head()


def test_every_table_is_strict_and_has_four_column_types(path: Path) -> None:
    create(path)
    connection = sqlite3.connect(path)
    tables = [row for row in connection.execute("PRAGMA table_list") if row[2] == "table" and row[1] in METADATA.tables]
    assert len(METADATA.tables) == len(tables)
    assert {1} == {row[5] for row in tables}
    types = {column[2] for row in tables for column in connection.execute(f"PRAGMA table_info({row[1]!r})")}
    assert {"INTEGER", "TEXT", "REAL", "BLOB"} == types
    connection.close()


def test_the_pragmas_hold_on_every_connection(store: Store) -> None:
    with store.database.exclusive() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000} == pragmas


def test_a_reader_keeps_its_snapshot_while_others_write(store: Store) -> None:
    query = "SELECT count(*) FROM targets"
    with store.database.reading() as connection:
        assert 0 == connection.exec_driver_sql(query).scalar()
        thread = threading.Thread(target=store.save_target, args=(RECORD,))
        thread.start()
        thread.join()
        assert 0 == connection.exec_driver_sql(query).scalar()
    assert [RECORD] == list(store.targets())


def test_a_database_opened_for_reading_cannot_be_written(path: Path) -> None:
    create(path)
    with Database.open(str(path), read_only=True) as database:
        with pytest.raises(StoreError, match="for reading only"):
            Store(database).save_target(RECORD)
        with database.reading() as connection, pytest.raises(OperationalError, match="readonly"):
            connection.exec_driver_sql("DELETE FROM targets")


def test_a_database_in_a_folder_without_its_log_can_be_read(path: Path, tmp_path: Path) -> None:
    create(path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(path, folder / "opmon.db")
    with Database.open(str(folder / "opmon.db"), read_only=True) as database:
        assert [] == list(Store(database).targets())


def test_a_transaction_that_fails_leaves_nothing_behind(store: Store) -> None:
    number = store.commit_number()
    with pytest.raises(StoreError, match="FOREIGN KEY"), store.database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO series (target, model_name, engine_index) VALUES (77, '', '')")
    assert number == store.commit_number()
    assert 0 == store.count_rows()["series"]


def test_only_errors_that_pass_are_tried_again(hasty_store: Store) -> None:
    other = sqlite3.connect(hasty_store.database.path or "", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(OperationalError) as locked:
        hasty_store.save_target(RECORD)
    other.close()
    assert is_busy(locked.value)
    with pytest.raises(StoreError, match="no such table") as wrong, hasty_store.database.reading() as connection:
        connection.exec_driver_sql("SELECT 1 FROM nowhere")
    assert wrong.value.__cause__ is not None
    assert not is_busy(wrong.value.__cause__)
    assert not is_busy(ValueError())
