"""The build hook: charts come pinned by their hash, and their absence never stops a build."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hatchling.bridge.app import Application

import hatch_build
from hatch_build import PACKAGES, NpmError, VendorHook

UPLOT = PACKAGES[0]


def hook(root: Path) -> VendorHook:
    return VendorHook(str(root), {}, SimpleNamespace(), SimpleNamespace(), str(root), "wheel", Application())  # type: ignore[arg-type]


def npm_that_hands_out(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An npm on PATH whose every package holds `content` in each wanted file."""
    programs = folder / "programs"
    programs.mkdir()
    with tarfile.open(folder / "package.tgz", "w:gz") as tar:
        for name in UPLOT.files:
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    npm = programs / "npm"
    # The last argument of `npm pack` is the folder to put the archive in.
    npm.write_text(f'#!/bin/sh\nfor last; do :; done\ncp "{folder}/package.tgz" "$last/"\n', encoding="utf-8")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")


def test_an_archive_that_is_not_the_pinned_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_that_hands_out(tmp_path, b"something else", monkeypatch)
    with pytest.raises(NpmError, match="not the one that was pinned"):
        hatch_build.bring(tmp_path, UPLOT)
    assert not hatch_build.is_present(tmp_path, UPLOT)


def test_only_the_named_files_of_the_pinned_archive_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm_that_hands_out(tmp_path, b"charts", monkeypatch)
    pinned = UPLOT._replace(sha512=digest(tmp_path / "package.tgz"))
    hatch_build.bring(tmp_path, pinned)
    taken = {path.name for path in hatch_build.folder_of(tmp_path, pinned).iterdir()}
    assert {"uPlot.esm.js", "uPlot.min.css", "LICENSE", "VERSION"} == taken
    assert hatch_build.is_present(tmp_path, pinned)
    assert not hatch_build.is_present(tmp_path, pinned._replace(version="2.0.0"))


def digest(path: Path) -> str:
    return base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()


def test_a_build_without_npm_goes_on_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    hook(tmp_path).initialize("standard", {})
    assert "no charts" in capsys.readouterr().err
    assert not hatch_build.is_present(tmp_path, UPLOT)


def test_an_npm_is_asked_for_only_where_there_is_none_and_the_charts_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: list[Any] = [hatch_build.NPM_REQUIREMENT] if this_machine_is_published_for() else []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert expected == hook(tmp_path).dependencies()
    folder = hatch_build.folder_of(tmp_path, UPLOT)
    folder.mkdir(parents=True)
    (folder / "VERSION").write_text(UPLOT.version, encoding="utf-8")
    assert [] == hook(tmp_path).dependencies()


def test_a_machine_for_which_no_npm_is_published_still_builds() -> None:
    assert hatch_build.is_published_for("Linux", "x86_64")
    assert not hatch_build.is_published_for("Linux", "riscv64")
    assert not hatch_build.is_published_for("FreeBSD", "amd64")


def this_machine_is_published_for() -> bool:
    return hatch_build.is_published_for(platform.system(), platform.machine())
