"""Which requests are to be refused, and the rule that the refusal names: the rules, read again."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Action, Group, JobState, Phase, PlacementAsk, Role, Stage
from tests.simulation.judges.chronicle import CONTROLS
from tests.simulation.judges.legality import (
    displaced_by,
    group_with,
    reasons,
    subject_of,
)
from tests.simulation.judges.standby_places import may_give_way
from tests.simulation.judges.taken import Taken

_RESERVES_NOTHING = (naming.STANDBY, naming.FORCE_RESTART_LAST_SEEN)
_NEEDS_A_PAST = (naming.STANDBY, naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN)
_UNTOUCHED = (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)
_A_DAY_MS = 86_400_000
Words = tuple[str, ...]


def refusal(taken: Taken, event: ev.RequestArrived) -> Words | None:
    """What a refusal of this request has to say; None when it is to be taken."""
    ask, state = event.ask, taken.before
    if ask.kind in CONTROLS:
        return _of_control(state, ask)
    group = group_with(state, ask.processor_id)
    processor = None if group is None else group.processors.get(ask.processor_id)
    if group is None or processor is None or not processor.wanted:
        return ("processor-known: ", ask.processor_id)
    words = of_itself(state, group, processor.role, ask)
    if words is not None:
        return words
    runs = processor.incarnation
    if ask.execution_id and runs is not None and runs.execution_id != ask.execution_id:
        return ("same-incarnation", ask.execution_id, runs.execution_id)
    if event.no_start_because:
        return ("could not start again", event.no_start_because)
    return _by_rules(taken, group, ask)


def _of_control(state: JobState, ask: PlacementAsk) -> Words | None:
    target, commits = ask.refers_to, ask.kind is RequestKind.COMMIT
    for group in state.groups.values():
        action = group.action
        if action is not None and action.ask.uuid == target:
            if commits:
                waits = action.stage in (Stage.RESERVING, Stage.HELD) and action.ask.hold
                change = "wait for its end" if action.ask.hold else "ask with hold"
                return None if waits else ("held-for-commit: ", target, action.stage.value, change)
            return None if action.stage in _UNTOUCHED else _too_late(group, action)
        if any(queued.uuid == target for queued in group.queue):
            return ("reserved-before-commit: ", target, "queued") if commits else None
    return ("request-under-way: ", target)


def _too_late(group: Group, action: Action) -> Words:
    """What was begun with which container, and how that is undone."""
    words = ("not-yet-touched: ", action.ask.uuid, action.stage.value)
    mover = subject_of(action)
    if action.stage in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY):
        return (*words, "it has FAILED", f"wait until {mover} runs")
    words = (*words, _way_back(action, mover))
    touched = displaced_by(action) if action.stage is Stage.STOPPING_STANDBY else mover
    runs = group.processors[touched]
    if runs.incarnation is None:
        return (*words, f"{touched} has no process that is known of")
    if runs.phase is Phase.STOPPING:
        return (*words, f"{touched} was told to stop")
    return (*words, f"{touched} starts on {runs.incarnation.host}")


def _way_back(action: Action, mover: str) -> str:
    match action.ask.kind, action.ask.destination_host:
        case RequestKind.START_STANDBY, _:
            return f"ask to stop {mover} once it runs"
        case RequestKind.STOP_STANDBY, _:
            return "ask for another standby"
        case _, naming.LAST_SEEN | naming.FORCE_RESTART_LAST_SEEN:
            return f"wait until {mover} runs again where it was"
        case _:
            return f"ask to move {mover} back"


def of_itself(state: JobState, group: Group, role: Role, ask: PlacementAsk) -> Words | None:
    """What no state of its containers makes legal."""
    kind, pid, host = ask.kind, ask.processor_id, ask.destination_host
    standbys = [p for p in group.processors.values() if p.role is Role.STANDBY and p.wanted]
    swaps = host == naming.STANDBY or kind is RequestKind.FAIL_OVER
    adds = kind is RequestKind.START_STANDBY
    placed = kind not in (RequestKind.STOP_STANDBY, RequestKind.FAIL_OVER)
    unknown = host not in naming.DESTINATION_WORDS and host not in state.hosts
    if (ask.expiry_ms or 0) > _A_DAY_MS:  # docs/architecture/placement.md
        return ("longest-expiry", str(ask.expiry_ms), str(_A_DAY_MS))
    if kind is RequestKind.STOP_STANDBY:
        return ("standby-to-stop: ", pid) if role is Role.ACTIVE else None
    if role is Role.STANDBY and (swaps or adds):
        return ("active-with-standby: ", pid)
    if adds and len(standbys) >= state.limits.max_standbys:
        return ("most-standbys: ", pid, str(len(standbys)))
    if swaps and not standbys:
        return ("active-with-standby: ", pid)
    if ask.hold and host in _RESERVES_NOTHING:
        return ("reserves-first: ", host)
    if adds and host in _NEEDS_A_PAST:
        return ("place-for-new: ", host)
    return ("destination-known: ", host) if placed and unknown else None


def _by_rules(taken: Taken, group: Group, ask: PlacementAsk) -> Words | None:
    """Of a request that began at once, or would have: a rule forbids it now.

    One that has to wait is judged when its turn comes.
    """
    state, pid, host = taken.before, ask.processor_id, ask.destination_host
    now = taken.after.groups.get(group.group_id)
    if now is not None and ask in now.queue:
        return None
    if ask.kind is RequestKind.FAIL_OVER or (
        ask.kind is RequestKind.PLACE and host == naming.STANDBY
    ):
        active, named = group.processors[pid], ask.execution_id
        if named and active.incarnation is None and not _was_last(group, pid, named):
            return ("same-incarnation", named, "down")
        free = group.failover is None and any(
            may_give_way(state, group, active, standby) for standby in group.processors.values()
        )
        return None if free else ("no standby container of", pid)
    if ask.kind is RequestKind.STOP_STANDBY or host in naming.DESTINATION_WORDS:
        return None
    mover = _new_standby(group) if ask.kind is RequestKind.START_STANDBY else pid
    broken = {reason.rule for reason in reasons(state, group, mover, host)}
    # A lost host is waited for, whoever else is in its fault domain.
    if not broken or ("host-alive" in broken and broken <= {"host-alive", "same-fault-domain"}):
        return None
    return ("does not meet standby constraints", host)


def _was_last(group: Group, processor_id: str, execution_id: str) -> bool:
    """Whether this is the newest incarnation of a processor that is down, by what is on record."""
    known = [g.incarnation for g in group.orphans if g.processor_id == processor_id]
    ended = group.processors[processor_id].last_end
    epochs = {one.execution_id: one.epoch for one in known}
    if ended is not None:
        epochs[ended.execution_id] = ended.epoch
    return execution_id in epochs and epochs[execution_id] == max(epochs.values())


def _new_standby(group: Group) -> str:
    """The first number that nobody of the group has, nor an orphan of it."""
    used = {*group.processors, *(orphan.processor_id for orphan in group.orphans)}
    number = 0
    while f"{group.group_id}-{number}" in used:
        number += 1
    return f"{group.group_id}-{number}"
