"""What `opmon check target` says of a server: its engine, where each figure comes from, what is absent and why.

Contains no request and no judgement of values; pure. The words about an engine are in its table.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from opmon.core.engines import BY_NAME
from opmon.core.engines.table import Engine
from opmon.core.model import Attempt, Form, SeriesKey, SeriesSample, Snapshot
from opmon.scrape.scraper import Learnt

WIDTH = 110
_INDENT = 11
_HIDDEN_FACTS = frozenset({"alias_doubles", "engine_generation", "max_num_seqs", "note", "unusable"})
_FORMS = {
    Form.FILTERED: "a pulse asks for a few series only (/metrics/?name[]=...)",
    Form.WHOLE: "each pulse is the whole page, so opmon asks every 5 s unless told",
    Form.UNKNOWN: "not found out",
}


def render_target(full: Attempt, pulse: Attempt, form: Form, learnt: Learnt) -> list[str]:
    """The lines for one answered look at a server; none for one that did not answer with a page."""
    snapshot = full.snapshot
    if snapshot is None:
        return []
    engine = BY_NAME.get(snapshot.engine)
    said = [
        *_who(snapshot, engine, learnt),
        *_now(snapshot),
        *_where(snapshot, engine, learnt),
        ("full page", f"{full.size_bytes} bytes in {full.took_ms} ms"),
        ("pulse", f"{pulse.size_bytes} bytes in {pulse.took_ms} ms; {_FORMS[form]}"),
        *_missing(snapshot, engine),
        *_notes(snapshot, engine, learnt),
    ]
    return [line for name, words in said for line in _lines(name, words)]


def _who(snapshot: Snapshot, engine: Engine | None, learnt: Learnt) -> Iterator[tuple[str, str]]:
    name = engine.name if engine else "not recognised"
    title = f": {engine.title}" if engine and engine.title.lower() != engine.name else ""
    generation = snapshot.facts.get("engine_generation")
    yield "engine", f"{name} {learnt.version or '(version not told)'}{title}{f', {generation}' if generation else ''}"
    models = sorted({key.model_name for key in snapshot.series if key.model_name}) or list(learnt.models)
    yield "models", ", ".join(models) or "not told"


def _now(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    for key, sample in sorted(snapshot.series.items()):
        if sample.running is not None or sample.waiting is not None:
            yield "now", f"{_name(key)}{_levels(sample)}"


def _where(snapshot: Snapshot, engine: Engine | None, learnt: Learnt) -> Iterator[tuple[str, str]]:
    """Where the figures of this engine come from."""
    told = learnt.max_num_seqs or _number(snapshot.facts.get("max_num_seqs"))
    ceiling = f"{told} per engine ({learnt.ceiling_source or '/metrics'})" if told else "not told by the server"
    if engine is None:
        yield "ceiling", ceiling
        return
    words = engine.words
    yield "running", words.running
    yield "tokens", words.tokens
    yield "lengths", words.lengths
    yield "check", words.check
    yield "ceiling", ceiling if told else f"{ceiling}: {words.ceiling}"


def _missing(snapshot: Snapshot, engine: Engine | None) -> Iterator[tuple[str, str]]:
    """What is absent, by its reason: never exposed by this engine, or not on this page."""
    reasons: dict[str, list[str]] = {}
    for signal in snapshot.missing:
        reason = engine.absent.get(signal, "") if engine else ""
        reasons.setdefault(reason or "not on this page", []).append(signal)
    for reason, signals in reasons.items():
        yield "missing", f"{', '.join(signals)}: {reason}"
    if not reasons and engine is not None:
        yield "missing", "nothing that opmon uses"


def _notes(snapshot: Snapshot, engine: Engine | None, learnt: Learnt) -> Iterator[tuple[str, str]]:
    facts = {**learnt.facts, **snapshot.facts}
    shown = [f"{key} {value}" for key, value in sorted(facts.items()) if key not in _HIDDEN_FACTS]
    if shown:
        yield "facts", ", ".join(shown)
    if snapshot.skipped_lines:
        yield "skipped", f"{snapshot.skipped_lines} line(s) that are no samples"
    if "alias_doubles" in snapshot.facts:
        yield "doubt", f"one signal under two names that differ: {snapshot.facts['alias_doubles']}"
    if "unusable" in snapshot.facts:
        yield "doubt", snapshot.facts["unusable"]
    if "note" in snapshot.facts:
        yield "note", snapshot.facts["note"]
    if engine is not None:
        for note in engine.words.notes:
            yield "note", note
        yield "more", f"docs/engines/{engine.page}"


def _name(key: SeriesKey) -> str:
    parts = [key.model_name, f"engine {key.engine_index}" if key.engine_index else ""]
    words = " ".join(part for part in parts if part)
    return f"{words}: " if words else ""


def _levels(sample: SeriesSample) -> str:
    told = [
        f"{value} {name}"
        for value, name in ((sample.running, "running"), (sample.waiting, "waiting"))
        if value is not None
    ]
    if sample.kv_usage_ratio is not None:
        told.append(f"{sample.kv_usage_ratio:.1%} of the KV cache used")
    tokens = sample.counters.get("generation_tokens", sample.counters.get("output_length_sum"))
    if tokens is not None:
        told.append(f"{tokens:.0f} output tokens so far")
    return ", ".join(told)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _lines(name: str, words: str) -> list[str]:
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=name.ljust(_INDENT),
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )
