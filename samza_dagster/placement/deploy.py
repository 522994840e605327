"""Deployments and turns to start: a few at a time, every processor eventually."""

from __future__ import annotations

from samza_dagster.placement import (
    containers,
    failover,
    failures,
    hosts,
    ownership,
    responses,
    texts,
)
from samza_dagster.placement.draft import Draft, GroupStep
from samza_dagster.placement.events import JobDeployed
from samza_dagster.placement.state import Fallback, Group, Phase, Processor, Role


def begin_deployment(draft: Draft, event: JobDeployed) -> None:
    """Begin a deployment; requests under an older one fail and its containers restart.

    A processor that the new deployment lacks is stopped, and kept until it is dead.
    """
    if event.deployment_id == draft.deployment_id:
        return
    _regroup(draft, event)
    for group in tuple(draft.groups()):
        step = draft.at(group.group_id)
        _abandon(step, texts.failed(f"deployment {event.deployment_id} began"))
        hosts.outlive_orphans(step, event.limits.fencing)
        for processor_id in group.processors:
            _withdraw(step, processor_id, event)
    draft.deployment_id = event.deployment_id
    draft.limits = event.limits
    for group_id, processor_ids in event.groups.items():
        step = draft.at(group_id)
        if step.found is None:
            step.put(Group(group_id, {}))
        for place, processor_id in enumerate(processor_ids):
            if processor_id not in step.group.processors:
                role = Role.ACTIVE if place == 0 else Role.STANDBY
                _add(step, processor_id, role, event)


def start_turns(draft: Draft) -> None:
    """Request resources while fewer processors than the limit are starting.

    Follows the order of `Turn`. A processor that no host can take delays no other.
    """
    while draft.index.starting < draft.limits.max_concurrent_starts:
        turn = draft.index.next_turn(draft.now_ms)
        if turn is None:
            return
        step = draft.at(turn.group_id)
        preferred = containers.preferred_host(step, step.processor(turn.processor_id))
        failover.request_preferred(step, turn.processor_id, preferred)


def end_regrouping(draft: Draft) -> None:
    """Allow starts again once the last owner under the older grouping has ended."""
    if not draft.regrouped_epoch:
        return
    if ownership.older_owner(draft.groups(), draft.regrouped_epoch) is None:
        draft.regrouped_epoch = 0
        draft.unsettled.update(group.group_id for group in draft.groups())


def _regroup(draft: Draft, event: JobDeployed) -> None:
    """Hold all starts back where tasks change groups: a group's own past isn't enough then.

    Invariant 3 is about tasks. A group that a still older deployment left behind doesn't count as
    changed.
    """
    before = {
        group.group_id
        for group in draft.groups()
        if any(processor.wanted for processor in group.processors.values())
    }
    if before and (event.grouping != draft.grouping or before != set(event.groups)):
        draft.regrouped_epoch = draft.next_epoch
    draft.grouping = event.grouping


def _abandon(step: GroupStep, message: str) -> None:
    """End the group's action and failover, and fail all queued requests."""
    action, queue = step.action, step.group.queue
    step.put_failover(None)
    if action is not None:
        responses.give_back(step, action)
    if isinstance(action, Fallback):
        step.put_action(None)
    elif action is not None:
        responses.fail(step, action, message)
    for ask in queue:
        responses.write(step.draft, ask, texts.FAILED, message)
    if queue:
        step.put_queue(())


def _withdraw(step: GroupStep, processor_id: str, event: JobDeployed) -> None:
    wanted = processor_id in event.groups.get(step.group_id, ())
    containers.drop_request(step, processor_id)
    processor = step.processor(processor_id)
    if processor.incarnation is None and not wanted:
        step.remove_processor(processor_id)
        return
    step.change(
        processor_id,
        wanted=wanted,
        extra=False,
        attempts=0,
        avoid_hosts=(),
        failed_at_ms=(),
        stalled_at_ms=(),
        unplaced=False,
        sought=(),
        not_before_ms=min(processor.not_before_ms, step.now_ms + failures.LONGEST_PAUSE_MS),
    )
    if processor.phase in (Phase.STARTING, Phase.RUNNING):
        containers.stop(step, processor_id)


def _add(step: GroupStep, processor_id: str, role: Role, event: JobDeployed) -> None:
    # An orphan of an earlier deployment may be the predecessor of this processor.
    own = [g for g in step.group.orphans if g.processor_id == processor_id]
    step.put_processor(
        Processor(
            processor_id,
            role,
            Phase.WAITING,
            last_end=ownership.newest_end(*(orphan.end for orphan in own)),
            last_seen_host=event.last_seen_hosts.get(processor_id),
            waiting_since_ms=step.now_ms,
            not_before_ms=step.now_ms,
        )
    )
