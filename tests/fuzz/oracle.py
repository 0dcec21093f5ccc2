"""What must hold for any bytes that a target may answer with: checked by a second, independent reading of the page.

Contains no fuzzer: `fuzz_pages` drives this with coverage guidance, `test_fuzz` with a seeded handful of mutations.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from opmon.core.model import DOWN_KINDS, INVALID_KINDS, Attempt, Lane, SeriesKey, Snapshot, State
from opmon.core.snapshot import MOST_REQUESTS, read_snapshot
from opmon.core.states import Tracker
from opmon.errors import ScrapeError

PREFIXES = ("vllm:", "ray_vllm:", "ray_vllm_")
RUNNING = "num_requests_running"
INTERVAL_MS = 1000
CONTENT_TYPES = (None, "text/plain; version=0.0.4", "application/openmetrics-text", "application/octet-stream")

Labelled = tuple[Mapping[str, str], float]


def check(data: bytes) -> None:
    """The first byte chooses lane and content type, the rest is the page. Raises AssertionError for a wrong reading."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    lane = (Lane.FULL, Lane.PULSE)[choice & 1]
    content_type = CONTENT_TYPES[(choice >> 1) % len(CONTENT_TYPES)]
    for engine in ("vllm", "auto"):
        snapshot = _read(body, content_type, lane, engine)
        if snapshot is not None:
            check_values(snapshot)
            check_state(snapshot, lane)
            if engine == "vllm":
                check_running(snapshot, body)


def _read(body: bytes, content_type: str | None, lane: Lane, engine: str) -> Snapshot | None:
    try:
        return read_snapshot(body, content_type=content_type, engine=engine, lane=lane)
    except ScrapeError as error:
        if error.kind not in DOWN_KINDS:
            message = f"a failure of no known kind: {error.kind}"
            raise AssertionError(message) from error
        return None


def check_values(snapshot: Snapshot) -> None:
    """No level is negative or larger than a count of requests can be; nothing is NaN or infinite."""
    assert snapshot.fault is None or snapshot.fault in INVALID_KINDS, snapshot.fault
    for sample in snapshot.series.values():
        for level in (sample.running, sample.waiting):
            assert level is None or 0 <= level <= MOST_REQUESTS, level
        assert sample.kv_usage_ratio is None or 0 <= sample.kv_usage_ratio < math.inf, sample.kv_usage_ratio
        assert all(map(math.isfinite, sample.counters.values())), sample.counters
        for family in sample.buckets.values():
            assert all(map(math.isfinite, family.counts)), family
            assert math.inf == family.bounds[-1]
            assert sorted(set(family.bounds)) == list(family.bounds), family
    assert snapshot.process_start_seconds is None or math.isfinite(snapshot.process_start_seconds)


def check_state(snapshot: Snapshot, lane: Lane) -> None:
    """A page with a fault is in no level; the same page twice is no restart."""
    tracker = Tracker.fresh(stall_after_ms=120_000)
    steps = [tracker.advance(attempt_of(snapshot, lane, number)) for number in range(2)]
    for step in steps:
        if snapshot.fault is not None:
            assert State.INVALID is step.row.state
            assert not step.row.series
        if step.row.state is State.OBSERVED:
            assert any(sample.running is not None for sample in step.row.series.values())
    assert steps[1].new_epoch is None, steps[1].new_epoch


def attempt_of(snapshot: Snapshot, lane: Lane, number: int) -> Attempt:
    """The page as the answer of the numbered stratum."""
    at_ms = 1_000_000 + number * INTERVAL_MS
    return Attempt(at_ms, INTERVAL_MS, at_ms + 300, 5, lane, snapshot)


def check_running(snapshot: Snapshot, body: bytes) -> None:
    """What runs, as the Python client of Prometheus reads the same page; a broken line is never a silent number."""
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    ours = {key: one.running for key, one in snapshot.series.items() if one.running is not None}
    if snapshot.fault is not None:
        return
    assert ours, "an answer without a level and without a fault"
    whole = _families(text)
    found = {prefix: [pair for name, pair in _samples(text, whole) if name == prefix + RUNNING] for prefix in PREFIXES}
    prefix = next(prefix for prefix in PREFIXES if found[prefix])
    expected = _expected(found[prefix])
    assert expected is not None, f"a level although the page has no usable one: {ours}"
    assert expected == ours, (expected, ours)
    if whole is None:
        broken = [line for line in text.split("\n") if _begins_with(line, prefix + RUNNING) and _one(line) is None]
        assert not broken, f"a level in spite of {broken!r}"


def _families(text: str) -> list[tuple[str, Labelled]] | None:
    try:
        return [
            (sample.name, (sample.labels, float(sample.value)))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
    except Exception:  # noqa: BLE001  # whatever the client raises, it could not read the page
        return None


def _samples(text: str, whole: list[tuple[str, Labelled]] | None) -> Iterator[tuple[str, Labelled]]:
    """The client's samples of the page, line by line where it cannot read the page as a whole."""
    if whole is not None:
        yield from whole
        return
    for line in text.split("\n"):
        yield from _one(line.removesuffix("\r")) or ()


def _one(line: str) -> list[tuple[str, Labelled]] | None:
    if not line.strip(" \t\r") or line.lstrip(" \t").startswith("#"):
        return []
    line = line.strip(" \t\r")
    # What stands behind the value as an exemplar is nobody's business here, however it is written.
    bare = re.sub(r"[ \t]+#[ \t]*\{.*$", "", line)
    # The client refuses names of labels that Prometheus keeps for itself; they spoil no value.
    renamed = re.sub(r"([{,][ \t]*)_{2,}", r"\1x_", bare)
    return next((found for text in (line, bare, renamed) if (found := _families(text + "\n"))), None)


def _begins_with(line: str, name: str) -> bool:
    return re.match(rf"[ \t]*{re.escape(name)}(?![\w:])", line, re.ASCII) is not None


def _expected(found: Iterable[Labelled]) -> dict[SeriesKey, int] | None:
    """Levels per engine of a model; None where one of the values or a repetition makes them unusable."""
    groups: dict[SeriesKey, dict[frozenset[tuple[str, str]], float]] = {}
    seen: set[frozenset[tuple[str, str]]] = set()
    for labels, value in found:
        whole = frozenset(labels.items())
        if (
            whole in seen
            or not math.isfinite(value)
            or not 0 <= value <= MOST_REQUESTS
            or value % 1 > 1e-6 < 1 - value % 1
        ):
            return None
        seen.add(whole)
        rest = frozenset(item for item in whole if item[0] != "pid")
        group = groups.setdefault(SeriesKey(labels.get("model_name", ""), labels.get("engine", "")), {})
        group[rest] = max(value, group.get(rest, value))
    return {key: round(sum(group.values())) for key, group in groups.items()}
