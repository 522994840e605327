"""The stores of a played job (`played_job`), as a client reads, writes and watches them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.errors import Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.interface import Change, KeptValue
from samza_dagster.metadata.resource_manager import Cluster
from samza_dagster.model import PlacementResponse, TaskMode
from samza_dagster.model.naming import checkpoint_topic, group_of, is_standby, standby_task_name
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    parse_request,
)
from tests.rig.memory_store import MemoryMetadataStore

if TYPE_CHECKING:
    from tests.rig.played_job import PlayedJob

BEGIN_MS = 1_700_000_000_000
JOB, JOB_ID = "demo", "1"
AUTHOR = Author("host-1", "samza", BEGIN_MS)
METRICS, CHANGELOG, INPUT = "metrics", "changelog", "input"
COMMITS = checkpoint_topic(JOB, JOB_ID)


def task_of(processor: str) -> str:
    """The one task that each processor has."""
    group, _, replica = processor.partition("-")
    active = f"Partition {group}"
    return standby_task_name(active, int(replica)) if replica else active


def partition_of(processor: str) -> int:
    """Of its input and its changelogs."""
    return int(group_of(processor))


def require_answer(job: PlayedJob) -> None:
    """Before each read and write."""
    if job.away:
        raise Unreachable("Kafka", seen="no broker answers", fix="start it")
    job.advance()


class Stream(MemoryMetadataStore):
    """The coordinator stream: what the job is now, as it is read, and what was asked."""

    def __init__(self, job: PlayedJob) -> None:
        super().__init__(lambda: job.now_ms)
        self._job = job
        self._known: dict[tuple[str, str], str] = {}
        self._facts: object = None

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        self._refresh()
        return super().whole()

    def get(self, namespace: str, key: str) -> bytes | None:
        self._refresh()
        return super().get(namespace, key)

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """As a client writes."""
        require_answer(self._job)
        request = parse_request(value)
        self._job.on_ask(request.uuid, request)
        position = super().put(namespace, key, value)
        self._job.on_asked(request.uuid, request)
        return position

    def write(self, key: str, value: bytes) -> int:
        """As the coordinator writes a placement message."""
        return super().put(PLACEMENT_NAMESPACE, key, value)

    def watch(
        self,
        namespaces: Collection[str],
        on_change: Callable[[Change], None],
        *,
        since: int | None = None,
    ) -> Waiting:
        """As a client waits."""
        return Waiting(self._job, super().watch(namespaces, on_change, since=since).close)

    def _refresh(self) -> None:
        job = self._job
        require_answer(job)
        at = {pid: job.locality(pid) for pid in job.at}
        stateful = frozenset(filter(job.has_state, job.at))
        facts = (job.deployment, at, {**job.config}, job.report_every_s, job.stores, stateful)
        if facts == self._facts:
            return
        self._facts, now = facts, dict(_stream_values(job))
        for of in self._known.keys() - now.keys():
            self.remove(*of)
        for (namespace, key), value in now.items():
            if self._known.get((namespace, key)) != value:
                record = _RECORDS[namespace](key, value)
                assert record.value is not None
                super().put(record.namespace, record.key, record.value)
        self._known = now


_RECORDS: dict[str, Callable[[str, str], stream.StreamRecord]] = {
    stream.SET_CONFIG: lambda key, value: stream.set_config(AUTHOR, key, value),
    stream.SET_TASK_CONTAINER: lambda key, value: stream.set_task_container(AUTHOR, key, value),
    stream.SET_TASK_MODE: lambda key, value: stream.set_task_mode(AUTHOR, key, TaskMode(value)),
    stream.SET_CHANGELOG: lambda key, value: stream.set_changelog(AUTHOR, key, int(value)),
    stream.SET_CONTAINER_HOST: lambda key, value: stream.set_container_host(AUTHOR, key, value),
}


def _stream_values(job: PlayedJob) -> Iterator[tuple[tuple[str, str], str]]:
    reporting = {
        "metrics.reporters": "snapshot",
        "metrics.reporter.snapshot.stream": "kafka.metrics",
    }
    if job.report_every_s is not None:
        reporting["metrics.reporter.snapshot.interval"] = str(job.report_every_s)
    config = {
        "app.run.id": job.deployment,
        "job.host-affinity.enabled": "true",
        **(reporting if job.report_every_s is not None else {}),
        **{f"stores.{_store(n)}.changelog": f"kafka.{CHANGELOG}-{n}" for n in range(job.stores)},
        **job.config,
    }
    for key, value in config.items():
        yield (stream.SET_CONFIG, key), value
    for pid in job.at:
        task = task_of(pid)
        mode = TaskMode.STANDBY if is_standby(pid) else TaskMode.ACTIVE
        yield (stream.SET_TASK_CONTAINER, task), pid
        yield (stream.SET_TASK_MODE, task), mode.value
        if job.has_state(pid):
            yield (stream.SET_CHANGELOG, task), str(partition_of(pid))
        yield (stream.SET_CONTAINER_HOST, pid), job.locality(pid)


def _store(number: int) -> str:
    return f"store-{number}" if number else "store"


class State:
    """Our state topic as a client reads it."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def read(self) -> CoordinatorState | None:
        require_answer(self._job)
        return self._job.state()

    def close(self) -> None:
        """Nothing is open."""


class Mailbox:
    """The mail in it as a client writes it, and watches its answers."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job
        self._answers: list[PlacementResponse] = []
        self._watches: list[Callable[[PlacementResponse, int], None]] = []

    def prepare_writes(self) -> None:
        """It is ready."""

    def write(self, uuid: str, request: OwnRequest) -> int:
        require_answer(self._job)
        self._job.on_ask(uuid, request)
        self._job.own[uuid] = request
        self._job.on_asked(uuid, request)
        return self.end_position()

    def tell(self, response: PlacementResponse) -> None:
        self._answers.append(response)
        for watch in self._watches:
            watch(response, len(self._answers))

    def end_position(self) -> int:
        require_answer(self._job)
        return len(self._answers)

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, int], None],
        *,
        from_position: int | None = None,
    ) -> Waiting:
        for response in self._answers[from_position or 0 :]:
            on_response(response, 0)
        self._watches.append(on_response)
        return Waiting(self._job, lambda: self._watches.remove(on_response))

    def close(self) -> None:
        """Nothing is open."""


class Waiting:
    """A client's watch for answers; `close` ends it."""

    def __init__(self, job: PlayedJob, end: Callable[[], None]) -> None:
        self._job, self._end = job, end
        job.waiting += 1

    def close(self) -> None:
        self._job.waiting -= 1
        self._end()


class Yarn:
    """The ResourceManager's word."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def cluster(self, _name: str, _job_id: str) -> Cluster:
        assert self._job.yarn is not None
        return self._job.yarn
