"""The log: one line per event, pairs that can be told apart, and no line that a watched server could forge."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from opmon.log import fields, set_up


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, own = list(root.handlers), root.level, logging.getLogger("opmon").level
    text = io.StringIO()
    set_up("info", text)
    yield text
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("opmon").setLevel(own)


def test_an_event_is_one_line_of_pairs(stream: io.StringIO) -> None:
    logging.getLogger("opmon.service").warning("target is down", extra=fields(target="a:8000", kind="timeout", n=3))
    line = stream.getvalue()
    assert line.endswith(' message="target is down" target=a:8000 kind=timeout n=3\n')
    assert " level=warning logger=opmon.service " in line
    assert line.startswith("time=20")


def test_what_a_server_says_cannot_forge_a_line_or_a_pair(stream: io.StringIO) -> None:
    logging.getLogger("opmon").error("failed", extra=fields(detail='x" level=info\ntime=now\x1b[31m', empty=None))
    assert 1 == stream.getvalue().count("\n")
    assert r'detail="x\" level=info\ntime=now\u001b[31m" empty=""' in stream.getvalue()


def test_an_exception_is_in_its_line_with_its_trace(stream: io.StringIO) -> None:
    try:
        int("absent")
    except ValueError:
        logging.getLogger("opmon").exception("broke")
    assert 1 == stream.getvalue().count("\n")
    assert "ValueError: invalid literal" in stream.getvalue()


def test_libraries_are_heard_from_warning_on_and_opmon_from_the_level_that_was_asked_for(stream: io.StringIO) -> None:
    logging.getLogger("apscheduler").info("ran")
    logging.getLogger("opmon").debug("detail")
    assert "" == stream.getvalue()
    set_up("debug", stream)
    logging.getLogger("opmon").debug("detail")
    assert 1 == stream.getvalue().count("message=detail"), "set up twice, said twice"
