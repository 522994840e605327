"""Placement requests: taken once, refused with a reason, or queued until their turn."""

from __future__ import annotations

from collections.abc import Iterator

from samza_dagster.model import naming
from samza_dagster.placement import actions, rules, texts
from samza_dagster.placement.commands import DeleteRequest
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.explain import group_with, unknown_destination
from samza_dagster.placement.state import Group, Phase, PlacementAsk, Stage


def arrived(draft: Draft, ask: PlacementAsk, no_start_because: str = "") -> None:
    """Takes a request off the stream: deleted in any case, answered unless stale or known.

    What is stopped must be able to start again: nothing is begun while it isn't.
    """
    draft.emit(DeleteRequest(ask.uuid))
    if ask.deployment_id != draft.deployment_id or _is_known(draft, ask.uuid):
        return
    draft.remember(ask.uuid)
    state = draft.snapshot()
    group = group_with(state, ask.processor_id)
    if group is None:
        _refuse(draft, ask, texts.UNKNOWN_PROCESSOR)
        return
    if no_start_because:
        _refuse(draft, ask, f"{texts.NO_START}; {no_start_because}")
        return
    unknown = unknown_destination(state, ask.destination_host)
    if unknown is not None:
        _refuse(draft, ask, f"{unknown.seen}; {unknown.change}")
        return
    draft.put_queue(group.group_id, _in_order((*group.queue, ask)))
    take_turns(draft, unanswered=ask.uuid)
    why = why_it_waits(draft, ask)
    if why is not None:
        actions.write(draft, ask, texts.ACCEPTED, texts.accepted(why))


def take_turns(draft: Draft, *, unanswered: str | None = None) -> None:
    """Begins what may begin, oldest first over the whole job.

    `unanswered` is a request without a response: it may still be refused; one that
    was ACCEPTED can only fail.
    """
    while _in_flight(draft) < draft.limits.max_concurrent_actions:
        ready = min(_ready(draft), key=lambda turn: _order(turn[1]), default=None)
        if ready is None:
            return
        group_id, ask = ready
        queue = tuple(waiting for waiting in draft.group(group_id).queue if waiting != ask)
        draft.put_queue(group_id, queue)
        broken = _broken_rule(draft, draft.group(group_id), ask)
        if broken is None:
            actions.begin(draft, group_id, ask)
            continue
        why = f"{texts.CONSTRAINTS}; {broken.rule}: {broken.seen}; {broken.change}"
        if ask.uuid == unanswered:
            _refuse(draft, ask, why)
        else:
            actions.write(draft, ask, texts.FAILED, why)


def why_it_waits(draft: Draft, ask: PlacementAsk) -> str | None:
    """For what a queued request waits; None when it isn't queued."""
    for group in draft.groups.values():
        if ask not in group.queue:
            continue
        if group.action is not None:
            busy = group.action.ask
            return f"waits for action {busy.uuid} on {busy.processor_id} of the same group"
        if group.processors[ask.processor_id].phase is not Phase.RUNNING:
            return f"waits until {ask.processor_id} runs"
        limit = draft.limits.max_concurrent_actions
        return f"waits because {limit} actions are in flight, the job's limit"
    return None


def _ready(draft: Draft) -> Iterator[tuple[str, PlacementAsk]]:
    for group in draft.groups.values():
        if group.action is not None:
            continue
        for ask in group.queue:
            if group.processors[ask.processor_id].phase is Phase.RUNNING:
                yield group.group_id, ask


def _broken_rule(draft: Draft, group: Group, ask: PlacementAsk) -> rules.Violation | None:
    """The same-host rule for a named host. A lost host is left to the request's expiry."""
    if ask.destination_host in naming.DESTINATION_WORDS:
        return None
    return rules.taken_hosts(group, ask.processor_id).get(ask.destination_host)


def _is_known(draft: Draft, uuid: str) -> bool:
    if uuid in draft.uuids:
        return True
    return any(
        (group.action is not None and group.action.ask.uuid == uuid)
        or any(ask.uuid == uuid for ask in group.queue)
        for group in draft.groups.values()
    )


def _in_flight(draft: Draft) -> int:
    """Actions that hold or want a resource of their own; a fallback is an ordinary start."""
    held = (Stage.RESERVING, Stage.STOPPING, Stage.STARTING)
    return sum(
        1
        for group in draft.groups.values()
        if group.action is not None and group.action.stage in held
    )


def _order(ask: PlacementAsk) -> tuple[int, str]:
    return ask.timestamp_ms, ask.uuid


def _in_order(asks: tuple[PlacementAsk, ...]) -> tuple[PlacementAsk, ...]:
    return tuple(sorted(asks, key=_order))


def _refuse(draft: Draft, ask: PlacementAsk, reason: str) -> None:
    actions.write(draft, ask, texts.BAD_REQUEST, texts.bad_request(reason))
