"""Turns: the limits are never exceeded and always used, and who waits longest goes first."""

from __future__ import annotations

from collections import Counter
from typing import Any

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    Group,
    JobState,
    Phase,
    PlacementAsk,
    Processor,
    Role,
    SpinUp,
    Stage,
)
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    awaits_its_place,
    chosen_by,
    group_with,
    is_down,
    place_of,
    reasons,
    requests_of,
    reserved_by,
    subject_of,
)
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import FAIR_TURNS

_STARTING = (Phase.REQUESTING, Phase.RESERVED, Phase.STARTING)
_FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)


def judge_turns(chronicle: Chronicle, taken: Taken) -> None:
    """After any step but a take-over's: nobody waits for a turn that is free."""
    if taken.restarted:
        return
    _judge_starts(chronicle, taken)
    _judge_actions(chronicle, taken)
    _judge_choices(taken)


def _judge_starts(chronicle: Chronicle, taken: Taken) -> None:
    limit, now_ms = taken.after.limits.max_concurrent_starts, taken.now_ms
    starting = sum(_starting(group) for group in taken.after.groups.values())
    waiting: list[tuple[Any, ...]] = []
    gave_way: list[tuple[Any, ...]] = []
    for group in taken.after.groups.values():
        for pid, processor in group.processors.items():
            if (processor.phase is Phase.WAITING and processor.not_before_ms <= now_ms) and (
                not awaits_its_place(group, pid)
            ):
                waiting.append(_key(group, processor))
                if _has_just_given_way(taken, group, pid):
                    gave_way.append(waiting[-1])
    if waiting and starting < limit:
        raise taken.broken(FAIR_TURNS, f"{min(waiting)} waits, {starting} of {limit} start")
    if isinstance(taken.event, ev.RequestArrived | ev.HostRegistered | ev.HostLost):
        return  # what they lead to takes no turn
    for both in taken.both:
        was, now = both.was, both.now
        if was is None or now is None or both.old is None or both.group is None:
            continue
        if was.phase is not Phase.WAITING or now.phase not in _STARTING:
            continue
        if awaits_its_place(both.old, both.processor_id) or both.old.action != both.group.action:
            continue
        chronicle.premises[FAIR_TURNS] += 1
        if starting > limit:
            raise taken.broken(FAIR_TURNS, f"{both.processor_id} is one too many: {starting}")
        mine = _key(both.group, now)
        # A standby whose place was sought for its active by this turn waits only since then.
        late = [k for k in waiting if k < mine and not (k in gave_way and k[4] == mine[4])]
        if late:
            raise taken.broken(FAIR_TURNS, f"{mine} goes before {late}")


def _has_just_given_way(taken: Taken, group: Group, standby_id: str) -> bool:
    """It asked for a resource before this step, and its active took its turn and its place."""
    before = taken.before.groups.get(group.group_id)
    was = None if before is None else before.processors.get(standby_id)
    failover = group.failover
    return (
        (was is not None and was.phase in _STARTING)
        and (failover is not None and failover.standby_id == standby_id)
        and (before is None or before.failover != failover)
    )


def _starting(group: Group) -> int:
    action = group.action
    waiting = {orphan.processor_id for orphan in group.orphans if orphan.ended is None}
    return sum(
        processor.phase in _STARTING
        and not (processor.phase is Phase.RESERVED and pid in waiting)
        and not (
            action is not None and action.stage is Stage.STARTING and subject_of(action) == pid
        )
        for pid, processor in group.processors.items()
    )


def _key(group: Group, processor: Processor) -> tuple[Any, ...]:
    """Fewest tries, actives, longest wait; then by number."""
    pid = processor.processor_id
    standby = processor.role is Role.STANDBY
    return (processor.attempts, standby, processor.waiting_since_ms, len(pid), group.group_id, pid)


def _judge_actions(chronicle: Chronicle, taken: Taken) -> None:
    """Requests begin as soon as their group, their processor, their hosts and the job allow."""
    state = taken.after
    acting = sum(map(is_acting, state.groups.values()))
    limits = state.limits
    # One that was given up for a failover may have been the last to take a turn in this step.
    failing_over = {new.group_id for _, new, _ in taken.failovers_begun}
    given_up = any(
        r.status == "FAILED"
        and (group := group_with(taken.before, r.processor_id)) is not None
        and group.group_id in failing_over
        for r in taken.every(cmd.WriteResponse)
    )
    if acting < limits.max_concurrent_actions and not given_up:
        for group in state.groups.values():
            ask = first_ready(group)
            if ask is None or _is_swap(ask):
                continue
            chronicle.premises[FAIR_TURNS] += 1
            before_starts = _before_starts(taken, group)
            if not any(_waits_for_host(state, it, ask) for it in (group, before_starts)):
                raise taken.broken(FAIR_TURNS, f"{ask.uuid} could begin, and waits")


def is_acting(group: Group) -> bool:
    """Its action counts: it isn't on its way back."""
    return group.action is not None and group.action.stage not in _FALLBACK


def _judge_choices(taken: Taken) -> None:
    """No action chooses a host that as many others touch as may, unless its container is down."""
    most = taken.after.limits.max_actions_per_host
    for old, new in taken.changed:
        was, now = (None if group is None else group.action for group in (old, new))
        if new is not None and now is not None and (was is None or was.ask.uuid != now.ask.uuid):
            _judge_first_choice(taken, new, now)
            continue
        if old is None or was is None or now is None:
            continue
        if is_down(old, subject_of(now)):
            continue
        for host in {chosen_by(now)} - {chosen_by(was), None}:
            others = [
                sum(host in touched_by(other) for gid, other in groups if gid != old.group_id)
                for groups in (taken.before.groups.items(), taken.after.groups.items())
            ]
            if min(others) >= most:
                raise taken.broken(FAIR_TURNS, f"{now} chooses {host}, touched by {others}")


def _judge_first_choice(taken: Taken, group: Group, action: Action) -> None:
    """It begins once a host that it may choose has a turn left."""
    state = taken.after
    full = without_a_turn(taken.before, group) & without_a_turn(state, group)
    for mover, request in requests_of(group):
        if request != reserved_by(action) or request.host:
            continue
        processor = group.processors.get(mover)
        here = None if processor is None else processor.incarnation
        legal = {host for host in state.hosts if not reasons(state, group, mover, host)}
        legal -= set() if here is None else {here.host}
        if legal and legal <= full:
            raise taken.broken(FAIR_TURNS, f"{action} begins, and each of {legal} is full")


def _before_starts(taken: Taken, group: Group) -> Group:
    """The group when requests took their turns: starts take theirs after, and ask for hosts."""
    asked = {request.request_id for request in taken.every(cmd.RequestResource)}
    return group.evolve(
        processors={
            pid: processor.evolve(request=None)
            if processor.request is not None and processor.request.request_id in asked
            else processor
            for pid, processor in group.processors.items()
        }
    )


def _waits_for_host(state: JobState, group: Group, ask: PlacementAsk) -> bool:
    """A host that it touches is full, or those that it may choose from, with who is choosing."""
    most = state.limits.max_actions_per_host
    if any(_touching(state, host) >= most for host in _hosts_of(group, ask)):
        return True
    open_ = [reserved_by(other.action) for other in state.groups.values()]
    if any(r and r.host is None and r.allocated_host is None for r in open_):
        return True  # that one may need the turn that this one would take
    legal = _choice(state, group, ask)
    return bool(legal) and all(_touching(state, host) >= most for host in legal)


def _choice(state: JobState, group: Group, ask: PlacementAsk) -> set[str]:
    """The legal hosts of a request for any host; empty for any other request."""
    chooses = ask.kind in (RequestKind.PLACE, RequestKind.START_STANDBY)
    if not chooses or ask.destination_host != naming.ANY_HOST:
        return set()
    adds = ask.kind is RequestKind.START_STANDBY
    mover = "" if adds or ask.processor_id not in group.processors else ask.processor_id
    there = group.processors[mover].incarnation if mover else None
    return {
        host
        for host in state.hosts
        if not reasons(state, group, mover, host) and (there is None or there.host != host)
    }


def first_ready(group: Group) -> PlacementAsk | None:
    """The request of the queue whose turn it is."""
    if group.action is not None or group.failover is not None:
        return None
    return next((ask for ask in group.queue if is_ready(group, ask)), None)


def is_ready(group: Group, ask: PlacementAsk) -> bool:
    """Its processor is in a state that it can act on."""
    processor = group.processors.get(ask.processor_id)
    if ask.kind is RequestKind.START_STANDBY or processor is None:
        return True
    match ask.kind:
        case RequestKind.STOP_STANDBY:
            holding = (g for g in group.orphans if not (g.elsewhere and g.ended))
            return ask.processor_id not in {orphan.processor_id for orphan in holding}
        case RequestKind.FAIL_OVER:
            return processor.phase not in (Phase.STARTING, Phase.STOPPING)
        case _:
            return processor.phase is Phase.RUNNING


def _is_swap(ask: PlacementAsk) -> bool:
    """It puts the active in a standby's place."""
    if ask.kind is RequestKind.FAIL_OVER:
        return True
    return ask.kind is RequestKind.PLACE and ask.destination_host == naming.STANDBY


def _hosts_of(group: Group, ask: PlacementAsk) -> set[str]:
    """The hosts that a request would touch; of a swap not the standby's."""
    hosts: set[str] = set()
    processor = group.processors.get(ask.processor_id)
    if processor is not None and processor.incarnation is not None:
        hosts.add(processor.incarnation.host)
    if ask.destination_host and ask.destination_host not in naming.DESTINATION_WORDS:
        hosts.add(ask.destination_host)
    return hosts


def _touching(state: JobState, host: str) -> int:
    """Actions under way that leave, take or name this host."""
    return sum(host in touched_by(group) for group in state.groups.values())


def touched_by(group: Group) -> set[str]:
    """Hosts that the group's action touches while it isn't on its way back."""
    action = group.action
    if action is None or action.stage in _FALLBACK:
        return set()
    source = None if isinstance(action, SpinUp) else action.source_host
    place = place_of(action)
    hosts = (source, place and place.host, action.ask.destination_host, chosen_by(action))
    named = {host for host in hosts if host}
    return named - naming.DESTINATION_WORDS


def without_a_turn(state: JobState, group: Group) -> set[str]:
    """Hosts that other groups' actions leave no turn at."""
    others = (other for other in state.groups.values() if other.group_id != group.group_id)
    counts = Counter(host for other in others for host in touched_by(other))
    return {host for host, count in counts.items() if count >= state.limits.max_actions_per_host}
