"""Placement requests: taken once, refused with a reason, or queued until their turn."""

from __future__ import annotations

from collections.abc import Callable

from samza_dagster.model import naming
from samza_dagster.model.own_requests import RequestKind
from samza_dagster.placement import (
    actions,
    controls,
    failover,
    host_limit,
    ownership,
    places,
    responses,
    rules,
    spin_up,
    swaps,
    texts,
)
from samza_dagster.placement.commands import DeleteRequest
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.explain import refusal_of_ask, too_many_standbys
from samza_dagster.placement.state import Group, PlacementAsk, Role


def arrived(draft: Draft, ask: PlacementAsk, no_start_because: str = "") -> None:
    """Takes a request off the stream: deleted in any case, answered unless stale or known.

    What is stopped must be able to start again: nothing is begun while it isn't.
    """
    draft.emit(DeleteRequest(ask.uuid, ask.own))
    if ask.deployment_id != draft.deployment_id or draft.knows(ask.uuid):
        return
    draft.remember(ask.uuid)
    if ask.kind.is_about_another:
        controls.carry_out(draft, ask)
        return
    group = draft.group_with(ask.processor_id)
    refusal = refusal_of_ask(draft.hosts, draft.limits, group, ask)
    if group is None or refusal is not None:
        if group is None or refusal is None or refusal == texts.UNKNOWN_PROCESSOR:
            refusal = texts.unknown_processor(ask.processor_id, _known(draft))
        _refuse(draft, ask, refusal)
        return
    if group.processors[ask.processor_id].incarnation is not None:
        # What has a successor never comes back: to wait for its turn would change nothing.
        superseded = _another_incarnation(group, ask)
        if superseded is not None:
            _refuse(draft, ask, superseded)
            return
    if no_start_because:
        _refuse(draft, ask, f"{texts.NO_START}; {no_start_because}")
        return
    draft.put_queue(group.group_id, _in_order((*group.queue, ask)))
    take_turns(draft, unanswered=ask.uuid)
    left = draft.find_group(group.group_id)
    if left is not None and ask in left.queue:
        why = why_it_waits(draft, left, ask)
        responses.write(draft, ask, texts.ACCEPTED, texts.accepted(why))


def _known(draft: Draft) -> list[str]:
    """The processors that a request may name."""
    groups = draft.groups()
    return sorted(pid for group in groups for pid, p in group.processors.items() if p.wanted)


def take_turns(draft: Draft, *, unanswered: str | None = None) -> None:
    """Begins what may begin, oldest first over the whole job.

    `unanswered` is a request without a response: it may still be refused; one that
    was ACCEPTED can only fail.
    """
    held_back = 0  # so many of the oldest wait for their hosts, as things are now
    while len(draft.index.acting) < draft.limits.max_concurrent_actions:
        asks = draft.index.asks
        if len(asks) <= held_back:
            break
        group = draft.group(asks[held_back].group_id)
        ask = ownership.next_ask(group)
        assert ask is not None
        if _waits_for_hosts(draft, group, ask) is not None:
            held_back += 1
            continue
        draft.put_queue(group.group_id, tuple(q for q in group.queue if q != ask))
        _begin(draft, draft.group(group.group_id), ask, accepted=ask.uuid != unanswered)
        held_back = 0


def failed_over_already(draft: Draft, group_id: str, active_id: str) -> None:
    """The active runs where its standby was, by nobody's request: a fail-over that waited is over.

    Begun now it would take a healthy active onto a standby that has only started to follow.
    """
    group = draft.group(group_id)
    incarnation = group.processors[active_id].incarnation
    assert incarnation is not None
    over = [
        ask
        for ask in group.queue
        if ask.kind is RequestKind.FAIL_OVER and ask.processor_id == active_id
    ]
    if not over:
        return
    draft.put_queue(group_id, tuple(ask for ask in group.queue if ask not in over))
    for ask in over:
        why = texts.failed_over_already(active_id, incarnation.host)
        responses.write(draft, ask, texts.FAILED, why)


def why_it_waits(draft: Draft, group: Group, ask: PlacementAsk) -> str:
    """For what a queued request waits."""
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
    busy = _waits_for_hosts(draft, group, ask)
    if busy is not None:
        return f"waits because {busy}"
    limit = draft.limits.max_concurrent_actions
    if len(draft.index.acting) >= limit:
        return f"waits because {limit} actions are in flight, the job's limit"
    # Nothing is in its way: a take-over begins nothing before it has heard of the hosts.
    return "waits until the hosts have registered with the coordinator that took over"


def _begin(draft: Draft, group: Group, ask: PlacementAsk, *, accepted: bool) -> None:
    why = _broken_rule(draft, group, ask)
    if why is not None:
        if accepted:
            responses.write(draft, ask, texts.FAILED, why)
        else:
            _refuse(draft, ask, why)
        return
    begin: Callable[[Draft, str, PlacementAsk], None]
    if swaps.is_swap(ask):
        begin = swaps.begin
    elif ask.kind is RequestKind.START_STANDBY:
        begin = spin_up.begin_start
    elif ask.kind is RequestKind.STOP_STANDBY:
        begin = spin_up.begin_stop
    else:
        begin = actions.begin
    begin(draft, group.group_id, ask)


def _broken_rule(draft: Draft, group: Group, ask: PlacementAsk) -> str | None:
    """What forbids the request now. A lost host is left to the request's expiry."""
    if ask.processor_id not in group.processors:
        return texts.unknown_processor(ask.processor_id, _known(draft))
    superseded = _another_incarnation(group, ask)
    if superseded is not None:
        return superseded
    if swaps.is_swap(ask):
        if failover.candidates(draft, group, ask.processor_id):
            return None
        broken = places.refusals(group, draft.hosts, ask.processor_id)
        return texts.no_standby(
            ask.processor_id, [f"{b.rule}: {b.seen}; {b.change}" for b in broken]
        )
    mover = ask.processor_id
    if ask.kind is RequestKind.START_STANDBY:
        standbys = sum(p.role is Role.STANDBY and p.wanted for p in group.processors.values())
        if standbys >= draft.limits.max_standbys:  # others were asked for before it
            return too_many_standbys(ask.processor_id, standbys)
        mover = spin_up.new_standby_id(draft, group)
    if ask.kind is RequestKind.STOP_STANDBY or ask.destination_host in naming.DESTINATION_WORDS:
        return None
    broken = rules.violation(group, draft.hosts, mover, ask.destination_host)
    if broken is None or broken.rule == rules.HOST_ALIVE:
        return None
    return f"{texts.CONSTRAINTS}; {broken.rule}: {broken.seen}; {broken.change}"


def _another_incarnation(group: Group, ask: PlacementAsk) -> str | None:
    """Whether the active isn't the incarnation that was asked about; None also when any is meant.

    One that is down is its last incarnation still: its host may come back with it, and else
    the standby's place is what it needs.
    """
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
    return texts.another_incarnation(ask.processor_id, ask.execution_id, seen)


def _waits_for_hosts(draft: Draft, group: Group, ask: PlacementAsk) -> str | None:
    """For which host's turn the request waits: one that it would touch, or all it could choose."""
    touched: set[str] = set()
    processor = group.processors.get(ask.processor_id)
    if processor is not None and processor.incarnation is not None:
        touched.add(processor.incarnation.host)
    if swaps.is_swap(ask):
        touched.update(swaps.target_host(draft, group, ask.processor_id))
    elif ask.destination_host not in naming.DESTINATION_WORDS:
        touched.add(ask.destination_host)  # of a stop "", which nothing touches
    return host_limit.why_not(draft, touched, _not_to_choose(draft, group, ask))


def _not_to_choose(draft: Draft, group: Group, ask: PlacementAsk) -> set[str] | None:
    """The hosts that its choice excludes; None when it chooses no host."""
    if ask.kind is RequestKind.START_STANDBY and ask.destination_host == naming.ANY_HOST:
        mover = spin_up.new_standby_id(draft, group)
    elif ask.kind is RequestKind.PLACE and ask.destination_host == naming.ANY_HOST:
        mover = ask.processor_id
    elif ask.kind is RequestKind.PLACE and ask.destination_host == naming.STANDBY:
        ranked = failover.candidates(draft, group, ask.processor_id)
        if not ranked:
            return None
        mover = ranked[0]
    else:
        return None
    forbidden = draft.forbidden_hosts(group.group_id, mover)
    processor = group.processors.get(mover)
    if processor is not None and processor.incarnation is not None:
        forbidden.add(processor.incarnation.host)
    return forbidden


def _in_order(asks: tuple[PlacementAsk, ...]) -> tuple[PlacementAsk, ...]:
    return tuple(sorted(asks, key=lambda ask: (ask.timestamp_ms, ask.uuid)))


def _refuse(draft: Draft, ask: PlacementAsk, reason: str) -> None:
    responses.write(draft, ask, texts.BAD_REQUEST, texts.bad_request(reason))
