"""What the headings above tables name: a configuration, a content, or something that cannot be told.

Contains the decision over the paths of headings of a file, and no parsing. It rests on which headings tell tables apart
and, where two do, on words that are used for the one or the other; without such words it is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

Path = tuple[str, ...]
"""The headings above a table, from the outermost to the nearest."""

_CONTENTS = frozenset(
    [
        "chat",
        "code",
        "coding",
        "prose",
        "math",
        "json",
        "random",
        "sharegpt",
        "summarization",
        "summary",
        "translation",
        "rag",
        "agent",
        "agentic",
        "story",
        "creative",
        "writing",
        "reasoning",
        "qa",
        "dataset",
        "workload",
        "humaneval",
        "gsm8k",
        "mbpp",
        "sonnet",
        "spec_bench",
        "content",
        "prompts",
    ]
)
_CONFIGURATIONS = frozenset(
    [
        "baseline",
        "base",
        "reference",
        "candidate",
        "old",
        "new",
        "plain",
        "vanilla",
        "default",
        "control",
        "treatment",
        "eagle",
        "eagle3",
        "mtp",
        "medusa",
        "ngram",
        "draft",
        "drafter",
        "drafts",
        "spec",
        "speculative",
        "fp8",
        "fp16",
        "bf16",
        "int4",
        "int8",
        "nvfp4",
        "mxfp4",
        "awq",
        "gptq",
        "config",
        "configuration",
        "setup",
        "before",
        "after",
    ]
)
_NUMBERED = re.compile(r"(tp|dp|pp|ep|mtp|spec|eagle|q)-?\d+\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Named:
    """What the headings above a table name; None where they name nothing of the kind."""

    configuration: str | None = None
    content: str | None = None


class Untold(ValueError):
    """Two headings tell the tables apart, and nothing says which of them is the configuration."""


def named_by(paths: Sequence[Path]) -> list[Named]:
    """What each path names, in their order. One heading that tells tables apart is the configuration. Raises Untold
    where two or more do and their words do not say which is which."""
    shared = _shared(paths)
    rest = [path[shared:] for path in paths]
    if len(set(paths)) < 2:
        return [Named() for _ in paths]
    if len({len(path) for path in rest}) == 1:
        rest = _telling(rest)
    depth = max(len(path) for path in rest)
    if depth < 2:
        return [Named(tail[-1] if tail else path[-1] if path else None) for tail, path in zip(rest, paths, strict=True)]
    if depth > 2 or any(len(path) < 2 for path in rest):
        raise Untold
    outer, inner = {path[0] for path in rest}, {path[1] for path in rest}
    if _are_configurations(outer, inner):
        return [Named(path[0], path[1]) for path in rest]
    if _are_configurations(inner, outer):
        return [Named(path[1], path[0]) for path in rest]
    raise Untold


def _shared(paths: Sequence[Path]) -> int:
    """How many headings, from the outermost, all paths have in common."""
    count = 0
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        count += 1
    return count


def _telling(paths: list[Path]) -> list[Path]:
    """Paths of one length without the levels at which all of them are equal."""
    levels = [level for level in zip(*paths, strict=True) if len(set(level)) > 1]
    return list(zip(*levels, strict=True))


def _are_configurations(names: set[str], others: set[str]) -> bool:
    """Whether words say that `names` are configurations and `others` contents, and none says the opposite."""
    for_it = any(map(_is_configuration, names)) or any(map(_is_content, others))
    against = any(map(_is_content, names)) or any(map(_is_configuration, others))
    return for_it and not against


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9_]+(?:-?\d\w*)?", name.lower())


def _is_configuration(name: str) -> bool:
    return any(word in _CONFIGURATIONS or _NUMBERED.fullmatch(word) for word in _words(name))


def _is_content(name: str) -> bool:
    return any(word in _CONTENTS for word in _words(name))
