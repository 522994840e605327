"""What happens in a world when everybody does what they owe, one move at a time."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from tests.simulation.coordinators import HostSession, Notice, ProcessState
from tests.simulation.effects import carry_out
from tests.simulation.effects import place as place_all
from tests.simulation.host_messages import Report, Reserve, Saying
from tests.simulation.hosts import Entry, Life, Trouble, VirtualHost
from tests.simulation.moves import Handler, Move, at_host, by_leader
from tests.simulation.passing import grant_now, stir
from tests.simulation.settings import is_own
from tests.simulation.steps import handle, replace_leader
from tests.simulation.world_state import WorldState


def due(world: WorldState) -> list[Move]:
    """Every fair move but the passing of time; the first is what a tidy world does next."""
    leader, found = world.leader, list[Move]()
    leads = leader.standing is ProcessState.LEADING
    if not leads:
        found.append(Move("take-over") if leader.standing is ProcessState.DEAD else Move("wake"))
    if world.old is not None:
        found.append(Move("wake-old" if world.old.standing is ProcessState.PAUSED else "end-old"))
    if leads and leader.notices:
        found.append(Move("notice", (0,)))
    for host in world.hosts.values():
        _due_at(world, host, leads, found)
    for former in world.former_hosts.values():
        _due_in(world, former, found)
    if world.brokers.calls:
        found.append(Move("fence", (0,)))
    if leads and leader.unread:
        found.append(Move("read", (0,)))
    return found


def _due_at(world: WorldState, host: VirtualHost, leads: bool, found: list[Move]) -> None:
    name = host.name
    talks = world.talks(host)
    if leads and host.speaks:
        if talks:
            if host.reports:
                found.append(Move("deliver", (name, 0)))
            if host.late:
                found.append(Move("late", (name, 0)))
        elif not host.cut_in:
            found.append(Move("register", (name,)))
    if host.late_grant is not None and host.runs:
        found.append(Move("grant", (name,)))
    if host.commands and _may_obey(world, host):
        found.append(Move("obey", (name,)))
    _due_in(world, host, found)


def _due_in(world: WorldState, host: VirtualHost, found: list[Move]) -> None:
    if host.frozen is not None:
        return
    for entry in host.journal.values():
        kind = _next_of(world, host, entry)
        if kind:
            found.append(Move(kind, (host.name, entry.processor_id)))


def _next_of(world: WorldState, host: VirtualHost, entry: Entry) -> str:
    life = entry.life
    if life is Life.DEAD or life is Life.NEVER:
        return ""
    if entry.doomed:
        return "" if Trouble.STUBBORN in host.troubles else "end"
    if entry.stopping:
        if Trouble.STUBBORN in host.troubles:
            return "" if entry.stop_failed or not host.agent_up else "outlive"
        return "" if Trouble.SLOW_STOP in host.troubles else "end"
    if life is Life.RUNNING or not host.agent_up:
        return ""
    if life is Life.RELEASED:
        return "" if Trouble.NO_CHECK_IN in host.troubles else "check-in"
    return "release" if host.may_release(world.true_ms, entry) else ""


def _may_obey(world: WorldState, host: VirtualHost) -> bool:
    """Whether a leader's reply can bring its next command: it follows the one who sent it."""
    if not host.runs or host.cut_in:
        return False
    if host.epoch == world.leader.epoch and not world.talks(host):
        return False
    return any(epoch == host.epoch for epoch, _ in host.commands)


# -- the coordinator's side ------------------------------------------------------------


@at_host(lambda host: host.converses)
def _register(world: WorldState, host: VirtualHost) -> bool:
    """The agent names its journal to the leader, and follows it from now on."""
    leader, name = world.leader, host.name
    if not world.led():
        return False
    stir(world, host)
    now, known = world.now_ms, leader.known_hosts.setdefault(name, HostSession())
    if host.epoch != leader.epoch:
        host.reports.clear()
        host.late.clear()
        host.unacknowledged.clear()
        host.epoch = leader.epoch
    host.commands = [sent for sent in host.commands if sent[0] >= leader.epoch]
    host.restarted = False
    journal = f"{world.job}-directory-{host.directory}"
    agent = (journal, f"{world.job}-boot-{host.boot}")
    if known.agent not in (None, agent):
        leader.requests.host_replaced(name)
        host.commands = [
            (epoch, command)
            for epoch, command in host.commands
            if not isinstance(command, Reserve | cmd.StartContainer)
        ]
    known.agent = agent
    known.registered, known.lost, known.heard_ms, known.granted_ms = True, False, now, now
    grant_now(world, leader, host)
    host.tell_all()
    world.touched()
    domain = host.fault_domain if leader.heeds_domains else ""
    handle(world, ev.HostRegistered(now, name, frozenset(host.journal), domain, *agent))
    if leader.standing is ProcessState.LEADING:
        place_all(world, leader)
    return True


@at_host(lambda host: host.speaks)
def _deliver(world: WorldState, host: VirtualHost, place: int) -> bool:
    """A report reaches the leader."""
    return _take(world, host, host.reports, place)


@at_host(lambda host: host.speaks)
def _late(world: WorldState, host: VirtualHost, place: int) -> bool:
    """A report that was held up, or its second copy, reaches the leader."""
    return _take(world, host, host.late, place)


def _take(world: WorldState, host: VirtualHost, reports: list[Report], place: int) -> bool:
    """The leader's cluster turns a report into what the reducer is told."""
    if not 0 <= place < len(reports) or not world.led() or not world.talks(host):
        return False
    said, ident = reports.pop(place)
    leader, now, name = world.leader, world.now_ms, host.name
    host.unacknowledged.clear()  # acknowledgements travel with the reports
    requests = leader.requests

    def send(to: str, command: Reserve | cmd.ReleaseResource) -> None:
        world.hosts[to].commands.append((leader.epoch, command))

    event: ev.Event | None = None
    match said:
        case Saying.LAUNCHED:
            event = ev.ContainerLaunched(now, ident, name)
        case Saying.CHECKED_IN:
            event = ev.ContainerCheckedIn(now, ident, name)
        case Saying.STOPPED:
            requests.container_ended(ident)
            entry = host.journal.get(ident)
            event = ev.ContainerStopped(now, ident, name, None if entry is None else 143)
        case Saying.START_FAILED:
            requests.container_ended(ident)
            event = ev.StartFailed(now, ident, name, "it could not be started")
        case Saying.STOP_FAILED:
            event = ev.StopFailed(now, ident, name, "it lives on after SIGKILL")
        case Saying.RESERVED | Saying.REFUSED:
            if requests.answered(now, ident, name, ok=said is Saying.RESERVED):
                event = ev.ResourceAllocated(now, ident, name)
            elif said is Saying.REFUSED and requests.gives_up(ident):
                event = ev.RequestExpired(now, ident, f"{name} has no room")
        case Saying.HELD:
            if requests.found(ident, name, send):
                event = ev.ResourceAllocated(now, ident, name)
    if event is not None:
        handle(world, event)
    if leader.standing is ProcessState.LEADING:
        place_all(world, leader)
    return True


@by_leader
def _notice(world: WorldState, place: int) -> bool:
    """The leader hears from its own cluster or from the brokers."""
    leader = world.leader
    if not 0 <= place < len(leader.notices):
        return False
    what, ident = leader.notices.pop(place)
    now = world.now_ms
    if what is Notice.FENCED:
        handle(world, ev.PrincipalFenced(now, ident))
    elif what is Notice.EXPIRED:
        handle(world, ev.RequestExpired(now, ident, "no host has room"))
    elif ident in leader.requests.held:
        handle(world, ev.ResourceAllocated(now, ident, leader.requests.held[ident]))
    return True


@by_leader
def _read(world: WorldState, place: int, no_start_because: str = "") -> bool:
    """The leader reads a request off the stream, while a container could start, or none could."""
    leader = world.leader
    if not 0 <= place < len(leader.unread):
        return False
    ask = world.brokers.asked[leader.unread.pop(place)]
    handle(world, ev.RequestArrived(world.now_ms, ask, no_start_because))
    return True


def _fence(world: WorldState, place: int) -> bool:
    """The brokers refuse a principal from now on, and answer who asked if it still leads."""
    brokers = world.brokers
    if not 0 <= place < len(brokers.calls):
        return False
    execution_id, epoch = brokers.calls.pop(place)
    brokers.shut_out(execution_id)
    world.touched()
    if epoch == world.leader.epoch and world.leader.standing is not ProcessState.DEAD:
        world.leader.notices.append((Notice.FENCED, execution_id))
    return True


def _take_over(world: WorldState, wall_jump_ms: int = 0, changes: str = "") -> bool:
    """A coordinator takes over from one that doesn't lead: dead, paused, or cut off.

    It was started with `changes` of the settings that are a coordinator's own; with another
    config than the deployment's it would be refused.
    """
    if world.leader.standing is ProcessState.LEADING or not is_own(changes):
        return False
    replace_leader(world, wall_jump_ms, changes)
    return True


def _wake(world: WorldState) -> bool:
    """A leader that was paused or cut off goes on: nobody took over meanwhile."""
    leader = world.leader
    if leader.standing not in (ProcessState.PAUSED, ProcessState.CUT):
        return False
    leader.standing = ProcessState.LEADING
    leader.last_commit_ms = world.now_ms
    unsent, leader.unsent = leader.unsent, []
    for effect in unsent:
        carry_out(world, leader, effect)
    return True


def _wake_old(world: WorldState) -> bool:
    """A deposed leader goes on: effects that it had committed leave it, and it answers agents."""
    old = world.old
    if old is None or old.standing is not ProcessState.PAUSED:
        return False
    old.standing = ProcessState.CUT
    unsent, old.unsent = old.unsent, []
    for effect in unsent:
        carry_out(world, old, effect)
    return True


def _end_old(world: WorldState) -> bool:
    """A deposed leader's commit is refused, so it ends."""
    if world.old is None:
        return False
    world.old = None
    return True


# -- the hosts' side -------------------------------------------------------------------


@at_host(lambda host: bool(host.commands))
def obey(world: WorldState, host: VirtualHost) -> bool:
    """The host carries out the next command of the leader that it follows."""
    if not _may_obey(world, host):
        return False
    stir(world, host)
    for place, (epoch, command) in enumerate(host.commands):
        if epoch == host.epoch:
            del host.commands[place]
            if Trouble.LOST_ACKS in host.troubles:
                host.unacknowledged.append(command)
            before = set(host.journal)
            host.carry_out(world.true_ms, command)
            for execution_id in host.journal.keys() - before:
                world.brokers.launched(execution_id, epoch)
            world.touched()
            return True
    return False


@at_host(lambda host: host.runs)
def grant(world: WorldState, host: VirtualHost) -> bool:
    """A reply with a grant arrives late; the lease counts from when the agent asked."""
    offered, host.late_grant = host.late_grant, None
    if offered is None:
        return False
    stir(world, host)
    host.take_grant(world.true_ms, offered)
    world.touched()
    return True


def _entry_move(kind: str, act: Callable[[VirtualHost, Entry], None]) -> Handler:
    def move(world: WorldState, name: str, processor_id: str) -> bool:
        host = world.hosts.get(name) or world.former_hosts.get(name)
        if host is None or host.frozen is not None:
            return False
        stirred = stir(world, host)
        for entry in host.journal.values():
            if entry.processor_id == processor_id and _next_of(world, host, entry) == kind:
                act(host, entry)
                world.touched()
                return True
        return stirred  # its warden may have been first

    return move


HANDLERS: dict[str, Handler] = {
    "register": _register,
    "deliver": _deliver,
    "late": _late,
    "notice": _notice,
    "read": _read,
    "fence": _fence,
    "take-over": _take_over,
    "wake": _wake,
    "wake-old": _wake_old,
    "end-old": _end_old,
    "obey": obey,
    "grant": grant,
    "release": _entry_move("release", VirtualHost.advance),
    "check-in": _entry_move("check-in", VirtualHost.advance),
    "end": _entry_move("end", VirtualHost.die),
    "outlive": _entry_move("outlive", VirtualHost.refuse_to_die),
}
