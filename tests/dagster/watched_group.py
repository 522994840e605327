"""A standalone group as `auto_failover` sees it, in virtual time, with faults to inject.

Three locations, two tasks with a standby each (`tests.rig.standalone_job`). Every task reports and every active commits each five
seconds, until it is frozen; a processor is there until it is killed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from samza_dagster.client import PlacementClient
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.standalone.group import Barrier, BarrierState
from tests.rig.standalone_job import COMMITS, PLACES, GroupTopics, StandaloneJob, settled

BEGIN_MS = 1_000_000_000
EVERY_MS = 5_000
A_SECOND = 100
"""Records: the rate of each input and of each changelog."""
SESSION_AND_DEBOUNCE_S = 50


class WatchedGroup(StandaloneJob):
    """`frozen`: task → since when it does nothing. `stuck` tasks report and commit nothing.

    `behind` is how far a standby is, `stalled` ones stay where they were since then.
    """

    def __init__(self, places: Mapping[str, str] = PLACES, ids: str = "abc") -> None:
        super().__init__(settled(places, tuple(ids)))
        self.now_ms = BEGIN_MS
        self.topics = _Topics(self)
        self.frozen: dict[str, int] = {}
        self.stuck: dict[str, int] = {}
        self.behind: dict[str, int] = {}
        self.stalled: dict[str, int] = {}
        access = self.access(self.topics)
        self._client = PlacementClient(
            replace(access, now_ms=lambda: self.now_ms, monotonic=lambda: self.now_ms / 1_000)
        )

    def client(self) -> PlacementClient:
        """The product's own."""
        return self._client

    def until(self, ms: int) -> None:
        """Time goes on to there."""
        self.now_ms = ms

    def freeze(self, *tasks: str) -> None:
        """Their containers are stopped, and their processors live."""
        self.frozen |= dict.fromkeys(tasks, self.now_ms)

    def stick(self, task: str) -> None:
        """It reports, and processes nothing."""
        self.stuck[task] = self.now_ms

    def kill(self, *ids: str) -> None:
        """These processors' sessions are over; the others haven't agreed on anything yet."""
        left = tuple(m for m in self.group.members if m.processor_id not in ids)
        self.group = replace(self.group, members=left)

    def agree(self, places: Mapping[str, str]) -> None:
        """The processors that are there have agreed on that; what they start works."""
        after = settled(places, tuple(m.processor_id for m in self.group.members))
        self.group = replace(after, version=4, agreed=4, barrier=after.barrier)
        self.frozen, self.stuck = {}, {}

    def await_all(self, *joined: str) -> None:
        """The leader has published the next version, and not all have joined."""
        barrier = Barrier(BarrierState.NEW, frozenset(joined))
        self.group = replace(self.group, version=self.group.version + 1, barrier=barrier)


class _Topics(GroupTopics):
    _job: WatchedGroup

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        end = OffsetRange(0, _records(self._job.now_ms))
        known = {(topic, n): end for topic in ("log", "in") for n in (0, 1)}
        known[COMMITS, 0] = OffsetRange(0, 10)
        return {at: span for at, span in known.items() if at[0] in topics}

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord]:
        del last_ms, offset
        if topic != COMMITS:
            return iter([self._reported(*each) for each in self._job.places.items()])
        actives = [task for task in self._job.places if not task.startswith("Standby-")]
        return iter([self._committed(*each) for each in enumerate(actives)])

    def _committed(self, position: int, task: str) -> TopicRecord:
        at_ms = self._worked_ms(task, self._job.stuck)
        key = json.dumps({"taskName": task, "type": "checkpoint-v2"}).encode()
        inputs = {f"kafka.in.{_number(task)}": str(_records(at_ms) - 1)}
        return TopicRecord(key, json.dumps({"input-offsets": inputs}).encode(), at_ms, position)

    def _reported(self, task: str, processor_id: str) -> TopicRecord:
        at_ms = self._worked_ms(task, {})
        applied = _records(self._worked_ms(task, self._job.stalled)) - 1
        header = {
            "job-name": "j",
            "job-id": "1",
            "source": f"TaskName-{task}",
            "host": f"host-{processor_id}",
            "time": at_ms,
        }
        offset = str(applied - self._job.behind.get(task, 0))
        gauges = {f"kafka-log-{_number(task)}-offset": offset, "commit-calls": 1}
        metrics = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
        value = json.dumps({"header": header, "metrics": metrics}).encode()
        return TopicRecord(None, value, at_ms)

    def _worked_ms(self, task: str, since: Mapping[str, int]) -> int:
        """When it did that last."""
        now_ms = min(
            self._job.frozen.get(task, self._job.now_ms), since.get(task, self._job.now_ms)
        )
        return now_ms - now_ms % EVERY_MS


def _records(ms: int) -> int:
    return (ms - BEGIN_MS) * A_SECOND // 1_000 + 10_000_000


def _number(task: str) -> int:
    return int(task.split()[1].partition("-")[0])
