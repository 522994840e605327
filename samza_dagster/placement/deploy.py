"""Deployments and turns to start: a few at a time, everyone eventually."""

from __future__ import annotations

from samza_dagster.placement import (
    containers,
    failover,
    failures,
    orphans,
    ownership,
    responses,
    texts,
)
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.events import JobDeployed
from samza_dagster.placement.state import Group, Phase, Processor, Role


def deployed(draft: Draft, event: JobDeployed) -> None:
    """Begins a deployment. Over an older one: its requests fail, its containers start anew.

    A processor that the new deployment lacks is stopped, and kept until it is dead.
    """
    if event.deployment_id == draft.deployment_id:
        return
    _regroup(draft, event)
    for group in tuple(draft.groups()):
        _abandon(draft, group.group_id, texts.deployment_ended(event.deployment_id))
        orphans.outlived(draft, group.group_id, event.limits.fencing)
        for processor_id in tuple(group.processors):
            _withdraw(draft, group.group_id, processor_id, event)
    draft.deployment_id = event.deployment_id
    draft.limits = event.limits
    for group_id, processor_ids in event.groups.items():
        if draft.find_group(group_id) is None:
            draft.put_group(Group(group_id, {}))
        for place, processor_id in enumerate(processor_ids):
            if processor_id not in draft.group(group_id).processors:
                role = Role.ACTIVE if place == 0 else Role.STANDBY
                _add(draft, group_id, processor_id, role, event)


def start_turns(draft: Draft) -> None:
    """Asks for resources while fewer than the limit are being started.

    In the order of `Turn`: a processor that no host can take holds nobody else up.
    """
    while draft.index.starting < draft.limits.max_concurrent_starts:
        turn = draft.index.next_turn(draft.now_ms)
        if turn is None:
            return
        preferred = containers.preferred_host(
            draft, draft.processor(turn.group_id, turn.processor_id)
        )
        failover.go(draft, turn.group_id, turn.processor_id, preferred)


def regrouping_over(draft: Draft) -> None:
    """Once the last older owner has ended, whoever has reserved a place may start."""
    if not draft.regrouped_epoch:
        return
    if ownership.older_owner(draft.groups(), draft.regrouped_epoch) is None:
        draft.regrouped_epoch = 0
        draft.unsettled.update(group.group_id for group in draft.groups())


def _regroup(draft: Draft, event: JobDeployed) -> None:
    """Invariant 3 is about tasks: where they change groups, a group's own past isn't enough.

    A group that a still older deployment has left behind is none of those that change.
    """
    before = {
        group.group_id
        for group in draft.groups()
        if any(processor.wanted for processor in group.processors.values())
    }
    if before and (event.grouping != draft.grouping or before != set(event.groups)):
        draft.regrouped_epoch = draft.next_epoch
    draft.grouping = event.grouping


def _abandon(draft: Draft, group_id: str, message: str) -> None:
    """Ends the group's action and failover, and fails all that wait."""
    group = draft.group(group_id)
    action = group.action
    draft.put_failover(group_id, None)
    if action is not None:
        responses.give_back(draft, action)
        if action.stage not in ownership.FALLBACK:
            responses.fail(draft, group_id, action, message)
        draft.put_action(group_id, None)
    for ask in group.queue:
        responses.write(draft, ask, texts.FAILED, message)
    if group.queue:
        draft.put_queue(group_id, ())


def _withdraw(draft: Draft, group_id: str, processor_id: str, event: JobDeployed) -> None:
    wanted = processor_id in event.groups.get(group_id, ())
    containers.drop_request(draft, group_id, processor_id)
    processor = draft.processor(group_id, processor_id)
    if processor.incarnation is None and not wanted:
        draft.remove_processor(group_id, processor_id)
        return
    draft.put_processor(
        group_id,
        processor.evolve(
            wanted=wanted,
            extra=False,
            attempts=0,
            avoid_hosts=(),
            failed_at_ms=(),
            stalled_at_ms=(),
            unplaced=False,
            sought=(),
            not_before_ms=min(processor.not_before_ms, draft.now_ms + failures.LONGEST_PAUSE_MS),
        ),
    )
    if processor.phase in (Phase.STARTING, Phase.RUNNING):
        containers.stop(draft, group_id, processor_id)


def _add(draft: Draft, group_id: str, processor_id: str, role: Role, event: JobDeployed) -> None:
    # One that an earlier deployment had may have left an orphan, which it then follows.
    own = [g for g in draft.group(group_id).orphans if g.processor_id == processor_id]
    draft.put_processor(
        group_id,
        Processor(
            processor_id,
            role,
            Phase.WAITING,
            last_end=ownership.newest_end(*(orphan.end for orphan in own)),
            last_seen_host=event.last_seen_hosts.get(processor_id),
            waiting_since_ms=draft.now_ms,
            not_before_ms=draft.now_ms,
        ),
    )
