"""Files that vLLM's tools write beside a result, and which say what it does not: content, lengths, hardware.

Contains the commands of vLLM's CI (`<test>.commands`) and the side file for PyTorch's benchmarks
(`<name>.pytorch.json`). A side file that cannot be read is told, and changes nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from opmon.core.names import escaped
from opmon.errors import SweepError
from opmon.sweeps.document import Document
from opmon.sweeps.reading import name_from, redacted
from opmon.sweeps.vllm_record import Beside

_SERVER = (
    "tensor-parallel-size",
    "pipeline-parallel-size",
    "data-parallel-size",
    "dtype",
    "quantization",
    "kv-cache-dtype",
    "max-num-seqs",
    "max-num-batched-tokens",
    "max-model-len",
    "speculative-config",
    "enable-prefix-caching",
    "no-enable-prefix-caching",
)
_CLIENT = ("random-input-len", "random-output-len", "random-range-ratio", "ignore-eos", "temperature", "seed")
_SHORT = {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size"}
_NEEDS_PATH = ("custom", "hf", "sharegpt4v")


def beside_of(document: Document, notes: list[str]) -> Beside:
    """What the files beside a result say of it; empty without any."""
    stem = re.sub(r"(?i)\.jsonl?(\.gz)?$", "", document.file_name.rsplit("/", 1)[-1])
    for name, read in ((f"{stem}.commands", _of_commands), (f"{stem}.pytorch.json", _of_pytorch)):
        other = document.beside(name)
        if other is None:
            continue
        try:
            found = read(other)
        except (SweepError, ValueError) as error:
            notes.append(f"{escaped(name)} beside it cannot be read and is left out: {error}")
            continue
        if found is not None:
            return found
    return Beside()


def content_name(dataset: object, path: object = None) -> str | None:
    """A content's name from the options of the client: the data set, and the file where the set is any file."""
    name = _word(dataset)
    file = (_word(path) or "").rstrip("/").rsplit("/", 1)[-1]
    return name_from(name, file) if name in _NEEDS_PATH and file else name


def _of_commands(document: Document) -> Beside | None:
    value = document.records[0].value if document.records else None
    if not isinstance(value, Mapping):
        return None
    server, client = (_options(value.get(key)) for key in ("server_command", "client_command"))
    extra = {f"server {name}": server[name] for name in _SERVER if name in server}
    extra |= {name: client[name] for name in _CLIENT if name in client}
    return Beside(content=content_name(client.get("dataset-name"), client.get("dataset-path")), extra=extra)


def _of_pytorch(document: Document) -> Beside | None:
    for record in document.records:
        for one in record.value if isinstance(record.value, list) else [record.value]:
            arguments = _below(one, ("benchmark", "extra_info", "args"))
            if arguments:
                options = {name.replace("_", "-"): arguments.get(name.replace("-", "_")) for name in _CLIENT}
                extra = {name: word for name, value in options.items() if (word := _word(value))}
                return Beside(content_name(arguments.get("dataset_name"), arguments.get("dataset_path")), extra=extra)
    return None


def _below(value: Any, path: Iterable[str]) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _options(command: object) -> dict[str, str]:
    """The options of a command line by name; a flag is `true`. Raises ValueError for quotes that do not close."""
    words = shlex.split(command) if isinstance(command, str) else []
    found: dict[str, str] = {}
    for place, word in enumerate(words):
        if not word.startswith("-") or word.lstrip("-") == "":
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = words[place + 1] if place + 1 < len(words) else "-"
        if not equals:
            value = "true" if following.startswith("-") else following
        name = name.replace("_", "-")
        found[_SHORT.get(name, name)] = _word(value) or ""
    return found


def _word(value: object) -> str | None:
    if value is None or isinstance(value, Mapping | list):
        return None
    return escaped(redacted(str(value).strip()))[:200] or None
