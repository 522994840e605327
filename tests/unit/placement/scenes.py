"""Worlds to begin a scenario with, and the words that scenarios are told in.

Every step of the reducer and every change of the world is judged by all invariants,
so a scenario states only what is particular to it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from samza_dagster.coordinator.durable import changed, host_record
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.restoring import restore
from samza_dagster.placement.state import (
    Fencing,
    Group,
    Incarnation,
    JobState,
    Limits,
    Phase,
    PlacementAsk,
    Processor,
    Stage,
)
from tests.simulation.clocks import LeaseGrant
from tests.simulation.effects import place
from tests.simulation.hosts import Hold, Trouble
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.world import World

HOSTS = ("host-1", "host-2", "host-3", "host-4")
GROUPS = {"0": ("0", "0-0"), "1": ("1", "1-0")}
PLACES = {"0": "host-1", "0-0": "host-2", "1": "host-3", "1-0": "host-4"}
QUICK = Limits(host_timeout_ms=10_000)
"""A host is given up long before its leases have run out."""


def whose(command: cmd.Command) -> str:
    """The processor that a command is about; a stop names its incarnation, `demo-0_0-000001`."""
    if isinstance(command, cmd.StopContainer):
        return command.execution_id.split("-")[-2].replace("_", "-")
    return getattr(command, "processor_id", "")


class Scene(World):
    """A world with the verbs of a scenario; `emitted` is always kept."""

    steps_told: list[tuple[cmd.Command, ...]]
    limits = QUICK
    groups: Mapping[str, tuple[str, ...]] = GROUPS
    places: Mapping[str, str] = PLACES
    since_ms = 0
    due_ms: int | None = None
    first: Mapping[str, Incarnation] = {}
    """Each processor's incarnation as the scene began."""

    # -- what happens ------------------------------------------------------------------

    def crash(self, processor_id: str) -> None:
        """The processor's container ends by itself; its agent has yet to say so."""
        host = self.where(processor_id)
        assert host is not None
        assert self.do(Move("kill", (host, processor_id)))

    def trouble(self, host: str, what: Trouble) -> None:
        """The host does something wrong from now on."""
        assert self.do(Move("trouble", (host, what.value)))

    def calm(self, host: str) -> None:
        """The host does everything right again."""
        assert self.do(Move("calm", (host,)))

    def fill(self, host: str) -> None:
        """Another job takes all the room that is left."""
        memory, cores = self.hosts[host].free()
        name = f"of-another-job-{len(self.hosts[host].ledger)}"
        self.hosts[host].ledger[name] = Hold(memory, cores, name)

    def make_room(self, host: str) -> None:
        """The other job is gone."""
        ledger = self.hosts[host].ledger
        for name in [name for name in ledger if name.startswith("of-another-job")]:
            del ledger[name]
        place(self, self.leader)

    def evict(self, processor_id: str) -> None:
        """Its container ends by itself, and another job is quicker to take the room."""
        host = self.placed(processor_id)
        assert host is not None
        self.crash(processor_id)
        self.fill(host)
        self.until_phase(processor_id, Phase.REQUESTING)

    def expire(self, processor_id: str) -> None:
        """The cluster gives up on the processor's open request."""
        pending = list(self.leader.requests.pending.values())
        asked = [open_.ask.processor_id for open_ in pending]
        assert self.do(Move("expire", (asked.index(processor_id),)))

    def lose(self, host: str) -> None:
        """The host's last word was too long ago; nothing else happens meanwhile."""
        silent_ms = self.state.limits.host_timeout_ms + 1
        lost, known = self.hosts[host], self.leader.known_hosts[host]
        known.heard_ms = known.granted_ms = self.now_ms - silent_ms
        grant = lost.grant
        assert grant is not None
        lost.grant = LeaseGrant(
            grant.epoch, grant.lease_ms, grant.boot_ms - silent_ms, grant.wall_ms - silent_ms
        )
        assert self.do(Move("cut", (host, "both")))
        self.wait(0)
        assert not self.state.hosts[host].alive

    def lag(self, standby_id: str, records: int, ready_in_ms: int | None = None) -> None:
        """A sample of a standby's lag, with or without a forecast."""
        ready = -1 if ready_in_ms is None else ready_in_ms
        assert self.do(Move("lag", (standby_id, records, ready)))

    def control(self, kind: RequestKind, *, uuid: str = "c1", of: str = "u1") -> tuple[str, str]:
        """A commit, release or cancel of another request; its outcome."""
        self.submit(own(kind, "0", uuid=uuid, refers_to=of))
        return self.outcome(uuid)

    def come_back(self, host: str) -> None:
        """The host's agent registers again."""
        self.do(Move("join", (host,)))
        self.register(host)

    def restart_coordinator(self) -> None:
        """Another coordinator takes over from one that is gone; hosts have yet to register."""
        assert self.do(Move("kill-leader"))
        self.committed = stored_and_read(self.committed)
        assert self.do(Move("take-over"))

    def wait(self, ms: int) -> None:
        """Time passes; nobody but clocks does anything."""
        assert self.do(Move("wait", (ms,)))

    def next_move(self) -> bool:
        """The next fair thing happens, time apart; False when nobody has anything to do."""
        moves = self.moves()
        return bool(moves) and self.do(moves[0])

    def from_now_on(self) -> None:
        """What was said is forgotten, and time counts from here."""
        self.log.clear()
        self.steps_told.clear()
        self.since_ms = self.now_ms

    def take_name(self, how: str, host: str) -> None:
        """Something becomes of a host's machine or of its agent's directory; the agent registers."""
        assert self.do(Move(how, (host,)))
        self.register(host)

    def until(self, condition: Callable[[], bool], limit: int = 1_000) -> None:
        """As in any world, and no later than `due_ms`."""

        def in_time() -> bool:
            if self.due_ms is None or self.now_ms <= self.due_ms:
                return condition()
            phases = ", ".join(f"{pid} is {phase}" for pid, phase in self.phases().items())
            raise AssertionError(f"it is too late: {phases}")

        super().until(in_time, limit)

    def until_phase(self, processor_id: str, phase: Phase) -> None:
        self.until(lambda: self.phases().get(processor_id) is phase)

    def until_stage(self, stage: Stage | None, group_id: str = "0") -> None:
        self.until(lambda: self.stage(group_id) is stage)

    def until_all_run(self) -> None:
        """As `settle`, but no fault ends by itself."""
        self.until(lambda: set(self.phases().values()) == {Phase.RUNNING} and not self.moves())

    # -- what is seen ------------------------------------------------------------------

    @property
    def log(self) -> list[cmd.Command]:
        """Every command since the scenario began."""
        assert self.emitted is not None
        return self.emitted

    def group(self, group_id: str = "0") -> Group:
        return self.state.groups[group_id]

    def processor(self, processor_id: str) -> Processor:
        return next(
            group.processors[processor_id]
            for group in self.state.groups.values()
            if processor_id in group.processors
        )

    def placed(self, processor_id: str) -> str | None:
        """The host of the incarnation that the reducer wants."""
        incarnation = self.processor(processor_id).incarnation
        return None if incarnation is None else incarnation.host

    def execution(self, processor_id: str) -> str:
        """The id of the incarnation that the reducer wants."""
        incarnation = self.processor(processor_id).incarnation
        assert incarnation is not None
        return incarnation.execution_id

    def statuses(self, uuid: str = "u1") -> list[str]:
        return [status for status, _ in self.responses_to(uuid)]

    def outcome(self, uuid: str = "u1") -> tuple[str, str]:
        """The last response."""
        return self.responses_to(uuid)[-1]

    def stopped(self) -> list[str]:
        """Processors that were told to stop, in order."""
        return [whose(stop) for stop in self.sent(cmd.StopContainer)]

    def started(self) -> list[tuple[str, str]]:
        """(processor, host) of every start, in order."""
        return [(start.processor_id, start.host) for start in self.sent(cmd.StartContainer)]

    def asked_for(self, processor_id: str) -> list[str | None]:
        """The hosts that were requested for it, in order; None is any host."""
        requests = self.sent(cmd.RequestResource)
        return [r.host for r in requests if r.processor_id == processor_id]

    def commands_with(self, kind: type[cmd.Command]) -> list[str]:
        """All that the first step said that has a command of this kind: names and processors."""
        told = next(step for step in self.steps_told if any(isinstance(c, kind) for c in step))
        return [f"{type(c).__name__} {whose(c)}".strip() for c in told]

    def counted(self) -> Counter[str]:
        """Counters since the scenario began."""
        return Counter(metric.name for metric in self.sent(cmd.CountMetric))

    def certificate(self, processor_id: str) -> AuditRecord:
        """The processor's last start."""
        records = [command.record for command in self.sent(cmd.RecordCertificate)]
        return next(
            r for r in reversed(records) if r.kind == "start" and r.processor_id == processor_id
        )

    def how_replaced(self, processor_id: str) -> str:
        """How what the processor's last start replaced had ended."""
        predecessor = self.certificate(processor_id).predecessor
        assert predecessor is not None
        return predecessor.how

    def why_started(self, processor_id: str) -> str:
        return self.certificate(processor_id).why


def stored_and_read(state: JobState) -> JobState:
    """The state as a new coordinator reads it off the state topic."""
    records = changed(JobState(state.job), state, leader_epoch=1)
    records += [host_record(host, None) for host in state.hosts.values()]
    return restore({key: json.loads(json.dumps(value)) for key, value in records}, state.job)


def fresh(
    hosts: tuple[str, ...] = HOSTS,
    *,
    slots: int = 4,
    job: str = "demo",
    racks: Mapping[str, str] | None = None,
) -> Scene:
    """Hosts that have registered, and nothing deployed."""
    world = Scene.of(hosts, slots=slots, job=job, domains=racks, judge=InvariantJudge())
    world.steps_told = []
    world.heard = lambda _, taken: world.steps_told.append(taken.commands)
    for host in hosts:
        world.register(host)
    world.wait(0)  # the leader's first beat: every host has a whole lease
    return world


def running(
    places: dict[str, str] | None = None,
    *,
    groups: dict[str, tuple[str, ...]] | None = None,
    hosts: tuple[str, ...] = HOSTS,
    limits: Limits | None = None,
    slots: int = 4,
    racks: Mapping[str, str] | None = None,
) -> Scene:
    """A job that runs, each processor where `places` says."""
    world = fresh(hosts, slots=slots, racks=racks)
    world.groups, world.limits = groups or GROUPS, limits or Limits()
    world.places = PLACES if places is None else places
    if world.places:
        world.deploy(world.groups, last_seen=world.places, limits=world.limits)
        world.until_all_run()
    known = {pid: world.processor(pid).incarnation for pid in world.phases()}
    world.first = {pid: incarnation for pid, incarnation in known.items() if incarnation}
    world.from_now_on()
    world.brokers.responses.clear()
    return world


PLACES_OF_THREE = {"0": "host-1", "0-0": "host-2", "0-1": "host-3"}
JOBS = {
    "two pairs": PLACES,
    "one pair": {"0": "host-1", "0-0": "host-2"},
    "one active": {"0": "host-1"},
    "two actives": {"0": "host-1", "1": "host-3"},
    "two actives on two hosts": {"0": "host-1", "1": "host-2"},
    "four actives": {"0": "host-1", "1": "host-2", "2": "host-3", "3": "host-4"},
    "four actives on a host": {"0": "host-1", "1": "host-1", "2": "host-1", "3": "host-1"},
    "an active and two standbys": PLACES_OF_THREE,
    "an active and three standbys": {**PLACES_OF_THREE, "0-2": "host-4"},
    "three of three groups on a host": {
        "0": "host-1",
        "0-0": "host-2",
        "1": "host-3",
        "1-0": "host-1",
        "2": "host-1",
    },
    "nothing": {},
}


def groups_of(processor_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Actives, each with its standbys: `0-0` is one of `0`."""
    groups: dict[str, tuple[str, ...]] = {}
    for pid in processor_ids:
        active, _, _ = pid.partition("-")
        groups[active] = (*groups.get(active, ()), pid)
    return groups


def job(described: str) -> Scene:
    """The world of a scene's head: one of `JOBS`, then hosts, slots, racks, or limits by name."""
    name, *options = described.split("; ")
    hosts, slots, limits, racks = 4, 4, dict[str, object](), dict[str, str]()
    for option in options:
        match option.split(" "):
            case [number, "hosts" | "host"]:
                hosts = int(number)
            case [number, "slots" | "slot"]:
                slots = int(number)
            case ["racks", *names]:
                racks = {f"host-{n}": rack for n, rack in enumerate(names, 1)}
            case ["fencing", fencing]:
                limits["fencing"] = Fencing(fencing)
            case ["no", "affinity"]:
                limits["host_affinity"] = False
            case [limit, number]:
                limits[limit] = int(number)
            case _:
                raise LookupError(f"no option reads {option!r}")
    return running(
        JOBS[name],
        groups=groups_of(JOBS[name]),
        hosts=tuple(f"host-{n}" for n in range(1, hosts + 1)),
        limits=QUICK.evolve(**limits),
        slots=slots,
        racks=racks,
    )


def ask(
    processor_id: str,
    destination: str,
    *,
    uuid: str = "u1",
    at_ms: int = 10,
    deployment_id: str = "run-1",
    expiry_ms: int | None = None,
    hold: bool = False,
) -> PlacementAsk:
    """A request to place a container."""
    return PlacementAsk(uuid, deployment_id, processor_id, destination, at_ms, expiry_ms, hold=hold)


def own(
    kind: RequestKind,
    processor_id: str,
    destination: str = "",
    *,
    uuid: str = "u1",
    at_ms: int = 10,
    refers_to: str = "",
    expiry_ms: int | None = None,
) -> PlacementAsk:
    """A request of a kind that only our own topic has."""
    return PlacementAsk(
        uuid,
        "run-1",
        processor_id,
        destination,
        at_ms,
        expiry_ms,
        kind,
        refers_to=refers_to,
        own=True,
    )
