"""Settings as they may be shown, and what changed between two of them.

Contains no secret: passwords in URLs are `<secret>`, and files are named, not read.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from opmon.config.database import without_password
from opmon.config.settings import Settings
from opmon.config.table import settings_table
from opmon.core.units import format_duration


def shown(settings: Settings) -> dict[str, Any]:
    """The settings in force, by the keys of the file, ready for JSON; durations as they are written."""
    document = _section(settings)
    document["storage"]["url"] = without_password(settings.storage.url)
    for source in document["discovery"]["http_sd"]:
        # A query may be how the list's server is told who asks.
        url, separator, _query = source["url"].partition("?")
        source["url"] = f"{url}?<secret>" if separator else url
    return document


def not_reloadable(before: Settings, after: Settings) -> tuple[str, ...]:
    """The dotted keys that changed and only take effect at a restart."""
    old, new = _section(before), _section(after)
    rows = [row for row in settings_table() if not row.reloadable and not row.is_in_list]
    return tuple(row.key for row in rows if _at(old, row.key) != _at(new, row.key))


def _section(model: BaseModel) -> dict[str, Any]:
    return {
        field.alias or name: _plain(getattr(model, name), is_duration=name.endswith("_ms"))
        for name, field in type(model).model_fields.items()
    }


def _plain(value: Any, *, is_duration: bool) -> Any:
    if is_duration:
        return format_duration(value)
    if isinstance(value, BaseModel):
        return _section(value)
    if isinstance(value, tuple):
        return [_plain(one, is_duration=False) for one in value]
    return value


def _at(document: dict[str, Any], key: str) -> Any:
    value: Any = document
    for part in key.split("."):
        value = value[part]
    return value
