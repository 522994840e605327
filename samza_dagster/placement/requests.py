"""Placement requests: taken once, refused with a reason, or queued until their turn.

Includes requests about requests: cancel one, and commit or release a reservation.
"""

from __future__ import annotations

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    failover,
    host_limit,
    moves,
    ownership,
    places,
    responses,
    rules,
    standbys,
    texts,
)
from samza_dagster.placement.commands import DeleteRequest
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.explain import refusal_of_ask, too_many_standbys
from samza_dagster.placement.state import (
    Action,
    Fallback,
    Group,
    Move,
    Phase,
    PlacementAsk,
    Role,
    SpinUp,
    Stage,
    StopStandby,
    Swap,
    subject_of,
)

# In these stages nothing was stopped yet, so an action can be given up without a trace.
REVOCABLE = (Stage.RESERVING_STANDBY, Stage.RESERVING, Stage.HELD)


def receive(draft: Draft, ask: PlacementAsk, no_start_because: str = "") -> None:
    """Take a request off the stream: delete it, and answer it unless it is stale or known."""
    # A stopped container must be able to start again: begin nothing while it couldn't.
    draft.emit(DeleteRequest(ask.uuid, ask.own))
    if ask.deployment_id != draft.deployment_id or draft.is_known(ask.uuid):
        return
    draft.remember(ask.uuid)
    if ask.kind.is_about_another:
        _carry_out(draft, ask)
        return
    step = draft.with_member(ask.processor_id)
    group = None if step is None else step.group
    refusal = refusal_of_ask(draft.hosts, draft.limits, group, ask)
    if step is None or group is None or refusal is not None:
        if refusal is None or refusal == texts.UNKNOWN_PROCESSOR:
            refusal = texts.unknown_processor(ask.processor_id, _known_processors(draft))
        responses.refuse(draft, ask, refusal)
        return
    if group.processors[ask.processor_id].incarnation is not None:
        # An incarnation with a successor never returns, so a wait would change nothing.
        superseded = _another_incarnation(group, ask)
        if superseded is not None:
            responses.refuse(draft, ask, superseded)
            return
    if no_start_because:
        responses.refuse(draft, ask, f"{texts.NO_START}; {no_start_because}")
        return
    step.put_queue(_in_order((*group.queue, ask)))
    take_turns(draft, unanswered=ask.uuid)
    if step.found is not None and ask in step.group.queue:
        why = why_it_waits(step, ask)
        responses.write(draft, ask, texts.ACCEPTED, texts.accepted(why))


def _known_processors(draft: Draft) -> list[str]:
    """Return the processors that a request may name."""
    groups = draft.groups()
    return sorted(pid for group in groups for pid, p in group.processors.items() if p.wanted)


def take_turns(draft: Draft, *, unanswered: str | None = None) -> None:
    """Begin the requests that may begin, oldest first over the whole job.

    `unanswered` is a request without a response, which may still be refused; an ACCEPTED request
    can only fail.
    """
    held_back = 0  # the number of oldest requests that wait for their hosts now
    while len(draft.index.acting) < draft.limits.max_concurrent_actions:
        asks = draft.index.asks
        if len(asks) <= held_back:
            break
        step = draft.at(asks[held_back].group_id)
        queue, ask = step.group.queue, ownership.next_ask(step.group)
        assert ask is not None
        if _waits_for_hosts(step, ask) is not None:
            held_back += 1
            continue
        step.put_queue(tuple(q for q in queue if q != ask))
        _begin(step, ask, accepted=ask.uuid != unanswered)
        held_back = 0


def fail_needless_failovers(step: GroupStep, active_id: str) -> None:
    """Fail the queued fail-overs of an active that has failed over by itself."""
    # Such a request would move a healthy active onto a standby that has only started to follow.
    incarnation = step.processor(active_id).incarnation
    assert incarnation is not None
    over = [
        ask
        for ask in step.group.queue
        if ask.kind is RequestKind.FAIL_OVER and ask.processor_id == active_id
    ]
    if not over:
        return
    step.put_queue(tuple(ask for ask in step.group.queue if ask not in over))
    for ask in over:
        seen = (
            f"{active_id} has failed over to {incarnation.host} by itself while the request waited"
        )
        change = f"ask again if {active_id} is to move on, once its standby follows it"
        why = texts.refusal("one-failover", seen, change)
        responses.write(step.draft, ask, texts.FAILED, why)


def why_it_waits(step: GroupStep, ask: PlacementAsk) -> str:
    """Return what a queued request waits for."""
    group = step.group
    if group.action is not None:
        busy = group.action.ask
        return f"waits for action {busy.uuid} on {busy.processor_id} of the same group"
    if group.failover is not None:
        return f"waits until {group.failover.active_id} has failed over"
    if not ownership.is_ready(group, ask):
        return f"waits until {ask.processor_id} runs"
    first = ownership.next_ask(group)
    if first is not None and first != ask:
        return f"waits for request {first.uuid} of the same group, which is older"
    busy = _waits_for_hosts(step, ask)
    if busy is not None:
        return f"waits because {busy}"
    limit = step.limits.max_concurrent_actions
    if len(step.draft.index.acting) >= limit:
        return f"waits because {limit} actions are in flight, the job's limit"
    # Nothing else delays it: a take-over begins nothing before the hosts have registered.
    return "waits until the hosts have registered with the coordinator that took over"


def _begin(step: GroupStep, ask: PlacementAsk, *, accepted: bool) -> None:
    why = _broken_rule(step, ask)
    if why is not None and accepted:
        responses.write(step.draft, ask, texts.FAILED, why)
    elif why is not None:
        responses.refuse(step.draft, ask, why)
    elif ask.kind is RequestKind.START_STANDBY:
        standbys.begin_start(step, ask)
    elif ask.kind is RequestKind.STOP_STANDBY:
        standbys.begin_stop(step, ask)
    else:
        moves.begin(step, ask)


def _broken_rule(step: GroupStep, ask: PlacementAsk) -> str | None:
    """Return what forbids the request now. A lost host is left to the request's expiry."""
    group = step.group
    if ask.processor_id not in group.processors:
        return texts.unknown_processor(ask.processor_id, _known_processors(step.draft))
    superseded = _another_incarnation(group, ask)
    if superseded is not None:
        return superseded
    if moves.is_swap(ask):
        if failover.candidates(step, ask.processor_id):
            return None
        broken = places.refusals(group, step.hosts, ask.processor_id)
        why = "".join(f"; {texts.refusal(b.rule, b.seen, b.change)}" for b in broken)
        pid = ask.processor_id
        return f"no standby container of {pid} runs on a host where {pid} may be{why}"
    mover = ask.processor_id
    if ask.kind is RequestKind.START_STANDBY:
        members = sum(p.role is Role.STANDBY and p.wanted for p in group.processors.values())
        if members >= step.limits.max_standbys:  # earlier requests have filled it
            return too_many_standbys(ask.processor_id, members)
        mover = standbys.new_standby_id(step)
    if ask.kind is RequestKind.STOP_STANDBY or ask.destination_host in naming.DESTINATION_WORDS:
        return None
    broken = rules.violation(group, step.hosts, mover, ask.destination_host)
    if broken is None or broken.rule == rules.HOST_ALIVE:
        return None
    return f"{texts.CONSTRAINTS}; {broken.rule}: {broken.seen}; {broken.change}"


def _another_incarnation(group: Group, ask: PlacementAsk) -> str | None:
    """Return the refusal when the request is about another incarnation; None when it matches."""
    # An active that is down still counts as its last incarnation: its host may return with it, and
    # otherwise the active needs the standby's place.
    if not ask.execution_id:
        return None
    processor = group.processors[ask.processor_id]
    now = processor.incarnation
    if now is not None:
        if now.execution_id == ask.execution_id:
            return None
        seen = f"{now.execution_id} on {now.host}"
    else:
        orphans = (g.incarnation for g in group.orphans if g.processor_id == ask.processor_id)
        ended = () if processor.last_end is None else (processor.last_end,)
        last = max((*orphans, *ended), key=lambda known: known.epoch, default=None)
        if last is not None and last.execution_id == ask.execution_id:
            return None
        seen = "down" if last is None else f"down since {last.execution_id} on {last.host}"
    pid = ask.processor_id
    seen = f"the fail-over is of {ask.execution_id}, and {pid} is {seen} by now"
    return texts.refusal("same-incarnation", seen, f"ask again if {pid} is still to move")


def _waits_for_hosts(step: GroupStep, ask: PlacementAsk) -> str | None:
    """Return which host's turn a request waits for: one that it would touch, or all its choices."""
    touched: set[str] = set()
    processor = step.group.processors.get(ask.processor_id)
    if processor is not None and processor.incarnation is not None:
        touched.add(processor.incarnation.host)
    if moves.is_swap(ask):
        place = moves.place_to_take(step, ask.processor_id)
        touched.update(() if place is None else (place.host,))
    elif ask.destination_host not in naming.DESTINATION_WORDS:
        touched.add(ask.destination_host)  # a stop has "", which nothing touches
    return host_limit.reason_to_wait(step.draft, touched, _not_to_choose(step, ask))


def _not_to_choose(step: GroupStep, ask: PlacementAsk) -> set[str] | None:
    """Return the hosts that the request's choice excludes; None when it chooses no host."""
    if ask.kind is RequestKind.START_STANDBY and ask.destination_host == naming.ANY_HOST:
        mover = standbys.new_standby_id(step)
    elif ask.kind is RequestKind.PLACE and ask.destination_host == naming.ANY_HOST:
        mover = ask.processor_id
    elif ask.kind is RequestKind.PLACE and ask.destination_host == naming.STANDBY:
        place = moves.place_to_take(step, ask.processor_id)
        if place is None:
            return None
        mover = place.standby_id
    else:
        return None
    forbidden = step.forbidden_hosts(mover)
    processor = step.group.processors.get(mover)
    if processor is not None and processor.incarnation is not None:
        forbidden.add(processor.incarnation.host)
    return forbidden


def _in_order(asks: tuple[PlacementAsk, ...]) -> tuple[PlacementAsk, ...]:
    return tuple(sorted(asks, key=lambda ask: (ask.timestamp_ms, ask.uuid)))


# Requests about requests.


def _carry_out(draft: Draft, ask: PlacementAsk) -> None:
    """Carry a request about another request out at once, or refuse it with the reason."""
    step, uuid = draft.of_id(ask.refers_to), ask.refers_to
    action = None if step is None else step.action
    if step is not None and action is not None and action.ask.uuid == uuid:
        refusal = _control_action(step, action, ask)
    elif step is not None and any(queued.uuid == uuid for queued in step.group.queue):
        refusal = _control_queued(step, ask)
    else:
        seen = f"request {uuid} is neither queued nor in flight"
        refusal = texts.refusal("request-under-way", seen, "name one that is, or ask anew")
    if refusal is not None:
        responses.refuse(draft, ask, refusal)
    elif ask.kind is RequestKind.COMMIT:
        responses.write(draft, ask, texts.SUCCEEDED, texts.committed(uuid))
    else:
        released = ask.kind is RequestKind.RELEASE
        responses.write(draft, ask, texts.SUCCEEDED, texts.ended_for(uuid, released=released))


def _control_action(step: GroupStep, action: Action, ask: PlacementAsk) -> str | None:
    """Commit an action or give it up; return why not."""
    uuid, hold = action.ask.uuid, action.ask.hold
    if ask.kind is RequestKind.COMMIT:
        if not (isinstance(action, Move) and hold) or action.stage not in REVOCABLE:
            change = "wait for its end" if hold else "ask with hold for one that waits"
            seen = f"request {uuid} is {action.stage}, it waits for no commit"
            return texts.refusal("held-for-commit", seen, change)
        moves.commit(step, action)
        return None
    if not isinstance(action, (Swap, Move, SpinUp)) or action.stage not in REVOCABLE:
        begun, change = _begun(step.group, action)
        seen = f"request {uuid} is {action.stage}: too late, {begun}"
        return texts.refusal("not-yet-touched", seen, change)
    moves.give_up(step, action, _given_up(step.group, action, ask))
    return None


def _control_queued(step: GroupStep, ask: PlacementAsk) -> str | None:
    """Drop a queued request; return why not."""
    uuid = ask.refers_to
    if ask.kind is RequestKind.COMMIT:
        change = "commit it once it is reserved"
        return texts.refusal("reserved-before-commit", f"request {uuid} is queued", change)
    for queued in step.group.queue:
        if queued.uuid == uuid:
            message = f"{_verb(ask)} before it began; nothing was touched"
            responses.write(step.draft, queued, texts.FAILED, message)
    step.put_queue(tuple(queued for queued in step.group.queue if queued.uuid != uuid))
    return None


def _given_up(group: Group, action: Swap | Move | SpinUp, ask: PlacementAsk) -> str:
    """Return the message on the containers of an action that is given up."""
    if ownership.is_down(group, subject_of(action)):
        down = f"container {subject_of(action)} had ended by itself, it is started again"
        return f"{_verb(ask)}; {down}"
    if isinstance(action, Move) and action.place is not None:
        standby = f"standby {action.place.standby_id}"
        return f"{_verb(ask)} after {standby} gave way; the active runs on untouched"
    return texts.RELEASED if ask.kind is RequestKind.RELEASE else texts.CANCELLED


def _begun(group: Group, action: Action) -> tuple[str, str]:
    """Return what the action has already done to its container, and how to undo it."""
    subject = subject_of(action)
    if isinstance(action, Fallback):
        return f"it has FAILED and {subject} is led back", f"wait until {subject} runs"
    touched = action.place.standby_id if isinstance(action, Swap) else subject
    processor = group.processors.get(touched)
    if processor is None or processor.incarnation is None:
        seen = f"{touched} has no process that is known of"
    elif processor.phase is Phase.STOPPING:
        seen = f"{touched} was told to stop"
    else:
        seen = f"{touched} starts on {processor.incarnation.host}"
    return seen, _way_back(action, subject)


def _way_back(action: Action, subject: str) -> str:
    if isinstance(action, SpinUp):
        return f"ask to stop {subject} once it runs"
    if isinstance(action, StopStandby):
        return "ask for another standby once it has ended"
    if action.ask.destination_host in (naming.LAST_SEEN, naming.FORCE_RESTART_LAST_SEEN):
        return f"wait until {subject} runs again where it was"
    return f"ask to move {subject} back once it has ended"


def _verb(ask: PlacementAsk) -> str:
    return "released" if ask.kind is RequestKind.RELEASE else "cancelled"
