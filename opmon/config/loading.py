"""From a file, variables and options to settings: option > OPMON_* > file > default.

Contains no declaration of a setting. Every fault is told at once, each with its place and key; unknown OPMON_*
variables are no faults.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from opmon.config import rules
from opmon.config.document import Document, Location, Place, read_document, spell
from opmon.config.settings import Settings
from opmon.config.table import SettingRow, field_by_key, keys_of, nested_model, settings_table
from opmon.errors import ConfigError

NOT_YET = ("history", "fleets", "alerts", "notify")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
# What pydantic's kinds of error are called here; the rest keep pydantic's words.
_WORDS = {
    "missing": "is missing",
    "string_type": "must be text; a bare number, yes or no needs quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
}


def load(
    path: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Reads the settings. Raises ConfigError with one line per fault.

    `overrides` are options: the dotted key of a setting and its value, None for an option that was not given;
    `targets` is a sequence of URLs, which are added to the file's targets. `environ` defaults to the process's.
    """
    environ = os.environ if environ is None else environ
    document = read_document(path) if path is not None else Document("(no file)")
    _refuse_later_versions(document)
    _apply_variables(document, environ)
    _apply_options(document, overrides or {})
    base = path.absolute().parent if path is not None else Path.cwd()
    try:
        settings = Settings.model_validate(document.values, context={"base": base, "environ": environ})
    except ValidationError as error:
        raise ConfigError(_validation_message(error, document)) from None
    settings = rules.complete(settings, environ)
    if broken := list(rules.faults(settings)):
        raise ConfigError(_lines(document, broken))
    return settings


def _refuse_later_versions(document: Document) -> None:
    sentence = f"is not yet supported in this version; allowed here: {', '.join(keys_of(Settings))}"
    present: list[tuple[Location, str]] = [((key,), sentence) for key in NOT_YET if key in document.values]
    if present:
        raise ConfigError(_lines(document, present))


def _apply_variables(document: Document, environ: Mapping[str, str]) -> None:
    """Variables lie over the file. An empty variable is one that was not set."""
    for row in settings_table():
        written = environ.get(row.env, "").strip() if row.env is not None else ""
        if not written or row.env is None:
            continue
        if row.is_in_list:
            _add_targets(document, written.replace(",", " ").split(), row.env)
        else:
            _put(document, row.location, _flag(row, written) if row.is_flag else written, Place(row.env))


def _apply_options(document: Document, overrides: Mapping[str, object]) -> None:
    rows = {row.key: row for row in settings_table()}
    for key, value in overrides.items():
        if value is None:
            continue
        if key == "targets":
            assert isinstance(value, Iterable)  # noqa: S101  # a fault of the caller, not of the person
            _add_targets(document, [str(url) for url in value], "--target")
        else:
            row = rows[key]
            _put(document, row.location, value, Place(row.option or key))


def _add_targets(document: Document, urls: list[str], source: str) -> None:
    """Adds targets that are not there yet. A file whose `targets` is no list is left for validation to refuse."""
    present = document.values.get("targets") or ()
    if not isinstance(present, tuple):
        return
    known = {str(one.get("url")).rstrip("/") for one in present if isinstance(one, dict)}
    for url in urls:
        if url.rstrip("/") in known:
            continue
        known.add(url.rstrip("/"))
        document.places["targets", len(present)] = Place(source)
        present = (*present, {"url": url})
    document.values["targets"] = present


def _put(document: Document, location: Location, value: object, place: Place) -> None:
    """Lays a value over the document. Where the file has no mapping to put it in, validation refuses the file."""
    inner: dict[str, Any] = document.values
    for key in location[:-1]:
        if inner.get(str(key)) is None:
            inner[str(key)] = {}
        if not isinstance(inner[str(key)], dict):
            return
        inner = inner[str(key)]
    inner[str(location[-1])] = value
    document.places[location] = place


def _flag(row: SettingRow, written: str) -> bool:
    if written.lower() in (*_TRUE, *_FALSE):
        return written.lower() in _TRUE
    message = f"{row.env}: {row.key}: must be true or false; got {written!r}"
    raise ConfigError(message)


# --- faults in words ------------------------------------------------------------------------------------------------


def _validation_message(error: ValidationError, document: Document) -> str:
    return _lines(document, [_fault(detail) for detail in error.errors(include_url=False)])


def _lines(document: Document, found: Iterable[tuple[Location, str]]) -> str:
    lines = []
    for location, sentence in found:
        place = document.place(location)
        lines.append(f"{place}: {spell(location)}: {sentence}")
    return "\n".join(lines)


def _fault(detail: Any) -> tuple[Location, str]:
    # Keys of free mappings (`labels`) are followed by '[key]' where the key itself is at fault.
    location: Location = tuple(part for part in detail["loc"] if part != "[key]")
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return location, _unknown_key(location)
    if kind == "value_error":
        return location, str(context["error"])
    if kind == "literal_error":
        return location, f"must be {context['expected']}"
    if kind in ("model_type", "model_attributes_type"):
        return location, f"must be a mapping with the keys {', '.join(_allowed(location))}"
    if kind == "missing":
        return location[:-1], f"{location[-1]} is missing"
    return location, _WORDS.get(kind) or str(detail["msg"]).replace("Input should", "must")


def _unknown_key(location: Location) -> str:
    allowed = _allowed(location[:-1])
    close = difflib.get_close_matches(str(location[-1]), allowed, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"unknown key{hint}; allowed here: {', '.join(allowed)}"


def _allowed(location: Location) -> tuple[str, ...]:
    """The keys that the section at a path allows."""
    model: type[BaseModel] = Settings
    for key in location:
        field = None if isinstance(key, int) else field_by_key(model, key)
        section = None if field is None else nested_model(field.annotation)
        model = section or model
    return keys_of(model)
