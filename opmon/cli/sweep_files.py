"""The sweep that `--sweep` means: a stored one, files, folders, or several of these taken as one.

Contains what the paths amount to; the walk is `benchmark_files`, the reading `opmon.sweeps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opmon.cli.benchmark_files import READ_SUFFIXES, Found, Said, notes_of, read_paths, words_of
from opmon.core.names import MOST_CHARACTERS, escaped
from opmon.errors import ConfigError

if TYPE_CHECKING:
    from opmon.core.cells import Sweep, SweepImport


def paths_of(names: Sequence[str]) -> list[Path | None]:
    """For each name the path that it is; None for one that can only be a stored sweep's. Raises ConfigError for a path
    to nothing."""
    return [_path_of(name) for name in names]


def _path_of(name: str) -> Path | None:
    path = Path(name)
    try:
        if path.exists():
            return path
    except (OSError, ValueError) as error:
        raise ConfigError(f"{escaped(name)}: cannot be read: {error}") from error
    if "/" in name or path.suffix.lower() in READ_SUFFIXES:
        message = (
            f"{escaped(name)}: there is no such file or folder; give a benchmark file, or the name of a stored sweep"
        )
        raise ConfigError(message)
    return None


def sweep_of(names: Sequence[str], database: str | None) -> Sweep:
    """The sweep that all of the names make together, in their order. A database is opened for stored names only.

    What a person should know of several files is told on the side. Raises NotFound for a name that is not stored, and what
    `read_paths` raises.
    """
    from opmon.core.cells import Sweep
    from opmon.sweeps.gathering import gathered

    paths = paths_of(names)
    stored = _stored([name for name, path in zip(names, paths, strict=True) if path is None], database)
    if len(names) == 1 and paths == [None]:
        return stored[names[0]]
    found = iter(read_paths([path for path in paths if path is not None], Said()))
    parts = [
        (name, list(stored[name].imports)) if path is None else _part(next(found), is_alone=len(names) == 1)
        for name, path in zip(names, paths, strict=True)
    ]
    parts = _told_apart(parts)
    imports, told = gathered([one for _, imports in parts for one in imports])
    for words in told:
        click.echo(words, err=True)
    title = parts[0][0] if len(parts) == 1 else " + ".join(dict.fromkeys(name for name, _ in parts))
    # One command gives them together, whenever those that are stored were added.
    return Sweep(title[:MOST_CHARACTERS], tuple(replace(one, imported_ms=0) for one in imports))


def _part(found: Found, *, is_alone: bool) -> tuple[str, list[SweepImport]]:
    """What one path gave. Of a single file nothing is told: its answer says what there is to say of its cells."""
    if not is_alone or len(found.imports) > 1 or found.passed_over:
        for words in (*notes_of(found.imports), *words_of([found])):
            click.echo(words, err=True)
    return escaped(found.name), found.imports


def _stored(names: Sequence[str], database: str | None) -> dict[str, Sweep]:
    from opmon.cli.database import open_store

    if not names:
        return {}
    with open_store(database) as store:
        return {name: store.sweep(name) for name in names}


def _told_apart(parts: list[tuple[str, list[SweepImport]]]) -> list[tuple[str, list[SweepImport]]]:
    """Where several files call their configuration the same, there is nothing to compare but the files: each
    configuration is then called as its file or folder."""
    called = {cell.configuration for _, imports in parts for one in imports for cell in one.cells}
    if len(called) != 1 or len({name for name, _ in parts}) != len(parts) or len(parts) < 2:
        return parts
    names = ", ".join(name for name, _ in parts)
    click.echo(
        f"all call their configuration {escaped(called.pop())!r}; told apart by where it stands: {names}", err=True
    )
    return [
        (name, [replace(one, cells=tuple(replace(cell, configuration=name) for cell in one.cells)) for one in imports])
        for name, imports in parts
    ]
