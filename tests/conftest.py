"""What all tests share: the `needs` marker, the profiles of hypothesis, and the closing word on what was left out.

Contains no fixtures of a single room; those stand beside its tests.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests.needs import NEEDS, is_required, missing

# Bounded and the same on every run; `make fuzz` takes the other one, whose examples differ from run to run.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "fuzz", deadline=None, max_examples=1_000, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")


# Tests that wait on the real clock for minutes: begun first, so that the others run beside them.
LONG = (
    "tests/hostile/test_flood.py",
    "tests/test_service.py",
    "tests/test_clock_steps.py",
    "tests/performance/test_soak.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first; those with a browser last.

    Playwright keeps an event loop running in its thread until the session ends, and no other test can run one there.
    """

    def place(item: pytest.Item) -> int:
        if "browser" in getattr(item, "fixturenames", ()):
            return 2
        return 0 if item.nodeid.startswith(LONG) else 1

    items.sort(key=place)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Binary content is no part of a test's name: gzip writes the time into it, and two workers then disagree."""
    is_binary = isinstance(val, bytes) and not (val.isascii() and val.decode("ascii").isprintable())
    return argname if is_binary else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not there, or fail it where OPMON_REQUIRE names them."""
    required = os.environ.get("OPMON_REQUIRE", "")
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            if name not in NEEDS:
                pytest.fail(f"needs({name!r}) is not in tests/needs.py, which knows {', '.join(sorted(NEEDS))}")
            reason = missing(name)
            if reason and is_required(name, required):
                pytest.fail(f"{reason} (OPMON_REQUIRE={required} asks for it)", pytrace=False)
            if reason:
                pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out for want of something, and how to bring it."""
    left_out: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if reason.startswith("needs "):
                left_out[reason] += 1
    terminalreporter.section("left out")
    if not left_out:
        terminalreporter.line("nothing for want of something")
    for reason, count in sorted(left_out.items()):
        terminalreporter.line(f"{count} test{'s' if count > 1 else ''}: {reason}")
