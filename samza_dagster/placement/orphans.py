"""Orphaned incarnations, on hosts that fell silent: alive or dead, nobody knows.

Or on a machine that another one has replaced under its name, with another journal.
Their processors go on as after a death, but are released nowhere until the orphan was
seen dead, is fenced, or is past its lease (invariant 3), and no member of the group
starts on an orphan's host until it was seen dead (invariants 1 and 2), or has ended and is on
another machine than the one of that name. It stays an orphan then, as nobody saw it dead.
"""

from __future__ import annotations

from samza_dagster.placement import (
    audit,
    containers,
    ends,
    failover,
    journal,
    leases,
    ownership,
    responses,
    texts,
)
from samza_dagster.placement.commands import (
    FencePrincipal,
    ForgetContainer,
    ReleaseResource,
    StopContainer,
    WriteLocality,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Ended, Fencing, Group, Orphan, Phase, Processor, Stage


def lose(draft: Draft, group_id: str, processor: Processor, lease_ends_ms: int) -> None:
    """An incarnation on a host that fell silent: an orphan from now on, and what follows an end."""
    incarnation = processor.incarnation
    assert incarnation is not None
    fencing = draft.limits.fencing is Fencing.BROKER
    orphan = Orphan(
        processor.processor_id,
        incarnation,
        draft.now_ms,
        lease_ends_ms,
        ran=processor.phase is Phase.RUNNING,
        fencing=fencing,
        elsewhere=journal.machine_is_another(draft.hosts, incarnation),
    )
    if fencing:
        draft.emit(fence_command(orphan))
    draft.put_orphans(group_id, (*draft.group(group_id).orphans, orphan))
    draft.put_processor(group_id, containers.without_process(draft, processor, processor.last_end))
    leases_over(draft, group_id)  # first: what follows chooses among the hosts
    ends.after_end(draft, group_id, processor, lost=True)


def back(draft: Draft, group: Group, host: str, execution_ids: frozenset[str]) -> set[str]:
    """The host's orphans have leases again: each is taken back or stopped. Returns their ids.

    One of another journal has none, and nobody there to stop them.
    """
    back: set[str] = set()
    for before in group.orphans:
        execution_id = before.incarnation.execution_id
        if before.incarnation.host != host:
            continue
        back.add(execution_id)
        in_journal = execution_id in execution_ids
        if not in_journal and not journal.know(draft.hosts, before.incarnation):
            _replaced(draft, group.group_id, before)
            continue
        orphan = _entered(draft, group.group_id, before)
        if in_journal and _may_be_taken_back(draft, draft.group(group.group_id), orphan):
            _take_back(draft, group.group_id, orphan)
            continue
        again = _is_waited_for_again(draft.group(group.group_id), orphan)
        leased = orphan.evolve(lease_ends_ms=None, ended=None if again else orphan.ended)
        _put_orphan(draft, group.group_id, leased)
        draft.emit(StopContainer(execution_id, host))
    return back


def lost_again(draft: Draft, group: Group, host: str, lease_ends_ms: int) -> None:
    """Orphans on a host that fell silent once more: their leases end now too."""
    for orphan in group.orphans:
        if orphan.incarnation.host == host and orphan.lease_ends_ms is None:
            _put_orphan(draft, group.group_id, orphan.evolve(lease_ends_ms=lease_ends_ms))


def outlived(draft: Draft, group_id: str, fencing: Fencing) -> None:
    """A deployment has replaced theirs: none is taken back."""
    for orphan in draft.group(group_id).orphans:
        _put_orphan(draft, group_id, fenced_as_ever(orphan, fencing).evolve(ran=False))


def fenced_as_ever(orphan: Orphan, fencing: Fencing) -> Orphan:
    """A fence that the job has no more isn't waited for; one commanded may still shut it out."""
    if not orphan.fencing or fencing is Fencing.BROKER:
        return orphan
    return orphan.evolve(fencing=False, ran=False)


def orphan_of(group: Group, execution_id: str) -> Orphan | None:
    """The group's orphan that is this incarnation."""
    for orphan in group.orphans:
        if orphan.incarnation.execution_id == execution_id:
            return orphan
    return None


def _may_be_taken_back(draft: Draft, group: Group, orphan: Orphan) -> bool:
    """It ran, still owns its tasks, and nothing was started in its stead."""
    processor = group.processors.get(orphan.processor_id)
    return (
        orphan.ran
        and not orphan.fencing
        and orphan.ended is None
        and not _ended_once(orphan)
        and (orphan.lease_ends_ms is None or draft.now_ms < orphan.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def alive(draft: Draft, group: Group, orphan: Orphan, *, checked_in: bool) -> None:
    """Its host is back and says that it runs: taken back if it may be, else stopped."""
    orphan = _entered(draft, group.group_id, orphan)
    host = orphan.incarnation.host
    known = draft.hosts.get(host)
    back = known is not None and known.registered
    if not (back and _may_be_taken_back(draft, group, orphan)):
        draft.emit(StopContainer(orphan.incarnation.execution_id, host))
        return
    if checked_in:
        _take_back(draft, group.group_id, orphan)


def dead(draft: Draft, group: Group, orphan: Orphan, evidence: str) -> None:
    """It was seen dead: its host is free for its group, its processor for any host.

    An agent that never knew it can't have seen that.
    """
    incarnation = orphan.incarnation
    if not journal.know(draft.hosts, incarnation):
        return
    if orphan.ended is None:
        end(draft, group.group_id, orphan, Ended.DEAD, evidence)
    else:
        # Its tasks went with its fence or lease; its death is what frees its host, and is
        # on record for whoever asks why a member of the group could start there.
        audit.end(draft, group.group_id, orphan.processor_id, incarnation, Ended.DEAD, evidence)
    draft.put_orphans(group.group_id, _without(draft.group(group.group_id), orphan))
    draft.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )


def fenced(draft: Draft, execution_id: str) -> None:
    """The brokers refuse it: it owns nothing any more, alive or not."""
    group = draft.group_of_id(execution_id)
    orphan = None if group is None else orphan_of(group, execution_id)
    if group is not None and orphan is not None and orphan.fencing and orphan.ended is None:
        end(draft, group.group_id, orphan, Ended.FENCED, "the brokers refuse its principal")


def leases_over(draft: Draft, group_id: str) -> None:
    """Ends the group's orphans whose lease has run out.

    A lease bounds the overlap with a host that was frozen but can't exclude it. A fence
    can, so one that was commanded is waited for, and commanded again.
    """
    group = draft.find_group(group_id)
    for orphan in () if group is None else group.orphans:
        ends_ms = orphan.lease_ends_ms
        if orphan.ended is not None or ends_ms is None or ends_ms > draft.now_ms:
            continue
        if orphan.fencing:
            again_ms = draft.now_ms + draft.limits.lease_ms
            _put_orphan(draft, group_id, orphan.evolve(lease_ends_ms=again_ms))
            draft.emit(fence_command(orphan))
        else:
            evidence = f"its lease ended at {ends_ms}, it is {draft.now_ms}"
            end(draft, group_id, orphan, Ended.LEASE, evidence)


def end(draft: Draft, group_id: str, orphan: Orphan, how: Ended, evidence: str) -> None:
    """It owns its tasks no more."""
    last = audit.end(draft, group_id, orphan.processor_id, orphan.incarnation, how, evidence)
    group = draft.group(group_id)
    _put_orphan(
        draft, group_id, orphan.evolve(ended=how, end=ownership.newest_end(orphan.end, last))
    )
    processor = group.processors.get(orphan.processor_id)
    if processor is not None:
        newest = ownership.newest_end(processor.last_end, last)
        draft.put_processor(group_id, processor.evolve(last_end=newest))


def _replaced(draft: Draft, group_id: str, orphan: Orphan) -> None:
    """Its host registered with another journal: it gets no lease from now on."""
    ends_ms = orphan.lease_ends_ms
    if ends_ms is None:
        ends_ms = leases.over_ms(draft.limits, draft.now_ms)
    elsewhere = journal.machine_is_another(draft.hosts, orphan.incarnation)
    if (ends_ms, elsewhere) != (orphan.lease_ends_ms, orphan.elsewhere):
        _put_orphan(draft, group_id, orphan.evolve(lease_ends_ms=ends_ms, elsewhere=elsewhere))


def _entered(draft: Draft, group_id: str, orphan: Orphan) -> Orphan:
    """It stands in the journal of its host as it is now."""
    incarnation = journal.entered(draft.hosts, orphan.incarnation)
    orphan = orphan.evolve(incarnation=incarnation, elsewhere=False)
    _put_orphan(draft, group_id, orphan)
    return orphan


def fence_command(orphan: Orphan) -> FencePrincipal:
    """The fence of an orphan; the same for each repetition."""
    return FencePrincipal(orphan.processor_id, orphan.incarnation.execution_id)


def _is_waited_for_again(group: Group, orphan: Orphan) -> bool:
    """Its lease was over, its host renews it now, and no successor may own its tasks meanwhile."""
    processor = group.processors.get(orphan.processor_id)
    begun = processor is not None and processor.incarnation is not None
    return (
        orphan.ended is Ended.LEASE
        and not begun
        and ownership.owning_orphan(group, orphan.processor_id) is None
    )


def _ended_once(orphan: Orphan) -> bool:
    """Its lease was over before its host came back: on record by its own end, or a successor's."""
    return orphan.end is not None and orphan.end.epoch >= orphan.incarnation.epoch


def _without(group: Group, gone: Orphan) -> tuple[Orphan, ...]:
    """The group's other orphans; those of the same processor remember how it ended last."""
    orphans = {orphan.incarnation.execution_id: orphan for orphan in group.orphans}
    last = orphans.pop(gone.incarnation.execution_id, gone).end
    return tuple(
        orphan.evolve(end=ownership.newest_end(orphan.end, last))
        if orphan.processor_id == gone.processor_id
        else orphan
        for orphan in orphans.values()
    )


def _put_orphan(draft: Draft, group_id: str, orphan: Orphan) -> None:
    execution_id = orphan.incarnation.execution_id
    draft.put_orphans(
        group_id,
        tuple(
            orphan if other.incarnation.execution_id == execution_id else other
            for other in draft.group(group_id).orphans
        ),
    )


def _take_back(draft: Draft, group_id: str, orphan: Orphan) -> None:
    """It runs as if nothing had been: what was begun in its stead is called off."""
    group = draft.group(group_id)
    execution_id = orphan.incarnation.execution_id
    left = tuple(g for g in group.orphans if g.incarnation.execution_id != execution_id)
    draft.put_orphans(group_id, left)
    containers.drop_request(draft, group_id, orphan.processor_id)
    processor = draft.processor(group_id, orphan.processor_id)
    host = orphan.incarnation.host
    draft.put_processor(
        group_id,
        processor.evolve(
            phase=Phase.RUNNING,
            incarnation=orphan.incarnation,
            last_seen_host=host,
            attempts=0,
            avoid_hosts=(),
            unplaced=False,
            sought=(),
        ),
    )
    draft.emit(WriteLocality(orphan.processor_id, host))
    failing_over = draft.group(group_id).failover
    if failing_over is not None and failing_over.active_id == orphan.processor_id:
        failover.call_off(draft, group_id)
    action = ownership.owner(draft.group(group_id), orphan.processor_id, Stage.STARTING)
    if action is not None:
        action = action.sparing(orphan.processor_id)
        responses.fail(draft, group_id, action, texts.came_back(host))
        draft.put_action(group_id, None)
