"""One service a database: who comes second is refused in words, and a killed one leaves the door open."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opmon.errors import ConfigError, StoreError
from opmon.store import Store
from opmon.store.database import Database
from opmon.store.sole_writer import sole_writer
from tests.needs import ROOT
from tests.processes import THIS_OPMON, clean_environment, free_port, process
from tests.store.history import RECORD, START_MS
from tests.store.test_going_on import recording, run

HOLD = "import sys, time\nfrom opmon.store.sole_writer import sole_writer\n"
HOLD += "with sole_writer(sys.argv[1]):\n    print('held', flush=True)\n    time.sleep(60)\n"


@contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen([sys.executable, "-c", HOLD, url], cwd=ROOT, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert "held\n" == other.stdout.readline()
        yield other
        other.kill()


def test_a_second_one_is_refused_naming_the_process_and_the_remedy(path: Path) -> None:
    with holder(str(path)) as other:
        words = rf"another opmon \(process {other.pid}\) writes to the database .*opmon\.db; stop it, or .*--database"
        with pytest.raises(ConfigError, match=words) as caught, sole_writer(str(path)):
            pass
        assert isinstance(caught.value, StoreError)


def test_a_killed_one_leaves_the_database_to_the_next(path: Path) -> None:
    with holder(str(path)) as other:
        other.kill()
        other.wait(10)
        with sole_writer(str(path)):
            assert not path.exists()
    with sole_writer(str(path)):
        pass


def test_a_database_is_one_by_whatever_link_it_is_reached(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with sole_writer(str(path)), pytest.raises(ConfigError, match="another opmon"), sole_writer(f"sqlite:///{link}"):
        pass
    with sole_writer(str(path)), sole_writer(str(tmp_path / "another.db")):
        pass


def test_a_folder_nobody_can_write_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot lock the database"), sole_writer(str(tmp_path / "file" / "opmon.db")):
        pass


def test_short_writers_and_readers_work_beside_a_service(path: Path, tmp_path: Path) -> None:
    with holder(str(path)):
        for _ in range(2):
            assert 0 == run("migrate", "--database", path).exit_code
        file = recording(tmp_path / "file", START_MS)
        assert 0 == run("replay", file, "--database", path, "--target", "beside").exit_code
        assert 0 == run("report", "--database", path, "--target", "beside").exit_code


def test_a_second_service_ends_with_status_two_and_the_first_goes_on(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    commands = [
        [*THIS_OPMON, "serve", "--target", f"http://127.0.0.1:{free_port()}", "--listen", f"127.0.0.1:{port}"]
        for port in ports
    ]
    with process(commands[0], f"http://127.0.0.1:{ports[0]}", tmp_path, python_path=str(ROOT)) as first:
        first.wait_for("/-/ready")
        environment = {**clean_environment(tmp_path), "PYTHONPATH": str(ROOT)}
        second = subprocess.run(
            commands[1], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30, check=False
        )
        assert 2 == second.returncode
        assert f"another opmon (process {first.popen.pid}) writes to the database" in second.stderr
        assert "Traceback" not in second.stderr
        first.wait_for("/-/healthy")
        first.popen.kill()
        first.popen.wait(10)
    with process(commands[1], f"http://127.0.0.1:{ports[1]}", tmp_path, python_path=str(ROOT)) as third:
        third.wait_for("/-/ready")
        assert 0 == third.stop()


@pytest.mark.needs("postgres")
def test_on_a_server_the_second_is_refused_and_a_killed_one_is_let_go(postgres_url: str) -> None:
    with holder(postgres_url) as other:
        with pytest.raises(ConfigError, match=r"another opmon \(PostgreSQL process \d+, .*127\.0\.0\.1\) writes"):
            _take(postgres_url)
        other.kill()
        other.wait(10)
        deadline = time.monotonic() + 10
        while not _can_take(postgres_url):
            assert time.monotonic() < deadline, "the server kept the lock of a killed process"
            time.sleep(0.1)


def _take(url: str) -> None:
    with sole_writer(url):
        pass


def _can_take(url: str) -> bool:
    try:
        _take(url)
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_database_and_what_lies_beside_it_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "opmon.db"
    code = (
        "import os, sys\nfrom opmon.store import Store\nfrom opmon.store.database import Database\n"
        "from opmon.store.sole_writer import sole_writer\nfrom tests.store.history import RECORD\n"
        "os.umask(int(sys.argv[2]))\n"
        "with sole_writer(sys.argv[1]), Database.open(sys.argv[1], read_only=False, create=True) as database:\n"
        "    Store(database).save_target(RECORD)\n"
        "    print(*(f'{name}={os.stat(name).st_mode & 0o777:o}' for name in sorted(os.listdir('.'))))\n"
    )
    command = [sys.executable, "-c", code, str(path), str(umask)]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert "opmon.db=600 opmon.db-shm=600 opmon.db-wal=600 opmon.db.lock=600\n" == done.stdout, done.stderr


def test_a_database_that_was_opened_to_others_stays_so(path: Path) -> None:
    Database.open(str(path), read_only=False, create=True).close()
    path.chmod(0o640)
    Database.open(str(path), read_only=False, create=True).close()
    assert 0o640 == path.stat().st_mode & 0o777


def test_closing_leaves_no_connection_open_not_even_those_in_use(path: Path) -> None:
    database = Database.open(str(path), read_only=False, create=True)
    store = Store(database)
    store.save_target(RECORD)
    reading, may_end = threading.Event(), threading.Event()

    def read() -> None:
        with database.reading():
            reading.set()
            may_end.wait(10)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    assert reading.wait(10)
    deadline = time.monotonic() + 10
    while database.open_connections < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    threading.Timer(0.2, may_end.set).start()
    assert 4 == database.open_connections
    database.close()
    assert 0 == database.open_connections
    for reader in readers:
        reader.join()
    # Whoever asks after the end is answered, and leaves nothing behind either.
    assert RECORD == store.target("one")
    assert 0 == database.open_connections
