"""A bounded, seeded piece of fuzzing, and every input that once was read wrongly."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.fuzz.oracle import check
from tests.fuzz.pages import FOUND, mutated, seeds

SECONDS = 20
MOST = 40_000


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.bin")), ids=lambda path: path.stem)
def test_what_was_once_read_wrongly_is_read_right(path: Path) -> None:
    check(path.read_bytes())


def test_every_seed_is_read_as_the_client_of_prometheus_reads_it() -> None:
    for seed in seeds():
        check(seed)


def test_mutations_of_real_lines_are_read_right_or_refused() -> None:
    """The same inputs on every machine; a slow one gets through fewer of them."""
    source = random.Random(20_26)
    pool = seeds()
    deadline = time.monotonic() + SECONDS
    tried = 0
    while tried < MOST and time.monotonic() < deadline:
        data = mutated(source.choice(pool), source)
        try:
            check(data)
        except Exception as error:
            error.add_note(f"input {tried}: {data!r}")
            raise
        tried += 1
    assert tried >= 1000
