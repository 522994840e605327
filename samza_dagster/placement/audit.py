"""Certificates: what allowed a start, and how an incarnation ended."""

from __future__ import annotations

from typing import Any

from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import ownership, texts
from samza_dagster.placement.certificates import AuditRecord, Kind
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import End, Ended, Group, Incarnation, Processor, Role, Stage


def start(draft: Draft, group: Group, processor: Processor, incarnation: Incarnation) -> None:
    """Certifies a start; the caller has checked that nothing is in its way."""
    processor_id, host = processor.processor_id, incarnation.host
    giving_way = ownership.gives_way(group, processor_id)
    lag = None if giving_way is None else draft.lags.get(giving_way)
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
        draft,
        Kind.START,
        group.group_id,
        processor_id,
        incarnation,
        why=_why(draft, group, processor, host),
        predecessor=processor.last_end,
        others=tuple(
            sorted(others | {(o.processor_id, o.incarnation.host) for o in group.orphans})
        ),
        left_behind=tuple(sorted(left_behind)),
        grouping=draft.grouping,
        spun_up_by=_spun_up_by(group, processor_id),
        lag_records=None if lag is None else lag.records,
        ready_in_ms=None if lag is None else lag.ready_in_ms,
    )


def end(
    draft: Draft,
    group_id: str,
    processor_id: str,
    incarnation: Incarnation,
    how: Ended,
    evidence: str,
) -> End:
    """Certifies an end, and returns it for the processor's next start."""
    _certify(draft, Kind.END, group_id, processor_id, incarnation, how=how, evidence=evidence)
    return End(
        incarnation.execution_id, incarnation.epoch, incarnation.host, how, draft.now_ms, evidence
    )


def _certify(
    draft: Draft, kind: Kind, group_id: str, processor_id: str, of: Incarnation, **said: Any
) -> None:
    number, previous_hash, previous_at_ms = draft.next_certificate
    draft.certify(
        AuditRecord(
            number=number,
            kind=kind,
            at_ms=draft.now_ms,
            deployment_id=draft.deployment_id,
            group_id=group_id,
            processor_id=processor_id,
            # A group is named for its active; the processor itself may be gone.
            role=Role.ACTIVE if processor_id == group_id else Role.STANDBY,
            execution_id=of.execution_id,
            epoch=of.epoch,
            host=of.host,
            previous_hash=previous_hash,
            previous_at_ms=previous_at_ms,
            fencing=draft.limits.fencing,
            **said,
        )
    )


def _why(draft: Draft, group: Group, processor: Processor, host: str) -> str:
    processor_id = processor.processor_id
    if group.failover is not None and group.failover.active_id == processor_id:
        failover = group.failover
        return f"failover to the host of {failover.standby_id}: {failover.why}"
    starting = ownership.owner(group, processor_id, Stage.STARTING)
    if starting is not None:
        return f"{starting.ask.kind.value} {starting.ask.uuid} to {starting.ask.destination_host}"
    falling_back = ownership.owner(group, processor_id, *ownership.FALLBACK)
    if falling_back is not None:
        return f"the way back of {falling_back.ask.uuid}"
    standbys = [other for other in group.processors.values() if other.role is Role.STANDBY]
    moved = processor.role is Role.ACTIVE and processor.last_seen_host not in (None, host)
    if moved and standbys:
        return texts.cold_start(sorted(_what_is_known(draft, standby) for standby in standbys))
    return "it should run"


def _spun_up_by(group: Group, processor_id: str) -> str:
    action = group.action
    if action is None or action.ask.kind is not RequestKind.START_STANDBY:
        return ""
    return action.ask.uuid if ownership.acts_on(action, processor_id, Stage.STARTING) else ""


def _what_is_known(draft: Draft, standby: Processor) -> str:
    """What the cold start passes over."""
    lag = draft.lags.get(standby.processor_id)
    behind = texts.how_far_behind(None if lag is None else lag.records)
    return f"{standby.processor_id} is {standby.phase}, {behind}"
