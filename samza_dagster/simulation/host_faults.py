"""What goes wrong with a virtual host: its machine, clocks, agent and containers."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.simulation import passing, registrations
from samza_dagster.simulation.hosts import Trouble, VirtualHost
from samza_dagster.simulation.moves import Move
from samza_dagster.simulation.world_state import WorldState

CLOCK_STEPS_MS = (-60_000, -5_000, 2_000, 40_000)
RATES_PPM = (-15_000, 0, 15_000)
"""Two clocks that run apart by this much stay within the default bound of a lease."""


def possible(world: WorldState, name: str, host: VirtualHost) -> list[Move]:
    """Every fault of the host itself that can happen now, and the end of a freeze."""
    if host.frozen is not None:
        return [Move("thaw", (name,)), Move("other-machine", (name,))]
    found = [Move("freeze", (name, "suspend")), Move("freeze", (name, "pause"))]
    found += [Move("kill", (name, entry.processor_id)) for entry in host.live()]
    found.append(Move("agent-restart" if host.agent_up else "agent-up", (name,)))
    found += [Move("agent-down", (name,)), Move("reboot", (name,)), Move("reimage", (name,))]
    if not host.unnamed:
        found.append(Move("other-directory", (name,)))
    if host.agent_up:
        found += registrations.possible(world, host)
    found += [Move("clock", (name, ms)) for ms in CLOCK_STEPS_MS]
    found += [Move("rate", (name, ppm)) for ppm in RATES_PPM]
    found.append(Move("other-machine", (name,)))
    return found


def _trouble(world: WorldState, name: str, what: str) -> bool:
    """A host begins to do something wrong."""
    host = world.hosts.get(name)
    if host is None or what in host.troubles:
        return False
    host.troubles |= {Trouble(what)}
    return True


def calm(world: WorldState, name: str) -> bool:
    """A host does everything right again."""
    host = world.hosts.get(name)
    if host is None or not host.troubles:
        return False
    host.troubles = frozenset()
    host.unacknowledged.clear()
    return True


def _freeze(world: WorldState, name: str, how: str) -> bool:
    """Nothing on the host runs: suspended, or its machine paused from outside."""
    host = world.hosts.get(name)
    if host is None or host.frozen is not None:
        return False
    for there in _on_machine(world, host):
        passing.stir(world, there)
        there.frozen = (world.true_ms, how)
    world.touched()
    return True


def thaw(world: WorldState, name: str) -> bool:
    """It can run again; whatever runs first, its wardens look at the clocks before it."""
    host = world.hosts.get(name) or world.former_hosts.get(name)
    if host is None or host.frozen is None:
        return False
    for there in _on_machine(world, host):
        there.thaw(world.true_ms)
    world.touched()
    return True


def _kill(world: WorldState, name: str, processor_id: str) -> bool:
    """A container dies by itself."""
    host = world.hosts.get(name)
    if host is None or host.frozen is not None:
        return False
    stirred = passing.stir(world, host)
    for entry in host.live():
        if entry.processor_id == processor_id:
            host.die(entry)
            world.touched()
            return True
    return stirred


def _agent_restart(world: WorldState, name: str) -> bool:
    """The agent ends, another adopts its records."""
    host = world.hosts.get(name)
    if host is None or not host.runs:
        return False
    passing.stir(world, host)
    host.begin_anew()
    return True


def _agent_down(world: WorldState, name: str) -> bool:
    """The agent ends; wardens and containers live on."""
    host = world.hosts.get(name)
    if host is None or not host.runs:
        return False
    passing.stir(world, host)
    host.agent_up = False
    host.reports.clear()
    host.late.clear()
    return True


def agent_up(world: WorldState, name: str) -> bool:
    """An agent is there again."""
    host = world.hosts.get(name)
    if host is None or host.agent_up or host.frozen is not None:
        return False
    host.begin_anew()
    return True


def _reboot(*, keeps_disk: bool) -> Callable[..., bool]:
    def reboot(world: WorldState, name: str) -> bool:
        host = world.hosts.get(name)
        if host is None:
            return False
        for there in _on_machine(world, host)[1:]:
            del world.former_hosts[there.name]
        host.reboot(world.true_ms, keeps_disk=keeps_disk)
        world.touched()
        return True

    return reboot


def _other_directory(world: WorldState, name: str) -> bool:
    """The agent ends, another begins in an empty directory; wardens and containers live on.

    Not of an older release, nor before an agent has registered that tells an id: to whom the
    boot of the machine must do, the empty directory would prove dead what lives on.
    """
    host = world.hosts.get(name)
    if host is None or host.frozen is not None or host.unnamed or host.older_release:
        return False
    passing.stir(world, host)
    _goes_on(world, host.replaced(world.true_ms, by_a_machine=False))
    return True


def _other_machine(world: WorldState, name: str) -> bool:
    """A new machine gets the name; the one that had it lives on, out of the leader's reach."""
    host = world.hosts.get(name)
    if host is None:
        return False
    shares = _on_machine(world, host)[1:]
    former = host.replaced(world.true_ms, by_a_machine=True)
    for there in shares:
        there.shares_machine_of = former.name
    _goes_on(world, former)
    return True


def _goes_on(world: WorldState, former: VirtualHost) -> None:
    if any(former.live()):
        world.former_hosts[former.name] = former
    world.touched()


def _on_machine(world: WorldState, host: VirtualHost) -> list[VirtualHost]:
    """The host, and what runs on its machine from its agents' earlier directories."""
    return [host, *(s for s in world.former_hosts.values() if s.shares_machine_of == host.name)]


def _set_clock(world: WorldState, name: str, ms: int) -> bool:
    """Its wall clock is set, back or forth."""
    host = world.hosts.get(name)
    if host is None or host.frozen is not None:
        return False
    for there in _on_machine(world, host):
        passing.stir(world, there)
        there.clock.wall_offset += ms
        there.wardens_look(world.true_ms)
    world.touched()
    return True


def _set_rate(world: WorldState, name: str, ppm: int) -> bool:
    """Its clocks run faster or slower from now on."""
    host = world.hosts.get(name)
    if host is None or host.frozen is not None:
        return False
    for there in _on_machine(world, host):
        there.clock.boot.set_rate(world.true_ms, ppm)
    return True


HANDLERS: dict[str, Callable[..., bool]] = {
    **registrations.HANDLERS,
    "trouble": _trouble,
    "calm": calm,
    "freeze": _freeze,
    "thaw": thaw,
    "kill": _kill,
    "agent-restart": _agent_restart,
    "agent-down": _agent_down,
    "agent-up": agent_up,
    "reboot": _reboot(keeps_disk=True),
    "reimage": _reboot(keeps_disk=False),
    "other-directory": _other_directory,
    "other-machine": _other_machine,
    "clock": _set_clock,
    "rate": _set_rate,
}
