"""What may be taken down, and what must come back: invariants 4, 5 and 10."""

from __future__ import annotations

from collections.abc import Mapping

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import next_deadline_ms
from samza_dagster.placement.state import Group, Host, JobState, Phase, Processor, Role
from tests.simulation.judges.chronicle import Chronicle, SeenRequest
from tests.simulation.judges.legality import displaced_by, is_left_behind, reserved_by
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import (
    FAILURE_LEAVES_RUNNING,
    NOTHING_FORGOTTEN,
    RESERVE_BEFORE_STOP,
    InvariantViolated,
)

_STARTING = (Phase.REQUESTING, Phase.RESERVED, Phase.STARTING, Phase.STOPPING)


def judge_stops(chronicle: Chronicle, taken: Taken) -> None:
    """A container that runs is stopped for a move only when its destination is held.

    Exempt are a forced restart, the standby that gives way to its active, and what is
    of no use: superseded, unwanted, never checked in, or a standby that stands still.
    """
    if not taken.redeployed:
        for command in taken.every(cmd.StopContainer):
            _judge_stop(chronicle, taken, command)


def _judge_stop(chronicle: Chronicle, taken: Taken, command: cmd.StopContainer) -> None:
    execution_id = command.execution_id
    if execution_id in chronicle.commanded_to_stop or execution_id not in chronicle.checked_in:
        return
    pid, _ = chronicle.started[execution_id]
    if not chronicle.is_current(pid, execution_id):
        return
    group_id = chronicle.groups.get(pid, "")
    was, group = taken.before.groups.get(group_id), taken.after.groups.get(group_id)
    processor = was.processors.get(pid) if was is not None else None
    if processor is None or processor.incarnation is None:
        return
    if processor.incarnation.execution_id != execution_id or processor.phase is Phase.STOPPING:
        return
    event = taken.event
    stalled = isinstance(event, ev.StandbyStalled) and event.execution_id == execution_id
    if stalled and processor.role is Role.STANDBY:
        return
    if group is None or _may_stop_at_once(group, pid, execution_id):
        return
    chronicle.premises[RESERVE_BEFORE_STOP] += 1
    if not any(
        (wanted := chronicle.requested.get(request_id)) is not None and wanted.processor_id == pid
        for request_id in chronicle.held
    ):
        raise InvariantViolated(
            RESERVE_BEFORE_STOP,
            f"{execution_id} runs on {command.host} and is stopped, nothing is held for {pid}",
        )


def judge_failure(
    chronicle: Chronicle, asked: SeenRequest, taken: Taken, *, stopped_now: frozenset[str]
) -> None:
    """FAILED leaves the container running, or on its way back."""
    ask = asked.ask
    if not asked.begun or taken.redeployed:
        return
    chronicle.premises[FAILURE_LEAVES_RUNNING] += 1
    group = taken.after.groups.get(asked.group_id)
    processor = group.processors.get(asked.subject) if group is not None else None
    if group is None or processor is None:
        if ask.kind is not RequestKind.START_STANDBY:
            raise InvariantViolated(
                FAILURE_LEAVES_RUNNING, f"{ask.uuid} FAILED, and {ask.processor_id} is gone"
            )
        return
    stopped = asked.source is not None and asked.source[0] in stopped_now
    if stopped and asked.source is not None and not _has_another_reason(group, asked):
        raise InvariantViolated(
            FAILURE_LEAVES_RUNNING, f"{ask.uuid} FAILED, and {asked.source[0]} is stopped with it"
        )
    if processor.phase is Phase.RUNNING:
        incarnation = processor.incarnation
        execution_id = incarnation.execution_id if incarnation is not None else "nothing"
        if execution_id in chronicle.commanded_to_stop:
            raise InvariantViolated(
                FAILURE_LEAVES_RUNNING,
                f"{ask.uuid} FAILED, {execution_id} counts as running and was told to stop",
            )
        return
    if not processor.wanted:
        return
    gives_way = group.failover is not None and group.failover.standby_id == asked.subject
    moved = ask.kind in {RequestKind.PLACE, RequestKind.FAIL_OVER} and not gives_way
    if moved and asked.source is not None and _was_taken_down(chronicle, asked, asked.source[0]):
        back_to = asked.source[1] if ask.kind is RequestKind.PLACE else ""
        chronicle.falling_back[asked.subject] = back_to
    if not _leads_on(group, processor):
        raise InvariantViolated(
            FAILURE_LEAVES_RUNNING,
            f"{ask.uuid} FAILED, {ask.processor_id} is {processor.phase} and nothing leads on",
        )


def judge_ways_back(chronicle: Chronicle, taken: Taken) -> None:
    """After a failed action a container goes back to its source host while that is legal."""
    if chronicle.falling_back:
        for command in taken.every(cmd.RequestResource):
            _judge_way_back(chronicle, taken, command)


def _judge_way_back(chronicle: Chronicle, taken: Taken, command: cmd.RequestResource) -> None:
    before, after = taken.before, taken.after
    source = chronicle.falling_back.get(command.processor_id)
    if not source:
        return
    chronicle.falling_back[command.processor_id] = ""
    if command.host == source or not after.limits.host_affinity:
        return
    group_id = chronicle.groups.get(command.processor_id, "")
    group = after.groups.get(group_id)
    host = after.hosts.get(source)
    if group is None or host is None or not host.alive or not host.registered:
        return
    processor = group.processors.get(command.processor_id)
    failed_there = processor is None or source in processor.avoid_hosts[-1:]
    earlier = before.groups.get(group_id)
    was = earlier.processors.get(command.processor_id) if earlier is not None else None
    if was is not None and was.incarnation is not None and was.incarnation.host == source:
        failed_there = True
    # What another gave back after this request was still in its way.
    since = taken.commands[taken.commands.index(command) + 1 :]
    failed_there |= any(isinstance(later, cmd.ReleaseResource) for later in since)
    if failed_there or source in _taken(group, command.processor_id, after, host):
        return
    raise InvariantViolated(
        FAILURE_LEAVES_RUNNING,
        f"{command.processor_id} was to go back to {source}, which is legal, "
        f"and asks for {command.host or 'any host'}",
    )


def judge_progress(chronicle: Chronicle, taken: Taken) -> None:
    """Every group that changed leads on, and somebody has the turn that others wait for.

    A deployment has begun with everybody whom it names.
    """
    if isinstance(taken.event, ev.JobDeployed):
        _judge_deployed(taken.event, taken.after)
    if not taken.changed:
        return
    due_ms = next_deadline_ms(taken.after)
    groups = [group for _, group in taken.changed if group is not None]
    for group in groups:
        _judge_group(chronicle, group, taken.after, due_ms)
    if any(p.phase is Phase.WAITING for group in groups for p in group.processors.values()):
        _judge_turns(taken.after, due_ms)


def _judge_deployed(event: ev.JobDeployed, after: JobState) -> None:
    for group_id, named in event.groups.items():
        group = after.groups.get(group_id)
        members: Mapping[str, Processor] = {} if group is None else group.processors
        wanted = {pid: member.role for pid, member in members.items() if member.wanted}
        roles = {pid: Role.STANDBY if place else Role.ACTIVE for place, pid in enumerate(named)}
        if wanted != roles:
            raise InvariantViolated(NOTHING_FORGOTTEN, f"{roles} are deployed, wanted is {wanted}")


def _judge_group(chronicle: Chronicle, group: Group, after: JobState, due_ms: int | None) -> None:
    """Each processor runs, or something is under way that leads there."""
    soonest: int | None = None
    for processor in group.processors.values():
        phase = processor.phase
        if phase is not Phase.RUNNING:
            chronicle.premises[NOTHING_FORGOTTEN] += 1
        incarnation = processor.incarnation
        if incarnation is not None:
            host = after.hosts.get(incarnation.host)
            if host is not None and not host.alive:
                raise _forgotten(processor, f"counts as alive on {host.host}, which is lost")
            if phase is Phase.RUNNING and incarnation.execution_id not in chronicle.checked_in:
                raise _forgotten(processor, f"{incarnation.execution_id} never checked in")
        elif phase in {Phase.RUNNING, Phase.STARTING, Phase.STOPPING}:
            raise _forgotten(processor, "has no incarnation")
        if phase is not Phase.RUNNING and not _leads_on(group, processor):
            raise _forgotten(processor, "nothing leads on")
        soonest = _earlier(soonest, _deadline(processor, after.now_ms))
    action = group.action
    if action is not None:
        request = reserved_by(action)
        if request is not None and request.allocated_host is None:
            soonest = _earlier(soonest, request.deadline_ms)
    if soonest is not None and (due_ms is None or due_ms > soonest):
        raise InvariantViolated(
            NOTHING_FORGOTTEN,
            f"group {group.group_id} waits for {soonest} ms, the job's next deadline is {due_ms}",
        )


def _judge_turns(after: JobState, due_ms: int | None) -> None:
    """Somebody waits for its turn, so somebody else has it, or time will bring it."""
    if due_ms is not None:
        return
    waiting: Processor | None = None
    for group in after.groups.values():
        if group.action is not None:
            return
        if not all(is_left_behind(after.hosts, orphan) for orphan in group.orphans):
            return
        for processor in group.processors.values():
            if processor.phase in _STARTING:
                return
            if processor.phase is Phase.WAITING and processor.wanted:
                waiting = processor
    if waiting is not None:
        raise _forgotten(waiting, "nobody has the turn that it waits for")


def _has_another_reason(group: Group, asked: SeenRequest) -> bool:
    """The next action has begun, or the active takes the place of this standby."""
    action, failover = group.action, group.failover
    return (action is not None and action.ask.uuid != asked.ask.uuid) or (
        failover is not None and failover.standby_id == asked.subject
    )


def _was_taken_down(chronicle: Chronicle, asked: SeenRequest, execution_id: str) -> bool:
    """Whether the action stopped the container, or started another one in its place."""
    newest = chronicle.newest.get(asked.subject)
    return execution_id in chronicle.commanded_to_stop or (
        newest is not None and newest.execution_id != execution_id
    )


def _may_stop_at_once(group: Group, processor_id: str, execution_id: str) -> bool:
    """Unwanted, lost, to be removed, restarted by force, or giving way to a failover."""
    processor = group.processors.get(processor_id)
    if processor is None or not processor.wanted or processor.incarnation is None:
        return True
    if processor.incarnation.execution_id != execution_id:
        return True
    if group.failover is not None and group.failover.standby_id == processor_id:
        return True
    action = group.action
    if action is None:
        return False
    ask = action.ask
    if ask.kind is RequestKind.FAIL_OVER:
        return displaced_by(action) == processor_id
    return ask.processor_id == processor_id and (
        ask.kind is RequestKind.STOP_STANDBY
        or ask.destination_host == naming.FORCE_RESTART_LAST_SEEN
    )


def _leads_on(group: Group, processor: Processor) -> bool:
    match processor.phase:
        case Phase.STARTING | Phase.STOPPING:
            return processor.incarnation is not None and processor.deadline_ms is not None
        case Phase.REQUESTING | Phase.RESERVED:
            return processor.request is not None or group.action is not None
        case _:
            return True


def _deadline(processor: Processor, now_ms: int) -> int | None:
    request = processor.request
    due = processor.deadline_ms
    if request is not None and request.allocated_host is None:
        due = _earlier(due, request.deadline_ms)
    if processor.phase is Phase.WAITING and processor.not_before_ms > now_ms:
        due = _earlier(due, processor.not_before_ms)
    return due


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def _taken(group: Group, processor_id: str, after: JobState, source: Host) -> frozenset[str]:
    """Hosts that the group's other members hold or share a fault domain with; orphans' hosts."""
    taken = {
        orphan.incarnation.host
        for orphan in group.orphans
        if not is_left_behind(after.hosts, orphan)
    }
    for other in group.processors.values():
        if other.processor_id == processor_id:
            continue
        if other.incarnation is not None:
            taken.add(other.incarnation.host)
        if other.request is not None:
            taken.add(other.request.allocated_host or other.request.host or "")
    domain = source.fault_domain
    if domain and any(h in after.hosts and after.hosts[h].fault_domain == domain for h in taken):
        taken.add(source.host)
    return frozenset(taken)


def _forgotten(processor: Processor, what: str) -> InvariantViolated:
    return InvariantViolated(
        NOTHING_FORGOTTEN, f"{processor.processor_id} is {processor.phase}: {what}"
    )
