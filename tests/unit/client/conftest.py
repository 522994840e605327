"""A small job in memory: two actives with a standby each, on four hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from samza_dagster.client import HostView, PlacementClient
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementResponse, StatusCode, TaskMode
from samza_dagster.model.naming import group_of
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.model.placement_messages import PLACEMENT_NAMESPACE, RESPONSE
from samza_dagster.placement.state import (
    Group,
    Incarnation,
    Phase,
    PlacementAsk,
    Processor,
    Role,
    Stage,
)
from tests.rig.actions import action_at
from tests.rig.memory_store import MemoryMetadataStore

VECTORS = Path(__file__).parent / "vectors"
DEPLOYMENT = "1795264662180-8201457e"
AUTHOR = Author("host-1", "samza", 1_795_264_662_000)
CONFIG = {
    "app.run.id": DEPLOYMENT,
    "job.host-affinity.enabled": "true",
    "cluster-manager.container.memory.mb": "384",
    "cluster-manager.container.cpu.cores": "1",
    "stores.lab.changelog": "kafka.yw-lab-changelog",
    "metrics.reporters": "snapshot",
    "metrics.reporter.snapshot.stream": "kafka.metrics",
    "metrics.reporter.snapshot.interval": "5",
}
HOSTS = {"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"}
TASKS = {
    "Partition 0": "0",
    "Partition 1": "1",
    "Partition 2": "0",
    "Partition 3": "1",
    "Standby-Partition 0-0": "0-0",
    "Standby-Partition 1-0": "1-0",
    "Standby-Partition 2-0": "0-0",
    "Standby-Partition 3-0": "1-0",
}


@dataclass
class MemoryTopics:
    """Topics in memory, read as the job's other topics.

    `offset_at`: partition → the offset that it had at a time in ms, by its records' own times.
    """

    ranges: dict[tuple[str, int], OffsetRange] = field(default_factory=dict)
    records: dict[str, list[TopicRecord]] = field(default_factory=dict)
    offset_at: dict[tuple[str, int], Callable[[int], int]] = field(default_factory=dict)

    def close(self) -> None:
        """Nothing to release."""

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        written = {(t, 0): OffsetRange(0, len(r)) for t, r in self.records.items()}
        return {at: span for at, span in (written | self.ranges).items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        found: dict[tuple[str, int, int], int] = {}
        for topic, partition, ms in asked:
            offset_at = self.offset_at.get((topic, partition))
            if offset_at is not None and offset_at(ms) < self.ranges[topic, partition].end:
                found[topic, partition, ms] = offset_at(ms)
        return found

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord]:
        """As Kafka finds it: all behind the first record that isn't older than the newest by more."""
        numbered = [replace(r, offset=n) for n, r in enumerate(self.records.get(topic, []))]
        newest = max((r.timestamp_ms for r in numbered), default=0)
        since = [r.offset for r in numbered if r.timestamp_ms >= newest - (last_ms or newest)]
        start = min([*since, *([] if offset is None else [offset])], default=0)
        return iter(numbered[start:])

    def load(self, topic: str, vector: str) -> None:
        self.records[topic] = [
            TopicRecord(
                (line["key"] or "").encode() or None, (line["value"] or "").encode(), line["ts"]
            )
            for line in map(json.loads, (VECTORS / vector).read_text().splitlines())
        ]


@dataclass
class MemoryState:
    """What a leading coordinator would have recorded; None: none ever led."""

    state: CoordinatorState | None = None

    def read(self) -> CoordinatorState | None:
        return self.state

    def close(self) -> None:
        pass


@dataclass
class MemoryMailbox:
    """Our topic in memory: what is written is in the state's mail at once."""

    state: MemoryState
    watches: list[Any] = field(default_factory=list)
    position: int = 0

    def prepare_writes(self) -> None:
        pass

    def mail(self) -> OwnMail:
        return self.state.state.mail if self.state.state is not None else OwnMail()

    def put(self, **changes: Any) -> None:
        assert self.state.state is not None
        mail = replace(self.mail(), **changes)
        self.state.state = replace(self.state.state, mail=mail)
        self.position += 1

    def write(self, uuid: str, request: OwnRequest) -> int:
        self.put(requests={**self.mail().requests, uuid: request})
        return self.position

    def answer(self, response: PlacementResponse) -> None:
        """As the leader does: the answer, and the request is taken."""
        requests = {u: r for u, r in self.mail().requests.items() if u != response.uuid}
        responses = {**self.mail().responses, response.uuid: response}
        self.put(requests=requests, responses=responses)
        for watch in self.watches:
            watch(response, self.position)

    def delete_request(self, uuid: str) -> None:
        self.put(requests={u: r for u, r in self.mail().requests.items() if u != uuid})

    def delete_response(self, uuid: str) -> None:
        self.put(responses={u: r for u, r in self.mail().responses.items() if u != uuid})

    def end_position(self) -> int:
        return self.position

    def watch_responses(self, on_response: Any, *, from_position: int | None = None) -> Any:
        self.watches.append(on_response)
        for response in self.mail().responses.values():
            on_response(response, self.position)
        return self

    def close(self) -> None:
        pass


def running_state() -> CoordinatorState:
    groups: dict[str, Group] = {}
    for number, (active, standby) in enumerate((("0", "0-0"), ("1", "1-0"))):
        groups[active] = Group(
            group_id=active,
            processors={
                pid: Processor(
                    processor_id=pid,
                    role=Role.STANDBY if "-" in pid else Role.ACTIVE,
                    phase=Phase.RUNNING,
                    incarnation=Incarnation(number, f"{pid}-e{number}", HOSTS[pid], f"r{pid}"),
                    last_seen_host=HOSTS[pid],
                )
                for pid in (active, standby)
            },
        )
    return CoordinatorState(
        deployment_id=DEPLOYMENT,
        groups=groups,
        hosts={
            name: HostView(name, "alive", 1024, 640, 4, 3)
            for name in ("host-1", "host-2", "host-3", "host-4", "host-5")
        },
    )


@dataclass
class Job:
    """The job's stores, what a coordinator would write, and a client over them."""

    store: MemoryMetadataStore = field(default_factory=MemoryMetadataStore)
    topics: MemoryTopics = field(default_factory=MemoryTopics)
    coordinator: MemoryState = field(default_factory=MemoryState)
    now_ms: int = 1_795_264_720_000

    def __post_init__(self) -> None:
        records = [stream.set_config(AUTHOR, key, value) for key, value in CONFIG.items()]
        for task, processor_id in TASKS.items():
            mode = TaskMode.STANDBY if "-" in processor_id else TaskMode.ACTIVE
            records.append(stream.set_task_container(AUTHOR, task, processor_id))
            records.append(stream.set_task_mode(AUTHOR, task, mode))
            records.append(stream.set_changelog(AUTHOR, task, int(task.split(" ")[1][0])))
        records += [stream.set_container_host(AUTHOR, pid, host) for pid, host in HOSTS.items()]
        for record in records:
            assert record.value is not None
            self.store.put(record.namespace, record.key, record.value)

    @property
    def mailbox(self) -> MemoryMailbox:
        self._mailbox = getattr(self, "_mailbox", None) or MemoryMailbox(self.coordinator)
        return self._mailbox

    def client(self, **options: Any) -> PlacementClient:
        return PlacementClient.over(
            self.store,
            job_name="yw",
            state=self.coordinator,
            topics=self.topics,
            now_ms=lambda: self.now_ms,
            mailbox=self.mailbox,
            **options,
        )

    def led_by_ours(self, **changes: Any) -> CoordinatorState:
        self.coordinator.state = replace(running_state(), **changes)
        return self.coordinator.state

    def configure(self, key: str, value: str | None) -> None:
        if value is None:
            self.store.remove(stream.SET_CONFIG, key)
        else:
            record = stream.set_config(AUTHOR, key, value)
            assert record.value is not None
            self.store.put(record.namespace, record.key, record.value)

    def respond(self, uuid: str, status: StatusCode, message: str, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "uuid": uuid,
            "deployment_id": DEPLOYMENT,
            "processor_id": "0",
            "destination_host": "host-2",
            "status_code": status,
            "timestamp": self.now_ms,
            "response_message": message,
        }
        response = PlacementResponse(**{**fields, **changes})
        self.store.put(PLACEMENT_NAMESPACE, f"{uuid}.{RESPONSE}", response.to_json().encode())


@pytest.fixture
def job() -> Job:
    return Job()


@pytest.fixture(scope="session")
def make_job() -> Callable[[], Job]:
    return Job


@pytest.fixture
def moving() -> Callable[..., CoordinatorState]:
    """The state with an action in flight: processor, destination."""

    def with_action(
        state: CoordinatorState, processor_id: str, host: str, stage: Stage = Stage.RESERVING
    ) -> CoordinatorState:
        group_id = group_of(processor_id)
        ask = PlacementAsk(
            "11111111-1111-4111-8111-111111111111", DEPLOYMENT, processor_id, host, 1_000
        )
        action = action_at(stage, ask, HOSTS[processor_id])
        group = replace(state.groups[group_id], action=action)
        return replace(state, groups={**state.groups, group_id: group})

    return with_action
