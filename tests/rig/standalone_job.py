"""A standalone group in memory, for clients: three locations, two tasks with a standby each, and a leader that
carries out what it is asked at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from samza_dagster.client.access import JobAccess
from samza_dagster.client.group import GroupReader
from samza_dagster.metadata.job_topics import JobTopics, OffsetRange
from samza_dagster.metadata.placement_store import ContainerPlacementMetadataStore
from samza_dagster.metadata.published_config import publish_config
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import (
    ContainerModel,
    JobModel,
    PlacementRequest,
    PlacementResponse,
    StatusCode,
    SystemStreamPartition,
    TaskMode,
    TaskModel,
)
from samza_dagster.model.naming import (
    STANDALONE_DEPLOYMENT,
    STANDBY,
    checkpoint_topic,
    standby_task_name,
)
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, REQUEST, parse_request
from samza_dagster.standalone.group import Barrier, BarrierState, GroupView, Member, Pin, Running
from tests.rig.memory_store import MemoryMetadataStore

CONFIG = {
    "job.name": "j",
    "stores.s.changelog": "kafka.log",
    "metrics.reporters": "snapshot",
    "metrics.reporter.snapshot.stream": "kafka.metrics",
    "metrics.reporter.snapshot.interval": "5",
    "systems.kafka.consumer.sasl.password": "s3cret",
}
COMMITS = checkpoint_topic("j", "1")
PLACES = {"P 0": "a", "P 1": "b", "Standby-P 0-0": "b", "Standby-P 1-0": "c"}
"""Task → its processor; `a` is at `host-a`, and so on."""


def model_of(places: Mapping[str, str], *ids: str) -> JobModel:
    """The JobModel that has each task at its processor; `ids` have a container, be it without a task."""
    tasks: dict[str, dict[str, TaskModel]] = {pid: {} for pid in ids}
    for name, pid in places.items():
        number = int(name.split()[1].partition("-")[0])
        tasks.setdefault(pid, {})[name] = TaskModel(
            task_name=name,
            system_stream_partitions=(
                SystemStreamPartition(system="kafka", partition=number, stream="in"),
            ),
            changelog_partition=number,
            task_mode=TaskMode.STANDBY if name.startswith("Standby-") else TaskMode.ACTIVE,
        )
    containers = {p: ContainerModel(processor_id=p, tasks=each) for p, each in tasks.items()}
    return JobModel(config={}, containers=containers)


def settled(
    places: Mapping[str, str] = PLACES, ids: tuple[str, ...] = ("a", "b", "c")
) -> GroupView:
    """A group that has agreed, and whose tasks run."""
    return GroupView(
        members=tuple(Member(f"{n:010d}", pid, f"host-{pid}") for n, pid in enumerate(ids)),
        version=3,
        agreed=3,
        model=model_of(places, *ids),
        barrier=Barrier(BarrierState.DONE, frozenset(ids)),
        locality={task: f"host-{pid}" for task, pid in places.items()},
        running={f"{n:010d}": Running(3) for n, _ in enumerate(ids)},
    )


class LedStore(MemoryMetadataStore):
    """Calls `taken` with each request as it is written, before the writer goes on."""

    taken: Callable[[PlacementRequest], None] = lambda _: None

    def put(self, namespace: str, key: str, value: bytes) -> int:
        position = super().put(namespace, key, value)
        if namespace == PLACEMENT_NAMESPACE and key.endswith(REQUEST):
            self.taken(parse_request(value))
        return position


class GroupTopics:
    """The topics of containers that work: at each look every active has committed more, and every task reported.

    A standby has applied all but `behind` records of its changelog's hundred. `reported_from`: what is
    reported is still of where tasks were then.
    """

    def __init__(self, job: StandaloneJob) -> None:
        self._job = job
        self._commits: list[TopicRecord] = []
        self._looks = 0
        self.behind = 0
        self.reported_from: Mapping[str, str] | None = None

    def close(self) -> None:
        """Nothing is held."""

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        known = {("log", n): OffsetRange(0, 100) for n in (0, 1)}
        known[COMMITS, 0] = OffsetRange(0, len(self._commits))
        return {at: span for at, span in known.items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        del asked
        return {}

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord]:
        del last_ms
        self._looks += 1
        places = self.reported_from or self._job.places
        if topic != COMMITS:
            return iter([self._report(task, pid) for task, pid in places.items()])
        actives = [task for task in self._job.places if not task.startswith("Standby-")]
        for task in actives:
            key = json.dumps({"taskName": task, "type": "checkpoint-v2"}).encode()
            offsets = {"input-offsets": {"kafka.in.0": str(self._looks)}}
            at = len(self._commits)
            self._commits.append(TopicRecord(key, json.dumps(offsets).encode(), self._looks, at))
        return iter(self._commits[offset or 0 :])

    def _report(self, task: str, processor_id: str) -> TopicRecord:
        header = {
            "job-name": "j",
            "job-id": "1",
            "source": f"TaskName-{task}",
            "host": f"host-{processor_id}",
            "time": self._looks * 1_000,
        }
        number = task.split()[1].partition("-")[0]
        gauges = {f"kafka-log-{number}-offset": str(99 - self.behind), "commit-calls": self._looks}
        metrics = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
        value = json.dumps({"header": header, "metrics": metrics}).encode()
        return TopicRecord(None, value, self._looks * 1_000)


@dataclass
class StandaloneJob:
    """`group` is the group but for what was asked of it; with `leads` off nobody answers."""

    group: GroupView = field(default_factory=settled)
    store: LedStore = field(default_factory=LedStore)
    leads: bool = True
    on_placed: Callable[[PlacementRequest], None] = lambda _: None
    asked: list[PlacementRequest] = field(default_factory=list[PlacementRequest])

    def __post_init__(self) -> None:
        publish_config(self.store, CONFIG)
        self.messages = ContainerPlacementMetadataStore(self.store)
        self.store.taken = self._take
        self.topics = GroupTopics(self)

    def reader(self) -> GroupReader:
        """As a session with ZooKeeper reads it."""
        responses = {response.uuid: response for response in self.messages.responses()}
        waiting = tuple(r for r in self.messages.requests() if r.uuid not in responses)
        seen = replace(self.group, requests=waiting, responses=responses)
        return GroupReader(lambda: seen, self.store)

    def close(self) -> None:
        """No session is held."""

    def access(self, topics: JobTopics | None = None) -> JobAccess:
        """What a client reads and writes of it."""
        return JobAccess(self.store, "j", topics=topics, group=self)

    @property
    def places(self) -> dict[str, str]:
        """Task → its processor."""
        assert self.group.model is not None
        return {t: pid for pid, c in self.group.model.containers.items() for t in c.tasks}

    def _take(self, request: PlacementRequest) -> None:
        self.asked.append(request)
        if self.leads:
            self._answer(request, StatusCode.IN_PROGRESS, "taken up")
            self._carry_out(request)
            self.on_placed(request)
            self._answer(request, StatusCode.SUCCEEDED, f"{request.processor_id} has started")

    def _carry_out(self, request: PlacementRequest) -> None:
        places, task, pins = self.places, request.processor_id, dict(self.group.pins)
        if task not in places:
            return  # a processor restarts
        moves = {task: request.destination_host.removeprefix("host-")}
        if request.destination_host == STANDBY:
            standby = standby_task_name(task, 0)
            moves = {task: places[standby], standby: places[task]}
        pins |= {each: Pin(f"host-{pid}", request.uuid) for each, pid in moves.items()}
        after = settled({**places, **moves}, tuple(m.processor_id for m in self.group.members))
        version = self.group.version + 1
        running = {sequence: Running(version) for sequence in after.running}
        self.group = replace(after, version=version, agreed=version, pins=pins, running=running)

    def _answer(self, request: PlacementRequest, status: StatusCode, message: str) -> None:
        self.messages.write_response(
            PlacementResponse(
                uuid=request.uuid,
                deployment_id=STANDALONE_DEPLOYMENT,
                processor_id=request.processor_id,
                destination_host=request.destination_host,
                status_code=status,
                timestamp=request.timestamp + 1,
                response_message=message,
            )
        )
