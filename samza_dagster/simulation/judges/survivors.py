"""What lives on after a stop is what it was before: one that hasn't checked in doesn't run."""

from __future__ import annotations

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import AskKind, Phase
from samza_dagster.simulation.judges.taken import Both, Taken
from samza_dagster.simulation.judges.violation import ON_TIME


def is_asked_to_stop(both: Both) -> bool:
    """A request to stop this standby, which may be starting, has come to its turn."""
    action = None if both.group is None else both.group.action
    if action is None or action.ask.kind is not AskKind.STOP_STANDBY:
        return False
    return action.ask.processor_id == both.processor_id


def judge_survivor(taken: Taken, both: Both) -> None:
    """A start that is being stopped keeps its time, until it has checked in after all."""
    was, now, event = both.was, both.now, taken.event
    if was is None or now is None or now.incarnation is None:
        return
    name = now.incarnation.execution_id
    checks_in = isinstance(event, ev.ContainerCheckedIn) and event.execution_id == name
    if now.phase is Phase.STOPPING:
        starting = both.begun is not None or was.phase is Phase.STARTING
        kept = was.deadline_ms if was.phase is Phase.STARTING else was.start_deadline_ms
        ghosts = () if both.old is None else both.old.ghosts
        if any(ghost.incarnation.execution_id == name for ghost in ghosts):
            kept = None  # it ran, and was taken back
        elif both.begun is not None or (taken.restarted and kept is not None):
            kept = taken.now_ms + taken.after.limits.start_timeout_ms
        elif checks_in or (was.phase is not Phase.STOPPING and not starting):
            kept = None
        if now.start_deadline_ms != kept:
            raise taken.broken(ON_TIME, f"{now} was to have checked in by {kept}")
        _judge_joined(taken, both)
    elif was.phase is Phase.STOPPING and was.incarnation == now.incarnation:
        action = None if both.old is None else both.old.action
        joined = action is not None and action.stopping_already
        if not isinstance(event, ev.StopFailed) or event.execution_id != name or joined:
            raise taken.broken(ON_TIME, f"{now} isn't being stopped any more, and was to end")


def _judge_joined(taken: Taken, both: Both) -> None:
    """A request to stop what is being stopped already knows that it is."""
    was, event = both.was, taken.event
    action = None if both.group is None else both.group.action
    before = None if both.old is None else both.old.action
    if was is None or action is None or not is_asked_to_stop(both):
        return
    if before is not None and before.ask.uuid == action.ask.uuid:
        fine = before.stopping_already == action.stopping_already
    else:
        due = was.deadline_ms is not None and was.deadline_ms <= taken.now_ms
        overdue = isinstance(event, ev.TimePassed) and was.phase is Phase.STARTING and due
        name = None if was.incarnation is None else was.incarnation.execution_id
        stalls = isinstance(event, ev.StandbyStalled) and event.execution_id == name
        survived = isinstance(event, ev.StopFailed) and event.execution_id == name
        failover = None if both.old is None else both.old.failover
        gave_way = failover is not None and failover.standby_id == was.processor_id
        told = gave_way if before is None else not before.stopping_already
        survived = survived and told
        stopping = was.phase is Phase.STOPPING and not survived
        fine = action.stopping_already == (stopping or overdue or stalls)
    if not fine:
        raise taken.broken(ON_TIME, f"{action.ask.uuid} joins a stop or not: {was}")
