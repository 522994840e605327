"""A container that is down waits for an action's destination no longer than for any other host."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, ResourceRequest, Stage
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import (
    awaits_its_place,
    displaced_by,
    is_down,
    starts_by_action,
    subject_of,
)
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import NOT_KEPT_DOWN

_MARGIN_MS = 1_000
_GIVING_WAY = (Stage.RESERVING_STANDBY, Stage.STOPPING_STANDBY)
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


def _judge_what_is_held(taken: Taken) -> None:
    """A place that is held for a commit is on a host that lives."""
    lost = {name for name in taken.lost_now if not taken.after.hosts[name].alive}
    for group in taken.after.groups.values():
        action = group.action
        if action is None or action.stage is not Stage.HELD or action.reservation is None:
            continue
        if action.reservation.allocated_host in lost:
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
        asked = action.reservation
    elif starts_by_action(group, pid):
        asked = group.processors[pid].request
    if asked is not None and asked.allocated_host is None:
        yield (group.group_id, pid, action.ask.uuid), asked
