"""Reads what llama.cpp's `llama-batched-bench` writes: its table, or JSON lines. B sequences in lock step, no server.

Contains the format. The tool's own `S_TG` leaves the prompt out and its `S` counts it in; aggregate and per-stream speeds
are made of tokens and the whole time instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opmon.core.cells import Cell
from opmon.sweeps.document import Document
from opmon.sweeps.naming import guessed_name
from opmon.sweeps.reading import Fields, Given, Read, Reader, cell
from opmon.sweeps.speeds import quotient

_TOOL = re.compile(r"(?i)(?<![^/])llama[-_]?batched[-_]?bench[-_.]?(?:b\d+[-_.])?")
_COLUMNS = {"PP": "pp", "TG": "tg", "B": "pl", "N_KV": "n_kv", "T_PP s": "t_pp", "T_TG s": "t_tg", "T s": "t"}
_SETTING = re.compile(r"\b(n_kv_max|n_batch|n_ubatch|flash_attn|is_\w+|n_gpu_layers|n_threads\w*) = (-?\w+)")
_KEPT = ("n_kv_max", "n_batch", "n_ubatch", "flash_attn", "n_gpu_layers", "n_threads")


def _recognises(document: Document) -> bool:
    head = document.head
    if not document.is_json:
        return any(_is_header(_cells(line)) for line in head.splitlines())
    if '"speed_tg"' not in head or '"pl"' not in head:
        return False
    first = document.records[0].value
    return isinstance(first, Mapping) and {"speed_tg", "pl", "t_tg"} <= first.keys()


def _is_header(cells: list[str]) -> bool:
    return set(_COLUMNS) <= set(cells)


def _cells(line: str) -> list[str]:
    return [one.strip() for one in line.strip().strip("|").split("|")] if line.lstrip().startswith("|") else []


def _read(document: Document, given: Given) -> Read:
    notes: list[str] = []
    found: list[Any] = (
        [record.value for record in document.records] if document.is_json else _table(document.text, document.file_name)
    )
    if not found:
        raise Fields({}, document.file_name).fault("the table has no row")
    cells = []
    for number, value in enumerate(found, 1):
        fields = Fields({}, document.file_name, number if len(found) > 1 else None, notes)
        if not isinstance(value, Mapping):
            raise fields.fault("this is no row: an object with the tool's figures is expected")
        fields.values = value
        cells.append(_cell(fields, given))
    if document.is_json and document.is_torn:
        notes.append("the last record is cut off and left out")
    return Read(tuple(cells), tuple(dict.fromkeys(notes)))


def _table(text: str, file_name: str) -> list[dict[str, str]]:
    """The rows below the header, each with the settings that were printed before it."""
    found: list[dict[str, str]] = []
    settings, header = dict[str, str](), list[str]()
    for line in text.splitlines():
        settings |= dict(_SETTING.findall(line))
        cells = _cells(line)
        if _is_header(cells):
            header = [_COLUMNS.get(one, one) for one in cells]
        elif header and cells and not set("".join(cells)) <= set("-: "):
            if len(cells) != len(header):
                words = f"the row has {len(cells)} fields and the header {len(header)}"
                raise Fields({}, file_name, len(found) + 1).fault(words)
            found.append({**settings, **dict(zip(header, cells, strict=True))})
    return found


def _cell(fields: Fields, given: Given) -> Cell:
    prompt, output, sequences = (fields.count(name) for name in ("pp", "tg", "pl"))
    if not sequences:
        raise fields.fault("the number of sequences is not known", "pl")
    whole, filling, decoding = (fields.number(name) for name in ("t", "t_pp", "t_tg"))
    if whole is None and filling is not None and decoding is not None:
        whole = filling + decoding
    in_step = str(fields.at("is_tg_separate")).lower() not in ("1", "true")
    if not in_step:
        fields.note("the sequences were decoded one after the other, so the row says nothing of their concurrency")
        whole = decoding = filling = None
    shared = _is_shared(fields, prompt, output, sequences)
    return cell(
        fields,
        given,
        guessed_configuration=guessed_name(_TOOL.sub("", fields.file_name)),
        guessed_content=f"pp{prompt or 0}+tg{output or 0}",
        concurrency=float(sequences),
        load_mode="lockstep",
        prompt_tokens=prompt,
        output_tokens=output,
        aggregate=quotient(sequences * (output or 0), whole),
        per_stream=quotient(output, whole),
        per_stream_method="rows" if output and whole else None,
        ttft=filling,
        tpot=decoding / output if decoding and output else None,
        e2e=whole,
        requests_per_second=quotient(sequences, whole),
        tool="llama-batched-bench",
        api="none",
        streaming=False,
        **_TOKENS,
        cache_state="one prompt shared by all" if shared else "cold",
        flags=("shared_prompt",) if shared else (),
        extra={name: word for name in _KEPT if (word := fields.word(name))},
    )


_TOKENS = {"token_source": "generated"}


def _is_shared(fields: Fields, prompt: int | None, output: int | None, sequences: int) -> bool:
    """Whether one prompt was computed for all: as stated, else by what the cache then held."""
    stated = fields.word("is_pp_shared")
    if stated is not None:
        return stated.lower() in ("1", "true")
    held = fields.number("n_kv")
    return sequences > 1 and bool(prompt) and held == (prompt or 0) + sequences * (output or 0)


LLAMA_BATCHED_BENCH = Reader("llama-batched-bench", 1, "llama-batched-bench (table or JSON lines)", _recognises, _read)
