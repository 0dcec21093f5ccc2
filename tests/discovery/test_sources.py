"""Sources over real files, real HTTP(S) servers on loopback and a real name server; and what they do when they fail."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import dns.message
import dns.rcode
import dns.rrset
import pytest

from opmon.clock import SystemClock
from opmon.config import Settings, load
from opmon.discovery import Lists, Source, Status, sources_of
from opmon.discovery.apart import Apart
from opmon.errors import ConfigError, DiscoveryError
from opmon.telemetry import Count, Telemetry
from tests.needs import ROOT
from tests.scrape.servers import Loopback, Request, Respond, always, send, serving

CERTIFICATES = ROOT / "tests" / "data" / "tls"
JSON = "application/json"


def settings(folder: Path, discovery: dict[str, Any]) -> Settings:
    path = folder / "opmon.yml"
    path.write_text(json.dumps({"discovery": discovery}), encoding="utf-8")
    return load(path, environ={"HOME": str(folder)})


def source(folder: Path, kind: str, environ: dict[str, str] | None = None, **keys: Any) -> Source:
    found = sources_of(
        settings(folder, {kind: [keys]}).discovery, SystemClock(), environ=environ or {}, account=folder / "account"
    )
    return found[0]


async def names(one: Source) -> list[str]:
    return [str(target.name) for target in (await one.read()).targets]


class Following:
    """One source under the runtime that keeps its list."""

    def __init__(self, one: Source) -> None:
        self.telemetry = Telemetry()
        self.lists = Lists(self.telemetry, SystemClock())
        self.source = one

    async def refreshed(self) -> Status:
        await self.lists.adopt([self.source])
        await self.lists.refresh(self.source)
        (status,) = self.lists.statuses
        return status

    @property
    def failures(self) -> int:
        return self.telemetry.counts(Count.DISCOVERY_FAILURES)[str(self.source.settings.name),]


# --- files ----------------------------------------------------------------------------------------------------------


def write(path: Path, *addresses: str) -> None:
    path.write_text(json.dumps([{"targets": list(addresses)}]), encoding="utf-8")


async def test_files_are_read_again_when_they_change(tmp_path: Path) -> None:
    one = source(tmp_path, "file_sd", files=["a.json", "more/*.yml"])
    write(tmp_path / "a.json", "a:1")
    (tmp_path / "more").mkdir()
    assert ["a:1"] == await names(one)
    write(tmp_path / "a.json", "a:1", "a:2")
    (tmp_path / "more" / "b.yml").write_text("- targets: [b:1]\n  labels: {job: x}\n", encoding="utf-8")
    assert ["a:1", "a:2", "b:1"] == await names(one)
    (tmp_path / "more" / "b.yml").unlink()
    assert ["a:1", "a:2"] == await names(one)


async def test_a_file_that_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    one = source(tmp_path, "file_sd", files=["a.json"])
    write(path, "a:1")
    assert ["a:1"] == await names(one)
    before = path.stat()
    with path.open("r+", encoding="utf-8") as file:  # the same file, time and size: nothing tells of a change
        file.write(json.dumps([{"targets": ["b:1"]}]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert ["a:1"] == await names(one)


async def test_a_bad_file_keeps_its_own_list_and_the_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "opmon.discovery")
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    following = Following(source(tmp_path, "file_sd", files=["?.json"]))
    assert "" == (await following.refreshed()).failure
    (tmp_path / "a.json").write_text("[{", encoding="utf-8")
    write(tmp_path / "b.json", "b:2")
    statuses = [await following.refreshed() for _ in range(3)]
    status = statuses[-1]
    assert ["a:1", "b:2"] == [one.name for one in status.targets]
    assert f"{tmp_path}/a.json: is no JSON" in status.failure
    assert 3 == following.failures
    write(tmp_path / "a.json", "a:3")
    assert ["a:3", "b:2"] == [one.name for one in (await following.refreshed()).targets]
    assert ["a source of targets fails and keeps its last list", "a source of targets is well again"] == [
        record.message for record in caplog.records
    ]


async def test_a_named_file_that_is_gone_is_a_failure_and_its_targets_stay(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "a:1")
    following = Following(source(tmp_path, "file_sd", files=["a.json"]))
    await following.refreshed()
    (tmp_path / "a.json").unlink()
    status = await following.refreshed()
    assert (["a:1"], True) == ([one.name for one in status.targets], "No such file" in status.failure)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[1]",
        "[" * 5_000,
        "\x00",
        '[{"targets": ["a:1"]}',
        "- targets: &a [*a]",
        "{{{{",
        "- !!python/object:os.x {}",
    ],
)
@pytest.mark.parametrize("ending", ["json", "yml"])
async def test_whatever_stands_in_a_file_is_refused_in_words(content: str, ending: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{ending}").write_text(content, encoding="utf-8")
    found = await source(tmp_path, "file_sd", files=[f"a.{ending}"]).read()
    assert ((), True) == (found.targets, found.failure.startswith(f"{tmp_path}/a.{ending}:"))


@pytest.mark.parametrize("files", ["a.json", "a.yml", "*.json"])
async def test_a_pipe_or_device_is_refused_at_once(files: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "a.yml").symlink_to("/dev/zero")
    async with asyncio.timeout(2):
        found = await source(tmp_path, "file_sd", files=[files]).read()
    expected = (
        ""
        if "*" in files
        else f"{tmp_path}/{files}: cannot be read: it is no regular file (a pipe, a socket or a device)"
    )
    assert ((), expected) == (found.targets, found.failure)


async def test_a_reading_that_hangs_is_told_after_a_deadline_and_not_begun_again() -> None:
    hang, apart = threading.Event(), Apart(0.05)
    with pytest.raises(DiscoveryError, match=r"^a: could not be read within 0.05 s$"):
        await apart.run("a", hang.wait)
    with pytest.raises(DiscoveryError, match=r"^a: is not read while an earlier reading hangs"):
        await apart.run("a", lambda: "never")
    hang.set()
    async with asyncio.timeout(2):
        while apart.is_hanging:  # noqa: ASYNC110  # a thread that ends tells nobody
            await asyncio.sleep(0.01)
    assert "read" == await apart.run("a", lambda: "read")


def test_the_exit_does_not_wait_for_a_reading_that_hangs() -> None:
    code = (
        "import asyncio, threading\n"
        "from opmon.discovery.apart import Apart\n"
        "async def main():\n"
        "    reading = asyncio.create_task(Apart(60).run('a', threading.Event().wait))\n"
        "    await asyncio.sleep(0.1)\n"
        "    reading.cancel()\n"
        "asyncio.run(main())\n"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], check=False, timeout=20).returncode


async def test_a_list_in_yaml_beyond_a_megabyte_is_refused_and_one_in_json_is_read(tmp_path: Path) -> None:
    groups = "- targets: ['a:1']\n" + "# a remark\n" * 100_000
    (tmp_path / "a.yml").write_text(groups, encoding="utf-8")
    found = await source(tmp_path, "file_sd", files=["a.yml"]).read()
    words = "is larger than 1048576 bytes; write it as JSON, which may have 16777216, or as several files"
    assert ((), f"{tmp_path}/a.yml: {words}") == (found.targets, found.failure)
    (tmp_path / "a.json").write_text(json.dumps([{"targets": ["a:1"]}]) + " " * 1_100_000, encoding="utf-8")
    assert ["a:1"] == await names(source(tmp_path, "file_sd", files=["a.json"]))


async def test_aliases_that_multiply_a_list_are_stopped_at_the_number_of_targets(tmp_path: Path) -> None:
    text = "- &group\n  targets: [" + ", ".join(f"'a:{port}'" for port in range(1, 900)) + "]\n" + "- *group\n" * 50_000
    (tmp_path / "a.yml").write_text(text, encoding="utf-8")
    found = await source(tmp_path, "file_sd", files=["a.yml"]).read()
    assert ((), f"{tmp_path}/a.yml: names more targets than may be; at most 1000 are taken") == (
        found.targets,
        found.failure,
    )


# --- HTTP -----------------------------------------------------------------------------------------------------------


async def test_a_list_over_http_is_asked_for_anew_each_time_with_the_credentials_of_the_source(tmp_path: Path) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        send(
            writer,
            json.dumps([{"targets": [f"a:{request.number + 1}"], "labels": {"__meta_x": "y"}}]),
            content_type=JSON,
        )

    (tmp_path / "token").write_text("sesame\n", encoding="utf-8")
    async with serving(respond) as server:
        one = source(tmp_path, "http_sd", url=f"{server.url}/list?key=v", auth={"bearer_file": "token"})
        assert (["a:1"], ["a:2"]) == (await names(one), await names(one))
        await one.aclose()
    assert {"/list?key=v"} == {request.path for request in server.requests}
    assert {"Bearer sesame"} == {request.headers["authorization"] for request in server.requests}


@pytest.mark.parametrize(
    ("respond", "words"),
    [
        (always("no", "503 Service Unavailable"), "HTTP 503"),
        (always("no", "401 Unauthorized"), "`auth` is missing or wrong"),
        (always("<html>"), "the answer is no JSON"),
        (always("{}"), "must be a list of groups"),
        (always("[" * 100_000), "the answer is no JSON"),
        (always("", "302 Found", location="http://127.0.0.2:9/"), "another origin"),
    ],
)
async def test_a_server_that_answers_otherwise_leaves_the_last_list(
    respond: Respond, words: str, tmp_path: Path
) -> None:
    good = always('[{"targets": ["a:1"]}]', content_type=JSON)

    async def first_good(request: Request, writer: asyncio.StreamWriter) -> None:
        await (good if request.number == 0 else respond)(request, writer)

    async with serving(first_good) as server:
        following = Following(source(tmp_path, "http_sd", url=f"{server.url}/?key=hunter2"))
        assert "" == (await following.refreshed()).failure
        status = await following.refreshed()
        await following.lists.aclose()
    assert ["a:1"] == [one.name for one in status.targets]
    assert words in status.failure
    assert "hunter2" not in status.failure
    assert 1 == following.failures


@pytest.mark.parametrize(("kind", "keys"), [("http_sd", {"url": "/list"}), ("kubernetes", {"api": "", "port": 80})])
async def test_a_token_that_became_one_that_cannot_be_sent_is_a_failure_without_it(
    kind: str, keys: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("sécret\n", encoding="utf-8")
    async with serving(always(b"[]")) as server:
        (address,) = keys.keys() & {"url", "api"}
        keys = {**keys, address: server.url + keys[address]}
        one = source(tmp_path, kind, auth={"bearer_file": str(tmp_path / "token")}, **keys)
        found = await one.read()
        await one.aclose()
    words = f"{tmp_path}/token: the token has a character that no header can carry"
    assert (True, False, 0) == (
        words in found.failure,
        "cret\n" in found.failure or "sé" in found.failure,
        len(server.requests),
    )


async def test_a_server_that_was_never_there_lists_nothing_and_says_so(tmp_path: Path) -> None:
    following = Following(source(tmp_path, "http_sd", url="http://127.0.0.1:1/"))
    status = await following.refreshed()
    assert ((), None, True) == (status.targets, status.listed_ms, "http://127.0.0.1:1/" in status.failure)
    await following.lists.aclose()


async def test_other_settings_of_a_source_keep_its_list_until_it_has_another(tmp_path: Path) -> None:
    async with serving(always('[{"targets": ["a:1"]}]')) as server:
        following = Following(source(tmp_path, "http_sd", url=server.url))
        await following.refreshed()
    gone = source(tmp_path, "http_sd", url="http://127.0.0.1:1/")
    assert (gone,) == await following.lists.adopt([gone])
    await following.lists.refresh(gone)
    assert ["a:1"] == [one.name for one in following.lists.targets()]
    assert () == await following.lists.adopt([source(tmp_path, "http_sd", url="http://127.0.0.1:1/")])
    assert () == await following.lists.adopt([])
    assert () == following.lists.targets()
    assert {} == following.telemetry.counts(Count.DISCOVERY_FAILURES)


# --- DNS ------------------------------------------------------------------------------------------------------------


async def test_addresses_come_from_the_systems_resolver(tmp_path: Path) -> None:
    one = source(tmp_path, "dns", names=["localhost"], type="A", port=8000)
    assert ["127.0.0.1:8000"] == await names(one)


class NameServer(asyncio.DatagramProtocol):
    """Answers SRV as its `records` say; `None` for a name is a server failure, a name that is not there NXDOMAIN."""

    def __init__(self) -> None:
        self.records: dict[str, list[str] | None] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = dns.message.from_wire(data)
        answer = dns.message.make_response(query)
        name = query.question[0].name
        records = self.records.get(name.to_text(omit_final_dot=True), [])
        if records is None:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif records:
            answer.answer.append(dns.rrset.from_text(name, 30, "IN", "SRV", *records))
        else:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self.transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def name_server() -> AsyncIterator[tuple[NameServer, str]]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(NameServer, local_addr=("127.0.0.1", 0))
    host, port = transport.get_extra_info("sockname")[:2]
    try:
        yield server, f"{host}:{port}"
    finally:
        transport.close()


async def test_srv_records_bring_hosts_and_ports_and_a_name_that_fails_keeps_its_own(tmp_path: Path) -> None:
    async with name_server() as (server, address):
        server.records = {
            "_http._tcp.a.test": ["10 5 8000 one.a.test.", "0 5 8001 two.a.test."],
            "_http._tcp.b.test": ["0 0 9000 three.b.test."],
            "_http._tcp.off.test": ["0 0 0 ."],
        }
        wanted = ["_http._tcp.a.test", "_http._tcp.b.test", "_http._tcp.off.test"]
        following = Following(source(tmp_path, "dns", names=wanted, resolver=address))
        assert ["one.a.test:8000", "two.a.test:8001", "three.b.test:9000"] == [
            one.name for one in (await following.refreshed()).targets
        ]
        server.records["_http._tcp.a.test"] = None
        server.records["_http._tcp.b.test"] = ["0 0 9001 three.b.test."]
        status = await following.refreshed()
        assert ["one.a.test:8000", "two.a.test:8001", "three.b.test:9001"] == [one.name for one in status.targets]
        assert "_http._tcp.a.test: SRV cannot be looked up" in status.failure
        server.records = {"_http._tcp.a.test": ["0 0 8002 one.a.test."]}
        status = await following.refreshed()
        assert (["one.a.test:8002"], "") == ([one.name for one in status.targets], status.failure)


# --- Kubernetes -----------------------------------------------------------------------------------------------------


def pod(name: str, address: str | None, *, namespace: str = "ml", phase: str = "Running", port: str = "http") -> Any:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "vllm", "hash": "x"}},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "side"}, {"name": "vllm", "ports": [{"name": port, "containerPort": 8000}]}],
        },
        "status": {"phase": phase} | ({"podIP": address} if address else {}),
    }


class Cluster:
    """Plays the API of a cluster: lists pods by namespace, page after page, for whoever brings the token."""

    def __init__(self) -> None:
        self.pods: list[Any] = []
        self.token = "sesame"
        self.page = 2
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.forbidden: set[str] = set()

    async def respond(self, request: Request, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(request.path)
        query = parse_qs(parts.query)
        self.asked.append((parts.path, query))
        namespace = parts.path.split("/")[4] if "/namespaces/" in parts.path else None
        if request.headers.get("authorization") != f"Bearer {self.token}":
            send(writer, '{"kind": "Status"}', "401 Unauthorized", content_type=JSON)
        elif namespace in self.forbidden:
            send(writer, '{"kind": "Status"}', "403 Forbidden", content_type=JSON)
        else:
            pods = [one for one in self.pods if namespace in (None, one["metadata"]["namespace"])]
            start = int(query.get("continue", ["0"])[0])
            more = {"continue": str(start + self.page)} if start + self.page < len(pods) else {}
            body = {"kind": "PodList", "metadata": more, "items": pods[start : start + self.page]}
            send(writer, json.dumps(body), content_type=JSON)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[tuple[Cluster, Loopback, dict[str, str]]]:
    """A cluster's API with TLS, the account of a pod in it, and that pod's environment."""
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text("sesame", encoding="utf-8")
    (account / "namespace").write_text("ml", encoding="utf-8")
    (account / "ca.crt").write_bytes((CERTIFICATES / "localhost.crt").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "localhost.crt", CERTIFICATES / "localhost.key")
    played = Cluster()
    async with serving(played.respond, tls=context) as server:
        yield played, server, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}


async def test_running_pods_are_listed_by_the_account_of_the_pod_that_opmon_runs_in(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, _server, environ):
        played.pods = [
            pod("vllm-0", "10.0.0.1"),
            pod("vllm-1", "fd00::1"),
            pod("starting", None, phase="Pending"),
            pod("done", "10.0.0.3", phase="Succeeded"),
            pod("other-port", "10.0.0.4", port="grpc"),
            pod("elsewhere", "10.0.0.5", namespace="web"),
        ]
        keys = {"port": "http", "label_selector": "app=vllm,tier!=test", "pod_labels": ["app.kubernetes.io/name"]}
        one = source(tmp_path, "kubernetes", environ, **keys)
        found = await one.read()
        await one.aclose()
    assert [("ml/vllm-0", "http://10.0.0.1:8000"), ("ml/vllm-1", "http://[fd00::1]:8000")] == [
        (target.name, target.url) for target in found.targets
    ]
    labels = {"namespace": "ml", "pod": "vllm-0", "node": "node-1", "app_kubernetes_io_name": "vllm"}
    assert labels == found.targets[0].labels
    assert {"/api/v1/namespaces/ml/pods"} == {path for path, _ in played.asked}
    assert [["app=vllm,tier!=test"]] * 3 == [query["labelSelector"] for _, query in played.asked]


async def test_a_pod_that_comes_back_under_its_name_is_the_same_target_at_another_address(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, _server, environ):
        one = source(tmp_path, "kubernetes", environ, port=9000)
        played.pods = [pod("vllm-0", "10.0.0.1")]
        (before,) = (await one.read()).targets
        played.pods = [pod("vllm-0", "10.0.0.9")]
        (after,) = (await one.read()).targets
        await one.aclose()
    assert (before.name, "http://10.0.0.1:9000", "http://10.0.0.9:9000") == (after.name, before.url, after.url)


async def test_a_token_that_is_rotated_counts_from_then_on_and_a_wrong_one_keeps_the_list(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, _server, environ):
        played.pods = [pod("vllm-0", "10.0.0.1")]
        following = Following(source(tmp_path, "kubernetes", environ, port=8000))
        await following.refreshed()
        played.token = "another"
        status = await following.refreshed()
        assert (1, True) == (len(status.targets), "HTTP 401" in status.failure)
        (tmp_path / "account" / "token").write_text("another", encoding="utf-8")
        assert "" == (await following.refreshed()).failure
        await following.lists.aclose()


async def test_a_namespace_that_may_not_be_listed_keeps_its_pods_and_the_others_go_on(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, _server, environ):
        played.pods = [pod("a", "10.0.0.1"), pod("b", "10.0.0.2", namespace="web")]
        following = Following(source(tmp_path, "kubernetes", environ, port=8000, namespaces=["ml", "web"]))
        await following.refreshed()
        played.forbidden = {"web"}
        played.pods = [pod("c", "10.0.0.3")]
        status = await following.refreshed()
        await following.lists.aclose()
    assert ["ml/c", "web/b"] == [one.name for one in status.targets]
    assert "namespaces/web/pods: HTTP 403" in status.failure


async def test_all_namespaces_are_listed_by_a_star(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, _server, environ):
        played.pods = [pod("a", "10.0.0.1"), pod("a", "10.0.0.2", namespace="web"), pod("b", "10.0.0.3")]
        one = source(tmp_path, "kubernetes", environ, port=8000, namespaces=["*"])
        assert ["ml/a", "web/a", "ml/b"] == await names(one)
        await one.aclose()


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_played, server, _environ):
        (tmp_path / "account" / "ca.crt").unlink()
        one = source(tmp_path, "kubernetes", api=server.url, port=8000)
        assert "certificate" in (await one.read()).failure
        await one.aclose()


def test_outside_of_a_cluster_the_api_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"kubernetes\[0\].*name its `api`"):
        source(tmp_path, "kubernetes", port=8000)


@pytest.mark.parametrize("items", [None, [None], [{}], [{"metadata": []}], [{"metadata": {"name": 1}, "status": 2}]])
async def test_whatever_the_api_answers_is_read_or_refused(items: Any, tmp_path: Path) -> None:
    async with cluster(tmp_path) as (played, server, _environ):
        del played
        async with serving(always(json.dumps({"items": items}), content_type=JSON)) as other:
            one = source(tmp_path, "kubernetes", api=other.url, port="http")
            found = await one.read()
            await one.aclose()
    assert () == found.targets
    assert (items is None) == bool(found.failure)
    assert server.requests == []
