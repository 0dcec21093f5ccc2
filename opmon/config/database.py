"""Where the database lies: what people may write for it, and where it is when nobody says.

Contains no access to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from opmon.errors import ConfigError

_POSTGRESQL = ("postgresql", "postgresql+psycopg", "postgres")


def database_url(option: str | None, environ: Mapping[str, str]) -> str:
    """The database's URL for commands that read no file: the option, else OPMON_DATABASE, else the default place."""
    written = option or environ.get("OPMON_DATABASE")
    return normalise(written, environ) if written else default_database_url(environ)


def default_database_url(environ: Mapping[str, str]) -> str:
    """`$STATE_DIRECTORY/opmon.db` (as systemd sets it), else `${XDG_STATE_HOME:-~/.local/state}/opmon/opmon.db`."""
    # systemd separates several state directories by colons; the first is the service's own.
    if state := environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return _sqlite(Path(state) / "opmon.db")
    home = environ.get("HOME")
    fallback = (Path(home) if home else Path.home()) / ".local" / "state"
    xdg = environ.get("XDG_STATE_HOME", "")
    # The XDG specification wants relative values ignored.
    base = Path(xdg) if xdg.startswith("/") else fallback
    return _sqlite(base / "opmon" / "opmon.db")


def normalise(written: str, environ: Mapping[str, str]) -> str:
    """A plain path or a URL as SQLAlchemy reads it; relative paths start here. Raises ConfigError."""
    scheme, separator, rest = written.partition("://")
    if not separator:
        return _sqlite(_expand(written, environ))
    if scheme == "sqlite":
        path = rest.removeprefix("/")
        if not rest.startswith("/") or path in ("", ":memory:"):
            message = "a database in memory cannot be shared; write a path, or sqlite:////absolute/path"
            raise ConfigError(message)
        return _sqlite(_expand(path, environ))
    if scheme in _POSTGRESQL:
        return f"postgresql+psycopg://{rest}"
    message = f"{scheme}:// is no database that opmon knows; write a path, sqlite:///path or postgresql://host/name"
    raise ConfigError(message)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    scheme, separator, rest = url.partition("://")
    authority, slash, tail = rest.partition("/")
    user, at, host = authority.rpartition("@")
    if not at or ":" not in user:
        return url
    return f"{scheme}{separator}{user.partition(':')[0]}:<secret>@{host}{slash}{tail}"


def _expand(path: str, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return Path(home) / path[2:]
    return Path(path).expanduser()


def _sqlite(path: Path) -> str:
    return f"sqlite:///{path.absolute()}"
