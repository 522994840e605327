"""What the cluster says of a request: it is taken up, or given back for a reason that there is."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Action, Group, ResourceRequest, Stage
from tests.simulation.judges.legality import (
    chosen_by,
    destination_of,
    is_down,
    reasons,
    requests_of,
    reserved_by,
    starts_by_action,
    subject_of,
)
from tests.simulation.judges.taken import Taken, request_ids
from tests.simulation.judges.turns import without_a_turn
from tests.simulation.judges.violation import JOURNAL_BALANCES


def judge_expected(taken: Taken) -> None:
    """What the cluster says of a request is taken up."""
    event = taken.event
    if isinstance(event, ev.RequestExpired):
        _judge_expiry(taken, event)
    if isinstance(event, ev.ResourceAllocated):
        _judge_given(taken, event)


def _judge_expiry(taken: Taken, event: ev.RequestExpired) -> None:
    """What is open is given up; what is held stays so, unless it had to be found again."""
    for group in taken.before.groups.values():
        for pid, request in requests_of(group):
            if request.request_id != event.request_id:
                continue
            _judge_expiry_counted(taken, group, pid, request)
            action = group.action
            held = destination_of(action) is request
            if held and action is not None and _taken_from(taken, action):
                continue
            again = held and action is not None and action.stage is Stage.HELD
            lost = request.allocated_host is None or (again and not request.confirmed)
            now = taken.after.groups.get(group.group_id)
            if (event.request_id in request_ids(now)) == lost:
                raise taken.broken(JOURNAL_BALANCES, f"{request} has expired, given up: {not lost}")


def _judge_expiry_counted(
    taken: Taken, group: Group, processor_id: str, request: ResourceRequest
) -> None:
    """By whether a host was named; an action's own isn't counted."""
    it = group.processors.get(processor_id)
    own = it is not None and it.request is request and request.allocated_host is None
    own = own and not starts_by_action(group, processor_id)
    for kind, named in (("any-host", False), ("preferred-host", True)):
        counts = own and (request.host is not None) == named
        if taken.counted(f"expired-{kind}-requests") != counts:
            raise taken.broken(JOURNAL_BALANCES, f"{request} has expired, counted: {not counts}")


def _taken_from(taken: Taken, action: Action) -> bool:
    """In the same step its active turned to the standby that it moves: it is over for that."""
    return any(f.standby_id == subject_of(action) for _, _, f in taken.failovers_begun)


def _judge_given(taken: Taken, event: ev.ResourceAllocated) -> None:
    """It is for whoever asked for it; what is for nobody, or held on a second host, is given back."""
    given_back = cmd.ReleaseResource(event.request_id) in taken.commands
    for group in taken.before.groups.values():
        for pid, request in requests_of(group):
            if request.request_id == event.request_id:
                _judge_allocated(taken, event, group, pid, request)
                return
        for processor in group.processors.values():
            used = processor.incarnation
            if used is not None and used.request_id == event.request_id:
                if given_back != (used.host != event.host):
                    raise taken.broken(JOURNAL_BALANCES, f"{used} runs on what was allocated")
                return
    if not given_back:
        raise taken.broken(JOURNAL_BALANCES, f"{event.request_id} is for nobody, and is kept")


def _judge_allocated(
    taken: Taken, event: ev.ResourceAllocated, old: Group, processor_id: str, was: ResourceRequest
) -> None:
    """What is held is counted upon, there and from now on; else it was given back."""
    group = taken.after.groups.get(old.group_id)
    host = event.host if was.allocated_host is None else was.allocated_host
    action = None if group is None else group.action
    for _, request in requests_of(group) if group is not None else ():
        ours = destination_of(action) is request
        if request.request_id == event.request_id and (
            request.allocated_host != host or (ours and not request.confirmed)
        ):
            raise taken.broken(JOURNAL_BALANCES, f"{request} is held on {host}")
    led = any(new.group_id == old.group_id for _, new, _ in taken.failovers_begun)
    if was.allocated_host is not None or led:
        return  # known before, or not needed since: a standby is ready
    given_back = cmd.ReleaseResource(event.request_id) in taken.commands
    for_action = was == reserved_by(old.action)
    found = reasons(taken.before, old, processor_id, host)
    if not for_action and any(reason.does == "has reserved" for reason in found):
        return  # of two that have reserved one host either gives in
    broken = {reason.rule for reason in found}
    # A container that is down takes what it is given.
    waits = for_action and was.host is None and not is_down(old, processor_id)
    if waits and host in without_a_turn(taken.before, old):
        broken.add("actions-per-host")
    if given_back != bool(broken):
        raise taken.broken(JOURNAL_BALANCES, f"{was} on {host} is given back for {broken}")
    if for_action and old.action is not None:
        if given_back:
            _judge_asked_again(taken, old.action, group, was)
        elif action is not None:
            chosen = host if was.host is None else chosen_by(old.action)
            if action.ask.uuid == old.action.ask.uuid and chosen_by(action) != chosen:
                raise taken.broken(JOURNAL_BALANCES, f"{action} has chosen {chosen}")
    elif given_back and old.failover is None and not starts_by_action(old, processor_id):
        _judge_refused(taken, group, processor_id, was)


def _judge_asked_again(
    taken: Taken, before: Action, group: Group | None, was: ResourceRequest
) -> None:
    """A choice that is illegal by now is made anew while there is time; else the action has failed."""
    action = None if group is None else group.action
    anew = was.host is None and was.deadline_ms > taken.now_ms
    goes_on = action is not None and (action.ask.uuid, action.stage) == (
        before.ask.uuid,
        before.stage,
    )
    failed = any(
        said.uuid == before.ask.uuid and said.status == "FAILED"
        for said in taken.every(cmd.WriteResponse)
    )
    if (goes_on, failed) != (anew, not anew):
        raise taken.broken(JOURNAL_BALANCES, f"{was} is asked for anew: {anew}, now {action}")


def _judge_refused(
    taken: Taken, group: Group | None, processor_id: str, was: ResourceRequest
) -> None:
    """Nobody but the deployment asked for it: that is counted, and it may go anywhere else at once."""
    if not taken.counted("failed-standby-allocations"):
        raise taken.broken(JOURNAL_BALANCES, f"{was} wasn't legal, uncounted")
    it = None if group is None else group.processors.get(processor_id)
    if it is not None and (it.request is None or it.request.host is not None):
        raise taken.broken(JOURNAL_BALANCES, f"{was} wasn't legal, and {it} doesn't go anywhere")
