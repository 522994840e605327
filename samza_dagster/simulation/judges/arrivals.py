"""What a host's journal, a sample of lag and a uuid change, and nothing besides."""

from __future__ import annotations

from samza_dagster.placement import commands as cmd
from samza_dagster.placement import events as ev
from samza_dagster.placement.index_draft import rebuilt
from samza_dagster.placement.reducer import step
from samza_dagster.placement.state import Incarnation, Orphan, Phase
from samza_dagster.simulation.judges import origins
from samza_dagster.simulation.judges.chronicle import Chronicle
from samza_dagster.simulation.judges.legality import group_with
from samza_dagster.simulation.judges.taken import Taken
from samza_dagster.simulation.judges.violation import JOURNAL_BALANCES, RECORDS_RESTORE


def judge_arrivals(chronicle: Chronicle, taken: Taken) -> None:
    """By the kind of event."""
    event = taken.event
    if isinstance(event, ev.HostRegistered):
        _judge_journal(taken, event)
    if taken.redeployed:
        _judge_outlived(taken)
    _judge_lags(taken)
    _judge_memory(chronicle, taken)
    _judge_places(taken)


def judge_same_without_index(taken: Taken) -> None:
    """A coordinator that read the state back takes the same step. Dear: for some steps alone."""
    again = step(rebuilt(taken.before), taken.event)
    if again.commands != taken.commands or again.state != taken.after:
        raise taken.broken(RECORDS_RESTORE, "read back, it takes another step")


def _judge_journal(taken: Taken, event: ev.HostRegistered) -> None:
    """What is in the journal and in the state, what in one of them alone."""
    host, journal = event.host, event.execution_ids
    known = taken.after.hosts.get(host)
    if known is None or not (known.alive and known.registered):
        raise taken.broken(JOURNAL_BALANCES, f"{host} has registered: {known}")
    stopped = {c.execution_id for c in taken.every(cmd.StopContainer) if c.host == host}
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
        action = group.action
        held = None if action is None else action.reservation
        if (held is not None and held.allocated_host == host and held.request_id not in asked) and (
            now is None or now.action is None or now.action.reservation is not None
        ):
            raise taken.broken(JOURNAL_BALANCES, f"{host} may have lost {held}")


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
    in_time = orphan.lease_ends_ms is None or taken.now_ms < orphan.lease_ends_ms
    may = (
        name in event.execution_ids
        and orphan.ran
        and not orphan.fencing
        and orphan.ended is None
        and (orphan.end is None or orphan.end.epoch < orphan.incarnation.epoch)
        and in_time
        and was is not None
        and was.wanted
        and was.incarnation is None
    )
    group = taken.after.groups.get(before.group_id)
    now = None if group is None else group.processors.get(orphan.processor_id)
    back = now is not None and now.incarnation == origins.as_known(event, orphan.incarnation)
    if back != may and not (may and len(before.orphans) > 1):
        raise taken.broken(JOURNAL_BALANCES, f"{orphan} may be taken back: {may}, is: {back}")
    if not back and name not in stopped:
        raise taken.broken(JOURNAL_BALANCES, f"{orphan} isn't stopped")
    left = [] if group is None else [g for g in group.orphans if g.incarnation.execution_id == name]
    if any(orphan.elsewhere for orphan in left):
        raise taken.broken(JOURNAL_BALANCES, f"{left} is in the journal of {taken.event}")


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
                expected = expected.set(lag.processor_id, lag)
    for start in taken.every(cmd.RecordCertificate):
        if start.record.kind == "start" and start.record.processor_id in expected:
            expected = expected.delete(start.record.processor_id)
    for processor_id in tuple(expected):
        if group_with(taken.after, processor_id) is None:
            expected = expected.delete(processor_id)
    changes = taken.after.lags is not taken.before.lags or expected is not taken.before.lags
    if changes and taken.after.lags != expected:
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
    """Whoever checks in has its locality written in the same commit."""
    said = {c.processor_id: c.host for c in taken.every(cmd.WriteLocality)}
    for both in taken.both:
        was, now = both.was, both.now
        if now is None or now.phase is not Phase.RUNNING or now.incarnation is None:
            continue
        ran = was is not None and was.phase is Phase.RUNNING
        if not ran and said.get(both.processor_id) != now.incarnation.host:
            raise taken.broken(JOURNAL_BALANCES, f"{now} checked in, its locality isn't written")
