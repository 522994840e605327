"""A new coordinator says again what was said, and decides nothing: invariant 9."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.reducer import Step, step
from samza_dagster.placement.state import (
    Action,
    Fencing,
    Group,
    JobState,
    Move,
    Phase,
    ResourceRequest,
    SpinUp,
    Swap,
)
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.violation import RECOVERY_EQUIVALENT, InvariantViolated


def judge_restart(
    chronicle: Chronicle, before: JobState, event: ev.CoordinatorRestarted, taken: Step
) -> None:
    """Only deadlines and marks of registration change; a second restart changes no more.

    Turns to start that time has brought meanwhile are taken, as any event would do.
    """
    after = taken.state
    if any(_is_under_way(group) for group in before.groups.values()):
        chronicle.premises[RECOVERY_EQUIVALENT] += 1
    if set(before.groups) != set(after.groups):
        raise InvariantViolated(RECOVERY_EQUIVALENT, "a restart adds or removes groups")
    turned: set[str] = set()
    for group_id, group in before.groups.items():
        if _took_a_turn(group, after.groups[group_id]):
            turned.update(group.processors)
            continue
        kept, now = _without_fences(group, before.limits.fencing), after.groups[group_id]
        if _timeless(kept) != _timeless(now):
            raise InvariantViolated(
                RECOVERY_EQUIVALENT,
                f"a restart changes group {group_id}: {_difference(kept, now)}",
            )
    if before.next_epoch != after.next_epoch or (
        (before.uuids, before.refused) != (after.uuids, after.refused)
    ):
        raise InvariantViolated(RECOVERY_EQUIVALENT, "a restart hands out epochs or takes requests")
    for command in taken.commands:
        if getattr(command, "processor_id", None) not in turned:
            _judge_repeated(chronicle, before, command)
    second = step(after, event)
    if second.commands != taken.commands and not turned:
        raise InvariantViolated(RECOVERY_EQUIVALENT, "a second restart says something else")
    if {g: _unnumbered(group) for g, group in second.state.groups.items()} != {
        g: _unnumbered(group) for g, group in after.groups.items()
    } or dict(second.state.hosts) != dict(after.hosts):
        raise InvariantViolated(RECOVERY_EQUIVALENT, "a second restart changes the state again")


def _without_fences(group: Group, fencing: Fencing) -> Group:
    """Who takes over without a fence waits for none; what one was sent for stays out of it."""
    if fencing is Fencing.BROKER:
        return group
    orphans = tuple(
        replace(orphan, fencing=False, ran=False) if orphan.fencing and not orphan.ended else orphan
        for orphan in group.orphans
    )
    return replace(group, orphans=orphans)


def _took_a_turn(before: Group, after: Group) -> bool:
    """One that waited for time or its turn has asked for a resource; nothing else led there."""
    return before.action == after.action and any(
        processor.phase is Phase.WAITING
        and (now := after.processors.get(pid)) is not None
        and now.phase is Phase.REQUESTING
        for pid, processor in before.processors.items()
    )


def _judge_repeated(chronicle: Chronicle, before: JobState, command: cmd.Command) -> None:
    match command:
        case cmd.RequestResource(request_id=request_id):
            known = request_id in chronicle.requested
        case cmd.StartContainer(execution_id=execution_id):
            known = execution_id in chronicle.started
        case cmd.StopContainer(execution_id=execution_id):
            known = execution_id in chronicle.ever_commanded
        case cmd.FencePrincipal(execution_id=execution_id):
            known = any(
                orphan.incarnation.execution_id == execution_id and orphan.fencing
                for group in before.groups.values()
                for orphan in group.orphans
            )
        case cmd.RecordCertificate():
            known = False
        case _:
            known = True
    if not known:
        raise InvariantViolated(RECOVERY_EQUIVALENT, f"a restart says what nobody said: {command}")


def _is_under_way(group: Group) -> bool:
    return (
        group.action is not None
        or bool(group.queue)
        or bool(group.orphans)
        or any(
            p.request is not None or p.deadline_ms is not None for p in group.processors.values()
        )
    )


def _timeless(group: Group) -> Group:
    """The group without what the clock says."""
    return replace(
        _unnumbered(group),
        processors={
            pid: replace(
                processor,
                request=_undated(processor.request),
                deadline_ms=None if processor.deadline_ms is None else 0,
                start_deadline_ms=None if processor.start_deadline_ms is None else 0,
                waiting_since_ms=0,
                not_before_ms=0,
                failed_at_ms=(),
            )
            for pid, processor in group.processors.items()
        },
        action=_undated_action(group.action),
        failover=None if group.failover is None else replace(group.failover, since_ms=0),
        orphans=tuple(replace(g, lost_at_ms=0, lease_ends_ms=0) for g in group.orphans),
    )


def _unnumbered(group: Group) -> Group:
    return replace(group, sequence=0, processors=dict(group.processors))


def _undated_action(action: Action | None) -> Action | None:
    match action:
        case None:
            return None
        case Swap() | SpinUp():
            return replace(action, request=_undated(action.request), response_ms=0)
        case Move():
            undated = replace(action.request, deadline_ms=0, confirmed=True)
            return replace(action, request=undated, response_ms=0)
        case _:
            return replace(action, response_ms=0)


def _undated(request: ResourceRequest | None) -> ResourceRequest | None:
    return None if request is None else replace(request, deadline_ms=0, confirmed=True)


def _difference(before: Group, after: Group) -> str:
    one, other = _timeless(before), _timeless(after)
    for field in ("action", "queue", "failover", "orphans"):
        if getattr(one, field) != getattr(other, field):
            return f"{field} {getattr(one, field)} → {getattr(other, field)}"
    for pid, processor in one.processors.items():
        if other.processors.get(pid) != processor:
            return f"{processor} → {other.processors.get(pid)}"
    return f"processors {sorted(one.processors)} → {sorted(other.processors)}"
