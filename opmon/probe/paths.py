"""The paths of a probe and what is asked through them: addresses, names, bodies.

Contains no asking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from opmon.config.addresses import refusal
from opmon.core.names import name_fault
from opmon.core.probed import DIRECT
from opmon.errors import ConfigError

CHAT, COMPLETIONS = "chat", "completions"
ENDINGS = {CHAT: "/chat/completions", COMPLETIONS: "/completions"}


@dataclass(frozen=True, slots=True)
class Path:
    """One way to the model. `url`: of the completions; `base`: what stands before; `key`: sent as bearer, to it only."""

    name: str
    url: str
    base: str
    model: str = ""
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked: the same for every path."""

    prompt: str
    api: str = CHAT
    max_tokens: int = 256
    temperature: float = 0.0
    concurrency: int = 1
    requests: int = 5

    def body(self, model: str, *, with_usage: bool = True) -> dict[str, Any]:
        """The request's body. `with_usage`: for servers that know `stream_options`."""
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "stream": True,
        }
        if self.api == CHAT:
            body["messages"] = [{"role": "user", "content": self.prompt}]
        else:
            body["prompt"] = self.prompt
        if with_usage:
            body["stream_options"] = {"include_usage": True}
        return body


def endpoint(url: str, api: str | None = None) -> tuple[str, str, str]:
    """(URL of the completions, what stands before, API) of a server's address, a base (`.../v1`) or the whole URL.

    Raises ConfigError, without repeating the URL: it may hold a password.
    """
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        message = f"the URL of a path cannot be read: {error}"
        raise ConfigError(message) from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the URL of a path must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the URL of a path holds a user or a password; give a key with --api-key-file")
    if parts.query or parts.fragment:
        raise ConfigError("the URL of a path has no `?` and no `#`")
    if why := refusal(host):
        raise ConfigError(why)
    path = parts.path.rstrip("/")
    found = next((name for name, ending in ENDINGS.items() if path.endswith(ending)), None)
    if found is not None and api is not None and found != api:
        message = f"the URL of a path is that of {found}, and --api asks for {api}"
        raise ConfigError(message)
    chosen = found or api or CHAT
    base = path.removesuffix(ENDINGS[chosen]) if found else path or "/v1"
    before = urlunsplit((parts.scheme, parts.netloc, base, "", ""))
    return before + ENDINGS[chosen], before, chosen


def named(url: str, vias: Sequence[str]) -> dict[str, str]:
    """Name -> URL of every path, the direct one first. Raises ConfigError for `--via` without a name, or one twice."""
    paths = {DIRECT: url}
    for via in vias:
        name, found, address = via.partition("=")
        fault = name_fault(name) if found and address else "write it as NAME=URL"
        if not fault and "://" in name:
            fault = "write it as NAME=URL"
        if fault:
            message = f"--via: {fault}"
            raise ConfigError(message)
        if name in paths:
            message = f"--via: two paths are called {name!r}; the one of --url is {DIRECT!r}"
            raise ConfigError(message)
        paths[name] = address
    return paths


def by_path(option: str, values: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """The value of each path, of `VALUE` for all and `NAME=VALUE` for one. Raises ConfigError for two of one path."""
    given: dict[str, str] = {}
    for value in values:
        name, found, own = value.partition("=")
        key, text = (name, own) if found and name in names else ("", value)
        if key in given:
            message = (
                f"{option} is given twice for {key or 'all paths'}; write NAME=VALUE for one path of {', '.join(names)}"
            )
            raise ConfigError(message)
        given[key] = text
    return {name: chosen for name in names if (chosen := given.get(name, given.get(""))) is not None}
