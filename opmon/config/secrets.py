"""Secrets: read from files when they are used, and never part of a message.

Contains no settings. A secret is the file's text without the line end.
"""

from __future__ import annotations

import base64
from pathlib import Path

from opmon.config.files import read_regular
from opmon.errors import ConfigError

_LARGEST = 65_536
_CONTROL = frozenset(map(chr, (*range(32), *range(127, 160))))
_HALVES = ("\ud800", "\udfff")


def read_secret(path: Path) -> str:
    """The secret in a file. Raises ConfigError if it is missing, empty, too large or more than one line."""
    try:
        content = read_regular(path, _LARGEST)
        secret = content.decode("utf-8").strip("\r\n \t")
    except OSError as error:
        message = f"{path}: the secret cannot be read: {error.strerror}"
        raise ConfigError(message) from error
    except UnicodeDecodeError:  # which holds the secret: it is not told as the cause
        message = f"{path}: the secret is not UTF-8 text"
        raise ConfigError(message) from None
    if not secret or len(content) > _LARGEST or not secret.isprintable():
        message = f"{path}: must hold one line with the secret"
        raise ConfigError(message)
    return secret


def read_token(path: Path) -> str:
    """The token in a file: a secret that is sent as it stands. Raises ConfigError where no header can carry it, too."""
    token = read_secret(path)
    if not token.isascii():
        message = f"{path}: the token has a character that no header can carry; only ASCII characters can be sent"
        raise ConfigError(message)
    return token


def bearer_header(token: str) -> str:
    """The `Authorization` header for a token."""
    return f"Bearer {token}"


def basic_header(user: str, password: str) -> str:
    """The `Authorization` header for a user name and a password (RFC 7617, UTF-8). Raises ConfigError, with neither in
    it, for a pair that cannot be sent."""
    if fault := user_fault(user) or pair_fault(password):
        raise ConfigError(f"user name and password cannot be sent: {fault}")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def user_fault(user: str) -> str:
    """What is wrong with a user name, empty for nothing: the first colon ends it (RFC 7617)."""
    return "a user name must have no colon" if ":" in user else pair_fault(user)


def pair_fault(text: str) -> str:
    """What is wrong with a part of a pair, empty for nothing."""
    if any(one in _CONTROL or _HALVES[0] <= one <= _HALVES[1] for one in text):
        return "it has a control character, a line break or half a character"
    return ""
