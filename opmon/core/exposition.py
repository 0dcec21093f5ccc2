"""A Prometheus exposition as samples: tolerant of bad lines, quick on the lines nobody asked for.

Reads text 0.0.4 and OpenMetrics alike. Only samples whose name was asked for are kept; what is between the name and
the value (the line's head) hardly changes from scrape to scrape, so a reader remembers the heads that it has
understood. Timestamps and exemplars are ignored: opmon keeps its own time.
Contains no knowledge of any engine: which names matter is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# A page with more distinct heads than this has labels that never repeat; remembering them would only cost memory.
MOST_HEADS = 20_000
LONGEST_HEAD = 4_096

# The quantifiers are possessive: the parts cannot be divided in two ways, so no line can make the match slow.
_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][\w:]*+)?[ \t]*+"
    r'(?:\{(?P<labels>(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+)\})?'
    r"[ \t]*+(?P<value>[^\s#{]++)(?:[ \t]++[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?)?"
    r"(?:[ \t]++#[ \t]*+\{.*|[ \t]*+)$",  # an exemplar, as OpenMetrics writes it, or nothing
    re.ASCII,
)
_LABEL = re.compile(
    r'[ \t]*+(?:"(?P<quoted>(?:[^"\\]++|\\.)*+)"|(?P<name>[a-zA-Z_:][\w:]*+))[ \t]*+'
    r'(?:=[ \t]*+"(?P<value>(?:[^"\\]++|\\.)*+)"[ \t]*+)?(?:,|$)',
    re.ASCII,
)
_NAME = re.compile(r"[a-zA-Z_:][\w:]*+", re.ASCII)
_ESCAPE = re.compile(r'\\([\\n"])')


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A name with its labels. One object stands for one series of a reader, so it is compared by identity."""

    name: str
    labels: Mapping[str, str]


@dataclass(slots=True)
class Page:
    """What one exposition said about the names asked for.

    `samples`: by exposed name, in the page's order. `duplicates`: series that the page gives more than once; their
    first value is kept in `samples`, and is not to be trusted. `sample_lines` counts well-formed samples of any name,
    `skipped` the lines that are neither sample nor comment, `first_skipped` the first of them; `skipped_names` are
    the names asked for that stand anywhere in such lines: what is left of those is not all that the page meant to say.
    Lines of other names are examined only when their head is new.
    """

    samples: dict[str, list[tuple[Series, float]]] = field(default_factory=dict)
    duplicates: set[Series] = field(default_factory=set)
    sample_lines: int = 0
    comment_lines: int = 0
    skipped: int = 0
    first_skipped: str = ""
    skipped_names: set[str] = field(default_factory=set)

    def skip(self, line: str, wanted: frozenset[str] | None = None) -> None:
        """Counts a line that cannot be read. Two lines run together hide a name in the middle."""
        self.skipped += 1
        names = _NAME.findall(line)
        self.skipped_names.update(names if wanted is None else wanted.intersection(names))
        self.first_skipped = self.first_skipped or line[:200]


class Reader:
    """Reads pages for a fixed set of names (None: every name), remembering the heads of lines between pages."""

    def __init__(self, wanted: Iterable[str] | None = None) -> None:
        self._wanted = None if wanted is None else frozenset(wanted)
        # None stands for a well-formed head of a name that nobody asked for.
        self._heads: dict[str, Series | None] = {}
        self._series: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}

    def read(self, body: bytes | str) -> Page:
        """The samples of one page. Never raises: a page of anything else has no samples and many skipped lines."""
        self._forget_when_full()
        page = Page()
        values: dict[Series, float] = {}
        heads, unknown = self._heads, _UNKNOWN
        # This loop runs once for every line of every scrape, hence its plain form; the rare lines leave it.
        for line in _lines(body):
            if not line or line[0] == "#":
                page.comment_lines += bool(line)
                continue
            head, _, text = line.rpartition(" ")
            series = heads.get(head, unknown)
            if series is None:
                page.sample_lines += 1
            elif series is unknown:
                self._read_new(line, head, page, values)
            else:
                _add(series, text, line, page, values)
        for series, value in values.items():
            page.samples.setdefault(series.name, []).append((series, value))
        return page

    def _read_new(self, line: str, head: str, page: Page, values: dict[Series, float]) -> None:
        """Reads a line whose head is not known, and remembers the head if it is no more than name and labels.

        On a page with more heads than are remembered, lines of other names are counted without a closer look.
        """
        is_full = len(self._heads) >= MOST_HEADS
        if is_full and self._wanted and (name := _NAME.match(line)) and name[0] not in self._wanted:
            page.sample_lines += 1
            return
        stripped = line.strip(" \t")
        if not stripped or stripped[0] == "#":
            page.comment_lines += bool(stripped)
            return
        match = _SAMPLE.match(stripped)
        if match is None or parse_value(match["value"]) is None:
            page.skip(stripped, self._wanted)
            return
        series = None
        if self._wanted is None or match["name"] is None or match["name"] in self._wanted:
            named = _named(match)
            if named is None:
                page.skip(stripped, self._wanted)
                return
            series = self._intern(*named) if self._wanted is None or named[0] in self._wanted else None
        # Remembered only if the head is name and labels and nothing else: no timestamp, no exemplar, no odd space.
        # A line without a space has no head to remember it by.
        plain = (
            head != ""
            and stripped == line
            and len(head) + 1 == match.start("value")
            and match.end("value") == len(line)
        )
        if plain and not is_full and len(head) <= LONGEST_HEAD:
            self._heads[head] = series
        if series is None:
            page.sample_lines += 1
        else:
            _add(series, match["value"], stripped, page, values)

    def _intern(self, name: str, labels: dict[str, str]) -> Series:
        """The one object that stands for this series, whatever the order of its labels on the page."""
        key = (name, tuple(sorted(labels.items())))
        return self._series.setdefault(key, Series(name, labels))

    def _forget_when_full(self) -> None:
        if max(len(self._heads), len(self._series)) >= MOST_HEADS:
            self._heads.clear()
            self._series.clear()


_UNKNOWN = Series("", {})


def parse_value(text: str) -> float | None:
    """The number of a sample: `1.2e+01`, `NaN`, `+Inf`, `-Inf`, ...; None for what is no number."""
    if "_" in text or not text.isascii():  # Python reads 1_000 and digits of any script, the format does not
        return None
    try:
        return float(text)
    except ValueError:
        return None


def parse_labels(text: str) -> tuple[str, dict[str, str]] | None:
    """What stands between the braces: the quoted metric name ('' if there is none) and the labels, unescaped.

    None if it is malformed or a label is given twice.
    """
    name, labels, position = "", {}, 0
    while text[position:].strip(" \t"):
        match = _LABEL.match(text, position)
        if match is None:
            return None
        position = match.end()
        label = match["name"] if match["quoted"] is None else _unescape(match["quoted"])
        if match["value"] is not None and label not in labels:
            labels[label] = _unescape(match["value"])
        elif match["value"] is None and match["quoted"] and not name and not labels:
            name = label
        else:
            return None
    return name, labels


def _lines(body: bytes | str) -> list[str]:
    """The page's lines, without byte-order mark and carriage returns; bytes that are no UTF-8 become U+FFFD."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    text = text.removeprefix("\ufeff")
    return (text.replace("\r\n", "\n") if "\r" in text else text).split("\n")


def _named(match: re.Match[str]) -> tuple[str, dict[str, str]] | None:
    """Name and labels of a sample line. The name stands before the braces, or quoted as the first thing in them."""
    block = match["labels"]
    if block is None:
        # Without braces only white space parts the name from its value.
        return (match["name"], {}) if match["name"] and match.start("value") > match.end("name") else None
    parsed = parse_labels(block)
    if parsed is None or bool(match["name"]) == bool(parsed[0]):
        return None
    return match["name"] or parsed[0], parsed[1]


def _add(series: Series, text: str, line: str, page: Page, values: dict[Series, float]) -> None:
    """Books one sample of a wanted name."""
    value = parse_value(text)
    if value is None:
        page.skip(line, frozenset({series.name}))
        return
    page.sample_lines += 1
    if series in values:
        page.duplicates.add(series)
    else:
        values[series] = value


def _unescape(text: str) -> str:
    """Undoes the three escapes of label values; any other backslash stands for itself."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
