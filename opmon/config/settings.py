"""Every setting of opmon.yml, declared once: its type, default, meaning, variable, option and whether it reloads.

Contains no reading of files or variables (`loading`) and no rule that spans sections (`rules`). Durations are integer
milliseconds here and written like `90s` in the file; the keys of the file are the aliases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, model_validator
from pydantic.config import JsonDict

from opmon.config import values
from opmon.config.secrets import basic_header, bearer_header, read_secret
from opmon.config.values import Duration, FilePath, Name


def _setting(  # one declaration says everything about a setting
    default: Any,
    description: str,
    *,
    alias: str | None = None,
    env: str | None = None,
    option: str | None = None,
    reloadable: bool = True,
    shown_default: str | None = None,
    **constraints: Any,
) -> Any:
    """A pydantic field that carries what documents, variables and options need to know of it."""
    declared: JsonDict = {"env": env, "option": option, "reloadable": reloadable, "shown_default": shown_default}
    kind = "default_factory" if callable(default) else "default"
    return Field(alias=alias, description=description, json_schema_extra=declared, **{kind: default}, **constraints)


# --- sections -------------------------------------------------------------------------------------------------------


class Section(BaseModel):
    """What all sections share: unknown keys are errors, and a key with an empty value counts as not written."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        known = {field.alias or name for name, field in cls.model_fields.items()}
        return {key: value for key, value in data.items() if value is not None or key not in known}


class GlobalSettings(Section):
    pulse_interval_ms: Annotated[Duration, AfterValidator(values.pulse)] = _setting(
        1000,
        "How often the gauges are read; one stratum of time. Must divide 300 s. A target that ignores the filter of"
        " its metrics page is read every 5 s unless this is set.",
        alias="pulse_interval",
        env="OPMON_PULSE_INTERVAL",
        shown_default="1s",
    )
    full_interval_ms: Annotated[Duration, AfterValidator(values.between("1s", "5m"))] = _setting(
        30_000,
        "How often everything is read, histograms included. A multiple of the pulse interval.",
        alias="full_interval",
        env="OPMON_FULL_INTERVAL",
        shown_default="30s",
    )
    scrape_timeout_ms: Annotated[Duration, AfterValidator(values.between("100ms", "1m"))] = _setting(
        4000,
        "The deadline of one scrape, from connecting to the last byte.",
        alias="scrape_timeout",
        env="OPMON_SCRAPE_TIMEOUT",
        shown_default="4s",
    )
    stall_after_ms: Annotated[Duration, AfterValidator(values.between("10s", "1d"))] = _setting(
        120_000,
        "Requests present and no progress for this long: the time counts as stalled, not as load.",
        alias="stall_after",
        env="OPMON_STALL_AFTER",
        reloadable=False,
        shown_default="120s",
    )
    window_ms: Annotated[Duration, AfterValidator(values.between("1m", "400d"))] = _setting(
        604_800_000,
        "The window of reports when none is asked for, and of the gauges on /metrics.",
        alias="window",
        env="OPMON_WINDOW",
        shown_default="7d",
    )
    time_zone: Annotated[str, AfterValidator(values.time_zone)] = _setting(
        "UTC", "The time zone in which instants are shown.", env="OPMON_TIME_ZONE"
    )

    @property
    def pulse_interval_is_set(self) -> bool:
        """Whether somebody chose the pulse interval; a chosen one is never slowed."""
        return "pulse_interval_ms" in self.model_fields_set


class Basic(Section):
    username: str = _setting(..., "The user's name.")
    password_file: FilePath = _setting(..., "File that holds the password.")


class Auth(Section):
    """At most one of the two. Files are read again at every use, so a rotated secret needs no reload."""

    bearer_file: FilePath | None = _setting(None, "File that holds a bearer token. Not together with basic.")
    basic: Basic | None = _setting(None, "User name and password. Not together with bearer_file.")

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


class Tls(Section):
    ca_file: FilePath | None = _setting(None, "Certificates that are trusted, instead of the system's.")
    cert_file: FilePath | None = _setting(None, "Client certificate; needs key_file.")
    key_file: FilePath | None = _setting(None, "Key of the client certificate; needs cert_file.")
    server_name: str | None = _setting(None, "The name that the server's certificate must have.")
    insecure_skip_verify: bool = _setting(default=False, description="Accept any certificate.", shown_default="false")

    @model_validator(mode="after")
    def _both_or_neither(self) -> Tls:
        if (self.cert_file is None) != (self.key_file is None):
            message = "cert_file and key_file belong together"
            raise ValueError(message)
        return self


class Target(Section):
    """One server. `url` has no user info; `name` is never empty once loaded."""

    name: Name | None = _setting(
        None,
        "What the target is called everywhere; its history hangs on it.",
        shown_default="host:port of the URL, with the path before /metrics if there is one",
    )
    url: Annotated[str, AfterValidator(values.target_url)] = _setting(
        ..., "Where the server listens; its metrics page is /metrics below it.", option="--target", env="OPMON_TARGET"
    )
    job: str = _setting("", "The target's job in Prometheus, to select by.")
    labels: Annotated[dict[str, str], AfterValidator(values.label_names)] = _setting(
        dict, "Labels to select by.", shown_default="{}"
    )
    model: str | None = _setting(None, "The model that is expected here.")
    engine: Literal["auto", "vllm"] = _setting("auto", "The software that serves: auto or vllm.")
    max_num_seqs: int | None = _setting(
        None, "The ceiling of running requests, per engine, where the server does not tell.", ge=1, le=1_000_000
    )
    content_mix: Annotated[dict[str, float], AfterValidator(values.shares)] = _setting(
        dict, "Shares of the output tokens by content, like {code: 0.3, prose: 0.7}.", shown_default="{}"
    )
    auth: Auth = _setting(Auth, "How opmon proves who it is.", shown_default="none")
    tls: Tls = _setting(Tls, "How certificates are checked.", shown_default="the system's certificates")

    _user_info: tuple[str, SecretStr] | None = PrivateAttr(default=None)

    @property
    def has_user_info(self) -> bool:
        """Whether the URL was written with a user name."""
        return self._user_info is not None

    def authorization(self) -> str | None:
        """The `Authorization` header to send now, None for none. Reads the secret's file; raises ConfigError."""
        if self.auth.bearer_file is not None:
            return bearer_header(read_secret(Path(self.auth.bearer_file)))
        if self.auth.basic is not None:
            return basic_header(self.auth.basic.username, read_secret(Path(self.auth.basic.password_file)))
        if self._user_info is not None:
            user, password = self._user_info
            return basic_header(user, password.get_secret_value())
        return None

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


class Comparison(Section):
    """A question that /metrics answers all the time: does the candidate pay off where the targets really run?"""

    name: Name | None = _setting(None, "What the comparison is called.", shown_default="the sweep's name")
    targets: tuple[str, ...] = _setting(tuple, "Names of targets.", shown_default="all")
    sweep: Name = _setting(..., "Name of a stored sweep (`opmon sweeps list`).")
    reference: Name | None = _setting(
        None, "The configuration to compare with.", shown_default="the sweep's first, if it has two"
    )
    candidate: Name | None = _setting(None, "The configuration on trial.", shown_default="the sweep's other")
    content: Annotated[Name, AfterValidator(values.content)] | None = _setting(
        None, "One content, or a mix like code=0.3,prose=0.7.", shown_default="unknown: one answer per content"
    )
    live_is: Literal["reference", "candidate"] | None = _setting(
        None, "Which of the two the targets run now.", shown_default="unknown"
    )


class Retention(Section):
    raw_ms: Annotated[Duration, AfterValidator(values.between("3h", "400d"))] = _setting(
        172_800_000, "Every sample.", alias="raw", env="OPMON_RETENTION_RAW", shown_default="48h"
    )
    five_minutes_ms: Annotated[Duration, AfterValidator(values.between("3h", "4000d"))] = _setting(
        3_456_000_000,
        "Sums per five minutes.",
        alias="five_minutes",
        env="OPMON_RETENTION_FIVE_MINUTES",
        shown_default="40d",
    )
    hourly_ms: Annotated[Duration, AfterValidator(values.between("1d", "10000d"))] = _setting(
        34_560_000_000, "Sums per hour.", alias="hourly", env="OPMON_RETENTION_HOURLY", shown_default="400d"
    )


class Storage(Section):
    url: Annotated[str, AfterValidator(values.database)] = _setting(
        "",  # filled in at loading: it depends on the environment
        "The database: a path, sqlite:///path, or postgresql://user@host/name.",
        env="OPMON_DATABASE",
        option="--database",
        reloadable=False,
        shown_default="$STATE_DIRECTORY/opmon.db, else ${XDG_STATE_HOME:-~/.local/state}/opmon/opmon.db",
    )
    retention: Retention = _setting(Retention, "How long each kind of row is kept.", shown_default="see below")


class Web(Section):
    listen: Annotated[str, AfterValidator(values.listen)] = _setting(
        "127.0.0.1:8917",
        "Address of the page, the API and /metrics. One that other machines reach needs token_file or insecure.",
        env="OPMON_LISTEN",
        option="--listen",
        reloadable=False,
    )
    path_prefix: Annotated[str, AfterValidator(values.path_prefix)] = _setting(
        "", "Path below which everything is served, for a reverse proxy.", env="OPMON_PATH_PREFIX", reloadable=False
    )
    token_file: FilePath | None = _setting(
        None, "File with the token that every request must bring.", env="OPMON_TOKEN_FILE", reloadable=False
    )
    allowed_hosts: tuple[str, ...] = _setting(
        tuple,
        "Names by which a proxy forwards to a loopback address; others are refused, against rebinding of names.",
        reloadable=False,
        shown_default="[]",
    )
    insecure: bool = _setting(
        default=False,
        description="Serve other machines without a token.",
        env="OPMON_INSECURE",
        option="--insecure",
        reloadable=False,
        shown_default="false",
    )

    @property
    def host(self) -> str:
        """The host to bind; every address where none is written (`:8917`)."""
        return self.listen.rpartition(":")[0].removeprefix("[").removesuffix("]") or "0.0.0.0"  # noqa: S104

    @property
    def port(self) -> int:
        """The port to bind; 0 for any free one."""
        return int(self.listen.rpartition(":")[2])

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return values.is_loopback(self.host)

    def token(self) -> str | None:
        """The token that requests must bring, None for none. Reads the file; raises ConfigError."""
        return None if self.token_file is None else read_secret(Path(self.token_file))


class Settings(Section):
    """All of opmon.yml, with variables and options applied."""

    global_: GlobalSettings = _setting(GlobalSettings, "What holds for all targets.", alias="global")
    targets: tuple[Target, ...] = _setting(tuple, "The servers to watch.")
    comparisons: tuple[Comparison, ...] = _setting(tuple, "What is judged all the time.")
    storage: Storage = _setting(Storage, "Where observations are kept, and for how long.")
    web: Web = _setting(Web, "How opmon itself is reached.")
