"""A world small enough to be looked at whole, and how much may go wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from samza_dagster.model import naming
from samza_dagster.placement.state import Fencing, Limits, PlacementAsk
from tests.simulation.client_events import label
from tests.simulation.judges.invariants import InvariantJudge
from tests.simulation.moves import Move
from tests.simulation.world import World

DEPLOYMENT = "run-1"
LAYOUT = {"0": ("0", "0-0"), "1": ("1", "1-0")}
HOSTS = ("host-1", "host-2", "host-3")
EFFECTS = 5
"""No step of so small a job has more effects than this that a crash could come between."""


def move(uuid: str, processor_id: str, destination: str) -> PlacementAsk:
    """A request of this deployment to place a container."""
    return PlacementAsk(uuid, DEPLOYMENT, processor_id, destination, int(uuid[2:]))


ASKS = (move("u-1", "0", naming.ANY_HOST), move("u-2", "1", "host-1"))


@dataclass(frozen=True, slots=True)
class Budget:
    """What may still go wrong. `haste` is how often time may pass while others have things to do.

    `asked` counts the requests that were written so far.
    """

    crashes: int = 1
    lost_hosts: int = 1
    duplicates: int = 1
    deaths: int = 0
    haste: int = 0
    asked: int = 0


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """The whole of an exploration: the job, what is asked of it, and what may go wrong.

    Two actives with a standby each on three hosts. `settled`: it begins with everybody
    running, else with the deployment.
    """

    budget: Budget = Budget()
    asks: tuple[PlacementAsk, ...] = ASKS
    layout: tuple[tuple[str, ...], ...] = tuple(LAYOUT.values())
    hosts: tuple[str, ...] = HOSTS
    slots: int = 3
    fencing: Fencing = Fencing.LEASE
    settled: bool = True

    def begin(self) -> World:
        """The world in its first state, with a judge."""
        world = World.of(self.hosts, slots=self.slots, judge=InvariantJudge())
        world.emitted = None
        for host in self.hosts:
            world.register(host)
        limits = Limits(fencing=self.fencing)
        groups = {members[0]: members for members in self.layout}
        world.deploy(groups, deployment_id=DEPLOYMENT, limits=limits)
        if self.settled:
            world.settle()
        return world

    def moves(self, world: World, budget: Budget) -> Iterator[tuple[Move, Budget]]:
        """Everything that may happen next, and what may go wrong after that.

        Time passes when nobody has anything to do, and `haste` times before that.
        """
        fair = world.moves()
        for found in fair:
            yield found, budget
        if not fair:
            yield Move("tick"), budget
        elif budget.haste:
            yield Move("tick"), replace(budget, haste=budget.haste - 1)
        if budget.asked < len(self.asks):
            yield label(self.asks[budget.asked]), replace(budget, asked=budget.asked + 1)
        if budget.crashes and world.leader.trap is None:
            less = replace(budget, crashes=budget.crashes - 1)
            for effects in range(EFFECTS):
                yield Move("crash", (effects,)), less
        yield from _hosts_fail(world, budget)
        if budget.duplicates:
            less = replace(budget, duplicates=budget.duplicates - 1)
            for name, host in world.hosts.items():
                if host.reports:
                    yield Move("duplicate", (name,)), less
            for uuid in world.brokers.asked:
                yield Move("reread", (uuid,)), less


def _hosts_fail(world: World, budget: Budget) -> Iterator[tuple[Move, Budget]]:
    for name, host in world.hosts.items():
        if host.frozen is not None:
            yield Move("thaw", (name,)), budget
        elif budget.lost_hosts:
            less = replace(budget, lost_hosts=budget.lost_hosts - 1)
            yield Move("freeze", (name, "suspend")), less
            yield Move("reboot", (name,)), less
        if budget.deaths and host.frozen is None:
            less = replace(budget, deaths=budget.deaths - 1)
            for entry in host.live():
                yield Move("kill", (name, entry.processor_id)), less


def is_whole(world: World) -> bool:
    """No fault lasts."""
    return all(h.agent_up and h.frozen is None and not h.cut_in for h in world.hosts.values())


def outcome(world: World) -> tuple[object, ...]:
    """What a person sees in the end: who runs where, and how each request ended."""
    placed = tuple(
        (pid, p.phase.value, p.incarnation.host if p.incarnation is not None else "")
        for _, group in sorted(world.committed.groups.items())
        for pid, p in sorted(group.processors.items())
    )
    last = {r.uuid: r.status for r in world.brokers.responses}
    return placed, tuple(sorted(last.items()))


@dataclass(frozen=True, slots=True)
class TroubleKind:
    """A small world by name. `calm` is the trouble with the same faults and no crash."""

    name: str
    world: SmallWorld
    calm: str = ""


def _trouble(
    name: str, calm: str = "", *, crashes: int = 0, lost: int = 0, twice: int = 0
) -> TroubleKind:
    return TroubleKind(name, SmallWorld(Budget(crashes, lost, twice)), calm)


TROUBLES = (
    _trouble("two moves"),
    _trouble("a crash", "two moves", crashes=1),
    _trouble("a duplicate", twice=1),
    _trouble("a lost host", lost=1),
    _trouble("a crash and a duplicate", "a duplicate", crashes=1, twice=1),
    _trouble("a crash and a lost host", "a lost host", crashes=1, lost=1),
    _trouble("a duplicate and a lost host", lost=1, twice=1),
    _trouble("all of it", "a duplicate and a lost host", crashes=1, lost=1, twice=1),
    TroubleKind("haste", SmallWorld(Budget(0, 0, 0, haste=1))),
    TroubleKind(
        "a lost host in haste",
        SmallWorld(Budget(0, 1, 0, haste=1), asks=(), layout=(LAYOUT["0"],)),
    ),
)
"""From what is soon looked at whole to what is not; each with two moves asked for, but the last.

In those in haste time may once go on to what is due next while others have things to do: an
expiry races what was held; in the last, which has one group and no move, a lease and a host's
time-out race reports and registrations. In the others time passes when nobody else can do anything.
"""
