"""What nobody may wait for any more, and what must be as it was: at a loss, a failed stop, a return."""

from __future__ import annotations

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Action, Group, Phase, Stage
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import NOT_KEPT_DOWN, RIGHT_PLACE


def judge_given_up(taken: Taken) -> None:
    """For the step of a host's loss, of a failed stop, or of a container that came back."""
    if taken.lost_now:
        _judge_what_is_held(taken)
    if isinstance(taken.event, ev.StopFailed):
        _judge_stop_failed(taken, taken.event.execution_id)
    for old, new in taken.changed:
        if old is not None and new is not None and old.failover is not None:
            _judge_called_off(taken, old, new)


def _judge_what_is_held(taken: Taken) -> None:
    """A place that is held for a commit is on a host that lives."""
    lost = {name for name in taken.lost_now if not taken.after.hosts[name].alive}
    for group in taken.after.groups.values():
        action = group.action
        if action is None or action.stage is not Stage.HELD or action.reservation is None:
            continue
        if action.reservation.allocated_host in lost:
            raise taken.broken(NOT_KEPT_DOWN, f"{action} is held on a host that is lost")


def _judge_stop_failed(taken: Taken, execution_id: str) -> None:
    """Whoever waited for that end does without it from now on, if nothing else changes."""
    for name, old in taken.before.groups.items():
        group = taken.after.groups.get(name)
        for pid, was in old.processors.items():
            now = None if group is None else group.processors.get(pid)
            if was.phase is not Phase.STOPPING or was.incarnation is None:
                continue
            if was.incarnation.execution_id != execution_id or now is None or group is None:
                continue
            if now.incarnation == was.incarnation:
                _judge_waits(taken, old, group, pid, was.incarnation.host)


def _judge_waits(taken: Taken, old: Group, group: Group, standby_id: str, host: str) -> None:
    waits, waited = _waits_for(group, standby_id), _waits_for(old, standby_id)
    if waits is not None and waited is not None and waits.ask == waited.ask:
        raise taken.broken(NOT_KEPT_DOWN, f"{waits} waits for {standby_id}, whose stop failed")
    failover = group.failover
    if failover is None or failover != old.failover:
        return
    if failover.standby_id == standby_id and failover.host == host:
        raise taken.broken(NOT_KEPT_DOWN, f"{failover} waits for {standby_id}, whose stop failed")


def _waits_for(group: Group, standby_id: str) -> Action | None:
    """The action that is to begin when the standby is gone."""
    action = group.action
    if action is None or action.stage is not Stage.STOPPING_STANDBY:
        return None
    return action if action.standby_id == standby_id else None


def _judge_called_off(taken: Taken, old: Group, new: Group) -> None:
    """Its active runs elsewhere, so the standby has the place that it was to give."""
    failover = old.failover
    if failover is None or new.failover is not None:
        return
    active = new.processors.get(failover.active_id)
    was = old.processors.get(failover.active_id)
    ghosts = {ghost.incarnation.execution_id for ghost in old.ghosts}
    if active is None or active.incarnation is None or was is None or was.incarnation is not None:
        return
    if active.incarnation.execution_id not in ghosts:
        return
    standby, before = (group.processors.get(failover.standby_id) for group in (new, old))
    if standby is None or before is None:
        return
    expected = before.last_seen_host if before.last_seen_host is not None else failover.host
    if standby.incarnation is None and standby.last_seen_host != expected:
        raise taken.broken(RIGHT_PLACE, f"{failover} is called off, and {standby} lost its place")
