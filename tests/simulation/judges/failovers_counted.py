"""Failovers to any host: each failure of an active counts once, whatever comes of it."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, Phase, Processor, Role
from tests.simulation.judges.legality import (
    is_forced_restart,
    reserved_by,
    starts_by_action,
)
from tests.simulation.judges.taken import Both, Taken
from tests.simulation.judges.violation import TALLIES

_SAID_AGAIN = (ev.HostRegistered, ev.CoordinatorRestarted)
"""A request that is said again isn't counted again, nor is one that had no standby when it was made."""


def judge_failovers_counted(taken: Taken, own: set[str]) -> None:
    """As often as an active that has failed since it ran goes anywhere, once for each failure.

    `own` are the resource requests that placement actions make.
    """
    if isinstance(taken.event, _SAID_AGAIN):
        return
    least = most = 0
    for both in taken.both:
        was, now = both.was, both.now
        if was is None or now is None or not _goes_anywhere(taken, both, own):
            continue
        if (was.unplaced and not taken.redeployed) or now.failures > was.failures:
            least += not _loses_its_last_standby(both)
            most += 1
    if not least <= taken.counted("failovers-to-any-host") <= most:
        raise taken.broken(TALLIES, f"failovers-to-any-host, there are {most}")


def judge_failure_open(
    taken: Taken, both: Both, was: Processor, now: Processor, failures: int, *, over: bool
) -> None:
    """Whether an active's failure is still to be counted as a failover to any host."""
    failed = now.role is Role.ACTIVE and (was.unplaced or failures > 0)
    counted = failed and _goes_anywhere(taken, both, of_actions(taken))
    unsure = counted and (_loses_its_last_standby(both) or isinstance(taken.event, _SAID_AGAIN))
    if not over and not unsure and now.unplaced != (failed and not counted):
        raise taken.broken(TALLIES, f"{now} has failed, uncounted: {failed and not counted}")
    if over and now.unplaced:
        raise taken.broken(TALLIES, f"{now} has run since")
    begun = {command.processor_id for command in taken.every(cmd.DeleteLocality)}
    failover = None if both.group is None else both.group.failover
    must = () if failover is None else failover.tried[-1:]
    if failover is None or failover.active_id != now.processor_id or over:
        must = ()
    known = set[str]() if over else {*was.sought}
    if not {*must} <= {*now.sought} <= known | begun:
        raise taken.broken(TALLIES, f"{now} sought {now.sought}, begun are {sorted(begun)}")


def _has_standbys(group: Group | None) -> bool:
    members = () if group is None else group.processors.values()
    return any(member.role is Role.STANDBY for member in members)


def _loses_its_last_standby(both: Both) -> bool:
    """In this step: before or after it asked, nothing tells."""
    return _has_standbys(both.old) and not _has_standbys(both.group)


def _goes_anywhere(taken: Taken, both: Both, own: set[str]) -> bool:
    """An active asks for any host, for want of its own and of a standby's."""
    was, now = both.was, both.now
    if now is None or now.role is not Role.ACTIVE or now.last_seen_host is None:
        return False
    if not any(_has_standbys(group) for group in (both.old, both.group)):
        return False
    held = was is not None and was.phase is Phase.RESERVED
    if isinstance(taken.event, ev.ResourceAllocated):
        held = held or (was is not None and was.phase is Phase.REQUESTING)
    if held and both.old is not None and not starts_by_action(both.old, both.processor_id):
        # Of several that held a place on one host the counter may be another's: not an action's.
        failing_over = both.old.failover is not None
        if not failing_over and taken.counted("failed-standby-allocations"):
            return False
    return any(
        request.processor_id == both.processor_id
        and request.host is None
        and request.request_id not in own
        for request in taken.every(cmd.RequestResource)
    )


def of_actions(taken: Taken) -> set[str]:
    """Resource requests that placement actions make: counted by nobody."""
    own: set[str] = set()
    for request in taken.every(cmd.RequestResource):
        for _, new in taken.changed:
            reserved = reserved_by(None if new is None else new.action)
            if reserved is not None and reserved.request_id == request.request_id:
                own.add(request.request_id)
        for old, new in taken.changed:
            forced = is_forced_restart(old, new)
            if forced is not None and forced.ask.processor_id == request.processor_id:
                own.add(request.request_id)
    return own
