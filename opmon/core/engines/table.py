"""The shapes in which an engine is described: names, rules of combination, limits, and what to ask a server.

Contains no engine, no parsing and no arithmetic: the engines are modules beside this one, and `core.snapshot` does what
their tables say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opmon.core.model import Lane


class Kind(StrEnum):
    """How a signal is exposed and how its series become one value per engine of a model.

    First, of the series that differ in nothing but the engine's `folded_labels` the largest holds, and of a `level` no
    part whose total is there, by `totalled_labels`; then, over all other labels, `level` (a gauge of requests, a whole
    number), `counter` and `histogram` (`_sum`, `_count` and, in the full lane, `_bucket` where the page has it) are
    summed, and of a `ratio` the largest holds. A level, counter or ratio below 0 and a ratio above 1 are not known.
    """

    LEVEL = "level"
    RATIO = "ratio"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Part:
    """A name without prefix; with `label`, only those of its series whose label has one of the `values`."""

    name: str
    label: str = ""
    values: tuple[str, ...] = ()


Source = tuple[Part, ...]
"""What is added up to give a signal; all of its names must be on the page."""


def first_of(*alternatives: str | Part | Source) -> tuple[Source, ...]:
    """Alternatives in order of preference: the first that is present wins, they are never added."""
    return tuple(
        (Part(one),) if isinstance(one, str) else (one,) if isinstance(one, Part) else one for one in alternatives
    )


def added(*parts: str | Part) -> Source:
    """Names whose values together are the signal."""
    return tuple(Part(one) if isinstance(one, str) else one for one in parts)


@dataclass(frozen=True, slots=True)
class Signal:
    """A canonical signal and where it is found.

    `pulse`: it is part of every scrape. `optional`: its absence is a configuration, not a gap in what is known.
    `is_alias`: its sources carry the same data, so that values which differ are a doubt; else the first is the better.
    `voided_by`: names whose presence says that this signal means something else on that page.
    """

    canonical: str
    kind: Kind
    sources: tuple[Source, ...]
    pulse: bool = False
    optional: bool = False
    is_alias: bool = True
    voided_by: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it may be found under, without prefix and without the suffixes of a histogram."""
        return tuple(part.name for source in self.sources for part in source)


@dataclass(frozen=True, slots=True)
class Info:
    """A gauge whose labels carry the news: our key -> its label, for what makes an identity and for mere facts.

    `latest`: old series stay on the page and the value is an instant, so only the series with the largest one holds.
    """

    name: str
    identity: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    latest: bool = False


@dataclass(frozen=True, slots=True)
class Constant:
    """A gauge that holds a setting: reported as the fact `key` where all of its series agree.

    `is_identity`: another value means another server.
    """

    part: Part
    key: str
    is_identity: bool = False


@dataclass(frozen=True, slots=True)
class Labelled:
    """A name of which one label matters, and the key under which a snapshot reports it."""

    name: str
    label: str
    key: str


@dataclass(frozen=True, slots=True)
class Sleep:
    """A gauge that is 0 under one label value while the engine sleeps: its other gauges are then left as they were.

    The state is the fact `key`: the value of the part while awake, else the label value whose sample is 1.
    """

    part: Part
    key: str


@dataclass(frozen=True, slots=True)
class Told:
    """A value in a JSON answer.

    `key`: `version`, `models`, `max_num_seqs` (per engine) or the name of a fact. `at`: where it is, names joined by
    dots, `*` for every item of a list; `**name` for the name anywhere, in text as well. `shared_by`: where the number of
    engines stands that share the value.
    """

    key: str
    at: str
    shared_by: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A path beside the metrics, and what its JSON tells. `lists_models`: it is the OpenAI list of models.

    A path is not asked if everything it could tell is known from the ones before it.
    """

    path: str
    tells: tuple[Told, ...] = ()
    lists_models: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """How a person is told where the figures of an engine come from, a sentence each.

    `no_running`: why a page of this engine may not say how many requests run.
    """

    running: str
    tokens: str
    lengths: str
    check: str
    ceiling: str
    notes: tuple[str, ...] = ()
    no_running: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's exposition.

    `prefixes`: alternatives; only under the first do the process metrics of the page belong to the engine.
    `folded_labels`: labels that tell apart processes or ranks which report the same thing; the largest value holds.
    `totalled_labels`: labels that split a gauge whose series without the label, or with an empty one, is the total of
    the others; where it is absent, and for what is counted, the others add up.
    `counted`: the number of distinct values of a label goes into the identity. `marks`: (names, key, value): a fact where one of the names is there. `length_families`: (canonical
    family, fact): its largest finite bound is at most the limit of that length. `swapped`: canonical signals that a
    version exposes under each other's names. `absent`: canonical signals that the engine does not expose, and why.
    `filters`: the server answers `name[]=` with the named samples alone, under the first prefix.
    """

    name: str
    title: str
    page: str
    prefixes: tuple[str, ...]
    model_label: str
    index_label: str
    signals: tuple[Signal, ...]
    words: Words
    absent: Mapping[str, str] = field(default_factory=dict)
    folded_labels: frozenset[str] = frozenset()
    totalled_labels: frozenset[str] = frozenset()
    infos: tuple[Info, ...] = ()
    constants: tuple[Constant, ...] = ()
    created: tuple[str, ...] = ()
    counted: tuple[Labelled, ...] = ()
    marks: tuple[tuple[tuple[str, ...], str, str], ...] = ()
    sleep: Sleep | None = None
    length_families: tuple[tuple[str, str], ...] = ()
    swapped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    asks: tuple[Asked, ...] = ()
    filters: bool = False

    def signals_of(self, lane: Lane) -> tuple[Signal, ...]:
        """The signals that a lane reads: a pulse only its few, a full scrape all."""
        return self.signals if lane is Lane.FULL else tuple(signal for signal in self.signals if signal.pulse)
