"""From the configured discovery to sources that can be asked.

Contains no asking.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from opmon.clock import Clock
from opmon.config import Discovery, DnsSource, FileSource, HttpSource, KubernetesSource, SourceSettings
from opmon.discovery.dns_sd import Dns
from opmon.discovery.file_sd import Files
from opmon.discovery.http_sd import Http
from opmon.discovery.kubernetes import ACCOUNT, Pods
from opmon.discovery.listed import Listed
from opmon.discovery.parts import Parts


class Source(Protocol):
    """What lists targets. `parts` hold what it named last."""

    parts: Parts

    @property
    def settings(self) -> FileSource | HttpSource | DnsSource | KubernetesSource:
        """How it is configured; its name among it."""
        ...

    async def read(self) -> Listed:
        """What it names now. Raises DiscoveryError where it cannot be asked at all."""
        ...

    async def aclose(self) -> None:
        """Lets go of what it holds open."""
        ...


def sources_of(
    discovery: Discovery, clock: Clock, *, environ: Mapping[str, str] | None = None, account: Path = ACCOUNT
) -> tuple[Source, ...]:
    """A source for each configured one, in their order. Raises ConfigError where one cannot work here."""
    variables = os.environ if environ is None else environ
    return tuple(_source(settings, clock, variables, account) for settings in discovery.sources)


def _source(settings: SourceSettings, clock: Clock, environ: Mapping[str, str], account: Path) -> Source:
    match settings:
        case FileSource():
            return Files(settings)
        case HttpSource():
            return Http(settings, clock)
        case DnsSource():
            return Dns(settings)
        case KubernetesSource():
            return Pods(settings, clock, environ=environ, account=account)
        case _:
            raise AssertionError(settings)
