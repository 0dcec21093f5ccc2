"""What a source named last is kept over a start: by the runtime of the lists, with a memory that outlasts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from opmon.clock import SystemClock
from opmon.config import HttpSource
from opmon.discovery import Lists, Status
from opmon.discovery.listed import MOST_TARGETS, Entry
from opmon.discovery.remembered import from_text, to_text
from opmon.telemetry import Telemetry
from tests.discovery.test_sources import JSON, source, write
from tests.scrape.servers import always, serving

PARTS = {"list": (Entry("a:1", {"job": "x"}), Entry("b:1", {}, "pod"))}


class Shelf:
    """A memory that outlasts the lists."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.writes = 0

    def recall(self) -> Mapping[str, str]:
        return dict(self.texts)

    def keep(self, source: str, text: str) -> None:
        self.writes += 1
        self.texts[source] = text


async def started(shelf: Shelf, folder: Path, kind: str, *, asked: int = 1, **keys: Any) -> Status:
    """How a source is after opmon has started and asked it."""
    one = source(folder, kind, **keys)
    lists = Lists(Telemetry(), SystemClock(), shelf)
    await lists.recall()
    await lists.adopt([one])
    for _ in range(asked):
        await lists.refresh(one)
    await lists.aclose()
    (status,) = lists.statuses
    return status


def urls(status: Status) -> list[str]:
    return [target.url for target in status.targets]


async def test_a_file_that_is_gone_at_a_start_names_what_it_did_and_the_others_count(tmp_path: Path) -> None:
    shelf, files = Shelf(), ["a.json", "b.json"]
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    await started(shelf, tmp_path, "file_sd", files=files)
    (tmp_path / "a.json").unlink()
    write(tmp_path / "b.json", "b:2")

    for _ in range(2):  # it fails at one start after the other
        status = await started(shelf, tmp_path, "file_sd", files=files)
        assert ["http://a:1", "http://b:2"] == urls(status)
        assert ("a.json: cannot be read" in status.failure, None) == (True, status.listed_ms)


async def test_a_server_that_is_away_at_a_start_names_what_it_did_under_the_defaults_of_now(tmp_path: Path) -> None:
    shelf = Shelf()
    async with serving(always(json.dumps([{"targets": ["a:1"]}]), content_type=JSON)) as server:
        url = f"{server.url}/sd?key=hunter2"
        assert ["http://a:1"] == urls(await started(shelf, tmp_path, "http_sd", url=url))
    status = await started(shelf, tmp_path, "http_sd", url=url, defaults={"scheme": "https", "job": "new"})

    assert [("https://a:1", "new")] == [(target.url, target.job) for target in status.targets]
    assert "connect" in status.failure.lower()
    assert "hunter2" not in shelf.texts["http_sd[0]"]


async def test_a_source_that_asks_another_place_does_not_go_on_with_the_list_of_the_one_before(tmp_path: Path) -> None:
    shelf = Shelf()
    async with serving(always(json.dumps([{"targets": ["a:1"]}]), content_type=JSON)) as server:
        await started(shelf, tmp_path, "http_sd", url=f"{server.url}/one")
        url = f"{server.url}/two"
    status = await started(shelf, tmp_path, "http_sd", url=url)
    assert ([], True) == (urls(status), bool(status.failure))


async def test_a_list_is_written_when_it_changes_and_not_each_time(tmp_path: Path) -> None:
    shelf = Shelf()
    write(tmp_path / "a.json", "a:1")
    await started(shelf, tmp_path, "file_sd", asked=3, files=["a.json"])
    await started(shelf, tmp_path, "file_sd", asked=3, files=["a.json"])
    assert 1 == shelf.writes


async def test_a_list_that_names_nothing_is_kept_too(tmp_path: Path) -> None:
    shelf = Shelf()
    for addresses in (("a:1",), ()):
        write(tmp_path / "a.json", *addresses)
        await started(shelf, tmp_path, "file_sd", files=["a.json"])
    (tmp_path / "a.json").unlink()
    assert [] == urls(await started(shelf, tmp_path, "file_sd", files=["a.json"]))


async def test_a_list_that_is_far_too_long_does_not_replace_the_one_that_is_kept(tmp_path: Path) -> None:
    shelf = Shelf()
    write(tmp_path / "a.json", "a:1")
    await started(shelf, tmp_path, "file_sd", files=["a.json"])
    write(tmp_path / "a.json", *(f"h{number}:1" for number in range(MOST_TARGETS + 1)))
    assert "at most 1000" in (await started(shelf, tmp_path, "file_sd", files=["a.json"])).failure
    (tmp_path / "a.json").unlink()
    assert ["http://a:1"] == urls(await started(shelf, tmp_path, "file_sd", files=["a.json"]))


async def test_what_is_kept_of_a_source_that_is_configured_no_more_is_removed(tmp_path: Path) -> None:
    shelf = Shelf()
    write(tmp_path / "a.json", "a:1")
    await started(shelf, tmp_path, "file_sd", name="old", files=["a.json"])
    await started(shelf, tmp_path, "file_sd", name="new", files=["a.json"])
    assert ("", True) == (shelf.texts["old"], bool(shelf.texts["new"]))


async def test_a_reload_that_asks_another_place_keeps_the_list_until_that_answers(tmp_path: Path) -> None:
    async with serving(always(json.dumps([{"targets": ["a:1"]}]), content_type=JSON)) as server:
        before = source(tmp_path, "http_sd", url=f"{server.url}/one")
        lists = Lists(Telemetry(), SystemClock())
        await lists.adopt([before])
        await lists.refresh(before)
    after = source(tmp_path, "http_sd", url=f"{server.url}/two")
    await lists.adopt([after])
    await lists.refresh(after)
    await lists.aclose()
    (status,) = lists.statuses
    assert (["http://a:1"], True) == (urls(status), bool(status.failure))


def test_what_is_kept_comes_back_as_it_was() -> None:
    settings = HttpSource(url="http://127.0.0.1:1/list")
    assert from_text(settings, to_text(settings, PARTS)) == PARTS


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"of": 1}', '{"of": "", "parts": {"a": [1]}}', "\ud800"])
def test_a_text_that_cannot_be_read_is_no_list(text: str) -> None:
    assert {} == from_text(HttpSource(url="http://127.0.0.1:1/list"), text)
