"""What an agent tells otherwise when it registers again: its capacity, its rack.

Each is an option of an agent that is started in another's stead, on the
same directory; wardens and containers live on.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation import passing
from tests.simulation.hosts import VirtualHost
from tests.simulation.moves import Handler, Move, at_host
from tests.simulation.world_state import WorldState

CONTAINER_MB = 384
"""A container's memory, MiB, before any deployment changes it."""
FEW = 1
"""Containers that a host has room for whose agent tells less than it had at first."""


def possible(world: WorldState, host: VirtualHost) -> list[Move]:
    """One change of each kind, there and back."""
    name = host.name
    room = host.begun_with[1] if host.cores == FEW else FEW
    return [
        Move("capacity", (name, room)),
        Move("rack", (name, _other_rack(world, host))),
    ]


def _other_rack(world: WorldState, host: VirtualHost) -> str:
    """That of the next host, or one of its own; then the one that it had at first."""
    first = host.begun_with[0]
    if host.fault_domain != first:
        return first
    names = list(world.hosts)
    beside = world.hosts[names[(names.index(host.name) + 1) % len(names)]].fault_domain
    return beside if beside != first else f"rack-of-{host.name}"


def as_at_first(host: VirtualHost) -> None:
    """Its agent has the rack that it began with."""
    rack, _ = host.begun_with
    if host.fault_domain != rack:
        host.fault_domain = rack
        host.begin_anew()


def _restart(change: Callable[..., bool]) -> Handler:
    @at_host(lambda host: host.runs)
    def restart(world: WorldState, host: VirtualHost, to: str | int) -> bool:
        passing.stir(world, host)
        if not change(host, to):
            return False
        host.begin_anew()
        world.touched()
        return True

    return restart


def _capacity(host: VirtualHost, containers: int) -> bool:
    """Room for so many containers: what runs beyond that runs on, and nothing more fits."""
    if containers == host.cores:
        return False
    host.memory_mb, host.cores = containers * CONTAINER_MB, containers
    return True


def _rack(host: VirtualHost, domain: str) -> bool:
    """It fails with others from now on: who runs there already stays."""
    if domain == host.fault_domain:
        return False
    host.fault_domain = domain
    return True


HANDLERS: dict[str, Handler] = {
    "capacity": _restart(_capacity),
    "rack": _restart(_rack),
}
