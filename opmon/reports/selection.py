"""Which targets a selector means, and what is refused.

Contains no numbers: the targets alone, from whoever keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opmon.core.answers import Selector
from opmon.core.model import TargetRecord
from opmon.errors import ConfigError, NotFound


class Named(Protocol):
    """Who keeps the targets."""

    def targets(self) -> Sequence[TargetRecord]:
        """All targets that are watched, by name."""
        ...

    def target(self, name: str) -> TargetRecord:
        """One target, watched or not; raises NotFound."""
        ...


def refuse_unknown_scope(selector: Selector) -> None:
    """Raises ConfigError for a scope that this version does not know how to answer."""
    if selector.scope == "fleet" or selector.fleet is not None:
        message = (
            "scope=fleet and fleet= are not supported in this version; scope=replica adds the targets' occupancies"
        )
        raise ConfigError(message)
    if selector.scope != "replica" or selector.epoch not in ("all", "current"):
        message = f"scope is replica (not {selector.scope!r}), epoch is all or current (not {selector.epoch!r})"
        raise ConfigError(message)


def candidates(source: Named, selector: Selector) -> Sequence[TargetRecord]:
    """The targets to choose from: those that are watched; a target that is named counts too when it no longer is."""
    watched = source.targets()
    if selector.target is None or any(target.name == selector.target for target in watched):
        return watched
    try:
        return [source.target(selector.target)]
    except NotFound:
        return watched


def select_targets(targets: Sequence[TargetRecord], selector: Selector) -> tuple[TargetRecord, ...]:
    """The targets that match every part of the selector. Raises NotFound where a named one is not there."""
    wanted = {key: value for key, _, value in (label.partition(":") for label in selector.label)}
    chosen = tuple(
        target
        for target in targets
        if selector.target in (None, target.name)
        and selector.job in (None, target.job)
        and all(target.labels.get(key) == value for key, value in wanted.items())
        and (selector.model is None or selector.model in target.models)
        and (selector.engine_index is None or selector.engine_index in target.engine_indexes)
    )
    parts = (selector.target, selector.job, selector.model, selector.engine_index)
    restricted = bool(selector.label) or any(part is not None for part in parts)
    if restricted and not chosen:
        names = ", ".join(target.name for target in targets) or "none"
        models = ", ".join(sorted({model for target in targets for model in target.models})) or "none"
        message = f"no target matches; there are targets {names} with models {models}"
        raise NotFound(message)
    return chosen
