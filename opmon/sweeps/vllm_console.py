"""The block that `vllm bench serve` prints at its end, out of a log or as somebody pasted it.

Contains which line is which key of a result. The block has two decimals, no model and no date: a cell of it is sound
and says less than the file that `--save-result` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opmon.core.cells import Cell
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import Fields, Given, Read
from opmon.sweeps.vllm_record import SERVE, record_cell
from opmon.sweeps.vllm_runs import read_records

BANNER = "Serving Benchmark Result"
_START = r"^(?:\([^)\n]*\)|[>|#$ \t])*"  # what a launcher or a quotation puts before each line
_BLOCK = re.compile(rf"{_START}=+ {BANNER} =+\s*$(.*?)(?:{_START}=+\s*$|\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(rf"{_START}([A-Za-z][^:\n]*?):[ \t]+(\S+)[ \t]*\r?$", re.MULTILINE)
_TIME = re.compile(r"(Mean|Median|P\d+(?:\.\d+)?) (TTFT|TPOT|ITL|E2EL) \(ms\)")
_KEYS = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "acceptance rate (%)": "spec_decode_acceptance_rate",
    "acceptance length": "spec_decode_acceptance_length",
    "drafts": "spec_decode_num_drafts",
}
_OF_SGLANG = re.compile(rf"{_START}(Backend|.*\(retokenized\)):", re.MULTILINE)


def recognises_console(document: Document) -> bool:
    """Whether the text has such a block. It may stand behind much of a log, so all of a text is searched, unless it is too large for one."""
    if document.is_json or document.head.lstrip()[:1] == "<":
        return False
    if BANNER in document.head:
        return True
    try:
        return BANNER in document.text
    except SweepError:
        return False


def read_console(document: Document, given: Given) -> Read:
    """Every block as a cell. Raises SweepError."""
    blocks = [found[1] for found in _BLOCK.finditer(document.text)]
    if any(_OF_SGLANG.search(block) for block in blocks):
        message = "this is the console output of SGLang's bench_serving; give the JSONL that its --output-file names"
        raise SweepError(message, file=document.file_name)
    read = read_records([dict(_fields(block)) for block in blocks], document, given, _cell)
    words = (
        "read from a console: figures have two decimals, and neither model nor date is known;"
        " the file that --save-result writes says both"
    )
    return Read(read.cells, (words, *read.notes))


def _fields(block: str) -> Iterator[tuple[str, str | None]]:
    """The lines of a block as keys of a result. A limit or a rate that is not printed was not set."""
    yield "max_concurrency", None
    yield "request_rate", "inf"
    for line in _LINE.finditer(block):
        name, value = line[1].strip(), line[2]
        time = _TIME.fullmatch(name)
        if time:
            yield f"{time[1].lower()}_{time[2].lower()}_ms", value
        elif name.lower() in _KEYS:
            yield _KEYS[name.lower()], value


def _cell(fields: Fields, given: Given) -> Cell:
    return record_cell(fields, given, SERVE)
