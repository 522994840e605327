"""Standbys on request: start one more for an active, stop and remove one (controlStandBy)."""

from __future__ import annotations

from itertools import count

from samza_dagster.model import naming
from samza_dagster.placement import actions, containers, host_limit, responses, rules, texts
from samza_dagster.placement.commands import DeleteLocality, ReleaseResource
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.state import (
    Action,
    Group,
    Phase,
    PlacementAsk,
    Processor,
    ResourceRequest,
    Role,
    Stage,
)


def new_standby_id(draft: Draft, group: Group) -> str:
    """The first replica number that nobody of the job has, nor an orphan or a queued request names.

    Such a request is about the standby that its asker saw, which may be gone when it has its turn.
    """
    used = set(group.processors) | {orphan.processor_id for orphan in group.orphans}
    used |= {ask.processor_id for ask in group.queue}
    replicas = (naming.standby_container_id(group.group_id, number) for number in count())
    return next(n for n in replicas if n not in used and n not in draft.index.by_processor)


def begin_start(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """Reserves a place for one more standby: on the host that was named, or any legal one."""
    standby_id = new_standby_id(draft, draft.group(group_id))
    action = Action(ask, Stage.RESERVING, None, standby_id=standby_id)
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.RESOURCES_REQUESTED
    )
    _reserve(draft, group_id, action)


def allocated(
    draft: Draft, group_id: str, action: Action, reservation: ResourceRequest, host: str
) -> None:
    """A place is held: the standby becomes a member of the group and starts there."""
    standby_id = action.standby_id
    broken = rules.violation(draft.group(group_id), draft.hosts, standby_id, host)
    broken = broken or host_limit.full(draft, group_id, reservation, host)
    if broken is not None:
        draft.emit(ReleaseResource(reservation.request_id))
        if reservation.host is None and reservation.deadline_ms > draft.now_ms:
            _reserve(draft, group_id, action)
        else:
            expired(draft, group_id, action, f"{broken.seen}; {broken.change}")
        return
    standby = Processor(
        standby_id,
        Role.STANDBY,
        Phase.WAITING,
        waiting_since_ms=draft.now_ms,
        not_before_ms=draft.now_ms,
        extra=True,
    )
    chosen = (host,) if reservation.host is None else ()
    action = action.evolve(stage=Stage.STARTING, reservation=None, chosen_hosts=chosen)
    # Nothing is stopped in between: without it a start that takes minutes looks like a lack of room.
    message = texts.standby_starts(standby_id, host)
    responses.respond(draft, group_id, action, texts.IN_PROGRESS, message)
    draft.put_processor(group_id, standby)
    containers.hold(draft, group_id, standby_id, reservation, host)


def expired(draft: Draft, group_id: str, action: Action, why: str) -> None:
    """No place: FAILED; the standby never was."""
    given_up(draft, group_id, action, texts.expired(why))


def given_up(draft: Draft, group_id: str, action: Action, message: str) -> None:
    """FAILED before there was a standby."""
    responses.fail(draft, group_id, action, message)
    draft.put_action(group_id, None)


def checked_in(draft: Draft, group_id: str, action: Action) -> None:
    """The standby runs: SUCCEEDED."""
    incarnation = draft.processor(group_id, action.standby_id).incarnation
    assert incarnation is not None
    message = texts.standby_started(action.standby_id, incarnation.host)
    responses.succeed(draft, group_id, action, message, (action.standby_id, incarnation.host))


def start_failed(draft: Draft, group_id: str, action: Action, host: str) -> None:
    """The standby has no process: FAILED, and it isn't a member any more."""
    draft.remove_processor(group_id, action.standby_id)
    message = texts.standby_start_failed(action.standby_id, host)
    responses.fail(draft, group_id, action, message)
    draft.put_action(group_id, None)


def begin_stop(draft: Draft, group_id: str, ask: PlacementAsk) -> None:
    """Stops a standby for good; one that has no process is removed at once."""
    standby = draft.processor(group_id, ask.processor_id)
    source = None if standby.incarnation is None else standby.incarnation.host
    stopping = standby.phase is Phase.STOPPING
    action = Action(ask, Stage.STOPPING, source, stopping_already=stopping)
    if standby.incarnation is not None:
        action = action.stopping(ask.processor_id)
    action = responses.respond(
        draft, group_id, action, texts.IN_PROGRESS, texts.STANDBY_STOP_IN_PROGRESS
    )
    if standby.incarnation is None:
        containers.drop_request(draft, group_id, ask.processor_id)
        stopped(draft, group_id, action)
        return
    draft.put_processor(group_id, standby.evolve(wanted=False))
    if not stopping:
        containers.stop(draft, group_id, ask.processor_id)


def stopped(draft: Draft, group_id: str, action: Action) -> None:
    """It has no process: SUCCEEDED, and it isn't a member any more."""
    processor_id = action.ask.processor_id
    draft.emit(DeleteLocality(processor_id))
    draft.remove_processor(group_id, processor_id)
    responses.succeed(draft, group_id, action, texts.standby_stopped(processor_id))


def stop_failed(draft: Draft, group_id: str, action: Action) -> None:
    """It lives on, and is a member again, as before: FAILED.

    What was being stopped for another reason (its start was overdue, it stood still, a new
    deployment) goes on being stopped.
    """
    standby = draft.processor(group_id, action.ask.processor_id)
    draft.put_processor(group_id, standby.evolve(wanted=True))
    if not action.stopping_already:
        containers.lives_on(draft, group_id, action.ask.processor_id)
    action = action.sparing(action.ask.processor_id)
    responses.fail(draft, group_id, action, texts.stop_failed(action.source_host))
    draft.put_action(group_id, None)


def _reserve(draft: Draft, group_id: str, action: Action) -> None:
    ask = action.ask
    host: str | None = ask.destination_host
    excluded: set[str] = set()
    if host == naming.ANY_HOST:
        host = None
        excluded = draft.forbidden_hosts(group_id, action.standby_id)
        excluded |= host_limit.full_hosts(draft, group_id)
    earlier = action.reservation
    if earlier is None:
        expiry = actions.expiry_ms(draft, ask)
    else:
        expiry = containers.time_left_ms(draft, earlier)
    reservation = containers.new_request(draft, group_id, action.standby_id, host, excluded, expiry)
    draft.put_action(group_id, action.evolve(reservation=reservation))


def lost(draft: Draft, group_id: str, action: Action) -> None:
    """Its host fell silent before it was seen dead: FAILED, and it is a member again."""
    standby = draft.processor(group_id, action.ask.processor_id)
    draft.put_processor(group_id, standby.evolve(wanted=True))
    responses.fail(draft, group_id, action, texts.host_lost(action.source_host))
    draft.put_action(group_id, None)
