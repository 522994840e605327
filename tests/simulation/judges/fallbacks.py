"""Where a processor goes: its own host, a standby's place, any other; read from the document."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.state import (
    Fallback,
    Group,
    Move,
    Phase,
    ResourceRequest,
    Role,
    Stage,
)
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    displaced_by,
    holders,
    is_forced_restart,
    reasons,
    requests_of,
    reserved_by,
    subject_of,
)
from tests.simulation.judges.standby_places import (
    judge_cold,
    judge_failovers,
    may_be_taken,
    was_so,
)
from tests.simulation.judges.taken import Both, Taken, request_ids
from tests.simulation.judges.turns import without_a_turn
from tests.simulation.judges.violation import RIGHT_PLACE


def judge_places(chronicle: Chronicle, taken: Taken) -> None:
    """Every request that is made, every failover that begins."""
    if taken.restarted:
        return
    for old, new in taken.changed:
        if new is None:
            continue
        known = set[str]() if old is None else {r.request_id for _, r in requests_of(old)}
        for pid, request in requests_of(new):
            if request.request_id not in known:
                chronicle.premises[RIGHT_PLACE] += 1
                _judge_excluded(taken, old, new, pid, request)
    for both in taken.both:
        _judge_fallback(taken, both)
        judge_cold(chronicle, taken, both)
    judge_failovers(taken)


def _judge_excluded(
    taken: Taken, old: Group | None, group: Group, processor_id: str, request: ResourceRequest
) -> None:
    """A request for any host excludes every host that is forbidden, and no other."""
    if request.host is not None or request.allocated_host is not None:
        return
    if not _is_as_it_asked(taken, old, group, request):
        return
    state, action = taken.after, group.action
    processor = group.processors.get(processor_id)
    expected = {host for host in state.hosts if reasons(state, group, processor_id, host)}
    # Also those that the group holds and the job doesn't know (yet).
    expected |= {reason.host for reason in holders(state, group, processor_id)}
    if request == reserved_by(action):
        own = None if processor is None else processor.incarnation
        here = set[str]() if own is None else {own.host}
        expected |= here
        if isinstance(action, Move):
            expected.add(action.source_host)
        if any(_acts_otherwise(*both) for both in taken.changed if both[0] is not old):
            return  # it may have had a turn at a host before this request, or after it
        expected |= without_a_turn(state, group) - here
    elif processor is not None:
        expected |= set(processor.avoid_hosts)
    if list(request.excluded_hosts) != sorted(expected):
        raise taken.broken(
            RIGHT_PLACE, f"{request} of {processor_id}: by the rules {sorted(expected)}"
        )


def _is_as_it_asked(
    taken: Taken, old: Group | None, group: Group, request: ResourceRequest
) -> bool:
    """It asks for one thing in this step and then gives nothing back."""
    members = set(group.processors)
    if group.action is not None:
        members.add(subject_of(group.action))
    asked = [said for said in taken.every(cmd.RequestResource) if said.processor_id in members]
    since = taken.since_asked(request)
    later = {said.request_id for said in since if isinstance(said, cmd.ReleaseResource)}
    return len(asked) == 1 and later.isdisjoint(request_ids(old)) and not taken.lost_now


def _acts_otherwise(was: Group | None, now: Group | None) -> bool:
    return (None if was is None else was.action) != (None if now is None else now.action)


def _judge_fallback(taken: Taken, both: Both) -> None:
    """A request of the processor's own, on its way from fallback to fallback."""
    was, now, group = both.was, both.now, both.group
    if now is None or now.request is None or group is None or now.phase is not Phase.REQUESTING:
        return
    request = now.request
    if was is not None and was.request is not None and was.request.request_id == request.request_id:
        return
    if is_forced_restart(both.old, group) is not None:
        return
    if taken.counted("failed-standby-allocations"):
        return  # what it had reserved became illegal: any other host
    state, failover = taken.after, group.failover
    failing_over = failover is not None and failover.active_id == both.processor_id
    if failing_over:
        if failover is not None and request.host != failover.host:
            raise taken.broken(RIGHT_PLACE, f"{request}, it fails over to {failover.host}")
        return
    home = _home(taken, both)
    legal = home is not None and not reasons(state, group, both.processor_id, home)
    if request.host is not None and (request.host != home or not legal):
        raise taken.broken(RIGHT_PLACE, f"{request} of {both.processor_id}, its home is {home}")
    if any(isinstance(later, cmd.StopContainer) for later in taken.since_asked(request)):
        return  # a standby that ran as this was asked for may have been stopped since
    fit = _qualified(taken, both) if now.role is Role.ACTIVE else []
    runs = [pid for pid in fit if group.processors[pid].phase is Phase.RUNNING]
    urgent = request.host is not None and bool(runs)
    if request.urgent is not urgent:
        why = "a standby could take over" if urgent else "nobody could take over"
        raise taken.broken(RIGHT_PLACE, f"{request} of {both.processor_id}: {why}")
    if request.host is None and legal and not _tried_home(taken, both):
        raise taken.broken(RIGHT_PLACE, f"{both.processor_id} could go home to {home}: {request}")
    if request.host is None and now.role is Role.ACTIVE and now.last_seen_host is not None:
        tried = both.old.failover.tried if both.old is not None and both.old.failover else ()
        free = [s for s in fit if s not in tried]
        if free:
            raise taken.broken(RIGHT_PLACE, f"{both.processor_id} could take the place of {free}")


def _home(taken: Taken, both: Both) -> str | None:
    """Where its state is; after a failed action, the source. None without affinity."""
    now, group = both.now, both.group
    if now is None or group is None or not taken.after.limits.host_affinity:
        return None
    action = group.action
    before = both.old.action if both.old is not None else None
    if (
        isinstance(action, Fallback)
        and subject_of(action) == both.processor_id
        and (before is None or before.stage is not action.stage)
        and (before is None or before.stage is not Stage.FALLBACK_SOURCE)
    ):
        return action.source_host
    if now.avoid_hosts and now.avoid_hosts[-1] == now.last_seen_host:
        return None
    return now.last_seen_host


def _tried_home(taken: Taken, both: Both) -> bool:
    """Its host was asked for, or a standby's, and wasn't to be had; or an action's end is its own."""
    was = both.was
    asked = was is not None and was.request is not None
    old = both.old
    failing_over = old is not None and old.failover is not None
    if asked or failing_over:
        return True
    action = None if old is None else old.action
    return action is not None and both.processor_id in (displaced_by(action), subject_of(action))


def _qualified(taken: Taken, both: Both) -> list[str]:
    """Standbys whose place the active could take."""
    group, active = both.group, both.now
    if group is None or active is None:
        return []
    return [
        standby.processor_id
        for standby in group.processors.values()
        if may_be_taken(taken.after, group, active, standby) and was_so(both.old, standby)
    ]
