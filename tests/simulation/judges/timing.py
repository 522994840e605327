"""When things fall due: neither early nor late, and exactly as long as they were given."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import (
    Action,
    Fencing,
    Group,
    JobState,
    Move,
    Phase,
    Processor,
    ResourceRequest,
    Stage,
)
from tests.simulation.judges import origins
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    awaits_its_place,
    destination_of,
    is_down,
    is_forced_restart,
    requests_of,
    reserved_by,
)
from tests.simulation.judges.taken import Both, Taken
from tests.simulation.judges.violation import ON_TIME

_MARGIN_MS = 1_000
_STOP_AGAIN_MS = 30_000
_LONGEST_PAUSE_MS = 30_000


def judge_timing(chronicle: Chronicle, taken: Taken) -> None:
    """Every deadline that a step sets, keeps, or takes for reached."""
    chronicle.premises[ON_TIME] += 1
    for both in taken.both:
        _judge_processor(taken, both)
    for old, new in taken.changed:
        if new is not None:
            _judge_requests(taken, old, new)
            _judge_hold(chronicle, taken, old, new)
    _judge_orphans(taken)
    if isinstance(taken.event, ev.TimePassed):
        _judge_passing(taken)
    _judge_hosts(taken)
    _judge_next(chronicle, taken.after, taken)


def _deadlines(group: Group, now_ms: int) -> Iterator[int]:
    """All that a group waits for by time."""
    for processor in group.processors.values():
        if processor.deadline_ms is not None:
            yield processor.deadline_ms
        waits = processor.phase is Phase.WAITING
        if (waits and not awaits_its_place(group, processor.processor_id)) and (
            processor.not_before_ms > now_ms
        ):
            yield processor.not_before_ms
    for _, request in requests_of(group):
        if request.allocated_host is None:
            yield request.deadline_ms
    action = group.action
    if isinstance(action, Move) and action.stage is Stage.HELD:
        yield action.request.deadline_ms
    for orphan in group.orphans:
        if orphan.ended is None and orphan.lease_ends_ms is not None:
            yield orphan.lease_ends_ms


def _judge_processor(taken: Taken, both: Both) -> None:
    was, now = both.was, both.now
    if now is None or now is was or now.deadline_ms is None:
        return
    _judge_start_deadline(taken, both, now)
    limits, now_ms = taken.after.limits, taken.now_ms
    fresh = was is None or was.phase is not now.phase or both.begun is not None or taken.restarted
    if now.phase is Phase.STARTING:
        expected = now_ms + limits.start_timeout_ms
        if not fresh and was is not None and was.deadline_ms is not None:
            expected = was.deadline_ms
        elif was is not None and both.begun is None and was.start_deadline_ms is not None:
            expected = was.start_deadline_ms  # it has survived its stop
            expected = now_ms + limits.start_timeout_ms if taken.restarted else expected
    else:
        expected = now_ms + _STOP_AGAIN_MS
        if not fresh and was is not None and was.deadline_ms is not None:
            due = isinstance(taken.event, ev.TimePassed) and was.deadline_ms <= now_ms
            due = due or (isinstance(taken.event, ev.StopFailed) and now.deadline_ms == expected)
            expected = expected if due else was.deadline_ms
    if now.deadline_ms != expected:
        raise taken.broken(ON_TIME, f"{now} has until {expected}")


def _judge_start_deadline(taken: Taken, both: Both, now: Processor) -> None:
    """One that is stopped before it has checked in keeps the time that it had for that."""
    was = both.was
    if now.start_deadline_ms is None:
        return
    expected = taken.now_ms + taken.after.limits.start_timeout_ms
    if not taken.restarted and was is not None and both.begun is None:
        expected = was.deadline_ms if was.phase is Phase.STARTING else was.start_deadline_ms
    if now.start_deadline_ms != expected:
        raise taken.broken(ON_TIME, f"{now} had until {expected} to check in")


def _judge_requests(taken: Taken, old: Group | None, new: Group) -> None:
    """A request has its time from when it is made; asked anew, what is left of it."""
    known = {} if old is None else {r.request_id: r for _, r in requests_of(old)}
    action = new.action
    for pid, request in requests_of(new):
        was = known.get(request.request_id)
        destination = destination_of(action)
        held = action is not None and request is destination and action.stage is Stage.HELD
        if held:
            continue
        if was is None or taken.restarted:
            expected = _time_for(taken, old, new, pid, request)
        else:
            expected = was.deadline_ms
            default = taken.after.limits.request_timeout_ms
            if _has_gone_down(old, new, pid) and request is destination:
                expected = min(expected, taken.now_ms + default + _MARGIN_MS)
        if request.deadline_ms != expected:
            raise taken.broken(ON_TIME, f"{request} of {pid} has until {expected}")


def _time_for(
    taken: Taken, old: Group | None, new: Group, processor_id: str, request: ResourceRequest
) -> int:
    action, now_ms = new.action, taken.now_ms
    default = taken.after.limits.request_timeout_ms
    if action is None:
        return now_ms + default + _MARGIN_MS
    own = default if action.ask.expiry_ms is None else action.ask.expiry_ms
    if request is reserved_by(action):
        earlier = None if taken.restarted else _earlier(old, action, request)
        if earlier is not None:
            return earlier.deadline_ms
        if isinstance(action, Move) and is_down(new, processor_id):
            own = min(own, default)
        return now_ms + own + _MARGIN_MS
    forced = is_forced_restart(old, new)
    if forced is not None and forced.ask.processor_id == processor_id:
        return now_ms + min(own, default) + _MARGIN_MS
    return now_ms + default + _MARGIN_MS


def _has_gone_down(old: Group | None, new: Group, processor_id: str) -> bool:
    was = None if old is None else old.processors.get(processor_id)
    return was is not None and was.incarnation is not None and is_down(new, processor_id)


def _earlier(old: Group | None, action: Action, request: ResourceRequest) -> ResourceRequest | None:
    """The reservation of the same action that was asked for before this one."""
    before = None if old is None else old.action
    if before is None or before.ask.uuid != action.ask.uuid:
        return None
    return reserved_by(before) if type(before) is type(action) else None


def _judge_hold(chronicle: Chronicle, taken: Taken, old: Group | None, new: Group) -> None:
    """What is held is held for its time, and once it was committed only until it is confirmed."""
    action = new.action
    if not isinstance(action, Move) or action.stage is not Stage.HELD:
        return
    was = None if old is None else old.action
    limits = taken.after.limits
    own = action.ask.expiry_ms
    expected = taken.now_ms + (limits.request_timeout_ms if own is None else own)
    kept = was is not None and was.ask.uuid == action.ask.uuid and was.stage is Stage.HELD
    if kept and not taken.restarted and isinstance(was, Move):
        expected = was.request.deadline_ms
    if action.request.deadline_ms != expected:
        raise taken.broken(ON_TIME, f"{action.ask.uuid} is held until {expected}: {action}")
    if action.request.confirmed and action.ask.uuid in chronicle.committed:
        raise taken.broken(ON_TIME, f"{action.ask.uuid} was committed, and is held on: {action}")


def _judge_orphans(taken: Taken) -> None:
    limits = taken.before.limits
    lease = limits.lease_ms + limits.lease_bound_ms
    for was, now in taken.orphans:
        if now is None:
            continue
        last = taken.lost_now.get(now.incarnation.host)
        event = taken.event
        comes_back = isinstance(event, ev.HostRegistered) and event.host == now.incarnation.host
        if isinstance(event, ev.HostRegistered) and comes_back:
            comes_back = origins.knows(event, now.incarnation)
            last = last if comes_back else event.at_ms
        if was is None:
            if (now.ended is None and (last is None or now.lease_ends_ms != last + lease)) and (
                not (now.fencing and now.lease_ends_ms == taken.now_ms + limits.lease_ms)
            ):
                raise taken.broken(ON_TIME, f"{now} had its last grant at {last}")
            continue
        if was is now or was.ended is not None or now.ended is not None:
            continue
        if taken.restarted:
            expected: int | None = taken.now_ms + lease
        elif isinstance(taken.event, ev.HostRegistered):
            expected = None if comes_back else was.lease_ends_ms
            if expected is None and last is not None and not comes_back:
                expected = last + lease
        elif last is not None and was.lease_ends_ms is None:
            expected = last + lease
        else:
            expected = was.lease_ends_ms
        if now.lease_ends_ms != expected:
            again = now.fencing and now.lease_ends_ms == taken.now_ms + limits.lease_ms
            if not (again and expected is not None and expected <= taken.now_ms):
                raise taken.broken(ON_TIME, f"{now}, its lease ends at {expected}")


def _judge_passing(taken: Taken) -> None:
    """Nothing is overdue after time has passed."""
    now_ms = taken.now_ms
    for group in taken.after.groups.values():
        late = [due for due in _deadlines(group, now_ms) if due <= now_ms]
        if late:
            raise taken.broken(ON_TIME, f"group {group.group_id} has waited for {late}")


def _judge_hosts(taken: Taken) -> None:
    before, after = taken.before.hosts, taken.after.hosts
    if before is after:
        return
    event, now_ms = taken.event, taken.now_ms
    timeout = taken.before.limits.host_timeout_ms
    for name, host in after.items():
        was = before.get(name)
        if host == was:
            continue
        if isinstance(event, ev.HostRegistered):
            fine = name == event.host and host.alive and host.registered
            fine = fine and host.fault_domain == event.fault_domain
            fine = fine and (host.journal, host.boot_id) == (event.journal, event.boot_id)
        elif isinstance(event, ev.HostLost):
            fine = name == event.host and not host.alive and not host.registered
            fine = fine and (was is None or was.fault_domain == host.fault_domain)
        elif isinstance(event, ev.CoordinatorRestarted):
            fine = was is not None and (host.alive, host.fault_domain) == (
                was.alive,
                was.fault_domain,
            )
            fine = fine and not host.registered and host.silent_since_ms == now_ms
        else:
            fine = isinstance(event, ev.TimePassed) and was is not None and was.alive
            fine = fine and was is not None and not was.registered and not host.alive
            fine = fine and was is not None and was.silent_since_ms + timeout <= now_ms
            fine = fine and was is not None and was.fault_domain == host.fault_domain
        if was is not None and not isinstance(event, ev.HostRegistered):
            fine = fine and (was.journal, was.boot_id) == (host.journal, host.boot_id)
        if not fine:
            raise taken.broken(ON_TIME, f"{was} is {host} now")


def _judge_next(chronicle: Chronicle, state: JobState, taken: Taken) -> None:
    """The job's next deadline is the first of them; a host that has come may leave its own."""
    now_ms, timeout = state.now_ms, state.limits.host_timeout_ms
    soonest: int | None = None
    for group in state.groups.values():
        for due in _deadlines(group, now_ms):
            if soonest is None or due < soonest:
                soonest = due
    if state.hosts is not taken.before.hosts:
        for host in state.hosts.values():
            if host.alive and not host.registered:
                chronicle.host_dues.add(host.silent_since_ms + timeout)
    for host in state.hosts.values():
        if host.alive and not host.registered:
            due = host.silent_since_ms + timeout
            if soonest is None or due < soonest:
                soonest = due
    deadline = next_deadline_ms(state)
    if deadline != soonest and (
        deadline is None
        or deadline not in chronicle.host_dues
        or (soonest is not None and deadline > soonest)
    ):
        raise taken.broken(ON_TIME, f"the next deadline is {soonest}, told {deadline}")


def judge_take_over(taken: Taken) -> None:
    """Everything that is open is said again, once, and nothing is left out."""
    said: dict[type, list[str]] = {
        cmd.RequestResource: [c.request_id for c in taken.every(cmd.RequestResource)],
        cmd.StartContainer: [c.execution_id for c in taken.every(cmd.StartContainer)],
        cmd.StopContainer: [c.execution_id for c in taken.every(cmd.StopContainer)],
        cmd.FencePrincipal: [c.execution_id for c in taken.every(cmd.FencePrincipal)],
        cmd.WriteResponse: [c.uuid for c in taken.every(cmd.WriteResponse)],
    }
    open_: dict[type, list[str]] = {kind: [] for kind in said}
    for group in taken.before.groups.values():
        open_[cmd.RequestResource] += [r.request_id for _, r in requests_of(group)]
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if incarnation is not None and processor.phase is Phase.STARTING:
                open_[cmd.StartContainer].append(incarnation.execution_id)
            if incarnation is not None and processor.phase is Phase.STOPPING:
                open_[cmd.StopContainer].append(incarnation.execution_id)
        if taken.before.limits.fencing is Fencing.BROKER:  # else nobody is there to fence
            open_[cmd.FencePrincipal] += [
                g.incarnation.execution_id for g in group.orphans if g.fencing and g.ended is None
            ]
        if group.action is not None:
            open_[cmd.WriteResponse].append(group.action.ask.uuid)
        open_[cmd.WriteResponse] += [ask.uuid for ask in group.queue]
    for kind, expected in open_.items():
        if sorted(said[kind]) != sorted(expected):
            raise taken.broken(
                ON_TIME, f"{kind.__name__} is said again of {said[kind]}, open are {expected}"
            )
    for host in taken.after.hosts.values():
        if host.registered or host.silent_since_ms != taken.now_ms:
            raise taken.broken(ON_TIME, f"{host} hasn't registered with this leader")
    for group in taken.after.groups.values():
        _judge_requests(taken, None, group)
        for pid, processor in group.processors.items():
            _judge_processor(taken, Both(pid, None, processor, None, group))
            if processor.not_before_ms > taken.now_ms + _LONGEST_PAUSE_MS:
                raise taken.broken(ON_TIME, f"{processor} waits by an earlier leader's clock")
        held = destination_of(group.action)
        if held is not None and held.confirmed == (held.allocated_host is not None):
            raise taken.broken(ON_TIME, f"{held} is asked for again, confirmed {held.confirmed}")
