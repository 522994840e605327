"""What a certificate says of a start or an end, against what the state and the event say."""

from __future__ import annotations

from dataclasses import replace
from operator import contains

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.certificates import AuditRecord
from samza_dagster.placement.state import Group, Phase, Processor, Role, Stage
from samza_dagster.simulation.judges import origins
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import gives_way_to, subject_of
from samza_dagster.simulation.judges.taken import Both, Taken
from samza_dagster.simulation.judges.violation import TRUE_CERTIFICATES

_FALLBACK = (Stage.FALLBACK_SOURCE, Stage.FALLBACK_ANY)
_COLD = "any host: no standby's place was to be had"


def judge_certificates(chronicle: Chronicle, taken: Taken) -> None:
    """Every record of a step."""
    records = taken.every(cmd.RecordCertificate)
    if not records:
        return
    both = {b.processor_id: b for b in taken.both}
    for command in records:
        record = command.record
        chronicle.premises[TRUE_CERTIFICATES] += 1
        _judge_common(taken, record, both.get(record.processor_id))
        if record.kind == "end":
            _judge_end(taken, record)
        elif record.kind == "start":
            _judge_start(taken, record, both.get(record.processor_id))
        else:
            raise taken.broken(TRUE_CERTIFICATES, f"{record} is neither")


def _judge_common(taken: Taken, record: AuditRecord, both: Both | None) -> None:
    role = "Standby" if "-" in record.processor_id else "Active"
    expected = (taken.now_ms, record.processor_id.split("-")[0], role, 1)
    if (record.at_ms, record.group_id, record.role, record.rules_version) != expected:
        raise taken.broken(TRUE_CERTIFICATES, f"{record} instead of {expected}")
    if record.deployment_id not in (taken.before.deployment_id, taken.after.deployment_id):
        raise taken.broken(TRUE_CERTIFICATES, f"{record} is of another deployment")
    if record.fencing not in (taken.before.limits.fencing.value, taken.after.limits.fencing.value):
        raise taken.broken(TRUE_CERTIFICATES, f"{record} is fenced otherwise")
    begun = None if both is None else both.begun
    if (
        record.kind == "start"
        and begun is not None
        and (
            begun.execution_id != record.execution_id
            or begun.epoch != record.epoch
            or begun.host != record.host
        )
    ):
        raise taken.broken(TRUE_CERTIFICATES, f"{record}, in the state {begun}")


def _judge_end(taken: Taken, record: AuditRecord) -> None:
    event = taken.event
    about_others = record.others or record.left_behind
    if record.why or record.predecessor or about_others or record.lag_records is not None:
        raise taken.broken(TRUE_CERTIFICATES, f"an end says no more than how: {record}")
    match event:
        case ev.ContainerStopped(exit_status=status):
            told = "" if status is None else f", exit status {status}"
            seen = f"{event.host} saw it dead{told}"
        case ev.StartFailed(why=why):
            seen = f"it never ran: {why}"
        case ev.HostRegistered(host=host) if record.host == host and record.how == "dead":
            seen = f"{host}'s books lack it"
        case ev.PrincipalFenced():
            seen = "the brokers refuse its principal"
        case _:
            seen = f"its lease ended at {_lease_of(taken, record)}, it is {taken.now_ms}"
    how = "dead"
    if isinstance(event, ev.PrincipalFenced):
        how = "fenced"
    elif isinstance(event, ev.TimePassed | ev.HostLost):
        how = "lease"
    elif isinstance(event, ev.HostRegistered) and seen.startswith("its lease"):
        how = "lease"  # what a group's leases have come to is looked at whenever it is touched
    if (record.evidence, record.how) != (seen, how):
        raise taken.broken(TRUE_CERTIFICATES, f"{record} instead of {how}: {seen}")


def _lease_of(taken: Taken, record: AuditRecord) -> int | None:
    for was, now in taken.ghosts:
        for ghost in (now, was):
            if ghost is not None and ghost.incarnation.execution_id == record.execution_id:
                return ghost.lease_ends_ms
    return None


def _judge_start(taken: Taken, record: AuditRecord, both: Both | None) -> None:
    group = None if both is None else both.group
    if both is None or group is None or both.now is None or both.begun is None:
        return
    if record.how or record.evidence or not record.why:
        raise taken.broken(TRUE_CERTIFICATES, f"a start says why, and not how: {record}")
    if record.grouping != taken.after.grouping:
        raise taken.broken(TRUE_CERTIFICATES, f"{record}, tasks are {taken.after.grouping!r}")
    last, named = both.now.last_end, record.predecessor
    if (last is None) != (named is None):
        raise taken.broken(TRUE_CERTIFICATES, f"{record}, it had ended as {last}")
    if last is not None and named is not None:
        told = (last.execution_id, last.epoch, last.host, last.how.value, last.at_ms, last.evidence)
        if told != (
            named.execution_id,
            named.epoch,
            named.host,
            named.how,
            named.at_ms,
            named.evidence,
        ):
            raise taken.broken(TRUE_CERTIFICATES, f"{named}, it had ended as {last}")
    _judge_others(taken, record, both)
    _judge_left_behind(taken, record, both)
    _judge_lag(taken, record, both)
    _judge_why(taken, record, both)


def _judge_others(taken: Taken, record: AuditRecord, both: Both) -> None:
    """Those who have a process after the step and had one before it; more may have begun in it."""
    must, may = _processes(both.group, both.processor_id), set[tuple[str, str]]()
    may |= must | _processes(both.old, both.processor_id)
    kept = must & _processes(both.old, both.processor_id)
    if not kept <= set(record.others) <= may or list(record.others) != sorted(set(record.others)):
        raise taken.broken(TRUE_CERTIFICATES, f"{record.others} instead of {sorted(may)}")


def _judge_left_behind(taken: Taken, record: AuditRecord, both: Both) -> None:
    """Ghosts of its host that have ended, and whose machine isn't the one of that name."""
    expected = {
        (ghost.processor_id, ghost.incarnation.execution_id)
        for ghost in (() if both.group is None else both.group.ghosts)
        if ghost.incarnation.host == record.host
        and origins.is_left_behind(taken.after.hosts, ghost)
    }
    if record.left_behind != tuple(sorted(expected)):
        raise taken.broken(TRUE_CERTIFICATES, f"{record.left_behind}, left are {sorted(expected)}")


def _processes(group: Group | None, processor_id: str) -> set[tuple[str, str]]:
    if group is None:
        return set()
    found = {(ghost.processor_id, ghost.incarnation.host) for ghost in group.ghosts}
    for pid, processor in group.processors.items():
        if pid != processor_id and processor.incarnation is not None:
            found.add((pid, processor.incarnation.host))
    return found


def _judge_lag(taken: Taken, record: AuditRecord, both: Both) -> None:
    giving_way = gives_way_to(both.group, both.processor_id) if both.group is not None else ""
    lag = taken.after.lags.get(giving_way) if giving_way else None
    expected = (None, None) if lag is None else (lag.records, lag.ready_in_ms)
    if (record.lag_records, record.ready_in_ms) != expected:
        raise taken.broken(TRUE_CERTIFICATES, f"{record}, {giving_way or 'nobody'} had {expected}")


def _judge_why(taken: Taken, record: AuditRecord, both: Both) -> None:
    group, now = both.group, both.now
    if group is None or now is None:
        return
    began = _with_whom_it_began(taken, both, group, record)
    expected = _why(began, now, record.host)
    fine = record.why == expected
    if expected == _COLD:
        passed_over = _passed_over(taken, began)
        told = record.why.removeprefix(f"{_COLD} (").removesuffix(")").split("; ")
        fine = len(told) == len(passed_over) and all(map(contains, passed_over, told))
    if not fine:
        raise taken.broken(TRUE_CERTIFICATES, f"{record.why!r} instead of {expected!r}")


def _passed_over(taken: Taken, group: Group) -> list[set[str]]:
    """What may be said of each standby: its last sample, and whatever it was doing.

    That may change after the start, in its step.
    """
    told: list[set[str]] = []
    for pid in sorted(group.processors.keys() - {group.group_id}, key=lambda pid: f"{pid} "):
        lag = taken.after.lags.get(pid) or taken.before.lags.get(pid)
        records = None if lag is None else lag.records
        behind = (
            "how far behind is unknown"
            if records is None
            else f"{records} records behind when it was last measured"
        )
        told.append({f"{pid} is {phase}, {behind}" for phase in Phase})
    return told


def _with_whom_it_began(taken: Taken, both: Both, group: Group, record: AuditRecord) -> Group:
    """The group with the standbys that were removed after this start, in the same step."""
    if both.old is None or both.old.processors.keys() <= group.processors.keys():
        return group
    since = taken.since(lambda c: isinstance(c, cmd.RecordCertificate) and c.record == record)
    later = {c.processor_id for c in since if isinstance(c, cmd.DeleteLocality)}
    gone = {pid: was for pid, was in both.old.processors.items() if pid in later}
    return replace(group, processors={**gone, **group.processors})


def _why(group: Group, processor: Processor, host: str) -> str:
    pid, failover, action = processor.processor_id, group.failover, group.action
    if failover is not None and failover.active_id == pid:
        return f"failover to the host of {failover.standby_id}: {failover.why}"
    if action is not None and subject_of(action) == pid:
        ask = action.ask
        if action.stage is Stage.STARTING:
            return f"{ask.kind.value} {ask.uuid} to {ask.destination_host}"
        if action.stage in _FALLBACK:
            return f"the way back of {ask.uuid}"
    active = processor.role is Role.ACTIVE and len(group.processors) > 1
    if active and processor.last_seen_host is not None and processor.last_seen_host != host:
        return _COLD
    return "it should run"
