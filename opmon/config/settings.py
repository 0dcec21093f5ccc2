"""The settings of opmon.yml as a whole: what holds for all targets, comparisons, the store and the web server.

Contains no reading of files or variables (`loading`) and no rule that spans sections (`rules`). Durations are integer
milliseconds here and written like `90s` in the file; the keys of the file are the aliases.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

from opmon.config import values
from opmon.config.discovery import Discovery
from opmon.config.secrets import read_token
from opmon.config.section import Section, setting
from opmon.config.targets import Auth, Basic, Target, Tls
from opmon.config.values import Duration, FilePath, Name

__all__ = [
    "Auth",
    "Basic",
    "Comparison",
    "GlobalSettings",
    "Retention",
    "Settings",
    "Storage",
    "Target",
    "Tls",
    "Web",
]


class GlobalSettings(Section):
    pulse_interval_ms: Annotated[Duration, AfterValidator(values.pulse)] = setting(
        1000,
        "How often the gauges are read; one stratum of time. Must divide 300 s. A target that ignores the filter of"
        " its metrics page is read every 5 s unless this is set.",
        alias="pulse_interval",
        env="OPMON_PULSE_INTERVAL",
        shown_default="1s",
    )
    full_interval_ms: Annotated[Duration, AfterValidator(values.between("1s", "5m"))] = setting(
        30_000,
        "How often everything is read, histograms included. A multiple of the pulse interval.",
        alias="full_interval",
        env="OPMON_FULL_INTERVAL",
        shown_default="30s",
    )
    scrape_timeout_ms: Annotated[Duration, AfterValidator(values.between("100ms", "1m"))] = setting(
        4000,
        "The deadline of one scrape, from connecting to the last byte.",
        alias="scrape_timeout",
        env="OPMON_SCRAPE_TIMEOUT",
        shown_default="4s",
    )
    stall_after_ms: Annotated[Duration, AfterValidator(values.between("10s", "1d"))] = setting(
        120_000,
        "Requests present and no progress for this long: the time counts as stalled, not as load.",
        alias="stall_after",
        env="OPMON_STALL_AFTER",
        reloadable=False,
        shown_default="120s",
    )
    window_ms: Annotated[Duration, AfterValidator(values.between("1m", "400d"))] = setting(
        604_800_000,
        "The window of reports when none is asked for, and of the gauges on /metrics.",
        alias="window",
        env="OPMON_WINDOW",
        shown_default="7d",
    )
    time_zone: Annotated[str, AfterValidator(values.time_zone)] = setting(
        "UTC",
        "The time zone in which the page shows instants; UTC stands for that of the reader's browser. Without scripts, in"
        " answers and on the terminal they are UTC.",
        env="OPMON_TIME_ZONE",
    )

    @property
    def pulse_interval_is_set(self) -> bool:
        """Whether somebody chose the pulse interval; a chosen one is never slowed."""
        return "pulse_interval_ms" in self.model_fields_set


class Comparison(Section):
    """A question that /metrics answers all the time: does the candidate pay off where the targets really run?"""

    name: Name | None = setting(None, "What the comparison is called.", shown_default="the sweep's name")
    targets: tuple[str, ...] = setting(tuple, "Names of targets.", shown_default="all")
    sweep: Name = setting(..., "Name of a stored sweep (`opmon sweeps list`).")
    reference: Name | None = setting(
        None, "The configuration to compare with.", shown_default="the sweep's first, if it has two"
    )
    candidate: Name | None = setting(None, "The configuration on trial.", shown_default="the sweep's other")
    content: Annotated[Name, AfterValidator(values.content)] | None = setting(
        None, "One content, or a mix like code=0.3,prose=0.7.", shown_default="unknown: one answer per content"
    )
    live_is: Literal["reference", "candidate"] | None = setting(
        None, "Which of the two the targets run now.", shown_default="unknown"
    )


class Retention(Section):
    raw_ms: Annotated[Duration, AfterValidator(values.between("3h", "400d"))] = setting(
        172_800_000, "Every sample.", alias="raw", env="OPMON_RETENTION_RAW", shown_default="48h"
    )
    five_minutes_ms: Annotated[Duration, AfterValidator(values.between("3h", "4000d"))] = setting(
        3_456_000_000,
        "Sums per five minutes.",
        alias="five_minutes",
        env="OPMON_RETENTION_FIVE_MINUTES",
        shown_default="40d",
    )
    hourly_ms: Annotated[Duration, AfterValidator(values.between("1d", "10000d"))] = setting(
        34_560_000_000, "Sums per hour.", alias="hourly", env="OPMON_RETENTION_HOURLY", shown_default="400d"
    )


class Storage(Section):
    url: Annotated[str, AfterValidator(values.database)] = setting(
        "",  # filled in at loading: it depends on the environment
        "The database: a path, sqlite:///path, or postgresql://user@host/name.",
        env="OPMON_DATABASE",
        option="--database",
        reloadable=False,
        shown_default="$STATE_DIRECTORY/opmon.db, else ${XDG_STATE_HOME:-~/.local/state}/opmon/opmon.db",
    )
    retention: Retention = setting(Retention, "How long each kind of row is kept.", shown_default="see below")


class Web(Section):
    listen: Annotated[str, AfterValidator(values.listen)] = setting(
        "127.0.0.1:8917",
        "Address of the page, the API and /metrics. One that other machines reach needs token_file or insecure.",
        env="OPMON_LISTEN",
        option="--listen",
        reloadable=False,
    )
    path_prefix: Annotated[str, AfterValidator(values.path_prefix)] = setting(
        "", "Path below which everything is served, for a reverse proxy.", env="OPMON_PATH_PREFIX", reloadable=False
    )
    token_file: FilePath | None = setting(
        None, "File with the token that every request must bring.", env="OPMON_TOKEN_FILE", reloadable=False
    )
    allowed_hosts: tuple[str, ...] = setting(
        tuple,
        "Names by which a proxy forwards to a loopback address; others are refused, against rebinding of names.",
        reloadable=False,
        shown_default="[]",
    )
    insecure: bool = setting(
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
        return None if self.token_file is None else read_token(Path(self.token_file))


class Settings(Section):
    """All of opmon.yml, with variables and options applied."""

    global_: GlobalSettings = setting(GlobalSettings, "What holds for all targets.", alias="global")
    targets: tuple[Target, ...] = setting(tuple, "The servers to watch.")
    discovery: Discovery = setting(Discovery, "Where else targets are named.")
    comparisons: tuple[Comparison, ...] = setting(tuple, "What is judged all the time.")
    storage: Storage = setting(Storage, "Where observations are kept, and for how long.")
    web: Web = setting(Web, "How opmon itself is reached.")
