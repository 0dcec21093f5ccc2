"""Coverage-guided fuzzing of the reading of pages: `python -m tests.fuzz.fuzz_pages --seconds 600`.

Needs atheris, which is no part of the locked tools: its wheels are for Linux on x86-64 alone. `make fuzz` installs it
where there is one. An input that is read wrongly is written to `tests/fuzz/found/`, from where the tests take it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["opmon.core"]):
    import opmon.core.exposition
    import opmon.core.snapshot
    import opmon.core.states  # noqa: F401  # imported here to be instrumented

from tests.fuzz.oracle import check
from tests.fuzz.pages import FOUND, WORDS, seeds

LONGEST = 4096


def one(data: bytes) -> None:
    """One input; what is read wrongly is kept."""
    try:
        check(data)
    except BaseException:
        (FOUND / f"{hashlib.sha256(data).hexdigest()[:16]}.bin").write_bytes(data)
        raise


def main() -> None:
    """Fuzzes for the asked time, or to the first fault. The corpus grows in the asked folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, default=Path("build/fuzz"))
    asked = parser.parse_args()
    asked.corpus.mkdir(parents=True, exist_ok=True)
    FOUND.mkdir(exist_ok=True)
    for index, seed in enumerate(seeds()):
        (asked.corpus / f"seed-{index}").write_bytes(seed)
    words = asked.corpus.parent / "fuzz-words.txt"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS), encoding="ascii")
    options = [f"-max_total_time={asked.seconds}", f"-max_len={LONGEST}", f"-dict={words}", "-timeout=10"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={asked.corpus.parent}/", str(asked.corpus)], one)
    atheris.Fuzz()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    main()
