"""`samza-dagster snapshots stream` as a process: killed between its commits, beside others, and on a full disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.snapshots import Tables
from tests.rig.fleets import reports
from tests.rig.fleets.fleet import BEGAN_MS
from tests.rig.job import ROOT
from tests.rig.waiting import until
from tests.spark.conftest import Topics, newest
from tests.spark.test_fleet import END_MS, FLEET, JOBS, PARTITIONS, TOPIC, stream_of, write

pytestmark = pytest.mark.cluster
COMPARED = (
    *("job_name", "task_name", "store", "host", "applied_offset", "came_at", "process"),
    *("end_offset", "lag_records", "apply_per_s", "write_per_s"),
)


class Streaming:
    """The command over one directory of tables; its processes are killed as a group."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.tables = Tables(str(directory))
        self._arguments = [
            *("--bootstrap-servers", bootstrap, "--job", "job-*/1", "--uri", str(directory)),
            *("--json", "--every", "0"),
        ]
        self._log = directory.with_suffix(".log")
        self.running: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "samza_dagster.cli.main", "snapshots", "stream"]
        with self._log.open("ab") as log:
            self.running = subprocess.Popen(
                [*command, *self._arguments, *more],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )
        return self.running

    def kill(self) -> None:
        assert self.running is not None
        os.killpg(self.running.pid, signal.SIGKILL)
        self.running.communicate()
        self.running = None

    def once(self) -> dict[str, Any]:
        """One snapshot of a process that ends by itself, as it told of it."""
        out, _ = self.start("--once").communicate(timeout=120)
        assert self.running is not None
        assert self.running.returncode == 0, self._log.read_text()
        return json.loads(out)

    def commits(self, table: str) -> int:
        """Fails once the process has ended by itself."""
        if self.running is not None and self.running.poll() is not None:
            said = self.running.stdout.read() if self.running.stdout is not None else b""
            raise AssertionError(f"it ended: {said!r} {self._log.read_text()}")
        return len(list(Path(self.tables.location(table)).glob("_delta_log/*.json")))

    def until_more_than(self, before: int, table: str) -> None:
        """Another snapshot has written the table."""
        until(f"{table} is committed", lambda: self.commits(table) > before, seconds=120)

    def rows(self) -> list[tuple[Any, ...]]:
        """What the newest snapshot tells of each replica."""
        found = newest(self.tables, "changelog_lag")
        return sorted(tuple(map(str, (row[name] for name in COMPARED))) for row in found)


@pytest.fixture
def streaming(topics: Topics, tmp_path: Path) -> Iterator[Streaming]:
    made = Streaming(topics.bootstrap, tmp_path / "killed")
    yield made
    if made.running is not None and made.running.poll() is None:
        made.kill()


def test_a_stream_that_is_killed_at_any_commit_leaves_the_next_one_nothing(
    streaming: Streaming, topics: Topics, tmp_path: Path
) -> None:
    """Killed with some rows and no snapshot, and between two: the next one tells what new tables are told."""
    late_ms = time.time_ns() // 1_000_000 - (BEGAN_MS + END_MS)
    every = [one._replace(at_ms=one.at_ms + late_ms) for one in reports(FLEET, END_MS)]
    for job in JOBS:
        topics.create(f"__samza_coordinator_{job}_1")
        topics.fill(f"__samza_coordinator_{job}_1", stream_of(job))
    topics.create(TOPIC, PARTITIONS)
    part = len(every) // 4
    for number, table in enumerate(("changelog_lag", "task_locality", "snapshots")):
        write(topics, every[number * part : (number + 1) * part])
        before = streaming.commits(table)
        streaming.start()
        streaming.until_more_than(before, table)
        streaming.kill()
    write(topics, every[3 * part :])
    told = streaming.once()
    assert told["unread"] == told["unpublished"] == {}
    assert told["rows"]["standby_readiness"] > 0

    whole = Streaming(topics.bootstrap, tmp_path / "whole")
    whole.once()
    assert streaming.rows() == whole.rows()
    assert (
        subprocess.run(
            ["pgrep", "-f", str(tmp_path)], check=False, stdout=subprocess.DEVNULL
        ).returncode
        == 1
    )
