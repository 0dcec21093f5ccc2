"""Whether all that settings name can be used here: secrets, certificates, sources of targets.

Contains no asking: that a source answers is not found out. The start, a reload and `check config` make this one check.
"""

from __future__ import annotations

from collections.abc import Iterator

from opmon.clock import Clock
from opmon.config import Settings, Tls, check_secrets
from opmon.config.discovery import KINDS
from opmon.config.document import spell
from opmon.discovery.sources import Source, sources_of
from opmon.errors import ConfigError
from opmon.scrape.secure import tls_context


def usable_sources(settings: Settings, clock: Clock) -> tuple[Source, ...]:
    """The sources of the settings. Raises ConfigError with a line for each thing that cannot be used."""
    broken = []
    try:
        check_secrets(settings)
    except ConfigError as error:
        broken.append(str(error))
    for key, tls in _contexts(settings):
        try:
            tls_context(tls)
        except ConfigError as error:
            broken.append(f"{key}: {error}")
    if broken:
        raise ConfigError("\n".join(broken))
    return sources_of(settings.discovery, clock)


def _contexts(settings: Settings) -> Iterator[tuple[str, Tls]]:
    """The key and the value of each `tls`."""
    for index, target in enumerate(settings.targets):
        yield spell(("targets", index, "tls")), target.tls
    for kind in KINDS:
        for index, source in enumerate(getattr(settings.discovery, kind)):
            place = ("discovery", kind, index)
            yield spell((*place, "defaults", "tls")), source.defaults.tls
            if isinstance(tls := getattr(source, "tls", None), Tls):
                yield spell((*place, "tls")), tls
