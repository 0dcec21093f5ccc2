"""One watched server as it is configured: address, names, how opmon proves who it is, and how it checks the other side.

Contains no reading of pages and no discovery: a discovered target becomes one of these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlunsplit

from pydantic import AfterValidator, PrivateAttr, SecretStr, model_validator

from opmon.config import values
from opmon.config.secrets import basic_header, bearer_header, read_secret, read_token, user_fault
from opmon.config.section import Section, setting
from opmon.config.values import FilePath, Name


def _user(name: str) -> str:
    """A user name that can be sent."""
    if fault := user_fault(name):
        raise ValueError(fault)
    return name


class Basic(Section):
    username: Annotated[str, AfterValidator(_user)] = setting(..., "The user's name.")
    password_file: FilePath = setting(..., "File that holds the password.")


class Auth(Section):
    """At most one of the two. Files are read again at every use, so a rotated secret needs no reload."""

    bearer_file: FilePath | None = setting(None, "File that holds a bearer token. Not together with basic.")
    basic: Basic | None = setting(None, "User name and password. Not together with bearer_file.")

    @model_validator(mode="after")
    def _one_way(self) -> Auth:
        if self.bearer_file is not None and self.basic is not None:
            message = "has bearer_file and basic; keep one of them"
            raise ValueError(message)
        return self

    @property
    def is_set(self) -> bool:
        """Whether there is anything to prove with."""
        return self.bearer_file is not None or self.basic is not None

    def header(self) -> str | None:
        """The `Authorization` header to send now, None for none. Reads the secret's file; raises ConfigError."""
        if self.bearer_file is not None:
            return bearer_header(read_token(Path(self.bearer_file)))
        if self.basic is not None:
            return basic_header(self.basic.username, read_secret(Path(self.basic.password_file)))
        return None


class Tls(Section):
    ca_file: FilePath | None = setting(None, "Certificates that are trusted, instead of the system's.")
    cert_file: FilePath | None = setting(None, "Client certificate; needs key_file.")
    key_file: FilePath | None = setting(None, "Key of the client certificate; needs cert_file.")
    server_name: str | None = setting(None, "The name that the server's certificate must have.")
    insecure_skip_verify: bool = setting(default=False, description="Accept any certificate.", shown_default="false")

    @model_validator(mode="after")
    def _both_or_neither(self) -> Tls:
        if (self.cert_file is None) != (self.key_file is None):
            message = "cert_file and key_file belong together"
            raise ValueError(message)
        return self


class Named(Section):
    """Who a target is."""

    name: Name | None = setting(
        None,
        "What the target is called everywhere; its history hangs on it.",
        shown_default="host:port of the URL, with the path before /metrics if there is one",
    )
    url: Annotated[str, AfterValidator(values.target_url)] = setting(
        ..., "Where the server listens; its metrics page is /metrics below it.", option="--target", env="OPMON_TARGET"
    )


class Served(Section):
    """What may be declared of a server, one by one or for all that a source of discovery lists."""

    job: str = setting("", "The target's job in Prometheus, to select by.")
    labels: Annotated[dict[str, str], AfterValidator(values.label_names)] = setting(
        dict, "Labels to select by.", shown_default="{}"
    )
    model: str | None = setting(None, "The model that is expected here.")
    engine: Literal["auto", "vllm", "sglang", "trtllm", "lmdeploy", "llama.cpp", "tgi", "triton"] = setting(
        "auto", "The software that serves; auto finds out. See docs/engines."
    )
    max_num_seqs: int | None = setting(
        None, "The ceiling of running requests, per engine, where the server does not tell.", ge=1, le=1_000_000
    )
    content_mix: Annotated[dict[str, float], AfterValidator(values.shares)] = setting(
        dict,
        "Shares of the output tokens by content, like {code: 0.3, prose: 0.7}; they add up to 1.",
        shown_default="{}",
    )
    auth: Auth = setting(Auth, "How opmon proves who it is.", shown_default="none")
    tls: Tls = setting(Tls, "How certificates are checked.", shown_default="the system's certificates")


class Target(Served, Named):
    """One server. `url` has no user info; `name` is never empty once loaded."""

    _user_info: tuple[str, SecretStr] | None = PrivateAttr(default=None)

    @property
    def has_user_info(self) -> bool:
        """Whether the URL was written with a user name."""
        return self._user_info is not None

    def authorization(self) -> str | None:
        """The `Authorization` header to send now, None for none. Reads the secret's file; raises ConfigError."""
        if self._user_info is not None:
            user, password = self._user_info
            return basic_header(user, password.get_secret_value())
        return self.auth.header()

    def named(self) -> Target:
        """The target with its final name, and with the user info of its URL put away."""
        parts = values.split_url(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = parts.path.rstrip("/")
        authority = host if parts.port is None else f"{host}:{port}"
        clean = urlunsplit((parts.scheme, authority, path, "", ""))
        name = self.name or f"{host}:{port}{path.removesuffix('/metrics')}"
        named = self.model_copy(update={"name": name, "url": clean})
        if parts.username is not None:
            named._user_info = (unquote(parts.username), SecretStr(unquote(parts.password or "")))  # noqa: SLF001  # of its own class
        return named
