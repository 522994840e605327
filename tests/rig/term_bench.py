"""One term on fakes: a log that takes its time, a cluster that only notes what it is told."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from samza_dagster.cluster.interface import HostResources, ObservedContainer
from samza_dagster.coordinator.callbacks import ClusterEvents
from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.deployment import plan
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.mail import Arrived, Mail, Malformed
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.coordinator.steps import Steps
from samza_dagster.coordinator.term import Term
from samza_dagster.errors import Fenced, Unreachable
from samza_dagster.placement.state import JobState, Limits, PlacementAsk

UUID = "88b0d30c-d518-4307-9e8e-c8529eb30f04"
CONFIG = {
    "job.name": "j",
    "task.inputs": "kafka.in",
    "job.container.count": "1",
    "job.standbytasks.replication.factor": "2",
}
HOSTS = ("h1", "h2", "h3")


@dataclass
class Log:
    """Commits; each takes as long as the test says."""

    clock: Callable[[float], None]
    takes_s: list[float] = field(default_factory=list)
    fenced: bool = False
    commits: list[tuple[list[Any], list[Any], list[Any]]] = field(default_factory=list)

    def commit(
        self, records: Sequence[Any], projections: Sequence[Any], stream: Sequence[Any] = ()
    ) -> None:
        if self.fenced:
            raise Fenced("commit", seen="another leads")
        self.commits.append((list(records), list(projections), list(stream)))
        if self.takes_s:
            self.clock(self.takes_s.pop(0))

    def written(self) -> list[str]:
        return [key for records, _, _ in self.commits for key, _ in records]


@dataclass
class Cluster:
    """Hosts that hold every request at once and run whatever is started."""

    calls: list[tuple[Any, ...]] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)
    callbacks: ClusterEvents | None = None

    def start(self, callbacks: ClusterEvents) -> None:
        self.calls.append(("start",))
        self.callbacks = callbacks
        self.report_again()

    def report_again(self) -> None:
        self.calls.append(("report_again",))
        assert self.callbacks is not None
        for host in HOSTS:
            self.callbacks.on_host_registered(HostResources(host, 9_000, 9, 9_000, 9), self.runs())
            self.callbacks.on_host_told(host)

    def runs(self) -> tuple[ObservedContainer, ...]:
        return ()

    def hosts(self) -> tuple[HostResources, ...]:
        return tuple(HostResources(host, 9_000, 9, 9_000, 9) for host in HOSTS)

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments, **named: self.calls.append((name, *arguments, named))

    def higher_epochs(self) -> dict[str, int]:
        told, self.told = self.told, {}
        return told

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call for call in self.calls if call[0] == name]


@dataclass
class Source:
    """Mail that is there from the start."""

    mails: list[Mail] = field(default_factory=list)

    @contextmanager
    def tail(self, on_mail: Callable[[Mail], None]) -> Generator[object]:
        for mail in self.mails:
            on_mail(mail)
        yield self

    def no_start_because(self) -> str:
        return ""


@dataclass
class Finished:
    """A cleaner that finds what the test says."""

    records: list[Any] = field(default_factory=list)

    def close(self) -> None: ...

    def removals(self, state: JobState, now_ms: int) -> tuple[list[Any], list[Any]]:
        return self.records, []


@dataclass
class Brokers:
    """Make logins, or don't answer; each try takes as long as the test says."""

    away: bool = False
    on_admit: Callable[[], None] = lambda: None

    def admit(self, execution_id: str) -> None:
        self.on_admit()
        if self.away:
            raise Unreachable("create a login", seen="no answer")

    def fence(self, execution_id: str) -> None: ...

    def remove(self, execution_id: str) -> None: ...


@dataclass
class Bench:
    """A term whose events are handled one by one, and the clock under it."""

    now_s: float = 100.0
    mails: list[Mail] = field(default_factory=list)
    own: list[Mail] = field(default_factory=list)
    brokers: Brokers = field(default_factory=Brokers)
    cleaner: Finished = field(default_factory=Finished)
    recorder: JsonLinesRecorder | None = None
    stored: JobState = field(default_factory=lambda: JobState("j-1"))
    deployment_id: str = "run-1"
    cluster: Any = field(default_factory=Cluster)

    def __post_init__(self) -> None:
        self.log = Log(self.pass_time)
        clock = LeaderClock(lambda: 1_000_000, lambda: self.now_s)
        deployment = plan(CONFIG, {"in": 2}, self.deployment_id)
        self.steps = Steps(
            log=self.log,
            cluster=self.cluster,
            deployment=deployment,
            launcher=Launcher(LaunchTemplate(command=("c",)), "j", "1", deployment.job_model),
            stored=self.stored,
            state=self.stored,
            leader=Leader(4, "here", lease_ms=30_000, ended=False),
            leases=LeaseTerms.of(Limits(), before_ms=0, began_ms=1_000_000),
            clock=clock,
            recorder=self.recorder,
            fence=self.brokers,
        )
        self.term = Term(
            self.steps,
            requests=Source(self.mails),
            own_requests=Source(self.own),
            cleaner=self.cleaner,
        )

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    def run(self) -> None:
        """Leads until everything that has come so far is handled."""
        self.term.stop()
        self.term.lead({})

    def handle_all(self) -> None:
        """The events that have come since."""
        items = self.steps.inbox._items
        while not items.empty():
            item = items.get()
            if item is not None:
                self.term._handle(item)


def leading() -> Bench:
    """A term that has handled all that there was at its beginning."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    return bench


def all_allocated(bench: Bench) -> tuple[ClusterEvents, list[tuple[Any, ...]]]:
    """Every request is held, each on a host of its own. Returns the callbacks and the requests."""
    events, asked = bench.cluster.callbacks, bench.cluster.named("request_resource")
    assert events is not None
    for call, host in zip(asked, HOSTS, strict=False):
        events.on_resource_allocated(call[1].request_id, host)
    return events, asked


def everything_runs(bench: Bench) -> None:
    """Every request is held, every start checks in."""
    events, _ = all_allocated(bench)
    bench.handle_all()
    for _, _, host, launch, _ in bench.cluster.named("start_container"):
        events.on_container_checked_in(launch.execution_id, host)
    bench.handle_all()


def asks(count: int, **named: Any) -> list[Arrived]:
    """Moves of the active, which starts all the while: they are queued."""
    ids = [f"{n:08d}{UUID[8:]}" for n in range(count)]
    return [Arrived(PlacementAsk(i, "run-1", "0", "ANY_HOST", 1, **named)) for i in ids]


def malformed(own: bool, uuid: str = UUID, deployment_id: str = "") -> Malformed:
    key = f"request/{uuid}" if own else f"{uuid}.ContainerPlacementRequestMessage"
    return Malformed(own, key, uuid, "field x: bad", deployment_id, "0", "h")


def processors(bench: Bench) -> list[Any]:
    return [p for p in bench.steps.state.groups["0"].processors.values() if p.incarnation]
