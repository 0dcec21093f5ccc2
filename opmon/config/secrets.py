"""Secrets: read from files when they are used, and never part of a message.

Contains no settings. A secret is the file's text without the line end.
"""

from __future__ import annotations

import base64
from pathlib import Path

from opmon.errors import ConfigError

_LARGEST = 65_536


def read_secret(path: Path) -> str:
    """The secret in a file. Raises ConfigError if it is missing, empty, too large or more than one line."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        secret = content.decode("utf-8").strip("\r\n \t")
    except OSError as error:
        message = f"{path}: the secret cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    except UnicodeDecodeError as error:
        message = f"{path}: the secret is not UTF-8 text"
        raise ConfigError(message) from error
    if not secret or len(content) > _LARGEST or not secret.isprintable():
        message = f"{path}: must hold one line with the secret"
        raise ConfigError(message)
    return secret


def bearer_header(token: str) -> str:
    """The `Authorization` header for a token."""
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    """The `Authorization` header for a user name and a password (RFC 7617, UTF-8)."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
