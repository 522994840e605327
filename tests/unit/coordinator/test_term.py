"""One term on fakes: a log that takes its time, a cluster that only notes what it is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from traceback import walk_stack
from typing import Any

import pytest

from samza_dagster.cluster.interface import HostResources, ObservedContainer
from samza_dagster.coordinator import full_queue
from samza_dagster.coordinator.callbacks import ClusterEvents
from samza_dagster.coordinator.candidacy import Leader
from samza_dagster.coordinator.clock import LeaderClock
from samza_dagster.coordinator.deployment import plan
from samza_dagster.coordinator.kafka import KafkaOwnRequests
from samza_dagster.coordinator.launch import Launcher, LaunchTemplate
from samza_dagster.coordinator.leases import LeaseTerms
from samza_dagster.coordinator.mail import Arrived, Ignored, Mail, Malformed
from samza_dagster.coordinator.ports import EventRecorder
from samza_dagster.coordinator.recording import JsonLinesRecorder
from samza_dagster.coordinator.steps import Steps
from samza_dagster.coordinator.term import Term
from samza_dagster.errors import Fenced, Unreachable
from samza_dagster.metadata.state_topic import (
    DEPLOYMENT,
    LEADER,
    TAKE_OVER,
    Snapshot,
    encode_record,
    is_mail,
    is_state,
)
from samza_dagster.metadata.topic_reader import TopicRecord
from samza_dagster.placement import commands, events
from samza_dagster.placement.state import AskKind, JobState, Limits, PlacementAsk
from samza_dagster.simulation.event_log import replay_log
from tests.unit.placement.scenes import stored_and_read

pytestmark = pytest.mark.unit

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
    recorder: EventRecorder | None = None
    stored: JobState = field(default_factory=lambda: JobState("j-1"))
    deployment_id: str = "run-1"

    def __post_init__(self) -> None:
        self.log = Log(self.pass_time)
        self.cluster = Cluster()
        clock = LeaderClock(lambda: 1_000_000, lambda: self.now_s)
        deployment = plan(CONFIG, {"in": 2}, self.deployment_id)
        self.steps = Steps(
            log=self.log,
            cluster=self.cluster,  # pyright: ignore[reportArgumentType]
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


def everything_runs(bench: Bench) -> None:
    """Every request is held, every start checks in."""
    events = bench.cluster.callbacks
    assert events is not None
    for call, host in zip(bench.cluster.named("request_resource"), HOSTS, strict=False):
        events.on_resource_allocated(call[1], host)
    bench.handle_all()
    for _, _, host, launch, _ in bench.cluster.named("start_container"):
        events.on_container_checked_in(launch.execution_id, host)
    bench.handle_all()


def test_starts_that_found_the_brokers_away_leave_when_they_are_back() -> None:
    """Within a second, and once; not the one that was given up meanwhile."""
    bench = Bench(brokers=Brokers(away=True))
    bench.run()
    events = bench.cluster.callbacks
    assert events is not None
    asked = bench.cluster.named("request_resource")
    for call, host in zip(asked, HOSTS, strict=False):
        events.on_resource_allocated(call[1], host)
    bench.handle_all()
    assert not bench.cluster.named("start_container")
    first, other = (call[2]["launch"].execution_id for call in asked)
    host = next(h for call, h in zip(asked, HOSTS, strict=False) if first in str(call))
    events.on_container_stopped(first, host, 1)
    bench.handle_all()
    bench.brokers.away = False
    bench.pass_time(1.5)
    assert bench.term._seconds_to_next() < 1
    bench.term._keep_house()
    bench.term._keep_house()
    started = [call[3].execution_id for call in bench.cluster.named("start_container")]
    assert started == [other]


def test_a_start_of_the_deployment_before_is_said_to_no_host_that_could_launch_it() -> None:
    """Its login is that config's: a process launched with another would be fenced in vain."""
    first = Bench()
    first.run()
    callbacks = first.cluster.callbacks
    assert callbacks is not None
    for call, host in zip(first.cluster.named("request_resource"), HOSTS, strict=False):
        callbacks.on_resource_allocated(call[1], host)
    first.handle_all()
    starting = {call[3].execution_id for call in first.cluster.named("start_container")}
    assert len(starting) == 2

    second = Bench(stored=first.steps.state, deployment_id="run-2")
    second.run()
    calls = [call[0] for call in second.cluster.calls]
    hosts_register = calls.index("start")
    assert "start_container" in calls[:hosts_register]  # dropped: nobody has registered
    assert {c[1] for c in second.cluster.named("stop_container")} == starting
    second.handle_all()
    assert "start_container" not in [call[0] for call in second.cluster.calls[hosts_register:]]


def test_an_orderly_end_is_written_down() -> None:
    """So that whoever waits needn't."""
    bench = Bench()
    bench.run()
    ((key, value),) = bench.log.commits[-1][0]
    assert key == "leader"
    assert value["ended"] is True
    assert value["lease_ms"] == 30_000


def test_hosts_are_admitted_after_all_that_their_registration_told() -> None:
    """Each, once the events before have been handled."""
    bench = Bench()
    bench.steps.inbox.end()
    bench.term.lead({})
    bench.handle_all()
    assert [call[1] for call in bench.cluster.named("admit_host")] == list(HOSTS)
    assert all(host.registered for host in bench.steps.state.hosts.values())


def test_after_a_long_commit_nothing_is_late_and_hosts_tell_again() -> None:
    """A minute without a broker: no host is lost by it, and no request expires by the heart."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    requested = bench.cluster.named("request_resource")
    assert len(requested) == 2
    bench.cluster.calls.clear()
    bench.log.takes_s = [60.0]
    ask = PlacementAsk(UUID, "run-1", "0", "h1", 1)
    bench.term._handle(Arrived(ask))
    bench.term._keep_house()
    assert bench.cluster.named("report_again")
    again = {call[1] for call in bench.cluster.named("request_resource")}
    assert {call[1] for call in requested} <= again
    assert not any(host.registered for host in bench.steps.state.hosts.values())
    bench.handle_all()
    bench.term._keep_house()
    state = bench.steps.state
    assert all(host.registered and host.alive for host in state.hosts.values())
    assert {p.phase.value for p in state.groups["0"].processors.values()} == {"requesting"}


def test_a_step_is_recorded_before_its_commit_and_one_that_fails_is_the_last(
    tmp_path: Path,
) -> None:
    """So a log lacks nothing that the records hold; it may be one step ahead of them."""
    path = tmp_path / "events.jsonl"
    recorder = JsonLinesRecorder.open(path)
    recorder.begin(4, {}, JobState("j-1"))
    bench = Bench(recorder=recorder)

    def is_recorded(_: float) -> None:
        known.append(path.read_text().splitlines()[-1])

    known: list[str] = []
    bench.log.clock = is_recorded
    bench.log.takes_s = [0.0]
    bench.run()
    assert "JobDeployed" in known[0]
    bench.handle_all()

    def away(_: float) -> None:
        raise Unreachable("commit", seen="no answer")

    bench.log.clock = away
    bench.log.takes_s = [0.0]
    before = bench.steps.state
    with pytest.raises(Unreachable):
        bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "h1", 1)))
    assert bench.steps.state is before
    assert UUID in path.read_text().splitlines()[-1]
    assert replay_log(path).differs is None


def beat(bench: Bench) -> None:
    bench.term._keep_house()


def refusal(bench: Bench) -> None:
    bench.term._handle(malformed(own=True))
    bench.term._keep_house()


def cleaning(bench: Bench) -> None:
    bench.cleaner.records = [("request/x", None)]
    bench.term._clean_at_ms = 0
    bench.term._keep_house()


@pytest.mark.parametrize("what", [beat, refusal, cleaning])
def test_deadlines_count_anew_after_any_long_commit(what: Callable[[Bench], None]) -> None:
    """Not of a step alone: of a beat, a refusal, the cleaning. Nothing is overdue then."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    everything_runs(bench)
    if what is beat:
        bench.pass_time(10.5)
    bench.cluster.calls.clear()
    bench.log.takes_s = [60.0]
    what(bench)
    assert bench.cluster.named("report_again")
    assert not any(host.registered for host in bench.steps.state.hosts.values())
    bench.handle_all()
    bench.term._keep_house()
    assert all(host.registered and host.alive for host in bench.steps.state.hosts.values())


def test_where_every_commit_takes_long_each_event_has_its_turn_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Deadlines count anew once what came meanwhile is heard: for 10,000 commits of 6 s each the
    requests are answered, hosts are known in each round, and no step is taken within another.
    """
    caplog.set_level(logging.ERROR)
    bench = Bench(mails=[*asks(3)])
    depths: list[int] = []
    registered: list[int] = []

    def slow(_: float) -> None:
        bench.pass_time(6.0)
        bench.log.takes_s = [0.0]
        depths.append(sum(1 for _ in walk_stack(None)))
        registered.append(sum(h.registered for h in bench.steps.state.hosts.values()))
        if len(depths) == 10_000:
            bench.term.stop()

    bench.log.clock = slow
    bench.log.takes_s = [0.0]
    bench.term.lead({})
    assert len(depths) > 10_000
    assert max(depths[10:]) - min(depths[10:]) < 10
    assert {each.ask.uuid for each in asks(3)} <= set(bench.steps.state.uuids)
    for start in range(100, 10_000, 100):
        assert max(registered[start : start + 100]) >= len(HOSTS) - 1


def test_what_came_during_a_slow_admission_is_heard_before_anything_is_late() -> None:
    """The one that starts had checked in: its deadline passed while the controller hung."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    events = bench.cluster.callbacks
    assert events is not None
    asked = bench.cluster.named("request_resource")
    for call, host in zip(asked, HOSTS, strict=False):
        events.on_resource_allocated(call[1], host)
    items = bench.steps.inbox._items
    bench.term._handle(items.get())
    ((_, _, host, launch, _),) = bench.cluster.named("start_container")

    def hang() -> None:
        bench.pass_time(600.0)
        events.on_container_checked_in(launch.execution_id, host)

    bench.brokers.on_admit = hang
    bench.brokers.away = True
    bench.term._handle(items.get())
    bench.brokers.on_admit = lambda: None
    bench.term._keep_house()
    first = next(p for p in processors(bench) if p.incarnation.execution_id == launch.execution_id)
    assert first.phase.value == "starting"
    bench.handle_all()
    bench.term._keep_house()
    first = next(p for p in processors(bench) if p.incarnation.execution_id == launch.execution_id)
    assert (first.phase.value, first.failures) == ("running", 0)


def processors(bench: Bench) -> list[Any]:
    return [p for p in bench.steps.state.groups["0"].processors.values() if p.incarnation]


def test_events_happen_when_they_are_taken() -> None:
    """A registration that waited behind a long commit isn't in the past: time never goes back."""
    bench = Bench()
    bench.run()
    bench.pass_time(50)
    bench.handle_all()
    assert bench.steps.state.now_ms == 1_050_000


def test_a_beat_is_written_when_nothing_else_was() -> None:
    """A third of the lease after the last commit, and not before."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    everything_runs(bench)
    bench.log.commits.clear()
    bench.pass_time(9.9)
    bench.term._keep_house()
    assert bench.log.written() == []
    bench.pass_time(0.2)
    bench.term._keep_house()
    assert bench.log.written() == ["leader"]


def test_leases_shrink_while_nothing_can_be_committed() -> None:
    """What is granted ends within a lease of the last commit's sending, not of its return."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    bench.log.takes_s = [20.0]
    bench.steps._commit([("leader", {})])
    assert bench.steps.leases.grant_s(bench.steps.clock.now_ms()) == pytest.approx(10, abs=0.1)


def asks(count: int, **named: Any) -> list[Arrived]:
    """Moves of the active, which starts all the while: they are queued."""
    ids = [f"{n:08d}{UUID[8:]}" for n in range(count)]
    return [Arrived(PlacementAsk(i, "run-1", "0", "ANY_HOST", 1, **named)) for i in ids]


@pytest.mark.parametrize("own", [False, True])
def test_a_group_queues_no_more_than_its_record_holds(
    own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is beyond is answered once, with what would make it legal, and deleted where it is."""
    monkeypatch.setattr(full_queue, "MOST_QUEUED", 3)
    bench = Bench()
    bench.run()
    bench.handle_all()
    *taken, beyond = asks(4, own=own, **({"kind": AskKind.PLACE} if own else {}))
    for each in taken:
        bench.term._handle(each)
    assert len(bench.steps.state.groups["0"].queue) == 3
    bench.log.commits.clear()
    bench.term._handle(beyond)
    ((records, _, stream),) = bench.log.commits
    if own:
        (_, gone), (_, answer) = records[-2:]
        text = str(answer)
    else:
        gone, text = stream[0].value, stream[1].value.decode()
    assert gone is None
    assert "BAD_REQUEST" in text
    assert "at most 3 requests; 3 of group 0 wait; ask again when" in text
    bench.log.commits.clear()
    monkeypatch.setattr(full_queue, "MOST_QUEUED", 9)
    bench.term._handle(beyond)
    assert bench.log.commits == [([], [commands.DeleteRequest(beyond.ask.uuid, own)], [])]
    assert len(bench.steps.state.groups["0"].queue) == 3


def largest(bench: Bench) -> int:
    """Bytes of the largest record that was written to the state topic."""
    written = [encode_record(*record) for records, _, _ in bench.log.commits for record in records]
    return max(len(key) + len(value or b"") for key, value in written)


@pytest.mark.parametrize("kind", [AskKind.STOP_STANDBY, AskKind.FAIL_OVER])
def test_no_queue_outgrows_what_a_broker_takes_in_one_record(kind: AskKind) -> None:
    """260 requests with the longest names were 1.1 MB: no leader could write the group again."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    everything_runs(bench)
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "ANY_HOST", 0)))
    told = []
    for each in asks(260, own=True, kind=kind):
        pid = "0-0" if kind is AskKind.STOP_STANDBY else "0"
        long = replace(each.ask, processor_id=pid, destination_host="\N{FOX FACE}" * 1024)
        bench.term._handle(Arrived(long))
        told += [str(record) for record in bench.log.commits[-1][0] if "response/" in record[0]]
    queue = bench.steps.state.groups["0"].queue
    assert 20 < len(queue) < 260
    assert largest(bench) < 500_000
    assert f"at most {full_queue.MOST_QUEUED_BYTES} bytes of requests" in told[0]
    assert f"{len(queue)} of group 0 wait" in told[0]
    assert "ask again when one of them has ended, or cancel some" in told[0]


def test_one_request_finds_room_in_an_empty_queue_however_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fields are bounded where they are read; the bound of the queue is for many."""
    monkeypatch.setattr(full_queue, "MOST_QUEUED_BYTES", 10)
    bench = Bench()
    bench.run()
    bench.handle_all()
    first, second = asks(2)
    bench.term._handle(first)
    bench.term._handle(second)
    assert [ask.uuid for ask in bench.steps.state.groups["0"].queue] == [first.ask.uuid]


def test_a_full_queue_changes_nothing_for_what_isnt_queued(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A UUID that is known or queued, another deployment's, and a cancellation, which makes room."""
    monkeypatch.setattr(full_queue, "MOST_QUEUED", 2)
    bench = Bench()
    bench.run()
    bench.handle_all()
    first, second = asks(2)
    for each in (first, second):
        bench.term._handle(each)
    answered = len(bench.log.commits)
    bench.term._handle(second)
    bench.term._handle(Arrived(replace(second.ask, uuid=UUID, deployment_id="run-0")))
    assert [len(p) for _, p, _ in bench.log.commits[answered:]] == [1, 1]
    cancel = replace(
        second.ask, uuid=UUID, kind=AskKind.CANCEL, refers_to=second.ask.uuid, own=True
    )
    bench.term._handle(Arrived(cancel))
    assert [ask.uuid for ask in bench.steps.state.groups["0"].queue] == [first.ask.uuid]


def malformed(own: bool, uuid: str = UUID, deployment_id: str = "") -> Malformed:
    key = f"request/{uuid}" if own else f"{uuid}.ContainerPlacementRequestMessage"
    return Malformed(own, key, uuid, "field x: bad", deployment_id, "0", "h")


@pytest.mark.parametrize("own", [False, True])
def test_what_cant_be_read_is_answered_once_and_deleted(own: bool) -> None:
    """Where it was read; counted; the same again is told no second time."""
    bench = Bench()
    bench.run()
    bench.log.commits.clear()
    bench.term._handle(malformed(own))
    bench.term._handle(malformed(own))
    (records, _, stream), (*again, _, stream_again) = bench.log.commits
    told = [(key, value is None) for key, value in records if key != "job"]
    assert (f"refused/{UUID}", False) in told
    assert len(again[0]) + len(stream_again) == 1  # the second deletion
    if own:
        assert told[1:] == [(f"request/{UUID}", True), (f"response/{UUID}", False)]
    else:
        assert [(r.key.split(".")[1], r.value is None) for r in stream] == [
            ("ContainerPlacementRequestMessage", True),
            ("ContainerPlacementResponseMessage", False),
        ]
    assert bench.steps.counters["malformed-requests"] == 1


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_request_under_a_uuid_that_was_refused_unread_is_only_deleted(
    own: bool, restarted: bool
) -> None:
    """BAD_REQUEST is its outcome, also for a coordinator that takes over."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    bench.term._handle(malformed(own))
    if restarted:
        bench.steps.state = bench.steps.stored = stored_and_read(bench.steps.state)
        bench.term._handle(events.CoordinatorRestarted(0))
    bench.log.commits.clear()
    bench.term._handle(malformed(own))
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "0", "ANY_HOST", 1, own=own)))
    (records, told, stream), (later, deleted, _) = bench.log.commits
    assert [value for _, value in records] + [r.value for r in stream] == [None]
    assert (told, later, deleted) == ([], [], [commands.DeleteRequest(UUID, own)])
    assert bench.steps.state.groups["0"].queue == ()
    assert bench.steps.state.groups["0"].action is None


def test_a_request_that_found_its_queue_full_is_not_taken_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was told BAD_REQUEST: whoever still wants it asks under another UUID."""
    monkeypatch.setattr(full_queue, "MOST_QUEUED", 1)
    bench = Bench()
    bench.run()
    bench.handle_all()
    first, beyond = asks(2)
    bench.term._handle(first)
    bench.term._handle(beyond)
    bench.steps.state = bench.steps.stored = stored_and_read(bench.steps.state)
    monkeypatch.setattr(full_queue, "MOST_QUEUED", 9)
    bench.term._handle(beyond)
    assert [ask.uuid for ask in bench.steps.state.groups["0"].queue] == [first.ask.uuid]
    assert bench.log.commits[-1][1] == [commands.DeleteRequest(beyond.ask.uuid)]


def test_of_another_deployment_or_a_known_uuid_it_is_only_deleted() -> None:
    """The first outcome stands; others' requests have no record here."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    bench.term._handle(Arrived(PlacementAsk(UUID, "run-1", "9", "h1", 1)))
    bench.log.commits.clear()
    bench.term._handle(malformed(own=True))
    bench.term._handle(malformed(own=True, uuid="1" * 8 + UUID[8:], deployment_id="run-0"))
    assert [len(records) for records, _, _ in bench.log.commits] == [1, 1]


def test_what_nobody_can_be_answered_for_is_counted() -> None:
    """And nothing is written."""
    bench = Bench()
    bench.run()
    bench.log.commits.clear()
    bench.term._handle(Ignored("a key without a UUID"))
    assert bench.steps.counters["ignored-requests"] == 1
    assert bench.log.commits == []


def test_reports_that_cant_be_read_have_a_counter_of_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many in one round, told of once: a topic full of them fills no log."""
    bench = Bench()
    bench.run()
    bench.term.observe(Ignored("no JSON", counted_as="ignored-reports", times=3))
    bench.term.observe(Ignored("", counted_as="ignored-reports", times=2))
    bench.handle_all()
    assert bench.steps.counters["ignored-reports"] == 5
    assert bench.steps.counters["ignored-requests"] == 0
    assert [r.message for r in caplog.records if "ignored" in r.message] == [
        "ignored a record: no JSON"
    ]


def test_every_record_that_a_leader_writes_has_a_key_that_the_next_one_reads() -> None:
    """A key that isn't known as ours would be left out at the take-over."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    everything_runs(bench)
    bench.term._handle(malformed(own=True))
    bench.steps.end_in_order()
    keys = {key.encode() for key in [*bench.log.written(), LEADER, DEPLOYMENT, TAKE_OVER]}
    assert {key.partition(b"/")[0] for key in keys} >= {b"job", b"group", b"host", b"refused"}
    assert [key for key in keys if not is_state(key) and not is_mail(key)] == []


def test_foreign_records_of_the_state_topic_are_counted_as_ignored() -> None:
    """Those that were there at the take-over, and those that come later; deletions are none."""
    foreign = TopicRecord(3, 0, b"\xff" * 300, b"\x00")
    taps: list[Callable[[TopicRecord], None]] = []

    class Reader:
        def watch_mail(
            self, on_record: object, *, from_position: int, on_foreign: Callable[..., None]
        ) -> Finished:
            taps.append(on_foreign)
            return Finished()

    told: list[Mail] = []
    source = KafkaOwnRequests(
        Reader(),  # pyright: ignore[reportArgumentType]
        Snapshot({}, 9, (TopicRecord(1, 0, b"request/\xff", b"x"),), foreign=(foreign,)),
    )
    with source.tail(told.append):
        taps[0](replace(foreign, key=None))
    assert [type(mail) for mail in told] == [Ignored] * 3
    assert {mail.counted_as for mail in told if isinstance(mail, Ignored)} == {"ignored-requests"}
    assert "offset 3" in str(told[1])
    assert len(str(told[1])) < 1000


def test_what_is_about_a_request_comes_after_it_whatever_time_it_bears() -> None:
    """Its client's clock is behind, and nobody led meanwhile: a cancel that came first had nothing to cancel."""
    place, cancel = UUID, UUID.replace("0", "1")
    asked = {"processorId": "0", "destinationHost": "h1", "deploymentId": "run-1"}
    written = [
        (place, {**asked, "kind": "fail-over", "timestamp": 200_000}),
        (cancel, {**asked, "kind": "cancel", "timestamp": 50_000, "refersTo": place}),
    ]
    mail = tuple(
        TopicRecord(
            number, 0, f"request/{uuid}".encode(), json.dumps({"version": 1, **of}).encode()
        )
        for number, (uuid, of) in enumerate(written)
    )

    class Reader:
        def watch_mail(self, *_: object, **__: object) -> Finished:
            return Finished()

    told: list[Mail] = []
    with KafkaOwnRequests(Reader(), Snapshot({}, 2, mail)).tail(told.append):  # pyright: ignore[reportArgumentType]
        assert [m.ask.uuid for m in told if isinstance(m, Arrived)] == [place, cancel], told


def test_a_cancel_finds_the_request_that_waited_with_it_in_the_other_topic() -> None:
    """Requests of Samza's wire are in the coordinator stream, what is about them is in ours."""
    about = UUID.replace("0", "1")
    bench = Bench()
    bench.mails.append(Arrived(PlacementAsk(UUID, "run-1", "0", "h1", 200_000)))
    bench.own.append(
        Arrived(
            PlacementAsk(
                about, "run-1", "0", "h1", 50_000, kind=AskKind.CANCEL, refers_to=UUID, own=True
            )
        )
    )
    bench.run()
    bench.handle_all()
    answers = {
        p.uuid: p.status
        for _, projections, _ in bench.log.commits
        for p in projections
        if isinstance(p, commands.WriteResponse)
    }
    assert answers[about] == "SUCCEEDED", answers


def test_a_request_of_our_own_is_answered_where_it_came_from() -> None:
    """And deleted there, in the same transaction: nothing of it goes to the coordinator stream."""
    bench = Bench()
    bench.run()
    bench.handle_all()
    bench.log.commits.clear()
    ask = PlacementAsk(UUID, "run-1", "9", "h1", 1, kind=AskKind.FAIL_OVER, own=True)
    bench.term._handle(Arrived(ask))
    (_, projections, stream) = bench.log.commits[0]
    assert {p.own for p in projections} == {True}
    assert stream == []


def test_a_hosts_word_of_a_higher_epoch_ends_no_leader_that_the_brokers_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is counted, told with what to do, and asks the brokers once in five seconds."""
    bench = Bench()
    bench.run()
    before = bench.log.written().count("leader")
    for _ in range(3):
        bench.cluster.told = {"h2": 2**53 - 1, "h3": 5}
        bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 1
    assert bench.steps.counters["refused-epochs"] == 6
    assert "the agent of h2 is refused: its highest_epoch is 9007199254740991" in caplog.text
    assert "the agent of h3" in caplog.text
    bench.pass_time(5.1)
    bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 1
    bench.cluster.told = {"h2": 5}
    bench.term._heed_higher_epochs()
    assert bench.log.written().count("leader") == before + 2


def test_a_leader_that_was_replaced_ends_by_the_brokers_word() -> None:
    """At the first agent that has heard of the other."""
    bench = Bench()
    bench.run()
    bench.log.fenced = True
    bench.cluster.told = {"h2": 5}
    with pytest.raises(Fenced):
        bench.term._heed_higher_epochs()
