"""What holds for the whole tree: lock files, module docstrings, the size of functions, words that have no place here."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.needs import ROOT

MODULES = sorted((ROOT / "opmon").rglob("*.py"))
# Text that belongs to the repository, wherever git is not there to ask (an unpacked sdist).
SKIPPED = {".git", ".venv", "node_modules", "vendor", "__pycache__", "build", "dist", ".hypothesis", "htmlcov"}
MOST_LINES_OF_A_FUNCTION = 50
NINETY_PERCENT_OF_FUNCTIONS = 25
MANY_LINES_OF_A_MODULE = 400
MOST_LINES_OF_A_MODULE = 500


def ours() -> list[Path]:
    """Every text file of the repository."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if run.returncode == 0:
        files = [ROOT / name for name in run.stdout.decode().split("\0") if name]
    else:
        files = [path for path in ROOT.rglob("*") if not SKIPPED.intersection(path.relative_to(ROOT).parts)]
    return [path for path in files if path.is_file() and path.suffix not in {".png", ".gz", ".ico"}]


def functions() -> list[tuple[str, int, str]]:
    """Name, length and text of each function of the product. The docstring is not counted: it explains."""
    found = []
    for module in MODULES:
        text = module.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                last = node.end_lineno or node.lineno
                has_docstring = ast.get_docstring(node) is not None
                documented = ((node.body[0].end_lineno or 0) - node.body[0].lineno + 1) if has_docstring else 0
                source = "\n".join(text.splitlines()[node.lineno - 1 : last])
                name = f"{module.relative_to(ROOT)}:{node.lineno} {node.name}"
                found.append((name, last - node.lineno + 1 - documented, source))
    return found


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_file_has_a_hash_for_each_package_and_names_no_host(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert re.findall(r"^(?:-|--).*$", text, re.MULTILINE) == []
    assert "://" not in text
    blocks = re.split(r"\n(?=[A-Za-z0-9])", text)
    assert [] == [block.split()[0] for block in blocks if "--hash=sha256:" not in block]


def test_the_two_lock_files_agree_on_every_package_they_share() -> None:
    def pins(lock: str) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))

    runtime, development = pins("requirements.lock"), pins("requirements-dev.lock")
    assert runtime == {name: development.get(name) for name in runtime}


def test_every_dependency_is_pinned_and_has_its_reason_in_the_decisions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]
    reasons = (ROOT / "docs" / "decisions" / "0001-dependencies.md").read_text(encoding="utf-8").lower()
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for requirement in declared:
        name = re.split(r"[\[<>=]", requirement)[0].lower()
        assert f"\n{name}" in f"\n{lock}"
        assert name in reasons, f"{name} has no reason"


def test_no_file_names_a_package_registry_or_a_folder_of_somebodys_machine() -> None:
    # Spelled in two parts, so that this file does not find itself.
    unwanted = re.compile(
        "|".join(
            ["pypi" + r"\.org", "npmjs" + r"\.(org|com)", "files\\.python" + "hosted", "/wo" + "rk/", "/ro" + "ot/"]
        )
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in ours()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if unwanted.search(line)
    ]
    assert [] == found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring
    assert docstring.split("\n")[0].endswith((".", ":", ",")) or "\n" in docstring


def test_nine_in_ten_functions_fit_in_the_eye() -> None:
    lengths = sorted(length for _, length, _ in functions())
    assert lengths[int(len(lengths) * 0.9)] <= NINETY_PERCENT_OF_FUNCTIONS


def test_a_function_that_is_too_long_gives_a_reason_beside_it() -> None:
    assert [] == [
        name for name, length, source in functions() if length > MOST_LINES_OF_A_FUNCTION and "# long" not in source
    ]


def test_no_module_has_outgrown_its_room() -> None:
    counts = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long_ones = {name: count for name, count in counts.items() if count > MANY_LINES_OF_A_MODULE}
    assert {} == {name: count for name, count in long_ones.items() if count > MOST_LINES_OF_A_MODULE}
    assert len(long_ones) <= len(counts) / 20, f"more than one in twenty: {long_ones}"


@pytest.mark.parametrize("folder", ["utils", "helpers", "common", "base", "manager"])
def test_no_room_is_named_after_nothing(folder: str) -> None:
    assert [] == [path for path in MODULES if folder in (path.stem, path.parent.name)]


def test_every_ignored_rule_has_its_reason_beside_it() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("ignore = [")
    end = lines.index("]", start)
    bare = [line.strip() for line in lines[start + 1 : end] if line.strip().startswith('"') and "#" not in line]
    # The last group's reason stands above it.
    assert ['"AIR",', '"DJ",', '"NPY",', '"PD",'] == bare
