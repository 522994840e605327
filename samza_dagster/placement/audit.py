"""Certificates: the reason of each start, and the end of each incarnation."""

from __future__ import annotations

from typing import Any

from samza_dagster.placement import ownership, texts
from samza_dagster.placement.certificates import AuditRecord, Kind
from samza_dagster.placement.draft import GroupStep
from samza_dagster.placement.state import (
    End,
    Ended,
    Fallback,
    Incarnation,
    Processor,
    Role,
    SpinUp,
)


def start(step: GroupStep, processor: Processor, incarnation: Incarnation) -> None:
    """Certify a start. The caller has checked that nothing forbids it."""
    group, processor_id, host = step.group, processor.processor_id, incarnation.host
    place = ownership.place_taken(group, processor_id)
    lag = None if place is None else step.lag(place.standby_id)
    starting = ownership.starting_action(group, processor_id)
    others = {
        (other.processor_id, other.incarnation.host)
        for other in group.processors.values()
        if other.processor_id != processor_id and other.incarnation is not None
    }
    left_behind = {
        (orphan.processor_id, orphan.incarnation.execution_id)
        for orphan in group.orphans
        if orphan.left_behind and orphan.incarnation.host == host
    }
    _certify(
        step,
        Kind.START,
        processor_id,
        incarnation,
        why=_why(step, processor, host),
        predecessor=processor.last_end,
        others=tuple(
            sorted(others | {(o.processor_id, o.incarnation.host) for o in group.orphans})
        ),
        left_behind=tuple(sorted(left_behind)),
        grouping=step.draft.grouping,
        spun_up_by=starting.ask.uuid if isinstance(starting, SpinUp) else "",
        lag_records=None if lag is None else lag.records,
        ready_in_ms=None if lag is None else lag.ready_in_ms,
    )


def end(
    step: GroupStep, processor_id: str, incarnation: Incarnation, how: Ended, evidence: str
) -> End:
    """Certify an end, and return it for the processor's next start."""
    _certify(step, Kind.END, processor_id, incarnation, how=how, evidence=evidence)
    return End(
        incarnation.execution_id, incarnation.epoch, incarnation.host, how, step.now_ms, evidence
    )


def _certify(step: GroupStep, kind: Kind, processor_id: str, of: Incarnation, **said: Any) -> None:
    number, previous_hash, previous_at_ms = step.draft.next_certificate
    step.draft.certify(
        AuditRecord(
            number=number,
            kind=kind,
            at_ms=step.now_ms,
            deployment_id=step.draft.deployment_id,
            group_id=step.group_id,
            processor_id=processor_id,
            # A group is named for its active; the processor itself may be gone.
            role=Role.ACTIVE if processor_id == step.group_id else Role.STANDBY,
            execution_id=of.execution_id,
            epoch=of.epoch,
            host=of.host,
            previous_hash=previous_hash,
            previous_at_ms=previous_at_ms,
            fencing=step.limits.fencing,
            **said,
        )
    )


def _why(step: GroupStep, processor: Processor, host: str) -> str:
    group, processor_id = step.group, processor.processor_id
    if group.failover is not None and group.failover.active_id == processor_id:
        failover = group.failover
        return f"failover to the host of {failover.standby_id}: {failover.why}"
    starting = ownership.starting_action(group, processor_id)
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
    """Return the phase and the lag of a standby that a cold start passes over."""
    lag = step.lag(standby.processor_id)
    behind = texts.how_far_behind(None if lag is None else lag.records)
    return f"{standby.processor_id} is {standby.phase}, {behind}"
