"""A standby that stands still is restarted in time, where it may help, and not for ever."""

from __future__ import annotations

from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Group, JobState, Phase, Processor, Role
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import reasons
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import ON_TIME, RIGHT_PLACE

_MINUTE_MS = 60_000
APPLIED_FOR_LONG_MS = 30 * _MINUTE_MS
"""docs/architecture/placement.md: after that a stall is a first one."""
_PAUSES_MS = tuple(minutes * _MINUTE_MS for minutes in (0, 0, 5, 10, 20, 40, 60))


def pause_ms(in_a_row: int) -> int:
    """docs/architecture/placement.md: how long it runs on after its last of so many restarts."""
    return _PAUSES_MS[min(in_a_row, len(_PAUSES_MS) - 1)]


def judge_stalls(chronicle: Chronicle, taken: Taken) -> None:
    """It is stopped unless something is a reason to leave it alone, and then as it should be.

    The restarts of a processor are counted until it is removed or deployed anew.
    """
    for both in taken.both:
        if taken.redeployed or both.was is None or both.now is None:
            chronicle.stalls.pop(both.processor_id, None)
    if isinstance(taken.event, ev.StandbyStalled) and taken.before.deployment_id:
        _judge(chronicle, taken, taken.event)


def _judge(chronicle: Chronicle, taken: Taken, event: ev.StandbyStalled) -> None:
    for group in taken.before.groups.values():
        for was in group.processors.values():
            if was.incarnation is None or was.incarnation.execution_id != event.execution_id:
                continue
            now = taken.after.groups[group.group_id].processors[was.processor_id]
            stopped = was.phase is Phase.RUNNING and now.phase is Phase.STOPPING
            row = _in_a_row(chronicle, was.processor_id, taken.now_ms - event.for_ms)
            chronicle.premises[ON_TIME] += 1
            why = _left_alone(group, was) or _pauses(row, taken.now_ms)
            if stopped == bool(why):
                raise taken.broken(ON_TIME, f"{was} is stopped: {stopped}, {why or 'no pause'}")
            if stopped:
                chronicle.stalls[was.processor_id] = (*row, taken.now_ms)
                _judge_place(taken, group, was, now, again=bool(row))


def _in_a_row(chronicle: Chronicle, processor_id: str, since_ms: int) -> tuple[int, ...]:
    """Its restarts in a row before it began to stand still."""
    row = chronicle.stalls.get(processor_id, ())
    return () if row and since_ms - row[-1] >= APPLIED_FOR_LONG_MS else row


def _left_alone(group: Group, processor: Processor) -> str:
    """What is lost by a stop now; "" for nothing."""
    if processor.role is not Role.STANDBY or not processor.wanted:
        return "it is no standby that is wanted"
    if processor.phase is not Phase.RUNNING:
        return "it doesn't run"
    if group.action is not None or group.failover is not None:
        return "its group is busy"
    runs = group.processors[group.group_id].phase is Phase.RUNNING
    return "" if runs else "its active is down"


def _pauses(row: tuple[int, ...], now_ms: int) -> str:
    """That its last restart was too short a time ago; a later one is of another leader's clock."""
    if not row or not 0 <= now_ms - row[-1] < pause_ms(len(row)):
        return ""
    return f"its restarts were at {row}"


def _judge_place(
    taken: Taken, group: Group, was: Processor, now: Processor, *, again: bool
) -> None:
    """The first time it starts where it was; again in a row elsewhere, if it may be anywhere."""
    assert was.incarnation is not None
    host, avoids = was.incarnation.host, was.avoid_hosts
    if again and _has_another(taken.before, group, was.processor_id, host):
        avoids = (*(other for other in avoids if other != host), host)
    if now.avoid_hosts != avoids:
        raise taken.broken(RIGHT_PLACE, f"{now} stood still on {host}, and is to avoid {avoids}")


def _has_another(state: JobState, group: Group, processor_id: str, host: str) -> bool:
    return any(
        other != host and not reasons(state, group, processor_id, other) for other in state.hosts
    )
