"""A small world of containers whose coordinator goes on as it is waited for: values that change as asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import HostView
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import (
    PlacementRequest,
    PlacementResponse,
    ResponseDetails,
    StatusCode,
)
from samza_dagster.model.naming import LAST_SEEN, group_of, is_standby
from samza_dagster.model.own_requests import OwnRequest, RequestKind
from samza_dagster.placement import texts
from samza_dagster.placement.state import Limits, Stage
from tests.rig import stepped_am
from tests.rig.played_job import BEGIN_MS, PlayedJob
from tests.rig.played_topics import commit
from tests.rig.stepped_client import SteppedClient
from tests.rig.worker import Calls

RESERVING = (StatusCode.IN_PROGRESS, texts.RESOURCES_REQUESTED)
STANDBY_STOPPING = (StatusCode.IN_PROGRESS, texts.STANDBY_STOP_IN_PROGRESS)
STOPPING = (StatusCode.IN_PROGRESS, texts.STOP_IN_PROGRESS)
SUCCEEDED, FAILED = StatusCode.SUCCEEDED, StatusCode.FAILED
BAD_REQUEST = StatusCode.BAD_REQUEST
EXPIRED = (FAILED, texts.expired("no room"))
NOT_STARTED = (FAILED, texts.start_failed("host-3", "host-1"))
_LET_GO = "the reservation was not committed in time; the container runs on untouched"
HOLD_EXPIRED = (FAILED, texts.failed(_LET_GO))
STAGES = {
    RESERVING: "reserving",
    STANDBY_STOPPING: "stopping-standby",
    STOPPING: "stopping",
}
_BREAKS = {"lag": "lag", "checkpoints_end": "commits"}
"""Calls → the break that may happen in their place."""


@dataclass(eq=False)
class SteppedJob(PlayedJob):
    """Containers on hosts, and what the coordinator will answer to the next requests.

    Of a request that is waited for it goes on by one status each time that the one before was
    taken; so does one at its `goes_on_after`th look. Under Samza's own AM (`coordinator`) it is as `stepped_am` says: hosts are then those that containers
    are on or were, and `any_host` is what the AM takes for ANY_HOST.

    `breaks` happens instead of the wait for a stage, `breaks_after` so many times that it is
    waited for; `after_answer` when a request of that kind ends. `too_late_to_cancel`: what was reserved is started before a cancel comes.
    `away_at` is the break, or the answer's text, with which Kafka goes and stays away.
    `status_s`: it takes so long from each status to the next, by the clock of who waits.
    `late_ms` have passed beside that for who looks.
    `work_after`: so many looks see no commit yet. Each look at lags sees a new report.
    """

    ends: list[tuple[StatusCode, str]] = field(default_factory=list)
    breaks: dict[str, BaseException] = field(default_factory=dict)
    processes: bool = True
    work_after: int = 0
    looks: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    requests: dict[str, PlacementRequest] = field(default_factory=dict)
    committed: dict[str, str] = field(default_factory=dict)
    released: dict[str, str] = field(default_factory=dict)
    opened: int = 0
    closed: int = 0
    commits_end: int = 41
    since: int | None = None
    dying_for: int = 0
    left: str = ""
    lags: list[dict[str, list[int | None]]] = field(default_factory=list)
    lag_now: dict[str, list[int | None]] = field(default_factory=dict)
    container_memory_mb: int | None = None
    status_s: float = 0.0
    busiest: int = 0
    together: list[frozenset[str]] = field(default_factory=list)
    breaks_after: dict[str, int] = field(default_factory=dict)
    after_answer: dict[str, Callable[[], object]] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    forgotten: set[str] = field(default_factory=set)
    too_late_to_cancel: bool = False
    away_at: str = ""
    host_affinity: bool = True
    any_host: str = "host-4"
    unreported: dict[str, tuple[str, int]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    last_commit: dict[str, int] = field(default_factory=dict)
    lag_seen: dict[str, list[int | None]] = field(default_factory=dict)
    goes_on_after: int = 10
    late_ms: int = 0
    looked_at: Counter[str] = field(default_factory=Counter[str])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.calls = Calls(before=self._before)

    @classmethod
    def demo(cls) -> SteppedJob:
        """The demo job: actives on host-1 and host-2, standbys on host-3 and host-4."""
        free = {"host-1": 500, "host-2": 900, "host-3": 500, "host-4": 700}
        return cls(
            hosts={h: HostView(h, "alive", free_memory_mb=mb) for h, mb in free.items()},
            at={"0": "host-1", "1": "host-2", "0-0": "host-3", "1-0": "host-4"},
        )

    def client(self) -> PlacementClient:
        """A worker's, which may be killed at any call."""
        self.opened += 1
        return SteppedClient.of(super().client(), self)

    # What clients do.

    def _before(self, name: str, given: tuple[Any, ...]) -> None:
        if name in _BREAKS:
            self.breaks_at(_BREAKS[name])
        if name in ("lag", "standbys_now"):
            self.looks += 1
            self.lag_seen = self.lags.pop(0) if self.lags else self.lag_now
        elif name == "processing":
            processor, self.since = given
            self.work_after -= 1
            if self.processes and self.work_after < 0:
                self._commit(processor)
        elif name in ("view", "plan", "place"):
            stepped_am.look(self)

    def breaks_at(self, where: str) -> None:
        """What is to happen there happens."""
        if self.breaks_after.get(where, 0) and where in self.breaks:
            self.breaks_after[where] -= 1
            return
        error = self.breaks.pop(where, None)
        if error is not None:
            self.goes_away(where)
            raise error

    def goes_away(self, where: str) -> None:
        """With Kafka, where that is to go."""
        self.away = self.away or self.away_at == where

    def passing(self) -> float:
        return self.now_ms / 1000 + self._waited_s

    def pass_by(self, seconds: float) -> None:
        """By the clock of who waits."""
        self._waited_s += seconds

    def is_waiting(self, uuid: str) -> bool:
        """Nobody has taken it, and it is there still."""
        return uuid in self.requests and uuid not in {*self.answers, *self.forgotten, *self.dropped}

    def on_ask(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        if isinstance(request, OwnRequest) and request.kind is RequestKind.COMMIT:
            self.breaks_at("commit")

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        if not isinstance(request, OwnRequest) or request.refers_to is None:
            kind = request.kind.value if isinstance(request, OwnRequest) else "place"
            kind = "hold" if isinstance(request, OwnRequest) and request.hold else kind
            expiry_s = (request.request_expiry or 0) / 1000
            self.ask(kind, request.processor_id, request.destination_host, uuid, expiry_s)
            return
        about, told = request.refers_to, texts.committed(request.refers_to)
        if request.kind is RequestKind.COMMIT:
            self.committed[about] = uuid
        elif request.kind is RequestKind.RELEASE:
            self.released[about] = uuid
            self.answer(about, FAILED, texts.RELEASED)
            told = texts.ended_for(about, released=True)
        else:
            self.cancelled.append(about)
            self.answer(about, FAILED, texts.CANCELLED)
            told = texts.ended_for(about, released=False)
        self.carry_out(uuid, request, told)

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

    # What is to be seen of it.

    def advance(self) -> None:
        lags = [*self.lags, self.lag_now, self.lag_seen]
        self.stores = max((len(of) for lag in lags for of in lag.values()), default=0)
        self.config["job.host-affinity.enabled"] = str(self.host_affinity).lower()
        if self.container_memory_mb is not None:
            self.config["cluster-manager.container.memory.mb"] = str(self.container_memory_mb)

    def limits(self) -> Limits:
        return Limits(
            container_memory_mb=self.container_memory_mb or 1, host_affinity=self.host_affinity
        )

    def stage(self, last: PlacementResponse) -> Stage:
        found = super().stage(last)
        if found is Stage.STOPPING and self.dying_for > 0:
            self.dying_for -= 1
            return found
        if found is Stage.STOPPING or self.too_late_to_cancel:
            return Stage.STARTING
        return found

    def uuids(self) -> frozenset[str]:
        return super().uuids() | self.forgotten

    def incarnation(self, processor: str) -> str:
        return f"{processor}@{self.at[processor]}#{self.starts.get(processor, 0)}"

    def locality(self, processor: str) -> str:
        return self.unreported.get(processor, (self.at[processor], 0))[0]

    def has_state(self, processor: str) -> bool:
        lags = (*self.lags, self.lag_now, self.lag_seen)
        return group_of(processor) in {group_of(pid) for of in lags for pid in of}

    def lags_of(self, processor: str) -> list[int | None] | None:
        return self.lag_seen.get(processor)

    def reported_at(self, processor: str) -> int:
        return self.now_ms + self.looks

    def commits(self) -> Iterable[TopicRecord]:
        """Of each active one long ago and its newest, and the newest of all."""
        actives = [p for p in self.at if not is_standby(p)]
        found = [commit(p, 0, 0, BEGIN_MS) for p in actives]
        found += [commit(p, at, at, BEGIN_MS) for p, at in self.last_commit.items() if p in actives]
        end = self.commits_end - 1
        return [*found, commit("99", end, end, BEGIN_MS)]

    def _commit(self, processor: str) -> None:
        self.last_commit[processor] = self.commits_end
        self.commits_end += 1

    # What the coordinator does.

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
        self.respond(response)
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
            return stepped_am.go_on(self, uuid)
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
                self.forget(uuid)

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
