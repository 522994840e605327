"""Which requests are to be refused, and what the refusal has to name: the rules, read again."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    AskKind,
    Group,
    JobState,
    Phase,
    PlacementAsk,
    Role,
    Stage,
)
from samza_dagster.simulation.judges.legality import reasons, subject_of
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
        change = f"; name one of {', '.join(sorted(known))}" if known else "; deploy the job first"
        return ("invalid processor id", "; processor-known: ", ask.processor_id, change)
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
                return None if waits else _waits_for_none(action)
            stopped = action.stage not in (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)
            return _too_late(group, action) if stopped else None
        if any(queued.uuid == target for queued in group.queue):
            early = ("reserved-before-commit: ", target, "queued", "; commit it once")
            return early if ask.kind is AskKind.COMMIT else None
    return ("request-under-way: ", target, "neither queued nor in flight", "; name one that is")


def _waits_for_none(action: Action) -> Words:
    change = "; wait for its end" if action.ask.hold else "; ask with hold"
    return ("held-for-commit: ", action.ask.uuid, action.stage.value, "no commit", change)


def _too_late(group: Group, action: Action) -> Words:
    """What was begun with which container, and what undoes it."""
    words = ("not-yet-touched: ", action.ask.uuid, action.stage.value, "too late, ")
    mover = subject_of(action)
    if action.stage in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY):
        return (*words, "it has FAILED", f"; wait until {mover} runs")
    touched = action.standby_id if action.stage is Stage.STOPPING_STANDBY else mover
    runs = group.processors[touched]
    if runs.incarnation is None:
        seen = f"{touched} has no process that is known of"
    elif runs.phase is Phase.STOPPING:
        seen = f"{touched} was told to stop"
    else:
        seen = f"{touched} starts on {runs.incarnation.host}"
    stays = action.ask.destination_host in (naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN)
    back = f"; ask to move {mover} back once it has ended"
    change = {
        AskKind.START_STANDBY: f"; ask to stop {mover} once it runs",
        AskKind.STOP_STANDBY: "; ask for another standby",
    }.get(action.ask.kind, f"; wait until {mover} runs again" if stays else back)
    return (*words, seen, change)


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
        return ("standby-to-stop: ", pid, "active; ") if role is Role.ACTIVE else None
    if role is Role.STANDBY and (swaps or ask.kind is AskKind.START_STANDBY):
        return ("active-with-standby: ", pid, "is a standby; ", group.group_id)
    if ask.kind is AskKind.START_STANDBY and len(standbys) >= state.limits.max_standbys:
        return ("most-standbys: ", pid, f"has {len(standbys)} standbys", "; stop one")
    if swaps and not standbys:
        return ("active-with-standby: ", pid, "no standby; ")
    if ask.hold and ask.destination_host in _RESERVES_NOTHING:
        return ("reserves-first: ", ask.destination_host, "reserves nothing", "; name a host")
    return None


def _of_destination(state: JobState, ask: PlacementAsk) -> Words | None:
    host = ask.destination_host
    if ask.kind in (AskKind.STOP_STANDBY, AskKind.FAIL_OVER):
        return None
    if ask.kind is AskKind.START_STANDBY and host in _NEEDS_A_PAST:
        return ("place-for-new: ", "new standby", host, "; name a host")
    if host not in naming.DESTINATION_WORDS and host not in state.hosts:
        return ("destination-known: ", "unknown destination host", host, *state.hosts, "; name one")
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
