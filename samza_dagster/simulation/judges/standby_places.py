"""The places of standbys: which an active may take, the best first, and none while one is left."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    AskKind,
    Failover,
    Group,
    JobState,
    Phase,
    Processor,
    Role,
    Stage,
)
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import (
    Reason,
    displaced_by,
    reasons,
    subject_of,
)
from samza_dagster.simulation.judges.taken import Both, Taken
from samza_dagster.simulation.judges.violation import RIGHT_PLACE

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
        if subject_of(action) == pid and action.ask.kind is not AskKind.PLACE:
            return False
    return not _in_the_way(state, group, active, standby, host)


def _in_the_way(
    state: JobState, group: Group, active: Processor, standby: Processor, host: str
) -> list[Reason]:
    """What keeps an active from a standby's host once that gives way; its ghosts don't.

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


def kind_of(standby: Processor) -> int:
    """One that runs comes before one that starts, that before one that stops, or is down."""
    kinds = {Phase.RUNNING: 0, Phase.STARTING: 1, Phase.STOPPING: 2}
    return kinds.get(standby.phase, 3)


def rank(
    state: JobState, group: Group, standby: Processor, kind: int
) -> tuple[int, bool, int, int, int, int, str]:
    """Kind, then who else is near, forecast, records behind, id; the unknown or old comes last."""
    pid = standby.processor_id
    host = standby.last_seen_host if standby.incarnation is None else standby.incarnation.host
    alone = replace(group, failover=None, action=None)
    near = any(
        reason.rule == "same-fault-domain" and reason.who != pid
        for reason in reasons(state, alone, group.group_id, host or "")
    )
    lag = state.lags.get(pid)
    if lag is None or abs(state.now_ms - lag.at_ms) > lag.good_for_ms:
        return (kind, near, 1, 0, 1, 0, pid)
    ready, records = lag.ready_in_ms, lag.records
    return (kind, near, int(ready is None), ready or 0, int(records is None), records or 0, pid)


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
    """The best of the standbys is taken, each once, and says so in one commit."""
    for old, new, failover in taken.failovers_begun:
        if failover.since_ms != taken.now_ms:
            raise taken.broken(RIGHT_PLACE, f"{failover} begins now")
        active = new.processors[failover.active_id]
        was = None if old is None else old.processors.get(failover.standby_id)
        if was is not None and old is not None and failover.host not in _states_of(old, was):
            raise taken.broken(RIGHT_PLACE, f"{failover}, and {was}")
        if cmd.DeleteLocality(failover.standby_id) not in taken.commands or (
            cmd.WriteLocality(failover.active_id, failover.host) not in taken.commands
        ):
            raise taken.broken(RIGHT_PLACE, f"{failover} leaves localities as they were")
        standby = new.processors.get(failover.standby_id)
        if standby is not None and standby.last_seen_host is not None:
            raise taken.broken(RIGHT_PLACE, f"{failover}, and {standby} has its place still")
        if active.request is None or active.request.host != failover.host:
            raise taken.broken(RIGHT_PLACE, f"{failover}, and {active} asks elsewhere")
        before = replace(new, failover=None)
        kind = _kind_taken(taken, failover, was)
        chosen = None if standby is None else rank(taken.after, before, standby, kind)
        better = [
            pid
            for pid, other in new.processors.items()
            if pid not in (*failover.tried, failover.standby_id)
            and may_be_taken(taken.after, new, active, other)
            and was_so(old, other)
            # Where both ran last there is one place, and who asked for it had it.
            and (other.incarnation is not None or other.last_seen_host != failover.host)
            and chosen is not None
            and rank(taken.after, before, other, kind_of(other)) < chosen
        ]
        if better and not isinstance(taken.event, ev.LagObserved):
            raise taken.broken(RIGHT_PLACE, f"{failover}, {better} would be ready sooner")
        home = active.last_seen_host
        goes_on = old is not None and old.failover is not None
        if not goes_on and taken.after.limits.host_affinity and home is not None:
            _judge_home_first(taken, old, new, active)


def _states_of(old: Group, standby: Processor) -> set[str | None]:
    """The hosts that may have a standby's state: where it ran last, or checks in in this step."""
    ghosts = {g.incarnation.host for g in old.ghosts if g.processor_id == standby.processor_id}
    here = set[str]() if standby.incarnation is None else {standby.incarnation.host}
    return {standby.last_seen_host, *here, *ghosts}


def _kind_taken(taken: Taken, failover: Failover, was: Processor | None) -> int:
    """What the standby was as its place was taken: as told, and as it was or came to be."""
    told = failover.why.rpartition("; it was ")[2] if "; it was " in failover.why else "running,"
    kinds = {"running": 0, "starting": 1, "stopping": 2}
    kind = kinds.get(told.partition(",")[0], 3)
    event = taken.event
    came_up = ev.ContainerCheckedIn | ev.ContainerLaunched | ev.HostRegistered | ev.StopFailed
    ended = ev.ContainerStopped | ev.StartFailed | ev.HostRegistered | ev.HostLost
    possible = {0 if was is None else kind_of(was)}
    possible |= {0, 1} if isinstance(event, came_up) else set()
    stopped = {command.processor_id for command in taken.every(cmd.StopContainer)}
    possible |= {2} if failover.standby_id in stopped else set()
    possible |= {3} if isinstance(event, ended) or taken.lost_now else set()
    if kind not in possible:
        raise taken.broken(RIGHT_PLACE, f"{failover} of one that was {was}")
    return kind


def _judge_home_first(taken: Taken, old: Group | None, new: Group, active: Processor) -> None:
    """It fails over at once only where its own host isn't to be had."""
    was = None if old is None else old.processors.get(active.processor_id)
    if was is None or was.phase is not Phase.RUNNING or new.action is not None or old is None:
        return
    if old.action is not None or active.avoid_hosts[-1:] == (active.last_seen_host,):
        return
    host = active.last_seen_host or ""
    # Its standby, which may be in the fault domain of its own host, had its place until now.
    before = replace(new, failover=None)
    if host and not reasons(taken.after, before, active.processor_id, host):
        raise taken.broken(RIGHT_PLACE, f"{active.processor_id} could go home to {host}")
