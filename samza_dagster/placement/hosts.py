"""Hosts that register, fall silent and come back, and what was orphaned on them.

An orphan is an incarnation on a host that fell silent: alive or dead, nobody knows. Or one on a
machine that another one has replaced under its name, with another journal.
Its processor goes on as after a death, but is released nowhere until the orphan was
seen dead, is fenced, or is past its lease (invariant 3), and no member of the group
starts on an orphan's host until it was seen dead (invariants 1 and 2), or has ended and is on
another machine than the one of that name. It stays an orphan then, as nobody saw it dead.
"""

from __future__ import annotations

from samza_dagster.placement import (
    audit,
    containers,
    failover,
    journal,
    leases,
    moves,
    ownership,
    processes,
    texts,
)
from samza_dagster.placement.commands import (
    FencePrincipal,
    ForgetContainer,
    ReleaseResource,
    StopContainer,
)
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.events import HostRegistered
from samza_dagster.placement.state import (
    End,
    Ended,
    Fencing,
    Group,
    Host,
    Incarnation,
    Move,
    Orphan,
    Phase,
    Processor,
    Stage,
)


def registered(draft: Draft, event: HostRegistered) -> None:
    """Compares a host's journal with the state.

    Only the journal that an incarnation was started on can prove it dead by that. An agent
    with others, of another machine of that name or of another directory, makes it an orphan
    as the loss of its host does. It gets no lease any more from when those registered.

    One that is starting and isn't in the journal never arrived: it is started again. One
    that is stopping is stopped again, also when the journal lacks it: its start may still be
    on its way, and only the answer to a stop behind it proves it dead. An orphan that may
    be taken back is (should it be dead, that is reported next), any other is stopped,
    and so is what is nobody's.
    """
    host = event.host
    draft.put_host(
        Host(host, fault_domain=event.fault_domain, journal=event.journal, boot_id=event.boot_id)
    )
    current: set[str] = set()
    for group_id in draft.index.groups_on(host):
        step = draft.at(group_id)
        _ask_for_what_is_held(step, host)
        current |= _orphans_back(step, host, event.execution_ids)
        # The last of its orphans may be gone, and the group with it.
        for processor in () if step.found is None else step.found.processors.values():
            incarnation = processor.incarnation
            if incarnation is not None and incarnation.host == host:
                current.add(incarnation.execution_id)
                listed = incarnation.execution_id in event.execution_ids
                _compare(step, processor, incarnation, listed=listed)
        draft.unsettled.add(group_id)
    for execution_id in sorted(event.execution_ids - current):
        draft.emit(StopContainer(execution_id, host))


def _compare(
    step: GroupStep, processor: Processor, incarnation: Incarnation, *, listed: bool
) -> None:
    """What the host's journal says of a processor's incarnation there."""
    processor_id, host = processor.processor_id, incarnation.host
    if not listed and not journal.know(step.hosts, incarnation):
        _lose(step, processor, leases.over_ms(step.limits, step.now_ms))
        return
    # From now on it stands in this journal, which alone can tell its end. So does one that the
    # journal lacks: whatever is started of it from now on is of this boot.
    entered = journal.entered(step.hosts, incarnation)
    if entered is not incarnation:
        step.change(processor_id, incarnation=entered)
    if processor.phase is Phase.STOPPING:
        step.emit(StopContainer(incarnation.execution_id, host))
    elif listed:
        return
    elif processor.phase is Phase.STARTING:
        step.emit(containers.start_command(processor_id, incarnation))
    else:
        processes.died(step, processor_id, f"{host}'s journal lacks it")


def lost(draft: Draft, host: str, last_grant_ms: int) -> None:
    """No word from a host: its incarnations become orphans, and nothing new goes there."""
    known = draft.hosts.get(host) or Host(host)
    draft.put_host(known.evolve(alive=False, registered=False))
    lease_ends_ms = leases.over_ms(draft.limits, last_grant_ms)
    for group_id in draft.index.groups_on(host):
        draft.unsettled.add(group_id)
        step = draft.at(group_id)
        _lost_again(step, host, lease_ends_ms)
        for processor_id in step.group.processors:
            processor = step.group.processors.get(processor_id)
            incarnation = None if processor is None else processor.incarnation
            if processor is not None and incarnation is not None and incarnation.host == host:
                _lose(step, processor, lease_ends_ms)
        leases_over(step)  # of those that were lost before
        action = step.action
        held = isinstance(action, Move) and action.stage is Stage.HELD
        # Nothing is stopped for a reservation that nobody answers for any more.
        if isinstance(action, Move) and held and action.request.allocated_host == host:
            moves.give_up(step, action, texts.host_lost(host))


def unregistered_too_long(draft: Draft) -> None:
    """Hosts that haven't registered with this coordinator within the limit are lost.

    All of them are marked before anything follows: none is another's way out.
    """
    latest_ms = draft.now_ms - draft.limits.host_timeout_ms
    awaited = sorted((since_ms, name) for name, since_ms in draft.index.unregistered.items())
    silent = [draft.hosts[name] for since_ms, name in awaited if since_ms <= latest_ms]
    for host in silent:
        draft.put_host(host.evolve(alive=False))
    for host in silent:
        lost(draft, host.host, host.silent_since_ms)


def _ask_for_what_is_held(step: GroupStep, host: str) -> None:
    """A host that begins anew may have lost what was reserved on it."""
    action = step.action
    if isinstance(action, Move) and action.request.allocated_host == host:
        request = action.request.evolve(confirmed=False)
        step.put_action(action.evolve(request=request))
        containers.ask(step, action.ask.processor_id, request)


# Orphans.


def _lose(step: GroupStep, processor: Processor, lease_ends_ms: int) -> None:
    """An incarnation on a host that fell silent: an orphan from now on, and what follows an end."""
    incarnation = processor.incarnation
    assert incarnation is not None
    fencing = step.limits.fencing is Fencing.BROKER
    orphan = Orphan(
        processor.processor_id,
        incarnation,
        step.now_ms,
        lease_ends_ms,
        ran=processor.phase is Phase.RUNNING,
        fencing=fencing,
        elsewhere=journal.machine_is_another(step.hosts, incarnation),
    )
    if fencing:
        step.emit(_fence_command(orphan))
    step.add_orphan(orphan)
    containers.lose_process(step, processor, processor.last_end)
    leases_over(step)  # first: what follows chooses among the hosts
    processes.ended(step, processor, lost=True)


def _orphans_back(step: GroupStep, host: str, execution_ids: frozenset[str]) -> set[str]:
    """The host's orphans have leases again: each is taken back or stopped. Returns their ids.

    One of another journal has none, and nobody there to stop them.
    """
    back: set[str] = set()
    for before in step.group.orphans:
        execution_id = before.incarnation.execution_id
        if before.incarnation.host != host:
            continue
        back.add(execution_id)
        in_journal = execution_id in execution_ids
        if not in_journal and not journal.know(step.hosts, before.incarnation):
            _replaced(step, before)
            continue
        orphan = _entered(step, before)
        if in_journal and _may_be_taken_back(step, orphan):
            _take_back(step, orphan)
            continue
        again = _is_waited_for_again(step.group, orphan)
        leased = orphan.evolve(lease_ends_ms=None, ended=None if again else orphan.ended)
        step.put_orphan(leased)
        step.emit(StopContainer(execution_id, host))
    return back


def _lost_again(step: GroupStep, host: str, lease_ends_ms: int) -> None:
    """Orphans on a host that fell silent once more: their leases end now too."""
    for orphan in step.group.orphans:
        if orphan.incarnation.host == host and orphan.lease_ends_ms is None:
            step.put_orphan(orphan.evolve(lease_ends_ms=lease_ends_ms))


def outlive_orphans(step: GroupStep, fencing: Fencing) -> None:
    """A deployment has replaced theirs: none is taken back."""
    for orphan in step.group.orphans:
        step.put_orphan(_fenced_as_ever(orphan, fencing).evolve(ran=False))


def renew_orphans(step: GroupStep) -> None:
    """A coordinator took over: leases end one lease from now, and fences are commanded again."""
    over_ms = leases.over_ms(step.limits, step.now_ms)
    for orphan in step.group.orphans:
        if orphan.ended is None:
            as_ever = _fenced_as_ever(orphan, step.limits.fencing)
            step.put_orphan(as_ever.evolve(lease_ends_ms=over_ms))
    for orphan in step.group.orphans:
        if orphan.fencing and orphan.ended is None:
            step.emit(_fence_command(orphan))


def _fenced_as_ever(orphan: Orphan, fencing: Fencing) -> Orphan:
    """A fence that the job has no more isn't waited for; one commanded may still shut it out."""
    if not orphan.fencing or fencing is Fencing.BROKER:
        return orphan
    return orphan.evolve(fencing=False, ran=False)


def _may_be_taken_back(step: GroupStep, orphan: Orphan) -> bool:
    """It ran, still owns its tasks, and nothing was started in its stead."""
    processor = step.group.processors.get(orphan.processor_id)
    return (
        orphan.ran
        and not orphan.fencing
        and orphan.ended is None
        # Its lease wasn't over before: that is on record by its own end, or a successor's.
        and (orphan.end is None or orphan.end.epoch < orphan.incarnation.epoch)
        and (orphan.lease_ends_ms is None or step.now_ms < orphan.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def orphan_alive(step: GroupStep, orphan: Orphan, *, checked_in: bool) -> None:
    """Its host is back and says that it runs: taken back if it may be, else stopped."""
    orphan = _entered(step, orphan)
    host = orphan.incarnation.host
    known = step.hosts.get(host)
    back = known is not None and known.alive and known.registered
    if not (back and _may_be_taken_back(step, orphan)):
        step.emit(StopContainer(orphan.incarnation.execution_id, host))
        return
    if checked_in:
        _take_back(step, orphan)


def orphan_dead(step: GroupStep, orphan: Orphan, evidence: str) -> None:
    """It was seen dead: its host is free for its group, its processor for any host.

    An agent that never knew it can't have seen that.
    """
    incarnation = orphan.incarnation
    if not journal.know(step.hosts, incarnation):
        return
    last_end = orphan.end
    if orphan.ended is None:
        last_end = _end(step, orphan, Ended.DEAD, evidence)
    else:
        # Its tasks went with its fence or lease; its death is what frees its host, and is
        # on record for whoever asks why a member of the group could start there.
        audit.end(step, orphan.processor_id, incarnation, Ended.DEAD, evidence)
    step.drop_orphan(orphan, last_end)
    step.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )


def orphan_fenced(step: GroupStep, orphan: Orphan) -> None:
    """The brokers refuse it: it owns nothing any more, alive or not."""
    if orphan.fencing and orphan.ended is None:
        _end(step, orphan, Ended.FENCED, "the brokers refuse its principal")


def leases_over(step: GroupStep) -> None:
    """Ends the group's orphans whose lease has run out.

    A lease bounds the overlap with a host that was frozen but can't exclude it. A fence
    can, so one that was commanded is waited for, and commanded again.
    """
    for orphan in () if step.found is None else step.found.orphans:
        ends_ms = orphan.lease_ends_ms
        if orphan.ended is not None or ends_ms is None or ends_ms > step.now_ms:
            continue
        if orphan.fencing:
            step.put_orphan(orphan.evolve(lease_ends_ms=step.now_ms + step.limits.lease_ms))
            step.emit(_fence_command(orphan))
        else:
            evidence = f"its lease ended at {ends_ms}, it is {step.now_ms}"
            _end(step, orphan, Ended.LEASE, evidence)


def _end(step: GroupStep, orphan: Orphan, how: Ended, evidence: str) -> End | None:
    """It owns its tasks no more. Returns how its processor's newest incarnation ended."""
    last = audit.end(step, orphan.processor_id, orphan.incarnation, how, evidence)
    newest = ownership.newest_end(orphan.end, last)
    step.put_orphan(orphan.evolve(ended=how, end=newest))
    processor = step.group.processors.get(orphan.processor_id)
    if processor is not None:
        last_end = ownership.newest_end(processor.last_end, last)
        step.put_processor(processor.evolve(last_end=last_end))
    return newest


def _replaced(step: GroupStep, orphan: Orphan) -> None:
    """Its host registered with another journal: it gets no lease from now on."""
    ends_ms = orphan.lease_ends_ms
    if ends_ms is None:
        ends_ms = leases.over_ms(step.limits, step.now_ms)
    elsewhere = journal.machine_is_another(step.hosts, orphan.incarnation)
    if (ends_ms, elsewhere) != (orphan.lease_ends_ms, orphan.elsewhere):
        step.put_orphan(orphan.evolve(lease_ends_ms=ends_ms, elsewhere=elsewhere))


def _entered(step: GroupStep, orphan: Orphan) -> Orphan:
    """It stands in the journal of its host as it is now."""
    incarnation = journal.entered(step.hosts, orphan.incarnation)
    if incarnation is orphan.incarnation and not orphan.elsewhere:
        return orphan
    orphan = orphan.evolve(incarnation=incarnation, elsewhere=False)
    step.put_orphan(orphan)
    return orphan


def _fence_command(orphan: Orphan) -> FencePrincipal:
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


def _take_back(step: GroupStep, orphan: Orphan) -> None:
    """It runs as if nothing had been: what was begun in its stead is called off."""
    processor_id, incarnation = orphan.processor_id, orphan.incarnation
    step.drop_orphan(orphan)
    containers.drop_request(step, processor_id)
    containers.run(step, processor_id, incarnation)
    if ownership.fails_over(step.group, processor_id):
        failover.call_off(step)
    start = ownership.starting(step.group, processor_id)
    if start is not None:
        moves.came_back(step, start, incarnation.host)
