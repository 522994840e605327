"""What a host's journal, a sample of lag and a uuid change, and nothing besides."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.indexing import rebuilt
from samza_dagster.placement.state import Ended, Group, Incarnation, Orphan, Phase, Processor
from tests.simulation.judges import origins
from tests.simulation.judges.chronicle import Chronicle
from tests.simulation.judges.legality import (
    destination_of,
    group_with,
)
from tests.simulation.judges.taken import Taken
from tests.simulation.judges.violation import JOURNAL_BALANCES, RECORDS_RESTORE


def judge_arrivals(chronicle: Chronicle, taken: Taken) -> None:
    """By the kind of event."""
    event = taken.event
    if isinstance(event, ev.HostRegistered):
        _judge_journal(taken, event)
    if isinstance(event, ev.ContainerLaunched | ev.ContainerCheckedIn):
        _judge_word_of_orphan(taken, event)
    if isinstance(event, ev.PrincipalFenced):
        _judge_fenced(taken, event)
    if taken.redeployed:
        _judge_outlived(taken)
    _judge_lags(taken)
    _judge_memory(chronicle, taken)
    _judge_places(taken)


def judge_index(taken: Taken) -> None:
    """A coordinator that read the state back has the same index. Dear: for some steps alone."""
    known, anew = taken.after.index, rebuilt(taken.after).index
    for name, found, expected in zip(known._fields, known, anew, strict=True):
        if not found == expected:  # of equal maps of rpds `!=` is true, too
            raise taken.broken(RECORDS_RESTORE, f"index.{name} is {found}, anew {expected}")


def _judge_journal(taken: Taken, event: ev.HostRegistered) -> None:
    """What is in the journal and in the state, what in one of them alone."""
    host, journal = event.host, event.execution_ids
    known = taken.after.hosts.get(host)
    if known is None or not (known.alive and known.registered):
        raise taken.broken(JOURNAL_BALANCES, f"{host} has registered: {known}")
    stopped = {c.execution_id for c in taken.every(cmd.StopContainer) if c.host == host}
    if not journal - stopped <= _known(taken, host):
        raise taken.broken(JOURNAL_BALANCES, f"what is nobody's isn't stopped: {taken.event}")
    started = {c.execution_id for c in taken.every(cmd.StartContainer)}
    asked = {c.request_id for c in taken.every(cmd.RequestResource)}
    for group in taken.before.groups.values():
        now = taken.after.groups.get(group.group_id)
        for pid, processor in group.processors.items():
            incarnation = processor.incarnation
            if incarnation is None or incarnation.host != host:
                continue
            name = incarnation.execution_id
            after = None if now is None else now.processors.get(pid)
            known_now = origins.as_known(event, incarnation)
            kept = after is not None and after.incarnation == known_now
            if not origins.knows(event, incarnation):
                _judge_stray(taken, incarnation, still_there=kept)
                continue
            match processor.phase:
                case Phase.STOPPING:
                    fine = name in stopped and kept
                case Phase.STARTING:
                    fine = kept and (name in started) == (name not in journal)
                case _:
                    fine = kept == (name in journal)
            if not fine:
                raise taken.broken(JOURNAL_BALANCES, f"{processor} with journal {sorted(journal)}")
        for orphan in group.orphans:
            if orphan.incarnation.host == host:
                if origins.knows(event, orphan.incarnation):
                    _judge_orphan(taken, event, orphan, stopped)
                else:
                    _judge_stray(taken, orphan.incarnation, still_there=False)
        held = destination_of(group.action)
        if (held is not None and held.allocated_host == host and held.request_id not in asked) and (
            now is None or now.action is None or destination_of(now.action) is not None
        ):
            raise taken.broken(JOURNAL_BALANCES, f"{host} may have lost {held}")


def _known(taken: Taken, host: str) -> set[str]:
    """What the state had on this host."""
    groups = taken.before.groups.values()
    there = [orphan.incarnation for group in groups for orphan in group.orphans]
    there += [
        it.incarnation for group in groups for it in group.processors.values() if it.incarnation
    ]
    return {incarnation.execution_id for incarnation in there if incarnation.host == host}


def _judge_stray(taken: Taken, incarnation: Incarnation, *, still_there: bool) -> None:
    """Started in another journal: nobody here is told of it, and an orphan of it stays as it was."""
    name = incarnation.execution_id
    commanded = {c.execution_id for c in taken.every(cmd.StopContainer)}
    commanded |= {c.execution_id for c in taken.every(cmd.StartContainer)}
    orphans = [
        orphan
        for group in taken.after.groups.values()
        for orphan in group.orphans
        if orphan.incarnation.execution_id == name
    ]
    if still_there or name in commanded or (orphans and orphans[0].incarnation != incarnation):
        raise taken.broken(JOURNAL_BALANCES, f"{incarnation} isn't in the journal of {taken.event}")


def _judge_orphan(
    taken: Taken, event: ev.HostRegistered, orphan: Orphan, stopped: set[str]
) -> None:
    """Taken back if it ran, still owns its tasks and nothing took its place; else stopped."""
    name = orphan.incarnation.execution_id
    before = next(group for group in taken.before.groups.values() if orphan in group.orphans)
    was = before.processors.get(orphan.processor_id)
    may = name in event.execution_ids and _may_be_taken_back(taken, orphan, was)
    group = taken.after.groups.get(before.group_id)
    now = None if group is None else group.processors.get(orphan.processor_id)
    back = now is not None and now.incarnation == origins.as_known(event, orphan.incarnation)
    if back != may and not (may and len(before.orphans) > 1):
        raise taken.broken(JOURNAL_BALANCES, f"{orphan} may be taken back: {may}, is: {back}")
    if not back and name not in stopped:
        raise taken.broken(JOURNAL_BALANCES, f"{orphan} isn't stopped")
    left = [] if group is None else [g for g in group.orphans if g.incarnation.execution_id == name]
    known = origins.as_known(event, orphan.incarnation)
    if any(orphan.elsewhere or orphan.incarnation != known for orphan in left):
        raise taken.broken(JOURNAL_BALANCES, f"{left} is in the journal of {taken.event}")
    for it in left:
        _judge_lease_that_runs_anew(taken, orphan, it, now)


def _may_be_taken_back(taken: Taken, orphan: Orphan, processor: Processor | None) -> bool:
    """It ran, still owns its tasks, and nothing was started in its stead."""
    return (
        orphan.ran
        and not orphan.fencing
        and orphan.ended is None
        and (orphan.end is None or orphan.end.epoch < orphan.incarnation.epoch)
        and (orphan.lease_ends_ms is None or taken.now_ms < orphan.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def _judge_lease_that_runs_anew(
    taken: Taken, was: Orphan, now: Orphan, processor: Processor | None
) -> None:
    """Whose lease was over has one again: its end doesn't count, unless a successor has begun."""
    owners = [
        one
        for group in taken.before.groups.values()
        for one in group.orphans
        if one.processor_id == was.processor_id and one.ended is None
    ]
    begun = processor is not None and processor.incarnation is not None
    if now.lease_ends_ms is None and was.ended is Ended.LEASE and not owners:
        if (now.ended is None) == begun:
            raise taken.broken(JOURNAL_BALANCES, f"{now} has a lease again, beside {processor}")
    elif now.lease_ends_ms is None and now.ended is not was.ended:
        raise taken.broken(JOURNAL_BALANCES, f"{was} is {now}, another owns its tasks")


def _judge_word_of_orphan(
    taken: Taken, event: ev.ContainerLaunched | ev.ContainerCheckedIn
) -> None:
    """One that may be taken back is so once it has checked in; any other, or a stranger, is stopped."""
    stop = cmd.StopContainer(event.execution_id, event.host)
    if event.execution_id not in _known(taken, event.host) and stop not in taken.commands:
        raise taken.broken(JOURNAL_BALANCES, f"{event.execution_id} is nobody's, and lives on")
    for group in taken.before.groups.values():
        for orphan in group.orphans:
            if orphan.incarnation.execution_id == event.execution_id:
                _judge_said_alive(taken, event, group, orphan)


def _judge_said_alive(
    taken: Taken,
    event: ev.ContainerLaunched | ev.ContainerCheckedIn,
    before: Group,
    orphan: Orphan,
) -> None:
    incarnation = orphan.incarnation
    host = taken.before.hosts.get(incarnation.host)
    back = host is not None and host.registered
    may = back and _may_be_taken_back(taken, orphan, before.processors.get(orphan.processor_id))
    stopped = cmd.StopContainer(incarnation.execution_id, incarnation.host) in taken.commands
    group = taken.after.groups.get(before.group_id)
    now = None if group is None else group.processors.get(orphan.processor_id)
    process = None if now is None else now.incarnation
    runs = process is not None and process.execution_id == incarnation.execution_id
    if stopped != (not may) or runs != (may and isinstance(event, ev.ContainerCheckedIn)):
        raise taken.broken(JOURNAL_BALANCES, f"{orphan} may be taken back: {may}, it is {now}")


def _judge_fenced(taken: Taken, event: ev.PrincipalFenced) -> None:
    """It owns nothing any more, if it was lost and its fence is waited for."""
    for group in taken.before.groups.values():
        for was in group.orphans:
            if was.incarnation.execution_id != event.execution_id:
                continue
            ended = Ended.FENCED if was.fencing and was.ended is None else was.ended
            left = taken.after.groups[group.group_id].orphans
            if not any((it.incarnation, it.ended) == (was.incarnation, ended) for it in left):
                raise taken.broken(JOURNAL_BALANCES, f"{was} is fenced: {left}")


def _judge_outlived(taken: Taken) -> None:
    """What a deployment has replaced counts no more as what ran, and isn't taken back."""
    for group in taken.after.groups.values():
        if any(orphan.ran for orphan in group.orphans):
            raise taken.broken(JOURNAL_BALANCES, f"{group.orphans} are of another deployment")


def _judge_lags(taken: Taken) -> None:
    """The newest sample of each that is there, none of one that starts anew or was removed."""
    expected = taken.before.lags
    if isinstance(taken.event, ev.LagObserved):
        for lag in taken.event.lags:
            group = group_with(taken.after, lag.processor_id)
            if group is not None and group.processors[lag.processor_id].wanted:
                expected = expected.insert(lag.processor_id, lag)
    for start in taken.every(cmd.RecordCertificate):
        if start.record.kind == "start" and start.record.processor_id in expected:
            expected = expected.remove(start.record.processor_id)
    for processor_id in tuple(expected):
        if group_with(taken.after, processor_id) is None:
            expected = expected.remove(processor_id)
    changes = taken.after.lags is not taken.before.lags or expected is not taken.before.lags
    if changes and dict(taken.after.lags) != dict(expected):
        raise taken.broken(JOURNAL_BALANCES, f"lags are {taken.after.lags}, measured {expected}")


def _judge_memory(chronicle: Chronicle, taken: Taken) -> None:
    """Requests are remembered in order of arrival; beyond the limit the oldest are forgotten."""
    before, after = taken.before, taken.after
    _judge_refused(chronicle, taken)
    if after.uuids is before.uuids and after.next_uuid == before.next_uuid:
        return
    event, limit = taken.event, max(0, after.limits.remembered_uuids)
    kept = {uuid: place for uuid, place in before.uuids.items() if place >= after.next_uuid - limit}
    if limit and isinstance(event, ev.RequestArrived):
        kept[event.ask.uuid] = before.next_uuid
    if after.next_uuid != before.next_uuid + 1 or dict(after.uuids) != kept:
        raise taken.broken(JOURNAL_BALANCES, f"remembered are {dict(after.uuids)}, by count {kept}")


def _judge_refused(chronicle: Chronicle, taken: Taken) -> None:
    """What was answered without the reducer is remembered apart, and displaces no outcome."""
    before, after, event = taken.before, taken.after, taken.event
    limit, kept, added = max(0, after.limits.remembered_uuids), dict(before.refused), 0
    if isinstance(event, ev.RequestRefused):
        # A uuid that was known keeps the place, or the outcome, that it had.
        added = int(chronicle.refused.get(event.uuid) == before.next_refused)
        if added:
            kept[event.uuid] = before.next_refused
            kept = {u: p for u, p in kept.items() if p > before.next_refused - limit}
    elif after.refused is before.refused:
        return
    if after.next_refused != before.next_refused + added or dict(after.refused) != kept:
        raise taken.broken(JOURNAL_BALANCES, f"refused are {dict(after.refused)}, by count {kept}")


def _judge_places(taken: Taken) -> None:
    """Whoever checks in has its locality written in the same commit; who gave way has none."""
    said = {c.processor_id: c.host for c in taken.every(cmd.WriteLocality)}
    for both in taken.both:
        was, now = both.was, both.now
        if now is None or now.phase is not Phase.RUNNING or now.incarnation is None:
            continue
        ran = was is not None and was.phase is Phase.RUNNING
        if not ran and said.get(both.processor_id) != now.incarnation.host:
            raise taken.broken(JOURNAL_BALANCES, f"{now} checked in, its locality isn't written")
    for gone in taken.every(cmd.DeleteLocality):
        group = group_with(taken.after, gone.processor_id)
        it = None if group is None else group.processors[gone.processor_id]
        if it is not None and it.processor_id not in said and it.last_seen_host is not None:
            raise taken.broken(JOURNAL_BALANCES, f"{it} has its place still")
