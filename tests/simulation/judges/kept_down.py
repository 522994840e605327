"""A container that is down waits for an action's destination no longer than for any other host."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, Move, Phase, ResourceRequest, Stage, StopStandby
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    awaits_its_place,
    destination_of,
    displaced_by,
    is_down,
    starts_by_action,
    subject_of,
)
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import NOT_KEPT_DOWN

_MARGIN_MS = 1_000
_GIVING_WAY = (Stage.RESERVING_STANDBY, Stage.STOPPING_STANDBY)
_BEFORE_THE_STOP = (Stage.RESERVING, Stage.HELD)
_FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)


def judge_kept_down(chronicle: Chronicle, taken: Taken) -> None:
    """From when it is down and its destination asked for, the cluster has the job's own time-out.

    A client may give its request hours: those are for a container that runs meanwhile. A new
    leader counts anew.
    """
    since = chronicle.kept_down
    groups = [(old or new, new) for old, new in taken.changed]
    if taken.restarted:
        since.clear()
        groups = [(group, group) for group in taken.after.groups.values()]
    for named, group in groups:
        known = {key for key in since if named is not None and key[0] == named.group_id}
        for key, request in _waited_for(group):
            known.discard(key)
            _judge(chronicle, taken, key, request)
        for key in known:
            del since[key]
    for old, new in taken.changed:
        if old is not None and new is not None:
            _judge_what_goes_on(taken, old, new)
    if isinstance(taken.event, ev.StopFailed):
        _judge_what_lives_on(taken, taken.event)
    if taken.lost_now:
        _judge_what_is_held(taken)
        _judge_what_is_left(taken)
    if isinstance(taken.event, ev.TimePassed):
        for key, since_ms in since.items():
            if _latest_ms(taken, since_ms) <= taken.now_ms:
                raise taken.broken(NOT_KEPT_DOWN, f"{key} has waited since {since_ms}")


def _judge(
    chronicle: Chronicle, taken: Taken, key: tuple[str, str, str], request: ResourceRequest
) -> None:
    chronicle.premises[NOT_KEPT_DOWN] += 1
    since_ms = chronicle.kept_down.setdefault(key, taken.now_ms)
    if request.deadline_ms > _latest_ms(taken, since_ms):
        raise taken.broken(NOT_KEPT_DOWN, f"{key}, down since {since_ms}, waits for {request}")


def _judge_what_goes_on(taken: Taken, old: Group, new: Group) -> None:
    """Of a container that ended by itself the action goes on, unless it waits for a commit."""
    was, now = old.action, new.action
    if now is not None and now.ask.hold and now.stage in _BEFORE_THE_STOP:
        if is_down(new, subject_of(now)):
            raise taken.broken(NOT_KEPT_DOWN, f"{now} waits for a commit")
        return
    if was is None or was.ask.hold or not isinstance(taken.event, ev.ContainerStopped):
        return
    goes_on = now is not None and now.ask.uuid == was.ask.uuid and now.stage is was.stage
    by_itself = taken.event.execution_id == _running(old, subject_of(was))
    if by_itself and was.stage is Stage.RESERVING and not goes_on:
        raise taken.broken(NOT_KEPT_DOWN, f"{was} had asked for its place, and is {now}")


def _running(group: Group, processor_id: str) -> str | None:
    """Its execution id; None of one that doesn't run or is no member yet."""
    processor = group.processors.get(processor_id)
    if processor is None or processor.phase is not Phase.RUNNING:
        return None
    return None if processor.incarnation is None else processor.incarnation.execution_id


def _judge_what_lives_on(taken: Taken, event: ev.StopFailed) -> None:
    """Who outlives the stop that an action asked for is what it was, and the action has failed."""
    for old in taken.before.groups.values():
        action = old.action
        if action is None or action.stage not in (Stage.STOPPING, Stage.STOPPING_STANDBY):
            continue
        mover = subject_of(action) if action.stage is Stage.STOPPING else displaced_by(action)
        was = old.processors[mover]
        if was.incarnation is None or was.incarnation.execution_id != event.execution_id:
            continue
        new = taken.after.groups[old.group_id]
        failed = any(
            said.uuid == action.ask.uuid and said.status == "FAILED"
            for said in taken.every(cmd.WriteResponse)
        )
        again = cmd.StopContainer(event.execution_id, event.host) in taken.commands
        already = isinstance(action, StopStandby) and action.stopping_already
        still = new.processors[mover].phase is Phase.STOPPING and not already
        if not failed or (still and not again):
            raise taken.broken(NOT_KEPT_DOWN, f"{was} lives on, and {new.action} waits for it")


def _judge_what_is_held(taken: Taken) -> None:
    """A place that is held for a commit is on a host that lives."""
    lost = {name for name in taken.lost_now if not taken.after.hosts[name].alive}
    for group in taken.after.groups.values():
        action = group.action
        held = isinstance(action, Move) and action.stage is Stage.HELD
        if isinstance(action, Move) and held and action.request.allocated_host in lost:
            raise taken.broken(NOT_KEPT_DOWN, f"{action} is held on a host that is lost")


def _judge_what_is_left(taken: Taken) -> None:
    """Nobody waits for the place of a standby whose host was lost before it was seen dead."""
    orphaned = {now.processor_id for was, now in taken.orphans if was is None and now is not None}
    for old, new in taken.changed:
        was, now = (group.action if group is not None else None for group in (old, new))
        if was is None or now is None or was.ask.uuid != now.ask.uuid:
            continue
        waits = was.stage in _GIVING_WAY and now.stage not in _FALLBACK
        if waits and displaced_by(was) in orphaned:
            raise taken.broken(NOT_KEPT_DOWN, f"{now} waits for a place that is lost")


def _latest_ms(taken: Taken, since_ms: int) -> int:
    return since_ms + taken.after.limits.request_timeout_ms + _MARGIN_MS


def _waited_for(group: Group | None) -> Iterator[tuple[tuple[str, str, str], ResourceRequest]]:
    """(group, processor, request of a client) and what a container that is down waits for."""
    action = None if group is None else group.action
    if group is None or action is None:
        return
    pid = subject_of(action)
    if not is_down(group, pid):
        return
    asked = None
    if awaits_its_place(group, pid):
        asked = destination_of(action)
    elif starts_by_action(group, pid):
        asked = group.processors[pid].request
    if asked is not None and asked.allocated_host is None:
        yield (group.group_id, pid, action.ask.uuid), asked
