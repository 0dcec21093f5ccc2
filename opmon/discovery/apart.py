"""Reading files in a thread that nothing waits for: a file system that hangs costs its source, and never the exit.

Contains no reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from opmon.errors import DiscoveryError

DEADLINE_SECONDS = 10.0

_Result = TypeVar("_Result")


class Apart:
    """One job at a time, in a thread of its own that ends with the process. `deadline_seconds` is for one job."""

    def __init__(self, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._deadline_seconds = deadline_seconds
        self._running: threading.Thread | None = None

    @property
    def is_hanging(self) -> bool:
        """Whether a job that was given up is still under way."""
        return self._running is not None and self._running.is_alive()

    async def run(self, what: str, job: Callable[[], _Result]) -> _Result:
        """What the job gives or raises. Raises DiscoveryError when it takes too long, and while one before hangs."""
        if self.is_hanging:
            raise DiscoveryError(f"{what}: is not read while an earlier reading hangs; is its file system away?")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Result] = loop.create_future()

        def settle(give: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(lambda: None if done.done() else give())

        def work() -> None:
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                raised = error
                settle(lambda: done.set_exception(raised))
            else:
                settle(lambda: done.set_result(result))

        thread = self._running = threading.Thread(target=work, name="opmon-read", daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await done
        except TimeoutError as error:
            raise DiscoveryError(f"{what}: could not be read within {self._deadline_seconds:g} s") from error
        finally:
            if done.done() and not done.cancelled():
                self._running = None  # it has come to its end
