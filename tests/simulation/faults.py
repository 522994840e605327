"""What goes wrong in a world, one move at a time, and how it is put right again."""

from __future__ import annotations

from samza_dagster.placement.leases import beat_every_ms, grant_ms
from tests.simulation import host_faults, passing, registrations
from tests.simulation.clocks import LeaseGrant
from tests.simulation.coordinators import ProcessState, Trap
from tests.simulation.hosts import Trouble, VirtualHost
from tests.simulation.moves import Handler, Move, at_host, by_leader
from tests.simulation.world_state import WorldState


def possible(world: WorldState) -> list[Move]:
    """Every fault that can happen now, and every end of one that lasts."""
    found: list[Move] = []
    leader = world.leader
    for name, host in world.hosts.items():
        _possible_at(world, name, host, found)
    for name, former in world.former_hosts.items():
        if former.frozen is not None and not former.shares_machine_of:
            found.append(Move("thaw", (name,)))
    if leader.standing is ProcessState.LEADING:
        found += [Move("crash", (count,)) for count in range(4)]
        found += [Move("pause", (count,)) for count in range(3)]
        found += [Move("store-cut"), Move("kill-leader")]
        found += [Move("expire", (place,)) for place in range(len(leader.requests.pending))]
        if len(leader.notices) > 1:
            found.append(Move("notice", (1,)))
        if len(leader.unread) > 1:
            found.append(Move("read", (1,)))
        if world.brokers.asked:
            found.append(Move("reread", (next(reversed(world.brokers.asked)),)))
    elif leader.standing is not ProcessState.DEAD:
        found.append(Move("take-over"))
    if leader.heir_trap is None:
        found += [Move("crash-heir", (0, 0)), Move("pause-heir", (0, 0))]
    if world.brokers.calls:
        found.append(Move("fence-unanswered", (0,)))
    return found


def _possible_at(world: WorldState, name: str, host: VirtualHost, found: list[Move]) -> None:
    if host.reports:
        found += [Move("delay", (name,)), Move("duplicate", (name,))]
        if len(host.reports) > 1 and world.leader.standing is ProcessState.LEADING:
            found.append(Move("deliver", (name, 1)))
    if host.late:
        found.append(Move("late", (name, 0)))
    if host.troubles:
        found.append(Move("calm", (name,)))
    found += [Move("trouble", (name, t.value)) for t in Trouble if t not in host.troubles]
    if host.cut_out or host.cut_in:
        found.append(Move("join", (name,)))
    else:
        found += [Move("cut", (name, way)) for way in ("both", "out", "in")]
        found += [Move("silence", (name,)), Move("late-grant", (name,))]
    found += host_faults.possible(world, name, host)


def mend_all(world: WorldState) -> None:
    """Every fault ends. What was late is still late, and a leader that is gone stays so."""
    for name, host in world.hosts.items():
        mend(world, name)
        registrations.as_at_first(host)
        host.memory_mb, host.cores = max(host.memory_mb, 64 * 384), max(host.cores, 64)
        host.clock.boot.set_rate(world.true_ms, 0)
    for name, former in world.former_hosts.items():
        host_faults.thaw(world, name)
        former.troubles = frozenset()
        former.clock.boot.set_rate(world.true_ms, 0)
    for name, host in world.hosts.items():
        if host.bereft:  # nothing else proves dead what another directory has on record
            HANDLERS["reboot"](world, name)
    world.leader.trap = world.leader.heir_trap = None
    world.old = None


@at_host(lambda _: True)
def mend(world: WorldState, host: VirtualHost) -> None:
    """Every fault of a host ends."""
    for end in (_join, host_faults.thaw, host_faults.agent_up, host_faults.calm):
        end(world, host.name)


# -- messages --------------------------------------------------------------------------


@at_host(lambda host: bool(host.reports))
def _delay(_: WorldState, host: VirtualHost) -> None:
    """The next report is held up; others overtake it."""
    host.late.append(host.reports.pop(0))


@at_host(lambda host: bool(host.reports))
def _duplicate(_: WorldState, host: VirtualHost) -> None:
    """The next report will come a second time, some time."""
    host.late.append(host.reports[0])


def _reread(world: WorldState, uuid: str) -> bool:
    """The stream gives a request again, also one that was deleted."""
    if uuid not in world.brokers.asked or world.leader.standing is ProcessState.DEAD:
        return False
    world.leader.unread.append(uuid)
    return True


@by_leader
def _expire(world: WorldState, place: int) -> bool:
    """The cluster gives up on a request before its time."""
    pending = list(world.leader.requests.pending)
    if not 0 <= place < len(pending):
        return False
    passing.expire(world, pending[place])
    return True


@at_host(lambda host: host.converses)
def _late_grant(world: WorldState, host: VirtualHost) -> bool:
    """The host's last renewal was a beat ago; the reply to its ask of now is on its way, late.

    Nothing else gets through meanwhile.
    """
    leader = world.leader
    if not leader.answers or not world.talks(host):
        return False
    now = world.now_ms
    own = world.own_limits(leader)
    lease_ms = grant_ms(own, now, leader.last_commit_ms)
    leader.known_hosts[host.name].heard_ms = leader.known_hosts[host.name].granted_ms = now
    host.late_grant = host.clock.asked(world.true_ms, leader.epoch, lease_ms)
    held, beat = host.grant, beat_every_ms(own)
    if held is not None:
        host.grant = LeaseGrant(held.epoch, held.lease_ms, held.boot_ms - beat, held.wall_ms - beat)
    host.cut_in = host.cut_out = True
    world.touched()
    return True


def _fence_unanswered(world: WorldState, place: int) -> bool:
    """The brokers refuse a principal, and their answer is lost."""
    brokers = world.brokers
    if not 0 <= place < len(brokers.calls):
        return False
    brokers.shut_out(brokers.calls.pop(place)[0])
    world.touched()
    return True


# -- links -----------------------------------------------------------------------------


def _is_linked(host: VirtualHost) -> bool:
    return not (host.cut_out or host.cut_in)


@at_host(_is_linked)
def _cut(_: WorldState, host: VirtualHost, way: str) -> None:
    """The host's word ("out"), the leader's replies ("in"), or both don't arrive."""
    host.cut_out, host.cut_in = way != "in", way != "out"


@at_host(lambda host: not _is_linked(host))
def _join(_: WorldState, host: VirtualHost) -> None:
    """The link works again."""
    host.cut_out = host.cut_in = False


@at_host(_is_linked)
def _silence(world: WorldState, host: VirtualHost) -> None:
    """The link is down for as long as it takes the leader to give the host up."""
    host.cut_out = host.cut_in = True
    passing.advance(world, world.true_ms + world.committed.limits.host_timeout_ms + 1_000)


# -- the leader ------------------------------------------------------------------------


def _trap(standing: ProcessState) -> Handler:
    @by_leader
    def set_trap(world: WorldState, count: int) -> bool:
        if world.leader.trap is not None:
            return False
        world.leader.trap = Trap(standing, count)
        return True

    return set_trap


def _heir_trap(standing: ProcessState) -> Handler:
    """Of whoever takes over next, in its first step or, as it deploys, in its second."""

    def set_trap(world: WorldState, count: int, later: int) -> bool:
        if world.leader.heir_trap is not None:
            return False
        world.leader.heir_trap = Trap(standing, count, later)
        return True

    return set_trap


def _leader_becomes(standing: ProcessState) -> Handler:
    @by_leader
    def become(world: WorldState) -> None:
        world.leader.standing = standing

    return become


HANDLERS: dict[str, Handler] = {
    **host_faults.HANDLERS,
    "delay": _delay,
    "duplicate": _duplicate,
    "reread": _reread,
    "expire": _expire,
    "late-grant": _late_grant,
    "fence-unanswered": _fence_unanswered,
    "cut": _cut,
    "join": _join,
    "silence": _silence,
    "mend": mend,
    "crash": _trap(ProcessState.DEAD),
    "pause": _trap(ProcessState.PAUSED),
    "crash-heir": _heir_trap(ProcessState.DEAD),
    "pause-heir": _heir_trap(ProcessState.PAUSED),
    "store-cut": _leader_becomes(ProcessState.CUT),
    "pause-now": _leader_becomes(ProcessState.PAUSED),
    "kill-leader": _leader_becomes(ProcessState.DEAD),
}
