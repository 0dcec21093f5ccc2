"""The documents say what the program does: tables, links, commands, and nothing of the place where they were written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from opmon import __version__
from opmon.core import model
from tests.needs import ROOT

PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code forges make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_table_in_the_documents_is_what_the_program_declares() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "tables.py")],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", ["settings", "commands", "routes", "parameters", "fields", "metrics"])
def test_every_table_stands_on_exactly_one_page(name: str) -> None:
    holders = [page for page in PAGES if f"<!-- begin: {name} -->" in page.read_text(encoding="utf-8")]
    assert 1 == len(holders), holders


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_within_the_documents_leads_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        place = (page.parent / target) if target else page
        if not place.exists() or (anchor and place.suffix == ".md" and anchor not in anchors(place)):
            broken.append(f"{target}#{anchor}")
    assert [] == broken


def test_every_page_of_the_documents_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        links = [
            (page.parent / target).resolve() for target, _ in LINK.findall(page.read_text(encoding="utf-8")) if target
        ]
        open_pages += [link / "README.md" if link.is_dir() else link for link in links]
    assert [] == [names(page) for page in ROOT.glob("docs/**/*.md") if page not in reached]


def test_the_changelog_speaks_of_this_version() -> None:
    assert f"## {__version__} - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["make run", "make run TARGET=http://host:8000", "make test"])
def test_the_readme_names_the_commands_that_a_newcomer_needs(command: str) -> None:
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_no_make_target_that_does_not_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for page in PAGES:
        used = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(code_in(page))))
        assert set() == used - targets, page


def test_the_report_in_the_readme_is_what_its_command_prints() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command, shown = re.findall(r"```\n\$ \.venv/bin/opmon ([^\n]+)\n(.*?)```", readme, re.DOTALL)[0]
    run = subprocess.run(
        [sys.executable, "-m", "opmon", *command.split()],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    printed = {line.strip() for line in run.stdout.splitlines()}
    assert [] == [line for line in shown.splitlines() if line.strip() not in {*printed, "..."}]


def code_in(page: Path) -> list[str]:
    """What a page shows as code: blocks and spans."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)


def test_every_state_is_explained_in_the_concepts() -> None:
    concepts = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    assert [] == [state for state in model.State if f"`{state.value}`" not in concepts]
