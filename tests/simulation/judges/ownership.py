"""Who may run where, and who owns what: invariants 1, 2 and 3, from the processes alone."""

from __future__ import annotations

from itertools import combinations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement.certificates import AuditRecord, digest_of
from samza_dagster.placement.state import Ended, Fencing, Group
from tests.simulation.judges.chronicle import Chronicle, Started
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.truth import Process, Truth
from tests.simulation.judges.violation import (
    ONE_OWNER,
    SAME_HOST,
    STANDBY_DEAD_FIRST,
    InvariantViolated,
)


def judge_world(chronicle: Chronicle, truth: Truth) -> None:
    """All live processes, two by two."""
    by_host: dict[tuple[str, str], Process] = {}
    owners: dict[str, list[Process]] = {}
    layouts: dict[frozenset[str], Process] = {}
    grouped: dict[str, list[Process]] = {}
    for process in truth.processes():
        other = by_host.setdefault((process.group_id, process.host), process)
        if other is not process:
            older, newer = sorted((other, process), key=lambda p: p.epoch)
            _refuse_neighbour(chronicle, older, newer.processor_id, newer.execution_id)
        if chronicle.is_current(process.processor_id, process.execution_id):
            for other in grouped.setdefault(process.group_id, []):
                _judge_domains(chronicle, *sorted((other, process), key=lambda p: p.epoch))
            grouped[process.group_id].append(process)
        if process.released and not process.refused:
            for other in owners.setdefault(process.processor_id, []):
                _judge_owners(chronicle, *sorted((other, process), key=lambda p: p.epoch))
            owners[process.processor_id].append(process)
            if process.processor_id == process.group_id:
                layouts.setdefault(_layout(chronicle, process), process)
    if len(layouts) > 1:
        _judge_layouts(chronicle, [p for both in owners.values() for p in both])


def _judge_domains(chronicle: Chronicle, older: Process, newer: Process) -> None:
    """Nobody starts where a host of the same fault domain has a member of its group.

    As the hosts had told when it started: one that tells another domain later stops nobody.
    """
    if older.processor_id != newer.processor_id and older.host in chronicle.beside.get(
        newer.execution_id, ()
    ):
        raise InvariantViolated(
            SAME_HOST,
            f"{older.execution_id} and {newer.execution_id} both run in "
            f"fault domain {older.fault_domain}",
        )


def _beside(chronicle: Chronicle, record: AuditRecord) -> frozenset[str]:
    """Hosts of the same fault domain; none where a member of the group gave its place."""
    domain = chronicle.domains.get(record.host, "")
    gone = chronicle.left_by.get(record.host, record.processor_id)
    gave_way = gone != record.processor_id and chronicle.groups.get(gone) == record.group_id
    if not domain or gave_way:
        return frozenset()
    return frozenset(h for h, own in chronicle.domains.items() if own == domain)


def _judge_layouts(chronicle: Chronicle, owners: list[Process]) -> None:
    """Other groups, other tasks for each: an active of one owns what any of another does."""
    actives = [p for p in owners if p.processor_id == p.group_id]
    for older, newer in combinations(sorted(actives, key=lambda p: p.epoch), 2):
        if _layout(chronicle, older) != _layout(chronicle, newer):
            _judge_owners(chronicle, older, newer)


def _layout(chronicle: Chronicle, process: Process) -> frozenset[str]:
    return chronicle.layouts.get(process.execution_id, frozenset())


def judge_order(chronicle: Chronicle, group: Group) -> None:
    """Who has had a successor never counts as the owner again: its store is of the past."""
    for pid, processor in group.processors.items():
        incarnation, newest = processor.incarnation, chronicle.newest.get(pid)
        if incarnation is not None and newest is not None and newest.epoch > incarnation.epoch:
            raise InvariantViolated(
                ONE_OWNER, f"{incarnation.execution_id} owns {pid} after {newest.execution_id}"
            )


def judge_records(chronicle: Chronicle, taken: Taken, truth: Truth) -> None:
    """Every record of the step, and that nothing starts without one."""
    for command in taken.every(cmd.RecordCertificate):
        _judge_record(chronicle, command.record, truth)
    for start in taken.every(cmd.StartContainer):
        known = chronicle.started.get(start.execution_id)
        if known is None or known[1].host != start.host:
            what = f"{start.execution_id} starts on {start.host}, unrecorded"
            raise InvariantViolated(ONE_OWNER, what)
        _judge_start(chronicle, start, truth)


def _judge_start(chronicle: Chronicle, command: cmd.StartContainer, truth: Truth) -> None:
    """No process of the group is alive where another one of it is told to start.

    A start that is said again is judged as well: only its own process may be there. One that
    lives on a machine which had this host's name must have ended.
    """
    mine = [p for p in truth.processes() if p.host == command.host]
    group_id = chronicle.groups.get(command.processor_id)
    chronicle.premises[SAME_HOST] += 1
    for process in mine:
        if process.group_id == group_id and process.execution_id != command.execution_id:
            _refuse_neighbour(chronicle, process, command.processor_id, command.execution_id)
    for process in truth.processes():
        known = chronicle.started.get(process.execution_id)
        itself = process.execution_id == command.execution_id
        if itself or process.group_id != group_id or known is None:
            continue
        if known[1].host != command.host:
            continue
        if process.host != command.host and process.execution_id not in chronicle.ended:
            raise InvariantViolated(
                SAME_HOST,
                f"{command.execution_id} of {command.processor_id} is to start on {command.host}, "
                f"whose name {process.execution_id} had, which hasn't ended on {process.host}",
            )
    left = chronicle.left.get(command.host)
    if left is not None and left == group_id:
        chronicle.premises[STANDBY_DEAD_FIRST] += 1


def _judge_record(chronicle: Chronicle, record: AuditRecord, truth: Truth) -> None:
    """The chain is whole, and what the record says is so in the world."""
    if record.number != len(chronicle.trail) + 1 or record.previous_hash != chronicle.digest:
        raise InvariantViolated(
            ONE_OWNER,
            f"audit record {record.number} of {record.execution_id} doesn't follow "
            f"record {len(chronicle.trail)}",
        )
    before_ms = chronicle.trail[-1].at_ms if chronicle.trail else 0
    if record.previous_at_ms != (before_ms or None):
        raise InvariantViolated(
            ONE_OWNER, f"audit record {record.number}: the one before it is of {before_ms}"
        )
    if record.digest != digest_of(record):
        raise InvariantViolated(ONE_OWNER, f"audit record {record.number}: digest is wrong")
    chronicle.trail.append(record)
    chronicle.digest = record.digest
    if record.kind == "end":
        _judge_end(chronicle, record, truth)
    else:
        _judge_start_record(chronicle, record, truth)


def _refuse_neighbour(
    chronicle: Chronicle, older: Process, processor_id: str, execution_id: str
) -> None:
    gives_way = (
        older.stopping
        or older.execution_id in chronicle.commanded_to_stop
        or not chronicle.is_current(older.processor_id, older.execution_id)
    )
    raise InvariantViolated(
        STANDBY_DEAD_FIRST if gives_way else SAME_HOST,
        f"{execution_id} of {processor_id} is on {older.host}, where {older.execution_id} "
        f"of {older.processor_id} is alive",
    )


def _judge_owners(chronicle: Chronicle, older: Process, newer: Process) -> None:
    chronicle.premises[ONE_OWNER] += 1
    how = chronicle.ended.get(older.execution_id, frozenset())
    if older.execution_id in chronicle.unfenced and how == frozenset({Ended.LEASE.value}):
        # Such an overlap begins with a freeze, and lasts until the thawed host is told.
        if older.frozen:
            chronicle.overlapping.add(older.execution_id)
        if older.execution_id in chronicle.overlapping:
            return
    raise InvariantViolated(
        ONE_OWNER,
        f"{older.execution_id} on {older.host} owns the tasks of {older.processor_id}, and so "
        f"does {newer.execution_id} on {newer.host}; it ended: {', '.join(sorted(how)) or 'no'}",
    )


def _judge_end(chronicle: Chronicle, record: AuditRecord, truth: Truth) -> None:
    if record.execution_id not in chronicle.started:
        raise InvariantViolated(ONE_OWNER, f"an end of {record.execution_id}, never started")
    chronicle.left[record.host] = record.group_id
    chronicle.left_by[record.host] = record.processor_id
    so_far = chronicle.ended.get(record.execution_id, frozenset())
    if record.how == Ended.LEASE:
        _judge_lease(chronicle, record)
        leased = (
            record.epoch <= chronicle.leased_epoch and record.execution_id not in chronicle.fenced
        )
        if chronicle.limits.fencing is Fencing.LEASE or leased:
            chronicle.unfenced.add(record.execution_id)
    _judge_how(record.execution_id, record.how, truth)
    chronicle.ended[record.execution_id] = so_far | {record.how}


def _judge_start_record(chronicle: Chronicle, record: AuditRecord, truth: Truth) -> None:
    if record.epoch <= chronicle.epoch:
        raise InvariantViolated(
            ONE_OWNER, f"epoch {record.epoch} of {record.execution_id} isn't above all before it"
        )
    chronicle.epoch = record.epoch
    for process in truth.processes():
        # Under the name that its machine had: another one may have it by now.
        started = chronicle.started.get(process.execution_id)
        neighbour = (process.processor_id, process.host if started is None else started[1].host)
        if (
            process.group_id == record.group_id
            and process.processor_id != record.processor_id
            and chronicle.is_current(process.processor_id, process.execution_id)
            and neighbour not in record.others
        ):
            raise InvariantViolated(
                ONE_OWNER,
                f"the start of {record.execution_id} doesn't say that {process.execution_id} "
                f"of its group is on {process.host}",
            )
    before = chronicle.newest.get(record.processor_id)
    predecessor = record.predecessor
    added_anew = predecessor is None and record.processor_id in chronicle.removed
    if added_anew and before is not None and _is_dead(chronicle, before):
        before = None  # its past is forgotten, and it was seen dead
    chronicle.removed.discard(record.processor_id)
    if before is not None:
        chronicle.premises[ONE_OWNER] += 1
        if predecessor is None or predecessor.execution_id != before.execution_id:
            named = predecessor.execution_id if predecessor is not None else "none"
            raise InvariantViolated(
                ONE_OWNER,
                f"the start of {record.execution_id} names {named} as its predecessor, "
                f"{before.execution_id} was",
            )
        if predecessor.how not in chronicle.ended.get(before.execution_id, frozenset()):
            raise InvariantViolated(
                ONE_OWNER,
                f"the start of {record.execution_id} says that {before.execution_id} ended "
                f"({predecessor.how}), and no record does",
            )
        _judge_how(before.execution_id, predecessor.how, truth)
    elif predecessor is not None:
        raise InvariantViolated(
            ONE_OWNER, f"{record.execution_id} is a first start and names a predecessor"
        )
    chronicle.layouts[record.execution_id] = chronicle.layout
    chronicle.beside[record.execution_id] = _beside(chronicle, record)
    started = Started(record.execution_id, record.epoch, record.host)
    chronicle.newest[record.processor_id] = started
    chronicle.started[record.execution_id] = (record.processor_id, started)


def _is_dead(chronicle: Chronicle, started: Started) -> bool:
    return Ended.DEAD in chronicle.ended.get(started.execution_id, ())


def _judge_lease(chronicle: Chronicle, record: AuditRecord) -> None:
    """By the leader's own arithmetic; a lease that was over stays so in later terms."""
    over_ms = chronicle.lease_over_ms(record.execution_id)
    if record.at_ms < over_ms:
        raise InvariantViolated(
            ONE_OWNER,
            f"the lease of {record.execution_id} is taken for over at {record.at_ms} ms, "
            f"the leader may count it as over from {over_ms} ms on",
        )


def _judge_how(execution_id: str, how: str, truth: Truth) -> None:
    live = next((p for p in truth.processes() if p.execution_id == execution_id), None)
    if live is None:
        return
    true = {
        Ended.DEAD.value: False,
        Ended.FENCED.value: live.refused,
        Ended.LEASE.value: live.lease_over or live.frozen,
    }.get(how, False)
    if not true:
        raise InvariantViolated(
            ONE_OWNER, f"{execution_id} counts as ended ({how}), and it lives on {live.host}"
        )
