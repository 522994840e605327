"""What stays of a container's output, and how much disk it takes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from samza_dagster.agent import container_log
from samza_dagster.agent.container_log import cut

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
