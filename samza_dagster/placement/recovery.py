"""What a coordinator that took over must say again, and what hosts' books tell.

Commands are not stored: each is derived from the state, with the id it had before,
and doing one twice does no harm (`docs/decisions/0001-no-outbox.md`).
"""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import actions, containers, requests, texts
from samza_dagster.placement.commands import StopContainer
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Group, Host, Phase, Processor, ResourceRequest


def restarted(draft: Draft) -> None:
    """Says every outstanding command and the last response of everything in flight again.

    Deadlines count anew: the time without a coordinator is nobody's failure.
    """
    for group in tuple(draft.groups.values()):
        if group.action is not None and group.action.status:
            action = group.action
            draft.emit(
                actions.response(action.ask, action.status, action.message, action.response_ms)
            )
        for ask in group.queue:
            why = requests.why_it_waits(draft, ask)
            if why is not None:
                actions.write(draft, ask, texts.ACCEPTED, texts.accepted(why))
        _request_reservation_again(draft, group)
        for processor in group.processors.values():
            _command_again(draft, group.group_id, processor)


def host_registered(draft: Draft, host: str, execution_ids: frozenset[str]) -> list[str]:
    """Compares a host's books with the state.

    Returns the execution ids that ran there and that the books lack: those are dead.
    One that is starting and isn't on the books never arrived: it is started again.
    One that is stopping is stopped again, also when the books lack it: its start may
    still be on its way, and only the answer to a stop behind it proves it dead.
    Any other's that is on the books is stopped.
    """
    draft.put_host(Host(host, alive=True))
    current: set[str] = set()
    dead: list[str] = []
    for group in tuple(draft.groups.values()):
        for processor in group.processors.values():
            incarnation = processor.incarnation
            if incarnation is None or incarnation.host != host:
                continue
            current.add(incarnation.execution_id)
            if processor.phase is Phase.STOPPING:
                draft.emit(stop_command(draft, incarnation.execution_id, host))
            elif incarnation.execution_id in execution_ids:
                continue
            elif processor.phase is Phase.STARTING:
                draft.emit(containers.start_command(processor.processor_id, incarnation))
            else:
                dead.append(incarnation.execution_id)
    for execution_id in sorted(execution_ids - current):
        stop_orphan(draft, execution_id, host)
    return dead


def host_lost(draft: Draft, host: str) -> None:
    """Marks a host silent: nothing new goes there.

    Its processors stay as they are. Silence proves no death, so until the host
    registers again its containers count as alive and aren't started elsewhere.
    """
    draft.put_host(Host(host, alive=False))


def stop_orphan(draft: Draft, execution_id: str, host: str) -> None:
    """Stops an incarnation that is nobody's current one."""
    draft.emit(stop_command(draft, execution_id, host))


def stop_command(draft: Draft, execution_id: str, host: str) -> StopContainer:
    """The stop of any incarnation; its processor id is read from its execution id."""
    name, _, _ = execution_id.rpartition("-")
    return StopContainer(name.removeprefix(f"{draft.safe_job}-"), execution_id, host)


def _request_reservation_again(draft: Draft, group: Group) -> None:
    action = group.action
    if action is None or action.reservation is None:
        return
    expiry = action.ask.expiry_ms
    if expiry is None:
        expiry = draft.limits.request_timeout_ms
    renewed = _renewed(draft, action.reservation, expiry)
    draft.put_action(group.group_id, replace(action, reservation=renewed))
    draft.emit(containers.request_command(draft, action.ask.processor_id, renewed))


def _command_again(draft: Draft, group_id: str, processor: Processor) -> None:
    processor_id, incarnation = processor.processor_id, processor.incarnation
    if processor.request is not None:
        request = _renewed(draft, processor.request, draft.limits.request_timeout_ms)
        draft.put_processor(group_id, replace(processor, request=request))
        draft.emit(containers.request_command(draft, processor_id, request))
    elif incarnation is not None and processor.phase is Phase.STARTING:
        deadline = draft.now_ms + draft.limits.start_timeout_ms
        draft.put_processor(group_id, replace(processor, deadline_ms=deadline))
        draft.emit(containers.start_command(processor_id, incarnation))
    elif incarnation is not None and processor.phase is Phase.STOPPING:
        containers.stop(draft, group_id, processor_id)


def _renewed(draft: Draft, request: ResourceRequest, expiry_ms: int) -> ResourceRequest:
    return replace(request, deadline_ms=draft.now_ms + expiry_ms + containers.REQUEST_MARGIN_MS)
