"""Log lines as JSON: one object a line, with the ids of what they are about."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from samza_dagster.agent.logs import about, log_as, process_is

pytestmark = pytest.mark.unit
LOG = logging.getLogger("samza_dagster.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the process logs to meanwhile; pytest's own handlers come back."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    yield io.StringIO()
    root.handlers[:] = before
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_what_the_process_is_and_what_the_block_is_about(stream: io.StringIO) -> None:
    """The inner block's ids over the outer one's; after it they are gone."""
    log_as("json", {"part": "coordinator", "job": "orders-1"}, stream)
    process_is(run="r-1", epoch=3)
    with about(request="u-1", group="0", execution=None):
        with about(execution="e-1"):
            LOG.info("%s is started", "0")
        LOG.warning("a line\nof two")
    LOG.info("nothing in hand")
    inner, outer, none = lines(stream)
    assert inner == {
        "time": inner["time"],
        "level": "INFO",
        "logger": "samza_dagster.test",
        "message": "0 is started",
        "part": "coordinator",
        "job": "orders-1",
        "run": "r-1",
        "epoch": 3,
        "request": "u-1",
        "group": "0",
        "execution": "e-1",
    }
    assert inner["time"].endswith("Z")
    assert ("execution" in outer, outer["request"]) == (False, "u-1")
    assert outer["message"] == "a line\nof two"
    assert "request" not in none


def test_a_traceback_is_a_field_of_its_line(stream: io.StringIO) -> None:
    log_as("json", {}, stream)
    try:
        raise ValueError("wrong")
    except ValueError:
        LOG.exception("it failed")
    (line,) = lines(stream)
    assert line["message"] == "it failed"
    assert "ValueError: wrong" in line["exception"]


def test_another_threads_lines_are_about_something_else(stream: io.StringIO) -> None:
    log_as("json", {"part": "agent"}, stream)
    with about(execution="e-1"):
        other = threading.Thread(target=LOG.info, args=("beside",))
        other.start()
        other.join()
    (line,) = lines(stream)
    assert (line["part"], "execution" in line) == ("agent", False)


def test_text_is_for_people(stream: io.StringIO) -> None:
    """As it always was."""
    log_as("text", {"part": "agent"}, stream)
    with about(execution="e-1"):
        LOG.info("hello")
    assert stream.getvalue().endswith(" INFO hello\n")
