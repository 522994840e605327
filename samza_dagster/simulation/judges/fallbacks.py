"""Where a processor goes: its own host, a standby's place, any other; read from the document."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Group,
    JobState,
    Phase,
    ResourceRequest,
    Role,
    Stage,
)
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import (
    holders,
    is_forced_restart,
    reasons,
    requests_of,
    subject_of,
)
from samza_dagster.simulation.judges.standby_places import (
    judge_cold,
    judge_failovers,
    kind_of,
    may_be_taken,
    rank,
    was_so,
)
from samza_dagster.simulation.judges.taken import Both, Taken
from samza_dagster.simulation.judges.turns import touched_by
from samza_dagster.simulation.judges.violation import RIGHT_PLACE


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
    """A request for any host excludes every host that is forbidden, and no other without reason."""
    if request.host is not None or request.allocated_host is not None:
        return
    state = taken.after
    may = _given_back(old, group) if taken.lost_now else set[str]()
    may |= _asked_in_between(taken, group, request)
    group = _before_given_back(taken, old, _before_younger(group, request), request)
    processor = group.processors.get(processor_id)
    expected = {host for host in state.hosts if reasons(state, group, processor_id, host)}
    expected |= _held_elsewhere(state, group, processor_id)
    action = group.action
    reserves = action is not None and request in (action.reservation, action.standby_reservation)
    if reserves and action is not None:
        own = processor.incarnation if processor is not None else None
        if own is not None:
            expected.add(own.host)
        if request is action.reservation and action.source_host is not None:
            expected.add(action.source_host)
        full, either = _full(taken, old, group)
        expected |= full - {own.host if own is not None else ""}
        may |= either
    elif processor is not None:
        expected |= set(processor.avoid_hosts)
    excluded = set(request.excluded_hosts)
    if not expected <= excluded <= expected | may or list(request.excluded_hosts) != sorted(
        excluded
    ):
        raise taken.broken(
            RIGHT_PLACE, f"{request} of {processor_id}: by the rules {sorted(expected)}"
        )


def _full(taken: Taken, old: Group | None, group: Group) -> tuple[set[str], set[str]]:
    """Hosts that other groups' actions leave no turn at: all through the step, and at its ends."""
    most = taken.after.limits.max_actions_per_host
    found: list[set[str]] = []
    for state in (taken.before, taken.after):
        counts: Counter[str] = Counter()
        for other in state.groups.values():
            if other.group_id != group.group_id:
                counts.update(touched_by(other))
        found.append({host for host, count in counts.items() if count >= most})
    still = all(
        (None if was is None else was.action) == (None if now is None else now.action)
        for was, now in taken.changed
        if was is not old
    )
    return (found[0] & found[1] if still else set()), found[0] | found[1]


def _given_back(old: Group | None, group: Group) -> set[str]:
    """Hosts that the group held and doesn't any more: one lost after another, it may still have."""
    kept = {request.request_id for _, request in requests_of(group)}
    return {
        host
        for _, request in (requests_of(old) if old is not None else ())
        if request.request_id not in kept and (host := request.allocated_host or request.host)
    }


def _asked_in_between(taken: Taken, group: Group, request: ResourceRequest) -> set[str]:
    """Hosts that the group asked for before this request, and let go after it, in the same step."""
    released = {command.request_id for command in taken.every(cmd.ReleaseResource)}
    return {
        said.host
        for said in taken.every(cmd.RequestResource)
        if said.host is not None and said.request_id in released
        if said.request_id < request.request_id
        if naming.group_of(said.processor_id) == group.group_id
    }


def _before_younger(group: Group, request: ResourceRequest) -> Group:
    """The group without what was asked for after this request, in the same step."""

    def older(other: ResourceRequest | None) -> ResourceRequest | None:
        younger = other is not None and other.request_id > request.request_id
        return None if younger else other

    processors = {
        pid: replace(processor, request=older(processor.request))
        for pid, processor in group.processors.items()
    }
    action = group.action
    if action is not None:
        action = replace(
            action,
            reservation=older(action.reservation),
            standby_reservation=older(action.standby_reservation),
        )
    return replace(group, processors=processors, action=action)


def _before_given_back(
    taken: Taken, old: Group | None, group: Group, request: ResourceRequest
) -> Group:
    """The group with what it gave back after this request, in the same step.

    A standby's turn may come before its active's, which takes an action's place from it.
    """
    since = taken.since_asked(request)
    later = {c.request_id for c in since if isinstance(c, cmd.ReleaseResource)}
    kept = {
        pid: replace(group.processors[pid], request=_as_held(taken, held))
        for pid, held in (requests_of(old) if old is not None and later else ())
        if held.request_id in later and pid in group.processors
    }
    return replace(group, processors={**group.processors, **kept}) if kept else group


def _as_held(taken: Taken, request: ResourceRequest) -> ResourceRequest:
    """A request as it was in the step that gave it back: it may have been held in this very step."""
    event = taken.event
    if isinstance(event, ev.ResourceAllocated) and event.request_id == request.request_id:
        return replace(request, allocated_host=event.host)
    return request


def _held_elsewhere(state: JobState, group: Group, processor_id: str) -> set[str]:
    """Hosts that the job doesn't know (yet), and that the group holds."""
    return {reason.host for reason in holders(state, group, processor_id)}


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
    fit = _qualified(taken, both) if now.role is Role.ACTIVE else []
    runs = [pid for pid in fit if pid in _running(taken, both)]
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
        action is not None
        and action.stage in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)
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
    return action is not None and both.processor_id in (action.standby_id, subject_of(action))


def _qualified(taken: Taken, both: Both) -> list[str]:
    """Standbys whose place the active could take as it asked, the best first."""
    group, state = both.group, taken.after
    if group is None or both.now is None:
        return []
    group = _before_later_stops(taken, both, group)
    active = both.now
    found = [
        standby
        for standby in group.processors.values()
        if may_be_taken(state, group, active, standby) and was_so(both.old, standby)
    ]
    return [s.processor_id for s in sorted(found, key=lambda s: rank(state, group, s, kind_of(s)))]


def _running(taken: Taken, both: Both) -> set[str]:
    """Those that ran as the processor asked."""
    if both.group is None:
        return set()
    members = _before_later_stops(taken, both, both.group).processors
    return {pid for pid, member in members.items() if member.phase is Phase.RUNNING}


def _before_later_stops(taken: Taken, both: Both, group: Group) -> Group:
    """The group with what was stopped after the processor's request, in the same step, as it ran.

    A turn that was due comes before the request that arrives, which may stop the standby.
    """
    request = None if both.now is None else both.now.request
    if request is None or both.old is None:
        return group
    since = taken.since_asked(request)
    later = {c.execution_id for c in since if isinstance(c, cmd.StopContainer)}
    ran = {
        pid: was
        for pid, was in both.old.processors.items()
        if pid in group.processors
        and was.phase is Phase.RUNNING
        and was.incarnation is not None
        and was.incarnation.execution_id in later
    }
    if not ran:
        return group
    return replace(group, processors={**group.processors, **ran}, action=both.old.action)
