"""The logs of containers, and an agent's own."""

from __future__ import annotations

import errno
import io
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.agent import container_log
from samza_dagster.agent.container_log import cut
from samza_dagster.agent.logs import about, log_as, process_is

pytestmark = pytest.mark.unit

KEPT = 1000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "container.log"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return tmp_path / "container.log.1"


def test_half_of_what_is_kept_stays_where_it_is(log: Path, older: Path) -> None:
    """Nothing is copied that needn't be."""
    log.write_bytes(b"x" * (KEPT // 2))
    cut(log, KEPT)
    assert log.stat().st_size == KEPT // 2
    assert not older.exists()


def test_more_than_that_goes_to_the_older_log_without_its_oldest_part(
    log: Path, older: Path
) -> None:
    """What is written after the cut, by who has the file open, is at its beginning."""
    older.write_bytes(b"older still")
    with log.open("ab", buffering=0) as container:
        container.write(b"a" * 300 + b"b" * (KEPT // 2))
        cut(log, KEPT)
        container.write(b"c")
    assert older.read_bytes() == b"b" * (KEPT // 2)
    assert log.read_bytes() == b"c"
    assert older.stat().st_mode & 0o777 == 0o600


def test_on_a_full_disk_it_is_cut_all_the_same(
    log: Path,
    older: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Room for the lease is worth more than old output."""

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(container_log, "_copy", full_disk)
    older.write_bytes(b"older still")
    log.write_bytes(b"x" * KEPT)
    cut(log, KEPT)
    assert log.stat().st_size == 0
    assert not older.exists()
    assert "No space left" in caplog.text


def test_one_that_prints_faster_than_it_is_copied_is_cut(
    log: Path, older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log has no end: as much as is kept of it is copied, and no more."""
    monkeypatch.setattr(container_log, "_CHUNK", 1)
    log.write_bytes(b"x" * KEPT)
    read = container_log._copy

    def copy(stream: object, to: Path, *, at_most: int) -> None:
        class Endless:
            def read(self, size: int) -> bytes:
                return b"y" * size

        read(Endless(), to, at_most=at_most)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(container_log, "_copy", copy)
    cut(log, KEPT)
    assert older.stat().st_size == KEPT
    assert log.stat().st_size == 0


# Log lines as JSON: one object a line, with the ids of what they are about.

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
