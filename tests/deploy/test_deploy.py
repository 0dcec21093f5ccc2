"""What is shipped to run opmon: every file loads in the program that reads it, and keeps its promises."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opmon.config import load, settings_table
from opmon.exporter import metrics_table

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules" / "opmon.rules.yml"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def run(*command: str, seconds: float = 60) -> str:
    """What the command says; fails with it if the command fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout + done.stderr


# --- the example configuration --------------------------------------------------------------------------------------


def test_the_example_configuration_loads_and_means_what_it_says() -> None:
    settings = load(DEPLOY / "opmon.example.yml", environ={"HOME": "/home/nobody"})
    assert ["127.0.0.1:8000", "chat"] == [target.name for target in settings.targets]
    assert 64 == settings.targets[1].max_num_seqs
    assert ("drafter", ("chat",)) == (settings.comparisons[0].name, settings.comparisons[0].targets)


def test_the_example_configuration_shows_each_section_and_its_commented_keys_exist() -> None:
    text = (DEPLOY / "opmon.example.yml").read_text(encoding="utf-8")
    assert {row.key.split(".")[0].removesuffix("[]") for row in settings_table()} == set(yaml.safe_load(text))
    commented = re.findall(r"^  # (\w+):", text, re.MULTILINE)
    assert len(commented) >= 3
    keys = {row.key.rpartition(".")[2] for row in settings_table()}
    assert set(commented) <= keys


# --- Kubernetes -----------------------------------------------------------------------------------------------------


def test_the_kubernetes_manifest_lets_opmon_list_pods_and_its_configuration_loads(tmp_path: Path) -> None:
    text = (DEPLOY / "kubernetes" / "opmon.yml").read_text(encoding="utf-8")
    by_kind = {one["kind"]: one for one in yaml.safe_load_all(text)}
    assert [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}] == by_kind["Role"]["rules"]
    (tmp_path / "opmon.yml").write_text(by_kind["ConfigMap"]["data"]["opmon.yml"], encoding="utf-8")
    settings = load(tmp_path / "opmon.yml", environ={"HOME": str(tmp_path)})
    assert ["http"] == [one.port for one in settings.discovery.kubernetes]
    (container,) = by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert {"OPMON_LISTEN"} == {one["name"] for one in container["env"]} & {row.env for row in settings_table()}
    assert f"--uid {by_kind['StatefulSet']['spec']['template']['spec']['securityContext']['fsGroup']}" in DOCKERFILE


# --- Prometheus -----------------------------------------------------------------------------------------------------


@pytest.mark.needs("prometheus")
def test_the_scrape_configuration_and_its_rules_are_valid_for_a_real_promtool() -> None:
    said = run("promtool", "check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))
    assert "1 rule files found" in said
    assert f"{sum(1 for _ in rules())} rules found" in said


@pytest.mark.needs("prometheus")
def test_the_rules_say_of_given_series_what_they_should() -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", str(Path(__file__).parent / "rules.test.yml"))


def rules() -> Iterator[dict[str, Any]]:
    for group in read_yaml(RULES)["groups"]:
        yield from group["rules"]


def test_rules_read_only_metrics_that_exist() -> None:
    declared = {
        family.name + suffix
        for family in metrics_table()
        for suffix in (("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",))
    }
    for rule in rules():
        named = set(re.findall(r"(?<![\w:])opmon_\w+", rule["expr"]))
        assert named <= declared, rule


def test_every_alert_has_its_words_a_severity_and_a_section_that_says_what_to_do() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len(alerts) >= 7
    headings = re.findall(r"^### (\w+)$", (DEPLOY / "prometheus" / "README.md").read_text("utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in alerts]
    for rule in alerts:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
        assert f"deploy/prometheus/README.md#{rule['alert'].lower()}" == rule["annotations"]["runbook_url"]


def test_every_alert_is_tested_to_fire() -> None:
    tested = read_yaml(Path(__file__).parent / "rules.test.yml")["tests"]
    fires = {one["alertname"] for test in tested for one in test.get("alert_rule_test", ()) if one["exp_alerts"]}
    assert {rule["alert"] for rule in rules() if "alert" in rule} == fires


# --- containers -----------------------------------------------------------------------------------------------------


def compose() -> Any:
    return read_yaml(ROOT / "docker-compose.yml")


@pytest.mark.parametrize("service", ["opmon", "vllm", "prometheus"])
def test_a_container_is_read_only_without_capabilities_and_published_on_this_machine_alone(service: str) -> None:
    declared = compose()["services"][service]
    assert declared["read_only"] is True
    assert ["ALL"] == declared["cap_drop"]
    assert ["no-new-privileges:true"] == declared["security_opt"]
    for port in declared.get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_files_and_volumes_that_compose_names_exist() -> None:
    declared = compose()
    for service in declared["services"].values():
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in declared["volumes"]


def test_the_environment_of_the_compose_service_is_made_of_known_variables_and_loads() -> None:
    environment: dict[str, str] = compose()["services"]["opmon"]["environment"]
    known = {row.env for row in settings_table()}
    assert set(environment) <= known
    image = dict(re.findall(r"(OPMON_\w+|STATE_DIRECTORY)=(\S+)", DOCKERFILE.split("ENTRYPOINT")[0]))
    target = re.fullmatch(r"\$\{OPMON_TARGET:-(.+)\}", environment["OPMON_TARGET"])
    assert target is not None
    settings = load(environ={**image, **environment, "OPMON_TARGET": target[1]})
    assert ("0.0.0.0", 8917) == (settings.web.host, settings.web.port)
    assert "sqlite:////var/lib/opmon/opmon.db" == settings.storage.url
    assert ["vllm:8000"] == [one.name for one in settings.targets]


def test_the_scrape_configuration_finds_opmon_where_compose_runs_it() -> None:
    config = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
    assert ["opmon:8917"] == config["scrape_configs"][0]["static_configs"][0]["targets"]
    assert "127.0.0.1:8917:8917" in compose()["services"]["opmon"]["ports"]


def test_compose_itself_accepts_the_file() -> None:
    command = shutil.which("docker-compose")
    if command is None:
        pytest.skip("docker-compose is not installed")
    run(command, "-f", str(ROOT / "docker-compose.yml"), "config", "--quiet")


def test_the_simulated_server_of_compose_starts_and_answers_like_vllm() -> None:
    arguments = [str(one) for one in compose()["services"]["vllm"]["command"]]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments[arguments.index("0.0.0.0")] = "127.0.0.1"
    arguments[arguments.index("8000")] = str(port)
    process = subprocess.Popen([sys.executable, "-m", "opmon.simulator", *arguments], cwd=ROOT, stderr=subprocess.PIPE)
    try:
        assert b"vllm:num_requests_running" in page_of(process, f"http://127.0.0.1:{port}/metrics/")
    finally:
        process.terminate()
        process.communicate(timeout=20)


def page_of(process: subprocess.Popen[bytes], url: str) -> bytes:
    """The page, as soon as the process serves it."""
    deadline = time.monotonic() + 45
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                body: bytes = answer.read()
                return body
        except OSError:
            assert process.poll() is None, "it ended"
            assert time.monotonic() < deadline, "it did not serve in time"
            time.sleep(0.1)


# --- the image ------------------------------------------------------------------------------------------------------


def steps(text: str) -> list[list[tuple[str, str]]]:
    """The instructions of a Dockerfile, by stage."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    stages: list[list[tuple[str, str]]] = []
    for line in filter(str.strip, joined.splitlines()):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, " ".join(rest.split())))
    return stages


def test_the_image_has_two_stages_installs_by_hash_and_runs_without_root() -> None:
    build, final = steps(DOCKERFILE)
    assert any("--require-hashes" in rest and "requirements.lock" in rest for name, rest in build if name == "RUN")
    assert not any("pip" in rest for name, rest in final if name == "RUN"), "the second stage installs nothing"
    users = [rest for name, rest in final if name == "USER"]
    assert ["opmon"] == users
    assert final.index(("USER", "opmon")) < final.index(("ENTRYPOINT", '["opmon"]'))
    assert not any(name == "ADD" for name, _ in build + final)


def test_everything_that_the_image_copies_is_there_and_not_kept_out() -> None:
    build, _ = steps(DOCKERFILE)
    kept = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    copied = [one for name, rest in build if name == "COPY" for one in rest.split()[:-1]]
    assert len(copied) >= 6
    for one in copied:
        assert (ROOT / one).exists(), one
        assert one in kept, one


def test_the_lock_gives_a_hash_for_every_archive_and_names_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^[A-Za-z0-9._-]+(?:\[[a-z,]+\])?==", text, re.MULTILINE)
    assert len(pinned) >= 10
    entries = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry.splitlines()[0])
    assert "://" not in text


def test_the_health_check_of_the_image_passes_on_health_and_fails_without() -> None:
    _, final = steps(DOCKERFILE)
    (check,) = [rest for name, rest in final if name == "HEALTHCHECK"]
    command = yaml.safe_load(check.partition("CMD ")[2])
    assert "python" == command[0]
    assert "http://127.0.0.1:8917/-/healthy" in command[2]
    failed = subprocess.run(
        [sys.executable, "-c", command[2].replace("8917", "9")], capture_output=True, check=False, timeout=30
    )
    assert 1 == failed.returncode


# --- systemd --------------------------------------------------------------------------------------------------------


def test_the_unit_is_valid_for_systemd(tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.skip("systemd-analyze is not installed")
    # It wants the program to exist, which it does only where opmon is installed as the unit says.
    text = (DEPLOY / "systemd" / "opmon.service").read_text(encoding="utf-8")
    unit = tmp_path / "opmon.service"
    unit.write_text(text.replace("/opt/opmon/bin/opmon", sys.executable))
    assert "" == run(command, "verify", "--man=no", str(unit))
    said = run(command, "security", "--offline=true", "--threshold=25", str(unit))
    assert "exposure level" in said


def test_the_unit_keeps_its_state_where_opmon_looks_and_does_not_retry_a_wrong_configuration() -> None:
    lines = (DEPLOY / "systemd" / "opmon.service").read_text(encoding="utf-8").splitlines()
    assert "StateDirectory=opmon" in lines
    assert "RestartPreventExitStatus=2" in lines
    assert "ExecStart=/opt/opmon/bin/opmon serve --config /etc/opmon/opmon.yml" in lines
