"""Where each series of a page belongs, and which hold of those that repeat one another or split a total.

Contains no signals and no judgement of values. What repeats and what splits is data in `engines`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from opmon.core.engines import Engine, Located
from opmon.core.exposition import MOST_HEADS, Page, Series, parse_value
from opmon.core.model import SeriesKey

Rows = Sequence[tuple[Series, float]]
_Labels = frozenset[tuple[str, str]]

_FOLDED = ("", "")
"""Stands in a set of labels that is never empty: it also says that something is folded."""


class Place(NamedTuple):
    """Where a series belongs: to which engine of which model; where it has a folded or a totalled label, its labels
    without the folded ones; of a part of a total, the labels of that total; and the bound of a bucket."""

    key: SeriesKey
    rest: _Labels | None
    total: _Labels | None
    bound: float | None


class Places:
    """The places of one engine's series, remembered from page to page."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._apart = engine.folded_labels | engine.totalled_labels
        self._keys: dict[tuple[str, str], SeriesKey] = {}
        self._known: dict[Series, Place] = {}

    @property
    def is_full(self) -> bool:
        """Whether so many are remembered that it is time to begin anew."""
        return len(self._known) >= MOST_HEADS

    def of(self, series: Series) -> Place:
        """The place of a series."""
        return self._known.get(series) or self._find(series)

    def key(self, series: Series) -> SeriesKey:
        """The engine of the model that a series belongs to."""
        return (self._known.get(series) or self._find(series)).key

    def fold(self, rows: Rows, *, has_totals: bool) -> Rows:
        """What is left to add up. Of series that differ only in folded labels (processes, ranks that report the same)
        the largest; and with `has_totals` no part of a total that is there itself. Parts without a total add up."""
        known = self._known.get
        if not any([(known(row[0]) or self._find(row[0]))[1] for row in rows]):  # noqa: C419  # quicker for a few
            return rows
        largest: dict[tuple[SeriesKey, _Labels, float | None], tuple[Series, float]] = {}
        parts: list[tuple[SeriesKey, _Labels, float | None, _Labels]] = []
        for row in rows:
            key, rest, total, bound = self.of(row[0])
            if rest is None:  # without a folded label it still differs by its others
                rest = frozenset([_FOLDED, *row[0].labels.items()])
            if (key, rest, bound) not in largest or row[1] > largest[key, rest, bound][1]:
                largest[key, rest, bound] = row
            if total is not None:
                parts.append((key, rest, bound, total))
        if has_totals:
            totals = set(largest)
            for key, rest, bound, total in parts:
                if (key, total, bound) in totals:
                    largest.pop((key, rest, bound), None)
        return list(largest.values())

    def _find(self, series: Series) -> Place:
        labels, engine = series.labels, self.engine
        pair = (labels.get(engine.model_label, ""), labels.get(engine.index_label, ""))
        key = self._keys.setdefault(pair, SeriesKey(*pair))
        rest = total = None
        if not self._apart.isdisjoint(labels):
            whole = [item for item in labels.items() if item[0] not in self._apart]
            split = [item for item in labels.items() if item[0] in engine.totalled_labels and item[1]]
            rest = frozenset([_FOLDED, *whole, *split])
            total = frozenset([_FOLDED, *whole]) if split else None
        place = self._known[series] = Place(key, rest, total, _bound(labels.get("le")))
        return place


def rows_of(page: Page, part: Located, name: str) -> Rows:
    """The series of one part of a source: of that name, and with the label that the part asks for."""
    rows = page.samples.get(name, ())
    if not part.label:
        return rows
    return [row for row in rows if row[0].labels.get(part.label) in part.values]


def _bound(text: str | None) -> float | None:
    bound = None if text is None else parse_value(text)
    return None if bound is None or math.isnan(bound) else bound
