"""How the effects of a committed step leave a coordinator's process, or don't."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import Fencing, JobState
from tests.simulation.coordinators import Coordinator, Notice, ProcessState
from tests.simulation.host_messages import HostCommand, Reserve
from tests.simulation.hosts import VirtualHost
from tests.simulation.world_state import WorldState


def act(
    world: WorldState, leader: Coordinator, effects: list[cmd.Effect], *, trapped: bool
) -> None:
    """Sends effects in order; a trap that was set ends or pauses the leader between two."""
    trap = leader.trap
    if trap is not None and trapped and trap.later:
        leader.trap, trap = trap._replace(later=trap.later - 1), None
    if trap is None or not trapped:
        for effect in effects:
            carry_out(world, leader, effect)
        return
    standing, count, _ = trap
    leader.trap = None
    for effect in effects[:count]:
        carry_out(world, leader, effect)
    leader.standing = standing
    if standing is ProcessState.PAUSED:
        leader.unsent = effects[count:]


def carry_out(world: WorldState, leader: Coordinator, effect: cmd.Effect) -> None:
    """One effect leaves the coordinator's process."""
    requests = leader.requests

    def send(host: str, command: HostCommand) -> None:
        if host in world.hosts:
            world.hosts[host].commands.append((leader.epoch, command))

    match effect:
        case cmd.StartContainer():
            if world.own_limits(leader).fencing is Fencing.BROKER:
                world.brokers.fencers.add(leader.epoch)
                if effect.execution_id not in leader.left_out:
                    world.brokers.logins.add(effect.execution_id)
            known = leader.known_hosts.get(effect.host)
            if known is None or not known.talks:
                return  # as `cluster/local.py`: said again when the host registers, if still wanted
            requests.used_by[effect.execution_id] = effect.request_id
            send(effect.host, effect)
        case cmd.StopContainer() | cmd.ForgetContainer():
            send(effect.host, effect)
        case cmd.RequestResource(request_id):
            if not requests.begin(leader.clock.read(world.true_ms), effect):
                leader.notices.append((Notice.ALLOCATED, request_id))
                return
            for host in _registered(world, leader):
                hold = host.ledger.get(request_id)
                if hold is not None and hold.user is None:
                    if requests.found(request_id, host.name, send):
                        leader.notices.append((Notice.ALLOCATED, request_id))
                    break
            place(world, leader)
        case cmd.ReleaseResource(request_id):
            requests.release(request_id, _registered(world, leader), send)
            place(world, leader)
        case cmd.FencePrincipal():
            world.brokers.calls.append((effect.execution_id, leader.epoch))
        case cmd.CountMetric():
            pass


def place(world: WorldState, leader: Coordinator) -> None:
    """The cluster asks hosts for what is open."""
    if leader.requests.pending:
        leader.requests.place(
            leader.clock.read(world.true_ms),
            _registered(world, leader),
            lambda host, command: world.hosts[host].commands.append((leader.epoch, command)),
        )


def reconcile(world: WorldState, leader: Coordinator, host: VirtualHost) -> None:
    """By a host's word the cluster finds what is held there for nobody, or for no longer.

    As in `cluster/resource_requests.py`, at each word of the host.
    """
    for request_id, hold in host.ledger.items():
        if hold.user is not None or leader.requests.held.get(request_id) == host.name:
            continue
        release = cmd.ReleaseResource(request_id)
        if any(command == release for _, command in host.commands):
            continue

        def send(_: str, command: HostCommand) -> None:
            host.commands.append((leader.epoch, command))

        if leader.requests.found(request_id, host.name, send):
            leader.notices.append((Notice.ALLOCATED, request_id))


def _registered(world: WorldState, leader: Coordinator) -> list[VirtualHost]:
    """Hosts that registered with it and aren't lost."""
    return [world.hosts[name] for name, known in leader.known_hosts.items() if known.talks]


def forget_lost(world: WorldState, leader: Coordinator, before: JobState) -> None:
    """What would start something on a host that is lost now is taken back."""
    for name, host in world.committed.hosts.items():
        earlier = before.hosts.get(name)
        found = world.hosts.get(name)
        if host.alive or found is None or (earlier is not None and not earlier.alive):
            continue
        found.commands = [
            (epoch, command)
            for epoch, command in found.commands
            if epoch != leader.epoch or not isinstance(command, Reserve | cmd.StartContainer)
        ]
