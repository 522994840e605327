"""A picture of the recorded job: what containers report, and what YARN says of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from samza_dagster.client.access import JobAccess
from samza_dagster.coordinator.shadow.picture import PictureReader
from samza_dagster.errors import Unreachable
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.resource_manager import ResourceManager
from samza_dagster.metadata.topic_reader import TopicRecord
from tests.rig.am_in_memory import AmInMemory
from tests.rig.am_rules import JOB
from tests.rig.task_report import task_report

pytestmark = pytest.mark.unit

CHANGELOG = "yw-lab-changelog"
ATTEMPT = "appattempt_1_0001_000001"
TASKS = {
    "0": ("Partition 0", "Partition 2"),
    "1": ("Partition 1", "Partition 3"),
    "0-0": ("Standby-Partition 0-0", "Standby-Partition 2-0"),
    "1-0": ("Standby-Partition 1-0", "Standby-Partition 3-0"),
}


@dataclass
class World:
    """The recorded AM, the topics of its containers and the ResourceManager beside it."""

    am: AmInMemory = field(default_factory=AmInMemory)
    executions: dict[str, str] = field(
        default_factory=lambda: {pid: f"c-{n}" for n, pid in enumerate(TASKS)}
    )
    running: set[str] = field(default_factory=lambda: {f"c-{n}" for n in range(4)})
    reported_ms: int = 1_000
    away: bool = False

    def reader(self, *, yarn: bool = True) -> PictureReader:
        manager = ResourceManager(
            ["http://rm:8088"], fetch=self.fetch, monotonic=lambda: self.am.now
        )
        access = JobAccess(
            self.am.store,
            JOB,
            topics=self,
            now_ms=self.am._now_ms,
            monotonic=lambda: self.am.now,
            yarn=manager if yarn else None,
        )
        return PictureReader(access, now_ms=self.am._now_ms, monotonic=lambda: self.am.now)

    def fetch(self, url: str) -> bytes:
        if url.endswith("/am"):
            raise OSError("no route to that node")
        if url.endswith("/appattempts"):
            attempts = [{"id": 1, "appAttemptId": ATTEMPT}]
            return json.dumps({"appAttempts": {"appAttempt": attempts}}).encode()
        if url.endswith("/containers"):
            found = [
                {"containerId": it, "assignedNodeId": "nm3:8041", "containerState": "RUNNING"}
                for it in sorted(self.running)
            ]
            return json.dumps({"containers": {"container": found}}).encode()
        document = json.loads(self.am._of_yarn(url))
        if "apps" in document:
            document["apps"]["app"][0]["amRPCAddress"] = "nm3:33257"
        return json.dumps(document).encode()

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord | Unreachable]:
        if self.away:
            raise Unreachable(f"read topic {topic}", seen="no broker answers")
        for pid, tasks in TASKS.items() if topic == "metrics" else ():
            for task in tasks:
                yield TopicRecord(None, self.report(pid, task), self.reported_ms)

    def report(self, pid: str, task: str) -> bytes:
        number = task.removeprefix("Standby-").split()[1][0]
        gauges: dict[str, Any] = {"commit-calls": 1}
        if "-" in pid:
            gauges = {f"kafka-{CHANGELOG}-{number}-offset": "90"}
        at = {"host": self.am.am.cluster.places[pid], "at_ms": self.reported_ms}
        return task_report(JOB, task, gauges, execution_id=self.executions[pid], **at)

    def offset_ranges(self, topics: Collection[str]) -> dict[tuple[str, int], OffsetRange]:
        found = {(CHANGELOG, n): OffsetRange(0, 100) for n in range(4)}
        return {at: span for at, span in found.items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        del asked
        return {}

    def close(self) -> None:
        """Nothing is open."""


def test_a_picture_has_starts_reports_lags_and_the_changelogs_of_each_task() -> None:
    picture = World().reader().read()
    assert set(picture.starts) == set(TASKS)
    assert {pid: start.host for pid, start in picture.starts.items()} == {
        "0": "nm1",
        "1": "nm2",
        "0-0": "nm2",
        "1-0": "nm1",
    }
    assert picture.reports["0"].execution_id == "c-0"
    assert picture.reports["0-0"].lag == 2 * 9
    assert picture.partitions["0-0"] == {
        "Standby-Partition 0-0": ((CHANGELOG, 0),),
        "Standby-Partition 2-0": ((CHANGELOG, 2),),
    }


def test_where_the_masters_page_cannot_be_reached_the_resource_manager_tells_what_runs() -> None:
    """Whose a container is the reports say, by its id."""
    world = World()
    reader = world.reader()
    assert (reader.read().executions or {}).keys() == TASKS.keys()
    world.running.discard("c-1")
    world.am.run(10)
    assert (reader.read().executions or {}).keys() == {"0", "0-0", "1-0"}


def test_without_yarn_nothing_is_known_of_what_runs() -> None:
    assert World().reader(yarn=False).read().executions is None


def test_reports_that_cannot_be_read_stay_as_they_were() -> None:
    world = World()
    reader = world.reader()
    before = reader.read()
    world.away = True
    for _ in range(10):
        world.am.run(5)
        picture = reader.read()
    assert picture.reports == before.reports
