"""A running service that takes up other targets and other settings, or refuses them and stays as it was."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from opmon.clock import ManualClock
from opmon.core.answers import Selector
from opmon.core.model import Row, State, TargetRecord, View
from opmon.reports import Reports, WindowAsk
from opmon.simulator import scenarios
from opmon.simulator.server import SimulatedServer, running_in_thread
from opmon.simulator.simulation import Simulation
from opmon.store import Store
from opmon.store.database import Database
from tests.needs import ROOT
from tests.processes import THIS_OPMON, Process, free_port, process, words_of

PATIENCE_SECONDS = 30


@pytest.fixture
def server() -> Iterator[str]:
    """A simulated server that decodes all the time."""
    with _simulated() as url:
        yield url


@pytest.fixture
def another() -> Iterator[str]:
    """A second one."""
    with _simulated() as url:
        yield url


@contextmanager
def _simulated() -> Iterator[str]:
    start_ms = time.time_ns() // 1_000_000 - 5_000
    simulation = Simulation(scenarios.phase_locked(level=4, period_ms=1000, on_ms=900, seconds=600), start_ms=start_ms)
    with running_in_thread(SimulatedServer(simulation)) as url:
        yield url


@dataclass
class Opmon:
    """A service over a configuration file that a test writes anew."""

    process: Process
    folder: Path
    settings: dict[str, Any]

    def write(self, **sections: Any) -> None:
        """Writes the file with these sections instead of those it has."""
        _write(self.folder / "opmon.yml", {**self.settings, **sections})

    def reload(self, method: str = "POST", **headers: str) -> tuple[int, str]:
        """Status and body of /-/reload."""
        request = urllib.request.Request(f"{self.process.url}/-/reload", method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float | None:
        """The value of a series as it is written on /metrics; None where there is none."""
        page = (self.process.get("/metrics") or b"").decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None

    def health(self) -> dict[str, str]:
        """The health of each target by its name."""
        return {one["name"]: one["health"] for one in self.process.json("/api/v1/targets")["targets"]}

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Waits for something that must come."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.2)

    @property
    def words(self) -> str:
        """Its log."""
        return words_of(self.process.url, self.folder)


def _write(path: Path, values: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(values), encoding="utf-8")
    new.replace(path)


@contextmanager
def serving(folder: Path, **sections: Any) -> Iterator[Opmon]:
    """The service over a file with these sections, once it is ready."""
    listen = f"127.0.0.1:{free_port()}"
    settings = {"storage": {"url": "opmon.db"}, "web": {"listen": listen}, **sections}
    if "web" in sections:
        settings["web"] = {"listen": listen, **sections["web"]}
    _write(folder / "opmon.yml", settings)
    command = [*THIS_OPMON, "serve", "--config", "opmon.yml"]
    with process(command, f"http://{listen}", folder, python_path=str(ROOT)) as one:
        one.wait_for("/-/ready")
        yield Opmon(one, folder, settings)


def rows_of(folder: Path, name: str) -> tuple[TargetRecord, list[Row], list[str]]:
    """The record, all rows, and the causes of the epochs of a target."""
    with Database.open(f"sqlite:///{folder / 'opmon.db'}", read_only=True, create=False) as database:
        store = Store(database)
        epochs = store.epochs(name, 0, 1 << 60)
        return store.target(name), store.rows(View(name), 0, 1 << 60), [epoch.cause for epoch in epochs]


# --- targets that come and go ---------------------------------------------------------------------------------------


def test_a_target_of_a_file_comes_goes_and_comes_back_to_its_history(server: str, another: str, tmp_path: Path) -> None:
    lists, listed = tmp_path / "more.json", [{"targets": [another.removeprefix("http://")], "labels": {"job": "x"}}]
    name = another.removeprefix("http://")
    _write(lists, [])
    sections = {
        "targets": [{"name": "stays", "url": server}],
        "discovery": {"file_sd": [{"name": "files", "files": ["more.json"], "refresh_interval": "1s"}]},
    }
    with serving(tmp_path, **sections) as opmon:
        _write(lists, listed)
        opmon.until(lambda: opmon.health().get(name) == "up", "the new target was not seen")
        scrapes = f'opmon_target_scrapes_total{{lane="pulse",target="{name}"}}'
        opmon.until(lambda: (opmon.metric(scrapes) or 0) >= 3, "the new target is not watched")
        _write(lists, [])
        opmon.until(lambda: name not in opmon.health(), "the target is still there")
        page = (opmon.process.get("/metrics") or b"").decode()
        assert f'"{name}"' not in page
        assert 0 == opmon.metric('opmon_discovery_targets{source="files"}')
        gone_at_ms = time.time_ns() // 1_000_000
        time.sleep(3)
        assert f'"{name}"' not in (opmon.process.get("/metrics") or b"").decode()
        _write(lists, listed)
        opmon.until(lambda: opmon.health().get(name) == "up", "the target did not come back")
        opmon.until(lambda: (opmon.metric(scrapes) or 0) >= 3, "the target is not watched again")
        assert opmon.process.stop() == 0
        words = opmon.words
    record, rows, causes = rows_of(tmp_path, name)
    assert (None, "x") == (record.removed_ms, record.job)
    assert ["start"] == causes
    before, after = ([row for row in rows if (row.at_ms > gone_at_ms) == late] for late in (False, True))
    assert min(len(before), len(after)) >= 3
    assert after[0].stratum_ms - before[-1].stratum_ms >= 3_000
    assert {State.OBSERVED} == {row.state for row in before}
    _record, stayed, _causes = rows_of(tmp_path, "stays")
    steps = [later.stratum_ms - earlier.stratum_ms for earlier, later in pairwise(stayed)]
    # A busy machine may start a scrape too late now and then.
    assert sum(step - 1000 for step in steps) <= 2000
    assert [2, 1] == [words.count(f"{change}={name}") for change in ("appeared", "vanished")]
    assert "Traceback" not in words


def test_a_source_that_fails_keeps_its_targets_and_says_so_once(server: str, tmp_path: Path) -> None:
    name = server.removeprefix("http://")
    _write(tmp_path / "more.json", [{"targets": [name]}])
    discovery = {"file_sd": [{"files": ["more.json"], "refresh_interval": "1s"}]}
    with serving(tmp_path, discovery=discovery) as opmon:
        opmon.until(lambda: opmon.health().get(name) == "up", "the target was not seen")
        (tmp_path / "more.json").write_text("[{", encoding="utf-8")
        failures = 'opmon_discovery_failures_total{source="file_sd[0]"}'
        opmon.until(lambda: (opmon.metric(failures) or 0) >= 3, "the failures are not counted")
        assert {name: "up"} == opmon.health()
        assert 1 == opmon.metric('opmon_discovery_targets{source="file_sd[0]"}')
        (told,) = opmon.process.json("/api/v1/status/runtimeinfo")["discovery"]
        assert ("file_sd[0]", 1, True) == (told["source"], told["targets"], "is no JSON" in told["failure"])
        assert 1 == opmon.words.count("a source of targets fails")


def test_a_source_that_fails_at_a_start_goes_on_with_what_it_named_before(
    server: str, another: str, tmp_path: Path
) -> None:
    one, two = server.removeprefix("http://"), another.removeprefix("http://")
    answers = [json.dumps([{"targets": [two]}]).encode()]
    _write(tmp_path / "more.json", [{"targets": [one], "labels": {"team": "a"}}])
    with _listing(answers) as url:
        discovery = {
            "file_sd": [{"files": ["more.json"], "refresh_interval": "1s"}],
            "http_sd": [{"url": f"{url}/list?key=hunter2", "refresh_interval": "1s"}],
        }
        with serving(tmp_path, discovery=discovery) as opmon:
            opmon.until(lambda: opmon.health() == {one: "up", two: "up"}, "the targets were not seen")
            assert opmon.process.stop() == 0
        (tmp_path / "more.json").write_text("[{", encoding="utf-8")
        answers[0] = b"no list"
        with serving(tmp_path, discovery=discovery) as opmon:
            opmon.until(lambda: opmon.health() == {one: "up", two: "up"}, "the targets of before are not watched")
            watched = opmon.process.json("/api/v1/targets")["targets"]
            assert [{"team": "a"}, {}] == [
                target["labels"] for target in sorted(watched, key=lambda t: t["name"] != one)
            ]
            told = opmon.process.json("/api/v1/status/runtimeinfo")["discovery"]
            assert [("file_sd[0]", 1, None), ("http_sd[0]", 1, None)] == [
                (source["source"], source["targets"], source["listed"]) for source in told
            ]
            assert ["is no JSON" in source["failure"] for source in told] == [True, True]
            answers[0] = b"[]"
            opmon.until(lambda: set(opmon.health()) == {one}, "the answer of the source does not count")
            assert opmon.process.stop() == 0
    assert b"hunter2" not in (tmp_path / "opmon.db").read_bytes()


@contextmanager
def _listing(answers: list[bytes]) -> Iterator[str]:
    """A server that answers everything with the first of these."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answers[0])))
            self.end_headers()
            self.wfile.write(answers[0])

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listing:
        thread = threading.Thread(target=listing.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listing.server_address[1]}"
        finally:
            listing.shutdown()
            thread.join()


def test_targets_that_are_not_named_any_more_at_a_start_are_removed(server: str, another: str, tmp_path: Path) -> None:
    both = [{"name": "one", "url": server}, {"name": "two", "url": another}]
    for targets in (both, both[:1]):
        with serving(tmp_path, targets=targets) as opmon:
            opmon.until(lambda: {"up"} == set(opmon.health().values()), "the targets are not seen")
            assert {one["name"] for one in targets} == set(opmon.health())
            assert opmon.process.stop() == 0


# --- reload ---------------------------------------------------------------------------------------------------------


def test_a_reload_takes_up_targets_intervals_and_comparisons(server: str, another: str, tmp_path: Path) -> None:
    with serving(tmp_path, targets=[{"name": "one", "url": server}, {"name": "old", "url": another}]) as opmon:
        opmon.until(lambda: {"one": "up", "old": "up"} == opmon.health(), "the targets are not seen")
        loaded = opmon.metric("opmon_config_last_reload_success_timestamp_seconds")
        opmon.write(
            targets=[{"name": "one", "url": server, "max_num_seqs": 7, "labels": {"a": "b"}}],
            discovery={"file_sd": [{"files": ["*.list.json"], "refresh_interval": "1s"}]},
            **{"global": {"pulse_interval": "2s", "scrape_timeout": "1s", "window": "1h"}},
        )
        opmon.process.popen.send_signal(signal.SIGHUP)
        opmon.until(lambda: {"one"} == set(opmon.health()), "the reload did not come")
        (target,) = opmon.process.json("/api/v1/targets")["targets"]
        opmon.until(
            lambda: opmon.process.json("/api/v1/targets")["targets"][0]["pulse_interval_seconds"] == 2, "the old pace"
        )
        (target,) = opmon.process.json("/api/v1/targets")["targets"]
        assert ({"a": "b"}, 7) == (target["labels"], target["ceiling"]["max_num_seqs"])
        assert '"old"' not in (opmon.process.get("/metrics") or b"").decode()
        assert 3600 == opmon.process.json("/api/v1/operating-point")["window"]["requested_seconds"]
        shown = opmon.process.json("/api/v1/status/config")["config"]
        assert ("1s", ["*.list.json"]) == (
            shown["global"]["scrape_timeout"],
            [Path(one).name for one in shown["discovery"]["file_sd"][0]["files"]],
        )
        assert 1 == opmon.metric("opmon_config_last_reload_successful")
        assert (opmon.metric("opmon_config_last_reload_success_timestamp_seconds") or 0) > (loaded or 0)
        time.sleep(5)
        _write(tmp_path / "x.list.json", [{"targets": [another.removeprefix("http://")]}])
        opmon.until(lambda: 2 == len(opmon.health()), "the new source is not asked")
        opmon.write()
        assert 200 == opmon.reload()[0]
        assert {"one", "old"} - set(opmon.health()) == set()
        assert opmon.process.stop() == 0
    _record, rows, causes = rows_of(tmp_path, "one")
    assert ["start"] == causes
    assert {1000, 2000} == {row.interval_ms for row in rows}


def test_a_file_that_is_bad_or_needs_a_restart_changes_nothing_and_is_told(server: str, tmp_path: Path) -> None:
    with serving(tmp_path, targets=[{"name": "one", "url": server}]) as opmon:
        for change, words in (
            ({"targets": [{"name": "two"}]}, "opmon.yml:1: targets[0]: url is missing"),
            ({"targets": []}, "nothing to watch"),
            ({"storage": {"url": "other.db"}}, "storage.url: changes only at a restart"),
            ({"global": {"stall_after": "60s"}}, "global.stall_after: changes only at a restart"),
            ({"discovery": {"kubernetes": [{"port": 1}]}}, "this is no cluster"),
            ({"targets": [{"url": server, "tls": {"ca_file": "none.pem"}}]}, "none.pem: cannot be used for TLS"),
        ):
            opmon.write(**change)
            status, body = opmon.reload()
            assert (422, "urn:opmon:problem:configuration") == (status, json.loads(body)["type"])
            assert words in json.loads(body)["detail"]
            assert 0 == opmon.metric("opmon_config_last_reload_successful")
            assert ["one"] == list(opmon.health())
        (opmon.folder / "opmon.yml").unlink()
        assert 422 == opmon.reload()[0]
        assert 7 == opmon.words.count("the configuration is refused; the one before stays")
        assert opmon.process.json("/api/v1/status/runtimeinfo")["configuration_is_current"] is False
        opmon.write()
        assert 200 == opmon.reload()[0]
        assert 1 == opmon.metric("opmon_config_last_reload_successful")
        assert "Traceback" not in opmon.words


def test_a_reload_is_a_write_and_asks_for_what_writes_ask_for(server: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame", encoding="utf-8")
    listen = f"127.0.0.1:{free_port()}"
    settings = {
        "storage": {"url": "opmon.db"},
        "web": {"listen": listen, "token_file": "token"},
        "targets": [{"name": "one", "url": server}],
        "discovery": {"http_sd": [{"url": "http://127.0.0.1:1/list?key=hunter2"}]},
    }
    _write(tmp_path / "opmon.yml", settings)
    command = [*THIS_OPMON, "serve", "--config", "opmon.yml"]
    with process(command, f"http://{listen}", tmp_path, python_path=str(ROOT)) as one:
        one.wait_for("/-/ready")
        opmon = Opmon(one, tmp_path, settings)
        allowed = {"Authorization": "Bearer sesame"}
        assert 401 == opmon.reload()[0]
        assert 403 == opmon.reload(**allowed, Origin="http://elsewhere.example")[0]
        assert 405 == opmon.reload("GET", **allowed)[0]
        assert 200 == opmon.reload(**allowed)[0]
        request = urllib.request.Request(f"{one.url}/api/v1/status/config", headers=allowed)
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read().decode()
    assert "hunter2" not in body
    assert "http://127.0.0.1:1/list?<secret>" in body
    assert "sesame" not in body


def test_another_configuration_makes_every_tag_another(tmp_path: Path) -> None:
    with Database.open(f"sqlite:///{tmp_path / 'a.db'}", read_only=False, create=True) as database:
        reports = Reports(Store(database), ManualClock(1_800_000_000_000), default_window_ms=60_000)
        before = reports.version_tag(Selector(), WindowAsk())
        assert before == reports.version_tag(Selector(), WindowAsk())
        reports.reconfigured(default_window_ms=60_000)
        assert before != reports.version_tag(Selector(), WindowAsk())
