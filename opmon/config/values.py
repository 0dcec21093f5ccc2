"""What single values of opmon.yml may be: durations, names, files, URLs, addresses, mixes.

Contains no key. A refused value is a ValueError whose text says what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, unquote, urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from opmon.config.addresses import refusal
from opmon.config.database import normalise
from opmon.config.secrets import pair_fault, user_fault
from opmon.core.recommend.ask import parse_mix
from opmon.core.units import format_duration, parse_duration
from opmon.errors import ConfigError, InvalidWindow

# A pulse divides 300 s, so that no stratum straddles a roll-up; and the strata of a day are whole milliseconds.
PULSE_INTERVALS_MS = tuple(
    milliseconds
    for milliseconds in (100, 200, 250, 500, *(1000 * seconds for seconds in range(1, 301)))
    if 300_000 % milliseconds == 0
)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _duration(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"must be a duration like 90s, 15m, 6h or 7d; got {value!r}"
        raise ValueError(message)  # noqa: TRY004  # pydantic turns ValueError into a fault, TypeError into a crash
    try:
        return parse_duration(str(value))
    except InvalidWindow as error:
        raise ValueError(str(error)) from error


def pulse(milliseconds: int) -> int:
    """An interval that divides 300 s."""
    if milliseconds not in PULSE_INTERVALS_MS:
        allowed = ", ".join(format_duration(one) for one in PULSE_INTERVALS_MS)
        message = f"{format_duration(milliseconds)} does not divide 300s; allowed: {allowed}"
        raise ValueError(message)
    return milliseconds


def between(least: str, most: str) -> Callable[[int], int]:
    """A check that a duration lies within two others, both allowed."""

    def check(milliseconds: int) -> int:
        if not parse_duration(least) <= milliseconds <= parse_duration(most):
            message = f"must be from {least} to {most}; got {format_duration(milliseconds)}"
            raise ValueError(message)
        return milliseconds

    return check


def time_zone(name: str) -> str:
    """A name of the time zone database."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:
        message = f"{name!r} is no time zone; write UTC or a name like Europe/Berlin"
        raise ValueError(message) from error
    return name


def _file(value: str, info: ValidationInfo) -> str:
    """Relative paths in the file start at the file's own folder, as in Prometheus."""
    if not value:
        message = "must be the path of a file"
        raise ValueError(message)
    base: Path = (info.context or {}).get("base", Path())
    return str((base / Path(value).expanduser()).absolute())


def database(value: str, info: ValidationInfo) -> str:
    """A path or URL of a database, as SQLAlchemy reads it."""
    try:
        return normalise(value, (info.context or {}).get("environ", {}))
    except ConfigError as error:
        raise ValueError(str(error)) from error


def split_url(url: str) -> SplitResult:
    """An http or https URL in its parts. Raises ValueError, without repeating a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        message = "is no URL that can be read; write it like http://127.0.0.1:8000"
        raise ValueError(message) from None
    if parts.scheme not in ("http", "https"):
        message = "must begin with http:// or https://, like http://127.0.0.1:8000"
        raise ValueError(message)
    if not parts.hostname or re.search(r"\s", url):
        message = "must name a host, like http://127.0.0.1:8000"
        raise ValueError(message)
    if words := refusal(parts.hostname):
        raise ValueError(words)
    if port == 0 or parts.query or parts.fragment:
        message = "must have a port from 1 to 65535 and no ?query or #fragment"
        raise ValueError(message)
    return parts


def target_url(url: str) -> str:
    """A URL that can be scraped, as it was written."""
    parts = split_url(url)
    if fault := user_fault(unquote(parts.username or "")) or pair_fault(unquote(parts.password or "")):
        raise ValueError(fault)
    return url


def list_url(url: str) -> str:
    """A URL that answers with a list of targets; a query is allowed, a user name is not."""
    parts = split_url(url.partition("?")[0])
    if "#" in url or parts.username is not None or re.search(r"\s", url):
        message = "must have no #fragment and no user name; name the files that hold the secret under `auth`"
        raise ValueError(message)
    return url


def metrics_path(path: str) -> str:
    """A path that ends in /metrics: opmon asks there, and for `/version` and the like beside it."""
    if not re.fullmatch(r"(/[A-Za-z0-9._~%@:+-]+)*/metrics/?", path):
        message = f"{path!r} must begin with / and end with /metrics"
        raise ValueError(message)
    return path


def file_pattern(path: str) -> str:
    """A path to a JSON or YAML file, `*` and the like in its last part only, as in Prometheus."""
    folder, _, last = path.rpartition("/")
    if not last.endswith((".json", ".yml", ".yaml")):
        message = f"{last!r} must end with .json, .yml or .yaml"
        raise ValueError(message)
    if "*" in folder or "?" in folder:
        message = "may have * only in the part after the last /"
        raise ValueError(message)
    return path


def dns_name(name: str) -> str:
    """A name that can be asked for."""
    if not re.fullmatch(r"(?=.{1,254}$)([A-Za-z0-9_]([A-Za-z0-9_-]{0,62})\.?)+", name):
        message = f"{name!r} is no name of the DNS"
        raise ValueError(message)
    return name


def at_least_one(items: tuple[str, ...]) -> tuple[str, ...]:
    """A list that is not empty."""
    if not items:
        message = "must name at least one"
        raise ValueError(message)
    return items


def pod_port(port: int | str) -> int | str:
    """A port by number, or by the name that a container gives it."""
    if isinstance(port, int) and not 1 <= port <= 65535:
        message = f"must be from 1 to 65535, or a name; got {port}"
        raise ValueError(message)
    return port


def namespace(name: str) -> str:
    """A namespace, or `*` for all: it becomes a part of an address."""
    if name != "*" and not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        message = f"{name!r} is no namespace; write a name, or * for all"
        raise ValueError(message)
    return name


def label_names(labels: dict[str, str]) -> dict[str, str]:
    """Labels whose names Prometheus would take."""
    for name in labels:
        if not _LABEL.fullmatch(name):
            message = f"{name!r} is no label name; allowed: letters, digits and _, not beginning with a digit"
            raise ValueError(message)
    return labels


def shares(mix: dict[str, float]) -> dict[str, float]:
    """Shares above 0 that add up to 1 (as near as `parse_mix` wants it), or none at all."""
    for content, share in mix.items():
        if not 0 < share < float("inf"):
            message = f"{content!r}: a share must be a number above 0; got {share}"
            raise ValueError(message)
    if mix:
        _mix(",".join(f"{content}={share!r}" for content, share in mix.items()))
    return mix


def content(text: str) -> str:
    """One content, or a mix `code=0.3,prose=0.7`."""
    _mix(text)
    return text


def _mix(text: str) -> None:
    try:
        parse_mix(text)
    except ConfigError as error:
        raise ValueError(str(error)) from error


def listen(text: str) -> str:
    """`HOST:PORT`; IPv6 hosts in brackets; no host means every address."""
    host, separator, port = text.rpartition(":")
    unbracketed = host.removeprefix("[").removesuffix("]")
    if not separator or not port.isdecimal() or int(port) > 65535 or (":" in host and unbracketed == host):
        message = f"{text!r} is no address; write HOST:PORT, like 127.0.0.1:8917, or [::1]:8917"
        raise ValueError(message)
    return text


def path_prefix(text: str) -> str:
    """A path without the slash at its end; empty for none."""
    prefix = text.rstrip("/")
    if prefix and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+", prefix):
        message = f"{text!r} is no path; write it like /opmon"
        raise ValueError(message)
    return prefix


def _name(text: str) -> str:
    if not text.strip() or len(text) > 200 or not text.isprintable():
        message = "must be 1 to 200 printable characters"
        raise ValueError(message)
    return text


Duration = Annotated[int, BeforeValidator(_duration)]
Name = Annotated[str, AfterValidator(_name)]
FilePath = Annotated[str, AfterValidator(_file)]


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host's address. A name other than localhost could be anyone's."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
