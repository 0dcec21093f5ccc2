"""One scrape from loopback, side by side: a bare httpx request against what opmon makes of it.

Run as `python tests/performance/bench_scrape.py`. The server is another process; printed is the CPU time of this one,
in milliseconds a scrape (the best of several rounds), with the ratio to the bare request within the same run.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from opmon.clock import SystemClock
from opmon.core.engines import PULSE_NAMES
from opmon.core.model import Lane
from opmon.scrape.scraper import Scraper, ScrapeTarget

PAGE = Path(__file__).parents[1] / "data" / "expositions" / "vllm-0.32.0-load-4streams.prom"
ROUNDS, SCRAPES_A_ROUND = 9, 50
FLEET = 20


def serve(pipe: Connection) -> None:
    """A server that answers `/metrics/` with what a filter leaves of the page, and `/metrics` with the page."""
    whole = PAGE.read_bytes()
    lines = whole.decode().splitlines()
    pulse = "\n".join(line for line in lines if line.partition("{")[0].partition(" ")[0] in PULSE_NAMES).encode()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                body = pulse if head.startswith(b"GET /metrics/") else whole
                fields = f"Content-Type: text/plain; version=1.0.0\r\nContent-Length: {len(body)}"
                writer.write(f"HTTP/1.1 200 OK\r\n{fields}\r\n\r\n".encode() + body)

    async def run() -> None:
        server = await asyncio.start_server(connection, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def cpu_ms(scrape: Callable[[], Awaitable[object]]) -> float:
    """CPU milliseconds of one scrape, the best of the rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = time.process_time()
        for _ in range(SCRAPES_A_ROUND):
            await scrape()
        best = min(best, (time.process_time() - before) / SCRAPES_A_ROUND * 1000)
    return best


async def compare(port: int) -> None:
    """Prints the table."""
    url = f"http://127.0.0.1:{port}"
    names = "&".join(f"name[]={name}" for name in PULSE_NAMES)
    places = {Lane.PULSE: f"{url}/metrics/?{names}", Lane.FULL: f"{url}/metrics"}
    scraper = Scraper(ScrapeTarget("bench", url), SystemClock())
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=1), trust_env=False) as client:
        for lane, place in places.items():
            size = len((await client.get(place)).content)
            bare = await cpu_ms(partial(client.get, place))
            library = await cpu_ms(partial(parsed, client, place))
            ours = await cpu_ms(partial(scraper.scrape, 0, 1000, lane))
            print(f"{lane} lane, {size} bytes (CPU ms a scrape)")
            print(f"  {bare:7.3f}  1.00x  httpx request, body thrown away")
            print(f"  {library:7.3f}  {library / bare:4.2f}x  httpx request and prometheus_client's parser")
            print(f"  {ours:7.3f}  {ours / bare:4.2f}x  opmon: deadline, limits, snapshot")
    await scraper.aclose()
    await fleet(url)


async def parsed(client: httpx.AsyncClient, place: str) -> None:
    """The usual way to read metrics in Python."""
    list(text_string_to_metric_families((await client.get(place)).text))


async def fleet(url: str) -> None:
    """Prints what a pulse costs when many targets are pulsed at once."""
    scrapers = [Scraper(ScrapeTarget(f"t{number}", url), SystemClock()) for number in range(FLEET)]

    async def tick() -> None:
        await asyncio.gather(*(scraper.scrape(0, 1000, Lane.PULSE) for scraper in scrapers))

    await tick()
    spent = await cpu_ms(tick) / FLEET
    print(f"{FLEET} targets at once: {spent:.3f} ms a pulse")
    for scraper in scrapers:
        await scraper.aclose()


def main() -> int:
    """Starts the server, compares, and stops it."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        asyncio.run(compare(ours.recv()))
    finally:
        server.terminate()
        server.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
