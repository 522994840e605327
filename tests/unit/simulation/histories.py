"""Histories made by hand: a judge, a world that says what it is told to, and the states between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from immutables import Map

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import AuditRecord, Predecessor, digest_of
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import Step
from samza_dagster.placement.state import (
    Action,
    Group,
    Host,
    Incarnation,
    JobState,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
    Stage,
)
from samza_dagster.simulation.judges.invariants import InvariantJudge
from samza_dagster.simulation.judges.truth import Process
from samza_dagster.simulation.judges.violation import InvariantViolated

RUN = "run-1"


@contextmanager
def violated(invariant: str, what: str | None = None) -> Iterator[None]:
    """Exactly this invariant is found broken."""
    with pytest.raises(InvariantViolated, match=what) as found:
        yield
    assert found.value.invariant == invariant


@dataclass
class Told:
    """A truth that a test writes itself."""

    live: list[Process] = field(default_factory=list)
    held: dict[str, str] = field(default_factory=dict)
    wrote: list[cmd.WriteResponse] = field(default_factory=list)
    where: dict[str, str] = field(default_factory=dict)

    def processes(self) -> list[Process]:
        return self.live

    def held_resources(self) -> Mapping[str, str]:
        return self.held

    def asks(self) -> Mapping[str, PlacementAsk]:
        return {}

    def responses(self) -> list[cmd.WriteResponse]:
        return self.wrote

    def locality(self) -> Mapping[str, str]:
        return self.where


def process(processor_id: str, epoch: int, host: str, **changes: object) -> Process:
    """A live process that owns its tasks."""
    base = Process(
        execution_id=execution(processor_id, epoch),
        processor_id=processor_id,
        group_id=processor_id.partition("-")[0],
        epoch=epoch,
        host=host,
        fault_domain="",
        released=True,
        checked_in=True,
        stopping=False,
        refused=False,
        frozen=False,
        lease_over=False,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def execution(processor_id: str, epoch: int) -> str:
    return f"demo-{processor_id}-{epoch:06d}"


def incarnation(processor_id: str, epoch: int, host: str) -> Incarnation:
    return Incarnation(epoch, execution(processor_id, epoch), host, f"r-{epoch}")


def running(processor_id: str, epoch: int, host: str) -> Processor:
    return Processor(
        processor_id,
        Role.STANDBY if "-" in processor_id else Role.ACTIVE,
        Phase.RUNNING,
        incarnation(processor_id, epoch, host),
        last_seen_host=host,
    )


def requesting(processor_id: str, host: str | None = None, deadline_ms: int = 9_000) -> Processor:
    role = Role.STANDBY if "-" in processor_id else Role.ACTIVE
    request = ResourceRequest("r-open", host, (), deadline_ms)
    return Processor(processor_id, role, Phase.REQUESTING, request=request)


class History:
    """A job of which the test says what the heart does. Active 0 and standby 0-0 run."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.judge = InvariantJudge(by_law=False)
        self.truth = Told()
        self.now_ms = 1_000
        self._last: AuditRecord | None = None
        self._ends: dict[str, AuditRecord] = {}
        self.state = JobState(
            "demo",
            deployment_id=RUN,
            hosts=Map({f"host-{n}": Host(f"host-{n}") for n in (1, 2, 3)}),
            limits=limits or Limits(),
            now_ms=self.now_ms,
        )

    def settled(self) -> History:
        """Active 0 runs on host-1, its standby on host-2."""
        for host in self.state.hosts:
            self.take_state(ev.HostRegistered(self.now_ms, host, frozenset()), self.state)
        for epoch, (pid, host) in enumerate((("0", "host-1"), ("0-0", "host-2")), start=1):
            self.start(pid, epoch, host)
            self.run(pid, epoch, host)
        return self

    def forked(self) -> History:
        """Another branch; what each does from now on the other doesn't know."""
        other = History()
        other.judge, other.state, other.truth = self.judge.fork(), self.state, self.truth
        return other

    def take(
        self,
        event: ev.Event,
        *commands: cmd.Command,
        processors: tuple[Processor, ...] = (),
        without: str = "",
        **changes: object,
    ) -> None:
        """The heart's step as the test has it: processors and fields of group 0 that change."""
        group = self.state.groups.get("0", Group("0", {}))
        members = {**group.processors, **{p.processor_id: p for p in processors}}
        members.pop(without, None)
        group = replace(group, processors=members, **changes)  # type: ignore[arg-type]
        after = replace(self.state, groups=self.state.groups.set("0", group), now_ms=self.now_ms)
        self.take_state(event, after, *commands)

    def take_state(self, event: ev.Event, after: JobState, *commands: cmd.Command) -> None:
        """The same with a whole state."""
        after = rebuilt(after)
        self.judge.step(self.state, event, Step(after, commands), self.truth)
        self.state = after

    def start(self, pid: str, epoch: int, host: str, *, how: str = "") -> None:
        """One start with its record; `how` names the end of the one before."""
        record = self.start_record(pid, epoch, host, how=how)
        processor = replace(running(pid, epoch, host), phase=Phase.STARTING, deadline_ms=60_000)
        self.take(
            ev.ResourceAllocated(self.now_ms, f"r-{epoch}", host),
            cmd.RecordCertificate(record),
            cmd.StartContainer(pid, execution(pid, epoch), host, f"r-{epoch}"),
            processors=(processor,),
        )

    def run(self, pid: str, epoch: int, host: str) -> None:
        """It checks in."""
        self.truth.live.append(process(pid, epoch, host))
        self.judge.world_changed(self.truth)
        self.take(
            ev.ContainerCheckedIn(self.now_ms, execution(pid, epoch), host),
            cmd.WriteLocality(pid, host),
            processors=(running(pid, epoch, host),),
        )
        self.truth.where[pid] = host

    def dies(self, pid: str, epoch: int, host: str, *commands: cmd.Command) -> None:
        """Its agent saw it dead; it asks for any host."""
        self.truth.live = [p for p in self.truth.live if p.epoch != epoch]
        self.judge.world_changed(self.truth)
        self.take(
            ev.ContainerStopped(self.now_ms, execution(pid, epoch), host, 137),
            cmd.RecordCertificate(self.end_record(pid, epoch, host, "dead")),
            *commands,
            processors=(requesting(pid),),
        )

    def start_record(self, pid: str, epoch: int, host: str, *, how: str = "") -> AuditRecord:
        end = self._ends.get(pid)
        predecessor = (
            Predecessor(end.execution_id, end.epoch, end.host, how or end.how, end.at_ms, "")
            if end is not None
            else None
        )
        others = {(p.processor_id, p.host) for p in self.truth.live if p.processor_id != pid}
        record = replace(self._record(pid, epoch, host), others=tuple(sorted(others)))
        return self.chained(replace(record, predecessor=predecessor))

    def end_record(self, pid: str, epoch: int, host: str, how: str) -> AuditRecord:
        record = self.chained(replace(self._record(pid, epoch, host), kind="end", how=how))
        self._ends[pid] = record
        return record

    def chained(self, record: AuditRecord) -> AuditRecord:
        """The record as the next of the chain."""
        last = self._last
        record = replace(
            record,
            number=1 if last is None else last.number + 1,
            previous_hash="" if last is None else last.digest,
            previous_at_ms=None if last is None else last.at_ms or None,
        )
        self._last = replace(record, digest=digest_of(record))
        return self._last

    def _record(self, pid: str, epoch: int, host: str) -> AuditRecord:
        return AuditRecord(
            number=0,
            kind="start",
            at_ms=self.now_ms,
            deployment_id=RUN,
            group_id="0",
            processor_id=pid,
            role="Active",
            execution_id=execution(pid, epoch),
            epoch=epoch,
            host=host,
            previous_hash="",
        )

    # -- requests ----------------------------------------------------------------------

    def asks(self, uuid: str, destination: str, *, at: int = 0, pid: str = "0", **k: object) -> (
        PlacementAsk
    ):  # fmt: skip
        return PlacementAsk(uuid, RUN, pid, destination, at, **k)  # type: ignore[arg-type]

    def begin(self, ask: PlacementAsk) -> None:
        """The request arrives and its action reserves a place."""
        host = ask.destination_host if ask.destination_host.startswith("host-") else None
        self.take(
            ev.RequestArrived(self.now_ms, ask),
            cmd.DeleteRequest(ask.uuid),
            respond(ask, "IN_PROGRESS", "reserving"),
            cmd.RequestResource("r-move", ask.processor_id, host, (), 384, 1, 5_000),
            action=acting(ask, Stage.RESERVING, host),
        )

    def waits(self, ask: PlacementAsk) -> None:
        """The request arrives and is queued."""
        queue = (*self.state.groups["0"].queue, ask)
        self.take(
            ev.RequestArrived(self.now_ms, ask),
            cmd.DeleteRequest(ask.uuid),
            respond(ask, "ACCEPTED", "waits"),
            queue=queue,
        )


def acting(ask: PlacementAsk, stage: Stage, host: str | None = None) -> Action:
    reservation = ResourceRequest("r-move", host, (), 6_000)
    return Action(ask, stage, "host-1", reservation, status="IN_PROGRESS", message="reserving")


def respond(ask: PlacementAsk, status: str, message: str = "") -> cmd.WriteResponse:
    return cmd.WriteResponse(
        ask.uuid, ask.deployment_id, ask.processor_id, ask.destination_host, status, message, 0
    )
