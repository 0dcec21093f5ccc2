"""From what a source says to targets: Prometheus' groups, its special labels, and what cannot be used.

Contains no reading of anything; values in, values out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from opmon.config import Defaults, Target
from opmon.errors import DiscoveryError

MOST_TARGETS = 1000
"""More than one opmon can watch second by second: such a list is a mistake, and starting on it would be another."""

_ADDRESS = re.compile(r"[^\s/@?#\\]+")
_NOT_LABELS = ("job", "instance")


@dataclass(frozen=True, slots=True)
class Entry:
    """One address with its labels, as a source names it. `name`: what the source calls it, None for its address."""

    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """What a source names now. `left_out`: in words, what of it cannot be watched. `failure`: in words, the part of
    the source that could not be read and is listed as it was before; empty where all was read."""

    targets: tuple[Target, ...]
    left_out: tuple[str, ...] = ()
    failure: str = ""


def entries_of(data: Any, place: str) -> tuple[Entry, ...]:
    """The addresses of `[{"targets": ["host:port"], "labels": {...}}]`. Raises DiscoveryError naming the group."""
    if not isinstance(data, list):
        raise DiscoveryError(f'{place}: must be a list of groups like [{{"targets": ["host:port"]}}]')
    entries: list[Entry] = []
    for number, group in enumerate(data):
        where = f"{place}: group {number}"
        if not isinstance(group, dict) or group.keys() - {"targets", "labels"}:
            raise DiscoveryError(f"{where}: must have the keys targets and labels, and no others")
        labels = _texts_by_name(group.get("labels"), where)
        entries += [Entry(address, labels) for address in _texts(group.get("targets"), where)]
        if len(entries) > MOST_TARGETS:  # told before aliases in a small file make it endless
            raise DiscoveryError(f"{place}: names more targets than may be; at most {MOST_TARGETS} are taken")
    return tuple(entries)


def listed(entries: Iterable[Entry], defaults: Defaults, failure: str = "") -> Listed:
    """The targets behind the entries; of two with one name the first. Raises DiscoveryError for far too many."""
    entries = tuple(entries)
    if len(entries) > MOST_TARGETS:
        raise DiscoveryError(f"names {len(entries)} targets; at most {MOST_TARGETS} are taken")
    targets: dict[str, Target] = {}
    left_out: list[str] = []
    for entry in entries:
        try:
            target = target_of(entry, defaults)
        except DiscoveryError as error:
            left_out.append(str(error))
            continue
        first = targets.setdefault(str(target.name), target)
        if first.url != target.url:
            left_out.append(f"{target.url} has the name {target.name!r} of {first.url}; tell them apart by `instance`")
    return Listed(tuple(targets.values()), tuple(left_out), failure)


def target_of(entry: Entry, defaults: Defaults) -> Target:
    """The target that an entry stands for. Raises DiscoveryError.

    `job` and `instance` become the target's job and name; `__scheme__` and `__metrics_path__` its address. All other
    labels that begin with `__` are dropped, as in Prometheus.
    """
    if not _ADDRESS.fullmatch(entry.address):
        raise DiscoveryError(f"{entry.address!r} is no host:port")
    labels = entry.labels
    path = labels.get("__metrics_path__", defaults.metrics_path)
    if not path.rstrip("/").endswith("/metrics"):
        raise DiscoveryError(f"{entry.address}: __metrics_path__ {path!r} does not end with /metrics")
    shown = {name: value for name, value in labels.items() if not name.startswith("__") and name not in _NOT_LABELS}
    try:
        return Target(
            name=labels.get("instance") or entry.name,
            url=f"{labels.get('__scheme__', defaults.scheme)}://{entry.address}{_below(path)}",
            job=labels.get("job", defaults.job),
            labels={**defaults.labels, **shown},
            **{name: getattr(defaults, name) for name in _SHARED},
        ).named()
    except ValidationError as error:
        raise DiscoveryError(f"{entry.address}: {_words(error)}") from None


_SHARED = ("model", "engine", "max_num_seqs", "content_mix", "auth", "tls")


def _below(path: str) -> str:
    """What stands before /metrics; the target's address does without the rest."""
    return path.rstrip("/").removesuffix("/metrics")


def _words(error: ValidationError) -> str:
    fault = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg'].removeprefix('Value error, ')}"


def _texts(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise DiscoveryError(f"{where}: targets must be a list of texts like host:port")
    return value


def _texts_by_name(value: Any, where: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in (*value, *value.values())):
        raise DiscoveryError(f"{where}: labels must be texts by name")
    return value
