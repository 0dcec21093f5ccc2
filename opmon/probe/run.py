"""The rounds of a probe: a warm-up of each path, then the paths in turn, until all is asked, or the end is told.

Contains no printing and no reading of answers. At most `concurrency` requests are under way at once, whatever happens.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

import httpx

from opmon.core.probed import METHOD, Probe, Tried, is_complete, path_answers
from opmon.errors import ConfigError
from opmon.probe.exchange import bounded, exchange, shortened
from opmon.probe.paths import Ask, Path

# Below the 5 s after which many servers close an idle connection: a request must not meet one on its way out.
KEEP_ALIVE_SECONDS = 4.5
MODELS_SECONDS = 10.0
MOST_MODELS_BYTES = 1024 * 1024
DOES_NOT_KNOW = (400, 404, 415, 422, 500)
INTERRUPTED, DEADLINE = "interrupted", "deadline"

Result = TypeVar("Result")


class Stopped(Exception):
    """The end was told, or the time is over."""


class Runner:
    """One probe. `stop` may be called at any time; what is under way is given up then."""

    def __init__(self, paths: Sequence[Path], ask: Ask, *, timeout_seconds: float, deadline_seconds: float) -> None:
        self.ask = ask
        self._paths = list(paths)
        self._timeout_seconds = timeout_seconds
        self._ends = time.monotonic() + deadline_seconds
        self._stop = asyncio.Event()
        self._without_usage: set[str] = set()
        self.tried = [Tried(path.name, path.url, path.model) for path in self._paths]

    def stop(self) -> None:
        """Ends the probe; what was found so far is answered."""
        self._stop.set()

    async def run(self) -> Probe:
        """The probe. Raises ConfigError where no model is named and none can be found out."""
        stopped: str | None = None
        most = self.ask.concurrency * len(self._paths)
        limits = httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=KEEP_ALIVE_SECONDS)
        # Settings of the environment would send some paths through a proxy and others not.
        async with httpx.AsyncClient(timeout=self._timeout_seconds, limits=limits, trust_env=False) as client:
            try:
                await self._name_models(client)
                await self._warm_up(client)
                await self._rounds(client)
            except Stopped:
                stopped = INTERRUPTED if self._stop.is_set() else DEADLINE
        answers = path_answers(self.tried)
        return Probe(
            api=self.ask.api,
            prompt_characters=len(self.ask.prompt),
            max_tokens=self.ask.max_tokens,
            temperature=self.ask.temperature,
            concurrency=self.ask.concurrency,
            requests=self.ask.requests,
            is_complete=stopped is None and is_complete(answers, self.ask.requests),
            stopped=stopped,
            method=METHOD,
            paths=answers,
        )

    async def _name_models(self, client: httpx.AsyncClient) -> None:
        """The direct path's model is the one of all paths for which none is named."""
        if all(path.model for path in self._paths):
            return
        model = self._paths[0].model or await self._in_time(_only_model(client, self._paths[0]))
        self._paths = [path if path.model else replace(path, model=model) for path in self._paths]
        for path, tried in zip(self._paths, self.tried, strict=True):
            tried.model = path.model

    async def _warm_up(self, client: httpx.AsyncClient) -> None:
        for path, tried in zip(self._paths, self.tried, strict=True):
            done, status = await self._in_time(exchange(client, path, self.ask, self._timeout_seconds))
            if done.failure and status in DOES_NOT_KNOW:
                # Perhaps it does not know stream_options: then it is asked without, and tells no usage.
                plain = exchange(client, path, self.ask, self._timeout_seconds, with_usage=False)
                again, _ = await self._in_time(plain)
                if not again.failure:
                    self._without_usage.add(path.name)
                    tried.notes.append(f"asked without stream_options, which it refused ({done.failure})")
                    continue
            if done.failure:
                tried.dropped = f"not asked further, for the first request failed: {done.failure}"

    async def _rounds(self, client: httpx.AsyncClient) -> None:
        left, turn = self.ask.requests, 0
        while left > 0:
            together = min(left, self.ask.concurrency)
            places = [*range(len(self._paths))]
            first = turn % len(places)
            for place in (*places[first:], *places[:first]):
                await self._round(client, place, together)
            left, turn = left - together, turn + 1

    async def _round(self, client: httpx.AsyncClient, place: int, together: int) -> None:
        path, tried = self._paths[place], self.tried[place]
        if tried.dropped:
            return
        with_usage = path.name not in self._without_usage
        requests = [
            exchange(client, path, self.ask, self._timeout_seconds, with_usage=with_usage) for _ in range(together)
        ]
        found = await self._in_time(_all(requests))
        tried.rounds.append(tuple(one for one, _ in found))
        if all(one.failure for one, _ in found):
            tried.dropped = "not asked further, for a whole round failed"

    async def _in_time(self, work: Awaitable[Result]) -> Result:
        """The outcome of the work. Raises Stopped, once the work is given up, when the end is told or time is over."""
        task = asyncio.ensure_future(work)
        told = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait(
                {task, told}, timeout=max(0.0, self._ends - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            if not task.done():
                raise Stopped
            return task.result()
        finally:
            for one in (task, told):
                one.cancel()
            await asyncio.gather(task, told, return_exceptions=True)


async def _all(works: Sequence[Awaitable[Result]]) -> list[Result]:
    return await asyncio.gather(*works)


async def _only_model(client: httpx.AsyncClient, path: Path) -> str:
    """The one model that a server serves. Raises ConfigError where there is none, or several."""
    headers = {} if path.key is None else {"Authorization": f"Bearer {path.key}"}
    remedy = "name the model with --model"
    try:
        async with (
            asyncio.timeout(MODELS_SECONDS),
            client.stream("GET", f"{path.base}/models", headers=headers) as answer,
        ):
            body = await bounded(answer, MOST_MODELS_BYTES)
        names = [str(one["id"]) for one in json.loads(body)["data"]] if answer.status_code == 200 else []
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, OSError, ValueError, KeyError, TypeError) as error:
        message = (
            f"{path.base}/models does not tell the model ({shortened(str(error) or type(error).__name__)}); {remedy}"
        )
        raise ConfigError(message) from None
    if len(names) != 1:
        there = shortened(", ".join(names)) or f"none (HTTP {answer.status_code})"
        message = f"{path.base}/models names {there}; {remedy}"
        raise ConfigError(message)
    return names[0]
