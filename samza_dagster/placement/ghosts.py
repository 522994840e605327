"""Ghosts: incarnations on hosts that fell silent, alive or dead, nobody knows.

Or on a machine that another one has replaced under its name, with other books.
Their processors go on as after a death, but are released nowhere until the ghost was
seen dead, is fenced, or is past its lease (invariant 3), and no member of the group
starts on a ghost's host until it was seen dead (invariants 1 and 2), or has ended and is on
another machine than the one of that name. It stays a ghost then, as nobody saw it dead.
"""

from __future__ import annotations

from samza_dagster.placement import (
    audit,
    books,
    containers,
    ends,
    failover,
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
from samza_dagster.placement.state import Ended, Fencing, Ghost, Group, Phase, Processor, Stage


def haunt(draft: Draft, group_id: str, processor: Processor, lease_ends_ms: int) -> None:
    """An incarnation on a host that fell silent: a ghost from now on, and what follows an end."""
    incarnation = processor.incarnation
    assert incarnation is not None
    fencing = draft.limits.fencing is Fencing.BROKER
    ghost = Ghost(
        processor.processor_id,
        incarnation,
        draft.now_ms,
        lease_ends_ms,
        ran=processor.phase is Phase.RUNNING,
        fencing=fencing,
        elsewhere=books.machine_is_another(draft.hosts, incarnation),
    )
    if fencing:
        draft.emit(fence_command(ghost))
    draft.put_ghosts(group_id, (*draft.group(group_id).ghosts, ghost))
    draft.put_processor(group_id, containers.without_process(draft, processor, processor.last_end))
    leases_over(draft, group_id)  # first: what follows chooses among the hosts
    ends.after_end(draft, group_id, processor, lost=True)


def back(draft: Draft, group: Group, host: str, execution_ids: frozenset[str]) -> set[str]:
    """The host's ghosts have leases again: each is taken back or stopped. Returns their ids.

    Those of other books have none, and nobody there to stop them.
    """
    back: set[str] = set()
    for before in group.ghosts:
        execution_id = before.incarnation.execution_id
        if before.incarnation.host != host:
            continue
        back.add(execution_id)
        on_books = execution_id in execution_ids
        if not on_books and not books.know(draft.hosts, before.incarnation):
            _replaced(draft, group.group_id, before)
            continue
        ghost = _entered(draft, group.group_id, before)
        if on_books and may_be_taken_back(draft, draft.group(group.group_id), ghost):
            _take_back(draft, group.group_id, ghost)
            continue
        again = _is_waited_for_again(draft.group(group.group_id), ghost)
        leased = ghost.evolve(lease_ends_ms=None, ended=None if again else ghost.ended)
        _put_ghost(draft, group.group_id, leased)
        draft.emit(StopContainer(execution_id, host))
    return back


def lost_again(draft: Draft, group: Group, host: str, lease_ends_ms: int) -> None:
    """Ghosts on a host that fell silent once more: their leases end now too."""
    for ghost in group.ghosts:
        if ghost.incarnation.host == host and ghost.lease_ends_ms is None:
            _put_ghost(draft, group.group_id, ghost.evolve(lease_ends_ms=lease_ends_ms))


def outlived(draft: Draft, group_id: str, fencing: Fencing) -> None:
    """A deployment has replaced theirs: none is taken back."""
    for ghost in draft.group(group_id).ghosts:
        _put_ghost(draft, group_id, fenced_as_ever(ghost, fencing).evolve(ran=False))


def fenced_as_ever(ghost: Ghost, fencing: Fencing) -> Ghost:
    """A fence that the job has no more isn't waited for; one commanded may still shut it out."""
    if not ghost.fencing or fencing is Fencing.BROKER:
        return ghost
    return ghost.evolve(fencing=False, ran=False)


def ghost_of(group: Group, execution_id: str) -> Ghost | None:
    """The group's ghost that is this incarnation."""
    for ghost in group.ghosts:
        if ghost.incarnation.execution_id == execution_id:
            return ghost
    return None


def may_be_taken_back(draft: Draft, group: Group, ghost: Ghost) -> bool:
    """It ran, still owns its tasks, and nothing was started in its stead."""
    processor = group.processors.get(ghost.processor_id)
    return (
        ghost.ran
        and not ghost.fencing
        and ghost.ended is None
        and not _ended_once(ghost)
        and (ghost.lease_ends_ms is None or draft.now_ms < ghost.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def alive(draft: Draft, group: Group, ghost: Ghost, *, checked_in: bool) -> None:
    """Its host is back and says that it runs: taken back if it may be, else stopped."""
    ghost = _entered(draft, group.group_id, ghost)
    host = ghost.incarnation.host
    known = draft.hosts.get(host)
    back = known is not None and known.alive and known.registered
    if not (back and may_be_taken_back(draft, group, ghost)):
        draft.emit(StopContainer(ghost.incarnation.execution_id, host))
        return
    if checked_in:
        _take_back(draft, group.group_id, ghost)


def dead(draft: Draft, group: Group, ghost: Ghost, evidence: str) -> None:
    """It was seen dead: its host is free for its group, its processor for any host.

    An agent that never knew it can't have seen that.
    """
    incarnation = ghost.incarnation
    if not books.know(draft.hosts, incarnation):
        return
    if ghost.ended is None:
        end(draft, group.group_id, ghost, Ended.DEAD, evidence)
    else:
        # Its tasks went with its fence or lease; its death is what frees its host, and is
        # on record for whoever asks why a member of the group could start there.
        audit.end(draft, group.group_id, ghost.processor_id, incarnation, Ended.DEAD, evidence)
    draft.put_ghosts(group.group_id, _without(draft.group(group.group_id), ghost))
    draft.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )


def fenced(draft: Draft, execution_id: str) -> None:
    """The brokers refuse it: it owns nothing any more, alive or not."""
    group = draft.group_of_id(execution_id)
    ghost = None if group is None else ghost_of(group, execution_id)
    if group is not None and ghost is not None and ghost.fencing and ghost.ended is None:
        end(draft, group.group_id, ghost, Ended.FENCED, "the brokers refuse its principal")


def leases_over(draft: Draft, group_id: str) -> None:
    """Ends the group's ghosts whose lease has run out.

    A lease bounds the overlap with a host that was frozen but can't exclude it. A fence
    can, so one that was commanded is waited for, and commanded again.
    """
    group = draft.find_group(group_id)
    for ghost in () if group is None else group.ghosts:
        ends_ms = ghost.lease_ends_ms
        if ghost.ended is not None or ends_ms is None or ends_ms > draft.now_ms:
            continue
        if ghost.fencing:
            again_ms = draft.now_ms + draft.limits.lease_ms
            _put_ghost(draft, group_id, ghost.evolve(lease_ends_ms=again_ms))
            draft.emit(fence_command(ghost))
        else:
            evidence = f"its lease ended at {ends_ms}, it is {draft.now_ms}"
            end(draft, group_id, ghost, Ended.LEASE, evidence)


def end(draft: Draft, group_id: str, ghost: Ghost, how: Ended, evidence: str) -> None:
    """It owns its tasks no more."""
    last = audit.end(draft, group_id, ghost.processor_id, ghost.incarnation, how, evidence)
    group = draft.group(group_id)
    _put_ghost(draft, group_id, ghost.evolve(ended=how, end=ownership.newest_end(ghost.end, last)))
    processor = group.processors.get(ghost.processor_id)
    if processor is not None:
        newest = ownership.newest_end(processor.last_end, last)
        draft.put_processor(group_id, processor.evolve(last_end=newest))


def _replaced(draft: Draft, group_id: str, ghost: Ghost) -> None:
    """Its host registered with other books: it gets no lease from now on."""
    ends_ms = ghost.lease_ends_ms
    if ends_ms is None:
        ends_ms = leases.over_ms(draft.limits, draft.now_ms)
    elsewhere = books.machine_is_another(draft.hosts, ghost.incarnation)
    if (ends_ms, elsewhere) != (ghost.lease_ends_ms, ghost.elsewhere):
        _put_ghost(draft, group_id, ghost.evolve(lease_ends_ms=ends_ms, elsewhere=elsewhere))


def _entered(draft: Draft, group_id: str, ghost: Ghost) -> Ghost:
    """It stands in the books of its host as they are now."""
    incarnation = books.entered(draft.hosts, ghost.incarnation)
    if incarnation is ghost.incarnation and not ghost.elsewhere:
        return ghost
    ghost = ghost.evolve(incarnation=incarnation, elsewhere=False)
    _put_ghost(draft, group_id, ghost)
    return ghost


def fence_command(ghost: Ghost) -> FencePrincipal:
    """The fence of a ghost; the same for each repetition."""
    return FencePrincipal(ghost.processor_id, ghost.incarnation.execution_id)


def _is_waited_for_again(group: Group, ghost: Ghost) -> bool:
    """Its lease was over, its host renews it now, and no successor may own its tasks meanwhile."""
    processor = group.processors.get(ghost.processor_id)
    begun = processor is not None and processor.incarnation is not None
    return (
        ghost.ended is Ended.LEASE
        and not begun
        and ownership.owning_ghost(group, ghost.processor_id) is None
    )


def _ended_once(ghost: Ghost) -> bool:
    """Its lease was over before its host came back: on record by its own end, or a successor's."""
    return ghost.end is not None and ghost.end.epoch >= ghost.incarnation.epoch


def _without(group: Group, gone: Ghost) -> tuple[Ghost, ...]:
    """The group's other ghosts; those of the same processor remember how it ended last."""
    ghosts = {ghost.incarnation.execution_id: ghost for ghost in group.ghosts}
    last = ghosts.pop(gone.incarnation.execution_id, gone).end
    return tuple(
        ghost.evolve(end=ownership.newest_end(ghost.end, last))
        if ghost.processor_id == gone.processor_id
        else ghost
        for ghost in ghosts.values()
    )


def _put_ghost(draft: Draft, group_id: str, ghost: Ghost) -> None:
    execution_id = ghost.incarnation.execution_id
    draft.put_ghosts(
        group_id,
        tuple(
            ghost if other.incarnation.execution_id == execution_id else other
            for other in draft.group(group_id).ghosts
        ),
    )


def _take_back(draft: Draft, group_id: str, ghost: Ghost) -> None:
    """It runs as if nothing had been: what was begun in its stead is called off."""
    group = draft.group(group_id)
    execution_id = ghost.incarnation.execution_id
    left = tuple(g for g in group.ghosts if g.incarnation.execution_id != execution_id)
    draft.put_ghosts(group_id, left)
    containers.drop_request(draft, group_id, ghost.processor_id)
    processor = draft.processor(group_id, ghost.processor_id)
    host = ghost.incarnation.host
    draft.put_processor(
        group_id,
        processor.evolve(
            phase=Phase.RUNNING,
            incarnation=ghost.incarnation,
            last_seen_host=host,
            attempts=0,
            avoid_hosts=(),
            unplaced=False,
            sought=(),
        ),
    )
    draft.emit(WriteLocality(ghost.processor_id, host))
    failing_over = draft.group(group_id).failover
    if failing_over is not None and failing_over.active_id == ghost.processor_id:
        failover.call_off(draft, group_id)
    action = ownership.owner(draft.group(group_id), ghost.processor_id, Stage.STARTING)
    if action is not None:
        action = action.sparing(ghost.processor_id)
        responses.fail(draft, group_id, action, texts.came_back(host))
        draft.put_action(group_id, None)
