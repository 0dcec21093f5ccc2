"""Runs as `vllm bench serve`, its predecessor `benchmark_serving.py` and the Rust client `vllm-bench` write them: a JSON
object a run, one or many to a file, or a list of them as `vllm bench sweep` sums them up.

Contains which JSON is theirs; what the keys mean is `vllm_record`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields, Given, NoCell, Read
from opmon.sweeps.vllm_beside import beside_of
from opmon.sweeps.vllm_names import RUN_NUMBER
from opmon.sweeps.vllm_record import RUST, SERVE, Dialect, has_speed, record_cell

_OF_SGLANG = "total_output_tokens_retokenized"
_OF_RUST = ("steady_state", "max_model_len", "multi_turn_concurrency")


def values_in(document: Document) -> Iterator[Any]:
    """The records of a file; those of a list at the top each by itself."""
    for record in document.records:
        if isinstance(record.value, list):
            yield from record.value
        else:
            yield record.value


def read_records(
    values: Sequence[Any], document: Document, given: Given, cell_of: Callable[[Fields, Given], Cell]
) -> Read:
    """Every record of a file as a cell, by `cell_of(fields, given)`; a record without a speed is left out and told.

    Raises SweepError for a record that is no object, and where no cell is left.
    """
    notes, cells = list[str](), list[Cell]()
    why = "there is no record in it"
    for number, value in enumerate(values, 1):
        fields = Fields({}, document.file_name, number if len(values) > 1 else None, notes)
        if not isinstance(value, Mapping):
            raise fields.fault("this is no run: an object with the tool's figures is expected")
        fields.values = value
        why = _no_cell(fields) or ""
        made = None if why else cell_of(fields, given)
        if made is not None and has_speed(made):
            cells.append(made)
        else:
            why = why or "it has no speed (output_throughput, or the times of requests)"
            fields.note(f"left out: {why}")
    if document.is_json and document.is_torn:
        notes.append("the last record is cut off and left out")
    if not cells:
        raise NoCell(f"no cell in it: {why}", file=document.file_name)
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def is_run(value: Any) -> bool:
    """Whether a JSON value is a run of these clients with its times in milliseconds."""
    if not isinstance(value, Mapping) or _OF_SGLANG in value or "output_throughput" not in value:
        return False
    if "model_id" not in value and "endpoint_type" not in value and "backend" not in value:
        return False
    return "completed" in value and "duration" in value and not ({"median_ttft", "mean_ttft"} & value.keys())


def _no_cell(fields: Fields) -> str | None:
    """Why a record is no measurement, though it looks like one; None otherwise."""
    if fields.at(RUN_NUMBER) in (-1, "-1"):
        return "it is the warm-up of a sweep"
    if "input_sequence_throughput" in fields.values or "total_input_sequences" in fields.values:
        return "it is a run of an embedding model, which generates no tokens"
    return None


def recognises_runs(document: Document) -> bool:
    """Whether the file's first record is such a run."""
    if not document.is_json or not ('"output_throughput"' in document.head or '"duration"' in document.head):
        return False
    return is_run(next(values_in(document), None))


def read_runs(document: Document, given: Given) -> Read:
    """Every run of the file as a cell. Raises SweepError."""
    notes: list[str] = []
    beside = beside_of(document, notes)

    def cell_of(fields: Fields, given: Given) -> Cell:
        return record_cell(fields, given, _client(fields), beside)

    read = read_records(list(values_in(document)), document, given, cell_of)
    return Read(read.cells, (*notes, *read.notes))


def _client(fields: Fields) -> Dialect:
    return RUST if any(key in fields.values for key in _OF_RUST) else SERVE
