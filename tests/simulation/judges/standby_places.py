"""The places of standbys: which an active may take, the best first, and none while one is left."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Failover, Group, JobState, Phase, Processor, Role, Stage
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    Reason,
    displaced_by,
    reasons,
    subject_of,
)
from tests.simulation.judges.taken import Both, Taken
from tests.simulation.judges.violation import RIGHT_PLACE

_WITHOUT_PROCESS = (Phase.WAITING, Phase.REQUESTING, Phase.RESERVED)
_REVOCABLE = (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)


def may_give_way(state: JobState, group: Group, active: Processor, standby: Processor) -> bool:
    """Whether a request may ask for this standby's place now: one that runs."""
    return standby.phase is Phase.RUNNING and may_be_taken(state, group, active, standby)


def may_be_taken(state: JobState, group: Group, active: Processor, standby: Processor) -> bool:
    """Whether the active could take this standby's place, where its state is, now."""
    incarnation, pid = standby.incarnation, standby.processor_id
    host = standby.last_seen_host if incarnation is None else incarnation.host
    if standby.role is not Role.STANDBY or host is None or host in active.avoid_hosts:
        return False
    if incarnation is None and not state.limits.host_affinity:
        return False
    if standby.phase is not Phase.RUNNING and (
        host != standby.last_seen_host
        or host in standby.avoid_hosts
        or not standby.wanted
        or not active.failed_at_ms  # a deployment's own starts are no failover
    ):
        return False
    action = group.action
    if action is not None and action.stage not in (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY):
        if displaced_by(action) == pid and action.stage in (*_REVOCABLE, Stage.STOPPING_STANDBY):
            return False
        if subject_of(action) == pid and action.ask.kind is not RequestKind.PLACE:
            return False
    return not _in_the_way(state, group, active, standby, host)


def _in_the_way(
    state: JobState, group: Group, active: Processor, standby: Processor, host: str
) -> list[Reason]:
    """What keeps an active from a standby's host once that gives way; its orphans don't.

    Who is in the fault domain of a standby that is there was so before.
    """
    others = {pid: p for pid, p in group.processors.items() if p is not standby}
    found = reasons(state, replace(group, processors=others), active.processor_id, host)
    there = standby.incarnation is not None
    return [reason for reason in found if reason.rule != "same-fault-domain" or not there]


def was_so(old: Group | None, standby: Processor) -> bool:
    """One that runs does; another's place was there before the step, which may have ended more."""
    if standby.phase is Phase.RUNNING:
        return True
    was = None if old is None else old.processors.get(standby.processor_id)
    if was is None:
        return False
    return (was.phase, was.incarnation, was.last_seen_host) == (
        standby.phase,
        standby.incarnation,
        standby.last_seen_host,
    )


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


def judge_cold(chronicle: Chronicle, taken: Taken, both: Both) -> None:
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


def judge_failovers(taken: Taken) -> None:
    """The best of the standbys that run is taken, and says so in one commit."""
    _judge_outlived(taken)
    for old, new, failover in taken.failovers_begun:
        if cmd.DeleteLocality(failover.standby_id) not in taken.commands or (
            cmd.WriteLocality(failover.active_id, failover.host) not in taken.commands
        ):
            raise taken.broken(RIGHT_PLACE, f"{failover} leaves localities as they were")
        standby = new.processors.get(failover.standby_id)
        was = None if old is None else old.processors.get(failover.standby_id)
        if standby is None:
            continue
        if standby.last_seen_host is not None:
            raise taken.broken(RIGHT_PLACE, f"{failover}, and {standby} has its place still")
        ran = was is not None and was.phase is Phase.RUNNING
        _judge_cause(taken, old, failover)
        _judge_why(taken, was, standby, failover)
        if (
            not ran
            or standby.phase is not Phase.STOPPING
            or isinstance(taken.event, ev.LagObserved)
        ):
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


def _judge_cause(taken: Taken, old: Group | None, failover: Failover) -> None:
    """Of an active that ran it is on record how it came to be down."""
    active = None if old is None else old.processors.get(failover.active_id)
    if old is None or old.action is not None or active is None or active.incarnation is None:
        return
    if active.phase is not Phase.RUNNING:
        return
    cause = "its process ended by itself"
    if active.incarnation.host in taken.lost_now:
        cause = "its host fell silent"
    if cause not in failover.why:
        raise taken.broken(RIGHT_PLACE, f"{failover}: {cause}")


def _judge_why(taken: Taken, was: Processor | None, standby: Processor, failover: Failover) -> None:
    """Of a place whose standby doesn't run it is on record what that was, and how far behind."""
    if was is None or was.incarnation != standby.incarnation:
        return
    if was.phase is Phase.RUNNING:
        if standby.phase is Phase.STOPPING and "; it was" in failover.why:
            raise taken.broken(RIGHT_PLACE, f"{failover}: {standby} ran")
        return
    if isinstance(taken.event, ev.ContainerCheckedIn | ev.StopFailed):
        return  # it may have been this one's: then it ran
    lag = taken.before.lags.get(was.processor_id)
    behind = "unknown" if lag is None or lag.records is None else f"{lag.records} records behind"
    phases = _WITHOUT_PROCESS if was.incarnation is None else (was.phase, standby.phase)
    told = any(f"; it was {phase}, " in failover.why for phase in phases)
    if not told or behind not in failover.why:
        raise taken.broken(RIGHT_PLACE, f"{failover}: {was}, {behind}")


def _judge_outlived(taken: Taken) -> None:
    """No active that is down waits for the place of a standby that has outlived its stop."""
    event = taken.event
    if not isinstance(event, ev.StopFailed):
        return
    for both in taken.both:
        was, old, group = both.was, both.old, both.group
        failover = None if old is None else old.failover
        if was is None or old is None or failover is None or group is None:
            continue
        lives_on = was.incarnation if was.phase is Phase.STOPPING else None
        if lives_on is None or lives_on.execution_id != event.execution_id:
            continue
        active = old.processors[failover.active_id]
        waits = lives_on.host == failover.host and active.incarnation is None
        if waits and group.failover is failover:
            raise taken.broken(RIGHT_PLACE, f"{failover} waits for {both.now}, which lives on")
