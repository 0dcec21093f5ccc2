from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from opmon.core.answers import MeasureNext
from opmon.core.cells import octaves
from opmon.core.recommend import recommend
from tests.core.drafters import EXAMPLE, OCCUPANCY, ask, example, live, sweep_of

TOOLS = ("vllm", "guidellm")


def arguments(command: str, folder: Path, **variables: str) -> list[str]:
    """What the tool is called with: the command run by a shell, with a tool of that name that prints its arguments."""
    for tool in TOOLS:
        fake = folder / tool
        fake.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
        fake.chmod(0o755)
    found = subprocess.run(
        ["/bin/sh", "-euc", command],
        env={"PATH": f"{folder}:/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    return found.stdout.splitlines()


def commands(**said: Any) -> tuple[MeasureNext, ...]:
    return example(content="code", prompt_tokens=8112, output_tokens=377, **said).measure_next


def test_levels_without_a_known_ratio_come_in_the_order_of_their_doubt() -> None:
    assert [4, 2] == [one.concurrency for one in example(content="code").measure_next]
    assert [1, 4, 2] == [one.concurrency for one in example(content="prose").measure_next]


def test_cells_of_another_length_are_worth_measuring_again() -> None:
    assert 1 in [one.concurrency for one in commands()]
    assert {(8112, 377)} == {(one.prompt_tokens, one.output_tokens) for one in commands()}


def test_a_ratio_that_is_known_everywhere_leaves_nothing_to_measure() -> None:
    answer = recommend(EXAMPLE, live({1: 1000}), ask(content="code"))

    assert () == answer.measure_next


def test_at_most_three_levels_a_content_and_six_in_all() -> None:
    levels = example(dict.fromkeys(range(2, 200), 1000)).measure_next

    assert len(levels) == 6
    assert all(sum(one.content == content for one in levels) <= 3 for content in ("code", "prose"))


def test_levels_near_each_other_answer_for_one_another() -> None:
    levels = [one.concurrency for one in example(dict.fromkeys(range(2, 200), 1000), content="code").measure_next]

    assert all(octaves(one, other) >= 0.5 for one, other in combinations(levels, 2))


def test_vllm_is_called_with_the_live_lengths_and_the_level(tmp_path: Path) -> None:
    for one in commands():
        found = arguments(one.commands["vllm bench serve"], tmp_path)
        options = dict(zip(found[2::2], found[3::2], strict=False))

        assert ["bench", "serve"] == found[:2]
        assert ("8112", "377") == (options["--random-input-len"], options["--random-output-len"])
        assert str(one.concurrency) == options["--max-concurrency"]
        assert "http://127.0.0.1:8000" == options["--base-url"]
        assert "config=int8-dflash7" in found
        assert "content=code" in found
        assert "--model" not in found


def test_guidellm_is_called_with_the_live_lengths_and_the_level(tmp_path: Path) -> None:
    for one in commands():
        found = arguments(one.commands["guidellm"], tmp_path)

        assert "run" == found[0]
        assert "kind=synthetic_text,prompt_tokens=8112,output_tokens=377" in found
        assert f"kind=concurrent,streams={one.concurrency}" in found


def test_variables_replace_the_defaults(tmp_path: Path) -> None:
    vllm = commands()[0].commands["vllm bench serve"]
    said = {"BASE_URL": "http://10.0.0.1:9", "MODEL": "a b", "CONFIG": "fp8-mtp5", "PROMPTS": "my prompts.jsonl"}
    found = arguments(vllm, tmp_path, **said)

    assert ["--model", "a b"] == found[found.index("--model") :][:2]
    assert ["--dataset-path", "my prompts.jsonl", "--custom-output-len", "377"] == found[
        found.index("--dataset-path") :
    ][:4]
    assert "config=fp8-mtp5" in found
    assert "http://10.0.0.1:9" in found


def test_unknown_lengths_are_variables_with_defaults(tmp_path: Path) -> None:
    one = example(content="code").measure_next[0]
    found = arguments(one.commands["guidellm"], tmp_path, OUTPUT_TOKENS="99")

    assert (33, None) == (one.prompt_tokens, one.output_tokens)
    assert "kind=synthetic_text,prompt_tokens=33,output_tokens=99" in found


@pytest.mark.parametrize("name", ['x"; touch pwned; "', "$(touch pwned)", "`touch pwned`", "a'b", "a}b", "two words"])
def test_names_from_a_file_cannot_become_commands(tmp_path: Path, name: str) -> None:
    cells = [
        replace(cell, configuration=name if cell.configuration == "int8-dflash7" else "old", content=f"c{name}")
        for cell in EXAMPLE.cells
        if cell.content == "code"
    ]
    sweep = sweep_of(*cells)
    one = recommend(sweep, live(OCCUPANCY), ask(reference="old", candidate=name)).measure_next[0]
    for command in one.commands.values():
        found = arguments(f"cd {shlex.quote(str(tmp_path))}; {command}", tmp_path)

        assert f"config={name}" in found
        assert f"content=c{name}" in found
    assert not (tmp_path / "pwned").exists()
    assert json.dumps(one.commands)
