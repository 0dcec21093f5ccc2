"""What all sections of opmon.yml share: how a setting is declared, and that unknown keys are errors.

Contains no setting of its own.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict


def setting(  # one declaration says everything about a setting
    default: Any,
    description: str,
    *,
    alias: str | None = None,
    env: str | None = None,
    option: str | None = None,
    reloadable: bool = True,
    shown_default: str | None = None,
    is_folded: bool = False,
    **constraints: Any,
) -> Any:
    """A pydantic field that carries what documents, variables and options need to know of it.

    `is_folded`: a section whose keys are documented elsewhere, and which is one row of the table.
    """
    declared: JsonDict = {
        "env": env,
        "option": option,
        "reloadable": reloadable,
        "shown_default": shown_default,
        "is_folded": is_folded,
    }
    kind = "default_factory" if callable(default) else "default"
    return Field(alias=alias, description=description, json_schema_extra=declared, **{kind: default}, **constraints)


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
