"""Which requests are to be refused, and what the refusal has to name: the rules, read again."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import AskKind, Group, JobState, PlacementAsk, Role, Stage
from samza_dagster.simulation.judges.legality import reasons
from samza_dagster.simulation.judges.standby_places import may_give_way
from samza_dagster.simulation.judges.taken import Taken

_RESERVES_NOTHING = (naming.STANDBY, naming.FORCE_RESTART_LAST_SEEN)
_NEEDS_A_PAST = (naming.STANDBY, naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN)
_A_DAY_MS = 86_400_000
Words = tuple[str, ...]


def refusal(taken: Taken, event: ev.RequestArrived) -> Words | None:
    """What a refusal of this request has to say; None when it is to be taken."""
    ask, state = event.ask, taken.before
    if ask.kind in (AskKind.CANCEL, AskKind.COMMIT, AskKind.RELEASE):
        return _of_control(state, ask)
    group = state.groups.get(naming.group_of(ask.processor_id))
    processor = None if group is None else group.processors.get(ask.processor_id)
    if group is None or processor is None or not processor.wanted:
        known = [pid for g in state.groups.values() for pid, p in g.processors.items() if p.wanted]
        return ("invalid processor id", ask.processor_id, *known)
    words = _of_expiry(ask) or _of_kind(state, group, processor.role, ask)
    words = words or _of_destination(state, ask)
    if words is not None:
        return words
    runs = processor.incarnation
    if ask.execution_id and runs is not None and runs.execution_id != ask.execution_id:
        return ("same-incarnation", ask.execution_id, runs.execution_id)
    if event.no_start_because:
        return ("could not start again", event.no_start_because)
    return _by_rules(taken, group, ask)


def _of_control(state: JobState, ask: PlacementAsk) -> Words | None:
    target = ask.refers_to
    for group in state.groups.values():
        action = group.action
        if action is not None and action.ask.uuid == target:
            if ask.kind is AskKind.COMMIT:
                waits = action.stage in (Stage.RESERVING, Stage.HELD) and action.ask.hold
                return None if waits else (target, action.stage.value, "no commit")
            stopped = action.stage not in (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)
            return (target, action.stage.value, "too late") if stopped else None
        if any(queued.uuid == target for queued in group.queue):
            return (target, "queued") if ask.kind is AskKind.COMMIT else None
    return (target, "neither queued nor in flight")


def _of_expiry(ask: PlacementAsk) -> Words | None:
    """A day at most: docs/placement.md."""
    if (ask.expiry_ms or 0) <= _A_DAY_MS:
        return None
    return ("longest-expiry", "requestExpiry", str(ask.expiry_ms), str(_A_DAY_MS))


def _of_kind(state: JobState, group: Group, role: Role, ask: PlacementAsk) -> Words | None:
    pid = ask.processor_id
    standbys = [p for p in group.processors.values() if p.role is Role.STANDBY and p.wanted]
    swaps = ask.destination_host == naming.STANDBY or ask.kind is AskKind.FAIL_OVER
    if ask.kind is AskKind.STOP_STANDBY:
        return (pid, "active") if role is Role.ACTIVE else None
    if role is Role.STANDBY and (swaps or ask.kind is AskKind.START_STANDBY):
        return (pid, "is a standby", group.group_id)
    if ask.kind is AskKind.START_STANDBY and len(standbys) >= state.limits.max_standbys:
        return (pid, f"has {len(standbys)} standbys")
    if swaps and not standbys:
        return (pid, "no standby")
    if ask.hold and ask.destination_host in _RESERVES_NOTHING:
        return (ask.destination_host, "reserves nothing")
    return None


def _of_destination(state: JobState, ask: PlacementAsk) -> Words | None:
    host = ask.destination_host
    if ask.kind in (AskKind.STOP_STANDBY, AskKind.FAIL_OVER):
        return None
    if ask.kind is AskKind.START_STANDBY and host in _NEEDS_A_PAST:
        return ("new standby", host)
    if host not in naming.DESTINATION_WORDS and host not in state.hosts:
        return ("unknown destination host", host, *state.hosts)
    return None


def _by_rules(taken: Taken, group: Group, ask: PlacementAsk) -> Words | None:
    """Of a request that began at once, or would have: a rule forbids it now.

    One that has to wait is judged when its turn comes.
    """
    state, pid, host = taken.before, ask.processor_id, ask.destination_host
    now = taken.after.groups.get(group.group_id)
    if now is not None and ask in now.queue:
        return None
    if ask.kind is AskKind.FAIL_OVER or (ask.kind is AskKind.PLACE and host == naming.STANDBY):
        active = group.processors[pid]
        if (
            ask.execution_id
            and active.incarnation is None
            and not was_last(group, pid, ask.execution_id)
        ):
            return ("same-incarnation", ask.execution_id, "down")
        free = group.failover is None and any(
            may_give_way(state, group, active, standby) for standby in group.processors.values()
        )
        if free:
            return None
        standbys = [one for one in group.processors.values() if one.role is Role.STANDBY]
        return ("no standby container of", pid, *(one.processor_id for one in standbys))
    if ask.kind is AskKind.STOP_STANDBY or host in naming.DESTINATION_WORDS:
        return None
    mover = new_standby(group) if ask.kind is AskKind.START_STANDBY else pid
    found = reasons(state, group, mover, host)
    broken = {reason.rule for reason in found}
    # A lost host is waited for, whoever else is in its fault domain.
    if not broken or ("host-alive" in broken and broken <= {"host-alive", "same-fault-domain"}):
        return None
    return ("does not meet standby constraints", host)


def was_last(group: Group, processor_id: str, execution_id: str) -> bool:
    """Whether this is the newest incarnation of a processor that is down, by what is on record."""
    known = [g.incarnation for g in group.ghosts if g.processor_id == processor_id]
    ended = group.processors[processor_id].last_end
    epochs = {one.execution_id: one.epoch for one in known}
    if ended is not None:
        epochs[ended.execution_id] = ended.epoch
    return execution_id in epochs and epochs[execution_id] == max(epochs.values())


def new_standby(group: Group) -> str:
    """The first number that nobody of the group has, nor a ghost of it."""
    used = {*group.processors, *(ghost.processor_id for ghost in group.ghosts)}
    number = 0
    while f"{group.group_id}-{number}" in used:
        number += 1
    return f"{group.group_id}-{number}"
