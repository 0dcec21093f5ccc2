"""Real files of every tool, read, beside the cells that somebody else's program made of them.

Needs the shared recordings. A difference stands here with its reason, or it is a fault.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from opmon.cli.benchmark_files import document_of
from opmon.core.cells import Cell, SweepImport, per_stream_speed
from opmon.errors import SweepError
from opmon.sweeps.detect import read_document
from tests.needs import NEEDS
from tests.sweeps.expected_differences import ARGUED, REFUSED

pytestmark = pytest.mark.needs("shared")
WITHIN_RATIO = 0.01
FOLDER = Path(NEEDS["shared"].find() or "") / "data" / "benchmarks"
TABLE = FOLDER / "EXPECTED.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())) if TABLE.is_file() else []


def _seconds(value: float | None) -> float | None:
    return None if value is None else value * 1000


FIGURES: dict[str, Callable[[Cell], float | None]] = {
    "concurrency": lambda cell: cell.concurrency,
    "prompt_mean": lambda cell: cell.prompt_tokens,
    "output_mean": lambda cell: cell.output_tokens,
    "n_ok": lambda cell: cell.completed_requests,
    "n_failed": lambda cell: cell.failed_requests,
    "duration_s": lambda cell: cell.duration_seconds,
    "agg_out_tok_s": lambda cell: cell.aggregate,
    "per_stream_p50": per_stream_speed,
    "ttft_p50_ms": lambda cell: _seconds(cell.ttft),
    "ttft_p95_ms": lambda cell: _seconds(cell.ttft_p95),
    "tpot_p50_ms": lambda cell: _seconds(cell.tpot),
    "accept_len": lambda cell: cell.acceptance_length,
}


@cache
def imported(file: str) -> SweepImport:
    return read_document(document_of(FOLDER / file, file), configuration="one", content="one")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['file']}-{row['idx']}")
def test_a_real_file_becomes_the_expected_cell(row: dict[str, str]) -> None:
    if row["file"] in REFUSED:
        with pytest.raises(SweepError, match=REFUSED[row["file"]]):
            imported(row["file"])
        return
    cell: Cell = imported(row["file"]).cells[int(row["idx"] or 0)]
    differing = {}
    for column, figure in FIGURES.items():
        if (row["file"], column) in ARGUED or (row["tool"], column) in ARGUED:
            continue
        expected = float(row[column]) if row[column] not in ("", "inf") else None
        actual = figure(cell)
        if expected is None and actual is None:
            continue
        if expected is None or actual is None or not math.isclose(expected, actual, rel_tol=WITHIN_RATIO):
            differing[column] = (expected, actual)
    assert {} == differing
