"""How time passes: leases are renewed or run out, hosts fall silent, deadlines come."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.placement import events as ev
from samza_dagster.placement.leases import grant_ms, over_ms
from samza_dagster.placement.reducer import next_deadline_ms
from tests.simulation.coordinators import Coordinator, ProcessState
from tests.simulation.effects import place, reconcile
from tests.simulation.hosts import VirtualHost
from tests.simulation.judges.violation import InvariantViolated
from tests.simulation.moves import Handler
from tests.simulation.steps import handle
from tests.simulation.world_state import WorldState

STUCK_DEADLINE = "a-deadline-that-time-does-not-clear"


def grant_now(world: WorldState, leader: Coordinator, host: VirtualHost) -> None:
    """The host asks, and the leader answers at once, for as long as its last commit allows."""
    now = leader.clock.read(world.true_ms)
    lease_ms = grant_ms(world.own_limits(leader), now, leader.last_commit_ms)
    host.take_grant(world.true_ms, host.clock.asked(world.true_ms, leader.epoch, lease_ms))


def stir(world: WorldState, host: VirtualHost) -> bool:
    """Something on a host that was frozen runs again: its wardens, before anything else."""
    if not host.stale:
        return False
    host.stale = False
    host.wardens_look(world.true_ms)
    world.touched()
    return True


def advance(world: WorldState, until_ms: int, *, busy: bool = False) -> None:
    """Time passes to a true time. A busy leader looks at its own deadlines only in the end."""
    while True:
        due = until_ms
        for at_ms in _due_times(world, busy=busy):
            due = min(due, at_ms)
        world.true_ms = max(world.true_ms, due)
        ended = world.true_ms >= until_ms
        world.touched()
        _renew(world)
        for host in world.machines():
            stir(world, host)
            if host.lease_left(world.true_ms) <= 0:
                host.wardens_look(world.true_ms)
        world.former_hosts = {n: s for n, s in world.former_hosts.items() if any(s.live())}
        if world.leader.standing is ProcessState.LEADING and (ended or not busy):
            _look_at_deadlines(world)
        if ended:
            return


def _renew(world: WorldState) -> None:
    """Every host that is in touch with a coordinator has asked it just now."""
    leader, old = world.leader, world.old
    if leader.answers:
        now = leader.clock.read(world.true_ms)
        if leader.standing is ProcessState.LEADING:
            leader.last_commit_ms = now
            if leader.own is not None and now > over_ms(world.committed.limits, leader.began_ms):
                world.brokers.lease_ms = leader.own.lease_ms  # no earlier leader's runs any more
        for name, known in leader.known_hosts.items():
            host = world.hosts[name]
            if known.talks and host.speaks and not host.restarted:
                stir(world, host)
                known.heard_ms = known.granted_ms = now
                reconcile(world, leader, host)
                if not host.cut_in:
                    grant_now(world, leader, host)
    if old is not None and old.answers:
        for host in world.hosts.values():
            if host.epoch == old.epoch and host.converses:
                stir(world, host)
                grant_now(world, old, host)


def _next_due_ms(world: WorldState) -> int | None:
    """The true time at which something is due by time alone; None when nothing waits."""
    return min(_due_times(world, busy=False), default=None)


def _due_times(world: WorldState, *, busy: bool) -> Iterator[int]:
    leader = world.leader
    leads = leader.standing is ProcessState.LEADING
    for host in world.machines():
        if host.frozen is not None or host.grant is None:
            continue
        if leads and host.converses and world.talks(host) and host.epoch == leader.epoch:
            continue  # renewed all the time
        if any(entry.alive for entry in host.journal.values()):
            ends = host.clock.ends_at(world.true_ms, host.grant)
            if ends > world.true_ms:
                yield ends
    if not leads or busy:
        return
    clock = leader.clock
    deadline = next_deadline_ms(world.committed)
    if deadline is not None:
        yield clock.when(deadline)
    deadline = leader.requests.next_due_ms(world.now_ms)
    if deadline is not None:
        yield clock.when(deadline)
    timeout = world.committed.limits.host_timeout_ms
    for name, known in leader.known_hosts.items():
        host = world.hosts[name]
        if known.talks and (not host.speaks or host.restarted):
            yield clock.when(known.heard_ms + timeout + 1)


def _look_at_deadlines(world: WorldState) -> None:
    leader, limits = world.leader, world.committed.limits
    requests = leader.requests
    now = world.now_ms
    if requests.pending:
        for request_id in requests.overdue(now):
            if request_id in requests.pending:  # the expiry of another may have released it
                expire(world, request_id)
            if not world.led():
                return
        place(world, leader)
    for name, known in leader.known_hosts.items():
        if known.talks and now - known.heard_ms > limits.host_timeout_ms:
            known.lost = True
            requests.host_lost(name)
            handle(world, ev.HostLost(now, name, known.granted_ms))
            if not world.led():
                return
            place(world, leader)
    deadline = next_deadline_ms(world.committed)
    if deadline is not None and deadline <= now:
        handle(world, ev.TimePassed(now))
        deadline = next_deadline_ms(world.committed)
        if deadline is not None and deadline <= now:
            raise InvariantViolated(STUCK_DEADLINE, f"{deadline} at {now}")


def expire(world: WorldState, request_id: str) -> None:
    """The cluster gives up on a request."""
    leader = world.leader

    leader.requests.expire(
        request_id, lambda to, command: world.hosts[to].commands.append((leader.epoch, command))
    )
    handle(world, ev.RequestExpired(world.now_ms, request_id, "no host has room"))


def _tick(world: WorldState) -> bool:
    """Time goes on to whatever is due next; False when nothing is.

    Then all that may still happen is that hosts say the same again, and are corrected.
    """
    due = _next_due_ms(world)
    if due is None:
        before = sum(len(host.commands) for host in world.hosts.values())
        _renew(world)
        return sum(len(host.commands) for host in world.hosts.values()) != before
    advance(world, max(due, world.true_ms))
    return True


def _wait(world: WorldState, ms: int) -> bool:
    """So much time passes, and everything that is due in it happens on time."""
    advance(world, world.true_ms + ms)
    return True


def _leap(world: WorldState, ms: int) -> bool:
    """So much time passes in which the leader looks at none of its deadlines."""
    advance(world, world.true_ms + ms, busy=True)
    return True


HANDLERS: dict[str, Handler] = {"tick": _tick, "wait": _wait, "leap": _leap}
