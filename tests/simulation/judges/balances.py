"""Commands are what the state has changed by, no more and no less.

Whatever is asked for in the state was asked of the cluster, whatever isn't any more was
given back; each incarnation was started as the state has it, each end is cleared away.
"""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.state import Fencing, JobState, Phase
from tests.simulation.judges import origins
from tests.simulation.judges.allocations import judge_expected
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import group_with, requests_of
from tests.simulation.judges.taken import Taken, request_ids
from tests.simulation.judges.violation import JOURNAL_BALANCES

_WITHOUT_PROCESS = {None, Phase.WAITING, Phase.REQUESTING, Phase.RESERVED}


def judge_journal(chronicle: Chronicle, taken: Taken) -> None:
    """Every law of the journal, for one step."""
    chronicle.premises[JOURNAL_BALANCES] += 1
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
        _judge_requests(taken)
        _judge_releases(taken, known, kept)
        _judge_starts(taken)
        _judge_stops(taken)
        _judge_ends(taken)
        _judge_fences(taken)
        _judge_ahead(taken)


def judge_sums(taken: Taken) -> None:
    """Numbers that only grow, by as much as was handed out."""
    before, after = taken.before, taken.after
    count = after.next_request - before.next_request
    fresh = count and {r.request_id for r in taken.every(cmd.RequestResource)} & {
        f"{_safe(after.job)}-request-{n:06d}"
        for n in range(before.next_request, after.next_request)
    }
    if (len(fresh) if fresh else 0) != count:
        raise taken.broken(JOURNAL_BALANCES, f"next request {after.next_request}, new {fresh}")
    expected = taken.event.at_ms
    if not taken.restarted and before.now_ms > expected:
        expected = before.now_ms
    if after.now_ms != expected or after.job != before.job:
        raise taken.broken(JOURNAL_BALANCES, f"it is {after.now_ms}, by the event {expected}")
    for old, new in taken.changed:
        if new is not None and old is not None and new.sequence != old.sequence + 1:
            raise taken.broken(
                JOURNAL_BALANCES, f"group {new.group_id} has sequence {new.sequence}"
            )


def _judge_requests(taken: Taken) -> None:
    """What is asked of the cluster is what the state has, for as long as it has it."""
    asked = {request.request_id: request for request in taken.every(cmd.RequestResource)}
    for _, new in taken.changed:
        for pid, request in requests_of(new) if new is not None else ():
            said = asked.get(request.request_id)
            if said is None:
                continue
            if (said.processor_id, said.host, said.excluded_hosts) != (
                pid,
                request.allocated_host or request.host,
                request.excluded_hosts,
            ):
                raise taken.broken(JOURNAL_BALANCES, f"{said}, in the state {request} of {pid}")
            left = max(1, request.deadline_ms - taken.now_ms - 1_000)
            if said.expires_in_ms != left:
                raise taken.broken(JOURNAL_BALANCES, f"{said} expires in {left} ms by the state")


def _judge_releases(taken: Taken, known: set[str], kept: set[str]) -> None:
    released = {command.request_id for command in taken.every(cmd.ReleaseResource)}
    used = {
        both.now.incarnation.request_id
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    for request_id in known - kept - used - released:
        raise taken.broken(JOURNAL_BALANCES, f"{request_id} is for nobody and isn't given back")
    dropped = {r.request_id for r in taken.every(cmd.RequestResource)} - known - kept - used
    for request_id in dropped - released:
        raise taken.broken(JOURNAL_BALANCES, f"{request_id} was asked for, for nobody")
    event = taken.event
    for request_id in released & used:
        if not isinstance(event, ev.ResourceAllocated) or event.request_id != request_id:
            raise taken.broken(JOURNAL_BALANCES, f"{request_id} is given back and used")


def _judge_starts(taken: Taken) -> None:
    """Who begins is told to start, under the name of its request; nobody else is."""
    started = {command.execution_id for command in taken.every(cmd.StartContainer)}
    back = {was.incarnation.execution_id for was, _ in taken.orphans if was is not None}
    for both in taken.both:
        begun = both.begun
        if begun is None or begun.execution_id in back:
            continue  # the same, or an orphan that was taken back
        number, processor = begun.request_id.rpartition("-")[2], both.processor_id.replace("-", "_")
        expected = f"{_safe(taken.after.job)}-{processor}-{number}"
        if begun.execution_id not in started or begun.execution_id != expected:
            raise taken.broken(JOURNAL_BALANCES, f"{begun} was never started")
    current = {
        both.now.incarnation.execution_id: both.now
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    again = taken.restarted or isinstance(taken.event, ev.HostRegistered)
    stopped = {command.execution_id for command in taken.every(cmd.StopContainer)}
    for execution_id in started - stopped:  # both in one step: it was the next one's turn
        now = current.get(execution_id)
        if (now is None and not again) or (now is not None and now.phase is not Phase.STARTING):
            raise taken.broken(JOURNAL_BALANCES, f"{execution_id} is to start, the state has {now}")


def _judge_stops(taken: Taken) -> None:
    """Who is told to stop counts as stopping."""
    stopped = {command.execution_id for command in taken.every(cmd.StopContainer)}
    for both in taken.both:
        now = both.now
        if now is None or now.incarnation is None or now.phase is Phase.STOPPING:
            continue
        if now.incarnation.execution_id in stopped:
            raise taken.broken(JOURNAL_BALANCES, f"{now} is told to stop")


def _judge_ends(taken: Taken) -> None:
    """What was seen dead is on record, forgotten by its host, and its resource free."""
    forgotten = {(c.execution_id, c.host) for c in taken.every(cmd.ForgetContainer)}
    released = {command.request_id for command in taken.every(cmd.ReleaseResource)}
    dead = {
        command.record.execution_id
        for command in taken.every(cmd.RecordCertificate)
        if command.record.how == "dead"
    }
    orphans = {now.incarnation.execution_id for _, now in taken.orphans if now is not None}
    alive = {
        both.now.incarnation.execution_id
        for both in taken.both
        if both.now is not None and both.now.incarnation is not None
    }
    gone = [both.ended for both in taken.both if both.ended is not None]
    gone += [was.incarnation for was, now in taken.orphans if was is not None and now is None]
    for incarnation in gone:
        execution_id = incarnation.execution_id
        if execution_id in orphans or execution_id in alive:
            continue
        if execution_id not in dead:
            raise taken.broken(JOURNAL_BALANCES, f"{execution_id} is gone, no record says how")
        if (execution_id, incarnation.host) not in forgotten:
            raise taken.broken(JOURNAL_BALANCES, f"{incarnation.host} still keeps {execution_id}")
        if incarnation.request_id not in released:
            raise taken.broken(JOURNAL_BALANCES, f"{incarnation.request_id} isn't given back")
    for execution_id, host in forgotten:
        if execution_id in orphans or execution_id in alive:
            raise taken.broken(JOURNAL_BALANCES, f"{host} is to forget {execution_id}")
    event = taken.event
    if (isinstance(event, ev.ContainerStopped | ev.StartFailed)) and (
        ((event.execution_id, event.host) not in forgotten)
        != _was_of_another_journal(taken, event.execution_id)
    ):
        raise taken.broken(JOURNAL_BALANCES, f"{event.host} still keeps {event.execution_id}")


def _was_of_another_journal(taken: Taken, execution_id: str) -> bool:
    """An orphan of a journal that its host doesn't have: who says that it is dead never knew it."""
    for group in taken.before.groups.values():
        for orphan in group.orphans:
            host = taken.before.hosts.get(orphan.incarnation.host)
            if orphan.incarnation.execution_id == execution_id and host is not None:
                return not origins.are_its(host.journal, orphan.incarnation)
    return False


def _judge_fences(taken: Taken) -> None:
    fenced = {command.execution_id for command in taken.every(cmd.FencePrincipal)}
    broker = taken.before.limits.fencing is Fencing.BROKER
    for was, now in taken.orphans:
        if now is None or was is not None:
            continue
        if now.fencing != broker or (now.incarnation.execution_id in fenced) != broker:
            raise taken.broken(
                JOURNAL_BALANCES, f"{now} with fencing {taken.before.limits.fencing}"
            )


def _judge_ahead(taken: Taken) -> None:
    """A process is made ready for a request while the one that it replaces runs, and only then.

    Where a step begins or ends with a process that doesn't run, it may have run within.
    """
    for said in taken.every(cmd.RequestResource):
        phases = {_phase(state, said.processor_id) for state in (taken.before, taken.after)}
        within = not phases <= _WITHOUT_PROCESS or isinstance(taken.event, ev.HostRegistered)
        runs = phases == {Phase.RUNNING}
        if runs > said.ahead or (said.ahead and not within):
            raise taken.broken(JOURNAL_BALANCES, f"{said}, its processor was and is {phases}")


def _phase(state: JobState, processor_id: str) -> Phase | None:
    group = group_with(state, processor_id)
    processor = None if group is None else group.processors.get(processor_id)
    return None if processor is None else processor.phase


def _safe(name: str) -> str:
    """A job's name as ids begin with it: what isn't a letter, a digit or one of `._-` is `_`."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
