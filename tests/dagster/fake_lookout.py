"""A job as the sensors see it: containers, hosts, words and lags that tests change at will."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.client.requests import Asked, Wanted
from samza_dagster.client.responses import terminal
from samza_dagster.client.views import (
    ActionView,
    CoordinatorKind,
    FailoverView,
    HostView,
    InputLag,
    JobView,
    LeaderView,
    Look,
    OrphanView,
    ProcessorView,
    ReplicaLag,
)
from samza_dagster.errors import DeadlineExceeded, Unreachable
from samza_dagster.lag import NewestReadiness
from samza_dagster.model import (
    LocalityModel,
    PlacementRequest,
    PlacementResponse,
    ProcessorLocality,
    StatusCode,
    TaskMode,
)
from samza_dagster.model.naming import group_of, is_standby
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.watch.stored import UNKNOWN, Log

BEGIN_MS = 1_700_000_000_000


@dataclass
class Lookout:
    """Actives 0… with a standby each, on hosts in a ring: `0` on host-0, `0-0` on host-1, ….

    `asked`: uuid → (kind, processor). `before_ask` runs at each write.
    """

    actives: int = 4
    host_count: int = 4
    coordinator: CoordinatorKind = "samza_dagster"
    now_ms: int = BEGIN_MS
    at: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    host_states: dict[str, str] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    asked: dict[str, tuple[str, str]] = field(default_factory=dict)
    asked_at: dict[str, int] = field(default_factory=dict)
    incarnations_asked: dict[str, str | None] = field(default_factory=dict)
    answers: dict[str, list[PlacementResponse]] = field(default_factory=dict)
    busy: dict[str, str] = field(default_factory=dict)
    failovers: tuple[FailoverView, ...] = ()
    orphans: tuple[OrphanView, ...] = ()
    behind: dict[str, int | None] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    reported_ms: dict[str, int | None] = field(default_factory=dict)
    backlog: dict[str, tuple[int, int]] = field(default_factory=dict)
    localities: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beat_ms: int = BEGIN_MS
    leader_ended: bool = False
    flapping: set[str] = field(default_factory=set)
    away: bool = False
    before_ask: Callable[[str, str], None] = lambda _kind, _processor: None
    after_ask: Callable[[], None] = lambda: None
    since_ms: int = BEGIN_MS
    skew_ms: dict[str, int] = field(default_factory=dict)
    dead: str | None = None
    report_every_s: int | None = 60

    def __post_init__(self) -> None:
        for host in range(self.host_count):
            self.host_states[f"host-{host}"] = "alive"
            self.words[f"host-{host}"] = 100
        for active in range(self.actives):
            self.at[str(active)] = f"host-{active % self.host_count}"
            self.at[f"{active}-0"] = f"host-{(active + 1) % self.host_count}"

    def incarnation(self, processor: str) -> str:
        return f"{processor}#{self.starts.get(processor, 0)}"

    def start(self, processor: str, host: str) -> None:
        """A new incarnation runs there."""
        self.starts[processor] = self.starts.get(processor, 0) + 1
        self.at[processor] = host

    def alive(self) -> None:
        """The leader shows a sign of life."""
        self.beat_ms = self.now_ms

    def view(self) -> JobView:
        actions = [
            ActionView(uuid, processor, "STANDBY", "reserving", self.asked_at[uuid], kind=kind)
            for uuid, (kind, processor) in self.asked.items()
            if not (self.answers.get(uuid) and self.answers[uuid][-1].status_code.is_terminal)
        ]
        actions += [
            ActionView(why, group, "ANY_HOST", "stopping", self.since_ms)
            for group, why in self.busy.items()
        ]
        return JobView(
            job_name="demo",
            job_id="1",
            deployment_id="run-1",
            processors={
                p: ProcessorView(
                    p,
                    TaskMode.STANDBY if is_standby(p) else TaskMode.ACTIVE,
                    self.states.get(p, "running"),
                    host,
                    self.incarnation(p),
                    self.tasks.get(p, (self.task(p),)),
                    flapping=p in self.flapping,
                )
                for p, host in self.at.items()
            },
            hosts={h: HostView(h, state) for h, state in self.host_states.items()},
            actions=tuple(actions),
            coordinator=self.coordinator,
            failovers=self.failovers,
            orphans=self.orphans,
            dead=self.dead,
            report_every_s=self.report_every_s,
            leader=LeaderView(
                1, "host-0", "", BEGIN_MS, self.beat_ms, self.leader_ended, {}, 40_000
            )
            if self.coordinator == "samza_dagster"
            else None,
        )

    @staticmethod
    def task(processor: str) -> str:
        active = f"Partition {group_of(processor)}"
        return f"Standby-{active}-0" if is_standby(processor) else active

    def lag(self) -> list[ReplicaLag]:
        found: list[ReplicaLag] = []
        for processor, host in self.at.items():
            behind = self.behind.get(processor, 0)
            applied = self.applied.get(processor, 1_000)
            reported = self.reported_ms.get(processor, self.now_ms)
            if reported is not None:
                reported += self.skew_ms.get(host, 0)
            found.append(
                ReplicaLag(
                    processor,
                    self.task(processor),
                    TaskMode.STANDBY if is_standby(processor) else TaskMode.ACTIVE,
                    "store",
                    "changelog",
                    int(group_of(processor)),
                    host,
                    applied + 1 + (behind or 0),
                    None if behind is None else applied,
                    behind,
                    reported,
                )
            )
        return found

    def input_lag(self) -> list[InputLag]:
        return [
            InputLag(p, self.task(p), "input", 0, committed, committed + 1 + lag, lag, self.now_ms)
            for p, (lag, committed) in self.backlog.items()
        ]

    def answer(self, uuid: str, status: StatusCode, message: str = "told") -> None:
        kind, processor = self.asked[uuid]
        self.answers.setdefault(uuid, []).append(
            PlacementResponse(
                uuid=uuid,
                deployment_id="run-1",
                processor_id=processor,
                destination_host="STANDBY" if kind == "fail-over" else "LAST_SEEN",
                status_code=status,
                timestamp=self.now_ms,
                response_message=message,
            )
        )

    def fail_over_done(self, uuid: str) -> None:
        """The active runs where its standby was, which starts on the next host without either."""
        _, active = self.asked[uuid]
        host, standby = self.at[f"{active}-0"], f"{active}-0"
        others = [h for h in self.host_states if h not in (host, self.at[active])]
        self.start(active, host)
        self.start(standby, others[0] if others else self.at[active])
        self.answer(uuid, StatusCode.SUCCEEDED, f"Successfully started on {host}")


class LookoutClient(PlacementClient):
    """What the sensors and their runs use of a client, over a `Lookout` in the place of its stores."""

    def __init__(self, world: Lookout) -> None:
        self.world = world
        self._requests = self  # its `ask` stands for that of `Requests`

    def view(self) -> JobView:
        if self.world.away:
            raise Unreachable("read the job", seen="no broker answers", fix="start one")
        return self.world.view()

    def lag(self) -> Sequence[ReplicaLag]:
        return self.world.lag()

    def readiness(self, lags: Collection[ReplicaLag]) -> NewestReadiness:
        return NewestReadiness()

    def look(self) -> Look:
        world = self.world
        return Look(self.view(), tuple(world.lag()), tuple(world.input_lag()), dict(world.words))

    def locality(self) -> LocalityModel:
        hosts = {**self.world.at, **self.world.localities}
        return LocalityModel(
            processor_localities={p: ProcessorLocality(id=p, host=h) for p, h in hosts.items() if h}
        )

    def response(self, uuid: str) -> PlacementResponse | None:
        answers = self.world.answers.get(uuid)
        return answers[-1] if answers else None

    def own_request(self, uuid: str) -> Asked | None:
        kind, processor = self.world.asked.get(uuid, ("", ""))
        waits = kind == "fail-over" and uuid not in self.world.answers
        return Asked(uuid, kind, processor, "STANDBY", "run-1", 0) if waits else None

    def asked_before(self, uuids: Collection[str]) -> frozenset[str]:
        return frozenset(uuids) & self.world.asked.keys()

    def request(self, uuid: str) -> PlacementRequest | None:
        kind, processor = self.world.asked.get(uuid, ("", ""))
        waits = kind == "place" and uuid not in self.world.answers
        return self._request(uuid, processor) if waits else None

    def _request(self, uuid: str, processor: str) -> PlacementRequest:
        return PlacementRequest(
            uuid=uuid,
            deployment_id="run-1",
            processor_id=processor,
            destination_host="LAST_SEEN",
            timestamp=self.world.now_ms,
        )

    def ask(
        self,
        kind: RequestKind,
        check: Callable[[JobView], Wanted],
        *,
        uuid: str | None = None,
        **_: object,
    ) -> Asked:
        wanted = check(self.view())
        made = self._ask(kind.value, wanted.processor_id, uuid)
        self.world.incarnations_asked[made] = wanted.execution_id
        return Asked(
            made,
            kind.value,
            wanted.processor_id,
            wanted.destination,
            "run-1",
            self.world.now_ms,
            execution_id=wanted.execution_id,
        )

    def place(
        self, processor_id: str, destination: str, *, uuid: str | None = None
    ) -> PlacementRequest:
        return self._request(self._ask("place", processor_id, uuid), processor_id)

    def _ask(self, kind: str, processor_id: str, uuid: str | None) -> str:
        made = uuid or str(uuid4())
        if made not in self.world.asked:
            self.world.before_ask(kind, processor_id)
            self.world.asked[made] = (kind, processor_id)
            self.world.asked_at[made] = self.world.now_ms
        self.world.after_ask()
        return made

    def wait(
        self,
        uuid: str,
        *,
        timeout_s: float,
        on_response: Callable[[PlacementResponse], None] | None = None,
        until: Callable[[PlacementResponse], bool] = terminal,
        on_notice: Callable[[str], object] = lambda _: None,
        on_look: Callable[[float], object] = lambda _: None,
    ) -> PlacementResponse:
        for response in self.world.answers.get(uuid, []):
            if on_response is not None:
                on_response(response)
            if until(response):
                return response
        raise DeadlineExceeded("the outcome", seen="nobody answers")

    def prepare(self) -> None:
        pass

    def close(self) -> None:
        pass


LOOKOUTS: dict[str, Lookout] = {}


class FakeWatch(SamzaClientResource):
    """The resource over a `Lookout`; `bootstrap_servers` names it."""

    def open_client(self) -> LookoutClient:  # pyright: ignore[reportIncompatibleMethodOverride]
        return LookoutClient(LOOKOUTS[self.bootstrap_servers])


@dataclass
class ListEvents:
    """The events of an instance, as a list; newest first when read."""

    kept: list[dg.AssetObservation] = field(default_factory=list)

    def read(self, back_to: int = UNKNOWN) -> Log:
        return Log(tuple(reversed(self.kept)), len(self.kept))


@dataclass
class DictKeeper:
    """What ticks keep while they go on, as a dictionary."""

    texts: dict[str, str] = field(default_factory=dict)

    def kept(self, job: str) -> str:
        return self.texts.get(job, "")

    def keep(self, job: str, text: str) -> None:
        self.texts[job] = text


def aged(world: Lookout, host: str, silent_ms: int) -> None:
    """The agent of a host has been silent for so long."""
    world.words = {**world.words, host: silent_ms}


__all__ = [
    "BEGIN_MS",
    "LOOKOUTS",
    "DictKeeper",
    "FakeWatch",
    "ListEvents",
    "Lookout",
    "LookoutClient",
    "replace",
]
