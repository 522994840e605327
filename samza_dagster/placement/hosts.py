"""Hosts that register, fall silent and come back."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.placement import actions, containers, journal, leases, orphans, ownership, texts
from samza_dagster.placement.commands import StopContainer
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.events import HostRegistered
from samza_dagster.placement.state import Group, Host, Incarnation, Phase, Stage

Died = Callable[[Draft, str, str, str], None]


def registered(draft: Draft, event: HostRegistered, died: Died) -> None:
    """Compares a host's journal with the state; `died` is told of what is dead by its silence.

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
        group = draft.find_group(group_id)
        if group is None:
            continue
        _ask_for_what_is_held(draft, group, host)
        current |= orphans.back(draft, group, host, event.execution_ids)
        group = draft.find_group(group_id)  # the last of its orphans may be gone, and it with it
        for processor in () if group is None else tuple(group.processors.values()):
            incarnation = processor.incarnation
            if incarnation is None or incarnation.host != host:
                continue
            current.add(incarnation.execution_id)
            listed = incarnation.execution_id in event.execution_ids
            if not listed and not journal.know(draft.hosts, incarnation):
                over_ms = leases.over_ms(draft.limits, draft.now_ms)
                orphans.lose(draft, group_id, processor, over_ms)
                continue
            incarnation = _enter(draft, group_id, processor.processor_id, incarnation)
            if processor.phase is Phase.STOPPING:
                draft.emit(StopContainer(incarnation.execution_id, host))
            elif listed:
                continue
            elif processor.phase is Phase.STARTING:
                draft.emit(containers.start_command(processor.processor_id, incarnation))
            else:
                died(draft, group_id, processor.processor_id, f"{host}'s journal lacks it")
        draft.unsettled.add(group_id)
    for execution_id in sorted(event.execution_ids - current):
        draft.emit(StopContainer(execution_id, host))


def lost(draft: Draft, host: str, last_grant_ms: int) -> None:
    """No word from a host: its incarnations become orphans, and nothing new goes there."""
    known = draft.hosts.get(host) or Host(host)
    draft.put_host(known.evolve(alive=False, registered=False))
    lease_ends_ms = leases.over_ms(draft.limits, last_grant_ms)
    for group_id in draft.index.groups_on(host):
        draft.unsettled.add(group_id)
        group = draft.group(group_id)
        orphans.lost_again(draft, group, host, lease_ends_ms)
        for processor_id in group.processors:
            processor = draft.group(group_id).processors.get(processor_id)
            incarnation = None if processor is None else processor.incarnation
            if processor is not None and incarnation is not None and incarnation.host == host:
                orphans.lose(draft, group_id, processor, lease_ends_ms)
        orphans.leases_over(draft, group_id)  # of those that were lost before
        _what_is_held_is_lost(draft, group_id, host)


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


def _enter(draft: Draft, group_id: str, processor_id: str, incarnation: Incarnation) -> Incarnation:
    """As it stands in the journal that its host goes by now: it alone can tell its end.

    One that they lack as well: whatever is started of it from now on is of this boot.
    """
    entered = journal.entered(draft.hosts, incarnation)
    if entered is not incarnation:
        processor = draft.processor(group_id, processor_id)
        draft.put_processor(group_id, processor.evolve(incarnation=entered))
    return entered


def _ask_for_what_is_held(draft: Draft, group: Group, host: str) -> None:
    """A host that begins anew may have lost what was reserved on it."""
    action = group.action
    if action is None or action.reservation is None or action.reservation.allocated_host != host:
        return
    reservation = action.reservation.evolve(confirmed=False)
    draft.put_action(group.group_id, action.evolve(reservation=reservation))
    draft.emit(
        containers.request_command(draft, group.group_id, ownership.subject(action), reservation)
    )


def _what_is_held_is_lost(draft: Draft, group_id: str, host: str) -> None:
    """Nothing is stopped for a reservation that nobody answers for any more."""
    group = draft.find_group(group_id)
    action = None if group is None else group.action
    if action is None or action.stage is not Stage.HELD:
        return
    assert action.reservation is not None
    if action.reservation.allocated_host == host:
        actions.give_up(draft, group_id, action, texts.host_lost(host))
