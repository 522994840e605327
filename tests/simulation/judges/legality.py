"""The rules of places, read a second time: what keeps a processor from a host, in plain loops.

Nothing of `placement/rules.py` or `placement/ownership.py` is used here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement.state import Action, Group, JobState, ResourceRequest
from tests.simulation.judges.origins import is_left_behind


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
    return action.standby_id if _adds(action) else action.ask.processor_id


def displaced_by(action: Action) -> str:
    """The standby that has to give way; "" when none has."""
    return "" if _adds(action) else action.standby_id


def _adds(action: Action) -> bool:
    return action.ask.kind is RequestKind.START_STANDBY


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
    if action is not None and action.ask.processor_id == processor_id and displaced_by(action):
        return action.target_host
    return None


def requests_of(group: Group) -> Iterator[tuple[str, ResourceRequest]]:
    """(processor, resource request) of all that the group asks for or has reserved."""
    for pid, processor in group.processors.items():
        if processor.request is not None:
            yield pid, processor.request
    action = group.action
    if action is None:
        return
    if action.reservation is not None:
        yield subject_of(action), action.reservation
    if action.standby_reservation is not None:
        yield action.standby_id, action.standby_reservation


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


def is_forced_restart(old: Group | None, new: Group | None) -> Action | None:
    """The action that has just seen its container dead with nothing reserved: its host again."""
    was, now = (old.action if old else None), (new.action if new else None)
    if was is None or now is None or was.ask.uuid != now.ask.uuid:
        return None
    begins = was.stage.value == "stopping" and now.stage.value == "starting"
    return now if begins and was.reservation is None else None


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
