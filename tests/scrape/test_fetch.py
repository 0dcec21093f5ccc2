from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import ssl
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from opmon.clock import SystemClock
from opmon.config.settings import Tls
from opmon.errors import ConfigError, ScrapeError
from opmon.scrape.fetch import MOST_REDIRECTS, Fetcher
from tests.scrape.servers import Loopback, Request, Respond, always, send, serving

CERTIFICATES = Path(__file__).parents[1] / "data" / "tls"
PAGE = b"m 1\n" * 100


@asynccontextmanager
async def fetching(respond: Respond, **options: Any) -> AsyncIterator[tuple[Loopback, Fetcher]]:
    """A server and a fetcher for it, both closed at the end."""
    async with serving(respond) as server:
        fetcher = Fetcher(SystemClock(), **options)
        try:
            yield server, fetcher
        finally:
            await fetcher.aclose()


async def failure(respond: Respond, *, deadline_ms: int = 2_000, **options: Any) -> ScrapeError:
    """What a request to such a server fails with."""
    async with fetching(respond, **options) as (server, fetcher):
        with pytest.raises(ScrapeError) as caught:
            await fetcher.get(f"{server.url}/metrics", deadline_ms=deadline_ms)
    return caught.value


async def test_the_body_comes_with_its_type_and_size() -> None:
    async with fetching(always(PAGE, content_type="text/plain; version=1.0.0")) as (server, fetcher):
        fetched = await fetcher.get(f"{server.url}/metrics", deadline_ms=2_000)
    assert (PAGE, "text/plain; version=1.0.0", len(PAGE)) == (fetched.body, fetched.content_type, fetched.size_bytes)


async def test_text_0_0_4_is_asked_for_uncompressed() -> None:
    async with fetching(always(PAGE)) as (server, fetcher):
        await fetcher.get(f"{server.url}/metrics", deadline_ms=2_000)
    headers = server.requests[0].headers
    assert headers["accept"].startswith("text/plain;version=0.0.4")
    assert "identity" == headers["accept-encoding"]
    assert headers["user-agent"].startswith("opmon/")


async def test_an_answer_without_a_type_has_none() -> None:
    async with fetching(always(PAGE, content_type="")) as (server, fetcher):
        assert (await fetcher.get(server.url, deadline_ms=2_000)).content_type is None


async def test_one_connection_serves_all_requests() -> None:
    async with fetching(always(PAGE)) as (server, fetcher):
        for _ in range(3):
            await fetcher.get(f"{server.url}/metrics", deadline_ms=2_000)
    assert (1, 3) == (server.connections, len(server.requests))


async def test_the_first_byte_and_the_last_are_timed_apart() -> None:
    async def slow(_: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(b"m 1\n")

    async with fetching(slow) as (server, fetcher):
        fetched = await fetcher.get(server.url, deadline_ms=2_000)
    assert 95 <= fetched.first_byte_ms < fetched.took_ms - 150


# --- deadlines --------------------------------------------------------------------------------------------------------


async def drip(__: Request, writer: asyncio.StreamWriter) -> None:
    """A byte now and then: no single read ever takes long."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n")
    for _ in range(100):
        writer.write(b"m")
        await writer.drain()
        await asyncio.sleep(0.05)


async def silence(_: Request, __: asyncio.StreamWriter) -> None:
    await asyncio.sleep(5)


@pytest.mark.parametrize(("respond", "words"), [(drip, "reading the answer"), (silence, "waiting for the answer")])
async def test_the_deadline_is_for_the_whole_request(respond: Respond, words: str) -> None:
    before = time.monotonic()
    error = await failure(respond, deadline_ms=300)
    assert "timeout" == error.kind
    assert words in error.detail
    assert time.monotonic() - before < 2


async def test_after_a_timeout_the_next_request_has_a_connection_of_its_own() -> None:
    async def first_hangs(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.number == 0:
            await asyncio.sleep(5)
        send(writer, PAGE)

    async with fetching(first_hangs) as (server, fetcher):
        with pytest.raises(ScrapeError, match="timeout"):
            await fetcher.get(server.url, deadline_ms=200)
        assert PAGE == (await fetcher.get(server.url, deadline_ms=2_000)).body
        assert 2 == server.connections


async def test_a_cancelled_request_leaves_the_fetcher_usable() -> None:
    async def first_hangs(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.number == 0:
            await asyncio.sleep(5)
        send(writer, PAGE)

    async with fetching(first_hangs) as (server, fetcher):
        task = asyncio.create_task(fetcher.get(server.url, deadline_ms=5_000))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert PAGE == (await fetcher.get(server.url, deadline_ms=2_000)).body


# --- connections ------------------------------------------------------------------------------------------------------


async def test_nobody_listening_is_a_failure_to_connect() -> None:
    async with serving(always(PAGE)) as server:
        url = server.url
    fetcher = Fetcher(SystemClock())
    with pytest.raises(ScrapeError, match="connect"):
        await fetcher.get(url, deadline_ms=2_000)
    await fetcher.aclose()


@pytest.mark.parametrize(
    ("url", "kind", "words"),
    [
        ("http://no.such.host.invalid/metrics", "connect", "no.such.host.invalid cannot be resolved"),
        ("http://127.0.0.1:99999/", "not_asked", "no usable address"),
        ("http://\u200b/", "not_asked", "no usable address"),
        ("http://[::1/", "not_asked", "no usable address"),
        ("gopher://127.0.0.1/", "not_asked", "no usable address"),
        ("http:///metrics", "not_asked", "no usable address"),
    ],
)
async def test_an_address_that_leads_nowhere_is_told_in_words(url: str, kind: str, words: str) -> None:
    fetcher = Fetcher(SystemClock())
    with pytest.raises(ScrapeError) as caught:
        await fetcher.get(url, deadline_ms=5_000)
    await fetcher.aclose()
    assert (kind, True) == (caught.value.kind, words in caught.value.detail), caught.value.detail


@pytest.mark.parametrize("header", ["Bearer a\nX-Other: b", "Bearer \x00"])
async def test_a_secret_that_no_header_can_carry_is_not_sent(header: str) -> None:
    error = await failure(always(PAGE), authorization=lambda: header)
    assert "not_asked" == error.kind
    assert "cannot be sent" in error.detail


@pytest.mark.parametrize("header", ["Bearer sécret", "Bearer secret\x7f", "Bearer secret\r\n", "Bearer secret\ud800"])
async def test_nothing_of_a_secret_that_cannot_be_sent_is_in_the_failure_or_in_what_it_came_from(header: str) -> None:
    async with fetching(always(PAGE), authorization=lambda: header) as (server, fetcher):
        with pytest.raises(ScrapeError) as caught:
            await fetcher.get(server.url, deadline_ms=2_000)
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert ("not_asked", False, []) == (caught.value.kind, "cret\\" in told or "sécret" in told, server.requests)
    assert (None, True) == (caught.value.__cause__, "no header can carry" in caught.value.detail)


async def test_whatever_goes_wrong_with_making_a_request_is_a_failure_without_its_words() -> None:
    def fails() -> str | None:
        return "sécret".encode("ascii").decode()

    error = await failure(always(PAGE), authorization=fails)
    assert ("not_asked", "the request cannot be made (UnicodeEncodeError)") == (error.kind, error.detail)
    assert (None, True) == (error.__cause__, error.__suppress_context__)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (0, False)),
        ({"age": "61"}, (61, False)),
        ({"age": "soon"}, (0, False)),
        ({"warning": '110 - "Response is Stale"'}, (0, True)),
        ({"warning": '199 a "b", 111 c "Revalidation Failed"'}, (0, True)),
        ({"warning": '214 a "110"'}, (0, False)),
    ],
)
async def test_what_a_cache_says_of_its_copy_is_told(headers: dict[str, str], expected: tuple[int, bool]) -> None:
    async with fetching(always(PAGE, **headers)) as (server, fetcher):
        fetched = await fetcher.get(server.url, deadline_ms=2_000)
    assert (*expected, False) == (fetched.age_seconds, fetched.is_said_stale, fetched.is_ended_by_close)


async def test_a_kept_connection_that_the_server_closes_is_replaced_without_a_failure() -> None:
    async def closes(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.number == 1:
            writer.close()  # in the moment in which it is used again
        else:
            send(writer, PAGE)

    async with fetching(closes) as (server, fetcher):
        for _ in range(2):
            assert PAGE == (await fetcher.get(server.url, deadline_ms=2_000)).body
    assert (2, 3) == (server.connections, len(server.requests))


async def test_a_new_connection_that_the_server_closes_is_a_failure() -> None:
    async def closes(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.close()

    assert "connect" == (await failure(closes)).kind


async def test_an_answer_shorter_than_announced_fails_as_a_whole() -> None:
    async def short(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, PAGE, content_length=str(len(PAGE) + 5_000))
        await writer.drain()
        writer.close()

    error = await failure(short)
    assert "truncated" == error.kind
    assert f"received {len(PAGE)} bytes, expected {len(PAGE) + 5_000}" in error.detail


async def test_chunks_without_their_end_fail_as_a_whole() -> None:
    async def cut(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nm 1\n\r\n")
        await writer.drain()
        writer.close()

    assert "truncated" == (await failure(cut)).kind


async def test_a_cut_off_answer_over_tls_is_cut_off_too() -> None:
    async def short(_: Request, writer: asyncio.StreamWriter) -> None:
        send(writer, PAGE, content_length=str(len(PAGE) + 1))
        await writer.drain()
        writer.transport.abort()

    async with serving(short, tls=certified()) as server:
        fetcher = Fetcher(SystemClock(), tls=Tls(ca_file=CA))
        with pytest.raises(ScrapeError) as caught:
            await fetcher.get(server.url, deadline_ms=5_000)
        await fetcher.aclose()
    assert "truncated" == caught.value.kind


async def test_https_at_a_port_of_http_is_a_failure_of_tls_that_says_so() -> None:
    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        send(writer, b"what?", "400 Bad Request")
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    async with server:
        fetcher = Fetcher(SystemClock())
        with pytest.raises(ScrapeError) as caught:
            await fetcher.get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", deadline_ms=2_000)
        await fetcher.aclose()
    assert "tls" == caught.value.kind
    assert caught.value.detail.endswith("the port speaks http, not https: write http:// in its address")


async def test_something_that_is_not_http_is_a_failure_to_connect() -> None:
    async def noise(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")
        await writer.drain()
        writer.close()

    assert "connect" == (await failure(noise)).kind


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with fetching(always(PAGE)) as (server, fetcher):
        assert PAGE == (await fetcher.get(server.url, deadline_ms=2_000)).body


# --- status and redirects ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("500 Internal Server Error", "HTTP 500"),
        ("404 Not Found", "HTTP 404"),
        ("204 No Content", "HTTP 204"),
        ("401 Unauthorized", "`auth`"),
        ("403 Forbidden", "`auth`"),
    ],
)
async def test_another_status_than_200_is_a_failure_that_names_it(status: str, words: str) -> None:
    error = await failure(always(b"" if status.startswith("204") else b"m 1\n", status))
    assert "http_status" == error.kind
    assert words in error.detail


async def test_a_redirect_within_the_origin_is_followed_with_the_credentials() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path.endswith("/"):
            send(writer, PAGE)
        else:
            send(writer, b"", "307 Temporary Redirect", location=request.path + "/")

    async with fetching(respond, authorization=lambda: "Bearer secret") as (server, fetcher):
        fetched = await fetcher.get(f"{server.url}/metrics", deadline_ms=2_000)
    assert (PAGE, f"{server.url}/metrics/") == (fetched.body, fetched.url)
    assert ["Bearer secret"] * 2 == [request.headers["authorization"] for request in server.requests]


async def test_a_redirect_loop_is_stopped() -> None:
    async with fetching(always(b"", "302 Found", location="/metrics")) as (server, fetcher):
        with pytest.raises(ScrapeError, match="redirect"):
            await fetcher.get(f"{server.url}/metrics", deadline_ms=2_000)
    assert MOST_REDIRECTS + 1 == len(server.requests)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_another_origin_is_refused_and_never_asked(scheme: str) -> None:
    async with serving(always(PAGE)) as other:
        elsewhere = f"{scheme}://127.0.0.1:{other.port}/metrics"
        error = await failure(always(b"", "301 Moved", location=elsewhere), authorization=lambda: "Bearer secret")
    assert "redirect" == error.kind
    assert f"{scheme}://127.0.0.1:{other.port}" in error.detail
    assert (0, []) == (other.connections, other.requests)


@pytest.mark.parametrize("location", ["", "http://[", "file:///etc/passwd"])
async def test_a_redirect_to_no_usable_place_is_refused(location: str) -> None:
    assert "redirect" == (await failure(always(b"", "302 Found", location=location))).kind


# --- size and encoding ------------------------------------------------------------------------------------------------


async def test_an_answer_that_announces_too_much_is_not_read() -> None:
    error = await failure(always(b"", content_length="34000000"), max_bytes=1_000)
    assert ("too_large", True) == (error.kind, "1000 bytes" in error.detail)


async def test_an_answer_without_a_length_is_cut_at_the_limit() -> None:
    sent = 0

    async def endless(_: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 200_000_000:
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000

    assert "too_large" == (await failure(endless, max_bytes=1_000_000, deadline_ms=10_000)).kind
    assert sent < 50_000_000


async def test_chunks_are_put_together() -> None:
    async def chunked(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(PAGE), 97):
            part = PAGE[at : at + 97]
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")

    async with fetching(chunked) as (server, fetcher):
        assert PAGE == (await fetcher.get(server.url, deadline_ms=2_000)).body


@pytest.mark.parametrize(("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_compressed_answer_is_read_although_none_was_asked_for(
    encoding: str, encode: Callable[[bytes], bytes]
) -> None:
    packed = encode(PAGE)
    async with fetching(always(packed, content_encoding=encoding)) as (server, fetcher):
        fetched = await fetcher.get(server.url, deadline_ms=2_000)
    assert (PAGE, len(packed)) == (fetched.body, fetched.size_bytes)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzip.compress(PAGE)[:-9], "gzip"),
        (b"not gzip at all", "gzip"),
        (gzip.compress(PAGE) + b"more", "gzip"),
        (b"", "gzip"),
        (PAGE, "br"),
    ],
)
async def test_broken_compression_fails_as_a_whole(body: bytes, encoding: str) -> None:
    assert "encoding" == (await failure(always(body, content_encoding=encoding))).kind


async def test_a_few_bytes_that_unpack_to_very_many_are_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    assert "too_large" == (await failure(always(bomb, content_encoding="gzip"), max_bytes=100_000)).kind


# --- credentials and certificates -------------------------------------------------------------------------------------


async def test_the_credentials_are_those_of_the_moment() -> None:
    tokens = iter(["Bearer one", "Bearer two", None])
    async with fetching(always(PAGE), authorization=lambda: next(tokens)) as (server, fetcher):
        for _ in range(3):
            await fetcher.get(server.url, deadline_ms=2_000)
    assert ["Bearer one", "Bearer two", None] == [one.headers.get("authorization") for one in server.requests]


async def test_without_its_secret_a_target_is_not_asked() -> None:
    def unreadable() -> str | None:
        raise ConfigError("token: the secret cannot be read")

    error = await failure(always(PAGE), authorization=unreadable)
    assert ("not_asked", True) == (error.kind, "the secret cannot be read" in error.detail)


def certified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "localhost.crt", CERTIFICATES / "localhost.key")
    return context


CA = str(CERTIFICATES / "localhost.crt")


@pytest.mark.parametrize(
    "tls", [Tls(ca_file=CA), Tls(ca_file=CA, server_name="metrics.test"), Tls(insecure_skip_verify=True)]
)
async def test_a_certificate_is_accepted_where_the_target_says_so(tls: Tls) -> None:
    async with serving(always(PAGE), tls=certified()) as server:
        fetcher = Fetcher(SystemClock(), tls=tls)
        assert PAGE == (await fetcher.get(server.url, deadline_ms=5_000)).body
        await fetcher.aclose()


@pytest.mark.parametrize(
    ("tls", "key"), [(None, "`tls.ca_file`"), (Tls(ca_file=CA, server_name="elsewhere.test"), "`tls.server_name`")]
)
async def test_a_certificate_that_does_not_hold_is_a_failure_of_tls_that_names_the_setting(
    tls: Tls | None, key: str
) -> None:
    async with serving(always(PAGE), tls=certified()) as server:
        fetcher = Fetcher(SystemClock(), tls=tls)
        with pytest.raises(ScrapeError) as caught:
            await fetcher.get(server.url, deadline_ms=5_000)
        await fetcher.aclose()
    assert "tls" == caught.value.kind
    assert "certificate" in caught.value.detail
    assert key in caught.value.detail


def test_certificate_files_that_are_none_are_a_fault_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match="README"):
        Fetcher(SystemClock(), tls=Tls(ca_file=str(CERTIFICATES / "README.md")))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"ca_file": "empty"}, "holds no PEM"),
        ({"ca_file": "pipe"}, "it is no regular file"),
        ({"ca_file": "/dev/zero"}, "it is no regular file"),
        ({"cert_file": CA, "key_file": "pipe"}, "it is no regular file"),
        ({"cert_file": CA, "key_file": "empty"}, "holds no PEM"),
        ({"cert_file": CA, "key_file": "other"}, "the key does not belong to the certificate"),
        ({"cert_file": CA, "key_file": "locked"}, "the key is behind a passphrase"),
        ({"cert_file": CA, "key_file": "gone"}, "No such file"),
    ],
)
def test_a_certificate_file_that_cannot_be_used_is_refused_in_words_and_at_once(
    files: dict[str, str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for name in ("other", "locked"):
        shutil.copy(CERTIFICATES / f"{name}.key", tmp_path / name)
    with pytest.raises(ConfigError, match=words):
        Fetcher(SystemClock(), tls=Tls.model_validate({key: str(tmp_path / file) for key, file in files.items()}))
