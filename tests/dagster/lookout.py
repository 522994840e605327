"""A job as the sensors see it: containers, hosts, words and lags that tests change at will."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import dagster as dg

from samza_dagster.client import PlacementClient
from samza_dagster.client.views import HostView
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import PlacementRequest, PlacementResponse, StatusCode
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.orchestration.resource import SamzaClientResource
from samza_dagster.orchestration.tags import job_tag
from samza_dagster.orchestration.watch.auto_failover import judged_now, look, run_request
from samza_dagster.orchestration.watch.cursor import FailoverCursor
from samza_dagster.orchestration.watch.reported import Events
from samza_dagster.orchestration.watch.settings import AutoFailover
from tests.rig.played_job import BEGIN_MS, PlayedJob
from tests.rig.played_stores import partition_of
from tests.rig.played_topics import commit


@dataclass(eq=False)
class Lookout(PlayedJob):
    """Actives 0… with a standby each, on hosts in a ring: `0` on host-0, `0-0` on host-1, ….

    `asked`: uuid → (kind, processor). `before_ask` runs at each write.
    """

    actives: int = 4
    host_count: int = 4
    host_states: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    asked_at: dict[str, int] = field(default_factory=dict[str, int])
    incarnations_asked: dict[str, str | None] = field(default_factory=dict[str, str | None])
    behind: dict[str, int | None] = field(default_factory=dict[str, int | None])
    mute: set[str] = field(default_factory=set[str])
    backlog: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    skew_ms: dict[str, int] = field(default_factory=dict[str, int])
    before_ask: Callable[[str, str], None] = lambda _kind, _processor: None
    after_ask: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        super().__post_init__()
        for host in range(self.host_count):
            self.host_states[f"host-{host}"] = "alive"
            self.words[f"host-{host}"] = 100
        for active in range(self.actives):
            self.at[str(active)] = f"host-{active % self.host_count}"
            self.at[f"{active}-0"] = f"host-{(active + 1) % self.host_count}"

    def start(self, processor: str, host: str) -> None:
        """A new incarnation runs there."""
        self.starts[processor] = self.starts.get(processor, 0) + 1
        self.at[processor] = host

    def alive(self) -> None:
        """The leader shows a sign of life."""
        self.beat_ms = self.now_ms

    def host_views(self) -> dict[str, HostView]:
        return {host: HostView(host, state) for host, state in self.host_states.items()}

    def lags_of(self, processor: str) -> list[int | None] | None:
        return None if processor in self.mute else [self.behind.get(processor, 0)]

    def reported_at(self, processor: str) -> int:
        return self.now_ms + self.skew_ms.get(self.at[processor], 0)

    def commits(self) -> Iterable[TopicRecord]:
        return [
            commit(processor, committed, number, self.now_ms)
            for number, (processor, (_, committed)) in enumerate(self.backlog.items())
        ]

    def inputs(self) -> Mapping[int, int]:
        return {partition_of(p): at + 1 + lag for p, (lag, at) in self.backlog.items()}

    def on_ask(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        self.before_ask(_kind(request), request.processor_id)

    def on_asked(self, uuid: str, request: OwnRequest | PlacementRequest) -> None:
        self.asked[uuid] = (_kind(request), request.processor_id)
        self.asked_at[uuid] = self.now_ms
        if isinstance(request, OwnRequest):
            self.incarnations_asked[uuid] = request.execution_id
        self.after_ask()

    def answer(self, uuid: str, status: StatusCode, message: str = "told") -> None:
        """One more status of a request."""
        kind, processor = self.asked[uuid]
        self.respond(
            PlacementResponse(
                uuid=uuid,
                deployment_id=self.deployment,
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


def _kind(request: OwnRequest | PlacementRequest) -> str:
    return request.kind.value if isinstance(request, OwnRequest) else "place"


LOOKOUTS: dict[str, Lookout] = {}


class LookoutSamza(SamzaClientResource):
    """The resource over a `Lookout`; `bootstrap_servers` names it."""

    def open_client(self) -> PlacementClient:
        return LOOKOUTS[self.bootstrap_servers].client()


@dataclass
class ListEvents:
    """The events of an instance, as a list."""

    kept: list[dg.AssetObservation] = field(default_factory=list)

    def read(self) -> Events:
        """All of them, with their numbers."""
        return list(enumerate(self.kept, start=1))


@dataclass
class Ticked:
    """What a tick of `auto_failover` ends with."""

    cursor: str
    reported: list[dg.AssetObservation]
    runs: list[dg.RunRequest]


def tick(
    client: PlacementClient,
    events: ListEvents,
    settings: AutoFailover,
    cursor: str | None,
    now_ms: int,
    prefix: str = "",
) -> Ticked:
    """As Dagster runs it, but for its instance and its clock."""
    observation = look(client)
    job = observation.job
    kept = FailoverCursor.read(cursor, job) or FailoverCursor(job)
    judged, reported = judged_now(kept, observation, events.read(), settings, now_ms)
    runs = [
        run_request(d, job_tag(job, prefix), prefix) for d in judged.advice if d.verdict == "ask"
    ]
    return Ticked(judged.cursor.to_text(), reported, runs)


def aged(world: Lookout, host: str, silent_ms: int) -> None:
    """The agent of a host has been silent for so long."""
    world.words = {**world.words, host: silent_ms}


__all__ = [
    "BEGIN_MS",
    "LOOKOUTS",
    "ListEvents",
    "Lookout",
    "LookoutSamza",
    "Ticked",
    "replace",
    "tick",
]
