"""The rules of places, read a second time: what keeps a processor from a host, in plain loops.

Nothing of `placement/rules.py` or `placement/ownership.py` is used here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    Group,
    Host,
    Incarnation,
    JobState,
    Move,
    Orphan,
    Phase,
    PlacementAsk,
    ResourceRequest,
    SpinUp,
    StandbyPlace,
    Start,
    Swap,
)


class Reason(NamedTuple):
    """Why a host is forbidden: the rule, who is in the way, on which host, and what it does there."""

    rule: str
    who: str
    host: str
    does: str


def group_with(state: JobState, processor_id: str) -> Group | None:
    """The group that has this processor, wanted or not."""
    return next((g for g in state.groups.values() if processor_id in g.processors), None)


def subject_of(action: Action) -> str:
    """Whom an action places: the processor that it names, or the standby that it adds."""
    return action.standby_id if isinstance(action, SpinUp) else action.ask.processor_id


def displaced_by(action: Action) -> str:
    """The standby that has to give way; "" when none has."""
    place = place_of(action)
    return "" if place is None else place.standby_id


def place_of(action: Action) -> StandbyPlace | None:
    """The standby's place that an action takes for its active."""
    return action.place if isinstance(action, (Swap, Move, Start)) else None


def reserved_by(action: Action | None) -> ResourceRequest | None:
    """What an action asks for or has reserved."""
    return action.request if isinstance(action, (Swap, Move, SpinUp)) else None


def destination_of(action: Action | None) -> ResourceRequest | None:
    """What an action asks for or has reserved for the container that it moves."""
    return action.request if isinstance(action, Move) else None


def chosen_by(action: Action) -> str | None:
    """The host that the cluster chose for an action among several."""
    return action.chosen_host if isinstance(action, (Swap, Move, Start, SpinUp)) else None


def _gives_way_to(group: Group, processor_id: str) -> str:
    """The standby whose place this processor takes; "" for none."""
    failover, action = group.failover, group.action
    if failover is not None and failover.active_id == processor_id:
        return failover.standby_id
    if action is not None and action.ask.processor_id == processor_id:
        return displaced_by(action)
    return ""


def takes_place_on(group: Group, processor_id: str) -> str | None:
    """The host that a standby leaves to this processor."""
    failover, action = group.failover, group.action
    if failover is not None and failover.active_id == processor_id:
        return failover.host
    place = None if action is None else place_of(action)
    if action is not None and place is not None and action.ask.processor_id == processor_id:
        return place.host
    return None


def requests_of(group: Group) -> Iterator[tuple[str, ResourceRequest]]:
    """(processor, resource request) of all that the group asks for or has reserved."""
    for pid, processor in group.processors.items():
        if processor.request is not None:
            yield pid, processor.request
    action = group.action
    if action is None:
        return
    request = reserved_by(action)
    if request is not None:
        yield action.place.standby_id if isinstance(action, Swap) else subject_of(action), request


def holders(state: JobState, group: Group, processor_id: str) -> list[Reason]:
    """What of the group holds a host against this processor."""
    found: list[Reason] = []
    for pid, request in requests_of(group):
        if pid == processor_id or pid not in group.processors:
            continue  # one that is being added is no member yet, and gives in to any
        if request.allocated_host is not None:
            found.append(Reason("same-host", pid, request.allocated_host, "has reserved"))
        elif request.host is not None:
            found.append(Reason("same-host", pid, request.host, "has requested"))
    giving_way = _gives_way_to(group, processor_id)
    for pid, processor in group.processors.items():
        if pid not in (processor_id, giving_way) and processor.incarnation is not None:
            host = processor.incarnation.host
            found.append(Reason("same-host", pid, host, f"is {processor.phase.value} on"))
    for orphan in group.orphans:
        host = orphan.incarnation.host
        if is_left_behind(state.hosts, orphan):
            continue
        found.append(Reason("not-known-dead", orphan.processor_id, host, "wasn't seen dead"))
    return found


def reasons(state: JobState, group: Group, processor_id: str, host: str) -> list[Reason]:
    """Everything that keeps the processor from the host now; empty when it may be there."""
    found: list[Reason] = []
    known = state.hosts.get(host)
    gone = {g.incarnation.host for g in group.orphans if g.ended or g.processor_id == processor_id}
    gone -= {
        g.incarnation.host for g in group.orphans if not g.ended and g.processor_id != processor_id
    }
    for reason in holders(state, group, processor_id):
        other = state.hosts.get(reason.host)
        if reason.host == host:
            found.append(reason)
        elif (
            known is not None
            and other is not None
            and known.fault_domain != ""
            and known.fault_domain == other.fault_domain
            and not (reason.rule == "not-known-dead" and reason.host in gone)
            and host != takes_place_on(group, processor_id)  # its standby was there before
        ):
            found.append(Reason("same-fault-domain", reason.who, reason.host, reason.does))
    if known is not None and not known.alive:
        found.append(Reason("host-alive", "", host, "is lost"))
    return found


def is_down(group: Group, processor_id: str) -> bool:
    """It is of the group and has no process; one that is being added is no member yet."""
    processor = group.processors.get(processor_id)
    return processor is not None and processor.incarnation is None


def awaits_its_place(group: Group, processor_id: str) -> bool:
    """It is down, and its action already reserves where it goes, or has that cleared."""
    action = group.action
    return (
        action is not None
        and action.stage.value in ("stopping-standby", "reserving")
        and subject_of(action) == processor_id
    )


def starts_by_action(group: Group | None, processor_id: str) -> bool:
    """An action waits for its start, and no failover leads it."""
    action = None if group is None else group.action
    return (
        group is not None
        and action is not None
        and action.stage.value == "starting"
        and subject_of(action) == processor_id
        and (group.failover is None or group.failover.active_id != processor_id)
    )


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


def knows(event: ev.HostRegistered, incarnation: Incarnation) -> bool:
    """Whether the agent that registers can tell what became of an incarnation."""
    listed = incarnation.execution_id in event.execution_ids
    return listed or _is_of(event.journal, incarnation)


def is_left_behind(hosts: Mapping[str, Host], orphan: Orphan) -> bool:
    """Whether its group may start on the machine that has its host's name now.

    What a host said last counts until it has registered with this leader.
    """
    known = hosts.get(orphan.incarnation.host)
    if known is None or known.boot_id == "":
        return orphan.ended is not None and orphan.elsewhere
    return orphan.ended is not None and _is_elsewhere(known, orphan.incarnation)


def _is_of(journal: str, incarnation: Incarnation) -> bool:
    """Whether it was started on this journal, or before any was known: then silence says something."""
    return incarnation.journal in ("", journal)


def _is_elsewhere(host: Host, left: Incarnation) -> bool:
    """Whether its machine has lost its host's name: neither boot nor journal is those."""
    if "" in (left.boot_id, host.boot_id) or left.boot_id == host.boot_id:
        return False
    return not _is_of(host.journal, left)
