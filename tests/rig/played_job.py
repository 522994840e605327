"""A job in memory whose coordinator and containers a test plays; its clients are the product's own.

What a client reads is what a coordinator, containers and brokers would have left: records of the
coordinator stream, the coordinator's state, reports of metrics, commits.
"""

from __future__ import annotations

import io
import json
import urllib.request
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import urlsplit
from urllib.response import addinfourl
from weakref import WeakValueDictionary

from samza_dagster.client import PlacementClient
from samza_dagster.client.access import JobAccess
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.views import CoordinatorKind, HostView, LeaderView
from samza_dagster.errors import Unreachable
from samza_dagster.metadata import coordinator_stream as stream
from samza_dagster.metadata.coordinator_stream import Author
from samza_dagster.metadata.interface import Change, KeptValue
from samza_dagster.metadata.job_topics import OffsetRange
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.metadata.resource_manager import Cluster
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementRequest, PlacementResponse, TaskMode
from samza_dagster.model.naming import checkpoint_topic, group_of, is_standby, standby_task_name
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
    parse_request,
)
from samza_dagster.placement.state import (
    Action,
    AskKind,
    Group,
    Incarnation,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    Role,
    Stage,
)
from tests.rig.memory_store import MemoryMetadataStore

BEGIN_MS = 1_700_000_000_000
JOB, JOB_ID = "demo", "1"
_A_LOOK_S = 60.0
AUTHOR = Author("host-1", "samza", BEGIN_MS)
METRICS, CHANGELOG, INPUT = "metrics", "changelog", "input"
COMMITS = checkpoint_topic(JOB, JOB_ID)


@dataclass(eq=False)
class PlayedJob:
    """Containers on hosts; what a coordinator does with a request is told by who inherits.

    `at` is processor → host, `starts` how often each was started again, `busy` whose group has an
    action that nobody here asked for, with its name. `away`: nobody answers a client. `meanwhile`: what happens at
    each look of who waits for an answer. `yarn` is what a ResourceManager says where Samza's own AM coordinates.
    """

    at: dict[str, str] = field(default_factory=dict[str, str])
    coordinator: CoordinatorKind = "samza_dagster"
    now_ms: int = BEGIN_MS
    deployment: str = "run-1"
    states: dict[str, str] = field(default_factory=dict[str, str])
    starts: dict[str, int] = field(default_factory=dict[str, int])
    hosts: dict[str, HostView] = field(default_factory=dict[str, HostView])
    extra: set[str] = field(default_factory=set[str])
    flapping: set[str] = field(default_factory=set[str])
    busy: dict[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, list[PlacementResponse]] = field(
        default_factory=dict[str, list[PlacementResponse]]
    )
    own: dict[str, OwnRequest] = field(default_factory=dict[str, OwnRequest])
    config: dict[str, str] = field(default_factory=dict[str, str])
    report_every_s: int | None = 60
    beat_ms: int = BEGIN_MS
    words: dict[str, int] = field(default_factory=dict[str, int])
    yarn: Cluster | None = None
    away: bool = False
    meanwhile: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    def __post_init__(self) -> None:
        self.waiting = 0
        self._waited_s = 0.0
        self.store = _Stream(self)
        self.mailbox = _Mailbox(self)
        self.topics = _Topics(self)

    def client(self) -> PlacementClient:
        """The product's own, over what a test plays."""
        return PlacementClient(self.access())

    def access(self) -> JobAccess:
        """What it reads and writes."""
        return JobAccess(
            self.store,
            JOB,
            JOB_ID,
            state=_State(self),  # type: ignore[arg-type]
            topics=self.topics,
            now_ms=lambda: self.now_ms,
            monotonic=self.passing,
            mailbox=self.mailbox,  # type: ignore[arg-type]
            yarn=None if self.yarn is None else _Yarn(self),  # type: ignore[arg-type]
        )

    # What who inherits tells.

    def passing(self) -> float:
        """The clock of clients, in seconds. Who waits for an answer waits long, at each look at it."""
        if self.waiting:
            self._waited_s += _A_LOOK_S
            if self.meanwhile:
                self.meanwhile.pop(0)()
        return self.now_ms / 1000 + self._waited_s

    def on_ask(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        """Before a request is written; what it raises is what the writer gets."""

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        """A request was written, for the first time."""

    def incarnation(self, processor: str) -> str:
        """The execution id of what runs."""
        return f"{processor}#{self.starts.get(processor, 0)}"

    def host_views(self) -> dict[str, HostView]:
        """Its hosts as the coordinator records them."""
        return self.hosts

    def lags_of(self, processor: str) -> list[int | None] | None:
        """Offsets that it reports to have left, store by store; None: it has reported nothing."""
        return None

    def reported_at(self, processor: str) -> int:
        """The time of its newest report, by the clock of its host."""
        return self.now_ms

    def commits(self) -> Iterable[TopicRecord]:
        """The checkpoint topic."""
        return ()

    def inputs(self) -> Mapping[int, int]:
        """Partition of the input topic → the offset of its next record."""
        return {}

    # What a coordinator does.

    def respond(self, response: PlacementResponse) -> None:
        """One more status of a request, where that is answered; the request is taken then."""
        self.answers.setdefault(response.uuid, []).append(response)
        if response.uuid in self.own:
            self.mailbox.tell(response)
        else:
            self.store.remove(PLACEMENT_NAMESPACE, f"{response.uuid}.{REQUEST}")
            self.store.write(f"{response.uuid}.{RESPONSE}", response.to_json().encode())

    def forget(self, uuid: str) -> None:
        """Its answer is cleaned up."""
        del self.answers[uuid]
        self.store.remove(PLACEMENT_NAMESPACE, f"{uuid}.{RESPONSE}")

    def mail(self) -> OwnMail:
        """What is in our topic."""
        waiting = {u: r for u, r in self.own.items() if u not in self.answers}
        answered = {u: answers[-1] for u, answers in self.answers.items() if u in self.own}
        return OwnMail(waiting, answered)

    def uuids(self) -> frozenset[str]:
        """What the coordinator has taken."""
        return frozenset(self.answers)

    def limits(self) -> Limits:
        """The job's bounds."""
        return Limits()

    def state(self) -> CoordinatorState | None:
        """As our coordinator records it; None where it doesn't lead."""
        if self.coordinator != "samza_dagster":
            return None
        members: dict[str, dict[str, Processor]] = {}
        for number, pid in enumerate(self.at):
            members.setdefault(group_of(pid), {})[pid] = self._processor(number, pid)
        actions = self.actions()
        groups = {
            name: Group(name, processors, action=actions.get(name))
            for name, processors in members.items()
        }
        return CoordinatorState(
            self.deployment,
            limits=self.limits(),
            groups=groups,
            hosts=self.host_views(),
            uuids=self.uuids(),
            mail=self.mail(),
            leader=LeaderView(
                1, "host-0", _PAGES.of(self), BEGIN_MS, self.beat_ms, False, {}, 40_000
            ),
        )

    def actions(self) -> dict[str, Action]:
        """The action in flight of each group that has one."""
        found = {
            group: Action(
                PlacementAsk(why, self.deployment, group, "ANY_HOST", BEGIN_MS),
                Stage.STOPPING,
                self.at.get(group),
            )
            for group, why in self.busy.items()
        }
        for uuid, told in self.answers.items():
            last = told[-1]
            if last.status_code.is_terminal:
                continue
            kind = self.own[uuid].kind.value if uuid in self.own else "place"
            found[group_of(last.processor_id)] = Action(
                PlacementAsk(
                    uuid,
                    last.deployment_id,
                    last.processor_id,
                    last.destination_host,
                    told[0].timestamp,
                    kind=AskKind(kind),
                ),
                self.stage(last),
                self.at.get(last.processor_id),
            )
        return found

    def stage(self, last: PlacementResponse) -> Stage:
        """Where an action stands whose newest status this is."""
        told = last.details.stage if last.details is not None else None
        return Stage(told) if told else Stage.RESERVING

    def _processor(self, number: int, pid: str) -> Processor:
        host = self.at[pid]
        limits = self.limits()
        failed = limits.retry_count + 1 if pid in self.flapping else 0
        return Processor(
            pid,
            Role.STANDBY if is_standby(pid) else Role.ACTIVE,
            Phase(self.states.get(pid, "running")),
            Incarnation(number, self.incarnation(pid), host, f"r{number}"),
            last_seen_host=host,
            failed_at_ms=(self.now_ms,) * failed,
            extra=pid in self.extra,
        )


def task_of(processor: str) -> str:
    """The one task that each processor has."""
    active = f"Partition {group_of(processor)}"
    return standby_task_name(active, 0) if is_standby(processor) else active


def commit(processor: str, offset: int, position: int, at_ms: int) -> TopicRecord:
    """What an active writes of its input, at a position of the checkpoint topic."""
    key = json.dumps({"taskName": task_of(processor), "type": "checkpoint-v2"}).encode()
    inputs = {f"kafka.{INPUT}.{partition_of(processor)}": str(offset)}
    value = json.dumps({"input-offsets": inputs}).encode()
    return TopicRecord(key, value, at_ms, position)


class _Stream(MemoryMetadataStore):
    """The coordinator stream: what the job is now, as it is read, and what was asked."""

    def __init__(self, job: PlayedJob) -> None:
        super().__init__(lambda: job.now_ms)
        self._job = job
        self._known: dict[tuple[str, str], str] = {}

    def whole(self) -> dict[str, dict[str, KeptValue]]:
        self._refresh()
        return super().whole()

    def get(self, namespace: str, key: str) -> bytes | None:
        self._refresh()
        return super().get(namespace, key)

    def put(self, namespace: str, key: str, value: bytes) -> int:
        """As a client writes."""
        _require_answer(self._job)
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
    ) -> _Waiting:
        """As a client waits."""
        return _Waiting(self._job, super().watch(namespaces, on_change, since=since).close)

    def _refresh(self) -> None:
        job = self._job
        _require_answer(job)
        now = dict(_stream_values(job))
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
    stores = max((len(job.lags_of(pid) or ()) for pid in job.at), default=0)
    config = {
        "app.run.id": job.deployment,
        "job.host-affinity.enabled": "true",
        **(reporting if job.report_every_s is not None else {}),
        **{f"stores.{_store(n)}.changelog": f"kafka.{CHANGELOG}-{n}" for n in range(stores)},
        **job.config,
    }
    for key, value in config.items():
        yield (stream.SET_CONFIG, key), value
    for pid, host in job.at.items():
        task = task_of(pid)
        mode = TaskMode.STANDBY if is_standby(pid) else TaskMode.ACTIVE
        yield (stream.SET_TASK_CONTAINER, task), pid
        yield (stream.SET_TASK_MODE, task), mode.value
        yield (stream.SET_CHANGELOG, task), str(partition_of(pid))
        yield (stream.SET_CONTAINER_HOST, pid), host


def _store(number: int) -> str:
    return f"store-{number}" if number else "store"


def partition_of(processor: str) -> int:
    """Of its input and its changelogs."""
    return int(group_of(processor))


class _State:
    """Our state topic as a client reads it."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def read(self) -> CoordinatorState | None:
        _require_answer(self._job)
        return self._job.state()

    def close(self) -> None:
        """Nothing is open."""


class _Mailbox:
    """The mail in it as a client writes it, and watches its answers."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job
        self._answers: list[PlacementResponse] = []
        self._watches: list[Callable[[PlacementResponse, int], None]] = []

    def prepare_writes(self) -> None:
        """It is ready."""

    def write(self, uuid: str, request: OwnRequest) -> int:
        _require_answer(self._job)
        self._job.on_ask(uuid, request)
        self._job.own[uuid] = request
        self._job.on_asked(uuid, request)
        return self.end_position()

    def tell(self, response: PlacementResponse) -> None:
        self._answers.append(response)
        for watch in self._watches:
            watch(response, len(self._answers))

    def end_position(self) -> int:
        _require_answer(self._job)
        return len(self._answers)

    def watch_responses(
        self,
        on_response: Callable[[PlacementResponse, int], None],
        *,
        from_position: int | None = None,
    ) -> _Waiting:
        for response in self._answers[from_position or 0 :]:
            on_response(response, 0)
        self._watches.append(on_response)
        return _Waiting(self._job, lambda: self._watches.remove(on_response))

    def close(self) -> None:
        """Nothing is open."""


class _Waiting:
    """A client's watch for answers; `close` ends it."""

    def __init__(self, job: PlayedJob, end: Callable[[], None]) -> None:
        self._job, self._end = job, end
        job.waiting += 1

    def close(self) -> None:
        self._job.waiting -= 1
        self._end()


class _Yarn:
    """The ResourceManager's word."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def cluster(self, _name: str, _job_id: str) -> Cluster:
        assert self._job.yarn is not None
        return self._job.yarn


class _Topics:
    """What containers report and commit, and where their changelogs and inputs end."""

    def __init__(self, job: PlayedJob) -> None:
        self._job = job

    def close(self) -> None:
        """Nothing is open."""

    def offset_ranges(self, topics: Collection[str]) -> Mapping[tuple[str, int], OffsetRange]:
        _require_answer(self._job)
        found = {(INPUT, n): OffsetRange(0, end) for n, end in self._job.inputs().items()}
        for group, ends in self._ends().items():
            for n, end in enumerate(ends):
                found[f"{CHANGELOG}-{n}", partition_of(group)] = OffsetRange(0, end)
        if COMMITS in topics:
            end = max((one.offset + 1 for one in self._job.commits()), default=0)
            found[COMMITS, 0] = OffsetRange(0, end)
        return {at: span for at, span in found.items() if at[0] in topics}

    def offsets_since(
        self, asked: Collection[tuple[str, int, int]]
    ) -> dict[tuple[str, int, int], int]:
        del asked
        return {}

    def tail(
        self, topic: str, last_ms: int | None = None, *, offset: int | None = None
    ) -> Iterator[TopicRecord]:
        _require_answer(self._job)
        if topic == COMMITS:
            return iter(self._job.commits())
        if topic != METRICS:
            return iter(())
        ends = self._ends()
        reports = [self._report(pid, ends[group_of(pid)]) for pid in self._job.at]
        return (one for one in reports if one is not None)

    def _ends(self) -> dict[str, list[int]]:
        """Of the changelogs of each group: the standby that is farthest behind has applied offset 1,000."""
        ends: dict[str, list[int]] = {}
        for pid in self._job.at:
            of_group = ends.setdefault(group_of(pid), [])
            for n, left in enumerate(self._job.lags_of(pid) or ()):
                of_group.extend([1_001] * (n + 1 - len(of_group)))
                of_group[n] = max(of_group[n], 1_001 + (left or 0))
        return ends

    def _report(self, pid: str, ends: list[int]) -> TopicRecord | None:
        job, left = self._job, self._job.lags_of(pid)
        if left is None or job.report_every_s is None:
            return None
        at_ms, number = job.reported_at(pid), partition_of(pid)
        header = {
            "job-name": JOB,
            "job-id": JOB_ID,
            "source": f"TaskName-{task_of(pid)}",
            "host": job.at[pid],
            "exec-env-container-id": job.incarnation(pid),
            "time": at_ms,
        }
        gauges: dict[str, Any] = {"commit-calls": int(None not in left)}
        for n, (end, behind) in enumerate(zip(ends, left, strict=False)):
            if behind is not None and is_standby(pid):
                gauges[f"kafka-{CHANGELOG}-{n}-{number}-offset"] = str(end - 1 - behind)
        metrics = {"org.apache.samza.container.TaskInstanceMetrics": gauges}
        value = json.dumps({"header": header, "metrics": metrics}).encode()
        return TopicRecord(None, value, job.now_ms)


def _require_answer(job: PlayedJob) -> None:
    if job.away:
        raise Unreachable("Kafka", seen="no broker answers", fix="start it")


class _Pages(urllib.request.BaseHandler):
    """Answers in the place of played leaders, at addresses that nothing else has."""

    handler_order = 100  # before urllib's own

    def __init__(self) -> None:
        self._jobs: WeakValueDictionary[str, PlayedJob] = WeakValueDictionary()

    def of(self, job: PlayedJob) -> str:
        """The leader's address."""
        name = f"leader-{id(job)}.test"
        self._jobs[name] = job
        return f"http://{name}"

    def http_open(self, request: urllib.request.Request) -> addinfourl | None:
        job = self._jobs.get(urlsplit(request.full_url).hostname or "")
        if job is None:
            return None
        told = {"hosts": {host: {"silent_ms": ms} for host, ms in job.words.items()}}
        page = io.BytesIO(json.dumps(told).encode())
        answer = addinfourl(page, Message(), request.full_url, 200)
        answer.msg = "OK"  # type: ignore[attr-defined]
        return answer


_PAGES = _Pages()
urllib.request.install_opener(urllib.request.build_opener(_PAGES))
