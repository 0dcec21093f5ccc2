"""The settings: opmon.yml, OPMON_* variables and options, read into one immutable value.

Contains nothing but the names that others use. Nobody holds settings globally: they are loaded once at the entry and
passed on.
"""

from __future__ import annotations

from opmon.config.database import database_url
from opmon.config.discovery import (
    Defaults,
    Discovery,
    DnsSource,
    FileSource,
    HttpSource,
    KubernetesSource,
    SourceSettings,
)
from opmon.config.loading import load
from opmon.config.needed import check_secrets
from opmon.config.settings import (
    Auth,
    Basic,
    Comparison,
    GlobalSettings,
    Retention,
    Settings,
    Storage,
    Target,
    Tls,
    Web,
)
from opmon.config.shown import not_reloadable, shown
from opmon.config.table import SettingRow, settings_table
from opmon.config.values import PULSE_INTERVALS_MS

__all__ = [
    "PULSE_INTERVALS_MS",
    "Auth",
    "Basic",
    "Comparison",
    "Defaults",
    "Discovery",
    "DnsSource",
    "FileSource",
    "GlobalSettings",
    "HttpSource",
    "KubernetesSource",
    "Retention",
    "SettingRow",
    "Settings",
    "SourceSettings",
    "Storage",
    "Target",
    "Tls",
    "Web",
    "check_secrets",
    "database_url",
    "load",
    "not_reloadable",
    "settings_table",
    "shown",
]
