"""The secrets that settings name, looked at before anything starts.

Contains no use of a secret: whether each can be read is all that is found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from opmon.config.discovery import KINDS
from opmon.config.document import spell
from opmon.config.secrets import read_secret, read_token
from opmon.config.settings import Settings
from opmon.config.targets import Auth
from opmon.errors import ConfigError

Named = tuple[str, str]
_TOKENS = ("bearer_file", "token_file")


def check_secrets(settings: Settings) -> None:
    """Reads every file with a secret that the settings name. Raises ConfigError with a line for each that is not there,
    is empty, is no secret or cannot be sent."""
    broken = []
    for key, path in _named(settings):
        try:
            (read_token if key.endswith(_TOKENS) else read_secret)(Path(path))
        except ConfigError as error:
            broken.append(f"{key}: {error}")
    if broken:
        raise ConfigError("\n".join(broken))


def _named(settings: Settings) -> Iterator[Named]:
    """The key and the path of each file."""
    if settings.web.token_file is not None:
        yield "web.token_file", settings.web.token_file
    for index, target in enumerate(settings.targets):
        yield from _of(spell(("targets", index, "auth")), target.auth)
    for kind in KINDS:
        for index, source in enumerate(getattr(settings.discovery, kind)):
            place = ("discovery", kind, index)
            yield from _of(spell((*place, "defaults", "auth")), source.defaults.auth)
            if isinstance(auth := getattr(source, "auth", None), Auth):
                yield from _of(spell((*place, "auth")), auth)


def _of(key: str, auth: Auth) -> Iterator[Named]:
    if auth.bearer_file is not None:
        yield f"{key}.bearer_file", auth.bearer_file
    if auth.basic is not None:
        yield f"{key}.basic.password_file", auth.basic.password_file
