"""Writers that come one after the other: each goes on from what is stored, and none overwrites what another began."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opmon.cli.main import cli
from opmon.clock import ManualClock
from opmon.core.model import Ceiling, Epoch, View
from opmon.core.states import Step
from opmon.errors import ConfigError, NotFound, StoreError
from opmon.reports import Reports
from opmon.simulator import scenarios
from opmon.simulator.simulation import Simulation
from opmon.store import Store
from opmon.store.database import Database
from tests.store.history import RECORD, START_MS
from tests.store.test_rows import row

SECONDS = 40
LATER_MS = START_MS + 3_600_000


def recording(path: Path, start_ms: int, *, first: int = 0, seconds: int = SECONDS) -> Path:
    """What a server that began to work at `start_ms` showed each second."""
    simulation = Simulation(scenarios.phase_locked(level=4, period_ms=1000, on_ms=500, seconds=600), start_ms=start_ms)
    scrapes = [
        {"t": at_ms / 1000, "took": 0.004, "status": 200, "body": simulation.page(at_ms, None).decode()}
        for at_ms in range(start_ms + first * 1000 + 300, start_ms + (first + seconds) * 1000, 1000)
    ]
    path.write_text("".join(json.dumps(scrape) + "\n" for scrape in scrapes))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def report(path: Path, *arguments: object) -> Any:
    result = run("report", "--database", path, "--format", "json", *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def starts(store: Store, name: str) -> list[tuple[int, int]]:
    return [(epoch.number, epoch.start_ms) for epoch in store.epochs(name, 0, 1 << 60)]


@pytest.fixture
def opened(path: Path) -> Iterator[Store]:
    with Database.open(str(path), read_only=False, create=True) as database:
        yield Store(database)


def test_the_first_scrape_of_a_target_stays_the_earliest_that_was_ever_said(store: Store) -> None:
    store.save_target(replace(RECORD, first_scrape_ms=5_000))
    for said, kept in ((None, 5_000), (9_000, 5_000), (3_000, 3_000)):
        store.save_target(replace(RECORD, first_scrape_ms=said))
        assert kept == store.target("one").first_scrape_ms


def test_a_target_that_was_never_scraped_has_no_first_scrape(store: Store) -> None:
    store.save_target(RECORD)
    store.save_target(RECORD)
    assert store.target("one").first_scrape_ms is None


def test_a_target_is_found_removed_or_not_and_one_that_is_not_there_is_none(store: Store) -> None:
    assert store.find("one") is None
    store.save_target(RECORD)
    store.remove_target("one", 77)
    assert replace(RECORD, removed_ms=77) == store.find("one")


def test_an_epoch_learns_more_but_never_begins_at_another_instant(store: Store) -> None:
    begun = Epoch(1, START_MS, None, "start", "", {"a": "1"}, None)
    learnt = replace(begun, identity={"a": "1", "b": "2"})
    store.save_target(RECORD)
    store.append("one", [Step(row(0), new_epoch=begun), Step(row(1), learnt_epoch=learnt)])
    assert learnt == store.current_epoch("one")
    for start_ms in (START_MS - 1000, START_MS + 1000):
        with pytest.raises(StoreError, match=r"epoch 1 of this target began at .*another process"):
            store.append("one", [Step(row(5), new_epoch=replace(begun, start_ms=start_ms))])
    assert learnt == store.current_epoch("one")
    assert 2 == len(store.rows(View("one"), START_MS - 10_000, START_MS + 100_000, context=False))


def test_a_target_ends_where_its_last_stratum_does(store: Store) -> None:
    store.save_target(RECORD)
    assert store.end_ms("one") is None
    last = row(7)
    store.append("one", [Step(row(3)), Step(last)])
    assert last.stratum_ms + last.interval_ms == store.end_ms("one")


def test_a_later_recording_goes_on_in_the_next_epoch_and_keeps_the_earlier_one(path: Path, tmp_path: Path) -> None:
    early, late = recording(tmp_path / "early", START_MS), recording(tmp_path / "late", LATER_MS)
    alone = json.loads(run("replay", early, "--database", path, "--format", "json").stdout)
    assert 0 == run("replay", late, "--database", path).exit_code
    with Database.open(str(path), read_only=True) as database:
        store = Store(database)
        assert START_MS == store.target("recording").first_scrape_ms
        assert [(1, START_MS), (2, LATER_MS)] == starts(store, "recording")
        rows = store.rows(View("recording"), START_MS, LATER_MS + 3_600_000, context=False)
        assert [1] * SECONDS + [2] * SECONDS == [one.epoch for one in rows]
    window = ("--start", START_MS / 1000, "--end", START_MS / 1000 + SECONDS)
    again = report(path, *window)
    assert alone["running"] == again["running"]
    assert alone["coverage"] == again["coverage"]


def test_a_recording_of_the_same_server_goes_on_in_its_epoch(path: Path, tmp_path: Path) -> None:
    first = recording(tmp_path / "first", START_MS)
    second = recording(tmp_path / "second", START_MS, first=SECONDS)
    for file in (first, second):
        assert 0 == run("replay", file, "--database", path).exit_code
    together = json.loads(run("replay", first, second, "--format", "json").stdout)
    apart = report(path, "--start", START_MS / 1000, "--end", START_MS / 1000 + 2 * SECONDS)
    for part in ("running", "in_system", "coverage", "epochs"):
        assert together[part] == apart[part]


def test_an_older_recording_after_a_newer_one_is_refused_and_changes_nothing(path: Path, tmp_path: Path) -> None:
    late, early = recording(tmp_path / "late", LATER_MS), recording(tmp_path / "early", START_MS)
    assert 0 == run("replay", late, "--database", path).exit_code
    before = report(path)
    refused = run("replay", early, "--database", path)
    assert isinstance(refused.exception, ConfigError)
    assert "give another --target" in str(refused.exception)
    assert before["running"] == report(path)["running"]
    with Database.open(str(path), read_only=True) as database:
        assert [(1, LATER_MS)] == starts(Store(database), "recording")
    assert 0 == run("replay", early, "--database", path, "--target", "earlier").exit_code


def test_replaying_a_recording_again_or_grown_stores_what_is_new_of_it(path: Path, tmp_path: Path) -> None:
    file = recording(tmp_path / "file", START_MS)
    first = run("replay", file, "--database", path, "--format", "json")
    assert first.stdout == run("replay", file, "--database", path, "--format", "json").stdout
    recording(file, START_MS, seconds=SECONDS + 20)
    assert 0 == run("replay", file, "--database", path).exit_code
    with Database.open(str(path), read_only=True) as database:
        store = Store(database)
        assert [(1, START_MS)] == starts(store, "recording")
        assert SECONDS + 20 == len(store.rows(View("recording"), START_MS, LATER_MS, context=False))


def test_another_server_at_the_same_time_is_refused_under_the_same_name(path: Path, tmp_path: Path) -> None:
    file = recording(tmp_path / "file", START_MS)
    assert 0 == run("replay", file, "--database", path).exit_code
    scrapes = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**scrape, "t": scrape["t"] + 0.1}) + "\n" for scrape in scrapes))
    refused = run("replay", file, "--database", path)
    assert isinstance(refused.exception, ConfigError)
    assert "is not a part of it" in str(refused.exception)


def test_a_ceiling_that_is_given_later_holds_from_the_later_recording(path: Path, tmp_path: Path) -> None:
    early, late = recording(tmp_path / "early", START_MS), recording(tmp_path / "late", LATER_MS)
    assert 0 == run("replay", early, "--database", path, "--max-num-seqs", "8").exit_code
    assert 0 == run("replay", late, "--database", path, "--max-num-seqs", "16").exit_code
    with Database.open(str(path), read_only=True) as database:
        ceilings = Store(database).target("recording").ceilings
    assert (Ceiling(8, "option"), Ceiling(16, "option", LATER_MS)) == ceilings


def test_a_recording_is_not_mixed_into_what_is_watched(opened: Store, path: Path, tmp_path: Path) -> None:
    opened.save_target(RECORD)
    refused = run("replay", recording(tmp_path / "file", START_MS), "--database", path, "--target", "one")
    assert isinstance(refused.exception, ConfigError)
    assert "observed at http://one:8000/metrics; give another --target" in str(refused.exception)
    assert RECORD == opened.target("one")


def test_a_target_that_is_watched_no_more_answers_by_its_name(path: Path, tmp_path: Path) -> None:
    file = recording(tmp_path / "file", START_MS)
    assert 0 == run("replay", file, "--database", path, "--target", "gone").exit_code
    window = ("--start", START_MS / 1000, "--end", START_MS / 1000 + SECONDS)
    before = report(path, "--target", "gone", *window)
    with Database.open(str(path), read_only=False) as database:
        Store(database).remove_target("gone", LATER_MS)
        assert [] == list(Store(database).targets())
    assert before == report(path, "--target", "gone", *window)
    with Database.open(str(path), read_only=True) as database:
        reports = Reports(Store(database), ManualClock(LATER_MS))
        assert () == reports.targets()
        status = reports.target("gone")
        assert ("unknown", "gap") == (status.health, status.state)
    in_words = run("report", "--database", path, "--target", "gone", *window)
    assert 0 == in_words.exit_code, in_words.output
    unknown = run("report", "--database", path, "--target", "nobody")
    assert isinstance(unknown.exception, NotFound)
