"""docs/cases.md says what the expectations say, and every test that it names exists."""

from __future__ import annotations

import re

from tests.hostile.cases import CASES
from tests.hostile.document import PAGE, text
from tests.needs import ROOT

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[\w+\])?`")


def test_the_table_of_cases_is_written_from_the_expectations() -> None:
    assert text() == PAGE.read_text(encoding="utf-8"), "python -m tests.hostile.document --write"


def test_every_test_that_the_table_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text(encoding="utf-8"))
    lost = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(named) >= 11
    assert [] == lost


def test_every_kind_of_answer_of_the_collection_has_a_case() -> None:
    asked = {f"C{number:02}" for number in (1, 2, *range(4, 22), 23)} - {"C03", "C22"}
    assert set() == asked - {case.case for case in CASES}
