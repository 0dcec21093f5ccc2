"""Prometheus' groups to targets: special labels, names, and what is left out. And which targets come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.config import Defaults, Settings, Target, load
from opmon.discovery.listed import MOST_TARGETS, Entry, Listed, entries_of, listed
from opmon.errors import DiscoveryError
from opmon.watched import Difference, difference, is_asked_alike, place_of, plan_of, roster_of


def targets_of(groups: Any, defaults: Defaults | None = None) -> Listed:
    return listed(entries_of(groups, "x"), defaults or Defaults())


def test_a_group_gives_a_target_for_each_address_with_the_labels_of_the_group() -> None:
    found = targets_of([{"targets": ["a:8000", "b:8001"], "labels": {"team": "search", "job": "llm"}}])
    assert [("a:8000", "http://a:8000"), ("b:8001", "http://b:8001")] == [(one.name, one.url) for one in found.targets]
    assert {("llm", "search")} == {(one.job, one.labels["team"]) for one in found.targets}


def test_labels_that_begin_with_two_underscores_make_the_address_or_are_dropped() -> None:
    labels = {
        "__scheme__": "https",
        "__metrics_path__": "/v2/metrics",
        "__meta_zone": "x",
        "__param_a": "b",
        "kept": "y",
    }
    (target,) = targets_of([{"targets": ["a:1"], "labels": labels}]).targets
    assert ("https://a:1/v2", {"kept": "y"}) == (target.url, target.labels)


def test_the_label_instance_is_the_name_of_the_target() -> None:
    (target,) = targets_of([{"targets": ["10.0.0.7:8000"], "labels": {"instance": "gpu-7"}}]).targets
    assert ("gpu-7", {}) == (target.name, target.labels)


def test_what_the_source_declares_holds_for_all_its_targets_and_labels_of_the_list_win() -> None:
    defaults = Defaults.model_validate(
        {
            "job": "a",
            "labels": {"team": "a", "zone": "z"},
            "model": "m",
            "max_num_seqs": 8,
            "metrics_path": "/p/metrics",
        }
    )
    (target,) = targets_of([{"targets": ["a:1"], "labels": {"team": "b"}}], defaults).targets
    assert ("a", {"team": "b", "zone": "z"}, "m", 8) == (target.job, target.labels, target.model, target.max_num_seqs)
    assert "http://a:1/p" == target.url


@pytest.mark.parametrize("address", ["", "a b", "http://a:1", "a:1/metrics", "u:p@a", "a:99999", "a:0", "a:x"])
def test_an_address_that_is_none_is_left_out_and_the_others_count(address: str) -> None:
    found = targets_of([{"targets": [address, "good:1"]}])
    assert ["good:1"] == [one.name for one in found.targets]
    assert 1 == len(found.left_out)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254:80", "0xa9fea9fe:80", "[fe80::1]:8000", "[fd00:ec2::254]", "metadata.google.internal:80"],
)
def test_a_link_local_or_metadata_address_is_left_out_in_words_and_the_others_count(address: str) -> None:
    found = targets_of([{"targets": [address, "10.0.0.1:8000", "192.168.0.1:8000"]}])
    assert ["10.0.0.1:8000", "192.168.0.1:8000"] == [one.name for one in found.targets]
    assert (1, True) == (len(found.left_out), "which opmon never asks" in found.left_out[0])
    assert found.left_out[0].startswith(f"{address}: url: ")


def test_a_path_that_opmon_cannot_ask_and_a_label_that_is_none_are_left_out_in_words() -> None:
    found = targets_of(
        [
            {"targets": ["a:1"], "labels": {"__metrics_path__": "/probe"}},
            {"targets": ["b:1"], "labels": {"not-a-label": "x"}},
            {"targets": ["c:1"], "labels": {"__scheme__": "ftp"}},
        ]
    )
    assert () == found.targets
    assert ["'/probe' does not end with /metrics", "'not-a-label' is no label name", "http://"] == [
        words
        for words, told in zip(
            ("'/probe' does not end with /metrics", "'not-a-label' is no label name", "http://"),
            found.left_out,
            strict=True,
        )
        if words in told
    ]


def test_two_addresses_under_one_name_are_told_and_the_first_counts() -> None:
    groups = [{"targets": ["a:1"], "labels": {"instance": "x"}}, {"targets": ["b:1"], "labels": {"instance": "x"}}]
    found = targets_of(groups)
    assert ["http://a:1"] == [one.url for one in found.targets]
    assert "http://b:1 has the name 'x' of http://a:1" in found.left_out[0]


def test_one_address_that_is_listed_twice_is_one_target() -> None:
    found = targets_of([{"targets": ["a:1", "a:1"]}, {"targets": ["a:1"]}])
    assert (1, ()) == (len(found.targets), found.left_out)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"targets": []}, "must be a list of groups"),
        (None, "must be a list of groups"),
        (["a:1"], "group 0: must have the keys"),
        ([{"targets": [], "lables": {}}], "group 0: must have the keys"),
        ([{"targets": ["a:1"]}, {"targets": "a:1"}], "group 1: targets must be a list"),
        ([{"labels": {}}], "group 0: targets must be a list"),
        ([{"targets": [8000]}], "group 0: targets must be a list"),
        ([{"targets": [], "labels": {"a": 1}}], "group 0: labels must be texts"),
        ([{"targets": [], "labels": []}], "group 0: labels must be texts"),
    ],
)
def test_what_is_not_prometheus_format_is_refused_naming_the_group(data: Any, words: str) -> None:
    with pytest.raises(DiscoveryError, match=words):
        entries_of(data, "x")


def test_a_list_that_is_far_too_long_is_refused_as_a_whole() -> None:
    with pytest.raises(DiscoveryError, match="at most"):
        listed([Entry(f"a:{port}") for port in range(1, MOST_TARGETS + 2)], Defaults())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["targets", "labels", "__scheme__", "job"]) | st.text(max_size=5), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_values_are_targets_or_refused_and_never_crash(values: Any) -> None:
    try:
        found = targets_of(json.loads(json.dumps([values])))
    except DiscoveryError:
        return
    assert len({one.name for one in found.targets}) == len(found.targets)


# --- which are watched ----------------------------------------------------------------------------------------------


def settings(folder: Path, text: str) -> Settings:
    path = folder / "opmon.yml"
    path.write_text(text, encoding="utf-8")
    return load(path, environ={"HOME": str(folder)})


def target(url: str, **more: Any) -> Target:
    return Target(url=url, **more).named()


def test_a_configured_target_is_watched_once_however_discovery_names_it(tmp_path: Path) -> None:
    given_settings = settings(tmp_path, "targets:\n  - {name: chat, url: 'http://A:80/metrics'}\n")
    roster = roster_of(given_settings, [target("http://a/"), target("http://b:1")])
    assert (["chat", "b:1"], ()) == (list(roster.plans), roster.left_out)


def test_a_discovered_target_never_takes_the_name_of_another(tmp_path: Path) -> None:
    given_settings = settings(tmp_path, "targets:\n  - {name: chat, url: 'http://a:1'}\n")
    roster = roster_of(given_settings, [target("http://b:1", name="chat"), target("https://c:1"), target("http://c:1")])
    assert {"chat": "http://a:1", "c:1": "https://c:1"} == {name: one.target.url for name, one in roster.plans.items()}
    assert [
        "http://b:1: the name 'chat' belongs to http://a:1",
        "http://c:1: the name 'c:1' belongs to https://c:1",
    ] == [*roster.left_out]


def test_the_difference_of_two_sets_says_what_appears_vanishes_and_changes(tmp_path: Path) -> None:
    given_settings = settings(tmp_path, "{}\n")
    before = roster_of(given_settings, [target("http://a:1"), target("http://b:1"), target("http://c:1")]).plans
    after = roster_of(given_settings, [target("http://b:1", job="x"), target("http://c:1"), target("http://d:1")]).plans
    assert Difference(("d:1",), ("a:1",), ("b:1",)) == difference(before, after)
    assert not difference(before, dict(before))


def test_other_intervals_change_every_target_and_a_comparison_none(tmp_path: Path) -> None:
    one = settings(tmp_path, "targets: [{url: 'http://a:1'}]\n")
    slower = settings(tmp_path, "targets: [{url: 'http://a:1'}]\nglobal: {pulse_interval: 5s}\n")
    compared = settings(tmp_path, "targets: [{url: 'http://a:1'}]\ncomparisons: [{sweep: s}]\n")
    assert ("a:1",) == difference(roster_of(one).plans, roster_of(slower).plans).changed
    assert not difference(roster_of(one).plans, roster_of(compared).plans)


def test_only_what_the_server_sees_asks_for_another_connection(tmp_path: Path) -> None:
    given_settings = settings(tmp_path, "{}\n")
    plan = plan_of(target("http://a:1"), given_settings)
    for words in ({"job": "x"}, {"labels": {"a": "b"}}, {"max_num_seqs": 4}, {"content_mix": {"code": 1.0}}):
        assert is_asked_alike(plan, plan_of(target("http://a:1", **words), given_settings)), words
    for url in ("http://a:2", "http://u:p@a:1"):
        assert not is_asked_alike(plan, plan_of(target(url), given_settings)), url


def test_urls_of_one_server_have_one_place() -> None:
    assert place_of("http://a") == place_of("http://A:80/metrics/") == place_of("http://a/metrics")
    assert 5 == len({place_of(url) for url in ("http://a", "https://a", "http://a:81", "http://a/x", "http://[::1]")})
