"""Certificates: what allowed a start, and how an incarnation ended."""

from __future__ import annotations

from samza_dagster.placement import ownership, texts
from samza_dagster.placement.certificates import AuditRecord, Predecessor
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    End,
    Ended,
    Fallback,
    Group,
    Incarnation,
    Processor,
    Role,
    SpinUp,
)


def start(step: GroupStep, processor: Processor, incarnation: Incarnation) -> None:
    """Certifies a start; the caller has checked that nothing is in its way."""
    group, processor_id, end = step.group, processor.processor_id, processor.last_end
    place = ownership.place_taken(group, processor_id)
    lag = None if place is None else step.lag(place.standby_id)
    starting = ownership.starting(group, processor_id)
    step.draft.certify(
        _record(step, "start", processor_id, processor.role, incarnation).evolve(
            why=_why(step, processor, incarnation.host),
            predecessor=None if end is None else _predecessor(end),
            others=_others(group, processor_id),
            left_behind=_left_behind(group, incarnation.host),
            grouping=step.draft.grouping,
            spun_up_by=starting.ask.uuid if isinstance(starting, SpinUp) else "",
            lag_records=None if lag is None else lag.records,
            ready_in_ms=None if lag is None else lag.ready_in_ms,
        )
    )


def end(
    step: GroupStep, processor_id: str, incarnation: Incarnation, how: Ended, evidence: str
) -> End:
    """Certifies an end, and returns it for the processor's next start."""
    # A group is named for its active; the processor itself may be gone.
    role = Role.ACTIVE if processor_id == step.group_id else Role.STANDBY
    record = _record(step, "end", processor_id, role, incarnation)
    step.draft.certify(record.evolve(how=how.value, evidence=evidence))
    return End(
        incarnation.execution_id, incarnation.epoch, incarnation.host, how, step.now_ms, evidence
    )


def _record(
    step: GroupStep, kind: str, processor_id: str, role: Role, incarnation: Incarnation
) -> AuditRecord:
    number, previous_hash, previous_at_ms = step.draft.next_certificate
    return AuditRecord(
        number=number,
        kind=kind,
        at_ms=step.now_ms,
        deployment_id=step.draft.deployment_id,
        group_id=step.group_id,
        processor_id=processor_id,
        role=role.value,
        execution_id=incarnation.execution_id,
        epoch=incarnation.epoch,
        host=incarnation.host,
        previous_hash=previous_hash,
        previous_at_ms=previous_at_ms,
        fencing=step.limits.fencing.value,
    )


def _predecessor(end: End) -> Predecessor:
    return Predecessor(
        end.execution_id, end.epoch, end.host, end.how.value, end.at_ms, end.evidence
    )


def _why(step: GroupStep, processor: Processor, host: str) -> str:
    group, processor_id = step.group, processor.processor_id
    if group.failover is not None and group.failover.active_id == processor_id:
        failover = group.failover
        return f"failover to the host of {failover.standby_id}: {failover.why}"
    starting = ownership.starting(group, processor_id)
    if starting is not None:
        return f"{starting.ask.kind.value} {starting.ask.uuid} to {starting.ask.destination_host}"
    action = group.action
    if isinstance(action, Fallback) and action.ask.processor_id == processor_id:
        return f"the way back of {action.ask.uuid}"
    standbys = [other for other in group.processors.values() if other.role is Role.STANDBY]
    moved = processor.role is Role.ACTIVE and processor.last_seen_host not in (None, host)
    if moved and standbys:
        known = "; ".join(sorted(_what_is_known(step, standby) for standby in standbys))
        return f"any host: no standby's place was to be had ({known})"
    return "it should run"


def _what_is_known(step: GroupStep, standby: Processor) -> str:
    """What the cold start passes over."""
    lag = step.lag(standby.processor_id)
    behind = texts.how_far_behind(None if lag is None else lag.records)
    return f"{standby.processor_id} is {standby.phase}, {behind}"


def _others(group: Group, processor_id: str) -> tuple[tuple[str, str], ...]:
    others = {
        (other.processor_id, other.incarnation.host)
        for other in group.processors.values()
        if other.processor_id != processor_id and other.incarnation is not None
    }
    others |= {(orphan.processor_id, orphan.incarnation.host) for orphan in group.orphans}
    return tuple(sorted(others))


def _left_behind(group: Group, host: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted(
            (orphan.processor_id, orphan.incarnation.execution_id)
            for orphan in group.orphans
            if orphan.left_behind and orphan.incarnation.host == host
        )
    )
