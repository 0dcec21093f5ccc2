"""The rules that span more than one key, and the defaults that follow from another key.

Contains no reading of files. A broken rule is a pair of the key's path and a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opmon.config.database import default_database_url
from opmon.config.discovery import KINDS, Discovery, DnsSource
from opmon.config.document import Location
from opmon.config.settings import Comparison, GlobalSettings, Settings, Storage, Target
from opmon.core.units import format_duration

Fault = tuple[Location, str]


def complete(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Fills in what depends on other keys or on the environment: intervals, names, the database."""
    return settings.model_copy(
        update={
            "global_": _with_full_interval(settings.global_),
            "targets": tuple(target.named() for target in settings.targets),
            "discovery": _with_names(settings.discovery),
            "comparisons": tuple(_with_name(comparison) for comparison in settings.comparisons),
            "storage": _with_url(settings.storage, environ),
        }
    )


def faults(settings: Settings) -> Iterator[Fault]:
    """The rules that completed settings break."""
    yield from _interval_faults(settings.global_)
    yield from _repeated("targets", [target.name or "" for target in settings.targets])
    yield from _auth_faults(settings.targets)
    yield from _repeated("comparisons", [comparison.name or "" for comparison in settings.comparisons])
    yield from _alike(settings)
    yield from _discovery_faults(settings.discovery)
    for index, comparison in enumerate(settings.comparisons):
        yield from _comparison_faults(index, comparison, settings)
    retention = settings.storage.retention
    if not retention.raw_ms <= retention.five_minutes_ms <= retention.hourly_ms:
        yield ("storage", "retention"), "must not fall: raw <= five_minutes <= hourly"
    if not settings.web.is_loopback and settings.web.token_file is None and not settings.web.insecure:
        yield (
            ("web", "listen"),
            f"{settings.web.listen} can be reached from other machines; set web.token_file, or say --insecure",
        )


def _with_full_interval(section: GlobalSettings) -> GlobalSettings:
    """Unless it was chosen, the smallest multiple of the pulse that is at least 30 s."""
    if "full_interval_ms" in section.model_fields_set:
        return section
    pulses = -(-section.full_interval_ms // section.pulse_interval_ms)
    # model_copy would count the interval as chosen, and a reload with another pulse would keep it.
    fields = section.model_fields_set
    completed = section.model_copy(update={"full_interval_ms": pulses * section.pulse_interval_ms})
    completed.model_fields_set.clear()
    completed.model_fields_set.update(fields)
    return completed


def _with_names(discovery: Discovery) -> Discovery:
    """A source without a name is called by its kind and its place, like `file_sd[0]`."""
    named = {
        kind: tuple(
            source if source.name else source.model_copy(update={"name": f"{kind}[{index}]"})
            for index, source in enumerate(getattr(discovery, kind))
        )
        for kind in KINDS
    }
    return discovery.model_copy(update=named)


def _with_name(comparison: Comparison) -> Comparison:
    return comparison.model_copy(update={"name": comparison.name or comparison.sweep})


def _with_url(storage: Storage, environ: Mapping[str, str]) -> Storage:
    return storage.model_copy(update={"url": storage.url or default_database_url(environ)})


def _interval_faults(section: GlobalSettings) -> Iterator[Fault]:
    if section.full_interval_ms % section.pulse_interval_ms:
        pulse = format_duration(section.pulse_interval_ms)
        yield (
            ("global", "full_interval"),
            f"must be a multiple of the pulse interval ({pulse}); got {format_duration(section.full_interval_ms)}",
        )


def _repeated(section: str, names: list[str]) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            yield (section, index), f"has the name {name!r} of {section}[{seen[name]}]; give one of them another `name`"
        seen.setdefault(name, index)


def _auth_faults(targets: tuple[Target, ...]) -> Iterator[Fault]:
    for index, target in enumerate(targets):
        if target.has_user_info and target.auth.is_set:
            yield ("targets", index, "auth"), "the URL has a user already; keep one of the two"


def _discovery_faults(discovery: Discovery) -> Iterator[Fault]:
    seen: dict[str, str] = {}
    for kind in KINDS:
        for index, source in enumerate(getattr(discovery, kind)):
            place = f"{kind}[{index}]"
            if source.name in seen:
                yield (
                    ("discovery", kind, index),
                    f"has the name {source.name!r} of {seen[source.name]}; give one of them another `name`",
                )
            seen.setdefault(source.name, place)
            if isinstance(source, DnsSource):
                yield from _dns_faults(index, source)


def _dns_faults(index: int, source: DnsSource) -> Iterator[Fault]:
    if source.type == "SRV" and source.port is not None:
        yield ("discovery", "dns", index, "port"), "SRV records bring their ports; leave it out, or ask for type A"
    if source.type != "SRV" and source.port is None:
        yield ("discovery", "dns", index), f"{source.type} records bring no port; say which with `port`"


def _alike(settings: Settings) -> Iterator[Fault]:
    """Comparisons that ask one question of one target: their answers would be told twice, or contradict each other."""
    for index, one in enumerate(settings.comparisons):
        for before, other in enumerate(settings.comparisons[:index]):
            both = not one.targets or not other.targets or set(one.targets) & set(other.targets)
            if both and _question(one) == _question(other):
                place = f"{other.name!r} (comparisons[{before}])"
                words = "the same sweep, reference, candidate and content of the same target; keep one of them"
                yield ("comparisons", index), f"{one.name!r} asks what {place} asks: {words}"
                break


def _question(comparison: Comparison) -> tuple[str | None, ...]:
    return comparison.sweep, comparison.reference, comparison.candidate, comparison.content


def _comparison_faults(index: int, comparison: Comparison, settings: Settings) -> Iterator[Fault]:
    known = {target.name for target in settings.targets}
    for name in comparison.targets:
        # A name that is not configured may be discovered at any time.
        if name not in known and not settings.discovery.is_set:
            names = ", ".join(sorted(one or "" for one in known)) or "none"
            yield ("comparisons", index, "targets"), f"there is no target {name!r}; there is: {names}"
    if (comparison.reference is None) != (comparison.candidate is None):
        yield ("comparisons", index), "reference and candidate belong together"
    elif comparison.reference is not None and comparison.reference == comparison.candidate:
        yield ("comparisons", index), f"compares {comparison.reference!r} with itself"
