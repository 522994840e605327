"""Commands are what the state has changed by, no more and no less.

Whatever is asked for in the state was asked of the cluster, whatever isn't any more was
given back; each incarnation was started as the state has it, each end is cleared away.
"""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import (
    Action,
    Fencing,
    Group,
    JobState,
    Phase,
    ResourceRequest,
    Stage,
)
from samza_dagster.simulation.judges import origins
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import requests_of, subject_of
from samza_dagster.simulation.judges.taken import Taken, request_ids
from samza_dagster.simulation.judges.violation import BOOKS_BALANCE

_WITHOUT_PROCESS = {None, Phase.WAITING, Phase.REQUESTING, Phase.RESERVED}


def judge_books(chronicle: Chronicle, taken: Taken) -> None:
    """Every law of the books, for one step."""
    chronicle.premises[BOOKS_BALANCE] += 1
    judge_sums(taken)
    known: set[str] = set()
    kept: set[str] = set()
    for old, new in taken.changed:
        known |= request_ids(old)
        kept |= request_ids(new)
    if taken.restarted or isinstance(taken.event, ev.HostRegistered):
        # What is said again may leave its group as it was.
        for group in taken.before.groups.values():
            known |= request_ids(group)
        for group in taken.after.groups.values():
            kept |= request_ids(group)
    judge_expected(taken)
    if taken.changed or taken.commands:
        _judge_requests(taken, known)
        _judge_releases(taken, known, kept)
        _judge_starts(taken)
        _judge_stops(chronicle, taken)
        _judge_ends(taken)
        _judge_fences(taken)
        _judge_ahead(taken)


def judge_sums(taken: Taken) -> None:
    """Numbers that only grow, by as much as was handed out."""
    before, after = taken.before, taken.after
    records = taken.every(cmd.RecordCertificate)
    if after.certificates != before.certificates + len(records):
        raise taken.broken(BOOKS_BALANCE, f"{len(records)} records more, {after.certificates}")
    if records and after.certificate_hash != records[-1].record.digest:
        raise taken.broken(BOOKS_BALANCE, "the state names another last record")
    last_ms = records[-1].record.at_ms if records else before.certificate_at_ms
    if after.certificate_at_ms != last_ms:
        raise taken.broken(BOOKS_BALANCE, f"the last record is of {last_ms}, not as the state says")
    count = after.next_request - before.next_request
    fresh = count and {r.request_id for r in taken.every(cmd.RequestResource)} & {
        f"{_safe(after.job)}-request-{n:06d}"
        for n in range(before.next_request, after.next_request)
    }
    if (len(fresh) if fresh else 0) != count:
        raise taken.broken(BOOKS_BALANCE, f"next request {after.next_request}, new {fresh}")
    starts = [r for r in records if r.record.kind == "start"]
    if after.next_epoch != before.next_epoch + len(starts):
        raise taken.broken(BOOKS_BALANCE, f"next epoch {after.next_epoch}, {len(starts)} starts")
    expected = taken.event.at_ms
    if not taken.restarted and before.now_ms > expected:
        expected = before.now_ms
    if after.now_ms != expected or after.job != before.job:
        raise taken.broken(BOOKS_BALANCE, f"it is {after.now_ms}, by the event {expected}")
    for old, new in taken.changed:
        if new is not None and old is not None and new.sequence != old.sequence + 1:
            raise taken.broken(BOOKS_BALANCE, f"group {new.group_id} has sequence {new.sequence}")
    deployed = isinstance(taken.event, ev.JobDeployed) and taken.redeployed
    limits = taken.event.limits if deployed and isinstance(taken.event, ev.JobDeployed) else None
    if after.limits != (limits or before.limits):
        raise taken.broken(BOOKS_BALANCE, f"limits are {after.limits}")


def _judge_requests(taken: Taken, known: set[str]) -> None:
    limits, now_ms = taken.after.limits, taken.now_ms
    asked = {request.request_id: request for request in taken.every(cmd.RequestResource)}
    for _, new in taken.changed:
        for pid, request in requests_of(new) if new is not None else ():
            said = asked.get(request.request_id)
            if said is None:
                if request.request_id not in known:
                    raise taken.broken(BOOKS_BALANCE, f"{request} was never asked for")
                continue
            if (said.processor_id, said.host, said.excluded_hosts) != (
                pid,
                request.allocated_host or request.host,
                request.excluded_hosts,
            ):
                raise taken.broken(BOOKS_BALANCE, f"{said}, in the state {request} of {pid}")
            left = max(1, request.deadline_ms - now_ms - 1_000)
            if said.expires_in_ms != left:
                raise taken.broken(BOOKS_BALANCE, f"{said} expires in {left} ms by the state")
    for said in asked.values():
        if (said.memory_mb, said.cores) != (limits.container_memory_mb, limits.container_cores):
            raise taken.broken(BOOKS_BALANCE, f"{said} isn't of a container's size")
        if said.host is not None and said.excluded_hosts and said.request_id not in known:
            raise taken.broken(BOOKS_BALANCE, f"{said} names a host and excludes some")


def _judge_releases(taken: Taken, known: set[str], kept: set[str]) -> None:
    released = {command.request_id for command in taken.every(cmd.ReleaseResource)}
    used = {
        both.now.incarnation.request_id
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    for request_id in known - kept - used - released:
        raise taken.broken(BOOKS_BALANCE, f"{request_id} is for nobody and isn't given back")
    dropped = {r.request_id for r in taken.every(cmd.RequestResource)} - known - kept - used
    for request_id in dropped - released:
        raise taken.broken(BOOKS_BALANCE, f"{request_id} was asked for, for nobody")
    for request_id in released & kept:
        raise taken.broken(BOOKS_BALANCE, f"{request_id} is given back and counted upon")
    event = taken.event
    for request_id in released & used:
        if not isinstance(event, ev.ResourceAllocated) or event.request_id != request_id:
            raise taken.broken(BOOKS_BALANCE, f"{request_id} is given back and used")
    if released and not taken.changed and not isinstance(event, ev.ResourceAllocated):
        raise taken.broken(BOOKS_BALANCE, f"{released} is given back, and nothing changed")


def judge_expected(taken: Taken) -> None:
    """What the cluster says of a request is taken up."""
    event = taken.event
    if isinstance(event, ev.RequestExpired):
        _judge_expiry(taken, event)
    if isinstance(event, ev.ResourceAllocated):
        released = cmd.ReleaseResource(event.request_id) in taken.commands
        _judge_orphan(taken, event, released)


def _judge_expiry(taken: Taken, event: ev.RequestExpired) -> None:
    """What is open is given up; what is held stays so, unless it had to be found again."""
    for group in taken.before.groups.values():
        for _, request in requests_of(group):
            if request.request_id != event.request_id:
                continue
            action = group.action
            held = action is not None and action.reservation is request
            if held and action is not None and _taken_from(taken, action):
                continue
            again = held and action is not None and action.stage is Stage.HELD
            lost = request.allocated_host is None or (again and not request.confirmed)
            now = taken.after.groups.get(group.group_id)
            if (event.request_id in request_ids(now)) == lost:
                raise taken.broken(BOOKS_BALANCE, f"{request} has expired, given up: {not lost}")


def _taken_from(taken: Taken, action: Action) -> bool:
    """In the same step its active turned to the standby that it moves: it is over for that."""
    return any(f.standby_id == subject_of(action) for _, _, f in taken.failovers_begun)


def _judge_orphan(taken: Taken, event: ev.ResourceAllocated, released: bool) -> None:
    """What nobody asks for is given back; what is used stays, and isn't held a second time."""
    for group in taken.before.groups.values():
        if event.request_id in request_ids(group):
            _judge_allocated(taken, event, group)
            return
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if incarnation is not None and incarnation.request_id == event.request_id:
                if released != (incarnation.host != event.host):
                    raise taken.broken(BOOKS_BALANCE, f"{incarnation} uses it, and it is freed")
                return
    if not released:
        raise taken.broken(BOOKS_BALANCE, f"{event.request_id} is held for nobody")


def _judge_allocated(taken: Taken, event: ev.ResourceAllocated, old: Group) -> None:
    """What is held is counted upon, there and from now on; else it was given back."""
    group = taken.after.groups.get(old.group_id)
    for _, request in requests_of(group) if group is not None else ():
        if request.request_id != event.request_id:
            continue
        was = next(r for _, r in requests_of(old) if r.request_id == event.request_id)
        host = event.host if was.allocated_host is None else was.allocated_host
        action = None if group is None else group.action
        ours = action is not None and action.reservation is request
        if request.allocated_host != host or (ours and not request.confirmed):
            raise taken.broken(BOOKS_BALANCE, f"{request} is held on {host}")


def _judge_starts(taken: Taken) -> None:
    started = {command.execution_id: command for command in taken.every(cmd.StartContainer)}
    certified = {
        command.record.execution_id
        for command in taken.every(cmd.RecordCertificate)
        if command.record.kind == "start"
    }
    back = {was.incarnation.execution_id for was, _ in taken.ghosts if was is not None}
    for both in taken.both:
        begun = both.begun
        if begun is None or both.now is None:
            continue
        if begun.execution_id in back:
            continue  # a ghost that was taken back
        request = both.was.request if both.was is not None else None
        number = begun.request_id.rpartition("-")[2]
        processor = both.processor_id.replace("-", "_")
        expected = f"{_safe(taken.after.job)}-{processor}-{number}"
        if begun.execution_id not in certified or begun.execution_id != expected:
            raise taken.broken(BOOKS_BALANCE, f"{begun} has no certificate")
        if begun.execution_id not in started:
            raise taken.broken(BOOKS_BALANCE, f"{begun} was never started")
        held = request is not None and request.request_id == begun.request_id
        if held and request is not None and begun.host not in (request.host, None):
            _must_fit(taken, request, begun.host)
    current = {
        both.now.incarnation.execution_id: both.now
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    stopped = {command.execution_id for command in taken.every(cmd.StopContainer)}
    for command in started.values():
        processor = current.get(command.execution_id)
        if processor is None:
            again = taken.restarted or isinstance(taken.event, ev.HostRegistered)
            if not again:
                raise taken.broken(BOOKS_BALANCE, f"{command} of none that has begun")
            continue
        incarnation = processor.incarnation
        if command.execution_id in stopped:
            continue  # both in one step: it was the next one's turn
        if incarnation is None or processor.phase is not Phase.STARTING:
            raise taken.broken(BOOKS_BALANCE, f"{command}, it is {processor.phase}")
        if (command.processor_id, command.host, command.request_id) != (
            processor.processor_id,
            incarnation.host,
            incarnation.request_id,
        ):
            raise taken.broken(BOOKS_BALANCE, f"{command}, in the state {incarnation}")


def _must_fit(taken: Taken, request: ResourceRequest, host: str) -> None:
    if request.host is not None or host in request.excluded_hosts:
        raise taken.broken(BOOKS_BALANCE, f"started on {host}, asked for was {request}")


def _judge_stops(chronicle: Chronicle, taken: Taken) -> None:
    stopped = {command.execution_id: command for command in taken.every(cmd.StopContainer)}
    for both in taken.both:
        was, now = both.was, both.now
        if now is None or now.phase is not Phase.STOPPING or now.incarnation is None:
            if now is not None and now.incarnation is not None:
                command = stopped.get(now.incarnation.execution_id)
                if command is not None:
                    raise taken.broken(BOOKS_BALANCE, f"{command}, it is {now.phase}")
            continue
        if was is not None and was.phase is Phase.STOPPING and was.deadline_ms == now.deadline_ms:
            continue
        if now.incarnation.execution_id not in stopped:
            raise taken.broken(BOOKS_BALANCE, f"{now.incarnation} is never told to stop")
    for command in stopped.values():
        known = chronicle.started.get(command.execution_id)
        if known is not None and (known[0], known[1].host) != (command.processor_id, command.host):
            raise taken.broken(BOOKS_BALANCE, f"{command}, it is {known}")


def _judge_ends(taken: Taken) -> None:
    """What was seen dead is on record, forgotten by its host, and its resource free."""
    forgotten = {(c.execution_id, c.host) for c in taken.every(cmd.ForgetContainer)}
    released = {command.request_id for command in taken.every(cmd.ReleaseResource)}
    dead = {
        command.record.execution_id
        for command in taken.every(cmd.RecordCertificate)
        if command.record.how == "dead"
    }
    ghosts = {now.incarnation.execution_id for _, now in taken.ghosts if now is not None}
    alive = {
        both.now.incarnation.execution_id
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    gone = [both.ended for both in taken.both if both.ended is not None]
    gone += [was.incarnation for was, now in taken.ghosts if was is not None and now is None]
    for incarnation in gone:
        execution_id = incarnation.execution_id
        if execution_id in ghosts or execution_id in alive:
            continue
        if execution_id not in dead:
            raise taken.broken(BOOKS_BALANCE, f"{execution_id} is gone, no record says how")
        if (execution_id, incarnation.host) not in forgotten:
            raise taken.broken(BOOKS_BALANCE, f"{incarnation.host} still keeps {execution_id}")
        if incarnation.request_id not in released:
            raise taken.broken(BOOKS_BALANCE, f"{incarnation.request_id} isn't given back")
    for execution_id, host in forgotten:
        if execution_id in ghosts or execution_id in alive:
            raise taken.broken(BOOKS_BALANCE, f"{host} is to forget {execution_id}")
    event = taken.event
    if (isinstance(event, ev.ContainerStopped | ev.StartFailed)) and (
        ((event.execution_id, event.host) not in forgotten)
        != _was_of_other_books(taken, event.execution_id)
    ):
        raise taken.broken(BOOKS_BALANCE, f"{event.host} still keeps {event.execution_id}")


def _was_of_other_books(taken: Taken, execution_id: str) -> bool:
    """A ghost of books that its host doesn't have: who says that it is dead never knew it."""
    for group in taken.before.groups.values():
        for ghost in group.ghosts:
            host = taken.before.hosts.get(ghost.incarnation.host)
            if ghost.incarnation.execution_id == execution_id and host is not None:
                return not origins.are_its(host.books, host.boot_id, ghost.incarnation)
    return False


def _judge_fences(taken: Taken) -> None:
    fenced = {command.execution_id for command in taken.every(cmd.FencePrincipal)}
    broker = taken.before.limits.fencing is Fencing.BROKER
    for was, now in taken.ghosts:
        if now is None or was is not None:
            continue
        if now.fencing != broker or (now.incarnation.execution_id in fenced) != broker:
            raise taken.broken(BOOKS_BALANCE, f"{now} with fencing {taken.before.limits.fencing}")
    if not fenced:
        return
    ghosts = {
        ghost.incarnation.execution_id: ghost
        for group in taken.after.groups.values()
        for ghost in group.ghosts
    }
    for command in taken.every(cmd.FencePrincipal):
        ghost = ghosts.get(command.execution_id)
        if ghost is None or not ghost.fencing or ghost.processor_id != command.processor_id:
            raise taken.broken(BOOKS_BALANCE, f"{command}, the ghost is {ghost}")


def _judge_ahead(taken: Taken) -> None:
    """A process is made ready for a request while the one that it replaces runs, and only then.

    Where a step begins or ends with a process that doesn't run, it may have run within.
    """
    for said in taken.every(cmd.RequestResource):
        phases = {_phase(state, said.processor_id) for state in (taken.before, taken.after)}
        within = not phases <= _WITHOUT_PROCESS or isinstance(taken.event, ev.HostRegistered)
        runs = phases == {Phase.RUNNING}
        if runs > said.ahead or (said.ahead and not within):
            raise taken.broken(BOOKS_BALANCE, f"{said}, its processor was and is {phases}")


def _phase(state: JobState, processor_id: str) -> Phase | None:
    group = state.groups.get(naming.group_of(processor_id))
    processor = None if group is None else group.processors.get(processor_id)
    return None if processor is None else processor.phase


def _safe(name: str) -> str:
    """A job's name as ids begin with it: what isn't a letter, a digit or one of `._-` is `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
