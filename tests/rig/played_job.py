"""A job in memory whose coordinator and containers a test plays; its clients are the product's own.

What a client reads is what a coordinator, containers and brokers would have left: records of the
coordinator stream, the coordinator's state, reports of metrics, commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from samza_dagster.client import PlacementClient
from samza_dagster.client.access import JobAccess
from samza_dagster.client.state_source import CoordinatorState
from samza_dagster.client.views import CoordinatorKind, HostView, JobView, LeaderView
from samza_dagster.metadata.own_requests import OwnMail
from samza_dagster.metadata.resource_manager import Cluster
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.model import (
    PlacementRequest,
    PlacementResponse,
    ResponseDetails,
    StatusCode,
)
from samza_dagster.model.naming import LAST_SEEN, group_of, is_standby
from samza_dagster.model.own_requests import OwnRequest
from samza_dagster.model.placement_messages import (
    PLACEMENT_NAMESPACE,
    REQUEST,
    RESPONSE,
)
from samza_dagster.placement import texts
from samza_dagster.placement.state import (
    Action,
    Group,
    Incarnation,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    RequestKind,
    Role,
    Stage,
)
from tests.rig.actions import action_at
from tests.rig.played_stores import BEGIN_MS, JOB, JOB_ID, Mailbox, State, Stream, Yarn
from tests.rig.played_topics import PAGES, Topics

_A_LOOK_S = 60.0


@dataclass(eq=False)
class PlayedJob:
    """Containers on hosts; what a coordinator does with a request is told by who inherits.

    `at` is processor → host, `starts` how often each was started again, `busy` whose group has an
    action that nobody here asked for, with its name. `away`: nobody answers a client. `meanwhile`: what happens at
    each look of who waits for an answer. `published` is what snapshots say of
    standbys. `yarn` is what a ResourceManager says where Samza's own AM coordinates.
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
    stores: int = 1
    beat_ms: int = BEGIN_MS
    published: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict[str, int])
    yarn: Cluster | None = None
    away: bool = False
    meanwhile: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])

    def __post_init__(self) -> None:
        self.waiting = 0
        self._waited_s = 0.0
        self.store = Stream(self)
        self.mailbox = Mailbox(self)
        self.topics = Topics(self)

    def client(self) -> PlacementClient:
        """The product's own, over what a test plays."""
        return PlacementClient(self.access())

    def access(self) -> JobAccess:
        """What it reads and writes."""
        return JobAccess(
            self.store,
            JOB,
            JOB_ID,
            state=State(self),  # type: ignore[arg-type]
            topics=self.topics,
            now_ms=lambda: self.now_ms,
            monotonic=self.passing,
            mailbox=self.mailbox,  # type: ignore[arg-type]
            yarn=None if self.yarn is None else Yarn(self),  # type: ignore[arg-type]
        )

    def view(self) -> JobView:
        """As its clients see it."""
        return self.access().read()[0]

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

    def locality(self, processor: str) -> str:
        """The host that it has reported last."""
        return self.at[processor]

    def phase(self, processor: str) -> str:
        """As the coordinator records it."""
        return self.states.get(processor, "running")

    def host_views(self) -> dict[str, HostView]:
        """Its hosts as the coordinator records them."""
        return self.hosts

    def has_state(self, processor: str) -> bool:
        """Whether the metadata gives its task a changelog partition."""
        return self.stores > 0

    def lags_of(self, processor: str) -> list[int | None] | None:
        """Offsets that it reports to have left, store by store; None: it has reported nothing."""
        return None

    def reported_at(self, processor: str) -> int:
        """The time of its newest report, by the clock of its host."""
        return self.now_ms

    def came_at(self, processor: str) -> int:
        """The same by the broker's clock."""
        return self.now_ms

    def advance(self) -> None:
        """Before each look at what is so: what was to happen by now has happened."""

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

    def carry_out(self, uuid: str, request: OwnRequest, told: str) -> None:
        """A request about another one has had its effect."""
        done = PlacementResponse(
            uuid=uuid,
            deployment_id=request.deployment_id,
            processor_id=request.processor_id,
            destination_host=request.destination_host,
            status_code=StatusCode.SUCCEEDED,
            timestamp=self.now_ms,
            response_message=told,
            details=ResponseDetails(refers_to=request.refers_to),
        )
        self.respond(done)

    def restarted_by_others(
        self, processor: str, times_ms: Iterable[int], **changes: object
    ) -> None:
        """Where it is, by requests of somebody else that ended then; `changes` of their answers."""
        for n, at_ms in enumerate(times_ms):
            answer = PlacementResponse(
                uuid=f"00000000-0000-0000-0000-{n:012d}",
                deployment_id=self.deployment,
                processor_id=processor,
                destination_host=LAST_SEEN,
                status_code=StatusCode.SUCCEEDED,
                timestamp=at_ms,
                response_message=texts.started(self.at[processor]),
            )
            self.respond(answer.model_copy(update=changes))

    def forget(self, uuid: str) -> None:
        """Its answer is cleaned up."""
        del self.answers[uuid]
        self.own.pop(uuid, None)
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
                1, "host-0", PAGES.of(self), BEGIN_MS, self.beat_ms, False, {}, 40_000
            ),
        )

    def actions(self) -> dict[str, Action]:
        """The action in flight of each group that has one."""
        found = {
            group: action_at(
                Stage.STOPPING,
                PlacementAsk(why, self.deployment, group, "ANY_HOST", BEGIN_MS),
                self.at.get(group),
            )
            for group, why in self.busy.items()
        }
        for uuid, told in self.answers.items():
            last = told[-1]
            if last.status_code.is_terminal:
                continue
            kind = self.own[uuid].kind.value if uuid in self.own else "place"
            found[group_of(last.processor_id)] = action_at(
                self.stage(last),
                PlacementAsk(
                    uuid,
                    last.deployment_id,
                    last.processor_id,
                    last.destination_host,
                    told[0].timestamp,
                    kind=RequestKind(kind),
                ),
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
            Phase(self.phase(pid)),
            Incarnation(number, self.incarnation(pid), host, f"r{number}"),
            last_seen_host=host,
            failed_at_ms=(self.now_ms,) * failed,
            extra=pid in self.extra,
        )
