"""The settings as a table, made from their declarations: for docs/configuration.md, variables and options.

Contains no setting of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from opmon.config.document import Location
from opmon.config.settings import Settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One key of opmon.yml. `key` is dotted, `[]` for each item of a list; `env` and `option` None where none is."""

    key: str
    default: str
    description: str
    reloadable: bool
    env: str | None
    option: str | None
    required: bool
    is_flag: bool

    @property
    def location(self) -> Location:
        """The path of the key."""
        return tuple(self.key.replace("[]", "").split("."))

    @property
    def is_in_list(self) -> bool:
        """Whether the key belongs to each item of a list, so that no single value can stand for it."""
        return "[]" in self.key


def settings_table() -> tuple[SettingRow, ...]:
    """Every key that holds a value, in the order of the file. Sections are no rows, but for the folded ones."""
    return tuple(_rows(Settings, ""))


def nested_model(annotation: Any) -> type[BaseModel] | None:
    """The section behind a field's type: itself, in a tuple, or optional. None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in get_args(annotation):
        if (found := nested_model(part)) is not None:
            return found
    return None


def field_by_key(model: type[BaseModel], key: str) -> FieldInfo | None:
    """The declaration of a key of a section, by the name it has in the file."""
    return next((field for name, field in model.model_fields.items() if (field.alias or name) == key), None)


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The keys that a section allows, as the file writes them."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def _rows(model: type[BaseModel], prefix: str) -> Iterator[SettingRow]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        declared = field.json_schema_extra
        assert isinstance(declared, dict)  # noqa: S101  # `setting` made it
        section = nested_model(field.annotation)
        if section is not None and not declared["is_folded"]:
            yield from _rows(section, key + ("[]." if "tuple" in str(field.annotation) else "."))
            continue
        shown = declared["shown_default"]
        default = "" if field.is_required() or field.default is None else str(field.default)
        yield SettingRow(
            key=key,
            default=default if shown is None else str(shown),
            description=field.description or "",
            reloadable=bool(declared["reloadable"]),
            env=_text(declared["env"]),
            option=_text(declared["option"]),
            required=field.is_required(),
            is_flag=field.annotation is bool,
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
