"""Which targets are watched and how: from settings and discovered targets to plans, and what changes between two sets.

Contains no scraping, no storage and no schedule; values in, values out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from opmon.config import Settings, Target
from opmon.core.model import Ceiling, TargetRecord
from opmon.scrape.scraper import ScrapeTarget

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


@dataclass(frozen=True, slots=True)
class Plan:
    """How one target is watched. Two equal plans are watched alike."""

    target: Target
    pulse_interval_ms: int
    full_interval_ms: int
    timeout_ms: int
    stall_after_ms: int
    is_pace_fixed: bool

    @property
    def name(self) -> str:
        """The target's name."""
        return str(self.target.name)


@dataclass(frozen=True, slots=True)
class Roster:
    """The plans by the names of their targets. `left_out`: in words, what cannot be watched beside them."""

    plans: Mapping[str, Plan]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """Names of targets, in order: those that are new, those that are gone, and those that are watched otherwise."""

    appeared: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.appeared or self.vanished or self.changed)


def roster_of(settings: Settings, discovered: Iterable[Target] = ()) -> Roster:
    """A plan for each configured target, then for each discovered one that is not there yet.

    One address is watched once, by whatever names it is listed. Two addresses under one name cannot both be watched:
    their histories would be one.
    """
    plans = {str(target.name): plan_of(target, settings) for target in settings.targets}
    places = {place_of(target.url) for target in settings.targets}
    left_out: list[str] = []
    for target in discovered:
        first = plans.get(str(target.name))
        if place_of(target.url) in places:
            continue
        if first is not None:
            left_out.append(f"{target.url}: the name {target.name!r} belongs to {first.target.url}")
            continue
        places.add(place_of(target.url))
        plans[str(target.name)] = plan_of(target, settings)
    return Roster(plans, tuple(left_out))


def difference(before: Mapping[str, Plan], after: Mapping[str, Plan]) -> Difference:
    """What has to be done to get from one set of plans to another."""
    return Difference(
        appeared=tuple(name for name in after if name not in before),
        vanished=tuple(name for name in before if name not in after),
        changed=tuple(name for name, plan in after.items() if name in before and before[name] != plan),
    )


def plan_of(target: Target, settings: Settings) -> Plan:
    """How a target is watched under these settings."""
    section = settings.global_
    return Plan(
        target=target,
        pulse_interval_ms=section.pulse_interval_ms,
        full_interval_ms=section.full_interval_ms,
        timeout_ms=section.scrape_timeout_ms,
        stall_after_ms=section.stall_after_ms,
        is_pace_fixed=section.pulse_interval_is_set,
    )


def place_of(url: str) -> str:
    """What two URLs of one server have in common: without /metrics, and with the port that goes without saying."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    has_port = ":" in authority.rpartition("]")[2]
    place = f"{scheme}://{authority}{'' if has_port else DEFAULT_PORTS.get(scheme, '')}{slash}{path}"
    return place.rstrip("/").removesuffix("/metrics").lower()


def scrape_target(plan: Plan) -> ScrapeTarget:
    """What the scraper needs of a plan."""
    target = plan.target
    return ScrapeTarget(
        name=plan.name,
        url=target.url,
        engine=target.engine,
        timeout_ms=plan.timeout_ms,
        authorization=target.authorization,
        tls=target.tls,
    )


def is_asked_alike(one: Plan, other: Plan) -> bool:
    """Whether the same scraper serves both plans."""
    if one.timeout_ms != other.timeout_ms:
        return False
    # How the target is called and described does not matter to the scraper; user info of the URL does, and is
    # compared with the rest.
    described = {name: getattr(other.target, name) for name in ("name", "job", "labels", "model", "max_num_seqs")}
    described["content_mix"] = other.target.content_mix
    return one.target.model_copy(update=described) == other.target


def record_of(plan: Plan, known: TargetRecord | None, now_ms: int) -> TargetRecord:
    """The record to go on with: what is configured, over what is known from before."""
    target = plan.target
    base = known or TargetRecord(name=plan.name, url=target.url)
    return replace(
        base,
        url=target.url,
        job=target.job,
        labels=dict(target.labels),
        content_mix=dict(target.content_mix),
        pulse_interval_ms=plan.pulse_interval_ms,
        full_interval_ms=plan.full_interval_ms,
        stall_after_ms=plan.stall_after_ms,
        ceilings=ceilings_of(target, base, now_ms),
        removed_ms=None,
    )


def ceilings_of(target: Target, known: TargetRecord, now_ms: int) -> tuple[Ceiling, ...]:
    """The known ceilings, and the configured one if it is new; the first is taken to have held since the beginning."""
    configured = target.max_num_seqs
    if configured is None or (known.ceilings and known.ceilings[-1].max_num_seqs == configured):
        return known.ceilings
    return (*known.ceilings, Ceiling(configured, "configured", now_ms if known.ceilings else 0))
