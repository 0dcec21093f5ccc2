"""What is connected to once a name is resolved. Names are resolved by the test, and only loopback is ever reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import httpcore
import pytest

from opmon.clock import SystemClock
from opmon.errors import ScrapeError
from opmon.scrape import network
from opmon.scrape.fetch import Fetcher
from opmon.scrape.network import Network, allowed, first_connected, resolved
from tests.scrape.servers import always, serving

PAGE = b"m 1\n"


class Guarded(httpcore.AnyIOBackend):
    """Connects to loopback alone; whatever else is asked for fails the test before anything goes out."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def connect_tcp(self, host: str, *rest: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        self.asked.append(host)
        if host not in ("127.0.0.1", "::1"):
            message = f"a connection to {host}"
            raise AssertionError(message)
        return await super().connect_tcp(host, *rest, **more)


def names(*addresses: str) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver for which every name stands for these addresses."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return resolve


async def fetched(url: str, resolve: Callable[[str, int], Awaitable[Sequence[str]]], below: Guarded) -> bytes:
    fetcher = Fetcher(SystemClock(), network=Network(resolve, below))
    try:
        return (await fetcher.get(url, deadline_ms=2_000)).body
    finally:
        await fetcher.aclose()


@pytest.mark.parametrize(
    "addresses",
    [
        ("169.254.169.254",),
        ("fe80::1%eth0", "169.254.1.1"),
        ("::ffff:169.254.169.254",),
        ("fd00:ec2::254",),
        ("100.100.100.200",),
    ],
)
async def test_a_name_that_stands_for_such_an_address_is_not_connected_to(addresses: tuple[str, ...]) -> None:
    below = Guarded()
    with pytest.raises(ScrapeError) as caught:
        await fetched("http://innocent.example:8000/metrics", names(*addresses), below)
    assert [] == below.asked
    assert "not_asked" == caught.value.kind
    assert "innocent.example stands for nothing else" in caught.value.detail
    assert "which opmon never asks" in caught.value.detail


async def test_of_several_addresses_those_that_may_be_asked_are() -> None:
    below = Guarded()
    async with serving(always(PAGE)) as server:
        url = f"http://box.example:{server.port}/metrics"
        assert PAGE == await fetched(url, names("fe80::1", "127.0.0.1", "169.254.7.7"), below)
        assert f"box.example:{server.port}" == server.requests[0].headers["host"]
    assert ["127.0.0.1"] == below.asked


async def test_a_name_that_stands_for_another_address_the_next_time_is_judged_again() -> None:
    below, answers = Guarded(), iter([("127.0.0.1",), ("169.254.169.254",)])

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return next(answers)

    fetcher = Fetcher(SystemClock(), network=Network(resolve, below))
    async with serving(always(PAGE, connection="close")) as server:
        url = f"http://turns.example:{server.port}/metrics"
        assert PAGE == (await fetcher.get(url, deadline_ms=2_000)).body
        with pytest.raises(ScrapeError, match="not_asked"):
            await fetcher.get(url, deadline_ms=2_000)
    await fetcher.aclose()
    assert ["127.0.0.1"] == below.asked


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "http://0xa9fea9fe/", "http://[fe80::1]/", "https://metadata.google.internal/"]
)
async def test_such_an_address_is_refused_before_it_is_resolved(url: str) -> None:
    async def resolve(host: str, _port: int) -> Sequence[str]:
        message = f"{host} was looked up"
        raise AssertionError(message)

    with pytest.raises(ScrapeError, match="not_asked"):
        await fetched(url, resolve, below := Guarded())
    assert [] == below.asked


def test_a_host_without_any_address_is_told() -> None:
    with pytest.raises(ScrapeError, match="no address"):
        allowed("nothing.example", ())


async def test_an_address_is_itself_and_localhost_is_looked_up() -> None:
    assert ("10.0.0.1",) == await resolved("10.0.0.1", 80)
    assert ("::1",) == await resolved("0::1", 80)
    assert "127.0.0.1" in await resolved("localhost", 80)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 64 + ".invalid"])
async def test_a_name_that_is_none_is_a_failure_to_connect_that_names_it(host: str) -> None:
    with pytest.raises(httpcore.ConnectError, match=f"{host} cannot be resolved"):
        await resolved(host, 80)


class Stream(httpcore.AsyncNetworkStream):
    """A connection that only knows whether it was closed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True


async def test_the_next_address_is_tried_when_one_is_refused_and_beside_one_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(network, "HEAD_START_SECONDS", 0.05)
    tried: list[str] = []

    async def connect(address: str) -> httpcore.AsyncNetworkStream:
        tried.append(address)
        if address == "refuses":
            raise httpcore.ConnectError(address)
        if address == "silent":
            await asyncio.sleep(60)
        return Stream(address)

    before = time.monotonic()
    stream = cast("Stream", await first_connected(["refuses", "silent", "answers", "never"], connect))

    assert ("answers", False) == (stream.address, stream.is_closed)
    assert ["refuses", "silent", "answers"] == tried
    assert time.monotonic() - before < 5


async def test_where_no_address_answers_the_last_failure_is_told() -> None:
    async def connect(address: str) -> httpcore.AsyncNetworkStream:
        raise httpcore.ConnectError(address)

    with pytest.raises(httpcore.ConnectError, match="two"):
        await first_connected(["one", "two"], connect)


async def test_of_two_connections_at_once_one_is_closed() -> None:
    streams: list[Stream] = []
    gate = asyncio.Event()

    async def connect(address: str) -> httpcore.AsyncNetworkStream:
        await gate.wait()
        streams.append(Stream(address))
        return streams[-1]

    asyncio.get_running_loop().call_later(network.HEAD_START_SECONDS * 1.5, gate.set)
    won = await first_connected(["one", "two"], connect)

    assert [False, True] == sorted(stream.is_closed for stream in streams)
    assert [won] == [stream for stream in streams if not stream.is_closed]
