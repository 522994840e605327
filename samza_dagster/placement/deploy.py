"""Deployments and turns to start: a few at a time, everyone eventually."""

from __future__ import annotations

from dataclasses import replace

from samza_dagster.placement import actions, containers, texts
from samza_dagster.placement.commands import ReleaseResource
from samza_dagster.placement.draft import Draft
from samza_dagster.placement.events import JobDeployed
from samza_dagster.placement.state import Group, Phase, Processor, Role, Stage


def deployed(draft: Draft, event: JobDeployed) -> None:
    """Begins a deployment. Over an older one: its requests fail, its containers start anew.

    A processor that the new deployment lacks is stopped, and kept until it is dead.
    """
    if event.deployment_id == draft.deployment_id:
        return
    for group_id in tuple(draft.groups):
        actions.abandon(draft, group_id, texts.deployment_ended(event.deployment_id))
        for processor_id in tuple(draft.group(group_id).processors):
            _withdraw(draft, group_id, processor_id, event)
    draft.deployment_id = event.deployment_id
    draft.limits = event.limits
    for group_id, processor_ids in event.groups.items():
        if group_id not in draft.groups:
            draft.put_group(Group(group_id, {}))
        for place, processor_id in enumerate(processor_ids):
            if processor_id not in draft.group(group_id).processors:
                role = Role.ACTIVE if place == 0 else Role.STANDBY
                _add(draft, group_id, processor_id, role, event)


def start_turns(draft: Draft) -> None:
    """Asks for resources while fewer than the limit are being started.

    First those with the fewest tries since they last ran, then actives, then who has
    waited longest: a processor that no host can take holds nobody else up.
    """
    while _starting(draft) < draft.limits.max_concurrent_starts:
        turn = min(_waiting(draft), default=None)
        if turn is None:
            return
        *_, group_id, processor_id = turn
        processor = draft.processor(group_id, processor_id)
        containers.ask(draft, group_id, processor_id, containers.preferred_host(draft, processor))
        actions.follow(draft, group_id)


def _waiting(draft: Draft) -> list[tuple[int, bool, int, int, str, str]]:
    turns: list[tuple[int, bool, int, int, str, str]] = []
    for group in draft.groups.values():
        for pid, processor in group.processors.items():
            if processor.phase is not Phase.WAITING or processor.not_before_ms > draft.now_ms:
                continue
            if actions.owns(group, pid, Stage.RESERVING):
                continue
            standby = processor.role is Role.STANDBY
            since = processor.waiting_since_ms
            turns.append((processor.attempts, standby, since, len(pid), group.group_id, pid))
    return turns


def _starting(draft: Draft) -> int:
    """Processors that are being started outside of an action's own limit."""
    return sum(
        1
        for group in draft.groups.values()
        for pid, processor in group.processors.items()
        if processor.phase in (Phase.REQUESTING, Phase.STARTING)
        and not actions.owns(group, pid, Stage.STARTING)
    )


def _withdraw(draft: Draft, group_id: str, processor_id: str, event: JobDeployed) -> None:
    processor = draft.processor(group_id, processor_id)
    wanted = processor_id in event.groups.get(group_id, ())
    if processor.request is not None:
        draft.emit(ReleaseResource(processor.request.request_id))
        containers.wait(draft, group_id, processor_id, not_before_ms=draft.now_ms)
        processor = draft.processor(group_id, processor_id)
    if processor.incarnation is None and not wanted:
        draft.remove_processor(group_id, processor_id)
        return
    draft.put_processor(group_id, replace(processor, wanted=wanted, attempts=0, avoid_host=None))
    if processor.phase in (Phase.STARTING, Phase.RUNNING):
        containers.stop(draft, group_id, processor_id)


def _add(draft: Draft, group_id: str, processor_id: str, role: Role, event: JobDeployed) -> None:
    draft.put_processor(
        group_id,
        Processor(
            processor_id,
            role,
            Phase.WAITING,
            last_seen_host=event.last_seen_hosts.get(processor_id),
            waiting_since_ms=draft.now_ms,
            not_before_ms=draft.now_ms,
        ),
    )
