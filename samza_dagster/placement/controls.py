"""Requests about requests: cancel one, commit or release what one has reserved."""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import actions, ownership, responses, spin_up, texts
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import Action, Group, Phase, PlacementAsk, Stage


def carry_out(draft: Draft, ask: PlacementAsk) -> None:
    """Done at once, or refused with the reason: a control never waits."""
    target = ask.refers_to
    group = draft.group_of_id(target)
    if group is None or not _is_request(group, target):
        _refuse(draft, ask, texts.not_under_way(target))
        return
    action = group.action
    if action is None or action.ask.uuid != target:
        if ask.kind is RequestKind.COMMIT:
            _refuse(draft, ask, texts.nothing_reserved(target))
            return
        _drop_queued(draft, group, target, texts.dropped(_verb(ask)))
    elif ask.kind is RequestKind.COMMIT:
        if not action.ask.hold or action.stage not in (Stage.RESERVING, Stage.HELD):
            _refuse(draft, ask, texts.no_commit(target, action.stage, hold=action.ask.hold))
            return
        actions.committed(draft, group.group_id, action)
        responses.write(draft, ask, texts.SUCCEEDED, texts.committed(target))
        return
    elif action.stage not in ownership.REVOCABLE:
        _refuse(draft, ask, texts.too_late(target, action.stage, *_begun(group, action)))
        return
    else:
        _give_up(draft, group.group_id, action, _message(group, action, ask))
    responses.write(
        draft,
        ask,
        texts.SUCCEEDED,
        texts.ended_for(target, released=ask.kind is RequestKind.RELEASE),
    )


def _give_up(draft: Draft, group_id: str, action: Action, message: str) -> None:
    if action.ask.kind is RequestKind.START_STANDBY:
        responses.give_back(draft, action)
        spin_up.given_up(draft, group_id, action, message)
    else:
        actions.give_up(draft, group_id, action, message)


def _drop_queued(draft: Draft, group: Group, uuid: str, message: str) -> None:
    for ask in group.queue:
        if ask.uuid == uuid:
            responses.write(draft, ask, texts.FAILED, message)
    draft.put_queue(group.group_id, tuple(ask for ask in group.queue if ask.uuid != uuid))


def _is_request(group: Group, uuid: str) -> bool:
    in_flight = group.action is not None and group.action.ask.uuid == uuid
    return in_flight or any(ask.uuid == uuid for ask in group.queue)


def _message(group: Group, action: Action, ask: PlacementAsk) -> str:
    """What is true of the containers when the action is given up."""
    word = _verb(ask)
    subject = group.processors.get(ownership.subject(action))
    if subject is not None and subject.incarnation is None:
        return texts.given_up_while_down(word, subject.processor_id)
    if action.target_host is not None and action.stage is not Stage.RESERVING_STANDBY:
        return texts.given_up_after_standby(word, action.standby_id)
    return _word(ask)


def _begun(group: Group, action: Action) -> tuple[str, str]:
    """What is so of the container that the action has begun with, and how that is undone."""
    subject = ownership.subject(action)
    if action.stage in ownership.FALLBACK:
        return f"it has FAILED and {subject} is led back", f"wait until {subject} runs"
    touched = action.standby_id if action.stage is Stage.STOPPING_STANDBY else subject
    processor = group.processors[touched]
    if processor.incarnation is None:
        seen = f"{touched} has no process that is known of"
    elif processor.phase is Phase.STOPPING:
        seen = f"{touched} was told to stop"
    else:
        seen = f"{touched} starts on {processor.incarnation.host}"
    return seen, _way_back(action, subject)


def _way_back(action: Action, subject: str) -> str:
    if action.ask.kind is RequestKind.START_STANDBY:
        return f"ask to stop {subject} once it runs"
    if action.ask.kind is RequestKind.STOP_STANDBY:
        return "ask for another standby once it has ended"
    if action.ask.destination_host in (naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN):
        return f"wait until {subject} runs again where it was"
    return f"ask to move {subject} back once it has ended"


def _verb(ask: PlacementAsk) -> str:
    return "released" if ask.kind is RequestKind.RELEASE else "cancelled"


def _word(ask: PlacementAsk) -> str:
    return texts.RELEASED if ask.kind is RequestKind.RELEASE else texts.CANCELLED


def _refuse(draft: Draft, ask: PlacementAsk, reason: str) -> None:
    responses.write(draft, ask, texts.BAD_REQUEST, texts.bad_request(reason))
