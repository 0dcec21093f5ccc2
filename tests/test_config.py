"""Settings: what opmon.yml may say, what wins, and that every fault names its place and what is allowed."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opmon.config import (
    PULSE_INTERVALS_MS,
    Settings,
    check_secrets,
    database_url,
    load,
    not_reloadable,
    settings_table,
    shown,
)
from opmon.config.document import parse_document
from opmon.errors import ConfigError
from tests.needs import ROOT
from tests.processes import THIS_OPMON, clean_environment

NOBODY = {"HOME": "/home/nobody"}


def write(folder: Path, text: str) -> Path:
    path = folder / "opmon.yml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, environ=NOBODY if environ is None else environ)
    return str(caught.value)


def targets(*urls: str) -> Settings:
    return load(overrides={"targets": urls}, environ=NOBODY)


# --- defaults and precedence ----------------------------------------------------------------------------------------


def test_without_a_file_every_setting_has_its_documented_default() -> None:
    settings = load(environ=NOBODY)
    found = settings.global_
    assert (1000, 30_000, 4000, 120_000, 604_800_000, "UTC") == (
        found.pulse_interval_ms,
        found.full_interval_ms,
        found.scrape_timeout_ms,
        found.stall_after_ms,
        found.window_ms,
        found.time_zone,
    )
    assert not found.pulse_interval_is_set
    assert ("127.0.0.1", 8917, True) == (settings.web.host, settings.web.port, settings.web.is_loopback)
    retention = settings.storage.retention
    assert (48, 40 * 24, 400 * 24) == (
        retention.raw_ms // 3_600_000,
        retention.five_minutes_ms // 3_600_000,
        retention.hourly_ms // 3_600_000,
    )


def test_an_option_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "web: {listen: 127.0.0.1:1}\n")
    variable = NOBODY | {"OPMON_LISTEN": "127.0.0.1:2"}
    assert 1 == load(path, environ=NOBODY).web.port
    assert 2 == load(path, environ=variable).web.port
    assert 3 == load(path, {"web.listen": "127.0.0.1:3"}, variable).web.port


def test_an_option_that_was_not_given_and_an_empty_variable_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "web: {listen: 127.0.0.1:1}\n")
    assert 1 == load(path, {"web.listen": None}, NOBODY | {"OPMON_LISTEN": " "}).web.port


def test_targets_given_by_option_are_added_to_those_of_the_file_without_repeating_one(tmp_path: Path) -> None:
    path = write(tmp_path, "targets:\n  - url: http://a:8000\n")
    settings = load(path, {"targets": ["http://a:8000/", "http://c:8000"]}, NOBODY | {"OPMON_TARGET": "http://b:8000"})
    assert ["a:8000", "b:8000", "c:8000"] == [target.name for target in settings.targets]


def test_unknown_variables_are_no_fault() -> None:
    assert load(environ=NOBODY) == load(environ=NOBODY | {"OPMON_SOMETHING_ELSE": "x"})


@pytest.mark.parametrize(("written", "expected"), [("1", True), ("Yes", True), ("false", False), ("off", False)])
def test_a_variable_that_is_a_switch_reads_the_usual_words(written: str, expected: bool) -> None:
    assert expected is load(environ=NOBODY | {"OPMON_INSECURE": written}).web.insecure


def test_a_variable_that_is_a_switch_refuses_another_word_by_name() -> None:
    with pytest.raises(ConfigError, match=r"OPMON_INSECURE: web.insecure: must be true or false; got 'maybe'"):
        load(environ=NOBODY | {"OPMON_INSECURE": "maybe"})


def test_a_fault_in_a_variable_names_the_variable_and_the_key() -> None:
    with pytest.raises(ConfigError, match=r"OPMON_PULSE_INTERVAL: global.pulse_interval: 7s does not divide 300s"):
        load(environ=NOBODY | {"OPMON_PULSE_INTERVAL": "7s"})


def test_a_fault_in_an_option_names_the_option() -> None:
    with pytest.raises(ConfigError, match=r"--listen: web\.listen: 'here' is no address"):
        load(None, {"web.listen": "here"}, NOBODY)


# --- faults of the file ---------------------------------------------------------------------------------------------

FAULTS = {
    "unknown key": ("global:\n  tiem_zone: UTC\n", "2: global.tiem_zone: unknown key (did you mean time_zone?)"),
    "unknown section": ("targets: []\nstorrage: {}\n", "2: storrage: unknown key (did you mean storage?)"),
    "what is allowed": ("web:\n  x: 1\n", "allowed here: listen, path_prefix, token_file, allowed_hosts, insecure"),
    "key given twice": ("web:\n  listen: a:1\n  listen: a:2\n", "3: web.listen: is given twice (first in line 2)"),
    "bad YAML": ("targets:\n  - url: [\n", "not valid YAML"),
    "tab": ("targets:\n\t- url: x\n", "2: not valid YAML"),
    "control character": ("targets: []\n# \x07\n", "2: not valid YAML: a character"),
    "two documents": ("targets: []\n---\ntargets: []\n", "not valid YAML"),
    "no mapping": ("- http://a:8000\n", "1: the file must be a mapping"),
    "section is no mapping": ("web: 8917\n", "1: web: must be a mapping with the keys listen"),
    "list is no list": ("targets:\n  url: http://a:8000\n", "1: targets: must be a list"),
    "target is no mapping": ("targets:\n  - http://a:8000\n", "2: targets[0]: must be a mapping with the keys name"),
    "missing key": ("targets:\n  - name: a\n", "2: targets[0]: url is missing"),
    "number for text": ("targets:\n  - url: http://a\n    name: 5\n", "3: targets[0].name: must be text"),
    "text for a number": ("targets:\n  - url: http://a\n    max_num_seqs: many\n", "3: targets[0].max_num_seqs: must be a"),
    "too small": ("targets:\n  - url: http://a\n    max_num_seqs: 0\n", "must be greater than or equal to 1"),
    "no choice": ("targets:\n  - url: http://a\n    engine: sglng\n", "3: targets[0].engine: must be 'auto', 'vllm', 'sglang'"),
    "no duration": ("global:\n  stall_after: soon\n", "2: global.stall_after: 'soon' is no duration"),
    "pulse": ("global:\n  pulse_interval: 7s\n", "allowed: 100ms, 200ms, 250ms, 500ms, 1s, 2s, 3s, 4s, 5s, 6s, 10s"),
    "full interval": ("global: {pulse_interval: 2s, full_interval: 31s}\n", "must be a multiple of the pulse interval (2s)"),
    "time zone": ("global: {time_zone: Mars/North}\n", "'Mars/North' is no time zone"),
    "scheme": ("targets:\n  - url: ftp://a\n", "2: targets[0].url: must begin with http:// or https://"),
    "no host": ("targets:\n  - url: http://\n", "must name a host"),
    "no port": ("targets:\n  - url: http://a:x\n", "is no URL that can be read"),
    "query": ("targets:\n  - url: http://a/?x=1\n", "no ?query"),
    "same name": ("targets:\n  - url: http://a\n  - url: http://a/metrics\n", "3: targets[1]: has the name 'a:80' of targets[0]"),
    "label name": ("targets:\n  - url: http://a\n    labels: {a-b: x}\n", "'a-b' is no label name"),
    "share": ("targets:\n  - url: http://a\n    content_mix: {code: 0}\n", "'code': a share must be a number above 0"),
    "two ways in": (
        "targets:\n  - url: http://a\n    auth: {bearer_file: t, basic: {username: u, password_file: p}}\n",
        "3: targets[0].auth: has bearer_file and basic",
    ),
    "user twice": ("targets:\n  - url: http://u:p@a\n    auth: {bearer_file: t}\n", "3: targets[0].auth: the URL has a user"),
    "key without certificate": ("targets:\n  - url: https://a\n    tls: {key_file: k}\n", "cert_file and key_file belong"),
    "unknown target": ("comparisons:\n  - {sweep: s, targets: [b]}\n", "2: comparisons[0].targets: there is no target 'b'"),
    "half a pair": ("comparisons:\n  - {sweep: s, reference: a}\n", "reference and candidate belong together"),
    "with itself": ("comparisons:\n  - {sweep: s, reference: a, candidate: a}\n", "compares 'a' with itself"),
    "mix": ("comparisons:\n  - {sweep: s, content: code=much}\n", "'code=much' is no content mix: write shares"),
    "mix that is not all": ("targets:\n  - url: http://a\n    content_mix: {code: 0.3}\n", "3: targets[0].content_mix: the shares of the content mix 'code=0.3' sum to 0.3, not to 1"),
    "mix that is too much": ("comparisons:\n  - sweep: s\n    content: code=2\n", "3: comparisons[0].content: the shares of the content mix 'code=2' sum to 2"),
    "asked twice": (
        "comparisons:\n  - {name: one, sweep: s, live_is: reference}\n  - {name: two, sweep: s, live_is: candidate}\n",
        "3: comparisons[1]: 'two' asks what 'one' (comparisons[0]) asks",
    ),
    "database": ("storage: {url: mysql://a/b}\n", "mysql:// is no database that opmon knows"),
    "memory": ("storage: {url: 'sqlite:///:memory:'}\n", "a database in memory cannot be shared"),
    "falling retention": ("storage:\n  retention: {raw: 50d}\n", "2: storage.retention: must not fall"),
    "short retention": ("storage:\n  retention: {raw: 1h}\n", "2: storage.retention.raw: must be from 3h to 400d"),
    "address": ("web: {listen: '8917'}\n", "'8917' is no address"),
    "exposed": ("web: {listen: 0.0.0.0:8917}\n", "can be reached from other machines; set web.token_file, or say --insecure"),
    "prefix": ("web: {path_prefix: opmon}\n", "'opmon' is no path"),
    "later version": ("targets: []\nalerts: {}\n", "2: alerts: is not yet supported in this version; allowed here: global, targets, discovery"),
    "date": ("web:\n  listen: 2026-13-45\n", "2: web.listen: cannot be understood"),
    "tag": ("web:\n  listen: !secret x\n", "2: web.listen: cannot be understood"),
    "alias within itself": ("targets: &a [*a]\n", "is nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_in_the_file_names_file_line_and_key_and_what_is_allowed(case: str, tmp_path: Path) -> None:
    text, expected = FAULTS[case]
    path = write(tmp_path, text)
    message = refused(path)
    assert expected in message
    assert all(line.startswith(f"{path}:") for line in message.splitlines())


DISCOVERY_FAULTS = {
    "a source twice": ("file_sd: [{name: a, files: [x.json]}, {name: a, files: [y.json]}]", "has the name 'a' of file_sd[0]"),
    "no format": ("file_sd: [{files: [x.txt]}]", "must end with .json, .yml or .yaml"),
    "folders by pattern": ("file_sd: [{files: ['*/x.json']}]", "only in the part after the last /"),
    "no files": ("file_sd: [{files: []}]", "must name at least one"),
    "too often": ("file_sd: [{files: [x.json], refresh_interval: 10ms}]", "must be from 1s to 1h"),
    "a user in a url": ("http_sd: [{url: 'http://u:hunter2@a/'}]", "no user name"),
    "SRV with a port": ("dns: [{names: [a.test], port: 1}]", "SRV records bring their ports"),
    "A without a port": ("dns: [{names: [a.test], type: A}]", "A records bring no port"),
    "no name": ("dns: [{names: ['a b']}]", "is no name of the DNS"),
    "no namespace": ("kubernetes: [{port: 1, namespaces: [../x]}]", "is no namespace"),
    "no port": ("kubernetes: [{label_selector: a=b}]", "port is missing"),
    "a path that is not asked": ("file_sd: [{files: [x.json], defaults: {metrics_path: /probe}}]", "end with /metrics"),
    "unknown": ("consul: []", "unknown key; allowed here: file_sd, http_sd, dns, kubernetes"),
}  # fmt: skip


@pytest.mark.parametrize("case", DISCOVERY_FAULTS)
def test_a_fault_in_a_source_of_discovery_is_told_with_its_place(case: str, tmp_path: Path) -> None:
    written, expected = DISCOVERY_FAULTS[case]
    message = refused(write(tmp_path, f"discovery: {{{written}}}\n"))
    assert expected in message
    assert message.startswith(f"{tmp_path / 'opmon.yml'}:1: discovery")
    assert "hunter2" not in message


def test_sources_have_names_and_files_start_at_the_folder_of_the_configuration(tmp_path: Path) -> None:
    text = "discovery: {file_sd: [{files: [a.json]}, {name: b, files: [/b.json]}], dns: [{names: [a.test]}]}\n"
    settings = load(write(tmp_path, text), environ=NOBODY)
    assert ["file_sd[0]", "b", "dns[0]"] == [source.name for source in settings.discovery.sources]
    assert (f"{tmp_path}/a.json",) == settings.discovery.file_sd[0].files


def test_a_comparison_may_name_a_target_that_is_yet_to_be_discovered(tmp_path: Path) -> None:
    comparison = "comparisons: [{sweep: s, targets: [later]}]\n"
    assert "there is no target 'later'" in refused(write(tmp_path, comparison))
    load(write(tmp_path, comparison + "discovery: {file_sd: [{files: [a.json]}]}\n"), environ=NOBODY)


def test_a_secret_in_the_query_of_a_list_is_not_shown(tmp_path: Path) -> None:
    text = "discovery: {http_sd: [{url: 'http://a/list?key=hunter2', refresh_interval: 1m}]}\n"
    document = shown(load(write(tmp_path, text), environ=NOBODY))
    (source,) = document["discovery"]["http_sd"]
    assert ("http://a/list?<secret>", "1m") == (source["url"], source["refresh_interval"])


def test_comparisons_that_differ_in_content_configuration_or_targets_are_not_the_same(tmp_path: Path) -> None:
    text = """
targets: [{url: http://a, name: a}, {url: http://b, name: b}]
comparisons:
  - {name: one, sweep: s, content: code, targets: [a]}
  - {name: two, sweep: s, content: prose, targets: [a]}
  - {name: three, sweep: s, content: code, targets: [b]}
  - {name: four, sweep: s, content: code, targets: [a], reference: x, candidate: y}
"""
    assert 4 == len(load(write(tmp_path, text), environ=NOBODY).comparisons)


def test_every_secret_that_cannot_be_read_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "good").write_text("token\n")
    text = """
targets:
  - {url: http://a, auth: {bearer_file: good}}
  - {url: http://b, auth: {bearer_file: gone}}
  - {url: http://c, auth: {basic: {username: u, password_file: empty}}}
discovery:
  http_sd: [{url: http://d, auth: {bearer_file: missing}, defaults: {auth: {bearer_file: absent}}}]
web: {token_file: empty}
"""
    settings = load(write(tmp_path, text), environ=NOBODY)
    with pytest.raises(ConfigError) as caught:
        check_secrets(settings)
    gone = "the secret cannot be read: No such file or directory"
    assert [
        f"web.token_file: {tmp_path}/empty: must hold one line with the secret",
        f"targets[1].auth.bearer_file: {tmp_path}/gone: {gone}",
        f"targets[2].auth.basic.password_file: {tmp_path}/empty: must hold one line with the secret",
        f"discovery.http_sd[0].defaults.auth.bearer_file: {tmp_path}/absent: {gone}",
        f"discovery.http_sd[0].auth.bearer_file: {tmp_path}/missing: {gone}",
    ] == str(caught.value).splitlines()
    for name in ("empty", "gone", "absent", "missing"):
        (tmp_path / name).write_text("token\n")
    check_secrets(settings)


def test_a_token_that_no_header_can_carry_is_refused_where_it_is_sent_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "odd").write_text("sécret\n", encoding="utf-8")
    text = """
targets:
  - {url: http://a, auth: {bearer_file: odd}}
  - {url: http://b, auth: {basic: {username: ü, password_file: odd}}}
discovery:
  http_sd: [{url: http://d, auth: {bearer_file: odd}}]
  kubernetes: [{port: 80, api: "http://k", auth: {bearer_file: odd}}]
web: {token_file: odd}
"""
    settings = load(write(tmp_path, text), environ=NOBODY)
    with pytest.raises(ConfigError) as caught:
        check_secrets(settings)
    words = f"{tmp_path}/odd: the token has a character that no header can carry; only ASCII characters can be sent"
    keys = ["web.token_file", "targets[0].auth.bearer_file"]
    keys += [f"discovery.{kind}[0].auth.bearer_file" for kind in ("http_sd", "kubernetes")]
    assert [f"{key}: {words}" for key in keys] == str(caught.value).splitlines()
    for run in (settings.targets[0].authorization, settings.discovery.http_sd[0].auth.header, settings.web.token):
        with pytest.raises(ConfigError, match="no header can carry"):
            run()
    assert "Basic w7w6c8OpY3JldA==" == settings.targets[1].authorization()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("{url: http://a, auth: {basic: {username: 'a:b', password_file: x}}}", "a user name must have no colon"),
        ('{url: http://a, auth: {basic: {username: "a\\nb", password_file: x}}}', "it has a control character"),
        ("{url: 'http://a%3Ab:pass@h'}", "a user name must have no colon"),
        ("{url: 'http://a:pass%0Aword@h'}", "it has a control character"),
    ],
)
def test_a_user_who_cannot_be_sent_is_refused_without_the_password(target: str, words: str, tmp_path: Path) -> None:
    message = refused(write(tmp_path, f"targets: [{target}]\n"))
    assert (True, False) == (words in message, "pass" in message.replace("password_file", ""))


def test_pipes_and_devices_are_refused_at_once_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read: it is no regular file"):
            load(tmp_path / name, environ=NOBODY)
        settings = load(write(tmp_path, f"web: {{token_file: {name}}}\n"), environ=NOBODY)
        with pytest.raises(ConfigError, match=f"{name}: the secret cannot be read: it is no regular file"):
            settings.web.token()


def test_a_configuration_beyond_a_megabyte_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "big.yml").write_text("# x\n" * 300_000)
    with pytest.raises(ConfigError, match=r"big.yml: is larger than 1048576 bytes; list many targets in a JSON file"):
        load(tmp_path / "big.yml", environ=NOBODY)


@pytest.mark.parametrize("command", [("check", "config"), ("serve", "--config")])
def test_a_check_refuses_the_certificates_that_a_start_refuses(command: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    tls = ROOT / "tests" / "data" / "tls"
    text = f"""
web: {{listen: '127.0.0.1:0'}}
targets:
  - {{url: 'http://127.0.0.1:1', tls: {{ca_file: empty}}}}
  - {{url: 'http://127.0.0.1:2', tls: {{cert_file: {tls}/localhost.crt, key_file: {tls}/other.key}}}}
discovery:
  http_sd: [{{url: 'http://127.0.0.1:3', tls: {{ca_file: empty}}, defaults: {{tls: {{ca_file: gone}}}}}}]
"""
    environment = {**clean_environment(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*THIS_OPMON, *command, str(write(tmp_path, text))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert 2 == done.returncode
    for words in (
        f"targets[0].tls: {tmp_path}/empty: cannot be used for TLS as `ca_file`: a file holds no PEM",
        f"targets[1].tls: {tls}/localhost.crt, {tls}/other.key: cannot be used for TLS: the key does not belong",
        f"discovery.http_sd[0].defaults.tls: {tmp_path}/gone: cannot be used for TLS as `ca_file`: No such file",
        f"discovery.http_sd[0].tls: {tmp_path}/empty",
    ):
        assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [("check", "config"), ("serve", "--config")])
@pytest.mark.parametrize("text", ["web: {token_file: gone}\n", "web: {listen: '127.0.0.1:0'}\n"])
def test_a_secret_that_is_not_there_is_told_before_anything_starts(
    command: tuple[str, str], text: str, tmp_path: Path
) -> None:
    path = write(tmp_path, f"targets: [{{url: 'http://127.0.0.1:1', auth: {{bearer_file: none}}}}]\n{text}")
    environment = {**clean_environment(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*THIS_OPMON, *command, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert 2 == done.returncode
    assert f"targets[0].auth.bearer_file: {tmp_path}/none: the secret cannot be read" in done.stderr
    assert ("token_file" in text) == (f"web.token_file: {tmp_path}/gone: the secret cannot be read" in done.stderr)
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.db"))


def test_all_faults_of_the_values_are_told_at_once(tmp_path: Path) -> None:
    message = refused(write(tmp_path, "global: {window: x}\ntargets:\n  - url: ftp://a\nweb: {listen: y}\n"))
    assert 3 == len(message.splitlines())


@pytest.mark.parametrize("name", ["history", "fleets", "alerts", "notify"])
def test_a_section_of_a_later_version_is_refused_and_not_silently_ignored(name: str, tmp_path: Path) -> None:
    assert "not yet supported in this version" in refused(write(tmp_path, f"{name}: {{}}\n"))


def test_a_file_that_is_absent_or_no_text_is_a_fault_with_its_path(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "none.yml")
    path = tmp_path / "latin.yml"
    path.write_bytes(b"global:\n  time_zone: \xfc\n")
    assert f"{path}:2: is not UTF-8 text" == refused(path)


def test_a_small_file_whose_aliases_would_grow_without_end_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too large" in refused(write(tmp_path, "\n".join(lines)))


def test_a_password_in_a_url_never_stands_in_a_message(tmp_path: Path) -> None:
    for url in ("http://u:hunter2@", "ftp://u:hunter2@a", "http://u:hunter2@a:99999", "http://u:hunter2@a/?q"):
        assert "hunter2" not in refused(write(tmp_path, f"targets:\n  - url: {url}\n"))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_place_and_never_crashes(text: str) -> None:
    try:
        parse_document(text, "f")
    except ConfigError as error:
        assert str(error).startswith("f:")  # noqa: PT017  # either outcome is right


# --- what a file may say --------------------------------------------------------------------------------------------


def test_an_empty_file_and_empty_sections_and_values_count_as_not_written(tmp_path: Path) -> None:
    assert load(environ=NOBODY) == load(write(tmp_path, ""), environ=NOBODY)
    assert load(environ=NOBODY) == load(write(tmp_path, "global:\nweb:\n  token_file:\n"), environ=NOBODY)


def test_anchors_and_merge_keys_work_and_what_is_written_in_place_wins(tmp_path: Path) -> None:
    text = """
targets:
  - &first {url: "http://a:8000", job: llm, model: m}
  - {<<: *first, url: "http://b:8000", model: n}
"""
    settings = load(write(tmp_path, text), environ=NOBODY)
    assert [("a:8000", "llm", "m"), ("b:8000", "llm", "n")] == [(t.name, t.job, t.model) for t in settings.targets]


@pytest.mark.parametrize("milliseconds", PULSE_INTERVALS_MS)
def test_every_allowed_pulse_interval_divides_300_s_and_has_a_full_interval(milliseconds: int) -> None:
    settings = load(environ=NOBODY | {"OPMON_PULSE_INTERVAL": f"{milliseconds}ms"})
    assert 0 == 300_000 % milliseconds
    assert settings.global_.pulse_interval_is_set
    assert 0 == settings.global_.full_interval_ms % milliseconds
    assert settings.global_.full_interval_ms >= 30_000


def test_a_bare_number_is_a_duration_in_seconds(tmp_path: Path) -> None:
    assert 2000 == load(write(tmp_path, "global: {pulse_interval: 2}\n"), environ=NOBODY).global_.pulse_interval_ms


@pytest.mark.parametrize(
    ("url", "name", "clean"),
    [
        ("http://gpu1:8000", "gpu1:8000", "http://gpu1:8000"),
        ("http://gpu1:8000/metrics/", "gpu1:8000", "http://gpu1:8000/metrics"),
        ("https://gpu1", "gpu1:443", "https://gpu1"),
        ("http://GPU1/a/metrics", "gpu1:80/a", "http://gpu1/a/metrics"),
        ("http://u:p@gpu1:8000/b", "gpu1:8000/b", "http://gpu1:8000/b"),
        ("http://[::1]:8000", "[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_the_default_name_is_host_and_port_with_the_path_that_tells_servers_apart(
    url: str, name: str, clean: str
) -> None:
    target = targets(url).targets[0]
    assert (name, clean) == (target.name, target.url)


def test_the_name_of_a_target_does_not_depend_on_other_targets() -> None:
    alone, beside = targets("http://a/x"), targets("http://a/x", "http://a/y")
    assert alone.targets[0].name == beside.targets[0].name


def test_user_info_of_a_url_becomes_a_header_and_is_shown_nowhere() -> None:
    settings = targets("http://user:hunter%3A2@a:8000")
    header = settings.targets[0].authorization()
    assert header is not None
    assert b"user:hunter:2" == base64.b64decode(header.removeprefix("Basic "))
    assert "hunter" not in repr(settings) + str(shown(settings))


def test_secrets_come_from_files_beside_the_configuration_and_are_read_at_each_use(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    path = write(
        tmp_path,
        "targets:\n  - {url: 'http://a', auth: {bearer_file: token}}\n"
        "  - {url: 'http://b', auth: {basic: {username: u, password_file: token}}}\n",
    )
    first, second = load(path, environ=NOBODY).targets
    secret.write_text("one\n")
    assert ("Bearer one", "Basic dTpvbmU=") == (first.authorization(), second.authorization())
    secret.write_text("two\n")
    assert "Bearer two" == first.authorization()


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff", b"x" * 70_000])
def test_a_secret_that_is_no_single_line_is_refused_without_being_repeated(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    settings = load(write(tmp_path, "web: {token_file: token}\n"), environ=NOBODY)
    with pytest.raises(ConfigError, match=r"token: (must hold one line|the secret is not UTF-8)"):
        settings.web.token()


def test_a_secret_that_is_missing_is_refused_with_its_path(tmp_path: Path) -> None:
    settings = load(write(tmp_path, "web: {token_file: none}\n"), environ=NOBODY)
    with pytest.raises(ConfigError, match=f"{tmp_path}/none: the secret cannot be read: No such file"):
        settings.web.token()


@pytest.mark.parametrize(
    ("listen", "host", "is_loopback"),
    [
        ("127.0.0.1:8917", "127.0.0.1", True),
        ("127.1.2.3:0", "127.1.2.3", True),
        ("localhost:8917", "localhost", True),
        ("[::1]:8917", "::1", True),
        (":8917", "0.0.0.0", False),
        ("0.0.0.0:8917", "0.0.0.0", False),
        ("[::]:8917", "::", False),
        ("10.0.0.1:8917", "10.0.0.1", False),
        ("127.evil.example:8917", "127.evil.example", False),
    ],
)
def test_an_address_that_others_reach_needs_a_token_or_an_explicit_word(
    listen: str, host: str, is_loopback: bool, tmp_path: Path
) -> None:
    path = write(tmp_path, f"web: {{listen: '{listen}'}}\n")
    if not is_loopback:
        assert "--insecure" in refused(path)
    settings = load(path, {"web.insecure": True}, NOBODY)
    assert (host, is_loopback) == (settings.web.host, settings.web.is_loopback)
    assert host == load(path, {"web.token_file": "token"}, NOBODY).web.host


# --- the database ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "environ", "expected"),
    [
        (None, {"STATE_DIRECTORY": "/var/lib/opmon"}, "sqlite:////var/lib/opmon/opmon.db"),
        (None, {"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "sqlite:////var/lib/a/opmon.db"),
        (None, {"XDG_STATE_HOME": "/x"}, "sqlite:////x/opmon/opmon.db"),
        (None, {"XDG_STATE_HOME": "relative"}, "sqlite:////home/nobody/.local/state/opmon/opmon.db"),
        (None, {}, "sqlite:////home/nobody/.local/state/opmon/opmon.db"),
        (None, {"OPMON_DATABASE": "/d.db", "STATE_DIRECTORY": "/s"}, "sqlite:////d.db"),
        ("/o.db", {"OPMON_DATABASE": "/d.db"}, "sqlite:////o.db"),
        ("~/o.db", {}, "sqlite:////home/nobody/o.db"),
        ("sqlite:////o.db", {}, "sqlite:////o.db"),
        ("postgresql://u:p@h/d", {}, "postgresql+psycopg://u:p@h/d"),
        ("postgres://h/d", {}, "postgresql+psycopg://h/d"),
    ],
)
def test_the_database_is_where_the_option_the_variable_or_the_system_says(
    option: str | None, environ: dict[str, str], expected: str
) -> None:
    assert expected == database_url(option, NOBODY | environ)
    assert expected == load(None, {"storage.url": option}, NOBODY | environ).storage.url


def test_a_relative_path_of_the_database_starts_at_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"sqlite:///{tmp_path}/a.db" == database_url("a.db", NOBODY)
    assert f"sqlite:///{tmp_path}/a.db" == database_url("sqlite:///a.db", NOBODY)


# --- what is shown, and reloading -----------------------------------------------------------------------------------


def test_the_settings_in_force_are_shown_by_the_keys_of_the_file_and_can_be_loaded_again(tmp_path: Path) -> None:
    settings = load(
        None,
        {"targets": ["http://a:8000"], "storage.url": "postgresql://u:hunter2@h:5432/d"},
        NOBODY | {"OPMON_STALL_AFTER": "90s"},
    )
    document: dict[str, Any] = shown(settings)
    assert "postgresql+psycopg://u:<secret>@h:5432/d" == document["storage"]["url"]
    assert "1m30s" == document["global"]["stall_after"]
    document["storage"]["url"] = "postgresql://u:hunter2@h:5432/d"
    again = load(write(tmp_path, str(document).replace("None", "null")), environ=NOBODY)
    assert (settings.targets, settings.storage, settings.web) == (again.targets, again.storage, again.web)


def test_a_reload_names_the_changed_keys_that_need_a_restart() -> None:
    before = load(environ=NOBODY)
    after = load(None, {"web.listen": "127.0.0.1:1", "global.window": "1d", "storage.url": "/x.db"}, NOBODY)
    assert ("storage.url", "web.listen") == not_reloadable(before, after)
    assert () == not_reloadable(before, before)


# --- the table ------------------------------------------------------------------------------------------------------


def test_every_setting_is_declared_once_with_a_description_and_a_sane_variable() -> None:
    rows = settings_table()
    assert len(rows) == len({row.key for row in rows})
    for row in rows:
        assert row.description.endswith("."), row.key
        assert row.env is None or row.env.startswith("OPMON_"), row.key
        assert row.default != "None", row.key
    variables = [row.env for row in rows if row.env]
    assert len(variables) == len(set(variables))


def test_the_default_that_the_table_shows_is_the_one_in_force(tmp_path: Path) -> None:
    """Each default that can be written down is written down, and nothing changes."""
    base = load(environ=NOBODY)
    written = [row for row in settings_table() if not row.is_in_list and row.default and row.key != "storage.url"]
    assert len(written) >= 10
    for row in written:
        section, _, key = row.key.rpartition(".")
        text = f"{{{key}: {row.default}}}"
        for name in reversed(section.split(".")):
            text = f"{{{name}: {text}}}"
        assert base == load(write(tmp_path, text), environ=NOBODY), row.key


def test_settings_cannot_be_changed_after_loading() -> None:
    settings = load(environ=NOBODY)
    with pytest.raises(ValueError, match="frozen"):
        settings.web.listen = "0.0.0.0:1"
