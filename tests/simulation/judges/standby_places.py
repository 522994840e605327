"""The places of standbys: which an active may take, the best first, and none while one is left."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, JobState, Phase, Processor, Role, Stage
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    displaced_by,
    reasons,
    subject_of,
)
from tests.simulation.judges.taken import Both, Taken
from tests.simulation.judges.violation import RIGHT_PLACE

_REVOCABLE = (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)


def may_give_way(state: JobState, group: Group, active: Processor, standby: Processor) -> bool:
    """Whether the active may take the place of this standby, which runs where its state is, now."""
    incarnation, pid = standby.incarnation, standby.processor_id
    if standby.role is not Role.STANDBY or standby.phase is not Phase.RUNNING:
        return False
    if incarnation is None or incarnation.host in active.avoid_hosts:
        return False
    action = group.action
    if action is not None and action.stage not in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY):
        if displaced_by(action) == pid and action.stage in (*_REVOCABLE, Stage.STOPPING_STANDBY):
            return False
        if subject_of(action) == pid and action.ask.kind is not RequestKind.PLACE:
            return False
    # Who is in the fault domain of a standby that is there was so before.
    others = {other: p for other, p in group.processors.items() if p is not standby}
    found = reasons(state, replace(group, processors=others), active.processor_id, incarnation.host)
    return all(reason.rule == "same-fault-domain" for reason in found)


def rank(state: JobState, group: Group, standby: Processor) -> tuple[bool, int, int, int, int, str]:
    """Who else is near, forecast, records behind, id; the unknown or old comes last."""
    pid = standby.processor_id
    host = standby.last_seen_host if standby.incarnation is None else standby.incarnation.host
    alone = replace(group, failover=None, action=None)
    near = any(
        reason.rule == "same-fault-domain" and reason.who != pid
        for reason in reasons(state, alone, group.group_id, host or "")
    )
    lag = state.lags.get(pid)
    if lag is None or abs(state.now_ms - lag.at_ms) > lag.good_for_ms:
        return (near, 1, 0, 1, 0, pid)
    ready, records = lag.ready_in_ms, lag.records
    return (near, int(ready is None), ready or 0, int(records is None), records or 0, pid)


def judge_places(chronicle: Chronicle, taken: Taken) -> None:
    """No active starts cold beside a standby that is ready, and a failover takes the best one."""
    if not taken.restarted:
        for both in taken.both:
            _judge_cold(chronicle, taken, both)
        _judge_best(taken)


def _judge_cold(chronicle: Chronicle, taken: Taken, both: Both) -> None:
    """No active starts, or waits to start, without its state while a ready standby has it.

    Each one's place is sought once for a failure.
    """
    now, group = both.now, both.group
    if now is None or group is None or now.role is not Role.ACTIVE or now.last_seen_host is None:
        return
    starts = both.begun is not None and now.phase is Phase.STARTING
    request = both.begun.request_id if starts and both.begun is not None else None
    if now.phase in (Phase.REQUESTING, Phase.RESERVED) and now.request is not None:
        request = now.request.request_id
    asked = chronicle.requested.get(request or "")
    if asked is None or asked.host is not None or group.failover is not None:
        return
    for action in (group.action, both.old.action if both.old is not None else None):
        if action is not None and action.stage not in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY):
            return
    chronicle.premises[RIGHT_PLACE] += 1
    ready = [
        standby.processor_id
        for standby in group.processors.values()
        if may_give_way(taken.after, group, now, standby) and standby.processor_id not in now.sought
    ]
    if ready:
        raise taken.broken(RIGHT_PLACE, f"{now} starts without its state, and {ready} has it")


def _judge_best(taken: Taken) -> None:
    """A failover takes the place of the standby that would be ready soonest."""
    for old, new, failover in taken.failovers_begun:
        standby = new.processors.get(failover.standby_id)
        was = None if old is None else old.processors.get(failover.standby_id)
        if standby is None or standby.phase is not Phase.STOPPING:
            continue
        if was is None or was.phase is not Phase.RUNNING or isinstance(taken.event, ev.LagObserved):
            continue
        active, before = new.processors[failover.active_id], replace(new, failover=None)
        better = [
            other.processor_id
            for other in new.processors.values()
            if other.processor_id not in (*failover.tried, failover.standby_id)
            and may_give_way(taken.after, new, active, other)
            and rank(taken.after, before, other) < rank(taken.after, before, standby)
        ]
        if better:
            raise taken.broken(RIGHT_PLACE, f"{failover}, {better} would be ready sooner")
