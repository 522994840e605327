"""Hosts that register, fall silent and return, and the orphans on them.

An orphan is an incarnation on a silent host, alive or dead. An incarnation on a machine that was
replaced by another machine with the same host name and another journal is an orphan too. Its
processor continues as after a death. It starts nowhere until the orphan was seen dead, is fenced,
or is past its lease (invariant 3). No member of the group starts on an orphan's host until the
orphan was seen dead (invariants 1 and 2). One exception: the orphan has ended and was on another
machine than the one that has the name now. It stays an orphan then, because its death wasn't
seen.
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


def register_host(draft: Draft, event: HostRegistered) -> None:
    """Compare a host's journal with the state.

    Only the journal of an incarnation's start can prove by absence that the incarnation is dead.
    Under any other journal (another machine or another directory) the incarnation becomes an
    orphan, as after the loss of its host. It gets no lease from then on.

    An incarnation that is starting and isn't in the journal never arrived: it is started again.
    An incarnation that is stopping is stopped again, even when the journal lacks it: its start
    may still be on its way, and only the answer to a later stop proves it dead. An orphan is
    taken back if it may be; every other orphan and every unknown incarnation is stopped.
    """
    host = event.host
    draft.put_host(
        Host(host, fault_domain=event.fault_domain, journal=event.journal, boot_id=event.boot_id)
    )
    current: set[str] = set()
    for group_id in draft.index.groups_on(host):
        step = draft.at(group_id)
        _ask_for_what_is_held(step, host)
        current |= _take_back_or_stop(step, host, event.execution_ids)
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
    """Apply the host's journal to a processor's incarnation there."""
    processor_id, host = processor.processor_id, incarnation.host
    if not listed and not journal.is_authoritative(step.hosts, incarnation):
        _lose(step, processor, leases.over_ms(step.limits, step.now_ms))
        return
    # From now on this journal alone can prove its end, also when the journal lacks it: any later
    # process of this incarnation belongs to this boot.
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
        processes.note_death(step, processor_id, f"{host}'s journal lacks it")


def lose_host(draft: Draft, host: str, last_grant_ms: int) -> None:
    """Turn the incarnations of a silent host into orphans; no new container starts there."""
    known = draft.hosts.get(host) or Host(host)
    draft.put_host(known.evolve(alive=False, registered=False))
    lease_ends_ms = leases.over_ms(draft.limits, last_grant_ms)
    for group_id in draft.index.groups_on(host):
        draft.unsettled.add(group_id)
        step = draft.at(group_id)
        _limit_leases(step, host, lease_ends_ms)
        for processor_id in step.group.processors:
            processor = step.group.processors.get(processor_id)
            incarnation = None if processor is None else processor.incarnation
            if processor is not None and incarnation is not None and incarnation.host == host:
                _lose(step, processor, lease_ends_ms)
        end_leases(step)  # for orphans of an earlier loss
        action = step.action
        held = isinstance(action, Move) and action.stage is Stage.HELD
        # A reservation on a lost host is no reason to stop a container.
        if isinstance(action, Move) and held and action.request.allocated_host == host:
            moves.give_up(step, action, texts.host_lost(host))


def lose_unregistered(draft: Draft) -> None:
    """Mark hosts lost that haven't registered with this coordinator within the limit."""
    # All are marked before anything follows, so that none becomes another's destination.
    latest_ms = draft.now_ms - draft.limits.host_timeout_ms
    awaited = sorted((since_ms, name) for name, since_ms in draft.index.unregistered.items())
    silent = [draft.hosts[name] for since_ms, name in awaited if since_ms <= latest_ms]
    for host in silent:
        draft.put_host(host.evolve(alive=False))
    for host in silent:
        lose_host(draft, host.host, host.silent_since_ms)


def _ask_for_what_is_held(step: GroupStep, host: str) -> None:
    """Repeat a held reservation, because a restarted host may have lost it."""
    action = step.action
    if isinstance(action, Move) and action.request.allocated_host == host:
        request = action.request.evolve(confirmed=False)
        step.put_action(action.evolve(request=request))
        containers.ask(step, action.ask.processor_id, request)


# Orphans.


def _lose(step: GroupStep, processor: Processor, lease_ends_ms: int) -> None:
    """Turn an incarnation on a silent host into an orphan, and apply its end to the group."""
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
        elsewhere=journal.is_on_replaced_machine(step.hosts, incarnation),
    )
    if fencing:
        step.emit(_fence_command(orphan))
    step.add_orphan(orphan)
    containers.lose_process(step, processor, processor.last_end)
    end_leases(step)  # first, because the next step chooses among the hosts
    processes.note_end(step, processor, lost=True)


def _take_back_or_stop(step: GroupStep, host: str, execution_ids: frozenset[str]) -> set[str]:
    """Take back or stop each orphan of a host that registered; return their execution ids."""
    # An orphan of another journal has no lease, and no agent that could stop it.
    back: set[str] = set()
    for before in step.group.orphans:
        execution_id = before.incarnation.execution_id
        if before.incarnation.host != host:
            continue
        back.add(execution_id)
        in_journal = execution_id in execution_ids
        if not in_journal and not journal.is_authoritative(step.hosts, before.incarnation):
            _stop_leases(step, before)
            continue
        orphan = _enter(step, before)
        if in_journal and _may_be_taken_back(step, orphan):
            _take_back(step, orphan)
            continue
        again = _is_waited_for_again(step.group, orphan)
        leased = orphan.evolve(lease_ends_ms=None, ended=None if again else orphan.ended)
        step.put_orphan(leased)
        step.emit(StopContainer(execution_id, host))
    return back


def _limit_leases(step: GroupStep, host: str, lease_ends_ms: int) -> None:
    """End the leases of orphans on a host that fell silent once more."""
    for orphan in step.group.orphans:
        if orphan.incarnation.host == host and orphan.lease_ends_ms is None:
            step.put_orphan(orphan.evolve(lease_ends_ms=lease_ends_ms))


def outlive_orphans(step: GroupStep, fencing: Fencing) -> None:
    """Bar orphans from their return, because a deployment replaced theirs."""
    for orphan in step.group.orphans:
        step.put_orphan(_fenced_as_ever(orphan, fencing).evolve(ran=False))


def renew_orphans(step: GroupStep) -> None:
    """Count leases from the take-over, and command fences again."""
    over_ms = leases.over_ms(step.limits, step.now_ms)
    for orphan in step.group.orphans:
        if orphan.ended is None:
            as_ever = _fenced_as_ever(orphan, step.limits.fencing)
            step.put_orphan(as_ever.evolve(lease_ends_ms=over_ms))
    for orphan in step.group.orphans:
        if orphan.fencing and orphan.ended is None:
            step.emit(_fence_command(orphan))


def _fenced_as_ever(orphan: Orphan, fencing: Fencing) -> Orphan:
    """Return the orphan without a fence that the job no longer has."""
    # A fence that was commanded before may still shut it out, so it can't be taken back.
    if not orphan.fencing or fencing is Fencing.BROKER:
        return orphan
    return orphan.evolve(fencing=False, ran=False)


def _may_be_taken_back(step: GroupStep, orphan: Orphan) -> bool:
    """Return whether the orphan ran, still owns its tasks, and has no successor."""
    processor = step.group.processors.get(orphan.processor_id)
    return (
        orphan.ran
        and not orphan.fencing
        and orphan.ended is None
        # A lease that was over before is on record, by its own end or by a successor's.
        and (orphan.end is None or orphan.end.epoch < orphan.incarnation.epoch)
        and (orphan.lease_ends_ms is None or step.now_ms < orphan.lease_ends_ms)
        and processor is not None
        and processor.wanted
        and processor.incarnation is None
    )


def note_orphan_alive(step: GroupStep, orphan: Orphan, *, checked_in: bool) -> None:
    """Take back an orphan that its returned host reports alive, if it may be; else stop it."""
    orphan = _enter(step, orphan)
    host = orphan.incarnation.host
    known = step.hosts.get(host)
    back = known is not None and known.alive and known.registered
    if not (back and _may_be_taken_back(step, orphan)):
        step.emit(StopContainer(orphan.incarnation.execution_id, host))
        return
    if checked_in:
        _take_back(step, orphan)


def bury_orphan(step: GroupStep, orphan: Orphan, evidence: str) -> None:
    """Free an orphan's host for its group and its processor for any host: it was seen dead."""
    # Without the orphan in its journal, an agent can't have seen the orphan's death.
    incarnation = orphan.incarnation
    if not journal.is_authoritative(step.hosts, incarnation):
        return
    last_end = orphan.end
    if orphan.ended is None:
        last_end = _end(step, orphan, Ended.DEAD, evidence)
    else:
        # It lost its tasks by fence or lease. Its death frees its host; the record shows why a
        # member of the group could start there.
        audit.end(step, orphan.processor_id, incarnation, Ended.DEAD, evidence)
    step.drop_orphan(orphan, last_end)
    step.emit(
        ReleaseResource(incarnation.request_id),
        ForgetContainer(incarnation.execution_id, incarnation.host),
    )


def end_fenced(step: GroupStep, orphan: Orphan) -> None:
    """Record that the brokers refuse an orphan, so that it owns nothing, alive or not."""
    if orphan.fencing and orphan.ended is None:
        _end(step, orphan, Ended.FENCED, "the brokers refuse its principal")


def end_leases(step: GroupStep) -> None:
    """End the group's orphans that are past their lease."""
    # A lease bounds the overlap with a host that was frozen, but can't exclude it. A fence can, so
    # a commanded fence is awaited and commanded again.
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
    """End an orphan's ownership of its tasks; return its processor's newest end."""
    last = audit.end(step, orphan.processor_id, orphan.incarnation, how, evidence)
    newest = ownership.newest_end(orphan.end, last)
    step.put_orphan(orphan.evolve(ended=how, end=newest))
    processor = step.group.processors.get(orphan.processor_id)
    if processor is not None:
        last_end = ownership.newest_end(processor.last_end, last)
        step.put_processor(processor.evolve(last_end=last_end))
    return newest


def _stop_leases(step: GroupStep, orphan: Orphan) -> None:
    """Stop an orphan's leases, because its host registered with another journal."""
    ends_ms = orphan.lease_ends_ms
    if ends_ms is None:
        ends_ms = leases.over_ms(step.limits, step.now_ms)
    elsewhere = journal.is_on_replaced_machine(step.hosts, orphan.incarnation)
    if (ends_ms, elsewhere) != (orphan.lease_ends_ms, orphan.elsewhere):
        step.put_orphan(orphan.evolve(lease_ends_ms=ends_ms, elsewhere=elsewhere))


def _enter(step: GroupStep, orphan: Orphan) -> Orphan:
    """Return the orphan as an entry of its host's present journal."""
    incarnation = journal.entered(step.hosts, orphan.incarnation)
    if incarnation is orphan.incarnation and not orphan.elsewhere:
        return orphan
    orphan = orphan.evolve(incarnation=incarnation, elsewhere=False)
    step.put_orphan(orphan)
    return orphan


def _fence_command(orphan: Orphan) -> FencePrincipal:
    """Return the fence of an orphan; equal for each repetition."""
    return FencePrincipal(orphan.processor_id, orphan.incarnation.execution_id)


def _is_waited_for_again(group: Group, orphan: Orphan) -> bool:
    """Return whether a returned orphan's renewed lease has to end before a successor starts."""
    processor = group.processors.get(orphan.processor_id)
    begun = processor is not None and processor.incarnation is not None
    return (
        orphan.ended is Ended.LEASE
        and not begun
        and ownership.owning_orphan(group, orphan.processor_id) is None
    )


def _take_back(step: GroupStep, orphan: Orphan) -> None:
    """Continue with the orphan as if its host had never been silent; call its recovery off."""
    processor_id, incarnation = orphan.processor_id, orphan.incarnation
    step.drop_orphan(orphan)
    containers.drop_request(step, processor_id)
    containers.run(step, processor_id, incarnation)
    if ownership.is_failing_over(step.group, processor_id):
        failover.call_off(step)
    start = ownership.starting_action(step.group, processor_id)
    if start is not None:
        moves.fail_returned(step, start, incarnation.host)
