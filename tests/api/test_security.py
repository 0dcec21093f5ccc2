"""Who may ask, and what leaves with every answer."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from opmon.api.security import SecuritySettings, TokenInForce
from opmon.config import Web
from tests.api.conftest import application, client_of
from tests.api.stage import Scene

TOKEN = "täglich-7f3a"
FILE = {"file": ("a.csv", b"config,concurrency,aggregate_tok_s\na,1,2\n")}


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"anyone:{password}".encode()).decode()


@pytest.mark.parametrize("path", ["/", "/api/v1/targets", "/metrics", "/nothing", "/-/healthy", "/openapi.json"])
async def test_every_answer_carries_the_security_headers(client: httpx.AsyncClient, path: str) -> None:
    headers = (await client.get(path)).headers
    assert "unsafe" not in headers["content-security-policy"]
    assert "default-src 'none'" in headers["content-security-policy"]
    assert ("nosniff", "DENY") == (headers["x-content-type-options"], headers["x-frame-options"])
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("host", ["localhost:8917", "127.0.0.1", "[::1]:8917", "LOCALHOST", "opmon.localhost"])
async def test_names_of_this_machine_are_answered(client: httpx.AsyncClient, host: str) -> None:
    assert 200 == (await client.get("/-/healthy", headers={"Host": host})).status_code


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8917", "a@b:c", ""])
async def test_a_name_that_points_here_from_elsewhere_is_refused(client: httpx.AsyncClient, host: str) -> None:
    answer = await client.get("/api/v1/targets", headers={"Host": host})
    assert (421, "urn:opmon:problem:host") == (answer.status_code, answer.json()["type"])


async def test_an_allowed_name_is_answered(scene: Scene) -> None:
    security = SecuritySettings(allowed_hosts=("opmon.example",))
    async with client_of(application(scene, security), "http://opmon.example") as client:
        assert 200 == (await client.get("/api/v1/targets")).status_code


@pytest.fixture
async def guarded(scene: Scene) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(application(scene, SecuritySettings(TOKEN, check_host=False)), "http://far.example") as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/api/v1/targets", "/metrics", "/static/x/opmon.css", "/openapi.json"])
async def test_without_the_token_nothing_is_said(guarded: httpx.AsyncClient, path: str) -> None:
    answer = await guarded.get(path)
    assert 401 == answer.status_code
    assert ["Bearer", "Basic"] == [one.split()[0] for one in answer.headers.get_list("www-authenticate")]
    assert "gpu-1" not in answer.text


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Bearer {TOKEN}x", "Bearer", "Basic !!!", basic("wrong"), f"Token {TOKEN}", ""]
)
async def test_another_token_is_refused(guarded: httpx.AsyncClient, given: str) -> None:
    headers = [(b"authorization", given.encode())]
    assert 401 == (await guarded.get("/api/v1/targets", headers=headers)).status_code


async def test_programs_give_the_token_as_bearer_and_people_as_password(scene: Scene) -> None:
    security = SecuritySettings("plain-token", check_host=False)
    async with client_of(application(scene, security), "http://far.example") as client:
        for given in ("Bearer plain-token", "bearer  plain-token ", basic("plain-token")):
            assert 200 == (await client.get("/api/v1/targets", headers={"Authorization": given})).status_code


async def test_a_token_beyond_ascii_works_both_ways(guarded: httpx.AsyncClient) -> None:
    for given in (basic(TOKEN), f"Bearer {TOKEN}"):
        assert 200 == (await guarded.get("/", headers=[(b"authorization", given.encode())])).status_code


@pytest.mark.parametrize("path", ["/-/healthy", "/-/ready", "/livez", "/readyz"])
async def test_probes_need_no_token(guarded: httpx.AsyncClient, path: str) -> None:
    assert 200 == (await guarded.get(path)).status_code


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
    ],
)
async def test_a_page_of_another_site_cannot_write(
    scene: Scene, client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    assert 403 == (await client.post("/api/v1/sweeps", files=FILE, headers=headers)).status_code
    assert 403 == (await client.delete("/api/v1/sweeps/example-drafters", headers=headers)).status_code
    assert {"example-drafters"} == set(scene.stored)


async def test_a_token_that_changes_in_its_file_holds_from_then_on(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    security = SecuritySettings(TokenInForce(Web(token_file=str(file)).token))

    async def answers(client: httpx.AsyncClient) -> list[int]:
        sent = [{"Authorization": f"Bearer {token}"} for token in ("first", "second", "")]
        return [(await client.get("/api/v1/targets", headers=one)).status_code for one in sent]

    async with client_of(application(scene, security)) as client:
        assert [200, 401, 401] == await answers(client)
        file.write_text("second\n")
        assert [401, 200, 401] == await answers(client)
        for leave in (lambda: file.write_text(""), file.unlink):
            leave()
            assert [401, 401, 401] == await answers(client)
        assert ["nobody gets in: the token cannot be read"] == [record.message for record in caplog.records]
        file.write_text("first\n")
        assert [200, 401, 401] == await answers(client)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://behind.a.proxy"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://127.0.0.1:8917"},
    ],
)
async def test_our_own_page_and_programs_can_write(client: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert 204 == (await client.delete("/api/v1/sweeps/example-drafters", headers=headers)).status_code


async def test_a_declared_length_over_the_limit_is_refused_before_it_is_read(scene: Scene) -> None:
    async with client_of(application(scene, SecuritySettings(max_upload_bytes=1000))) as client:
        answer = await client.post("/api/v1/sweeps", files={"file": ("a.csv", b"x" * 2000)})
    assert (413, "urn:opmon:problem:too-large") == (answer.status_code, answer.json()["type"])


async def test_an_undeclared_length_is_counted_while_it_is_read(scene: Scene) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
        for _ in range(1000):
            sent += 1
            yield b"x" * 1000
        yield b"\r\n--b--\r\n"

    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    async with client_of(application(scene, SecuritySettings(max_upload_bytes=5000))) as client:
        answer = await client.post("/api/v1/sweeps", content=endless(), headers=headers)
    assert 413 == answer.status_code
    assert sent < 50


@pytest.mark.parametrize("length", ["-1", "abc", "9" * 30])
async def test_a_length_that_is_no_number_is_refused(client: httpx.AsyncClient, length: str) -> None:
    answer = await client.request("DELETE", "/api/v1/sweeps/x", headers={"Content-Length": length})
    assert 413 == answer.status_code


@pytest.mark.parametrize(
    "path",
    ["/static/../../etc/passwd", "/static/x/../../../etc/passwd", "/static/x/%2e%2e/%2e%2e/app.py",
     "/static/x/..%2f..%2fapi%2fapp.py", "/static_evil/x", "/static/x/opmon.css/", "/static/x/", "/static/x/__init__.py"],
)  # fmt: skip
async def test_only_known_files_are_served_as_static(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert 404 == answer.status_code
    assert "root:" not in answer.text


@pytest.mark.parametrize("path", ["/opmon/api/v1/targets", "/api/v1/targets", "/opmon/", "/opmon"])
async def test_a_prefix_holds_whether_the_proxy_takes_it_off_or_not(scene: Scene, path: str) -> None:
    async with client_of(application(scene, prefix="/opmon")) as client:
        assert 200 == (await client.get(path)).status_code
        assert 404 == (await client.get("/opmonitor/api/v1/targets")).status_code
        assert "/opmon" == (await client.get("/openapi.json")).json()["servers"][0]["url"]
