"""Hosts that fall silent and come back, and the ghosts that they leave.

Silence proves no death. An incarnation on a lost host becomes a ghost: its processor goes
on as after a death, but is released nowhere until the ghost was seen dead, is fenced, or
is past its lease (invariant 3), and no member of its group starts on that host until the
ghost was seen dead (invariants 1 and 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from samza_dagster.placement import (
    actions,
    audit,
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
from samza_dagster.placement.events import HostRegistered
from samza_dagster.placement.evolve import evolve
from samza_dagster.placement.state import (
    Ended,
    Fencing,
    Ghost,
    Group,
    Host,
    Phase,
    Processor,
    Stage,
)

Died = Callable[[Draft, str, str, str], None]


def registered(draft: Draft, event: HostRegistered, died: Died) -> None:
    """Compares a host's books with the state; `died` is told of what is dead by their silence.

    One that is starting and isn't on the books never arrived: it is started again. One
    that is stopping is stopped again, also when the books lack it: its start may still be
    on its way, and only the answer to a stop behind it proves it dead. A ghost that may
    be taken back is (should it be dead, that is reported next), any other is stopped,
    and so is what is nobody's.
    """
    host = event.host
    draft.put_host(Host(host, fault_domain=event.fault_domain))
    current: set[str] = set()
    for group_id in draft.index.groups_on(host):
        group = draft.find_group(group_id)
        if group is None:
            continue
        _ask_for_what_is_held(draft, group, host)
        current |= _ghosts_are_back(draft, group, host, event.execution_ids)
        for processor in tuple(draft.group(group_id).processors.values()):
            incarnation = processor.incarnation
            if incarnation is None or incarnation.host != host:
                continue
            current.add(incarnation.execution_id)
            if processor.phase is Phase.STOPPING:
                draft.emit(stop_command(draft, incarnation.execution_id, host))
            elif incarnation.execution_id in event.execution_ids:
                continue
            elif processor.phase is Phase.STARTING:
                draft.emit(containers.start_command(processor.processor_id, incarnation))
            else:
                died(draft, group_id, processor.processor_id, f"{host}'s books lack it")
        draft.unsettled.add(group_id)
    for execution_id in sorted(event.execution_ids - current):
        draft.emit(stop_command(draft, execution_id, host))


def lost(draft: Draft, host: str, last_grant_ms: int) -> None:
    """No word from a host: its incarnations become ghosts, and nothing new goes there."""
    known = draft.hosts.get(host) or Host(host)
    draft.put_host(evolve(known, alive=False, registered=False))
    lease_ends_ms = leases.over_ms(draft.limits, last_grant_ms)
    for group_id in draft.index.groups_on(host):
        draft.unsettled.add(group_id)
        group = draft.group(group_id)
        _ghosts_are_lost(draft, group, host, lease_ends_ms)
        for processor in tuple(group.processors.values()):
            incarnation = processor.incarnation
            if incarnation is not None and incarnation.host == host:
                _haunt(draft, group_id, processor, lease_ends_ms)
        _what_is_held_is_lost(draft, group_id, host)
        leases_over(draft, group_id)


def unregistered_too_long(draft: Draft, names: Iterable[str]) -> None:
    """Hosts that haven't registered with this coordinator within the limit are lost.

    All of them are marked before anything follows: none is another's way out.
    """
    silent: list[Host] = []
    for name in names:
        known = draft.hosts.get(name)
        if known is None or known.registered or not known.alive:
            continue
        if known.silent_since_ms + draft.limits.host_timeout_ms <= draft.now_ms:
            draft.put_host(evolve(known, alive=False))
            silent.append(known)
    for host in silent:
        lost(draft, host.host, host.silent_since_ms)


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
        and (ghost.lease_ends_ms is None or draft.now_ms < ghost.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def ghost_alive(draft: Draft, group: Group, ghost: Ghost, *, checked_in: bool) -> None:
    """Its host is back and says that it runs: taken back if it may be, else stopped."""
    host = ghost.incarnation.host
    known = draft.hosts.get(host)
    back = known is not None and known.alive and known.registered
    if not (back and may_be_taken_back(draft, group, ghost)):
        draft.emit(stop_command(draft, ghost.incarnation.execution_id, host))
        return
    if checked_in:
        _take_back(draft, group.group_id, ghost)


def ghost_dead(draft: Draft, group: Group, ghost: Ghost, evidence: str) -> None:
    """It was seen dead: its host is free for its group, its processor for any host."""
    incarnation = ghost.incarnation
    if ghost.ended is None:
        end_ghost(draft, group.group_id, ghost, Ended.DEAD, evidence)
    else:
        # Its tasks went with its fence or lease; its death is what frees its host, and is
        # on record for whoever asks why a member of the group could start there.
        audit.end(draft, group.group_id, ghost.processor_id, incarnation, Ended.DEAD, evidence)
    left = tuple(
        other
        for other in draft.group(group.group_id).ghosts
        if other.incarnation.execution_id != incarnation.execution_id
    )
    draft.put_ghosts(group.group_id, left)
    draft.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )


def fenced(draft: Draft, execution_id: str) -> None:
    """The brokers refuse it: it owns nothing any more, alive or not."""
    group = draft.group_of_id(execution_id)
    ghost = None if group is None else ghost_of(group, execution_id)
    if group is not None and ghost is not None and ghost.fencing and ghost.ended is None:
        end_ghost(draft, group.group_id, ghost, Ended.FENCED, "the brokers refuse its principal")


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
            _put_ghost(draft, group_id, evolve(ghost, lease_ends_ms=again_ms))
            draft.emit(fence_command(ghost))
        else:
            evidence = f"its lease ended at {ends_ms}, it is {draft.now_ms}"
            end_ghost(draft, group_id, ghost, Ended.LEASE, evidence)


def end_ghost(draft: Draft, group_id: str, ghost: Ghost, how: Ended, evidence: str) -> None:
    """It owns its tasks no more."""
    last = audit.end(draft, group_id, ghost.processor_id, ghost.incarnation, how, evidence)
    group = draft.group(group_id)
    _put_ghost(draft, group_id, evolve(ghost, ended=how, end=last))
    processor = group.processors.get(ghost.processor_id)
    if processor is not None:
        draft.put_processor(group_id, evolve(processor, last_end=last))


def stop_command(draft: Draft, execution_id: str, host: str) -> StopContainer:
    """The stop of any incarnation; its processor id is read from its execution id."""
    name, _, _ = execution_id.rpartition("-")
    return StopContainer(name.removeprefix(f"{draft.safe_job}-"), execution_id, host)


def fence_command(ghost: Ghost) -> FencePrincipal:
    """The fence of a ghost; the same for each repetition."""
    return FencePrincipal(ghost.processor_id, ghost.incarnation.execution_id)


def _ask_for_what_is_held(draft: Draft, group: Group, host: str) -> None:
    """A host that begins anew may have lost what was reserved on it."""
    action = group.action
    if action is None or action.reservation is None or action.reservation.allocated_host != host:
        return
    reservation = evolve(action.reservation, confirmed=False)
    draft.put_action(group.group_id, evolve(action, reservation=reservation))
    draft.emit(containers.request_command(draft, ownership.subject(action), reservation))


def _ghosts_are_back(
    draft: Draft, group: Group, host: str, execution_ids: frozenset[str]
) -> set[str]:
    """The host's ghosts have leases again: each is taken back or stopped. Returns their ids."""
    back: set[str] = set()
    for ghost in group.ghosts:
        execution_id = ghost.incarnation.execution_id
        if ghost.incarnation.host != host:
            continue
        back.add(execution_id)
        on_books = execution_id in execution_ids
        if on_books and may_be_taken_back(draft, draft.group(group.group_id), ghost):
            _take_back(draft, group.group_id, ghost)
            continue
        _put_ghost(draft, group.group_id, evolve(ghost, lease_ends_ms=None))
        draft.emit(stop_command(draft, execution_id, host))
    return back


def _ghosts_are_lost(draft: Draft, group: Group, host: str, lease_ends_ms: int) -> None:
    """Ghosts on a host that fell silent once more: their leases end now too."""
    for ghost in group.ghosts:
        if ghost.incarnation.host == host and ghost.lease_ends_ms is None:
            _put_ghost(draft, group.group_id, evolve(ghost, lease_ends_ms=lease_ends_ms))


def _what_is_held_is_lost(draft: Draft, group_id: str, host: str) -> None:
    """Nothing is stopped for a reservation that nobody answers for any more."""
    group = draft.find_group(group_id)
    action = None if group is None else group.action
    if action is None or action.stage is not Stage.HELD or action.reservation is None:
        return
    if action.reservation.allocated_host == host:
        actions.give_up(draft, group_id, action, texts.host_lost(host))


def _put_ghost(draft: Draft, group_id: str, ghost: Ghost) -> None:
    execution_id = ghost.incarnation.execution_id
    draft.put_ghosts(
        group_id,
        tuple(
            ghost if other.incarnation.execution_id == execution_id else other
            for other in draft.group(group_id).ghosts
        ),
    )


def _haunt(draft: Draft, group_id: str, processor: Processor, lease_ends_ms: int) -> None:
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
    )
    if fencing:
        draft.emit(fence_command(ghost))
    draft.put_ghosts(group_id, (*draft.group(group_id).ghosts, ghost))
    draft.put_processor(group_id, containers.without_process(draft, processor))
    ends.after_end(draft, group_id, processor, lost=True)


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
        evolve(
            processor,
            phase=Phase.RUNNING,
            incarnation=ghost.incarnation,
            last_seen_host=host,
            attempts=0,
            avoid_hosts=(),
        ),
    )
    draft.emit(WriteLocality(ghost.processor_id, host))
    failing_over = draft.group(group_id).failover
    if failing_over is not None and failing_over.active_id == ghost.processor_id:
        failover.call_off(draft, group_id)
    action = ownership.owner(draft.group(group_id), ghost.processor_id, Stage.STARTING)
    if action is not None:
        responses.fail(draft, group_id, action, texts.came_back(host))
        draft.put_action(group_id, None)
