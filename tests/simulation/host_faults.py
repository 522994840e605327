"""What goes wrong with a virtual host: its machine, clocks, agent and containers."""

from __future__ import annotations

from tests.simulation import passing, registrations
from tests.simulation.hosts import Trouble, VirtualHost
from tests.simulation.moves import Handler, Move, at_host
from tests.simulation.world_state import WorldState

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
    found.append(Move("other-directory", (name,)))
    if host.agent_up:
        found += registrations.possible(world, host)
    found += [Move("clock", (name, ms)) for ms in CLOCK_STEPS_MS]
    found += [Move("rate", (name, ppm)) for ppm in RATES_PPM]
    found.append(Move("other-machine", (name,)))
    return found


def _is_there(_: VirtualHost) -> bool:
    return True


def _isnt_frozen(host: VirtualHost) -> bool:
    return host.frozen is None


def _runs(host: VirtualHost) -> bool:
    return host.runs


@at_host(_is_there)
def _trouble(_: WorldState, host: VirtualHost, what: str) -> bool:
    """A host begins to do something wrong."""
    before = host.troubles
    host.troubles |= {Trouble(what)}
    return host.troubles != before


@at_host(lambda host: bool(host.troubles))
def calm(_: WorldState, host: VirtualHost) -> None:
    """A host does everything right again."""
    host.troubles = frozenset()
    host.unacknowledged.clear()


@at_host(_isnt_frozen)
def _freeze(world: WorldState, host: VirtualHost, how: str) -> None:
    """Nothing on the host runs: suspended, or its machine paused from outside."""
    for there in _on_machine(world, host):
        passing.stir(world, there)
        there.frozen = (world.true_ms, how)
    world.touched()


def thaw(world: WorldState, name: str) -> bool:
    """It can run again; whatever runs first, its wardens look at the clocks before it."""
    host = world.hosts.get(name) or world.former_hosts.get(name)
    if host is None or host.frozen is None:
        return False
    for there in _on_machine(world, host):
        there.thaw(world.true_ms)
    world.touched()
    return True


@at_host(_isnt_frozen)
def _kill(world: WorldState, host: VirtualHost, processor_id: str) -> bool:
    """A container dies by itself."""
    stirred = passing.stir(world, host)
    entry = next((entry for entry in host.live() if entry.processor_id == processor_id), None)
    if entry is None:
        return stirred
    host.die(entry)
    world.touched()
    return True


@at_host(_runs)
def _agent_restart(world: WorldState, host: VirtualHost) -> None:
    """The agent ends, another adopts its records."""
    passing.stir(world, host)
    host.begin_anew()


@at_host(_runs)
def _agent_down(world: WorldState, host: VirtualHost) -> None:
    """The agent ends; wardens and containers live on."""
    passing.stir(world, host)
    host.agent_up = False
    host.reports.clear()
    host.late.clear()


@at_host(lambda host: not host.agent_up and host.frozen is None)
def agent_up(_: WorldState, host: VirtualHost) -> None:
    """An agent is there again."""
    host.begin_anew()


def _reboot(*, keeps_disk: bool) -> Handler:
    @at_host(_is_there)
    def reboot(world: WorldState, host: VirtualHost) -> None:
        for there in _on_machine(world, host)[1:]:
            del world.former_hosts[there.name]
        host.reboot(world.true_ms, keeps_disk=keeps_disk)
        world.touched()

    return reboot


@at_host(lambda host: host.frozen is None)
def _other_directory(world: WorldState, host: VirtualHost) -> None:
    """The agent ends, another begins in an empty directory; wardens and containers live on."""
    passing.stir(world, host)
    _goes_on(world, host.replaced(world.true_ms, by_a_machine=False))


@at_host(_is_there)
def _other_machine(world: WorldState, host: VirtualHost) -> None:
    """A new machine gets the name; the one that had it lives on, out of the leader's reach."""
    shares = _on_machine(world, host)[1:]
    former = host.replaced(world.true_ms, by_a_machine=True)
    for there in shares:
        there.shares_machine_of = former.name
    _goes_on(world, former)


def _goes_on(world: WorldState, former: VirtualHost) -> None:
    if any(former.live()):
        world.former_hosts[former.name] = former
    world.touched()


def _on_machine(world: WorldState, host: VirtualHost) -> list[VirtualHost]:
    """The host, and what runs on its machine from its agents' earlier directories."""
    return [host, *(s for s in world.former_hosts.values() if s.shares_machine_of == host.name)]


@at_host(_isnt_frozen)
def _set_clock(world: WorldState, host: VirtualHost, ms: int) -> None:
    """Its wall clock is set, back or forth."""
    for there in _on_machine(world, host):
        passing.stir(world, there)
        there.clock.wall_offset += ms
        there.wardens_look(world.true_ms)
    world.touched()


@at_host(_isnt_frozen)
def _set_rate(world: WorldState, host: VirtualHost, ppm: int) -> None:
    """Its clocks run faster or slower from now on."""
    for there in _on_machine(world, host):
        there.clock.boot.set_rate(world.true_ms, ppm)


HANDLERS: dict[str, Handler] = {
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
