"""A small world of containers, for the fake client: values that change as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import fake_am

from samza_dagster.client.requests import Request
from samza_dagster.client.views import (
    ActionView,
    CoordinatorKind,
    HostView,
    JobView,
    ProcessorView,
)
from samza_dagster.lag import NewestReadiness
from samza_dagster.metadata.resource_manager import Cluster
from samza_dagster.model import (
    PlacementRequest,
    PlacementResponse,
    ResponseDetails,
    StatusCode,
    TaskMode,
)
from samza_dagster.model.naming import LAST_SEEN
from samza_dagster.placement import texts

RESERVING = (StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED)
STANDBY_STOPPING = (StatusCode.IN_PROGRESS, texts.STANDBY_STOP_IN_PROGRESS)
STOPPING = (StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS)
SUCCEEDED, FAILED = StatusCode.SUCCEEDED, StatusCode.FAILED
BAD_REQUEST = StatusCode.BAD_REQUEST
EXPIRED = (FAILED, texts.expired("no room"))
NOT_STARTED = (FAILED, texts.start_failed("host-3", "host-1"))
HOLD_EXPIRED = (FAILED, texts.hold_expired("host-2"))
BEGIN_MS = 1_700_000_000_000
STAGES = {
    RESERVING: "reserving",
    STANDBY_STOPPING: "stopping-standby",
    STOPPING: "stopping",
}


@dataclass
class World:
    """Containers on hosts, and what the coordinator will answer to the next requests.

    Under Samza's own AM (`coordinator`) it is as `fake_am` says: hosts are then those that containers
    are on or were, and `any_host` is what the AM takes for ANY_HOST.

    `breaks` happens instead of the wait for a stage, `breaks_after` so many times that it is
    waited for; `after_answer` when a request of that kind ends. `too_late_to_cancel`: what was reserved is started before a cancel comes.
    `away_at` is the break, or the answer's text, with which Kafka goes and stays away.
    `yarn` is what a ResourceManager says there. `work_after`: so many looks see no commit yet. `earlier`: placements of somebody else.
    `reports_at_each_look`: of those at lags each sees a new report; else they come every
    `report_every_s` by its clock.
    """

    hosts: dict[str, HostView]
    at: dict[str, str]
    coordinator: CoordinatorKind = "samza_dagster"
    ends: list[tuple[StatusCode, str]] = field(default_factory=list)
    breaks: dict[str, BaseException] = field(default_factory=dict)
    processes: bool = True
    work_after: int = 0
    tells_lag: bool = True
    report_every_s: int | None = 60
    reports_at_each_look: bool = True
    looks: int = 0
    now_ms: int = BEGIN_MS
    asked: list[tuple[str, str]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    own: dict[str, Request] = field(default_factory=dict)
    requests: dict[str, PlacementRequest] = field(default_factory=dict)
    answers: dict[str, list[PlacementResponse]] = field(default_factory=dict)
    committed: dict[str, str] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    opened: int = 0
    closed: int = 0
    prepared: int = 0
    commits: int = 41
    since: int | None = None
    dying_for: int = 0
    left: str = ""
    lags: list[dict[str, list[int | None]]] = field(default_factory=list)
    lag_now: dict[str, list[int | None]] = field(default_factory=dict)
    newest: NewestReadiness = field(default_factory=NewestReadiness)
    extra: set[str] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)
    container_memory_mb: int | None = None
    slow: bool = False
    busiest: int = 0
    together: list[frozenset[str]] = field(default_factory=list)
    breaks_after: dict[str, int] = field(default_factory=dict)
    after_answer: dict[str, Callable[[], object]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    forgotten: set[str] = field(default_factory=set)
    too_late_to_cancel: bool = False
    away_at: str = ""
    is_away: bool = False
    origins: dict[str, str] = field(default_factory=dict)
    earlier: list[PlacementResponse] = field(default_factory=list)
    deployment: str = "run-1"
    host_affinity: bool = True
    any_host: str = "host-4"
    unreported: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    last_commit: dict[str, int] = field(default_factory=dict)
    yarn: Cluster | None = None

    @classmethod
    def demo(cls) -> World:
        """The demo job: actives on host-1 and host-2, standbys on host-3 and host-4."""
        free = {"host-1": 500, "host-2": 900, "host-3": 500, "host-4": 700}
        return cls(
            hosts={h: HostView(h, "alive", free_memory_mb=mb) for h, mb in free.items()},
            at={"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"},
        )

    def reported_ms(self) -> int:
        """The time of each container's newest report."""
        self.looks += 1
        every_ms = 1000 * (self.report_every_s or 60)
        return self.looks if self.reports_at_each_look else self.now_ms - self.now_ms % every_ms

    def view(self) -> JobView:
        """As the real client shows it."""
        if self.coordinator == "samza":
            return fake_am.view(self)
        return JobView(
            job_name="demo",
            job_id="1",
            deployment_id=self.deployment,
            processors={
                p: ProcessorView(
                    p,
                    TaskMode.STANDBY if "-" in p else TaskMode.ACTIVE,
                    self.states.get(p, "running"),
                    host,
                    f"{p}@{host}#{self.starts.get(p, 0)}",
                    (f"Partition {p[0]}",),
                    extra=p in self.extra,
                )
                for p, host in self.at.items()
            },
            hosts=dict(self.hosts),
            coordinator=self.coordinator,
            tells_lag=self.tells_lag,
            report_every_s=self.report_every_s,
            container_memory_mb=self.container_memory_mb,
            actions=tuple(self._actions()),
        )

    def _actions(self) -> Iterator[ActionView]:
        for uuid, answers in self.answers.items():
            last = answers[-1]
            if last.status_code.is_terminal:
                continue
            stage = STAGES.get((last.status_code, last.response_message), "held")
            if stage == "stopping" and self.dying_for <= 0:
                stage = "starting"
            elif stage == "stopping":
                self.dying_for -= 1
            yield ActionView(uuid, last.processor_id, last.destination_host, stage, last.timestamp)

    def is_waiting(self, uuid: str) -> bool:
        """Nobody has taken it, and it is there still."""
        return uuid in self.requests and uuid not in {*self.answers, *self.forgotten, *self.dropped}

    def ask(self, kind: str, processor_id: str, destination: str, uuid: str, expiry: float) -> None:
        """A request is written; each uuid has an effect once."""
        if uuid in self.requests and uuid not in self.dropped:
            return
        self.dropped.discard(uuid)
        self.requests[uuid] = PlacementRequest(
            uuid=uuid,
            deployment_id=self.deployment,
            processor_id=processor_id,
            destination_host=destination,
            timestamp=self.now_ms,
            request_expiry=int(expiry * 1000),
        )
        self.kinds[uuid] = kind
        open_now = [
            r.processor_id
            for u, r in self.requests.items()
            if not (self.answers.get(u) and self.answers[u][-1].status_code.is_terminal)
        ]
        self.busiest = max(self.busiest, len(open_now))
        self.together.append(frozenset(open_now))
        self.asked.append((processor_id, destination))

    def answer(
        self, uuid: str, status: StatusCode, message: str, *, started: str = ""
    ) -> PlacementResponse:
        """One more status of a request. `started`: another than the processor that it names."""
        self.now_ms += 250
        request = self.requests[uuid]
        response = PlacementResponse(
            uuid=uuid,
            deployment_id=request.deployment_id,
            processor_id=request.processor_id,
            destination_host=request.destination_host,
            status_code=status,
            timestamp=self.now_ms,
            response_message=message,
            details=self._details(request, status, message, started),
        )
        self.answers.setdefault(uuid, []).append(response)
        return response

    def _details(
        self, request: PlacementRequest, status: StatusCode, message: str, started: str
    ) -> ResponseDetails | None:
        """As our coordinator writes them, and Samza's AM doesn't."""
        pid, told = request.processor_id, (status, message)
        if self.coordinator == "samza":
            return None
        if status is StatusCode.IN_PROGRESS:
            stage = STAGES.get(told, "held")
            is_first = stage == "reserving" and request.uuid not in self.answers
            if is_first and request.destination_host == "STANDBY":
                stage = "reserving-standby"
            return ResponseDetails(stage=stage, stopped=(pid,) if stage == "stopping" else ())
        if status is SUCCEEDED and self.kinds[request.uuid] == "stop-standby":
            return ResponseDetails(stopped=(pid,))
        if status is SUCCEEDED:
            one = started or pid
            stopped = () if started else (pid,)
            return ResponseDetails(started=one, host=self.at.get(one), stopped=stopped)
        return ResponseDetails(stopped=(pid,) if told == NOT_STARTED else ())

    def go_on(self, uuid: str) -> PlacementResponse | None:
        """The coordinator's next status of a request; None while it waits for a commit."""
        if self.coordinator == "samza":
            return fake_am.go_on(self, uuid)
        request = self.requests[uuid]
        host, done = request.destination_host, self.answers.get(uuid, [])
        end = self.ends[0] if self.ends else (SUCCEEDED, f"started on {host}")
        if host == "STANDBY":
            way = [RESERVING, STANDBY_STOPPING, RESERVING, STOPPING]
            way = way[1:] if self.kinds[uuid] == "fail-over" else way
        elif self.kinds[uuid] == "start-standby":
            way = [RESERVING]
        elif self.kinds[uuid] == "stop-standby":
            way = [STOPPING]
        elif self.kinds[uuid] == "hold":
            way = [RESERVING, (StatusCode.IN_PROGRESS, texts.held(host, 120_000)), STOPPING]
        else:
            way = [RESERVING, STOPPING]
        too_early = {BAD_REQUEST: 0, EXPIRED: 1, HOLD_EXPIRED: 2}
        way = way[: too_early.get(end[0], too_early.get(end, len(way)))]
        if len(done) < len(way):
            uncommitted = self.kinds[uuid] == "hold" and uuid not in self.committed
            if way[len(done)] == STOPPING and uncommitted:
                return None
            if way[len(done)] == STANDBY_STOPPING:
                self.make_room(request.processor_id)
            return self.answer(uuid, *way[len(done)])
        if self.ends:
            self.ends.pop(0)
        if self.kinds[uuid] in self.after_answer:
            self.after_answer.pop(self.kinds[uuid])()
        if self.kinds[uuid] == "start-standby" and end[0] is SUCCEEDED:
            taken = {
                int(p.split("-")[1]) for p in self.at if p.startswith(f"{request.processor_id}-")
            }
            free = next(n for n in range(len(taken) + 1) if n not in taken)
            standby = f"{request.processor_id}-{free}"
            self.extra.add(standby)
            self.origins[standby] = uuid
            self._arrive(standby, host)
            said = texts.standby_started(standby, host)
            return self.answer(uuid, SUCCEEDED, said, started=standby)
        if self.kinds[uuid] == "stop-standby" and end[0] is SUCCEEDED:
            del self.at[request.processor_id]
            self.extra.discard(request.processor_id)
            return self.answer(uuid, SUCCEEDED, texts.standby_stopped(request.processor_id))
        if end[0] is SUCCEEDED:
            self._arrive(request.processor_id, host)
        return self.answer(uuid, *end)

    def clean_up(self) -> None:
        """The leader's cleaning: answers to what has ended are gone, their UUIDs are remembered."""
        for uuid, answers in list(self.answers.items()):
            if answers[-1].status_code.is_terminal:
                self.forgotten.add(uuid)
                del self.answers[uuid]

    def make_room(self, active: str) -> None:
        """The standby leaves; its host is the active's next."""
        self.left = self.at[f"{active}-0"]
        self._arrive(f"{active}-0", "host-2")

    def _arrive(self, processor_id: str, host: str) -> None:
        self.starts[processor_id] = self.starts.get(processor_id, 0) + 1
        if host == "STANDBY":
            host = self.left
        if host != LAST_SEEN:
            self.at[processor_id] = host
